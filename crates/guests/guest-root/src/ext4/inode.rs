//! Inodes: whose a file is, and which blocks it has.

use super::layout::{Layout, Placed, EXTRA, FAST_LINK, INODE, IN_INODE};
use super::BLOCK;
use super::{flag, kind, ATTRIBUTES_MAGIC, CAPABILITY, EXTENT_MAGIC, MAX_EXTENT, SECURITY};
use crate::tree::{Id, Kind, Node, Tree, LATEST};

impl Layout {
    pub(super) fn inode(&self, tree: &Tree, placed: &Placed) -> Vec<u8> {
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
        // Seconds beyond 31 bits continue in two other bits.
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
        const MAX_LINKS: usize = 65_000;
        let names = node.names.min(MAX_LINKS as u32) as u16;
        match &node.kind {
            Kind::Folder(children) => {
                let is_folder = |id: &&Id| matches!(tree.node(**id).kind, Kind::Folder(_));
                let folders = 2 + children.values().filter(is_folder).count();
                let links = if folders >= MAX_LINKS { 1 } else { folders as u16 };
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
}

fn header(entries: u64, most: u64, depth: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for half in [EXTENT_MAGIC, entries as u16, most as u16, depth, 0, 0] {
        bytes.extend_from_slice(&half.to_le_bytes());
    }
    bytes
}

/// A node with a file's extents, which has room for `most`.
pub(super) fn extents(placed: &Placed, most: u64) -> Vec<u8> {
    let count = placed.blocks.div_ceil(MAX_EXTENT);
    let mut bytes = header(count, most, 0);
    for extent in 0..count {
        let at = extent * MAX_EXTENT;
        let length = (placed.blocks - at).min(MAX_EXTENT);
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
