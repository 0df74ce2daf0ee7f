//! A file that is no root, damaged, hostile or too large causes an error with the file's name.

use super::*;
use tar::EntryType::{Link, Regular, Symlink};

fn bad(bytes: &[u8], expected: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let tree = read(file.path()).and_then(|tree| tree.check().map(|()| tree));
    let text = refused(tree);
    assert!(text.contains(expected), "{expected:?} is not in: {text}");
    assert!(text.contains(file.path().to_str().unwrap()), "it names no file: {text}");
}

#[test]
fn a_root_without_a_shell() {
    let without: Vec<Item> =
        items().into_iter().filter(|item| !matches!(item, Item::Link("usr/bin/sh", _))).collect();
    bad(&archive(&without), "it has no /bin/sh");
    bad(&raw_archive(&[]), "neither a folder, nor a tar archive");
    let folder = folder(&without);
    let text = refused(read(folder.path()).and_then(|tree| tree.check().map(|()| tree)));
    assert!(
        text.contains("no /bin/sh") && text.contains(folder.path().to_str().unwrap()),
        "{text}"
    );
    let empty = tempfile::tempdir().unwrap();
    let text = refused(read(empty.path()).and_then(|tree| tree.check().map(|()| tree)));
    assert!(text.contains("it is empty"), "{text}");
}

#[test]
fn a_shell_that_no_guest_can_start() {
    let with = |shell: Item| archive(&[Item::Folder("bin", 0o755), shell]);
    bad(&with(Item::File("bin/sh", 0o755, program(183))), "not for x86-64");
    bad(&with(Item::File("bin/sh", 0o644, program(62))), "not executable");
    bad(&with(Item::File("bin/sh", 0o755, b"#!/bin/bash".to_vec())), "no ELF program");
    bad(&with(Item::Folder("bin/sh", 0o755)), "no file");
    bad(&with(Item::Link("bin/sh", "sh")), "too many links");
    let loader = program_with("/lib64/ld-linux-x86-64.so.2");
    bad(&with(Item::File("bin/sh", 0o755, loader)), "needs /lib64/ld-linux-x86-64.so.2");
}

#[test]
fn paths_that_lead_out() {
    bad(&raw_archive(&[("../../etc/passwd", Regular, "")]), "climbs out");
    bad(&raw_archive(&[("a/../../b", Regular, "")]), "climbs out");
    bad(&raw_archive(&[("a", Link, "../../etc/shadow")]), "climbs out");
    bad(&raw_archive(&[("a", Link, "/etc/shadow")]), "leads to /etc/shadow, which it has not");
    bad(&raw_archive(&[("a", Symlink, "")]), "has no target");
    // A link that leads out leads nowhere but into the root itself, as it does for a guest.
    let outside = raw_archive(&[
        ("etc", Symlink, "/../../../../var/etc"),
        ("etc/passwd", Regular, ""),
        ("/absolute", Regular, ""),
    ]);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), outside).unwrap();
    let tree = read(file.path()).unwrap();
    assert!(tree.at("/var/etc/passwd").is_some() && tree.at("/absolute").is_some());
}

#[test]
fn too_much_of_anything() {
    let limits = Limits { bytes: 1 << 20, entries: 5, ..Limits::default() };
    let plain = archive(&items());
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &plain).unwrap();
    let text = refused(read_with(file.path(), limits));
    assert!(text.contains("more than 5 files"), "{text}");
    let text = refused(read_with(file.path(), Limits { entries: 1000, ..limits }));
    assert!(text.contains("more than 1 MiB of files") && text.contains("large"), "{text}");
    // A bomb: little on the disk, much in it.
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut header = tar::Header::new_gnu();
    header.set_path("zeroes").unwrap();
    header.set_size(64 << 20);
    header.set_cksum();
    gzip.write_all(header.as_bytes()).unwrap();
    gzip.write_all(&vec![0; 64 << 20]).unwrap();
    fs::write(file.path(), gzip.finish().unwrap()).unwrap();
    assert!(fs::metadata(file.path()).unwrap().len() < 100_000);
    let text = refused(read_with(file.path(), limits));
    assert!(text.contains("gzip stream holds more than 1 MiB"), "{text}");
    // A name of many megabytes.
    let mut long = tar::Header::new_gnu();
    long.set_path("././@LongLink").unwrap();
    long.set_entry_type(tar::EntryType::GNULongName);
    long.set_size(8 << 20);
    long.set_cksum();
    let mut bytes = long.as_bytes().to_vec();
    bytes.resize(bytes.len() + (8 << 20), b'x');
    bytes.extend(raw_archive(&[("x", Regular, "")]));
    bad(&bytes, "too long");
    bad(
        &raw_archive(&[(&"d/".repeat(45), Regular, ""), ("x", tar::EntryType::new(b'?'), "")]),
        "unknown kind",
    );
}

#[test]
fn damaged_archives() {
    let whole = archive(&items());
    bad(&whole[..whole.len() / 2], "cut short");
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    bad(&damaged, "damaged");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &whole).unwrap();
    let packed = gzip.finish().unwrap();
    bad(&packed[..packed.len() / 2], "gzip stream is damaged");
    bad(b"BZh91AY", "bzip2");
}

#[test]
fn images_without_a_linux() {
    bad(&vec![0; 1 << 20], "no Linux");
    bad(b"text", "neither a folder, nor a tar archive, nor a disk image");
    let mut squash = vec![0; 1 << 20];
    squash[..4].copy_from_slice(b"hsqs");
    bad(&squash, "SquashFS");
    let mut qcow2 = vec![0; 1 << 16];
    qcow2[..8].copy_from_slice(b"QFI\xfb\0\0\0\x09");
    bad(&qcow2, "qcow2 version 9");
    let (_folder, path) = image(&mut read_bytes(&archive(&items())).unwrap());
    let mut unclean = fs::read(path).unwrap();
    unclean[1024 + 0x60] |= 4;
    bad(&unclean, "e2fsck -p");
}

/// Whichever file's first extent it is: nothing is left for the copy, or the guest, to trip over.
#[test]
fn files_with_blocks_beyond_the_end() {
    /// The magic number of a node of extents without levels below (ext4/ifork.rst).
    const LEAF: [u8; 2] = [0x0a, 0xf3];
    let (_folder, path) = image(&mut read_bytes(&archive(&items())).unwrap());
    let whole = fs::read(path).unwrap();
    let mut tried = 0;
    for at in (0..whole.len() - 24).step_by(4) {
        let node = &whole[at..at + 24];
        // One entry or more, of four at most, in an inode.
        if node[..2] == LEAF && (1..=4).contains(&node[2]) && node[4..8] == [4, 0, 0, 0] {
            let mut damaged = whole.clone();
            damaged[at + 12 + 6] = 1;
            bad(&damaged, "block");
            tried += 1;
        }
    }
    assert!(tried > 5, "{tried} files with extents");
}

#[test]
fn what_is_not_there_or_may_not_be_read() {
    let folder = folder(&items());
    let text =
        Source::find(folder.path().join("absent").to_str().unwrap()).unwrap_err().to_string();
    assert!(text.contains("absent"), "{text}");
    let text = Source::find("/dev/null").unwrap_err().to_string();
    assert!(text.contains("/dev/null") && text.contains("neither a folder nor a file"), "{text}");
    let closed = folder.path().join("usr/empty");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    // Root may read everything.
    if fs::read_dir(&closed).is_err() {
        let text = refused(read(folder.path()));
        assert!(text.contains("usr/empty") && text.contains("ermission"), "{text}");
        let text = Source::find(closed.to_str().unwrap()).unwrap_err().to_string();
        assert!(text.contains("usr/empty"), "{text}");
        let walked = crate::folder::of_host(folder.path(), Limits::default()).unwrap();
        assert_eq!(walked.left_out, 1);
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

/// The archive is small, however large the file that a header describes.
#[test]
fn files_with_holes_that_are_not_so() {
    let header = |map: &str, size: &str| {
        let record = |key: &str, value: &str| {
            let rest = format!(" GNU.sparse.{key}={value}\n");
            // The length counts its own digits.
            let length = (1..).find(|n| rest.len() + n.to_string().len() == *n).unwrap();
            format!("{length}{rest}")
        };
        let text = [record("map", map), record("size", size), record("name", "holes")].concat();
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::XHeader);
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, "x", text.as_bytes()).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(1024);
        header.set_mode(0o644);
        tar.append_data(&mut header, "GNUSparseFile.0/holes", &[7; 1024][..]).unwrap();
        tar.into_inner().unwrap()
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), header("512,512,4096,9", "4105")).unwrap();
    let tree = read(file.path()).unwrap();
    let id = tree.at("/holes").unwrap();
    let Kind::File(content) = &tree.node(id).kind else { panic!("no file") };
    let mut expected = vec![0; 4105];
    expected[512..1024].fill(7);
    expected[4096..].fill(7);
    assert_eq!(content.start(9999).unwrap(), expected);
    for map in ["0,512,100,512", "0,1025", "0,511,512,1", "0,512,x", "5", "0,18446744073709551615"]
    {
        bad(&header(map, "4105"), "list of holes is damaged, in holes");
    }
    bad(&header("0,512", "100"), "list of holes is damaged");
    bad(&header("0,512", "9999999999999"), "more than 3072 MiB of files");
}
