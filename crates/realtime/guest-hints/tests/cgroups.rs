//! Weights in folders that look like cgroups, and settings in one that looks like
//! a drive's.

use std::fs;
use std::path::{Path, PathBuf};

use stasis_guest_hints::cgroup::{Cgroup, Weights};
use stasis_guest_hints::drive::Drive;
use stasis_guest_hints::Error;

/// A folder with these files.
fn folder(within: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = within.join(name);
    fs::create_dir(&folder).unwrap();
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
    }
    folder
}

fn says(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap().trim().to_owned()
}

#[test]
fn weights_are_raised_and_restored() {
    let all = tempfile::tempdir().unwrap();
    let state = all.path().join("state");
    let new = folder(all.path(), "v2", &[("io.bfq.weight", "default 100\n")]);
    let old = folder(
        all.path(),
        "v1",
        &[("blkio.bfq.weight", "200\n"), ("blkio.bfq.weight_device", "default 200\n")],
    );
    let mut cgroup = Cgroup::open(&new, Some(&state)).unwrap();
    cgroup.raise(700).unwrap();
    assert_eq!(says(&new, "io.bfq.weight"), "700");
    cgroup.raise(700).unwrap();
    cgroup.restore().unwrap();
    assert_eq!(says(&new, "io.bfq.weight"), "100");
    // Dropping it restores as well.
    cgroup.raise(1000).unwrap();
    drop(cgroup);
    assert_eq!(says(&new, "io.bfq.weight"), "100");
    let mut cgroup = Cgroup::open(&old, Some(&state)).unwrap();
    cgroup.raise(1000).unwrap();
    assert_eq!(says(&old, "blkio.bfq.weight"), "1000");
    // Without a folder for notes nothing is written.
    let mut dry = Cgroup::open(&new, None).unwrap();
    dry.raise(1000).unwrap();
    assert_eq!(says(&new, "io.bfq.weight"), "100");
}

#[test]
fn a_killed_processs_weights_are_restored() {
    let all = tempfile::tempdir().unwrap();
    let state = all.path().join("state");
    let path = folder(all.path(), "v2", &[("io.bfq.weight", "default 100\n")]);
    let mut killed = Cgroup::open(&path, Some(&state)).unwrap();
    killed.raise(1000).unwrap();
    // Another process at the same time is turned away.
    let error = Cgroup::open(&path, Some(&state)).unwrap_err();
    assert!(matches!(error, Error::Coordinated(_)), "{error}");
    let note = fs::read_dir(&state).unwrap().next().unwrap().unwrap().path();
    let noted = fs::read(&note).unwrap();
    drop(killed);
    // As if it had not restored it.
    fs::write(path.join("io.bfq.weight"), "default 1000\n").unwrap();
    fs::write(&note, &noted).unwrap();
    drop(Cgroup::open(&path, Some(&state)).unwrap());
    assert_eq!(says(&path, "io.bfq.weight"), "100");
    assert_eq!(fs::read(&note).unwrap(), b"");
    // A weight that another program has set since is left.
    fs::write(path.join("io.bfq.weight"), "default 300\n").unwrap();
    fs::write(&note, &noted).unwrap();
    drop(Cgroup::open(&path, Some(&state)).unwrap());
    assert_eq!(says(&path, "io.bfq.weight"), "default 300");
    // A note that was cut short is of nothing.
    for length in 0..noted.len() {
        fs::write(&note, &noted[..length]).unwrap();
        drop(Cgroup::open(&path, Some(&state)).unwrap());
        assert_eq!(says(&path, "io.bfq.weight"), "default 300");
    }
}

#[test]
fn weights_of_single_drives_are_raised_too() {
    let read = |text: &str| Weights::parse(text).map(|weights| weights.to_string());
    assert_eq!(read("default 100\n8:0 50\n").as_deref(), Some("default 100\n8:0 50\n"));
    assert_eq!(read("100\n").as_deref(), Some("default 100\n"));
    for wrong in ["", "x", "default", "default 0", "8:0 50", "default 1\nsda 3", "default 1\n8: 3"]
    {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn what_is_no_cgroup_of_bfqs_is_told() {
    let all = tempfile::tempdir().unwrap();
    let open = |name: &str, files: &[(&str, &str)]| {
        let path = folder(all.path(), name, files);
        Cgroup::open(&path, None).unwrap_err().to_string()
    };
    let cases: [(&[(&str, &str)], &str); 7] = [
        (&[], "is no cgroup"),
        (&[("cgroup.procs", ""), ("cgroup.controllers", "io cpu")], "is the root"),
        (
            &[
                ("cgroup.procs", ""),
                ("cgroup.controllers", "cpu memory"),
                ("cgroup.type", "domain"),
            ],
            "cgroup.subtree_control",
        ),
        (
            &[("cgroup.procs", ""), ("cgroup.controllers", "io"), ("cgroup.type", "domain")],
            "CONFIG_BFQ_GROUP_IOSCHED",
        ),
        (&[("cgroup.procs", ""), ("memory.limit_in_bytes", "1")], "another hierarchy"),
        (&[("cgroup.procs", ""), ("blkio.reset_stats", "")], "modprobe bfq"),
        (&[("io.bfq.weight", "heavy\n")], "says `heavy`"),
    ];
    for (number, (files, expected)) in cases.iter().enumerate() {
        let error = open(&number.to_string(), files);
        assert!(error.contains(expected), "{error}");
    }
    let error = Cgroup::open(Path::new("/no/such/cgroup"), None).unwrap_err().to_string();
    assert!(error.contains("there is no cgroup /no/such/cgroup"), "{error}");
}

#[test]
fn a_drive_is_strict_for_a_while() {
    let all = tempfile::tempdir().unwrap();
    let state = all.path().join("state");
    let block = all.path().join("sdz");
    fs::create_dir_all(block.join("queue")).unwrap();
    let files = [("strict_guarantees", "0\n"), ("slice_idle", "2\n")];
    let bfq = folder(&block.join("queue"), "iosched", &files);
    let mut drive = Drive::of(&block, &state).unwrap();
    drive.tighten().unwrap();
    // As the kernel does.
    fs::write(bfq.join("slice_idle"), "8\n").unwrap();
    assert_eq!(says(&bfq, "strict_guarantees"), "1");
    let note = fs::read_dir(&state).unwrap().next().unwrap().unwrap().path();
    let noted = fs::read(&note).unwrap();
    let settings = || [says(&bfq, "strict_guarantees"), says(&bfq, "slice_idle")];
    drive.restore().unwrap();
    assert_eq!(settings(), ["0", "2"]);
    drop(drive);
    // A killed process has left it strict.
    fs::write(bfq.join("strict_guarantees"), "1\n").unwrap();
    fs::write(bfq.join("slice_idle"), "8\n").unwrap();
    fs::write(&note, noted).unwrap();
    drop(Drive::of(&block, &state).unwrap());
    assert_eq!(settings(), ["0", "2"]);
    // One that was strict before stays so.
    fs::write(bfq.join("strict_guarantees"), "1\n").unwrap();
    let mut drive = Drive::of(&block, &state).unwrap();
    drive.tighten().unwrap();
    drive.restore().unwrap();
    assert_eq!(settings(), ["1", "2"]);
}
