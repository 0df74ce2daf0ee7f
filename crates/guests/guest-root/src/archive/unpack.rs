//! Puts the files of an archive where they belong, in a guest.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, CWD};
use tar::EntryType;

use super::Head;
use crate::tree::{cut, text, Meta};

/// Puts all entries of the archive `stream` below `folder`, and reads the stream to its end. What
/// has an entry's name already is replaced, except for a folder by a folder. Owners are set for
/// root only.
///
/// # Errors
/// Names the entry that cannot be made.
pub fn unpack(stream: impl Read, folder: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(stream);
    archive.set_preserve_mtime(false);
    let is_root = rustix::process::geteuid().is_root();
    let mut folders = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let head = Head::of(&mut entry)?;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", text(&head.path)))
        };
        let (above, name) = cut(&head.path).map_err(io::Error::other)?;
        let Some(name) = name else { continue };
        let above = folder.join(OsStr::from_bytes(&above));
        let path = above.join(OsStr::from_bytes(name));
        fs::create_dir_all(&above).map_err(named)?;
        put(&mut entry, &head, folder, &path).map_err(named)?;
        if head.kind == EntryType::Link {
            continue;
        }
        take_meta(&path, &head, is_root).map_err(named)?;
        // Files that come later change a folder's time.
        if head.kind.is_dir() {
            folders.push((path, head.meta.mtime));
        } else {
            take_time(&path, head.meta.mtime).map_err(named)?;
        }
    }
    for (path, time) in folders.iter().rev() {
        take_time(path, *time)?;
    }
    // The bytes between the archive's end and the stream's.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop)
}

/// Makes what an entry stands for.
fn put<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    head: &Head,
    folder: &Path,
    path: &Path,
) -> io::Result<()> {
    if head.kind.is_dir() && path.is_dir() {
        return Ok(());
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir(path)?,
        Ok(_) => fs::remove_file(path)?,
        Err(_) => {}
    }
    let target = OsStr::from_bytes(&head.target);
    let node = |kind: FileType| {
        let (major, minor) = head.device;
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device)
    };
    match head.kind {
        EntryType::Directory => fs::create_dir(path),
        EntryType::Symlink => std::os::unix::fs::symlink(target, path),
        EntryType::Link => {
            let target = target.as_bytes();
            let target = target.strip_prefix(b"/").unwrap_or(target);
            fs::hard_link(folder.join(OsStr::from_bytes(target)), path)
        }
        EntryType::Char => node(FileType::CharacterDevice).map_err(Into::into),
        EntryType::Block => node(FileType::BlockDevice).map_err(Into::into),
        EntryType::Fifo => node(FileType::Fifo).map_err(Into::into),
        EntryType::Regular if head.keys.tell_of_holes() => {
            Err(io::Error::other("it has holes in the form of PAX, which only a root may have"))
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            entry.unpack(path).map(drop)
        }
        other => {
            let kind = char::from(other.as_byte());
            Err(io::Error::other(format!("an entry of the unknown kind {kind:?}")))
        }
    }
}

/// Gives a file its owner, permissions and rights, in the order in which none undoes another.
fn take_meta(path: &Path, head: &Head, is_root: bool) -> io::Result<()> {
    let Meta { mode, uid, gid, capability, .. } = &head.meta;
    if is_root {
        let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
        rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if head.kind != EntryType::Symlink {
        fs::set_permissions(path, Permissions::from_mode((*mode).into()))?;
    }
    if let Some(capability) = capability {
        let name = "security.capability";
        rustix::fs::lsetxattr(path, name, capability, XattrFlags::empty())?;
    }
    Ok(())
}

fn take_time(path: &Path, seconds: u64) -> io::Result<()> {
    let tv_sec = i64::try_from(seconds).map_err(io::Error::other)?;
    let time = Timespec { tv_sec, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}
