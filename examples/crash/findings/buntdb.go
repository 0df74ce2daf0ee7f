// Commits to a BuntDB database that syncs each of them, and shrinks its file: `load work FILE N`.
// `load check FILE N` looks for N commits. For examples/crash/findings/buntdb.sh.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/tidwall/buntdb"
)

func main() {
	db, err := buntdb.Open(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	commits, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	if os.Args[1] == "work" {
		err = work(db, commits)
	} else {
		err = check(db, commits)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
}

func work(db *buntdb.DB, commits int) error {
	config := buntdb.Config{SyncPolicy: buntdb.Always, AutoShrinkDisabled: true}
	if err := db.SetConfig(config); err != nil {
		return err
	}
	for number := 1; number <= commits; number++ {
		err := db.Update(func(tx *buntdb.Tx) error {
			_, _, err := tx.Set(fmt.Sprint("key ", number), "value", nil)
			return err
		})
		if err != nil {
			return err
		}
		fmt.Println("committed", number)
	}
	if err := db.Shrink(); err != nil {
		return err
	}
	fmt.Println("shrunk")
	return nil
}

func check(db *buntdb.DB, commits int) error {
	return db.View(func(tx *buntdb.Tx) error {
		found, err := tx.Len()
		if err == nil && found < commits {
			err = fmt.Errorf("%d commits were synced, and %d are left", commits, found)
		}
		return err
	})
}
