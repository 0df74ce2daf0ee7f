//! One root in each of its forms, and each of those broken.

mod bad;
mod forms;
mod in_place;
mod noise;
mod ways;

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;

use crate::content::Content;
use crate::tree::{Kind, ROOT};
use crate::{Form, Limits, RootError, Source, Tree};

/// Time of all files here.
const TIME: u64 = 1_700_000_000;

/// A program of nothing but an ELF header, for the machine with this number.
fn program(machine: u16) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    bytes[16..18].copy_from_slice(&2u16.to_le_bytes());
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes
}

/// A program that names its loader.
fn program_with(loader: &str) -> Vec<u8> {
    let mut bytes = program(62);
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[54..58].copy_from_slice(&[56, 0, 1, 0]);
    let mut header = vec![0; 56];
    header[0] = 3;
    header[8..16].copy_from_slice(&120u64.to_le_bytes());
    header[32..40].copy_from_slice(&(loader.len() as u64 + 1).to_le_bytes());
    bytes.extend(header);
    bytes.extend(loader.as_bytes());
    bytes.push(0);
    bytes
}

/// A name in a root, and the object that it stands for.
#[derive(Debug, Clone)]
enum Item {
    Folder(&'static str, u32),
    File(&'static str, u32, Vec<u8>),
    Link(&'static str, &'static str),
    Hard(&'static str, &'static str),
}

/// Bytes that are the same nowhere.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

/// A root with one of everything.
fn items() -> Vec<Item> {
    use Item::{File, Folder, Hard, Link};
    let long = "very/long/target/".repeat(9).leak();
    vec![
        Folder("usr", 0o755),
        Folder("usr/bin", 0o755),
        Folder("usr/empty", 0o700),
        Folder("etc", 0o755),
        File("usr/bin/dash", 0o755, program(62)),
        Link("usr/bin/sh", "dash"),
        Link("bin", "usr/bin"),
        File("etc/passwd", 0o644, b"root:x:0:0::/root:/bin/sh\n".to_vec()),
        File("etc/shadow", 0o640, Vec::new()),
        File("usr/large", 0o4755, pattern(3_000_001)),
        Hard("usr/again", "usr/large"),
        Link("usr/long", long),
        Link("etc/absolute", "/usr/bin"),
    ]
}

/// The items in a folder.
fn folder(items: &[Item]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = |name: &str, mode| {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for item in items {
        match item {
            Item::Folder(name, _) => fs::create_dir_all(at(name)).unwrap(),
            Item::File(name, bits, bytes) => {
                fs::write(at(name), bytes).unwrap();
                mode(name, *bits);
                let file = fs::File::open(at(name)).unwrap();
                file.set_modified(UNIX_EPOCH + Duration::from_secs(TIME)).unwrap();
            }
            Item::Link(name, target) => symlink(target, at(name)).unwrap(),
            Item::Hard(name, target) => fs::hard_link(at(target), at(name)).unwrap(),
        }
    }
    for item in items.iter().rev() {
        if let Item::Folder(name, bits) = item {
            mode(name, *bits);
        }
    }
    folder
}

/// The items in a tar archive.
fn archive(items: &[Item]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for item in items {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(TIME);
        let (name, kind, mode, bytes) = match item {
            Item::Folder(name, mode) => (name, tar::EntryType::Directory, *mode, &[][..]),
            Item::File(name, mode, bytes) => (name, tar::EntryType::Regular, *mode, &bytes[..]),
            Item::Link(name, _) => (name, tar::EntryType::Symlink, 0o777, &[][..]),
            Item::Hard(name, _) => (name, tar::EntryType::Link, 0o644, &[][..]),
        };
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(bytes.len() as u64);
        match item {
            Item::Link(_, target) | Item::Hard(_, target) => {
                tar.append_link(&mut header, name, target).unwrap();
            }
            _ => tar.append_data(&mut header, name, bytes).unwrap(),
        }
    }
    tar.into_inner().unwrap()
}

/// An archive of such entries, with any paths.
fn raw_archive(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, kind, target) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(0);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn read(path: &Path) -> Result<Tree, RootError> {
    read_with(path, Limits::default())
}

/// Reads a root, and sees that nothing is left in the work folder.
fn read_with(path: &Path, limits: Limits) -> Result<Tree, RootError> {
    read_or_leave(path, limits).map(|tree| tree.expect("it is read"))
}

/// The same; nothing where it is left to the guest's kernel.
fn read_or_leave(path: &Path, limits: Limits) -> Result<Option<Tree>, RootError> {
    let work = tempfile::tempdir().unwrap();
    let source = Source::find(path.to_str().unwrap())?;
    let read = source.read(work.path(), limits);
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0, "something is left");
    read.map(|read| match read.form {
        Form::Copied(tree) | Form::Files(tree) => Some(tree),
        Form::Part(..) => None,
    })
}

/// Reads and checks bytes as a file.
fn read_bytes(bytes: &[u8]) -> Result<Tree, RootError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let tree = read(file.path())?;
    tree.check()?;
    Ok(tree)
}

/// Everything that a guest sees of a tree, a line for each name. `times`: with the times of files.
fn listing(tree: &Tree, times: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut todo = vec![(String::new(), ROOT)];
    while let Some((path, id)) = todo.pop() {
        let node = tree.node(id);
        let description = match &node.kind {
            Kind::Folder(children) => {
                for (name, id) in children {
                    todo.push((format!("{path}/{}", String::from_utf8_lossy(name)), *id));
                }
                "folder".into()
            }
            Kind::File(content) => format!("file {:x?} names {}", sum(content), node.names),
            Kind::Link(target) => format!("link to {}", String::from_utf8_lossy(target)),
            other => format!("{other:?}"),
        };
        let meta = &node.meta;
        let time = if times && matches!(node.kind, Kind::File(_)) { meta.mtime } else { 0 };
        if path != "/lost+found" && !path.is_empty() {
            // A link's rights are always all.
            let mode = if matches!(node.kind, Kind::Link(_)) { 0o777 } else { meta.mode };
            lines.push(format!(
                "{path} {mode:o} {}:{} {time} {:?} {description}",
                meta.uid, meta.gid, meta.capability
            ));
        }
    }
    lines.sort();
    lines
}

fn sum(content: &Content) -> (u64, u64) {
    let (mut sum, mut length) = (0u64, 0);
    let add = &mut |bytes: &[u8]| {
        length += bytes.len() as u64;
        sum =
            bytes.iter().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        Ok(())
    };
    content.copy(add).unwrap();
    assert_eq!(length, content.length());
    (length, sum)
}

/// Writes a tree's image; e2fsck finds nothing wrong with it.
fn image(tree: &mut Tree) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("root.ext4");
    crate::write_image(tree, &path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len() % (2 << 20), 0);
    let checked = Command::new("e2fsck").args(["-fn"]).arg(&path).output();
    if let Ok(output) = checked {
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    }
    (folder, path)
}

/// The error's text, which names the file.
fn refused(result: Result<Tree, RootError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}
