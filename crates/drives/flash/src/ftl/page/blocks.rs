//! The blocks of every plane: which are free, open, full or given up, and the
//! full ones in the order of how much of them is valid.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stasis_nand::prefetch;

use super::map::Map;
use crate::ftl::Shape;
use crate::gc::{Candidate, Candidates};
use crate::spec::WearLevelling;

/// The use of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum State {
    #[default]
    Free,
    /// Pages are still to be programmed, or are being programmed.
    Open,
    /// Every page was programmed.
    Full,
    /// Its valid units are being moved out.
    Collected,
    /// A program failed in it: it takes no more, and is emptied.
    Bad,
    /// Given up.
    Retired,
}

/// A block; numbers of blocks count through the array.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    pub valid: u32,
    pub erases: u32,
    /// The next page to program.
    pub next: u32,
    /// Pages whose program has ended.
    pub ended: u32,
    /// When it became full, in blocks of its plane that did.
    filled: u32,
    // Neighbours of the same validity; one more than their number, 0 for none.
    before: u32,
    after: u32,
    pub state: State,
}

/// A plane's pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plane {
    // Blocks that were never used: all from here on.
    fresh: u32,
    // Those that were, by rank.
    used: BinaryHeap<Reverse<(u32, u32)>>,
    rank: u32,
    pub free: u32,
    /// Units that lie in it.
    pub valid: u32,
    pub retired: u32,
    filled: u32,
    // No full block is less valid.
    lowest: u32,
}

/// Every block.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub shape: Shape,
    pub blocks: Vec<Block>,
    pub planes: Vec<Plane>,
    // By plane and validity: the first and the last block, as above.
    first: Vec<u32>,
    last: Vec<u32>,
    levelling: WearLevelling,
}

impl Blocks {
    pub fn new(shape: Shape, levelling: WearLevelling) -> Self {
        let per_plane = shape.geometry.blocks;
        // Few are free at a time once each was used.
        let plane = || Plane {
            free: per_plane,
            used: BinaryHeap::with_capacity(per_plane.min(64) as usize),
            ..Plane::default()
        };
        let levels = shape.planes as usize * (shape.block_slots as usize + 1);
        Self {
            shape,
            blocks: vec![Block::default(); shape.blocks() as usize],
            planes: (0..shape.planes).map(|_| plane()).collect(),
            first: vec![0; levels],
            last: vec![0; levels],
            levelling,
        }
    }

    /// A block's entry will soon be needed.
    pub fn prefetch(&self, block: u32) {
        prefetch(&self.blocks, block as usize);
    }

    fn level(&self, plane: u32, valid: u32) -> usize {
        plane as usize * (self.shape.block_slots as usize + 1) + valid as usize
    }

    /// Takes a free block, the least worn, and opens it.
    pub fn open(&mut self, plane: u32) -> Option<u32> {
        let pool = &mut self.planes[plane as usize];
        let block = if pool.fresh < self.shape.geometry.blocks {
            pool.fresh += 1;
            self.shape.block(plane, pool.fresh - 1)
        } else {
            pool.used.pop()?.0 .1
        };
        pool.free -= 1;
        let entry = &mut self.blocks[block as usize];
        debug_assert_eq!((entry.state, entry.valid), (State::Free, 0));
        (entry.state, entry.next, entry.ended) = (State::Open, 0, 0);
        Some(block)
    }

    /// A block was erased, and is free again.
    pub fn free(&mut self, block: u32) {
        let plane = self.shape.plane_of(block);
        let pool = &mut self.planes[plane as usize];
        let entry = &mut self.blocks[block as usize];
        debug_assert_eq!(entry.valid, 0);
        entry.state = State::Free;
        pool.rank = pool.rank.wrapping_add(1);
        let rank = if self.levelling == WearLevelling::None { pool.rank } else { entry.erases };
        pool.used.push(Reverse((rank, block)));
        pool.free += 1;
    }

    /// A block is given up.
    pub fn retire(&mut self, block: u32) {
        let plane = self.shape.plane_of(block);
        self.blocks[block as usize].state = State::Retired;
        self.planes[plane as usize].retired += 1;
    }

    /// A block's last program has ended.
    pub fn fill(&mut self, block: u32) {
        let plane = self.shape.plane_of(block);
        let pool = &mut self.planes[plane as usize];
        pool.filled = pool.filled.wrapping_add(1);
        let entry = &mut self.blocks[block as usize];
        (entry.state, entry.filled) = (State::Full, pool.filled);
        self.enlist(block);
    }

    /// A full block that was to be collected is not.
    pub fn put_back(&mut self, block: u32) {
        self.blocks[block as usize].state = State::Full;
        self.enlist(block);
    }

    /// A full block is to be emptied.
    pub fn collect(&mut self, block: u32) {
        self.delist(block);
        self.blocks[block as usize].state = State::Collected;
    }

    fn enlist(&mut self, block: u32) {
        let plane = self.shape.plane_of(block);
        let valid = self.blocks[block as usize].valid;
        let level = self.level(plane, valid);
        let last = std::mem::replace(&mut self.last[level], block + 1);
        (self.blocks[block as usize].before, self.blocks[block as usize].after) = (last, 0);
        match last {
            0 => self.first[level] = block + 1,
            last => self.blocks[last as usize - 1].after = block + 1,
        }
        let pool = &mut self.planes[plane as usize];
        pool.lowest = pool.lowest.min(valid);
    }

    fn delist(&mut self, block: u32) {
        let Block { valid, before, after, .. } = self.blocks[block as usize];
        let level = self.level(self.shape.plane_of(block), valid);
        match before {
            0 => self.first[level] = after,
            before => self.blocks[before as usize - 1].after = after,
        }
        match after {
            0 => self.last[level] = before,
            after => self.blocks[after as usize - 1].before = before,
        }
    }

    /// Slots of a block hold so many more units now.
    pub fn add_valid(&mut self, block: u32, units: u32) {
        debug_assert_ne!(self.blocks[block as usize].state, State::Full);
        self.blocks[block as usize].valid += units;
        self.planes[self.shape.plane_of(block) as usize].valid += units;
    }

    /// A slot of a block no longer holds a unit.
    pub fn drop_valid(&mut self, block: u32) {
        let listed = self.blocks[block as usize].state == State::Full;
        if listed {
            self.delist(block);
        }
        self.blocks[block as usize].valid -= 1;
        if listed {
            self.enlist(block);
        }
        self.planes[self.shape.plane_of(block) as usize].valid -= 1;
    }

    /// The least valid full block of a plane.
    pub fn least_valid(&mut self, plane: u32) -> Option<u32> {
        let mut lowest = self.planes[plane as usize].lowest;
        while lowest < self.shape.block_slots && self.first[self.level(plane, lowest)] == 0 {
            lowest += 1;
        }
        self.planes[plane as usize].lowest = lowest;
        self.first[self.level(plane, lowest)].checked_sub(1)
    }

    /// The full block of a plane that was erased least.
    pub fn least_worn(&self, plane: u32) -> Option<u32> {
        let start = self.shape.block(plane, 0);
        let blocks = start..start + self.shape.geometry.blocks;
        let full = blocks.filter(|&block| self.blocks[block as usize].state == State::Full);
        full.min_by_key(|&block| self.blocks[block as usize].erases)
    }

    /// Full blocks by how many sixteenths of them are valid.
    pub fn validity(&self) -> [u64; 17] {
        let mut blocks = [0; 17];
        for block in self.blocks.iter().filter(|block| block.state == State::Full) {
            blocks[(u64::from(block.valid) * 16 / u64::from(self.shape.block_slots)) as usize] += 1;
        }
        blocks
    }

    /// Counts agree with the map, and lists with the counts; for tests.
    pub fn check(&self, map: &Map) {
        let mut planes = vec![(0, 0, 0, 0); self.planes.len()];
        for (number, block) in (0..).zip(&self.blocks) {
            let first = self.shape.slot(number, 0);
            let slots = first..first + self.shape.block_slots;
            let valid = slots.filter(|&slot| map.unit(slot).is_some()).count() as u32;
            assert_eq!(block.valid, valid, "block {number} {block:?}");
            assert!(block.ended <= block.next && block.next <= self.shape.geometry.pages);
            let (free, retired, units, full) = &mut planes[self.shape.plane_of(number) as usize];
            *free += u32::from(block.state == State::Free);
            *retired += u32::from(block.state == State::Retired);
            *full += u32::from(block.state == State::Full);
            *units += valid;
        }
        for (number, (pool, counted)) in (0..).zip(self.planes.iter().zip(planes)) {
            let mut full = 0;
            for valid in 0..=self.shape.block_slots {
                let mut next = self.first[self.level(number, valid)];
                while let Some(block) = next.checked_sub(1) {
                    assert_eq!(self.blocks[block as usize].valid, valid);
                    (full, next) = (full + 1, self.blocks[block as usize].after);
                }
            }
            let fresh = self.shape.geometry.blocks - pool.fresh;
            assert_eq!(pool.free, fresh + pool.used.len() as u32);
            assert_eq!((pool.free, pool.retired, pool.valid, full), counted, "plane {number}");
        }
    }

    /// The view of a plane from which policies choose.
    pub fn candidates(&mut self, plane: u32) -> PlaneView<'_> {
        let least = self.least_valid(plane).map(|block| block - self.shape.block(plane, 0));
        PlaneView { blocks: self, plane, least }
    }
}

/// A plane as policies see it.
pub(crate) struct PlaneView<'a> {
    blocks: &'a Blocks,
    plane: u32,
    least: Option<u32>,
}

impl Candidates for PlaneView<'_> {
    fn blocks(&self) -> u32 {
        self.blocks.shape.geometry.blocks
    }

    fn get(&self, block: u32) -> Option<Candidate> {
        let shape = &self.blocks.shape;
        let entry = self.blocks.blocks.get(shape.block(self.plane, block) as usize)?;
        (entry.state == State::Full).then(|| Candidate {
            valid: entry.valid,
            slots: shape.block_slots,
            age: self.blocks.planes[self.plane as usize].filled.wrapping_sub(entry.filled),
            erases: entry.erases,
        })
    }

    fn least_valid(&self) -> Option<u32> {
        self.least
    }
}
