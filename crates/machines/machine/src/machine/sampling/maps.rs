//! The files that a program's addresses are mapped from, by the kernel's own structures.
//!
//! Source: Linux, Documentation/core-api/maple_tree.rst; nodes and their encoding:
//! include/linux/maple_tree.h and lib/maple_tree.c of 6.1.

use std::collections::HashMap;

use stasis_run_events::{MapleNode, Maps};

use super::linear::Words;

/// Bytes of a node of the tree, which is so aligned.
const NODE: usize = 256;
/// Limit on the levels of a tree; one of three has tens of thousands of entries.
const LEVELS: u32 = 8;
/// Kinds of node: leaves and inner ones of ranges, and inner ones that know gaps.
const LEAF: u64 = 1;
const RANGES: u64 = 2;
const GAPS: u64 = 3;
/// The root is a node, and no entry.
const IS_NODE: u64 = 2;
/// The mapping may be executed (include/linux/mm.h, VM_EXEC).
const EXECUTABLE: u64 = 4;
const PAGE_SHIFT: u32 = 12;
/// Limit on the names of a path, and on the bytes of one (include/uapi/linux/limits.h).
const NAMES: usize = 64;
const NAME: usize = 255;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The file, by its number among those that have come up.
    pub file: usize,
    /// Bytes from its begin.
    pub offset: u64,
}

/// The files that have come up.
#[derive(Debug)]
pub(super) struct Files {
    maps: Maps,
    paths: Vec<String>,
    /// By the entry of the file's name, and its hash and length: entries are used again.
    known: HashMap<(usize, u64, u64), usize>,
}

impl Files {
    pub(super) fn new(maps: Maps) -> Self {
        Self { maps, paths: Vec::new(), known: HashMap::new() }
    }

    pub(super) fn path(&self, file: usize) -> &str {
        &self.paths[file]
    }

    /// The place that an address of the program of `thread` is mapped from, if it is of code.
    pub(super) fn place(
        &mut self,
        machine: usize,
        thread: u64,
        address: u64,
        memory: &mut impl Words,
    ) -> Option<Place> {
        let maps = self.maps;
        let space = memory.quad(thread.wrapping_add(maps.space)).filter(|space| *space != 0)?;
        let root = memory.quad(space.wrapping_add(maps.root))?;
        let mapping = find(&maps, root, address, memory)?;
        let mut word = |offset: u64| memory.quad(mapping.wrapping_add(offset));
        let (begin, end) = (word(maps.begin)?, word(maps.end)?);
        let (flags, page, file) = (word(maps.flags)?, word(maps.page)?, word(maps.file)?);
        if !(begin..end).contains(&address) || flags & EXECUTABLE == 0 || file == 0 {
            return None;
        }
        let entry = memory.quad(file.wrapping_add(maps.entry))?;
        let hash = memory.quad(entry.wrapping_add(maps.hash))?;
        let offset = (page << PAGE_SHIFT).wrapping_add(address - begin);
        let key = (machine, entry, hash);
        if let Some(&file) = self.known.get(&key) {
            return Some(Place { file, offset });
        }
        let path = self.path_of(entry, memory)?;
        let number = self.paths.iter().position(|one| *one == path).unwrap_or(self.paths.len());
        if number == self.paths.len() {
            self.paths.push(path);
        }
        self.known.insert(key, number);
        Some(Place { file: number, offset })
    }

    /// The names from the root of the file system on.
    fn path_of(&self, mut entry: u64, memory: &mut impl Words) -> Option<String> {
        let mut names = Vec::new();
        while names.len() < NAMES {
            let parent = memory.quad(entry.wrapping_add(self.maps.parent))?;
            if parent == entry {
                break;
            }
            let at = memory.quad(entry.wrapping_add(self.maps.name))?;
            names.push(name(at, memory)?);
            entry = parent;
        }
        names.reverse();
        // A stack is written as names between semicolons, on a line of its own.
        let plain = |c: char| if c == ';' || c.is_control() { '_' } else { c };
        Some(format!("/{}", names.join("/")).chars().map(plain).collect())
    }
}

/// The name at an address, which ends with a zero.
fn name(at: u64, memory: &mut impl Words) -> Option<String> {
    let mut bytes = Vec::new();
    while bytes.len() <= NAME {
        let mut some = [0; 8];
        // Up to eight bytes, which do not cross a page.
        let length = 8 - (at.wrapping_add(bytes.len() as u64) % 8) as usize;
        if !memory.read(at.wrapping_add(bytes.len() as u64), &mut some[..length]) {
            return None;
        }
        match some[..length].iter().position(|&byte| byte == 0) {
            Some(end) => {
                bytes.extend_from_slice(&some[..end]);
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
            None => bytes.extend_from_slice(&some[..length]),
        }
    }
    None
}

/// The entry of a tree for an index.
fn find(maps: &Maps, root: u64, index: u64, memory: &mut impl Words) -> Option<u64> {
    let mut node = (root & 3 == IS_NODE).then_some(root)?;
    for _ in 0..LEVELS {
        let kind = node >> 3 & 0xf;
        let MapleNode { pivots, slots } = match kind {
            LEAF | RANGES => maps.ranges,
            GAPS => maps.gaps,
            _ => return None,
        };
        let mut bytes = [0; NODE];
        if !memory.read(node & !(NODE as u64 - 1), &mut bytes) {
            return None;
        }
        let word = |at: u64| {
            let bytes = bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let count = slots.checked_sub(pivots)? / 8;
        let mut slot = 0;
        while slot < count {
            let last = word(pivots + 8 * slot)?;
            // From there on there is nothing: the one before reaches to the node's end.
            if index <= last || last == 0 && slot > 0 {
                break;
            }
            slot += 1;
        }
        node = word(slots + 8 * slot).filter(|node| *node != 0)?;
        if kind == LEAF {
            return Some(node);
        }
    }
    None
}
