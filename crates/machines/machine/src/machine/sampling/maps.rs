//! The files that a program's addresses are mapped from, by the kernel's own structures, and the callers
//! of their functions.
//!
//! Source: Linux, Documentation/core-api/maple_tree.rst; nodes and their encoding:
//! include/linux/maple_tree.h and lib/maple_tree.c of 6.1.

use std::collections::HashMap;
use std::ops::Range;

use stasis_run_events::{MapleNode, Maps};
use stasis_unwind::{by_frame_pointer, Caller, Registers, Table};

use super::super::program_source::ProgramSource;
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

/// Limit on the files that are told apart, and on the bytes of their tables.
const MAX_FILES: usize = 1 << 12;
const MAX_TABLES: usize = 32 << 20;

/// Limit on the ranges of a program that are gone through; a program has 65,530 mappings at most
/// (Linux, vm.max_map_count).
const MAX_RANGES: usize = 1 << 18;

/// Limit on the images in memory that are told apart, and on the bytes of one.
const MAX_IMAGES: usize = 16;
const MAX_IMAGE: u64 = 64 << 10;
/// Bytes of an image by which it is known again: the header of an ELF file.
const HEADER: usize = 64;
/// Its parts that tell of sections: `e_shoff`, and from `e_shentsize` on.
const SECTIONS: [Range<usize>; 2] = [40..48, 58..64];

/// The owner of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A file, by its number among those that have come up.
    File(usize),
    /// An ELF file that is in memory only, likewise: the kernel's code for programs (vDSO).
    Image(usize),
    /// Neither: a compiler's code in memory.
    Nothing,
}

/// A place in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub owner: Owner,
    /// Bytes from its begin.
    pub offset: u64,
}

/// A mapping of code: its addresses, and the place of the first.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    addresses: Range<u64>,
    place: Place,
}

/// A file.
struct Known {
    path: String,
    table: Option<Table>,
}

/// The files that have come up.
pub(super) struct Files {
    maps: Maps,
    source: Option<ProgramSource>,
    files: Vec<Known>,
    /// With their headers and lengths.
    images: Vec<([u8; HEADER], u64, Option<Table>)>,
    /// Bytes of their tables.
    tables: usize,
    /// By the entry of the file's name, and its hash and length: entries are used again.
    known: HashMap<(usize, u64, u64), usize>,
}

impl Files {
    pub(super) fn new(maps: Maps, source: Option<ProgramSource>) -> Self {
        Self {
            maps,
            source,
            files: Vec::new(),
            images: Vec::new(),
            tables: 0,
            known: HashMap::new(),
        }
    }

    pub(super) fn path(&self, file: usize) -> &str {
        &self.files[file].path
    }

    /// The place of an address of the program of `thread`, if it is of code. `mappings`: its mappings that
    /// have been looked up since it ran last.
    pub(super) fn place(
        &mut self,
        (machine, thread): (usize, u64),
        address: u64,
        mappings: &mut Vec<Mapping>,
        memory: &mut impl Words,
    ) -> Option<Place> {
        let place = match mappings.iter().position(|mapping| mapping.addresses.contains(&address)) {
            Some(place) => place,
            None => {
                mappings.push(self.mapping((machine, thread), address, memory)?);
                mappings.len() - 1
            }
        };
        let Mapping { addresses, place: Place { owner, offset } } = &mappings[place];
        Some(Place { owner: *owner, offset: offset.wrapping_add(address - addresses.start) })
    }

    fn mapping(
        &mut self,
        (machine, thread): (usize, u64),
        address: u64,
        memory: &mut impl Words,
    ) -> Option<Mapping> {
        let maps = self.maps;
        let root = tree_of(&maps, thread, memory)?;
        let mapping = find(&maps, root, address, memory)?;
        let mut word = |offset: u64| memory.quad(mapping.wrapping_add(offset));
        let addresses = word(maps.begin)?..word(maps.end)?;
        let (flags, page, file) = (word(maps.flags)?, word(maps.page)?, word(maps.file)?);
        if !addresses.contains(&address) || flags & EXECUTABLE == 0 {
            return None;
        }
        let place = match file {
            0 => {
                let image = self.image(&addresses, memory);
                Place { owner: image.map_or(Owner::Nothing, Owner::Image), offset: 0 }
            }
            file => {
                let owner = Owner::File(self.file(machine, file, memory)?);
                Place { owner, offset: page << PAGE_SHIFT }
            }
        };
        Some(Mapping { addresses, place })
    }

    /// The number of the image at these addresses.
    fn image(&mut self, addresses: &Range<u64>, memory: &mut impl Words) -> Option<usize> {
        let length = addresses.end - addresses.start;
        let mut header = [0; HEADER];
        let is_possible = (HEADER as u64..=MAX_IMAGE).contains(&length);
        if !is_possible || !memory.read(addresses.start, &mut header) {
            return None;
        }
        let is = |known: &([u8; HEADER], u64, _)| (known.0, known.1) == (header, length);
        let known = self.images.iter().position(is);
        if known.is_some() || !header.starts_with(b"\x7fELF") || self.images.len() == MAX_IMAGES {
            return known;
        }
        // Pages that the program has not touched are left out; its list of sections may be in one.
        const PAGE: usize = 1 << PAGE_SHIFT;
        let mut bytes = vec![0; length as usize];
        let mut is_whole = true;
        for (page, bytes) in (0..).zip(bytes.chunks_mut(PAGE)) {
            is_whole &= memory.read(addresses.start + page * PAGE as u64, bytes);
        }
        SECTIONS.into_iter().for_each(|part| bytes[part].fill(0));
        let table = Table::of(&bytes);
        (table.is_some() || is_whole).then(|| {
            self.images.push((header, length, table));
            self.images.len() - 1
        })
    }

    /// The number of the file of a `struct file`.
    fn file(&mut self, machine: usize, file: u64, memory: &mut impl Words) -> Option<usize> {
        let entry = memory.quad(file.wrapping_add(self.maps.entry))?;
        let hash = memory.quad(entry.wrapping_add(self.maps.hash))?;
        let key = (machine, entry, hash);
        if let Some(&file) = self.known.get(&key) {
            return Some(file);
        }
        let path = path_of(&self.maps, entry, memory)?;
        let known = self.files.iter().position(|one| one.path == path);
        let number = match known {
            Some(number) => number,
            None if self.files.len() == MAX_FILES => return None,
            None => {
                let table = self.source.as_ref().and_then(|source| source(&path));
                let table = table.and_then(|table| Table::decode(&table));
                let room = MAX_TABLES - self.tables;
                let table = table.filter(|table| table.size() <= room);
                self.tables += table.as_ref().map_or(0, Table::size);
                self.files.push(Known { path, table });
                self.files.len() - 1
            }
        };
        self.known.insert(key, number);
        Some(number)
    }

    /// The caller of the function at a place: as its file tells, or else by a frame pointer.
    pub(super) fn caller(
        &self,
        place: Place,
        registers: Registers,
        memory: &mut impl Words,
    ) -> Option<Caller> {
        let table = match place.owner {
            Owner::File(file) => self.files[file].table.as_ref(),
            Owner::Image(image) => self.images[image].2.as_ref(),
            Owner::Nothing => None,
        };
        let read = |at: u64| memory.quad(at);
        match table.and_then(|table| table.rule(place.offset)) {
            Some(rule) => rule.caller(registers, read),
            None => by_frame_pointer(registers, read),
        }
    }
}

/// The names of a file's entry, from the root of its file system on.
fn path_of(maps: &Maps, mut entry: u64, memory: &mut impl Words) -> Option<String> {
    let mut names = Vec::new();
    while names.len() < NAMES {
        let parent = memory.quad(entry.wrapping_add(maps.parent))?;
        if parent == entry {
            break;
        }
        let at = memory.quad(entry.wrapping_add(maps.name))?;
        names.push(name(at, memory)?);
        entry = parent;
    }
    names.reverse();
    // A stack is written as names between semicolons, on a line of its own.
    let plain = |c: char| if c == ';' || c.is_control() { '_' } else { c };
    Some(format!("/{}", names.join("/")).chars().map(plain).collect())
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

/// Returns whether the program of `thread` has a mapping at an address.
pub(in super::super) fn is_mapped(
    maps: &Maps,
    thread: u64,
    address: u64,
    memory: &mut impl Words,
) -> bool {
    let root = tree_of(maps, thread, memory);
    root.and_then(|root| find(maps, root, address, memory)).is_some()
}

/// A mapping of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct MappedFile {
    pub addresses: Range<u64>,
    /// Offset in the file (bytes).
    pub offset: u64,
    /// It may be read, written, executed: bits 0, 1, 2 (include/linux/mm.h).
    pub flags: u64,
    pub path: String,
}

/// The mappings of files that the program of `thread` has.
pub(in super::super) fn mapped_files(
    maps: &Maps,
    thread: u64,
    memory: &mut impl Words,
) -> Vec<MappedFile> {
    let mut files = Vec::new();
    let Some(root) = tree_of(maps, thread, memory) else { return files };
    let mut index = Some(0);
    for _ in 0..MAX_RANGES {
        let Some((entry, last)) = index.and_then(|index| locate(maps, root, index, memory)) else {
            break;
        };
        if entry != 0 {
            let mut word = |offset: u64| memory.quad(entry.wrapping_add(offset));
            let (begin, end) = (word(maps.begin), word(maps.end));
            let (page, flags) = (word(maps.page), word(maps.flags).unwrap_or(0));
            let file = word(maps.file).filter(|file| *file != 0);
            let entry = file.and_then(|file| memory.quad(file.wrapping_add(maps.entry)));
            let path = entry.and_then(|entry| path_of(maps, entry, memory));
            if let (Some((begin, end)), Some(page), Some(path)) = (begin.zip(end), page, path) {
                let offset = page << PAGE_SHIFT;
                files.push(MappedFile { addresses: begin..end, offset, flags, path });
            }
        }
        index = last.checked_add(1).filter(|next| index.is_some_and(|index| index < *next));
    }
    files
}

/// The root of the mappings of a thread's program.
fn tree_of(maps: &Maps, thread: u64, memory: &mut impl Words) -> Option<u64> {
    let space = memory.quad(thread.wrapping_add(maps.space)).filter(|space| *space != 0)?;
    memory.quad(space.wrapping_add(maps.root))
}

/// The entry of a tree for an index.
fn find(maps: &Maps, root: u64, index: u64, memory: &mut impl Words) -> Option<u64> {
    locate(maps, root, index, memory).map(|(entry, _)| entry).filter(|entry| *entry != 0)
}

/// The entry of a tree for an index, 0 for none, and the last index that has the same.
fn locate(maps: &Maps, root: u64, index: u64, memory: &mut impl Words) -> Option<(u64, u64)> {
    let mut node = (root & 3 == IS_NODE).then_some(root)?;
    let mut last_of_all = u64::MAX;
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
        let word = |at: u64| stasis_layout::u64_at(&bytes, usize::try_from(at).ok()?);
        let count = slots.checked_sub(pivots)? / 8;
        let mut slot = 0;
        while slot < count {
            let last = word(pivots + 8 * slot)?;
            // From there on there is nothing: the one before reaches to the node's end.
            if last == 0 && slot > 0 {
                break;
            }
            if index <= last {
                last_of_all = last;
                break;
            }
            slot += 1;
        }
        node = word(slots + 8 * slot)?;
        if kind == LEAF {
            return Some((node, last_of_all));
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Memory of single bytes.
    #[derive(Debug, Default)]
    pub(in super::super) struct Memory(HashMap<u64, u8>);

    impl Memory {
        pub(in super::super) fn put(&mut self, at: u64, bytes: &[u8]) {
            self.0.extend((at..).zip(bytes.iter().copied()));
        }

        pub(in super::super) fn put_quad(&mut self, at: u64, quad: u64) {
            self.put(at, &quad.to_le_bytes());
        }
    }

    impl Words for Memory {
        fn read(&mut self, start: u64, into: &mut [u8]) -> bool {
            let places = (0..into.len() as u64).map(|place| start.wrapping_add(place));
            into.iter_mut().zip(places).all(|(byte, place)| {
                let there = self.0.get(&place);
                *byte = there.copied().unwrap_or_default();
                there.is_some()
            })
        }
    }

    /// The nodes of 6.1: 15 and 9 pivots behind the pointer to the parent.
    pub(in super::super) const MAPS: Maps = Maps {
        space: 0x10,
        root: 0x20,
        ranges: MapleNode { pivots: 8, slots: 128 },
        gaps: MapleNode { pivots: 8, slots: 80 },
        begin: 0,
        end: 8,
        flags: 16,
        page: 24,
        file: 32,
        entry: 0x40,
        parent: 8,
        hash: 16,
        name: 24,
    };
    const NODES: u64 = 0xffff_8881_0000_0000;

    /// A tree of ranges, by their last index, of which each but the first begins behind the one before;
    /// a range of nothing has no entry. Nodes have as many slots as `fill` says, at most. Returns the
    /// root.
    pub(in super::super) fn tree(
        memory: &mut Memory,
        ranges: &[(u64, u64)],
        (fill, has_gaps, is_cut): (usize, bool, bool),
    ) -> u64 {
        /// Mark of a pointer to a node (lib/maple_tree.c, `mt_mk_node`).
        const NODE_BIT: u64 = 4;
        let mut next = NODES;
        let mut level: Vec<(u64, u64)> = ranges.to_vec();
        let mut kind = LEAF;
        loop {
            let MapleNode { pivots, slots } = if kind == GAPS { MAPS.gaps } else { MAPS.ranges };
            let most = (1 + (slots - pivots) / 8) as usize;
            let mut above = Vec::new();
            for part in level.chunks(fill.clamp(2, most)) {
                memory.put(next, &[0; NODE]);
                for (number, &(last, entry)) in (0..).zip(part) {
                    // The last one's may be left out: it is the node's own.
                    let is_last = number as usize + 1 == part.len();
                    let has_room = pivots + 8 * number < slots;
                    if has_room && !(is_last && is_cut && number > 0) {
                        memory.put_quad(next + pivots + 8 * number, last);
                    }
                    memory.put_quad(next + slots + 8 * number, entry);
                }
                let last = part.last().map_or(0, |(last, _)| *last);
                above.push((last, next | kind << 3 | NODE_BIT));
                next += NODE as u64;
            }
            if let [(_, root)] = above[..] {
                return root & !NODE_BIT | IS_NODE;
            }
            (level, kind) = (above, if has_gaps { GAPS } else { RANGES });
        }
    }

    /// An image of a guest's may be too short for one, and need not be there.
    #[test]
    fn an_image_is_known_by_its_header() {
        let mut memory = Memory::default();
        let mut files = Files::new(MAPS, None);
        memory.put(NODES, &[0; 0x1000]);
        memory.put(NODES, b"\x7fELF");
        for length in [0, 10, 63, MAX_IMAGE + 1] {
            assert_eq!(files.image(&(NODES..NODES + length), &mut memory), None, "{length}");
        }
        assert_eq!(files.image(&(NODES..NODES + 0x1000), &mut memory), Some(0));
        assert_eq!(files.image(&(NODES..NODES + 0x1000), &mut memory), Some(0));
        // A file of another length is another; its second page is not there, and it tells nothing.
        assert_eq!(files.image(&(NODES..NODES + 0x2000), &mut memory), None);
        memory.put(NODES + 0x1000, &[0; 0x1000]);
        assert_eq!(files.image(&(NODES..NODES + 0x2000), &mut memory), Some(1));
        for number in 2..2 * MAX_IMAGES {
            memory.put(NODES + 16, &[number as u8]);
            let found = files.image(&(NODES..NODES + 0x1000), &mut memory);
            assert_eq!(found, Some(number).filter(|number| *number < MAX_IMAGES));
        }
    }

    proptest! {
        /// Against a list of the ranges: each index has the entry of its range.
        #[test]
        fn each_index_has_its_entry(
            lengths in prop::collection::vec((1u64..5, any::<bool>()), 1..120),
            shape in (2usize..20, any::<bool>(), any::<bool>()),
        ) {
            let (mut ranges, mut last) = (Vec::new(), 0);
            for (number, (length, is_mapped)) in (1..).zip(lengths) {
                last += length;
                ranges.push((last, if is_mapped { 0xffff_8880_0000_0000 + 64 * number } else { 0 }));
            }
            // The last range of a tree reaches to the end of all.
            ranges.push((u64::MAX, 0));
            let mut memory = Memory::default();
            let root = tree(&mut memory, &ranges, shape);
            for index in (0..last + 3).chain([u64::MAX - 1, u64::MAX]) {
                let its = ranges.iter().find(|(last, _)| index <= *last).map(|(_, entry)| *entry);
                let found = find(&MAPS, root, index, &mut memory);
                prop_assert_eq!(found, its.filter(|entry| *entry != 0), "{}", index);
            }
            // Each range in its turn, as far as there are any; the last may be one with what follows.
            let mut index = 0;
            for (number, &(last, entry)) in ranges.iter().enumerate() {
                let (found, end) = locate(&MAPS, root, index, &mut memory).unwrap();
                prop_assert_eq!(found, entry);
                prop_assert!(end == last || number + 1 == ranges.len() && end > last, "{} {}", end, last);
                index = last + 1;
            }
        }

        /// Whatever a guest puts where its tree is: the walk ends.
        #[test]
        fn noise_is_walked_to_an_end(
            noise in prop::collection::vec(any::<u8>(), NODE),
            root in any::<u64>(),
            index in any::<u64>(),
        ) {
            let mut memory = Memory::default();
            memory.put(NODES, &noise);
            find(&MAPS, root, index, &mut memory);
            // A node that is its own child.
            for kind in 0..16 {
                let own = NODES | kind << 3 | IS_NODE;
                for slot in 0..NODE as u64 / 8 {
                    memory.put_quad(NODES + 8 * slot, own);
                }
                find(&MAPS, own, index, &mut memory);
                find(&MAPS, own, own, &mut memory);
            }
        }
    }
}
