//! Damages of a sealed folder.

use proptest::prelude::*;
use stasis_kept_files::{check, check_again, is_sealed, is_sound, seal, Damage};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A sealed folder: a file with holes, an empty one, one that ends within a page, and one below.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let ram = File::create(folder.path().join("ram")).unwrap();
    ram.set_len(3 << 20).unwrap();
    for (at, byte) in [(0, 1u8), (1 << 20, 2), ((2 << 20) + 4096, 3)] {
        ram.write_all_at(&[byte; 5000], at).unwrap();
    }
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("state"), vec![7; 9001]).unwrap();
    fs::create_dir(folder.path().join("modules")).unwrap();
    fs::write(folder.path().join("modules/a.ko"), "a module").unwrap();
    fs::write(folder.path().join("log"), "left out").unwrap();
    seal(folder.path(), &["log"]).unwrap();
    folder
}

/// Another time of the last write than any before, on file systems that count in coarse steps too.
fn touched(file: &File) {
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
}

fn damage(folder: &Path) -> String {
    let found = check(folder).unwrap_err();
    assert!(matches!(found, Damage::Bytes(_) | Damage::File { .. }));
    found.to_string()
}

proptest! {
    #[test]
    fn a_flipped_bit_is_found_and_named(which in 0usize..3, place in any::<u64>(), bit in 0u8..8) {
        let folder = folder();
        check(folder.path()).unwrap();
        let name = ["ram", "state", "modules/a.ko"][which];
        let file = File::options().read(true).write(true).open(folder.path().join(name)).unwrap();
        let at = place % file.metadata().unwrap().len();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
        touched(&file);
        let found = damage(folder.path());
        prop_assert!(found.contains(name) && found.contains("other bytes"), "{found}");
        file.write_all_at(&byte, at).unwrap();
        check(folder.path()).unwrap();
    }

    #[test]
    fn a_flipped_bit_of_the_list_is_found(place in any::<usize>(), bit in 0u8..8) {
        let folder = folder();
        let path = folder.path().join("digests");
        let mut bytes = fs::read(&path).unwrap();
        let at = place % bytes.len();
        bytes[at] ^= 1 << bit;
        fs::write(&path, bytes).unwrap();
        prop_assert!(damage(folder.path()).contains("digests"));
    }
}

#[test]
fn a_file_that_is_cut_longer_or_gone_is_found() {
    for name in ["ram", "state", "empty", "modules/a.ko"] {
        for change in [-1i64, 1, 5000] {
            let folder = folder();
            let file = File::options().write(true).open(folder.path().join(name)).unwrap();
            let length = file.metadata().unwrap().len();
            let Some(length) = length.checked_add_signed(change) else { continue };
            file.set_len(length).unwrap();
            assert!(damage(folder.path()).contains(name), "{name} {change}");
        }
        let folder = folder();
        fs::remove_file(folder.path().join(name)).unwrap();
        assert!(damage(folder.path()).contains(name), "{name}");
    }
    let folder = folder();
    fs::write(folder.path().join("log"), "another").unwrap();
    fs::write(folder.path().join("new"), "one that came later").unwrap();
    check(folder.path()).unwrap();
}

#[test]
fn holes_are_zeros() {
    let folder = folder();
    let bytes = fs::read(folder.path().join("ram")).unwrap();
    fs::write(folder.path().join("ram"), bytes).unwrap();
    check(folder.path()).unwrap();
}

#[test]
fn a_folder_without_digests_or_with_none_is_not_sound() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!is_sealed(folder.path()));
    assert!(damage(folder.path()).contains("digests"));
    for bytes in [&b""[..], b"\n", b"\xff\n", &[b'0'; 32], b"0 a\n"] {
        fs::write(folder.path().join("digests"), bytes).unwrap();
        assert!(damage(folder.path()).contains("digests"));
    }
    seal(folder.path(), &[]).unwrap();
    assert!(is_sealed(folder.path()));
    check(folder.path()).unwrap();
}

#[test]
fn what_was_found_sound_is_trusted_for_a_time_only() {
    let folder = folder();
    // Changed behind the system's back: the same inode, length and time.
    let file = File::options().write(true).open(folder.path().join("state")).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(&[8], 0).unwrap();
    file.set_modified(before).unwrap();
    check(folder.path()).unwrap();
    let found = check_again(folder.path(), Duration::ZERO).unwrap_err();
    assert!(found.to_string().contains("state"));
    // Another start of the system, and a time to come.
    let sound = folder.path().join("sound");
    let text = fs::read_to_string(&sound).unwrap();
    let later = text.replace('\n', "\n9");
    for text in [text.replacen(|c: char| c.is_ascii_hexdigit(), "x", 1), later] {
        fs::write(&sound, text).unwrap();
        assert!(damage(folder.path()).contains("state"));
    }
}

#[test]
fn a_file_in_no_list_is_read_once() {
    let folder = folder();
    let path = folder.path().join("log");
    assert!(!is_sound(&path, || false));
    assert!(is_sound(&path, || true));
    assert!(is_sound(&path, || panic!("it is known")));
    check(folder.path()).unwrap();
    fs::write(&path, "other").unwrap();
    assert!(!is_sound(&path, || false));
    assert!(!is_sound(&folder.path().join("none"), || true));
}
