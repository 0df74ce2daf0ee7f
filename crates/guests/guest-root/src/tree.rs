//! A root file system while it is put together: names and what they stand for, in memory. Nothing
//! of it is unpacked on this machine, so no path in an archive can lead out of it.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use crate::content::Content;
use crate::RootError;

/// Which node of a [`Tree`].
pub(crate) type Id = usize;
/// The folder `/`.
pub(crate) const ROOT: Id = 0;

/// Limits of a root file system.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of all files of an archive, and of its decompressed content.
    pub bytes: u64,
    /// Bytes of the files of a folder or an image that are copied into the guest's memory. A larger
    /// root is read where it lies.
    pub copied: u64,
    /// Files, folders and links.
    pub entries: usize,
}

impl Default for Limits {
    /// The copied files are in the guest's memory, and QEMU loads no file of 4 GiB there. A million
    /// entries are several times what a distribution's desktop has.
    fn default() -> Self {
        Self { bytes: 3 << 30, copied: 1 << 30, entries: 1_000_000 }
    }
}

/// The longest name of a file, and the longest path (Linux, include/uapi/linux/limits.h).
const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4096;
/// Largest number of symbolic links on a path (path_resolution(7)).
const MAX_SYMLINKS: usize = 40;

/// 2100-01-01: later times of files count as this one, and a guest's clock is set to no later one.
pub(crate) const LATEST: u64 = 4_102_444_800;

/// A file's owner and permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Permissions, with set-user-ID and the like: the low 12 bits of stat(2)'s mode.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    /// In seconds since 1970.
    pub mtime: u64,
    /// Rights of a program, `security.capability`.
    pub capability: Option<Vec<u8>>,
}

impl Meta {
    /// Root's, with these permissions.
    pub(crate) fn of_root(mode: u16) -> Self {
        Self { mode, uid: 0, gid: 0, mtime: 0, capability: None }
    }
}

/// The object that a name stands for.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Folder(BTreeMap<Vec<u8>, Id>),
    File(Content),
    Link(Vec<u8>),
    Device { block: bool, major: u32, minor: u32 },
    Pipe,
    Socket,
}

/// A file, a folder or something else that can have names.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub meta: Meta,
    pub kind: Kind,
    /// Number of its names.
    pub names: u32,
    /// The layer that it came with.
    pub layer: u32,
}

/// A root file system.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    origin: PathBuf,
    limits: Limits,
    bytes: u64,
    /// Names that were given to objects that have one already.
    links: usize,
}

/// Target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// There.
    Node(Id),
    /// Up to a folder that has no such name; more names may follow it.
    Missing { folder: Id, name: Vec<u8>, more: bool },
}

impl Tree {
    /// A root file system with nothing in it; `origin` is what errors name.
    pub(crate) fn new(origin: &Path, limits: Limits) -> Self {
        let root = Node {
            meta: Meta::of_root(0o755),
            kind: Kind::Folder(BTreeMap::new()),
            names: 1,
            layer: 0,
        };
        Self { nodes: vec![root], origin: origin.into(), limits, bytes: 0, links: 0 }
    }

    /// An error about what it is made of.
    pub(crate) fn fail(&self, cause: impl Into<String>) -> RootError {
        RootError::unusable(&self.origin, cause)
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Path of its source.
    pub(crate) fn origin(&self) -> &Path {
        &self.origin
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    pub(crate) fn node_mut(&mut self, id: Id) -> &mut Node {
        &mut self.nodes[id]
    }

    /// The entries of a folder; nothing if `id` is none.
    pub(crate) fn children(&self, id: Id) -> impl Iterator<Item = (&[u8], Id)> {
        let children = match &self.nodes[id].kind {
            Kind::Folder(children) => Some(children),
            _ => None,
        };
        children.into_iter().flatten().map(|(name, id)| (name.as_slice(), *id))
    }

    /// Follows a path as the guest would: links within it, and nothing leads out. `last`: whether
    /// a link at the path's end is followed as well.
    pub(crate) fn follow(&self, path: &[u8], last: bool) -> Result<Found, RootError> {
        let mut stack = vec![ROOT];
        let mut rest: VecDeque<&[u8]> = names(path).collect();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == b".." {
                stack.truncate((stack.len() - 1).max(1));
                continue;
            }
            let here = stack.last().copied().unwrap_or(ROOT);
            let Kind::Folder(children) = &self.nodes[here].kind else {
                return Err(
                    self.fail(format!("{} leads through something that is no folder", text(path)))
                );
            };
            let Some(&id) = children.get(name) else {
                let more = !rest.is_empty();
                return Ok(Found::Missing { folder: here, name: name.to_vec(), more });
            };
            match &self.nodes[id].kind {
                Kind::Link(target) if last || !rest.is_empty() => {
                    links += 1;
                    if links > MAX_SYMLINKS {
                        return Err(
                            self.fail(format!("{} goes through too many links", text(path)))
                        );
                    }
                    if target.starts_with(b"/") {
                        stack.truncate(1);
                    }
                    for name in names(target).rev() {
                        rest.push_front(name);
                    }
                }
                _ => stack.push(id),
            }
        }
        Ok(Found::Node(stack.last().copied().unwrap_or(ROOT)))
    }

    /// The object at a path, its links followed.
    pub(crate) fn at(&self, path: &str) -> Option<Id> {
        match self.follow(path.as_bytes(), true) {
            Ok(Found::Node(id)) => Some(id),
            _ => None,
        }
    }

    /// The folder at a path; it is made where it is missing.
    pub(crate) fn folder(&mut self, path: &[u8], layer: u32) -> Result<Id, RootError> {
        loop {
            match self.follow(path, true)? {
                Found::Node(id) if matches!(self.nodes[id].kind, Kind::Folder(_)) => return Ok(id),
                Found::Node(_) => {
                    return Err(self.fail(format!("{} is no folder", text(path))));
                }
                Found::Missing { folder, name, .. } => {
                    let kind = Kind::Folder(BTreeMap::new());
                    self.put(folder, &name, Meta::of_root(0o755), kind, layer)?;
                }
            }
        }
    }

    /// Gives something new a name in `folder`. An object that had the name goes, unless both are
    /// folders: then its entries stay.
    pub(crate) fn put(
        &mut self,
        folder: Id,
        name: &[u8],
        meta: Meta,
        kind: Kind,
        layer: u32,
    ) -> Result<Id, RootError> {
        let there = self.child(folder, name);
        if let (Some(id), Kind::Folder(_)) = (there, &kind) {
            let node = &mut self.nodes[id];
            if matches!(node.kind, Kind::Folder(_)) {
                (node.meta, node.layer) = (meta, layer);
                return Ok(id);
            }
        }
        self.check_name(name)?;
        if let Kind::File(content) = &kind {
            self.bytes = self.bytes.saturating_add(content.length());
            if self.bytes > self.limits.bytes {
                let most = self.limits.bytes >> 20;
                let cause = format!(
                    "it has more than {most} MiB of files (the last one read is {}): leave out \
                     what the experiment does not need, or unpack it into a folder, whose files \
                     are read where they lie",
                    text(name)
                );
                return Err(RootError::TooLarge { path: self.origin.clone(), cause });
            }
        }
        self.check_count()?;
        self.remove(folder, name);
        let id = self.nodes.len();
        self.nodes.push(Node { meta, kind, names: 1, layer });
        self.name(folder, name, id);
        Ok(id)
    }

    /// Gives an object another name.
    pub(crate) fn link(&mut self, folder: Id, name: &[u8], id: Id) -> Result<(), RootError> {
        /// Names that ext4 counts for a file (Linux, fs/ext4/ext4.h, EXT4_LINK_MAX).
        const MAX_LINKS: u32 = 65_000;
        self.check_name(name)?;
        if self.child(folder, name) == Some(id) {
            return Ok(());
        }
        if matches!(self.nodes[id].kind, Kind::Folder(_)) || self.nodes[id].names >= MAX_LINKS {
            return Err(self.fail(format!("{} cannot be a hard link", text(name))));
        }
        self.check_count()?;
        self.remove(folder, name);
        self.nodes[id].names += 1;
        self.links += 1;
        self.name(folder, name, id);
        Ok(())
    }

    /// Returns whether there is room for one more name.
    fn check_count(&self) -> Result<(), RootError> {
        if self.nodes.len() + self.links >= self.limits.entries {
            return Err(self.fail(format!("it has more than {} files", self.limits.entries)));
        }
        Ok(())
    }

    fn check_name(&self, name: &[u8]) -> Result<(), RootError> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains(&0) || name.contains(&b'/') {
            return Err(self.fail(format!("{} is no name of a file", text(name))));
        }
        Ok(())
    }

    fn child(&self, folder: Id, name: &[u8]) -> Option<Id> {
        match &self.nodes[folder].kind {
            Kind::Folder(children) => children.get(name).copied(),
            _ => None,
        }
    }

    fn name(&mut self, folder: Id, name: &[u8], id: Id) {
        if let Kind::Folder(children) = &mut self.nodes[folder].kind {
            children.insert(name.to_vec(), id);
        }
    }

    /// Takes a name away, with everything below it.
    pub(crate) fn remove(&mut self, folder: Id, name: &[u8]) {
        let Kind::Folder(children) = &mut self.nodes[folder].kind else { return };
        let Some(id) = children.remove(name) else { return };
        let mut gone = vec![id];
        while let Some(id) = gone.pop() {
            let node = &mut self.nodes[id];
            node.names = node.names.saturating_sub(1);
            if node.names > 0 {
                continue;
            }
            match &mut node.kind {
                Kind::Folder(children) => gone.extend(std::mem::take(children).into_values()),
                Kind::File(content) => self.bytes = self.bytes.saturating_sub(content.length()),
                _ => {}
            }
        }
    }

    /// Takes away what earlier layers than `layer` have put into a folder.
    pub(crate) fn empty(&mut self, folder: Id, layer: u32) {
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            let children: Vec<(Vec<u8>, Id)> =
                self.children(folder).map(|(name, id)| (name.to_vec(), id)).collect();
            for (name, id) in children {
                if self.nodes[id].layer < layer {
                    self.remove(folder, &name);
                } else if matches!(self.nodes[id].kind, Kind::Folder(_)) {
                    folders.push(id);
                }
            }
        }
    }

    /// Copies what is at `from` in another tree into the folder `to`, as `name`; names of one object
    /// stay that.
    pub(crate) fn graft(
        &mut self,
        to: Id,
        name: &[u8],
        other: &Tree,
        from: Id,
    ) -> Result<(), RootError> {
        let mut todo = vec![(to, name.to_vec(), from)];
        let mut copies = BTreeMap::new();
        while let Some((to, name, from)) = todo.pop() {
            let node = &other.nodes[from];
            if let Some(&copy) = copies.get(&from) {
                self.link(to, &name, copy)?;
                continue;
            }
            let kind = match &node.kind {
                Kind::Folder(_) => Kind::Folder(BTreeMap::new()),
                other => other.clone(),
            };
            let id = self.put(to, &name, node.meta.clone(), kind, u32::MAX)?;
            if node.names > 1 && !matches!(node.kind, Kind::Folder(_)) {
                copies.insert(from, id);
            }
            todo.extend(other.children(from).map(|(name, from)| (id, name.to_vec(), from)));
        }
        Ok(())
    }

    /// The bytes of the file at `path`, links followed; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or has more than 256 MiB.
    pub fn read_file(&self, path: &str) -> Result<Option<Vec<u8>>, RootError> {
        const MAX_SIZE: u64 = 256 << 20;
        let Some(id) = self.at(path) else { return Ok(None) };
        let Kind::File(content) = &self.nodes[id].kind else { return Ok(None) };
        if content.length() > MAX_SIZE {
            return Err(self.fail(format!("its {path} is too large")));
        }
        let mut bytes = Vec::new();
        let copied = content.copy(&mut |more| {
            bytes.extend_from_slice(more);
            Ok(())
        });
        copied.map_err(|e| self.fail(format!("its {path} cannot be read: {e}")))?;
        Ok(Some(bytes))
    }

    /// The newest time of a file, in seconds since 1970; none is later than 2100.
    pub fn newest(&self) -> u64 {
        let times = self.nodes.iter().filter(|node| node.names > 0).map(|node| node.meta.mtime);
        times.max().unwrap_or(0).min(LATEST)
    }
}

/// The names in a path, without empty ones and `.`.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

/// Cuts the path of an archive's entry into its folder and its name, none for `/` itself.
///
/// # Errors
/// A path that climbs, or is longer than any.
pub(crate) fn cut(path: &[u8]) -> Result<(Vec<u8>, Option<&[u8]>), String> {
    if path.len() > PATH_MAX {
        return Err(format!("a path in it has {} bytes", path.len()));
    }
    if names(path).any(|name| name == b"..") {
        return Err(format!("its entry {} climbs out by `..`", text(path)));
    }
    let mut names: Vec<&[u8]> = names(path).collect();
    let last = names.pop();
    Ok((names.join(&b'/'), last))
}

/// A path for a message.
pub(crate) fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(&path[..path.len().min(200)]).escape_debug().to_string()
}
