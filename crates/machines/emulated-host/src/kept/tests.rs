use super::*;
use std::sync::RwLock;

fn key(name: &str) -> Key {
    Key::new(name)
}

#[test]
fn the_least_recently_used_machines_go() {
    let _none_starts = STARTS.read();
    let parent = tempfile::tempdir().unwrap();
    let store = Store::new(parent.path().into());
    for age in 0..7u64 {
        let kept = store.get(key(&age.to_string()), |path| {
            fs::create_dir(path).map_err(Error::io("cannot create", path))
        });
        let when = SystemTime::now() - Duration::from_secs(100 * age);
        File::open(&kept.unwrap().folder).unwrap().set_modified(when).unwrap();
    }
    // The last one is the newest when it is made.
    let ages: Vec<u64> = (0..7).filter(|age: &u64| store.has(key(&age.to_string()))).collect();
    assert_eq!(ages, [0, 1, 2, 6]);
}

#[test]
fn all_machines_go_but_those_in_use() {
    let _none_starts = STARTS.read();
    let parent = tempfile::tempdir().unwrap();
    let store = Store::new(parent.path().into());
    let make = |path: &Path| fs::create_dir(path).map_err(Error::io("cannot create", path));
    let used = store.get(key("used"), make).unwrap();
    drop(store.get(key("free"), make).unwrap());
    assert!(!store.wanted_again(key("other"), 1).unwrap());
    store.clear();
    assert!(store.has(key("used")) && !store.has(key("free")));
    assert!(!store.wanted_again(key("other"), 1).unwrap(), "that is forgotten");
    drop(used);
    store.clear();
    assert!(!store.has(key("used")));
}

#[test]
fn a_file_that_is_written_or_replaced_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let name = || {
        let mut key = key("of");
        key.file(&path).unwrap();
        key.name()
    };
    fs::write(&path, "one").unwrap();
    let date = fs::metadata(&path).unwrap().modified().unwrap();
    let first = name();
    assert_eq!(name(), first);
    fs::write(folder.path().join("new"), "two").unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(date).unwrap();
    assert_ne!(name(), first);
}

#[test]
fn a_machine_is_made_once_and_wanted_again_after_that() {
    let parent = tempfile::tempdir().unwrap();
    let store = Store::new(parent.path().join("machines"));
    assert!(!store.wanted_again(key("a"), 1).unwrap());
    assert!(store.wanted_again(key("a"), 1).unwrap());
    assert_eq!([0; 3].map(|_| store.wanted_again(key("b"), 2).unwrap()), [false, false, true]);
    let mut made = 0;
    for _ in 0..2 {
        let make = |path: &Path| {
            made += 1;
            fs::create_dir(path).map_err(Error::io("cannot create", path))
        };
        store.get(key("a"), make).unwrap();
    }
    assert_eq!(made, 1);
    let failed = store.get(key("c"), |_| Err(Error::QemuMissing));
    assert!(failed.is_err() && !store.has(key("c")));
}

#[test]
fn a_removal_is_told_where_it_fails_and_not_where_another_was_first() {
    let parent = tempfile::tempdir().unwrap();
    let store = Store::new(parent.path().into());
    let make = |path: &Path| fs::create_dir(path).map_err(Error::io("cannot create", path));
    let (first, second) = (store.get(key("a"), make).unwrap(), store.get(key("a"), make).unwrap());
    first.discard().unwrap();
    assert!(!store.has(key("a")));
    second.discard().unwrap();
    // A name that may not be longer.
    let folder = parent.path().join("x".repeat(255));
    fs::create_dir(&folder).unwrap();
    let lock = File::create(parent.path().join("lock")).unwrap();
    let kept = Kept { folder: folder.clone(), note: None, private: false, _lock: lock };
    let message = kept.discard().unwrap_err().to_string();
    assert!(message.contains(&format!("cannot remove {}", folder.display())), "{message}");
}

#[test]
fn what_killed_programs_left_goes_with_the_next_machine() {
    let parent = tempfile::tempdir().unwrap();
    let store = Store::new(parent.path().into());
    let make = |path: &Path| fs::create_dir(path).map_err(Error::io("cannot create", path));
    let own = store.private(make).unwrap();
    for name in ["other.new", "other.7-0.gone", "private-1-0"] {
        fs::create_dir_all(parent.path().join(name).join("inside")).unwrap();
    }
    drop(store.get(key("a"), make).unwrap());
    let folders_of = |private: bool| {
        let folders = entries(parent.path()).filter(|path| path.is_dir());
        folders.filter(|path| is_private(path) == private).collect::<Vec<_>>()
    };
    assert_eq!(folders_of(true), std::slice::from_ref(&own.folder));
    assert_eq!(folders_of(false), [parent.path().join(key("a").name())]);
    drop(own);
    assert!(folders_of(true).is_empty());
}

/// Held exclusively while a test starts a process, which has all locks of this one until it is
/// its program; shared where a test asks whether a lock is free.
static STARTS: RwLock<()> = RwLock::new(());

/// Folder of machines for a process that races.
const RACE: &str = "STASIS_TEST_RACE";

/// Takes part in a race for the machine of one key: it is made, found damaged, damaged and
/// discarded by whoever comes. Gives how often it was made and damaged here.
fn race(parent: &Path, seed: u32, turns: u32) -> (u32, u32) {
    let store = Store::new(parent.join("machines"));
    let (mut made, mut damaged) = (0, 0);
    for turn in 0..turns {
        let kept = store.get(key("raced"), |new| {
            let _none_starts = STARTS.read();
            let making = File::create(parent.join("making")).unwrap();
            assert!(try_lock(&making), "two make it at once");
            let word = format!("{}-{seed}-{turn}", std::process::id());
            fs::create_dir(new).map_err(Error::io("cannot create", new))?;
            fs::write(new.join("begin"), &word).unwrap();
            std::thread::yield_now();
            fs::write(new.join("end"), &word).unwrap();
            made += 1;
            Ok(())
        });
        let kept = kept.unwrap();
        let read = |name: &str| fs::read_to_string(kept.folder.join(name));
        let (begin, end) = (read("begin"), read("end"));
        match (begin, end) {
            (Ok(begin), Ok(end)) => assert_eq!(begin, end, "a part of one and a part of another"),
            // Another one has just discarded it.
            _ => assert!(!kept.folder.exists(), "only a part is there"),
        }
        if !kept.folder.exists() || kept.folder.join("damaged").exists() {
            kept.discard().unwrap();
        } else if (turn + seed).is_multiple_of(3) {
            let damage = File::create_new(kept.folder.join("damaged"));
            damaged += u32::from(damage.is_ok());
        }
    }
    (made, damaged)
}

#[test]
fn threads_that_make_and_discard_one_machine_never_see_a_part_of_it() {
    let parent = tempfile::tempdir().unwrap();
    let racers: Vec<_> = (0..8)
        .map(|seed| {
            let parent = parent.path().to_owned();
            std::thread::spawn(move || race(&parent, seed, 300))
        })
        .collect();
    let ended = racers.into_iter().map(|racer| racer.join().unwrap());
    let (made, damaged) = ended.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    assert!(damaged > 10, "there was no race");
    // Each damage costs a machine, and no sound one is discarded.
    assert!(made <= damaged + 1, "{made} made, {damaged} damaged");
}

/// A process of the test below.
#[test]
fn a_racing_process() {
    if let Some(parent) = std::env::var_os(RACE) {
        race(Path::new(&parent), std::process::id(), u32::MAX);
    }
}

#[test]
fn processes_that_are_killed_leave_a_whole_machine_or_none() {
    let parent = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "kept::tests::a_racing_process"]).env(RACE, parent.path());
        let _alone = STARTS.write();
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let store = Store::new(parent.path().join("machines"));
    let mut racers: Vec<_> = (0..4).map(|_| start()).collect();
    for turn in 0..40 {
        // In any state of theirs.
        std::thread::sleep(Duration::from_millis(5 + 7 * (turn % 5)));
        let mut one = racers.remove(0);
        assert!(one.try_wait().unwrap().is_none(), "it has failed");
        one.kill().unwrap();
        one.wait().unwrap();
        racers.push(start());
        race(parent.path(), turn as u32, 3);
        if turn % 10 == 9 {
            store.clear();
        }
    }
    for mut racer in racers {
        racer.kill().unwrap();
        racer.wait().unwrap();
    }
    race(parent.path(), 1, 1);
    store.clear();
    let folders: Vec<_> =
        entries(&parent.path().join("machines")).filter(|path| path.is_dir()).collect();
    assert!(folders.is_empty(), "{folders:?}");
}
