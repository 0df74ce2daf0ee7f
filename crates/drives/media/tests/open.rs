//! Media that cannot be used: one clear message each.

use std::fs;
use std::path::Path;
use std::time::Duration;

use stasis_media::{Execution, MediumSpec, OpenError, OpenOptions};

fn open(table: &str, base: &Path) -> Result<u64, OpenError> {
    let spec: MediumSpec = serde_json::from_str(table).unwrap();
    let options = OpenOptions { execution: Execution::Synchronous, delay: Duration::ZERO, base };
    spec.open(&options).map(|medium| medium.capacity())
}

#[test]
fn each_message_names_the_path_the_cause_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    let file = |name: &str, size| fs::File::create(base.join(name)).unwrap().set_len(size).unwrap();
    file("empty.img", 0);
    file("small.img", 1 << 19);
    file("odd.img", (1 << 20) + 511);
    file("half.img", (1 << 20) + 512);
    fs::create_dir(base.join("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        base.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    for (table, parts) in [
        (r#"{"file": "none.img"}"#, ["none.img: there is no", "size=1GiB", "--drive"]),
        (r#"{"file": "no/x.img", "size": "1MiB"}"#, ["no: there", "no such folder", "mkdir -p"]),
        (r#"{"file": "empty.img"}"#, ["empty.img", "is empty", "truncate -s 1G"]),
        (r#"{"file": "small.img"}"#, ["small.img", "512KiB is too small", "truncate -s 1G"]),
        (r#"{"file": "odd.img"}"#, ["odd.img", "not a multiple of 512", "truncate -s %512"]),
        (
            r#"{"file": "half.img", "direct": true}"#,
            ["half.img", "not a multiple of 4096", "truncate -s %4096"],
        ),
        (r#"{"file": "half.img", "size": "1MiB"}"#, ["half.img", "not the 1MiB", "delete it"]),
        (r#"{"file": "new.img", "size": "1KiB"}"#, ["new.img", "1KiB is too small", "1MiB"]),
        (r#"{"file": "folder"}"#, ["folder", "a directory", "name an image"]),
        (r#"{"file": "fifo"}"#, ["fifo", "neither a regular file", "name one"]),
        (r#"{"device": "half.img"}"#, ["half.img", "not a block device", "file:"]),
        (r#"{"device": "none"}"#, ["none", "no such device", "lsblk"]),
        (r#"{"ram": "1KiB"}"#, ["1KiB of RAM", "at least 1MiB", "multiple of 512"]),
        (r#"{"ram": 1048577}"#, ["1048.577kB of RAM", "at least 1MiB", "multiple of 512"]),
    ] {
        let message = open(table, base).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{table}: {message}");
        }
    }
    assert!(!base.join("new.img").exists(), "a wrong size leaves no image behind");
    assert_eq!(open(r#"{"file": "half.img"}"#, base).unwrap(), (1 << 20) + 512);
}

#[test]
fn an_image_is_made_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let table = r#"{"file": "new.img", "size": "2MiB"}"#;
    assert_eq!(open(table, folder.path()).unwrap(), 2 << 20);
    fs::write(folder.path().join("new.img"), vec![7; 2 << 20]).unwrap();
    assert_eq!(open(table, folder.path()).unwrap(), 2 << 20);
    assert_eq!(fs::read(folder.path().join("new.img")).unwrap(), vec![7; 2 << 20]);
}

#[test]
fn two_runs_never_share_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let spec = MediumSpec::File { path: "disk.img".into(), size: Some(1 << 20), direct: false };
    for execution in [Execution::Synchronous, Execution::Asynchronous] {
        let options = OpenOptions { execution, delay: Duration::ZERO, base: folder.path() };
        let first = spec.open(&options).unwrap();
        let error = spec.open(&options).err().expect("a second run was let in");
        assert!(matches!(error, OpenError::Locked(_)), "{error}");
        drop(first);
        spec.open(&options).unwrap();
    }
}
