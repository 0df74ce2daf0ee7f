//! A folder with one of every kind of file, through every way into a guest.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::{unpack, Pack};

/// Returns whether the test may make devices, owners and rights.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes every kind of entry below `in/`.
const EVERY_KIND: &str = include_str!("every-kind.sh");

/// A folder with every kind of entry.
fn every_kind() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new("sh").args(["-ec", EVERY_KIND]).current_dir(folder.path()).status();
    assert!(status.unwrap().success());
    if is_root() {
        // cap_net_raw, in the second form of linux/capability.h.
        let mut rights = vec![0; 20];
        rights[..4].copy_from_slice(&0x0200_0001u32.to_le_bytes());
        rights[4..8].copy_from_slice(&(1u32 << 13).to_le_bytes());
        let flags = rustix::fs::XattrFlags::empty();
        let path = folder.path().join("in/tool");
        rustix::fs::lsetxattr(path, "security.capability", &rights, flags).unwrap();
    }
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("in/socket")).unwrap());
    folder
}

/// Attributes of an entry that a way need not keep.
#[derive(Clone, Copy)]
struct Kept {
    owners: bool,
    times: bool,
    sockets: bool,
}

const ALL: Kept = Kept { owners: true, times: true, sockets: true };

/// Every entry below a folder with all that is kept of it.
fn entries(folder: &Path, kept: Kept) -> BTreeMap<Vec<u8>, String> {
    let mut all = BTreeMap::new();
    // Names of one file have one number.
    let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
    let mut todo: BTreeSet<Vec<u8>> = BTreeSet::from([b"in".to_vec()]);
    while let Some(name) = todo.pop_first() {
        let path = folder.join(OsStr::from_bytes(&name));
        let status = fs::symlink_metadata(&path).unwrap();
        let kind = status.mode() >> 12;
        let mut text = format!("kind {kind:o} mode {:o}", status.mode() & 0o7777);
        if kept.owners {
            text += &format!(" owner {}:{}", status.uid(), status.gid());
        }
        if kept.times {
            text += &format!(" time {}", status.mtime());
        }
        let mut rights = [0; 64];
        if let Ok(length) = rustix::fs::lgetxattr(&path, "security.capability", &mut rights) {
            text += &format!(" rights {:x?}", &rights[..length]);
        }
        if status.is_dir() {
            for entry in fs::read_dir(&path).unwrap() {
                let below = entry.unwrap().file_name();
                todo.insert([&name, &b"/"[..], below.as_bytes()].concat());
            }
        } else if status.nlink() > 1 {
            let next = numbers.len();
            let number = numbers.entry(status.ino()).or_insert(next);
            text += &format!(" file {number} of {} names", status.nlink());
        }
        if status.is_symlink() {
            text += &format!(" to {:?}", fs::read_link(&path).unwrap());
        } else if status.is_file() {
            let digest = crate::sha256::digest(&fs::read(&path).unwrap());
            let holes = status.blocks() * 512 < status.size().saturating_sub(64 << 10);
            text += &format!(" {} bytes {digest}, holes {holes}", status.size());
        } else if kind == 0o2 || kind == 0o6 {
            text += &format!(" device {:x}", status.rdev());
        }
        if kept.sockets || kind != 0o14 {
            all.insert(name, text);
        }
    }
    all
}

/// Nothing is missing, and nothing is otherwise.
fn same(found: &BTreeMap<Vec<u8>, String>, expected: &BTreeMap<Vec<u8>, String>, way: &str) {
    for (name, text) in expected {
        let name_text = String::from_utf8_lossy(name);
        assert_eq!(found.get(name), Some(text), "{way}: {name_text}");
    }
    assert_eq!(found.len(), expected.len(), "{way}");
}

fn packed(folder: &Path) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.add(&folder.join("in"), Path::new("in")).unwrap();
    pack.whole().unwrap()
}

#[test]
fn what_a_pack_leaves_out_has_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("in")).unwrap();
    fs::write(at("in/noted"), "").unwrap();
    fs::write(at("in/plain"), "").unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let noted = rustix::fs::lsetxattr(at("in/noted"), "user.note", b"x", flags);
    drop(std::os::unix::net::UnixListener::bind(at("in/socket")).unwrap());
    let mut pack = Pack::default();
    pack.add(&at("in"), Path::new("root/in")).unwrap();
    let mut wanted = vec!["/root/in/noted: user.note", "/root/in/socket: a socket"];
    if noted.is_err() {
        // Some file systems for temporary files have none.
        wanted.remove(0);
    }
    assert_eq!(pack.left_out(), wanted);
}

/// GNU tar's archive of the folder.
fn gnu_archive(folder: &Path, options: &str) -> Vec<u8> {
    // Other forms have no room for rights.
    let rights = if options.contains("pax") { "--xattrs --xattrs-include='*'" } else { "" };
    let line = format!("tar {options} {rights} -cf - in 2>/dev/null");
    let output = Command::new("sh").args(["-c", &line]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}");
    output.stdout
}

/// Unpacks an archive with GNU tar.
fn gnu_unpacked(archive: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("archive");
    fs::write(&file, archive).unwrap();
    let line = "tar --xattrs --xattrs-include='*' -xpf archive 2>/dev/null && rm archive";
    let status = Command::new("sh").args(["-c", line]).current_dir(folder.path()).status();
    assert!(status.unwrap().success());
    folder
}

fn unpacked(archive: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    unpack(archive, folder.path()).unwrap();
    folder
}

#[test]
fn files_for_a_guest_arrive_as_they_are() {
    let source = every_kind();
    let kept = Kept { owners: false, times: false, sockets: false };
    let expected = entries(source.path(), kept);
    let archive = packed(source.path());
    let here = unpacked(&archive);
    same(&entries(here.path(), kept), &expected, "packed and unpacked");
    // All are root's, or this user's, and of one time; so that the archive is always the same.
    let root = fs::metadata(here.path()).unwrap();
    for entry in fs::read_dir(here.path().join("in")).unwrap() {
        let status = fs::symlink_metadata(entry.unwrap().path()).unwrap();
        assert_eq!((status.uid(), status.gid()), (root.uid(), root.gid()));
        assert_eq!(status.mtime(), 1_153_704_088);
    }
    assert!(packed(source.path()) == archive);
    // Once more over what is there already.
    unpack(&archive[..], here.path()).unwrap();
    same(&entries(here.path(), kept), &expected, "unpacked twice");
    // GNU tar understands the archive.
    let theirs = gnu_unpacked(&archive);
    let own = entries(here.path(), Kept { sockets: false, ..ALL });
    same(&entries(theirs.path(), ALL), &own, "unpacked by GNU tar");
}

#[test]
fn archives_of_gnu_tar_are_unpacked_as_by_gnu_tar() {
    if !is_root() {
        return;
    }
    let source = every_kind();
    let expected = entries(source.path(), Kept { sockets: false, ..ALL });
    for options in ["--format=gnu --sparse", "--format=pax", "--format=gnu"] {
        let archive = gnu_archive(source.path(), options);
        let (ours, theirs) = (unpacked(&archive), gnu_unpacked(&archive));
        let theirs = entries(theirs.path(), ALL);
        same(&entries(ours.path(), ALL), &theirs, options);
        let names = |all: &BTreeMap<Vec<u8>, String>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&theirs), names(&expected), "{options}");
    }
}

/// A root is the same as a folder, as an archive of GNU tar, as an archive for a guest, and as an
/// image.
#[test]
fn a_root_is_the_same_in_every_form() {
    let source = every_kind();
    let of_folder = read(source.path()).unwrap();
    let without_sockets = |tree: &Tree, times: bool| {
        let mut lines = listing(tree, times);
        lines.retain(|line| !line.contains(" Socket"));
        lines
    };
    let expected = without_sockets(&of_folder, true);
    assert!(expected.len() > 45, "{expected:#?}");
    if is_root() {
        for options in ["--format=pax", "--format=pax --sparse"] {
            let archive = gnu_archive(source.path(), options);
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), &archive).unwrap();
            assert_eq!(without_sockets(&read(file.path()).unwrap(), true), expected, "{options}");
        }
    }
    let mut tree = read(source.path()).unwrap();
    let (_folder, path) = image(&mut tree);
    let again = crate::read_image(&path).unwrap();
    assert_eq!(listing(&again, true), listing(&of_folder, true));
    // For a guest's files all are root's, of one time.
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), packed(source.path())).unwrap();
    let owned = |lines: Vec<String>| -> Vec<String> {
        let field = |line: &String| {
            line.split_whitespace().filter(|word| !word.contains(':')).collect::<Vec<_>>().join(" ")
        };
        lines.iter().map(field).collect()
    };
    let of_pack = owned(without_sockets(&read(file.path()).unwrap(), false));
    assert_eq!(of_pack, owned(without_sockets(&of_folder, false)));
}

#[test]
fn an_entry_stays_below_its_folder() {
    for path in ["../out", "in/../../out"] {
        let archive = raw_archive(&[(path, tar::EntryType::Regular, "")]);
        let here = tempfile::tempdir().unwrap();
        let inner = here.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let error = unpack(&archive[..], &inner).unwrap_err().to_string();
        assert!(error.contains("climbs out"), "{error}");
        assert!(!here.path().join("out").exists());
    }
}

#[test]
fn holes_in_a_form_that_only_a_root_may_have_are_refused() {
    let source = every_kind();
    let archive = gnu_archive(source.path(), "--format=pax --sparse");
    let here = tempfile::tempdir().unwrap();
    let error = unpack(&archive[..], here.path()).unwrap_err().to_string();
    assert!(error.contains("holes in the form of PAX"), "{error}");
}

#[test]
fn what_cannot_be_packed_is_named() {
    let mut pack = Pack::default();
    let error = pack.add(Path::new("/nowhere/at/all"), Path::new("x")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all"), "{error}");
    assert_eq!(pack.whole().unwrap(), vec![0; 1024]);
}
