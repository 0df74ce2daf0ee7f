//! Images that are damaged, marked or not closed: what each command of `stasis image` does with them.

use std::path::PathBuf;

use crate::call;

const CLUSTER: usize = 64 << 10;

/// A disk, and its image, in which clusters 2 to 5 have data.
struct Folder {
    folder: tempfile::TempDir,
    disk: Vec<u8>,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = vec![0; 1 << 20];
        (2..6).for_each(|cluster| disk[cluster * CLUSTER..][..CLUSTER].fill(cluster as u8));
        std::fs::write(folder.path().join("disk.img"), &disk).unwrap();
        let all = Self { folder, disk };
        assert_eq!(all.run(&["convert", "disk.img", "disk.qcow2"]).0, 0);
        all
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The exit status, and what is printed: the answer and the error.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let names = ["img", "qcow2", "raw"];
        let words = words.iter().map(|word| match word.rsplit_once('.') {
            Some((_, end)) if names.contains(&end) => self.path(word).to_str().unwrap().to_owned(),
            _ => (*word).to_owned(),
        });
        let words: Vec<_> = ["image".to_owned()].into_iter().chain(words).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let output = call::call(env!("CARGO_BIN_EXE_stasis"), &words);
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(!err.contains("panicked"), "{words:?}: {err}");
        (output.status.code().unwrap(), out, err)
    }

    /// The image with these numbers in its L2 table, by entry, and in its header, by place.
    fn damaged(&self, entries: &[(usize, u64)], header: &[(usize, u64)]) {
        let mut file = std::fs::read(self.path("disk.qcow2")).unwrap();
        let number =
            |file: &[u8], at: usize| u64::from_be_bytes(file[at..at + 8].try_into().unwrap());
        let l1 = number(&file, 40) as usize;
        let l2 = (number(&file, l1) & 0xff_ffff_ffff_fe00) as usize;
        for &(entry, value) in entries {
            let value = if value < 16 { number(&file, l2 + 8 * value as usize) } else { value };
            file[l2 + 8 * entry..][..8].copy_from_slice(&value.to_be_bytes());
        }
        for &(at, value) in header {
            file[at..at + 8].copy_from_slice(&value.to_be_bytes());
        }
        std::fs::write(self.path("damaged.qcow2"), file).unwrap();
    }

    /// Output of a rescue, and the disk that it makes.
    fn rescued(&self, from: &str, status: i32) -> (String, Vec<u8>) {
        let words = ["convert", "--rescue", from, "rescued.raw", "--to", "raw"];
        let (exit, out, error) = self.run(&words);
        assert_eq!(exit, status, "{out}{error}");
        let disk = std::fs::read(self.path("rescued.raw")).unwrap();
        std::fs::remove_file(self.path("rescued.raw")).unwrap();
        (out, disk)
    }
}

#[test]
fn what_is_lost_is_named_and_the_rest_is_copied() {
    let folder = Folder::new();
    for from in ["disk.qcow2", "disk.img"] {
        let (out, disk) = folder.rescued(from, 0);
        assert!(out.contains("all of its disk was read") && disk == folder.disk, "{out}");
    }
    folder.damaged(&[(3, 1 << 63 | 1 << 40), (5, 1 << 63 | 1 << 40)], &[]);
    let (status, out, _) = folder.run(&["check", "damaged.qcow2"]);
    assert!(status == 2 && out.contains("convert --rescue"), "{status} {out}");
    let (status, out, _) = folder.run(&["info", "damaged.qcow2"]);
    assert!(status == 0 && out.contains("cannot be used: "), "{status} {out}");
    for words in [&["map", "damaged.qcow2"][..], &["convert", "damaged.qcow2", "copy.qcow2"]] {
        let (status, _, error) = folder.run(words);
        assert!(status == 125 && error.contains("convert --rescue"), "{status} {error}");
    }
    let (out, disk) = folder.rescued("damaged.qcow2", 2);
    let rows: Vec<_> =
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(rows[0][..3], ["0x30000", "0x10000", "lost:"], "{out}");
    assert_eq!(rows[1][..3], ["0x50000", "0x10000", "lost:"], "{out}");
    assert!(
        out.ends_with("damaged.qcow2: 128KiB lost, which are zeroes now; 0B doubtful\n"),
        "{out}"
    );
    let mut expected = folder.disk.clone();
    [3, 5].iter().for_each(|cluster| expected[cluster * CLUSTER..][..CLUSTER].fill(0));
    assert!(disk == expected);
    let (status, out, _) =
        folder.run(&["convert", "--rescue", "--json", "damaged.qcow2", "rescued.qcow2"]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &document["status"]), (2, &2.into()), "{out}");
    assert_eq!(document["ranges"][1]["offset"], 0x50000, "{out}");
    assert_eq!(document["ranges"][1]["fate"], "lost", "{out}");
    let (out, disk) = folder.rescued("rescued.qcow2", 0);
    assert!(disk == expected, "{out}");
}

#[test]
fn what_may_be_something_else_is_doubtful() {
    let folder = Folder::new();
    // The cluster of entry 2 for entry 7 too.
    folder.damaged(&[(7, 2)], &[]);
    let (out, disk) = folder.rescued("damaged.qcow2", 3);
    assert!(out.contains("doubtful: ") && out.contains("0B lost"), "{out}");
    assert!(disk[7 * CLUSTER..][..CLUSTER] == [2; CLUSTER]);
}

#[test]
fn marks_of_an_image_are_told_and_it_is_read() {
    let folder = Folder::new();
    let copies = || {
        let words = ["convert", "damaged.qcow2", "copy.raw", "--to", "raw"];
        assert_eq!(folder.run(&words).0, 0);
        let copy = std::fs::read(folder.path("copy.raw")).unwrap();
        std::fs::remove_file(folder.path("copy.raw")).unwrap();
        copy == folder.disk
    };
    folder.damaged(&[], &[(72, 2)]);
    let (status, out, _) = folder.run(&["check", "damaged.qcow2"]);
    assert!(status == 0 && out.contains("marked as corrupt") && copies(), "{out}");
    let (status, _, error) = folder.run(&["grow", "damaged.qcow2", "2MiB"]);
    assert!(status == 125 && error.contains("marked as corrupt"), "{error}");
    // The first refcounts, of the header and the tables.
    let file = std::fs::read(folder.path("disk.qcow2")).unwrap();
    let number = |at: usize| u64::from_be_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    folder.damaged(&[], &[(72, 1), (number(number(48)), 0)]);
    let (status, out, _) = folder.run(&["check", "damaged.qcow2"]);
    assert!(status == 2 && out.contains("not closed") && copies(), "{out}");
    let (status, out, _) = folder.run(&["info", "damaged.qcow2"]);
    assert!(status == 0 && out.contains("not closed"), "{out}");
}

#[test]
fn without_its_backing_file_an_image_is_described_and_its_own_part_rescued() {
    let folder = Folder::new();
    let base = folder.path("disk.qcow2");
    let over = ["create", "--backing", base.to_str().unwrap(), "over.qcow2"];
    assert_eq!(folder.run(&over).0, 0);
    std::fs::remove_file(&base).unwrap();
    let (status, out, _) = folder.run(&["info", "over.qcow2"]);
    assert!(status == 0 && out.contains("is missing"), "{out}");
    let (out, disk) = folder.rescued("over.qcow2", 2);
    assert!(out.contains("lost: what is below") && disk == vec![0; 1 << 20], "{out}");
}
