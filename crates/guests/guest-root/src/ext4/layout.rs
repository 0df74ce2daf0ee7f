//! Layout of an image. All tables come first, then the files' blocks in one piece each, so that a
//! guest maps them with large pages.

use std::collections::HashMap;

use super::names::folder_blocks;
use super::{BLOCK, MAX_EXTENT, ROOT_INODE};
use crate::tree::{Id, Kind, Tree, ROOT};
use crate::RootError;

pub(super) const INODE: u64 = 256;
/// The first inode that is not reserved; e2fsck wants `lost+found` there.
pub(super) const FIRST_INODE: u32 = 11;
pub(super) const LOST_AND_FOUND: &[u8] = b"lost+found";
/// Size of a group's description without the feature 64bit.
pub(super) const DESCRIPTION: u64 = 32;
/// Number of blocks or inodes that a block's bits count.
const GROUP: u64 = BLOCK * 8;
/// Extents that an inode and a block have room for.
pub(super) const IN_INODE: u64 = 4;
pub(super) const IN_BLOCK: u64 = (BLOCK - 12) / 12;
/// The longest target of a symbolic link that the inode itself has.
pub(super) const FAST_LINK: usize = 59;
/// Place at which an inode's attributes begin: after its fields up to `i_projid`.
pub(super) const EXTRA: u16 = 32;
/// The image's size is a multiple of this: it is mapped with large pages.
const WHOLE: u64 = 2 << 20;

/// A file and its place in the image.
pub(super) struct Placed {
    pub(super) id: Id,
    pub(super) inode: u32,
    /// Its first block of data, and how many it has.
    pub(super) start: u64,
    pub(super) blocks: u64,
    /// The block of its extents, if they are many; it comes before the data.
    pub(super) index: Option<u64>,
    /// For a folder, the inode of the one above.
    pub(super) parent: u32,
}

pub(super) struct Layout {
    pub(super) placed: Vec<Placed>,
    pub(super) inode_of: HashMap<Id, u32>,
    pub(super) groups: u64,
    pub(super) group_blocks: u64,
    pub(super) group_inodes: u64,
    pub(super) blocks: u64,
    /// First blocks of the tables, and of the data.
    pub(super) block_bits: u64,
    pub(super) inode_bits: u64,
    pub(super) inodes: u64,
    pub(super) data: u64,
    /// Blocks in use.
    pub(super) used: u64,
}

impl Layout {
    pub(super) fn new(tree: &Tree) -> Result<Self, RootError> {
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
        let data = layout.place(tree)?;
        layout.arrange(data, inodes);
        // Numbers of blocks have 32 bits in what follows.
        if u32::try_from(layout.blocks).is_err() {
            return Err(tree.fail("its files have more than 16 TiB together"));
        }
        let first = layout.data;
        for placed in &mut layout.placed {
            placed.start += first;
            placed.index = placed.index.map(|index| index + first);
        }
        Ok(layout)
    }

    /// Gives each file its blocks, counted from the first of the data; returns their number.
    fn place(&mut self, tree: &Tree) -> Result<u64, RootError> {
        let mut next = 0;
        for placed in &mut self.placed {
            placed.blocks = match &tree.node(placed.id).kind {
                Kind::Folder(children) => folder_blocks(children.keys().map(Vec::as_slice)),
                Kind::File(content) => content.length().div_ceil(BLOCK),
                Kind::Link(target) if target.len() > FAST_LINK => 1,
                _ => 0,
            };
            let extents = placed.blocks.div_ceil(MAX_EXTENT);
            if extents > IN_BLOCK {
                let most = (IN_BLOCK * MAX_EXTENT * BLOCK) >> 30;
                return Err(tree.fail(format!("a file in it has more than {most} GiB")));
            }
            if extents > IN_INODE {
                placed.index = Some(next);
                next += 1;
            }
            placed.start = next;
            next += placed.blocks;
        }
        Ok(next)
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
                // An empty last group is not allowed.
                self.blocks =
                    self.blocks.max((self.groups - 1) * self.group_blocks + WHOLE / BLOCK);
                return;
            }
            self.groups = needed.max(self.groups + 1);
        }
    }

    /// Blocks of a group.
    pub(super) fn size_of(&self, group: u64) -> u64 {
        self.group_blocks.min(self.blocks - group * self.group_blocks)
    }

    /// Used blocks of a group: they are all at the image's start.
    pub(super) fn used_of(&self, group: u64) -> u64 {
        self.used.saturating_sub(group * self.group_blocks).min(self.size_of(group))
    }

    /// Used inodes of a group: they are all at the start, too.
    pub(super) fn inodes_of(&self, group: u64) -> u64 {
        let used = u64::from(FIRST_INODE) - 1 + self.placed.len() as u64 - 1;
        used.saturating_sub(group * self.group_inodes).min(self.group_inodes)
    }
}
