//! Reads a tree from a file system of ext2, ext3 or ext4 in an image.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{flag, incompat, kind, u16_at, u32_at, ATTRIBUTES_MAGIC, CAPABILITY, EXTENT_MAGIC};
use super::{MAGIC, MAGIC_AT, MAX_EXTENT, ROOT_INODE, SECURITY, SUPERBLOCK, SUPERBLOCK_SIZE};
use crate::content::{Content, Piece, ReadAt};
use crate::tree::{text, Id, Kind, Limits, Meta, Tree, ROOT};
use crate::RootError;

/// Limits on the pieces of a file, and on the nodes that list them.
const PIECES: usize = 1 << 20;
const NODES: usize = 1 << 14;
/// The largest folder (bytes of names).
const FOLDER: u64 = 64 << 20;
/// Bytes of tables and names that are read of a file system.
const TABLES: u64 = 4 << 30;
/// Largest depth of extents (ext4/ifork.rst).
const DEPTH: u16 = 5;

/// An open file system.
#[derive(Debug)]
pub(crate) struct FileSystem {
    source: Arc<dyn ReadAt>,
    /// Place at which it begins in the source.
    start: u64,
    block: u64,
    first_block: u64,
    inode_size: u64,
    inodes: u32,
    group_inodes: u32,
    description: u64,
    wide: bool,
    /// Bytes in use.
    used: u64,
    /// The largest file.
    limit: u64,
    /// Number of bytes of tables and names that may still be read: all together have less in any
    /// file system that is not made to take forever.
    budget: Cell<u64>,
}

/// The outcome of a search for a file system at a place.
pub(crate) enum Opened {
    /// No file system of ext2, ext3 or ext4.
    Other,
    /// One with features that only a kernel supports.
    Unknown,
    /// A readable file system.
    Known(FileSystem),
}

type Result<T> = std::result::Result<T, String>;

fn damaged(reason: &str) -> String {
    format!("its file system is damaged: {reason}")
}

fn unread(error: io::Error) -> String {
    damaged(&format!("a block cannot be read ({error})"))
}

/// Reads the file in a file system of `source` from `start` on.
pub(crate) fn file_of(
    source: &Arc<dyn ReadAt>,
    start: u64,
    path: &str,
    most: u64,
) -> Option<Vec<u8>> {
    let limits = Limits { bytes: most, ..Limits::default() };
    match FileSystem::open(source, start, limits) {
        Ok(Opened::Known(system)) => system.file(path, most).ok()?,
        _ => None,
    }
}

/// An inode.
struct Inode {
    bytes: Vec<u8>,
    mode: u16,
    flags: u32,
    size: u64,
}

impl FileSystem {
    /// The file system that begins at `start`.
    pub(crate) fn open(source: &Arc<dyn ReadAt>, start: u64, limits: Limits) -> Result<Opened> {
        let mut block = vec![0; SUPERBLOCK_SIZE];
        let there = start.checked_add(SUPERBLOCK).map(|at| source.read_at(&mut block, at));
        if !matches!(there, Some(Ok(()))) || u16_at(&block, MAGIC_AT) != MAGIC {
            return Ok(Opened::Other);
        }
        let word = |at| u32_at(&block, at);
        let old = word(0x4c) == 0;
        let features = word(0x60);
        if features & incompat::RECOVER != 0 {
            return Err(
                "its file system was not unmounted: `e2fsck -p` (on a copy, or the system \
                        itself by starting and stopping once) has to recover it first"
                    .into(),
            );
        }
        if features & !incompat::KNOWN != 0 {
            return Ok(Opened::Unknown);
        }
        let size = 1024u64.checked_shl(word(0x18)).filter(|size| (1024..=65_536).contains(size));
        let size = size.ok_or_else(|| damaged("the size of its blocks"))?;
        let inode_size = if old { 128 } else { u64::from(u16_at(&block, 0x58)) };
        let wide = features & incompat::SIXTY_FOUR_BIT != 0;
        let description = if wide { u64::from(u16_at(&block, 0xfe)).max(64) } else { 32 };
        let (inodes, group_inodes) = (word(0x00), word(0x28));
        if !(128..=size).contains(&inode_size) || group_inodes == 0 || description > size {
            return Err(damaged("its superblock"));
        }
        let first_block = u64::from(word(0x14));
        let long = |low: usize, high: usize| {
            u64::from(word(low)) | if wide { u64::from(word(high)) << 32 } else { 0 }
        };
        let used = long(0x04, 0x150).saturating_sub(long(0x0c, 0x158)).saturating_mul(size);
        Ok(Opened::Known(Self {
            source: Arc::clone(source),
            start,
            block: size,
            first_block,
            inode_size,
            inodes,
            group_inodes,
            description,
            wide,
            used,
            limit: limits.bytes,
            budget: Cell::new(TABLES),
        }))
    }

    /// Bytes in use, its own tables included.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns whether its folder `/` has what a Linux has there.
    pub(crate) fn looks_like_linux(&self) -> Result<bool> {
        let names = self.names(&self.inode(ROOT_INODE)?)?;
        Ok(names.iter().any(|(name, _)| matches!(name.as_slice(), b"bin" | b"usr")))
    }

    /// Returns the bytes of a file, at most `most`; `None` if the path does not exist.
    pub(crate) fn file(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let mut inode = self.inode(ROOT_INODE)?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            if inode.mode & kind::MASK != kind::FOLDER {
                return Ok(None);
            }
            let names = self.names(&inode)?;
            let found = names.iter().find(|(other, _)| other.as_slice() == name.as_bytes());
            let Some((_, number)) = found else { return Ok(None) };
            inode = self.inode(*number)?;
        }
        if inode.mode & kind::MASK != kind::FILE || inode.size > most {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(inode.size as usize);
        let mut write = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok(())
        };
        self.content(&inode)?.copy(&mut write).map_err(unread)?;
        Ok(Some(bytes))
    }

    /// Reads everything in the file system.
    pub(crate) fn tree(
        &self,
        origin: &Path,
        limits: Limits,
    ) -> std::result::Result<Tree, RootError> {
        let mut tree = Tree::new(origin, limits);
        let mut ids: HashMap<u32, Id> = HashMap::new();
        ids.insert(ROOT_INODE, ROOT);
        let inode = self.inode(ROOT_INODE).map_err(|cause| tree.fail(cause))?;
        tree.node_mut(ROOT).meta = self.meta(&inode);
        let mut todo = vec![(ROOT, inode)];
        while let Some((folder, inode)) = todo.pop() {
            for (name, number) in self.names(&inode).map_err(|cause| tree.fail(cause))? {
                let located = |cause: String| format!("{cause}, in {}", text(&name));
                let child = self.inode(number).map_err(|cause| tree.fail(located(cause)))?;
                let is_folder = child.mode & kind::MASK == kind::FOLDER;
                if let Some(&id) = ids.get(&number) {
                    if is_folder {
                        return Err(tree.fail(located(damaged("a folder has several names"))));
                    }
                    tree.link(folder, &name, id)?;
                    continue;
                }
                if child.mode & kind::MASK == kind::FILE && child.size > self.limit {
                    let cause = format!("{} has more than {} MiB", text(&name), self.limit >> 20);
                    return Err(RootError::TooLarge { path: origin.into(), cause });
                }
                let content = self.kind(&child).map_err(|cause| tree.fail(located(cause)))?;
                let id = tree.put(folder, &name, self.meta(&child), content, 0)?;
                ids.insert(number, id);
                if is_folder {
                    todo.push((id, child));
                }
            }
        }
        Ok(tree)
    }

    /// Counts bytes of tables and names that are to be read.
    fn spend(&self, bytes: u64) -> Result<()> {
        let rest = self.budget.get().checked_sub(bytes);
        self.budget.set(rest.ok_or_else(|| damaged("its tables have no end"))?);
        Ok(())
    }

    fn read(&self, block: u64, into: &mut [u8], offset: u64) -> Result<()> {
        self.spend(into.len() as u64)?;
        let at = block.checked_mul(self.block).and_then(|at| at.checked_add(offset));
        let at = at.and_then(|at| at.checked_add(self.start));
        let at = at.ok_or_else(|| damaged("a block beyond its end"))?;
        self.source.read_at(into, at).map_err(unread)
    }

    fn inode(&self, number: u32) -> Result<Inode> {
        if number == 0 || number > self.inodes {
            return Err(damaged(&format!("the inode {number} is beyond its end")));
        }
        let (group, index) = ((number - 1) / self.group_inodes, (number - 1) % self.group_inodes);
        let mut description = vec![0; self.description as usize];
        let at = u64::from(group) * self.description;
        self.read(self.first_block + 1, &mut description, at)?;
        let high = if self.wide { u32_at(&description, 0x28) } else { 0 };
        let table = u64::from(u32_at(&description, 0x08)) | u64::from(high) << 32;
        let mut bytes = vec![0; self.inode_size as usize];
        self.read(table, &mut bytes, u64::from(index) * self.inode_size)?;
        let (mode, flags) = (u16_at(&bytes, 0), u32_at(&bytes, 0x20));
        let has_high = matches!(mode & kind::MASK, kind::FILE | kind::FOLDER);
        let high = if has_high { u32_at(&bytes, 0x6c) } else { 0 };
        let size = u64::from(u32_at(&bytes, 0x04)) | u64::from(high) << 32;
        Ok(Inode { bytes, mode, flags, size })
    }

    fn meta(&self, inode: &Inode) -> Meta {
        let half = |at| u32::from(u16_at(&inode.bytes, at));
        Meta {
            mode: inode.mode & 0o7777,
            uid: half(0x02) | half(0x78) << 16,
            gid: half(0x18) | half(0x7a) << 16,
            mtime: u64::from(u32_at(&inode.bytes, 0x10)),
            capability: capability(&inode.bytes),
        }
    }

    fn kind(&self, inode: &Inode) -> Result<Kind> {
        if inode.flags & flag::ENCRYPTED != 0 {
            return Err("a file is encrypted".into());
        }
        Ok(match inode.mode & kind::MASK {
            kind::FOLDER => Kind::Folder(Default::default()),
            kind::FILE => Kind::File(self.content(inode)?),
            kind::LINK => {
                let fast = inode.flags & flag::EXTENTS == 0 && inode.size < 60;
                if inode.size == 0 || inode.size > 4095 {
                    return Err(damaged("a symbolic link without a target"));
                }
                let size = inode.size as usize;
                Kind::Link(match fast {
                    true => inode.bytes[0x28..0x28 + size].to_vec(),
                    false => self.content(inode)?.start(size).map_err(unread)?,
                })
            }
            it @ (kind::CHARACTER | kind::BLOCK) => {
                let (old, new) = (u32_at(&inode.bytes, 0x28), u32_at(&inode.bytes, 0x2c));
                let (major, minor) = match old {
                    0 => (new >> 8 & 0xfff, new & 0xff | new >> 12 & !0xff),
                    old => (old >> 8 & 0xff, old & 0xff),
                };
                Kind::Device { block: it == kind::BLOCK, major, minor }
            }
            kind::PIPE => Kind::Pipe,
            kind::SOCKET => Kind::Socket,
            other => return Err(damaged(&format!("an inode of the unknown kind {other:#x}"))),
        })
    }

    fn content(&self, inode: &Inode) -> Result<Content> {
        if inode.size > self.limit {
            return Err(damaged("a folder or a link is too large"));
        }
        let mut pieces = Vec::new();
        if inode.flags & flag::EXTENTS != 0 {
            self.extents(&inode.bytes[0x28..0x64], DEPTH, &mut 0, &mut pieces)?;
            pieces.sort_unstable_by_key(|piece: &Piece| piece.at);
        } else {
            self.mapped(inode, &mut pieces)?;
        }
        let pieces = within(pieces, inode.size)?;
        // Here, with the file's name, and not in the middle of a copy or of a guest's run.
        if pieces.iter().any(|piece| piece.from + piece.length > self.source.length()) {
            return Err(damaged("a block beyond its end"));
        }
        Ok(Content::Pieces { source: Arc::clone(&self.source), pieces, length: inode.size })
    }

    /// Adds the pieces that a node of extents lists.
    fn extents(
        &self,
        node: &[u8],
        depth: u16,
        nodes: &mut usize,
        pieces: &mut Vec<Piece>,
    ) -> Result<()> {
        *nodes += 1;
        let (entries, level) = (u16_at(node, 2), u16_at(node, 6));
        let fits = usize::from(entries) * 12 + 12 <= node.len();
        if u16_at(node, 0) != EXTENT_MAGIC || !fits || level > depth || *nodes > NODES {
            return Err(damaged("the extents of a file"));
        }
        for entry in node[12..].chunks_exact(12).take(entries.into()) {
            if level == 0 {
                let length = u64::from(u16_at(entry, 4));
                let from = u64::from(u32_at(entry, 8)) | u64::from(u16_at(entry, 6)) << 32;
                // An extent that is not written yet reads as zeroes.
                if length <= MAX_EXTENT {
                    self.piece(u64::from(u32_at(entry, 0)), from, length, pieces)?;
                }
            } else {
                let block = u64::from(u32_at(entry, 4)) | u64::from(u16_at(entry, 8)) << 32;
                let mut below = vec![0; self.block as usize];
                self.read(block, &mut below, 0)?;
                self.extents(&below, level - 1, nodes, pieces)?;
            }
        }
        Ok(())
    }

    /// Adds the pieces that an inode without extents lists: blocks, and blocks of their numbers
    /// (ext2).
    fn mapped(&self, inode: &Inode, pieces: &mut Vec<Piece>) -> Result<()> {
        let numbers = self.block / 4;
        let last = inode.size.div_ceil(self.block);
        let mut at = 0;
        for slot in 0..15u32 {
            let level = u32::from(slot >= 12) * (slot.saturating_sub(11));
            let block = u32_at(&inode.bytes, 0x28 + slot as usize * 4);
            self.level(block, level, at, last, pieces)?;
            at += numbers.pow(level);
        }
        Ok(())
    }

    fn level(
        &self,
        block: u32,
        level: u32,
        at: u64,
        last: u64,
        pieces: &mut Vec<Piece>,
    ) -> Result<()> {
        if block == 0 || at >= last {
            return Ok(());
        }
        if level == 0 {
            return self.piece(at, block.into(), 1, pieces);
        }
        let mut numbers = vec![0; self.block as usize];
        self.read(block.into(), &mut numbers, 0)?;
        let each = (self.block / 4).pow(level - 1);
        for (index, number) in (0..).zip(numbers.chunks_exact(4)) {
            self.level(u32_at(number, 0), level - 1, at + index * each, last, pieces)?;
        }
        Ok(())
    }

    fn piece(&self, at: u64, from: u64, length: u64, pieces: &mut Vec<Piece>) -> Result<()> {
        let (place, length) = (from.checked_mul(self.block), length * self.block);
        let from = place.and_then(|from| from.checked_add(self.start));
        let from = from.filter(|from| from.checked_add(length).is_some());
        let from = from.ok_or_else(|| damaged("a block beyond its end"))?;
        let piece = Piece { at: at * self.block, from, length };
        let follows = |last: &Piece| {
            last.at + last.length == piece.at && last.from + last.length == piece.from
        };
        if let Some(last) = pieces.last_mut().filter(|last| follows(last)) {
            last.length += piece.length;
        } else if pieces.len() < PIECES {
            pieces.push(piece);
        } else {
            return Err(damaged("a file in too many pieces"));
        }
        Ok(())
    }

    /// The names in a folder, with their inodes.
    fn names(&self, folder: &Inode) -> Result<Vec<(Vec<u8>, u32)>> {
        if folder.mode & kind::MASK != kind::FOLDER || folder.size > FOLDER {
            return Err(damaged("a folder"));
        }
        self.spend(folder.size)?;
        let content = self.content(folder)?;
        let bytes = content.start(folder.size as usize).map_err(unread)?;
        let mut names = Vec::new();
        for block in bytes.chunks(self.block as usize) {
            let mut at = 0;
            while at + 8 <= block.len() {
                let (inode, length) = (u32_at(block, at), usize::from(u16_at(block, at + 4)));
                let name = at + 8..at + 8 + usize::from(block[at + 6]);
                if length < 8 || at + length > block.len() || name.end > at + length.max(8) {
                    return Err(damaged("the names of a folder"));
                }
                let name = &block[name];
                if inode != 0 && !matches!(name, b"" | b"." | b"..") {
                    names.push((name.to_vec(), inode));
                }
                at += length;
            }
        }
        Ok(names)
    }
}

/// The pieces as far as the file reaches; none may overlap another.
fn within(pieces: Vec<Piece>, size: u64) -> Result<Vec<Piece>> {
    let mut end = 0;
    let mut kept = Vec::new();
    for mut piece in pieces {
        if piece.at < end {
            return Err(damaged("pieces of a file overlap"));
        }
        end = piece.at.saturating_add(piece.length);
        if piece.at < size && piece.length > 0 {
            piece.length = piece.length.min(size - piece.at);
            kept.push(piece);
        }
    }
    Ok(kept)
}

/// A program's rights, where the inode has them.
fn capability(inode: &[u8]) -> Option<Vec<u8>> {
    let start = 128 + usize::from(u16_at(inode, 0x80));
    let body = inode.get(start..).filter(|body| u32_at(body, 0) == ATTRIBUTES_MAGIC)?.get(4..)?;
    let mut at = 0;
    while u32_at(body, at) != 0 {
        let length = usize::from(*body.get(at)?);
        let name = body.get(at + 16..at + 16 + length)?;
        if body[at + 1] == SECURITY && name == CAPABILITY && u32_at(body, at + 4) == 0 {
            let place = usize::from(u16_at(body, at + 2));
            let size = u32_at(body, at + 8) as usize;
            return body.get(place..place.checked_add(size)?).map(<[u8]>::to_vec);
        }
        at += (16 + length).next_multiple_of(4);
    }
    None
}
