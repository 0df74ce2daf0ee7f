//! The superblock, the groups' descriptions, and the bits of blocks and inodes in use.

use super::layout::{Layout, DESCRIPTION, EXTRA, FIRST_INODE, INODE};
use super::BLOCK;
use super::{incompat, MAGIC, MAGIC_AT, SUPERBLOCK_SIZE};
use crate::tree::{Kind, Tree};

/// The image's identity: always the same.
const UUID: [u8; 16] = [0x57, 0xa5, 0x15, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 3];
const LABEL: &[u8] = b"stasis-root";

impl Layout {
    pub(super) fn superblock(&self, tree: &Tree) -> Vec<u8> {
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

    pub(super) fn descriptions(&self, tree: &Tree) -> Vec<u8> {
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
    pub(super) fn bits(&self) -> Vec<u8> {
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
}
