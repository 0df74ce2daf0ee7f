//! The blocks of folders: names, and the inodes that they stand for.

use std::collections::HashMap;

use super::BLOCK;
use crate::tree::{Id, Kind, Tree};

/// Returns the number of blocks that hold the names of a folder.
pub(super) fn folder_blocks<'a>(names: impl Iterator<Item = &'a [u8]>) -> u64 {
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

/// Returns the blocks of a folder, whose own inode and that of the one above are `inode` and `parent`;
/// `inode_of` has those of the files in it.
pub(super) fn blocks(
    tree: &Tree,
    folder: Id,
    (inode, parent): (u32, u32),
    inode_of: &HashMap<Id, u32>,
) -> Vec<u8> {
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
    add(&mut bytes, inode, 2, b".");
    let mut end = add(&mut bytes, parent, 2, b"..");
    for (name, id) in tree.children(folder) {
        let inode = inode_of.get(&id).copied().unwrap_or(0);
        end = add(&mut bytes, inode, name_kind(&tree.node(id).kind), name);
    }
    fill(&mut bytes, end);
    bytes
}

/// Extends the record at `last` to the end of its block.
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
