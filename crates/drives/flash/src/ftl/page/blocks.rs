//! The blocks of every plane: which are free, open, full or given up, and the
//! full ones in the order of how much of them is valid.
//!
//! Invariants: a block is in one state; its programs that have ended are at most those that began;
//! only a full block is in a list, and in the list of its validity; a plane's counts are the sums
//! over its blocks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use stasis_nand::prefetch;

use super::map::Map;
use super::spares::Spares;
use crate::buffer::NONE;
use crate::ftl::Shape;
use crate::gc::{Candidate, Candidates};
use crate::kept::{KeptError, Reader, Writer};
use crate::narrow::{count, place};
use crate::spec::{WearLevelling, WhenFull};

/// The use of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum BlockState {
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

impl BlockState {
    /// Returns the state's human-readable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Open => "open",
            Self::Full => "full",
            Self::Collected => "being collected",
            Self::Bad => "bad",
            Self::Retired => "given up",
        }
    }
}

/// The state of a block after a program into it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageEnd {
    /// The block takes more pages, or programs are still under way.
    Going,
    /// Every page was programmed.
    Full,
    /// A program failed, and none is under way: the block can be emptied.
    Bad,
}

/// A block; numbers of blocks count through the array.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    valid: u32,
    erases: u32,
    // The next page to program.
    next: u32,
    // Pages whose program has ended.
    ended: u32,
    /// Time at which it became full, in blocks of its plane that did.
    filled: u32,
    // Neighbours of the same validity; one more than their number, 0 for none.
    before: u32,
    after: u32,
    state: BlockState,
    // Its cells hold one bit each: it has fewer pages, and is in no list when it is full.
    slc: bool,
}

/// A plane's pool.
#[derive(Debug, Clone, Default)]
struct Plane {
    // Blocks that were never used: all from here to those that are bad from the factory, the last of
    // the usual ones.
    fresh: u32,
    good: u32,
    // Those that were, by rank.
    used: BinaryHeap<Reverse<(u32, u32)>>,
    rank: u32,
    free: u32,
    // Units that lie in it.
    valid: u32,
    retired: u32,
    filled: u32,
    // No full block is less valid.
    lowest: u32,
    // Free blocks that are always in SLC mode, by rank.
    slc_free: BinaryHeap<Reverse<(u32, u32)>>,
    // Others that are in SLC mode now.
    dynamic: u32,
    // Full blocks in SLC mode, the oldest first.
    cached: VecDeque<u32>,
}

/// Every block.
#[derive(Debug)]
pub(crate) struct Blocks {
    shape: Shape,
    blocks: Vec<Block>,
    planes: Vec<Plane>,
    // By plane and validity: the first and the last block, as above.
    first: Vec<u32>,
    last: Vec<u32>,
    levelling: WearLevelling,
    // No plane gave a block that was asked for, and none was emptied since.
    exhausted: bool,
    spares: Spares,
    cache: Cache,
}

/// The blocks in SLC mode, of all planes together.
#[derive(Debug, Clone, Copy, Default)]
struct Cache {
    // Blocks of each plane that are never in it: all those before the ones that always are.
    regular: u32,
    // Units that lie in it.
    valid: u64,
    // Blocks in it.
    blocks: u32,
    // Those of them whose pages are all taken.
    taken: u32,
    // It takes nothing more for now.
    closed: bool,
}

impl Blocks {
    /// New blocks, all free, of which `spare` can be given up.
    pub fn new(shape: Shape, levelling: WearLevelling, spare: u64, endurance: u32) -> Self {
        let per_plane = shape.geometry.blocks;
        // Few are free at a time once each was used.
        let regular = per_plane - shape.cache.map_or(0, |cache| cache.fixed.min(per_plane));
        let plane = |number| Plane {
            free: regular,
            good: regular,
            used: BinaryHeap::with_capacity(per_plane.min(64) as usize),
            slc_free: (regular..per_plane)
                .map(|block| Reverse((0, shape.block(number, block))))
                .collect(),
            ..Plane::default()
        };
        let levels = shape.planes as usize * (shape.block_slots as usize + 1);
        Self {
            shape,
            blocks: vec![Block::default(); shape.blocks() as usize],
            planes: (0..shape.planes).map(plane).collect(),
            first: vec![0; levels],
            last: vec![0; levels],
            levelling,
            exhausted: false,
            spares: Spares::new(spare, endurance),
            cache: Cache { regular, ..Cache::default() },
        }
    }

    /// Marks `bad` blocks of each plane as bad from the factory.
    #[must_use]
    pub fn with_bad(mut self, bad: &[u32]) -> Self {
        for (number, (pool, &bad)) in (0..).zip(self.planes.iter_mut().zip(bad)) {
            pool.good -= bad;
            (pool.free, pool.retired) = (pool.good, bad);
            for block in pool.good..pool.good + bad {
                let block = self.shape.block(number, block);
                self.blocks[block as usize].state = BlockState::Retired;
            }
        }
        self
    }

    /// Blocks that are bad from the factory.
    pub fn bad_in_all(&self) -> u64 {
        self.planes.iter().map(|pool| u64::from(self.cache.regular - pool.good)).sum()
    }

    /// Returns the number of a plane's blocks that are bad from the factory.
    pub fn bad_in(&self, plane: u32) -> u32 {
        self.cache.regular - self.planes[plane as usize].good
    }

    /// Returns whether a block is one of them.
    fn is_bad(&self, block: u32) -> bool {
        let pool = &self.planes[self.shape.plane_of(block) as usize];
        (pool.good..self.cache.regular).contains(&(block % self.shape.geometry.blocks))
    }

    /// The number, counted through the array, of a block of a plane.
    pub fn in_plane(&self, plane: u32, block: u32) -> u32 {
        self.shape.block(plane, block)
    }

    /// Free blocks of a plane.
    pub fn free_in(&self, plane: u32) -> u32 {
        self.planes[plane as usize].free
    }

    /// Free blocks of all planes.
    pub fn free_in_all(&self) -> u64 {
        self.planes.iter().map(|plane| u64::from(plane.free)).sum()
    }

    /// Units that lie in all planes.
    pub fn valid_in_all(&self) -> u64 {
        self.planes.iter().map(|plane| u64::from(plane.valid)).sum()
    }

    /// The use of a block.
    pub fn state(&self, block: u32) -> BlockState {
        self.blocks[block as usize].state
    }

    /// Blocks that can be given up, those that were, and erases.
    pub fn spares(&self) -> &Spares {
        &self.spares
    }

    /// Returns whether no plane gives a block until one is emptied.
    pub fn exhausted(&self) -> bool {
        self.exhausted
    }

    /// Sets whether no plane gives a block until one is emptied.
    pub fn set_exhausted(&mut self, exhausted: bool) {
        self.exhausted = exhausted;
    }

    /// Returns whether a plane holds more units than its share: the mean, and half of the spare.
    pub fn above_share(&self, plane: u32) -> bool {
        let all = u64::from(self.shape.planes);
        let mean = u64::from(self.shape.units) / all;
        let spare = self.spares.left() * u64::from(self.shape.block_slots);
        let share = mean + (spare / all / 2).max(u64::from(self.shape.block_slots / 2));
        self.planes[plane as usize].valid > u32::try_from(share).unwrap_or(u32::MAX)
    }

    /// Takes the next page of an open block.
    pub fn next_page(&mut self, block: u32) -> u32 {
        debug_assert_eq!(self.state(block), BlockState::Open);
        debug_assert!(self.begun(block) < self.pages_of(block));
        let entry = &mut self.blocks[block as usize];
        entry.next += 1;
        let (page, slc) = (entry.next - 1, entry.slc);
        if slc && page + 1 == self.pages_of(block) {
            self.cache.taken += 1;
        }
        page
    }

    /// Pages of a block as it is used now.
    #[inline]
    pub fn pages_of(&self, block: u32) -> u32 {
        match self.shape.cache {
            Some(cache) if self.blocks[block as usize].slc => cache.pages,
            _ => self.shape.geometry.pages,
        }
    }

    /// Pages of a block whose programs have begun.
    pub fn begun(&self, block: u32) -> u32 {
        self.blocks[block as usize].next
    }

    /// After a power cut pages go on with the next word line, of so many pages: one of which a part
    /// is programmed takes no more. Returns the next page.
    pub fn skip_line(&mut self, block: u32, line: u32) -> u32 {
        let pages = self.pages_of(block);
        let entry = &mut self.blocks[block as usize];
        entry.next = entry.next.next_multiple_of(line).min(pages);
        entry.ended = entry.next;
        entry.next
    }

    /// A program into a block has ended. A block in which one failed takes no more pages.
    pub fn page_ended(&mut self, block: u32, failed: bool) -> PageEnd {
        let entry = &mut self.blocks[block as usize];
        entry.ended += 1;
        debug_assert!(entry.ended <= entry.next, "a program ends that did not begin");
        if failed && entry.state == BlockState::Open {
            entry.state = BlockState::Bad;
        }
        let entry = self.blocks[block as usize];
        match entry.state {
            BlockState::Open if entry.ended == self.pages_of(block) => {
                self.fill(block);
                PageEnd::Full
            }
            BlockState::Bad if entry.ended == entry.next => PageEnd::Bad,
            _ => PageEnd::Going,
        }
    }

    /// Sets the number of programmed pages of an open block at the beginning of the run. Returns
    /// whether the block is full.
    pub fn begin(&mut self, block: u32, pages: u32) -> bool {
        let entry = &mut self.blocks[block as usize];
        (entry.next, entry.ended) = (pages, pages);
        let full = pages == self.shape.geometry.pages;
        if full {
            self.fill(block);
        }
        full
    }

    /// A power cut dropped the program of a page: a page whose program had started holds nothing,
    /// others are free to be programmed again.
    pub fn page_dropped(&mut self, block: u32, page: u32, started: bool) {
        let pages = self.pages_of(block);
        let entry = &mut self.blocks[block as usize];
        if started {
            entry.ended += 1;
        } else {
            let was_taken = entry.slc && entry.next == pages;
            entry.next = entry.next.min(page);
            self.cache.taken -= u32::from(was_taken && page < pages);
        }
    }

    /// Returns whether an open block has pages left, now that nothing is under way.
    pub fn takes_pages(&self, block: u32) -> bool {
        let entry = &self.blocks[block as usize];
        debug_assert_eq!(entry.ended, entry.next, "nothing is under way");
        entry.next < self.pages_of(block)
    }

    /// Returns whether moving a block's units takes fewer pages than it has.
    pub fn gains(&self, block: u32) -> bool {
        let valid = self.blocks[block as usize].valid;
        // Word lines are filled up at the end.
        let pages = valid.div_ceil(self.shape.slots).next_multiple_of(self.shape.line);
        pages < self.shape.geometry.pages
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
        let block = if pool.fresh < pool.good {
            pool.fresh += 1;
            self.shape.block(plane, pool.fresh - 1)
        } else {
            pool.used.pop()?.0 .1
        };
        pool.free -= 1;
        let entry = &mut self.blocks[block as usize];
        debug_assert_eq!((entry.state, entry.valid), (BlockState::Free, 0));
        (entry.state, entry.next, entry.ended) = (BlockState::Open, 0, 0);
        Some(block)
    }

    /// Takes the most worn of the free blocks that were used, and opens it: for data that stays. The
    /// cost grows with the free blocks.
    pub fn open_worn(&mut self, plane: u32) -> Option<u32> {
        let pool = &mut self.planes[plane as usize];
        let mut used = std::mem::take(&mut pool.used).into_vec();
        let erases = |&place: &usize| self.blocks[used[place].0 .1 as usize].erases;
        let most = (0..used.len()).max_by_key(erases);
        let block = most.map(|place| used.swap_remove(place).0 .1);
        let pool = &mut self.planes[plane as usize];
        pool.used = used.into();
        pool.free -= u32::from(block.is_some());
        let entry = &mut self.blocks[block? as usize];
        debug_assert_eq!((entry.state, entry.valid), (BlockState::Free, 0));
        (entry.state, entry.next, entry.ended) = (BlockState::Open, 0, 0);
        block
    }

    /// Takes a free block into the SLC cache and opens it: one that is always in SLC mode, or
    /// another while the plane has free ones enough.
    pub fn open_cached(&mut self, plane: u32) -> Option<u32> {
        let shape = self.shape.cache?;
        let pool = &mut self.planes[plane as usize];
        let block = if let Some(Reverse((_, block))) = pool.slc_free.pop() {
            let entry = &mut self.blocks[block as usize];
            debug_assert_eq!((entry.state, entry.valid), (BlockState::Free, 0));
            (entry.state, entry.next, entry.ended) = (BlockState::Open, 0, 0);
            block
        } else {
            if pool.dynamic >= shape.dynamic || pool.free <= shape.keep {
                return None;
            }
            let block = self.open(plane)?;
            self.planes[plane as usize].dynamic += 1;
            block
        };
        self.blocks[block as usize].slc = true;
        self.cache.blocks += 1;
        Some(block)
    }

    /// Returns whether the plane has another block for the SLC cache.
    fn has_room(&self, plane: u32) -> bool {
        let pool = &self.planes[plane as usize];
        self.shape.cache.is_some_and(|shape| {
            !pool.slc_free.is_empty() || (pool.dynamic < shape.dynamic && pool.free > shape.keep)
        })
    }

    /// Returns whether the SLC cache takes writes; it may have no room.
    #[inline]
    pub fn is_cache_open(&self) -> bool {
        self.shape.cache.is_some() && !self.cache.closed
    }

    /// No plane has room in the SLC cache: whether a write waits for it. Else the cache is closed,
    /// and writes pass it by.
    pub fn waits_for_cache(&mut self) -> bool {
        let folds = self.shape.cache.is_some_and(|shape| shape.when_full == WhenFull::Fold);
        let waits = folds && self.cache.taken > 0;
        self.cache.closed = !waits;
        waits
    }

    /// The drive is idle: a closed SLC cache takes writes again.
    pub fn reopen_cache(&mut self) {
        self.cache.closed = false;
    }

    /// The block that a plane folds next: the oldest in the SLC cache, or the oldest of those that
    /// are not always in it.
    pub fn oldest_cached(&self, plane: u32, dynamic: bool) -> Option<u32> {
        let cached = &self.planes[plane as usize].cached;
        cached.iter().copied().find(|&block| !dynamic || !self.is_fixed(block))
    }

    /// Returns whether a plane folds blocks while the host writes: the host waits for them.
    pub fn folds_now(&self, plane: u32) -> bool {
        self.shape.cache.is_some_and(|shape| shape.when_full == WhenFull::Fold)
            && !self.has_room(plane)
    }

    /// Returns whether a block is always in SLC mode.
    fn is_fixed(&self, block: u32) -> bool {
        let in_plane = block - self.shape.block(self.shape.plane_of(block), 0);
        in_plane >= self.cache.regular
    }

    /// Returns whether a block is in SLC mode now.
    #[inline]
    pub fn is_slc(&self, block: u32) -> bool {
        self.shape.cache.is_some() && self.blocks[block as usize].slc
    }

    /// Valid units of a block.
    pub fn valid_in(&self, block: u32) -> u32 {
        self.blocks[block as usize].valid
    }

    /// Blocks in SLC mode now, and the units that lie in them.
    pub fn cached_in_all(&self) -> (u32, u64) {
        (self.cache.blocks, self.cache.valid)
    }

    /// Takes a block out of SLC mode. Returns whether the block was in it.
    fn leave_cache(&mut self, block: u32) -> bool {
        if !self.is_slc(block) {
            return false;
        }
        let taken = self.blocks[block as usize].next == self.pages_of(block);
        self.cache.taken -= u32::from(taken);
        self.cache.blocks -= 1;
        self.blocks[block as usize].slc = false;
        if !self.is_fixed(block) {
            self.planes[self.shape.plane_of(block) as usize].dynamic -= 1;
        }
        // Writes that wait for room come back to it.
        let folds = self.shape.cache.is_some_and(|shape| shape.when_full == WhenFull::Fold);
        self.cache.closed &= !folds;
        true
    }

    /// A block was erased, and is free again.
    pub fn erased(&mut self, block: u32) {
        self.exhausted = false;
        self.spares.erased();
        let fixed = self.leave_cache(block) && self.is_fixed(block);
        let plane = self.shape.plane_of(block);
        let pool = &mut self.planes[plane as usize];
        let entry = &mut self.blocks[block as usize];
        debug_assert_eq!(entry.valid, 0);
        entry.erases += 1;
        entry.state = BlockState::Free;
        pool.rank = pool.rank.wrapping_add(1);
        let rank = if self.levelling == WearLevelling::None { pool.rank } else { entry.erases };
        if fixed {
            pool.slc_free.push(Reverse((rank, block)));
            return;
        }
        pool.used.push(Reverse((rank, block)));
        pool.free += 1;
    }

    /// A block that holds nothing is given up for good.
    pub fn retire(&mut self, block: u32) {
        self.exhausted = false;
        self.spares.retired();
        self.leave_cache(block);
        let plane = self.shape.plane_of(block);
        debug_assert_eq!(self.blocks[block as usize].valid, 0);
        self.blocks[block as usize].state = BlockState::Retired;
        self.planes[plane as usize].retired += 1;
    }

    /// A block's last program has ended.
    pub fn fill(&mut self, block: u32) {
        let plane = self.shape.plane_of(block);
        let pool = &mut self.planes[plane as usize];
        pool.filled = pool.filled.wrapping_add(1);
        let entry = &mut self.blocks[block as usize];
        (entry.state, entry.filled) = (BlockState::Full, pool.filled);
        if !entry.slc {
            return self.enlist(block);
        }
        pool.cached.push_back(block);
        // After a power cut it may be full before its last page.
        let pages = self.pages_of(block);
        let entry = &mut self.blocks[block as usize];
        self.cache.taken += u32::from(entry.next < pages);
        (entry.next, entry.ended) = (pages, pages);
    }

    /// An open block on which nothing is under way takes no more pages.
    pub fn close(&mut self, block: u32) {
        debug_assert_eq!(self.blocks[block as usize].ended, self.begun(block));
        self.fill(block);
    }

    /// A full block that was to be collected is not.
    pub fn put_back(&mut self, block: u32) {
        debug_assert_eq!(self.state(block), BlockState::Collected);
        self.blocks[block as usize].state = BlockState::Full;
        if self.is_slc(block) {
            return self.planes[self.shape.plane_of(block) as usize].cached.push_front(block);
        }
        self.enlist(block);
    }

    /// A full block is to be emptied.
    pub fn collect(&mut self, block: u32) {
        debug_assert_eq!(self.state(block), BlockState::Full);
        if self.is_slc(block) {
            let cached = &mut self.planes[self.shape.plane_of(block) as usize].cached;
            let place = cached.iter().position(|&other| other == block);
            place.map(|place| cached.remove(place));
        } else {
            self.delist(block);
        }
        self.blocks[block as usize].state = BlockState::Collected;
    }

    fn enlist(&mut self, block: u32) {
        let plane = self.shape.plane_of(block);
        let valid = self.blocks[block as usize].valid;
        debug_assert!(self.state(block) == BlockState::Full && valid <= self.shape.block_slots);
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
        let Block { state, valid, before, after, .. } = self.blocks[block as usize];
        debug_assert_eq!(state, BlockState::Full, "only a full block is in a list");
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
        debug_assert_ne!(self.blocks[block as usize].state, BlockState::Full);
        if self.is_slc(block) {
            self.cache.valid += u64::from(units);
        }
        self.blocks[block as usize].valid += units;
        self.planes[self.shape.plane_of(block) as usize].valid += units;
    }

    /// A slot of a block no longer holds a unit.
    pub fn drop_valid(&mut self, block: u32) {
        let slc = self.is_slc(block);
        self.cache.valid -= u64::from(slc);
        let listed = self.blocks[block as usize].state == BlockState::Full && !slc;
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

    /// The two least valid full blocks of a plane, if there are two of which something is invalid.
    pub fn two_least_valid(&mut self, plane: u32) -> Option<(u32, u32)> {
        let first = self.least_valid(plane)?;
        let Block { valid, after, .. } = self.blocks[first as usize];
        let next = if valid < self.shape.block_slots { after } else { 0 };
        let mut above = valid + 1..self.shape.block_slots;
        let second = next.checked_sub(1).or_else(|| {
            above.find_map(|valid| self.first[self.level(plane, valid)].checked_sub(1))
        });
        second.map(|second| (first, second))
    }

    /// The full block of a plane that was erased least, of those whose data stays: as many others as
    /// the plane has were filled since. None unless another block was erased at least `gap` times
    /// more.
    pub fn little_worn(&self, plane: u32, gap: u32) -> Option<u32> {
        let start = self.shape.block(plane, 0);
        // Those that are always in SLC mode wear by themselves.
        let blocks = start..start + self.cache.regular;
        let erases = |block: u32| self.blocks[block as usize].erases;
        let most = blocks.clone().map(erases).max()?;
        let filled = self.planes[plane as usize].filled;
        let stays = |block: &u32| {
            let block = &self.blocks[*block as usize];
            let is_full = block.state == BlockState::Full && !block.slc;
            is_full && filled.wrapping_sub(block.filled) >= self.cache.regular
        };
        let full = blocks.filter(stays);
        let least = full.min_by_key(|&block| erases(block))?;
        (erases(least) + gap <= most).then_some(least)
    }

    /// Full blocks by how many sixteenths of them are valid.
    pub fn validity(&self) -> [u64; 17] {
        let mut blocks = [0; 17];
        let full = |block: &&Block| block.state == BlockState::Full && !block.slc;
        for block in self.blocks.iter().filter(full) {
            blocks[place(u64::from(block.valid) * 16 / u64::from(self.shape.block_slots))] += 1;
        }
        blocks
    }

    /// Counts agree with the map, and lists with the counts; for tests.
    pub fn check(&self, map: &Map) {
        let mut planes = vec![(0, 0, 0, 0); self.planes.len()];
        for (number, block) in (0..).zip(&self.blocks) {
            let first = self.shape.slot(number, 0);
            let slots = first..first + self.shape.block_slots;
            let valid = count(slots.filter(|&slot| map.unit(slot).is_some()).count());
            assert_eq!(block.valid, valid, "block {number} {block:?}");
            assert!(block.ended <= block.next && block.next <= self.pages_of(number));
            assert!(!self.is_slc(number) || block.state != BlockState::Free);
            let (free, retired, units, full) = &mut planes[self.shape.plane_of(number) as usize];
            *free += u32::from(block.state == BlockState::Free);
            *retired += u32::from(block.state == BlockState::Retired);
            *full += u32::from(block.state == BlockState::Full && !block.slc);
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
            let fresh = pool.good - pool.fresh;
            assert_eq!(pool.free, fresh + count(pool.used.len()));
            let free = pool.free + count(pool.slc_free.len());
            assert_eq!((free, pool.retired, pool.valid, full), counted, "plane {number}");
        }
        self.check_cache();
    }

    /// The SLC cache's counts are those of its blocks; for tests.
    fn check_cache(&self) {
        let numbered = || (0..).zip(&self.blocks).filter(|(_, block)| block.slc);
        let taken = numbered().filter(|&(number, block)| block.next == self.pages_of(number));
        let valid = numbered().map(|(_, block)| u64::from(block.valid)).sum::<u64>();
        let counted = (count(numbered().count()), count(taken.count()), valid);
        assert_eq!((self.cache.blocks, self.cache.taken, self.cache.valid), counted);
        for (number, pool) in (0..).zip(&self.planes) {
            let here = |block: u32| self.shape.plane_of(block) == number;
            let others = numbered().filter(|&(block, _)| here(block) && !self.is_fixed(block));
            assert_eq!(pool.dynamic, count(others.count()));
            let full =
                |&(block, entry): &(u32, &Block)| here(block) && entry.state == BlockState::Full;
            assert_eq!(pool.cached.len(), numbered().filter(full).count());
        }
    }

    /// Writes the blocks, once nothing is under way.
    pub fn keep(&self, out: &mut Writer) {
        out.put(self.spares.erases());
        out.put(self.cache.closed);
        for (number, block) in (0..).zip(&self.blocks) {
            let state = match block.state {
                BlockState::Collected => BlockState::Full,
                state => state,
            };
            out.put(state as u64 | u64::from(self.is_slc(number)) << 3);
            out.put(block.erases);
            match state {
                BlockState::Open | BlockState::Bad => out.put(block.next),
                BlockState::Full => out.put(block.filled),
                BlockState::Free | BlockState::Collected | BlockState::Retired => {}
            }
        }
        for (plane, pool) in (0..).zip(&self.planes) {
            [pool.fresh, pool.rank, pool.filled].into_iter().for_each(|number| out.put(number));
            for free in [&pool.used, &pool.slc_free] {
                let mut sorted: Vec<_> = free.iter().map(|Reverse(entry)| *entry).collect();
                sorted.sort_unstable();
                out.put(sorted.len() as u64);
                sorted.into_iter().for_each(|(rank, block)| {
                    out.put(rank);
                    out.put(block);
                });
            }
            out.put_all(pool.cached.iter().copied());
            out.put_all(self.listed(plane).into_iter());
        }
    }

    /// The full blocks of a plane that are not in SLC mode, from the least valid on, of equals in
    /// the order in which they became so; those that are being emptied come last.
    fn listed(&self, plane: u32) -> Vec<u32> {
        let mut all = Vec::new();
        for valid in 0..=self.shape.block_slots {
            let mut next = self.first[self.level(plane, valid)];
            while let Some(block) = next.checked_sub(1) {
                all.push(block);
                next = self.blocks[block as usize].after;
            }
        }
        let here =
            self.shape.block(plane, 0)..self.shape.block(plane, 0) + self.shape.geometry.blocks;
        let collected = |&block: &u32| {
            self.blocks[block as usize].state == BlockState::Collected && !self.is_slc(block)
        };
        all.extend(here.filter(collected));
        all
    }

    /// Reads the blocks, of new ones, once the map is there.
    pub fn restore(&mut self, from: &mut Reader, map: &Map) -> Result<(), KeptError> {
        self.spares.restore(0, from.take()?);
        self.cache.closed = from.take()? != 0;
        for number in 0..self.shape.blocks() {
            self.restore_block(number, from, map)?;
        }
        let retired = |block: &&Block| block.state == BlockState::Retired;
        let retired = self.blocks.iter().filter(retired).count() as u64 - self.bad_in_all();
        self.spares.restore(retired, self.spares.erases());
        (0..self.shape.planes).try_for_each(|plane| self.restore_plane(plane, from))
    }

    fn restore_block(
        &mut self,
        number: u32,
        from: &mut Reader,
        map: &Map,
    ) -> Result<(), KeptError> {
        use BlockState::{Bad, Free, Full, Open, Retired};
        const WRONG: &str = "a block is in no state";
        let tag = from.within(0..16, WRONG)?;
        let states = [Free, Open, Full, BlockState::Collected, Bad, Retired];
        let state = states.into_iter().find(|&state| state as u32 == tag & 7);
        let state = state.filter(|&state| state != BlockState::Collected);
        let state = state.ok_or(KeptError::Damaged(WRONG))?;
        let slc = tag & 8 != 0;
        let allowed = self.shape.cache.is_some() && !matches!(state, Free | Retired);
        if slc && !allowed || !slc && self.is_fixed(number) && allowed {
            return Err(KeptError::Damaged(WRONG));
        }
        let bad = self.is_bad(number);
        if bad && state != Retired {
            return Err(KeptError::Damaged(WRONG));
        }
        let erases = from.within(0..1 << 32, WRONG)?;
        let first = self.shape.slot(number, 0);
        let slots = first..first + self.shape.block_slots;
        let last = slots.clone().rev().find(|&slot| map.unit(slot).is_some());
        let valid = count(slots.filter(|&slot| map.unit(slot).is_some()).count());
        self.blocks[number as usize] = Block { state, slc, erases, valid, ..Block::default() };
        let pages = self.pages_of(number);
        let used = match state {
            Open | Bad => {
                from.within(0..u64::from(pages) + 1, "a block has more pages than it has")?
            }
            Full => pages,
            Free | BlockState::Collected | Retired => 0,
        };
        let filled = if state == Full { from.within(0..1 << 32, WRONG)? } else { 0 };
        if last.is_some_and(|slot| (slot - first) / self.shape.slots >= used) {
            return Err(KeptError::Damaged("units lie in pages that were not programmed"));
        }
        let entry = &mut self.blocks[number as usize];
        (entry.next, entry.ended, entry.filled) = (used, used, filled);
        let fixed = self.is_fixed(number);
        let pool = &mut self.planes[self.shape.plane_of(number) as usize];
        pool.valid += valid;
        pool.retired += u32::from(state == Retired && !bad);
        if slc {
            pool.dynamic += u32::from(!fixed);
            self.cache.valid += u64::from(valid);
            self.cache.blocks += 1;
            self.cache.taken += u32::from(used == pages);
        }
        Ok(())
    }

    /// Writes the open blocks of a part of the translation layer; [`NONE`] where there is none.
    pub fn keep_open(open: impl ExactSizeIterator<Item = u32>, out: &mut Writer) {
        out.put_all(open.map(|open| open.wrapping_add(1)));
    }

    /// Reads `count` open blocks or gaps, and adds the blocks to `opened`. `kind`: the plane of
    /// each, and whether it is in SLC mode.
    pub fn restore_open(
        &self,
        from: &mut Reader,
        count: usize,
        kind: impl Fn(u32) -> (u32, bool),
        reason: &'static str,
        opened: &mut Vec<u32>,
    ) -> Result<Vec<u32>, KeptError> {
        if from.take()? != count as u64 {
            return Err(KeptError::Damaged(reason));
        }
        let mut open = vec![NONE; count];
        for (place, open) in (0..).zip(&mut open) {
            let number = from.within(0..u64::from(self.shape.blocks()) + 1, reason)?;
            let Some(block) = number.checked_sub(1) else { continue };
            let here = (self.shape.plane_of(block), self.is_slc(block)) == kind(place);
            if !here || self.state(block) != BlockState::Open || !self.takes_pages(block) {
                return Err(KeptError::Damaged(reason));
            }
            *open = block;
            opened.push(block);
        }
        Ok(open)
    }

    fn restore_plane(&mut self, plane: u32, from: &mut Reader) -> Result<(), KeptError> {
        const WRONG: &str = "a plane's free or full blocks are not those of its blocks";
        let wrong = KeptError::Damaged(WRONG);
        let first = self.shape.block(plane, 0);
        let here = u64::from(first)..u64::from(first + self.shape.geometry.blocks);
        let regular = self.planes[plane as usize].good;
        let fresh = from.within(0..u64::from(regular) + 1, WRONG)?;
        let (rank, filled) = (from.within(0..1 << 32, WRONG)?, from.within(0..1 << 32, WRONG)?);
        // Every free block is fresh, or in one of the two heaps; every full one in a list.
        let mut unused: Vec<u32> = (first + fresh..first + regular).collect();
        let mut heaps = [BinaryHeap::new(), BinaryHeap::new()];
        for (fixed, heap) in [false, true].into_iter().zip(&mut heaps) {
            for _ in 0..from.within(0..u64::from(self.shape.geometry.blocks) + 1, WRONG)? {
                let rank = from.within(0..1 << 32, WRONG)?;
                let block = from.within(here.clone(), WRONG)?;
                if self.is_fixed(block) != fixed {
                    return Err(wrong);
                }
                heap.push(Reverse((rank, block)));
                unused.push(block);
            }
        }
        unused.sort_unstable();
        let in_state = |blocks: &Self, state: BlockState, slc: bool| {
            let is = |&block: &u32| {
                blocks.state(block) == state && blocks.blocks[block as usize].slc == slc
            };
            (first..first + blocks.shape.geometry.blocks).filter(is).collect::<Vec<u32>>()
        };
        if unused != in_state(self, BlockState::Free, false) {
            return Err(wrong);
        }
        let cached = from.all_within(here.clone(), WRONG)?;
        let listed = from.all_within(here, WRONG)?;
        for (mut blocks, slc) in [(cached.clone(), true), (listed.clone(), false)] {
            blocks.sort_unstable();
            if blocks != in_state(self, BlockState::Full, slc) {
                return Err(wrong);
            }
        }
        let [used, slc_free] = heaps;
        let pool = &mut self.planes[plane as usize];
        pool.free = regular - fresh + count(used.len());
        (pool.fresh, pool.rank, pool.filled) = (fresh, rank, filled);
        (pool.used, pool.slc_free, pool.cached) = (used, slc_free, cached.into());
        listed.into_iter().for_each(|block| self.enlist(block));
        Ok(())
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
        (entry.state == BlockState::Full && !entry.slc).then(|| Candidate {
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

#[cfg(test)]
mod tests {
    use super::super::testing::drive;
    use super::*;
    use crate::spec::Spec;

    /// Two planes of blocks of four pages of one slot.
    fn blocks(levelling: WearLevelling) -> Blocks {
        let (_, shape) = drive(Spec::default(), 2, 4, 256);
        Blocks::new(shape, levelling, 3, 1_000)
    }

    /// Opens a block of plane 0 and programs all of it, with so many valid units.
    fn filled(blocks: &mut Blocks, valid: u32) -> u32 {
        let block = blocks.open(0).unwrap();
        for page in 0..4 {
            assert_eq!(blocks.next_page(block), page);
        }
        blocks.add_valid(block, valid);
        let ends: Vec<_> = (0..4).map(|_| blocks.page_ended(block, false)).collect();
        assert_eq!(ends, [PageEnd::Going, PageEnd::Going, PageEnd::Going, PageEnd::Full]);
        block
    }

    #[test]
    fn the_least_valid_full_block_is_found_as_validity_changes() {
        let mut blocks = blocks(WearLevelling::None);
        let (first, second) = (filled(&mut blocks, 4), filled(&mut blocks, 3));
        assert_eq!(blocks.least_valid(0), Some(second));
        assert_eq!(blocks.least_valid(1), None);
        assert!(blocks.gains(second) && !blocks.gains(first));
        (0..2).for_each(|_| blocks.drop_valid(first));
        assert_eq!(blocks.least_valid(0), Some(first));
        blocks.collect(first);
        assert_eq!(
            (blocks.state(first), blocks.least_valid(0)),
            (BlockState::Collected, Some(second))
        );
        blocks.put_back(first);
        assert_eq!(blocks.least_valid(0), Some(first));
    }

    #[test]
    fn two_blocks_of_which_something_is_invalid_are_found() {
        let mut blocks = blocks(WearLevelling::None);
        let found = [4, 3, 4, 3, 1].map(|valid| {
            let block = filled(&mut blocks, valid);
            (block, blocks.two_least_valid(0))
        });
        let pairs = found.map(|(_, pair)| pair);
        let [_, (second, _), _, (fourth, _), (last, _)] = found;
        assert_eq!(pairs, [None, None, None, Some((second, fourth)), Some((last, second))]);
    }

    #[test]
    fn a_failed_program_makes_a_block_bad_once_none_is_under_way() {
        let mut blocks = blocks(WearLevelling::None);
        let block = blocks.open(1).unwrap();
        (0..3).for_each(|page| assert_eq!(blocks.next_page(block), page));
        assert_eq!(blocks.page_ended(block, true), PageEnd::Going);
        assert_eq!(
            (blocks.state(block), blocks.page_ended(block, false)),
            (BlockState::Bad, PageEnd::Going)
        );
        assert_eq!(blocks.page_ended(block, false), PageEnd::Bad);
        blocks.set_exhausted(true);
        blocks.retire(block);
        assert!(!blocks.exhausted() && blocks.state(block) == BlockState::Retired);
        assert_eq!((blocks.spares().left(), blocks.spares().given_up()), (2, 1));
    }

    #[test]
    fn a_dropped_program_leaves_a_hole_if_it_had_started() {
        let mut blocks = blocks(WearLevelling::None);
        let block = blocks.open(0).unwrap();
        (0..4).for_each(|page| assert_eq!(blocks.next_page(block), page));
        blocks.page_ended(block, false);
        for page in [1, 2, 3] {
            blocks.page_dropped(block, page, page == 1);
        }
        assert!(blocks.takes_pages(block));
        assert_eq!(blocks.next_page(block), 2);
    }

    #[test]
    fn free_blocks_come_back_by_wear_or_in_their_order() {
        for (levelling, next) in [(WearLevelling::None, 0), (WearLevelling::Dynamic, 1)] {
            let mut blocks = blocks(levelling);
            let all = blocks.free_in(0);
            let opened: Vec<u32> = (0..all).map(|_| blocks.open(0).unwrap()).collect();
            assert_eq!((blocks.open(0), blocks.free_in(0)), (None, 0));
            // Block 0 twice, then 1 once.
            blocks.erased(opened[0]);
            assert_eq!(blocks.open(0), Some(opened[0]));
            blocks.erased(opened[0]);
            blocks.erased(opened[1]);
            assert_eq!(blocks.open(0), Some(opened[next]), "{levelling:?}");
            assert_eq!(blocks.spares().erases(), 3);
        }
    }
}
