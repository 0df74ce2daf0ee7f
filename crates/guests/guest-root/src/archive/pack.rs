//! Packs files of this machine for a guest.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use tar::{Builder, EntryType, GnuExtSparseHeader, Header};

use super::CAPABILITY;
use crate::content::Content;
use crate::tree::{Id, Kind, Limits, Meta, Tree, ROOT};
use crate::{folder, RootError};

/// The time of every packed file (s): archives do not depend on when a file was copied.
const TIME: u64 = 1_153_704_088;
/// Unit of an archive, and of the data between holes in it (bytes).
const BLOCK: u64 = 512;
/// Length of an archive's end: two blocks (POSIX.1, pax, "ustar Interchange Format").
const END: usize = 2 * BLOCK as usize;
/// The longest link's target that a header has room for (bytes).
const SHORT: usize = 100;
/// Bytes of files: they are in memory when they are packed, so memory is the limit.
const UNLIMITED: Limits = Limits { bytes: u64::MAX, copied: u64::MAX, entries: 1_000_000 };

/// An archive of files for a guest while it is put together.
///
/// Permissions, links, holes, devices and programs' rights are kept. All files are root's and of
/// one time, so that the same files make the same archive for every user. Sockets and extended
/// attributes of users are left out ([`Self::left_out`]).
pub struct Pack<W: Write> {
    archive: Builder<W>,
    left_out: Vec<String>,
}

impl Default for Pack<Vec<u8>> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Pack<Vec<u8>> {
    /// The archive without its end: another may follow.
    ///
    /// # Errors
    /// None of an archive in memory.
    pub fn part(self) -> io::Result<Vec<u8>> {
        let mut bytes = self.whole()?;
        bytes.truncate(bytes.len() - END);
        Ok(bytes)
    }
}

impl<W: Write> Pack<W> {
    /// An empty archive that is written to `output`.
    pub fn new(output: W) -> Self {
        Self { archive: Builder::new(output), left_out: Vec::new() }
    }

    /// Parts of the files that the archive does not have, a clause each.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The archive, for entries of another kind.
    pub fn archive(&mut self) -> &mut Builder<W> {
        &mut self.archive
    }

    /// Packs what is at `path`, a link's target where it is a link, with everything below it, as
    /// `name` in the guest.
    ///
    /// # Errors
    /// Names what cannot be read.
    pub fn add(&mut self, path: &Path, name: &Path) -> Result<(), RootError> {
        let path = path.canonicalize().map_err(RootError::file("find", path))?;
        let tree = folder::read_one(&path, UNLIMITED)?;
        let mut names: HashMap<Id, PathBuf> = HashMap::new();
        let mut todo: Vec<(PathBuf, Id)> =
            tree.children(ROOT).map(|(_, id)| (name.to_owned(), id)).collect();
        while let Some((name, id)) = todo.pop() {
            let error = |error| match &tree.node(id).kind {
                Kind::File(Content::Path { path, .. }) => RootError::file("pack", path)(error),
                _ => RootError::file("pack", &path)(error),
            };
            match names.get(&id) {
                Some(first) => self.link(EntryType::Link, &name, &meta(0o644), first.as_os_str()),
                None => self.node(&tree, id, &name),
            }
            .map_err(error)?;
            names.entry(id).or_insert_with(|| name.clone());
            let below =
                tree.children(id).map(|(last, id)| (name.join(OsStr::from_bytes(last)), id));
            let before = todo.len();
            todo.extend(below);
            todo[before..].reverse();
        }
        Ok(())
    }

    /// Packs a file with these bytes.
    ///
    /// # Errors
    /// The name is none of a file.
    pub fn add_bytes(&mut self, name: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let meta = meta((mode & 0o7777) as u16);
        self.entry(EntryType::Regular, name, &meta, bytes.len() as u64, bytes)
    }

    /// Ends the archive; returns what it was written to.
    ///
    /// # Errors
    /// The end cannot be written.
    pub fn whole(self) -> io::Result<W> {
        self.archive.into_inner()
    }

    fn node(&mut self, tree: &Tree, id: Id, name: &Path) -> io::Result<()> {
        let node = tree.node(id);
        let meta = Meta { uid: 0, gid: 0, mtime: TIME, ..node.meta.clone() };
        if let Some(capability) = &meta.capability {
            let rights = [(CAPABILITY, capability.as_slice())];
            self.archive.append_pax_extensions(rights)?;
        }
        match &node.kind {
            Kind::Folder(_) => self.entry(EntryType::Directory, name, &meta, 0, io::empty()),
            Kind::File(content) => self.file(name, &meta, content),
            Kind::Link(target) => {
                self.link(EntryType::Symlink, name, &meta, OsStr::from_bytes(target))
            }
            Kind::Device { block, major, minor } => {
                let kind = if *block { EntryType::Block } else { EntryType::Char };
                let mut header = header(kind, &meta, 0);
                header.set_device_major(*major)?;
                header.set_device_minor(*minor)?;
                self.archive.append_data(&mut header, name, io::empty())
            }
            Kind::Pipe => self.entry(EntryType::Fifo, name, &meta, 0, io::empty()),
            Kind::Socket => {
                self.left_out.push(format!("{}: a socket", Path::new("/").join(name).display()));
                Ok(())
            }
        }
    }

    fn entry(
        &mut self,
        kind: EntryType,
        name: &Path,
        meta: &Meta,
        size: u64,
        bytes: impl Read,
    ) -> io::Result<()> {
        let mut header = header(kind, meta, size);
        self.archive.append_data(&mut header, name, bytes)
    }

    /// A link of either kind; its target is kept to the byte.
    fn link(
        &mut self,
        kind: EntryType,
        name: &Path,
        meta: &Meta,
        target: &OsStr,
    ) -> io::Result<()> {
        let mut link = header(kind, meta, 0);
        if target.len() <= SHORT {
            link.set_link_name_literal(target.as_bytes())?;
        } else {
            let mut long =
                header(EntryType::GNULongLink, &self::meta(0o644), target.len() as u64 + 1);
            let bytes = Cursor::new(target.as_bytes()).chain(&[0][..]);
            self.archive.append_data(&mut long, "@LongLink", bytes)?;
        }
        self.archive.append_data(&mut link, name, io::empty())
    }

    fn file(&mut self, name: &Path, meta: &Meta, content: &Content) -> io::Result<()> {
        let Content::Path { path, length, .. } = content else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let file = File::open(path)?;
        let attributes = attributes(&file);
        if !attributes.is_empty() {
            let name = Path::new("/").join(name);
            self.left_out.push(format!("{}: {}", name.display(), attributes.join(", ")));
        }
        let parts = data(&file, *length)?;
        let held = parts.iter().map(|(_, size)| size).sum();
        let bytes = Parts { file: &file, rest: parts.clone().into_iter(), now: (0, 0) };
        if held == *length {
            return self.entry(EntryType::Regular, name, meta, held, bytes);
        }
        let mut header = header(EntryType::GNUSparse, meta, held);
        let more = list(&mut header, parts, *length)?;
        let bytes = Cursor::new(more).chain(bytes);
        self.archive.append_data(&mut header, name, bytes)
    }
}

/// Root's, of the time of all files.
fn meta(mode: u16) -> Meta {
    Meta { mtime: TIME, ..Meta::of_root(mode) }
}

fn header(kind: EntryType, meta: &Meta, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(meta.mode.into());
    header.set_uid(meta.uid.into());
    header.set_gid(meta.gid.into());
    header.set_mtime(meta.mtime);
    header.set_size(size);
    header
}

/// Names of a file's extended attributes that users have set, and of access control lists.
fn attributes(file: &File) -> Vec<String> {
    /// Limit of Linux on a list of names (XATTR_LIST_MAX, linux/limits.h).
    const MAX_NAMES: usize = 64 << 10;
    let mut names = vec![0_u8; 1 << 10];
    let mut found = rustix::fs::flistxattr(file, &mut names[..]);
    if found == Err(rustix::io::Errno::RANGE) {
        names.resize(MAX_NAMES, 0);
        found = rustix::fs::flistxattr(file, &mut names[..]);
    }
    let length = found.unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let is_lost = |name: &str| name.starts_with("user.") || name.starts_with("system.posix_acl");
    names.filter(|name| is_lost(name)).map(Into::into).collect()
}

/// The parts of a file of `length` bytes that are no holes: first byte and size. Each begins at a
/// block.
fn data(file: &File, length: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.max(at) / BLOCK * BLOCK,
            Err(rustix::io::Errno::NXIO) => break,
            // A file system without holes.
            Err(rustix::io::Errno::INVAL) => at,
            Err(error) => return Err(error.into()),
        };
        let end = match rustix::fs::seek(file, SeekFrom::Hole(start)) {
            Ok(end) => end.next_multiple_of(BLOCK).min(length),
            Err(rustix::io::Errno::INVAL) => length,
            Err(error) => return Err(error.into()),
        };
        if start >= length || end <= start {
            break;
        }
        parts.push((start, end - start));
        at = end;
    }
    Ok(parts)
}

/// Lists the parts of a file in its header (GNU tar's manual, "Storing Sparse Files", the old GNU
/// form); returns the headers that follow it.
fn list(header: &mut Header, mut parts: Vec<(u64, u64)>, length: u64) -> io::Result<Vec<u8>> {
    // An empty part at the end tells how long the file is.
    parts.push((length, 0));
    let gnu = header.as_gnu_mut().ok_or(io::ErrorKind::Unsupported)?;
    let (first, rest) = parts.split_at(parts.len().min(gnu.sparse.len()));
    for (place, (start, size)) in gnu.sparse.iter_mut().zip(first) {
        place.set_offset(*start);
        place.set_length(*size);
    }
    gnu.set_real_size(length);
    gnu.set_is_extended(!rest.is_empty());
    let mut more = Vec::new();
    let in_one = GnuExtSparseHeader::new().sparse.len();
    let mut chunks = rest.chunks(in_one).peekable();
    while let Some(chunk) = chunks.next() {
        let mut next = GnuExtSparseHeader::new();
        for (place, (start, size)) in next.sparse.iter_mut().zip(chunk) {
            place.set_offset(*start);
            place.set_length(*size);
        }
        next.set_is_extended(chunks.peek().is_some());
        more.extend_from_slice(next.as_bytes());
    }
    Ok(more)
}

/// Reads the parts of a file, one after the other.
struct Parts<'a> {
    file: &'a File,
    rest: std::vec::IntoIter<(u64, u64)>,
    now: (u64, u64),
}

impl Read for Parts<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.now.1 == 0 {
            match self.rest.next() {
                Some(next) => self.now = next,
                None => return Ok(0),
            }
        }
        let most = into.len().min(usize::try_from(self.now.1).unwrap_or(usize::MAX));
        // The header has promised this many bytes.
        let cut = || io::Error::other("it has become shorter while it was packed");
        let length = match self.file.read_at(&mut into[..most], self.now.0)? {
            0 if most > 0 => return Err(cut()),
            length => length,
        };
        self.now = (self.now.0 + length as u64, self.now.1 - length as u64);
        Ok(length)
    }
}
