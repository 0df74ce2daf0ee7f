//! Writes a tree as an image of ext4 that is only ever mounted read-only: no journal, no room.
//!
//! The same tree is the same image. All tables come first, then the files' blocks in one piece
//! each, so that a guest maps them with large pages.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use super::{flag, incompat, kind, ATTRIBUTES_MAGIC, CAPABILITY, EXTENT_MAGIC, EXTENT_MAX};
use super::{MAGIC, MAGIC_AT, ROOT_INODE, SECURITY, SUPERBLOCK, SUPERBLOCK_SIZE};
use crate::tree::{Id, Kind, Node, Tree, LATEST, ROOT};
use crate::RootError;

const BLOCK: u64 = 4096;
const INODE: u64 = 256;
/// The first inode that is not reserved; e2fsck wants `lost+found` there.
const FIRST_INODE: u32 = 11;
const LOST_AND_FOUND: &[u8] = b"lost+found";
/// Size of a group's description without the feature 64bit.
const DESCRIPTION: u64 = 32;
/// The most blocks or inodes that a block's bits count.
const GROUP: u64 = BLOCK * 8;
/// Extents that an inode and a block have room for.
const IN_INODE: u64 = 4;
const IN_BLOCK: u64 = (BLOCK - 12) / 12;
/// The longest target of a symbolic link that the inode itself has.
const FAST_LINK: usize = 59;
/// Where an inode's attributes begin: after its fields up to `i_projid`.
const EXTRA: u16 = 32;
/// The image's size is a multiple of this: it is mapped with large pages.
const WHOLE: u64 = 2 << 20;

/// A file and its place in the image.
struct Placed {
    id: Id,
    inode: u32,
    /// Its first block of data, and how many it has.
    start: u64,
    blocks: u64,
    /// The block of its extents, if they are many; it comes before the data.
    index: Option<u64>,
    /// For a folder, the inode of the one above.
    parent: u32,
}

struct Layout {
    placed: Vec<Placed>,
    inode_of: HashMap<Id, u32>,
    groups: u64,
    group_blocks: u64,
    group_inodes: u64,
    blocks: u64,
    /// First blocks of the tables, and of the data.
    block_bits: u64,
    inode_bits: u64,
    inodes: u64,
    data: u64,
    /// Blocks in use.
    used: u64,
}

/// Writes the image of `tree` to the new file `path`.
pub(crate) fn write(tree: &mut Tree, path: &Path) -> Result<(), RootError> {
    if !tree.children(ROOT).any(|(name, _)| name == LOST_AND_FOUND) {
        let meta = crate::tree::Meta::of_root(0o700);
        tree.put(ROOT, LOST_AND_FOUND, meta, Kind::Folder(Default::default()), 0)?;
    }
    let layout = Layout::new(tree)?;
    let file = File::create(path).map_err(RootError::file("create", path))?;
    file.set_len(layout.blocks * BLOCK).map_err(RootError::file("write", path))?;
    let error = || RootError::file("write", path);
    let mut out = BufWriter::with_capacity(1 << 20, file);
    out.seek(SeekFrom::Start(SUPERBLOCK)).map_err(error())?;
    out.write_all(&layout.superblock(tree)).map_err(error())?;
    out.seek(SeekFrom::Start(BLOCK)).map_err(error())?;
    out.write_all(&layout.descriptions(tree)).map_err(error())?;
    out.seek(SeekFrom::Start(layout.block_bits * BLOCK)).map_err(error())?;
    out.write_all(&layout.bits()).map_err(error())?;
    for placed in &layout.placed {
        let at = layout.inodes * BLOCK + u64::from(placed.inode - 1) * INODE;
        out.seek(SeekFrom::Start(at)).map_err(error())?;
        out.write_all(&layout.inode(tree, placed)).map_err(error())?;
    }
    out.seek(SeekFrom::Start(layout.data * BLOCK)).map_err(error())?;
    for placed in &layout.placed {
        layout.content(tree, placed, &mut out, path)?;
    }
    out.into_inner().map_err(|e| e.into_error()).map_err(error()).map(drop)
}

/// How many blocks hold the names of a folder.
fn folder_blocks<'a>(names: impl Iterator<Item = &'a [u8]>) -> u64 {
    let (mut blocks, mut at) = (1, 24);
    for name in names {
        let length = record(name);
        if at + length > BLOCK {
            (blocks, at) = (blocks + 1, 0);
        }
        at += length;
    }
    blocks
}

/// Length of a name's record.
fn record(name: &[u8]) -> u64 {
    (8 + name.len() as u64).next_multiple_of(4)
}

impl Layout {
    fn new(tree: &Tree) -> Result<Self, RootError> {
        let mut placed = Vec::new();
        let mut inode_of = HashMap::new();
        let mut next = FIRST_INODE + 1;
        let mut todo = vec![(ROOT, ROOT_INODE, ROOT_INODE)];
        inode_of.insert(ROOT, ROOT_INODE);
        while let Some((id, inode, parent)) = todo.pop() {
            placed.push(Placed { id, inode, start: 0, blocks: 0, index: None, parent });
            let mut below = Vec::new();
            for (name, child) in tree.children(id) {
                if inode_of.contains_key(&child) {
                    continue;
                }
                let number = if id == ROOT && name == LOST_AND_FOUND {
                    FIRST_INODE
                } else {
                    next += 1;
                    next - 1
                };
                inode_of.insert(child, number);
                below.push((child, number, inode));
            }
            // In the order of the names.
            todo.extend(below.into_iter().rev());
        }
        let inodes = u64::from(next - 1);
        let mut layout = Self {
            placed,
            inode_of,
            groups: 1,
            group_blocks: GROUP,
            group_inodes: 0,
            blocks: 0,
            block_bits: 0,
            inode_bits: 0,
            inodes: 0,
            data: 0,
            used: 0,
        };
        let data = layout.place(tree);
        layout.arrange(data, inodes);
        let first = layout.data;
        for placed in &mut layout.placed {
            placed.start += first;
            placed.index = placed.index.map(|index| index + first);
        }
        Ok(layout)
    }

    /// Gives each file its blocks, counted from the first of the data; how many they are.
    fn place(&mut self, tree: &Tree) -> u64 {
        let mut next = 0;
        for placed in &mut self.placed {
            placed.blocks = match &tree.node(placed.id).kind {
                Kind::Folder(children) => folder_blocks(children.keys().map(Vec::as_slice)),
                Kind::File(content) => content.length().div_ceil(BLOCK),
                Kind::Link(target) if target.len() > FAST_LINK => 1,
                _ => 0,
            };
            if placed.blocks.div_ceil(EXTENT_MAX) > IN_INODE {
                placed.index = Some(next);
                next += 1;
            }
            placed.start = next;
            next += placed.blocks;
        }
        next
    }

    /// Finds how many groups there are, and where the tables lie.
    fn arrange(&mut self, data: u64, inodes: u64) {
        // A group counts as many inodes as blocks at most: many small files need small groups.
        loop {
            let groups = (data + inodes * INODE / BLOCK + 64).div_ceil(self.group_blocks);
            if groups * GROUP >= inodes || self.group_blocks <= 1024 {
                break;
            }
            self.group_blocks /= 2;
        }
        loop {
            let per_group = inodes.div_ceil(self.groups).next_multiple_of(BLOCK / INODE);
            self.group_inodes = per_group.min(GROUP);
            let table = self.group_inodes * INODE / BLOCK;
            let descriptions = (self.groups * DESCRIPTION).div_ceil(BLOCK);
            self.block_bits = 1 + descriptions;
            self.inode_bits = self.block_bits + self.groups;
            self.inodes = self.inode_bits + self.groups;
            self.data = self.inodes + self.groups * table;
            self.used = self.data + data;
            self.blocks = (self.used * BLOCK).next_multiple_of(WHOLE) / BLOCK;
            let needed = self.blocks.div_ceil(self.group_blocks);
            if needed <= self.groups && self.groups * self.group_inodes >= inodes {
                // A group of its own for nothing is not allowed.
                self.blocks =
                    self.blocks.max((self.groups - 1) * self.group_blocks + WHOLE / BLOCK);
                return;
            }
            self.groups = needed.max(self.groups + 1);
        }
    }

    /// Blocks of a group.
    fn size_of(&self, group: u64) -> u64 {
        self.group_blocks.min(self.blocks - group * self.group_blocks)
    }

    /// Used blocks of a group: they are all at the image's start.
    fn used_of(&self, group: u64) -> u64 {
        self.used.saturating_sub(group * self.group_blocks).min(self.size_of(group))
    }

    /// Used inodes of a group: they are all at the start, too.
    fn inodes_of(&self, group: u64) -> u64 {
        let used = u64::from(FIRST_INODE) - 1 + self.placed.len() as u64 - 1;
        used.saturating_sub(group * self.group_inodes).min(self.group_inodes)
    }

    fn superblock(&self, tree: &Tree) -> Vec<u8> {
        let mut block = vec![0; SUPERBLOCK_SIZE];
        let newest = tree.newest() as u32;
        let groups = 0..self.groups;
        let free_blocks = self.blocks - self.used;
        let free_inodes: u64 = groups.map(|g| self.group_inodes - self.inodes_of(g)).sum();
        let words: [(usize, u32); 21] = [
            (0x00, (self.groups * self.group_inodes) as u32),
            (0x04, self.blocks as u32),
            (0x0c, free_blocks as u32),
            (0x10, free_inodes as u32),
            (0x18, 2), // blocks of 1024 << 2 bytes
            (0x1c, 2),
            (0x20, self.group_blocks as u32),
            (0x24, self.group_blocks as u32),
            (0x28, self.group_inodes as u32),
            (0x30, newest),
            (0x40, newest),
            (0x4c, 1), // with dynamic inode sizes
            (0x54, FIRST_INODE),
            // ext_attr and sparse_super2, which has copies of the superblock nowhere.
            (0x5c, 0x8 | 0x200),
            (0x60, incompat::FILE_TYPE | incompat::EXTENTS | incompat::FLEX_GROUPS),
            // large_file, huge_file, dir_nlink, extra_isize
            (0x64, 0x2 | 0x8 | 0x20 | 0x40),
            (0x108, newest),
            (0x15c, u32::from(EXTRA) | u32::from(EXTRA) << 16),
            (0x160, 1), // hashes of signed characters
            (0xec, 0x57a5_1500),
            (0xfc, 1), // half MD4
        ];
        for (at, word) in words {
            block[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let halves: [(usize, u16); 5] =
            [(0x36, u16::MAX), (MAGIC_AT, MAGIC), (0x3a, 1), (0x3c, 1), (0x58, INODE as u16)];
        for (at, half) in halves {
            block[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        block[0x68..0x78].copy_from_slice(&UUID);
        block[0x78..0x78 + LABEL.len()].copy_from_slice(LABEL);
        block[0x174] = 4; // groups are flexible by 16
        block
    }

    fn descriptions(&self, tree: &Tree) -> Vec<u8> {
        let mut folders = vec![0u16; self.groups as usize];
        for placed in &self.placed {
            if matches!(tree.node(placed.id).kind, Kind::Folder(_)) {
                let group = u64::from(placed.inode - 1) / self.group_inodes;
                folders[group as usize] += 1;
            }
        }
        let table = self.group_inodes * INODE / BLOCK;
        let mut bytes = Vec::new();
        for (group, folders) in (0..).zip(folders) {
            for block in
                [self.block_bits + group, self.inode_bits + group, self.inodes + group * table]
            {
                bytes.extend_from_slice(&(block as u32).to_le_bytes());
            }
            let free_blocks = self.size_of(group) - self.used_of(group);
            let free_inodes = self.group_inodes - self.inodes_of(group);
            for half in [free_blocks as u16, free_inodes as u16, folders] {
                bytes.extend_from_slice(&half.to_le_bytes());
            }
            bytes.resize(((group + 1) * DESCRIPTION) as usize, 0);
        }
        bytes
    }

    /// Which blocks and which inodes are in use, group by group.
    fn bits(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |used: u64, size: u64| {
            let bit = |at: u64| at < used || at >= size;
            bytes.extend((0..BLOCK).map(|byte| {
                (0..8).fold(0u8, |bits, at| bits | u8::from(bit(byte * 8 + at)) << at)
            }));
        };
        (0..self.groups).for_each(|group| add(self.used_of(group), self.size_of(group)));
        (0..self.groups).for_each(|group| add(self.inodes_of(group), self.group_inodes));
        bytes
    }

    fn inode(&self, tree: &Tree, placed: &Placed) -> Vec<u8> {
        let node = tree.node(placed.id);
        let mut inode = vec![0; INODE as usize];
        let (kind, size, links) = self.facts(tree, node, placed);
        let blocks = (placed.blocks + u64::from(placed.index.is_some())) * (BLOCK / 512);
        let time = node.meta.mtime.min(LATEST);
        let halves: [(usize, u16); 6] = [
            (0x00, kind | node.meta.mode & 0o7777),
            (0x02, node.meta.uid as u16),
            (0x18, node.meta.gid as u16),
            (0x1a, links),
            (0x78, (node.meta.uid >> 16) as u16),
            (0x7a, (node.meta.gid >> 16) as u16),
        ];
        for (at, half) in halves {
            inode[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        // Seconds beyond 31 bits continue in two bits of their own.
        let epoch = ((time + (1 << 31)) >> 32) as u32 & 3;
        let mut words =
            vec![(0x04, size as u32), (0x6c, (size >> 32) as u32), (0x1c, blocks as u32)];
        for (low, high) in [(0x08, 0x8c), (0x0c, 0x84), (0x10, 0x88), (0x90, 0x94)] {
            words.extend([(low, time as u32), (high, epoch)]);
        }
        for (at, word) in words {
            inode[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
        }
        inode[0x80..0x82].copy_from_slice(&EXTRA.to_le_bytes());
        match &node.kind {
            Kind::Link(target) if target.len() <= FAST_LINK => {
                inode[0x28..0x28 + target.len()].copy_from_slice(target);
            }
            Kind::Device { major, minor, .. } => {
                // Small numbers in the old form, others in the new one (linux/kdev_t.h).
                let (at, number) = match (*major, *minor) {
                    (major @ 0..=255, minor @ 0..=255) => (0x28, major << 8 | minor),
                    (major, minor) => (0x2c, minor & 0xff | major << 8 | (minor & !0xff) << 12),
                };
                inode[at..at + 4].copy_from_slice(&number.to_le_bytes());
            }
            Kind::Pipe | Kind::Socket => {}
            Kind::Folder(_) | Kind::File(_) | Kind::Link(_) => {
                inode[0x20..0x24].copy_from_slice(&flag::EXTENTS.to_le_bytes());
                let extents = match placed.index {
                    Some(index) => top_of_index(index),
                    None => extents(placed, IN_INODE),
                };
                inode[0x28..0x28 + extents.len()].copy_from_slice(&extents);
            }
        }
        if let Some(capability) = &node.meta.capability {
            add_capability(&mut inode, capability);
        }
        inode
    }

    /// Type, size and links.
    fn facts(&self, tree: &Tree, node: &Node, placed: &Placed) -> (u16, u64, u16) {
        /// Above this the number is not counted (feature dir_nlink).
        const MOST: usize = 65_000;
        let names = node.names.min(MOST as u32) as u16;
        match &node.kind {
            Kind::Folder(children) => {
                let is_folder = |id: &&Id| matches!(tree.node(**id).kind, Kind::Folder(_));
                let folders = 2 + children.values().filter(is_folder).count();
                let links = if folders >= MOST { 1 } else { folders as u16 };
                (kind::FOLDER, placed.blocks * BLOCK, links)
            }
            Kind::File(content) => (kind::FILE, content.length(), names),
            Kind::Link(target) => (kind::LINK, target.len() as u64, names),
            Kind::Device { block: true, .. } => (kind::BLOCK, 0, names),
            Kind::Device { block: false, .. } => (kind::CHARACTER, 0, names),
            Kind::Pipe => (kind::PIPE, 0, names),
            Kind::Socket => (kind::SOCKET, 0, names),
        }
    }

    /// Writes a file's blocks where the output is.
    fn content(
        &self,
        tree: &Tree,
        placed: &Placed,
        out: &mut BufWriter<File>,
        path: &Path,
    ) -> Result<(), RootError> {
        let error = || RootError::file("write", path);
        if placed.index.is_some() {
            let mut block = extents(placed, IN_BLOCK);
            block.resize(BLOCK as usize, 0);
            out.write_all(&block).map_err(error())?;
        }
        let length = match &tree.node(placed.id).kind {
            Kind::Folder(_) => {
                let names = self.names(tree, placed);
                out.write_all(&names).map_err(error())?;
                names.len() as u64
            }
            Kind::Link(target) if placed.blocks > 0 => {
                out.write_all(target).map_err(error())?;
                target.len() as u64
            }
            Kind::File(content) => {
                // Errors of reading and of writing are told apart.
                let mut failed = None;
                let copied = content.copy(&mut |bytes| {
                    out.write_all(bytes).inspect_err(|e| failed = Some(io::Error::from(e.kind())))
                });
                if let Some(failed) = failed {
                    return Err(error()(failed));
                }
                copied.map_err(|e| {
                    let of = match content {
                        crate::content::Content::Path { path, .. } => path.display().to_string(),
                        _ => "a file in it".into(),
                    };
                    tree.fail(format!("{of} cannot be read: {e}"))
                })?;
                content.length()
            }
            _ => 0,
        };
        let rest = length.next_multiple_of(BLOCK) - length;
        out.write_all(&vec![0; rest as usize]).map_err(error())
    }

    /// The blocks of a folder.
    fn names(&self, tree: &Tree, placed: &Placed) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut last = 0;
        let mut add = |bytes: &mut Vec<u8>, inode: u32, kind: u8, name: &[u8]| {
            let at = bytes.len() as u64 % BLOCK;
            if at + record(name) > BLOCK && at > 0 {
                fill(bytes, last);
            }
            last = bytes.len();
            bytes.extend_from_slice(&inode.to_le_bytes());
            bytes.extend_from_slice(&(record(name) as u16).to_le_bytes());
            bytes.extend_from_slice(&[name.len() as u8, kind]);
            bytes.extend_from_slice(name);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            last
        };
        add(&mut bytes, placed.inode, 2, b".");
        let mut end = add(&mut bytes, placed.parent, 2, b"..");
        for (name, id) in tree.children(placed.id) {
            let inode = self.inode_of.get(&id).copied().unwrap_or(0);
            end = add(&mut bytes, inode, name_kind(&tree.node(id).kind), name);
        }
        fill(&mut bytes, end);
        bytes
    }
}

/// Has the record at `last` reach to the end of its block.
fn fill(bytes: &mut Vec<u8>, last: usize) {
    let end = bytes.len().next_multiple_of(BLOCK as usize);
    let length = (end - last) as u16;
    bytes[last + 4..last + 6].copy_from_slice(&length.to_le_bytes());
    bytes.resize(end, 0);
}

/// A file's type beside its name.
fn name_kind(kind: &Kind) -> u8 {
    match kind {
        Kind::File(_) => 1,
        Kind::Folder(_) => 2,
        Kind::Device { block: false, .. } => 3,
        Kind::Device { block: true, .. } => 4,
        Kind::Pipe => 5,
        Kind::Socket => 6,
        Kind::Link(_) => 7,
    }
}

fn header(entries: u64, most: u64, depth: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for half in [EXTENT_MAGIC, entries as u16, most as u16, depth, 0, 0] {
        bytes.extend_from_slice(&half.to_le_bytes());
    }
    bytes
}

/// A node with a file's extents, which has room for `most`.
fn extents(placed: &Placed, most: u64) -> Vec<u8> {
    let count = placed.blocks.div_ceil(EXTENT_MAX);
    let mut bytes = header(count, most, 0);
    for extent in 0..count {
        let at = extent * EXTENT_MAX;
        let length = (placed.blocks - at).min(EXTENT_MAX);
        bytes.extend_from_slice(&(at as u32).to_le_bytes());
        bytes.extend_from_slice(&(length as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&((placed.start + at) as u32).to_le_bytes());
    }
    bytes
}

/// A node that leads to the one in block `index`.
fn top_of_index(index: u64) -> Vec<u8> {
    let mut bytes = header(1, IN_INODE, 1);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&(index as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// Puts a program's rights where the inode has room for attributes; longer ones than Linux has
/// are left out.
fn add_capability(inode: &mut [u8], value: &[u8]) {
    let start = 128 + usize::from(EXTRA);
    let room = inode.len() - start - 4;
    let entry = (16 + CAPABILITY.len()).next_multiple_of(4);
    let place = (room.saturating_sub(value.len())) & !3;
    // Four zeroes end the list of entries.
    if value.is_empty() || place < entry + 4 {
        return;
    }
    inode[start..start + 4].copy_from_slice(&ATTRIBUTES_MAGIC.to_le_bytes());
    let body = &mut inode[start + 4..];
    body[0] = CAPABILITY.len() as u8;
    body[1] = SECURITY;
    body[2..4].copy_from_slice(&(place as u16).to_le_bytes());
    body[8..12].copy_from_slice(&(value.len() as u32).to_le_bytes());
    body[16..16 + CAPABILITY.len()].copy_from_slice(CAPABILITY);
    body[place..place + value.len()].copy_from_slice(value);
}

/// The image's identity: always the same.
const UUID: [u8; 16] = [0x57, 0xa5, 0x15, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 3];
const LABEL: &[u8] = b"stasis-root";
