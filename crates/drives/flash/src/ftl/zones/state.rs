//! State of zones or chunks: their blocks, and their pages in memory.

use std::collections::{BTreeSet, VecDeque};

use stasis_block::clock::Nanos;
use stasis_nand::{Op, OpKind, Priority};

use super::layout::Layout;
use super::{Context, RequestId, Shape};
use crate::buffer::{table::Table, NONE};
use crate::narrow::count;
use crate::owners::{Owner, Owners};
use crate::spec::Spec;

/// Kinds of operations, in their tokens.
pub(super) const READ: u64 = 1 << 56;
pub(super) const PROGRAM: u64 = 2 << 56;
pub(super) const ERASE: u64 = 3 << 56;
pub(super) const PAD: u64 = 4 << 56;
pub(super) const KIND: u64 = 0xFF << 56;

/// A write that is not all in memory yet; with no request a barrier.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    pub id: RequestId,
    pub(super) fua: bool,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) next: u32,
    pub(super) end: u32,
}

impl Cursor {
    pub const BARRIER: Self = Self { id: NONE, fua: false, offset: 0, length: 0, next: 0, end: 0 };
}

/// Stage of a page in memory on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The page is not full, or not the next of its block.
    Filling,
    /// The page is being programmed.
    Flying,
    /// The page cannot be programmed.
    Stranded,
    /// The page is not the drive's any more, though it is being programmed.
    Dead,
    Unused,
}

/// A page in memory.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub page: u32,
    // Which of its units are there.
    pub(super) filled: u128,
    pub state: Stage,
    pub waiter: RequestId,
    pub(super) flight: u64,
    #[cfg(test)]
    pub versions: Vec<u64>,
}

/// A block of a zone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Block {
    /// Counted through the array.
    pub(super) number: u32,
    /// The next page to program, and pages whose program has ended.
    pub(super) next: u32,
    pub(super) ended: u32,
    pub(super) bad: bool,
    /// Operations under way.
    pub(super) busy: u32,
}

/// A zone.
#[derive(Debug, Clone, Default)]
pub(super) struct Zone {
    /// It is erased as soon as nothing of it is under way.
    pub(super) resetting: bool,
    /// It takes no writes.
    pub(super) failed: bool,
    /// Requests that wait until it is erased.
    pub(super) waiters: Vec<RequestId>,
}

/// Zones or chunks, with their pages in memory.
#[derive(Debug)]
pub(super) struct Zones {
    pub(super) shape: Shape,
    pub(super) layout: Layout,
    pub(super) blocks: Vec<Block>,
    /// By block of the array: whose it is.
    pub(super) owners: Vec<u32>,
    pub(super) zones: Vec<Zone>,
    /// Free blocks, by plane.
    pub(super) spare: Vec<Vec<u32>>,
    pub(super) spares: u64,
    pub(super) retired: u64,
    /// Pages in memory, and where they are by their number in the drive.
    pub(super) pages: Vec<Page>,
    pub(super) pages_free: Vec<u32>,
    pub(super) table: Table,
    /// Pages that are being programmed, and how many may be; 0 to write through.
    pub(super) flying: u32,
    pub(super) room: u32,
    pub(super) protected: bool,
    pub(super) waiting: VecDeque<Cursor>,
    pub(super) flushes: VecDeque<(RequestId, u64)>,
    pub(super) sequence: u64,
    /// Their numbers, and whether they are done.
    pub(super) flights: VecDeque<(u64, bool)>,
    /// Pages whose contents a power cut took.
    pub(super) lost: BTreeSet<u32>,
    pub(super) erases: u64,
    pub(super) endurance: u32,
    #[cfg(test)]
    pub(super) version: u64,
}

impl Zones {
    /// Zones of blocks with these numbers; the others are spare, if there are spares.
    pub(super) fn new(
        spec: &Spec,
        shape: Shape,
        layout: Layout,
        numbers: Vec<u32>,
        spares: bool,
    ) -> Self {
        let mut spare = vec![Vec::new(); shape.planes as usize];
        if spares {
            let used: BTreeSet<u32> = numbers.iter().copied().collect();
            for block in (0..shape.blocks()).filter(|block| !used.contains(block)) {
                spare[shape.plane_of(block) as usize].push(block);
            }
        }
        let mut owners = vec![NONE; shape.blocks() as usize];
        (0..).zip(&numbers).for_each(|(index, &number)| owners[number as usize] = index);
        let room = count((spec.buffer / spec.page_size.max(1)).min(u64::from(NONE)));
        Self {
            blocks: numbers.iter().map(|&number| Block { number, ..Block::default() }).collect(),
            owners,
            zones: vec![Zone::default(); layout.zones as usize],
            spares: spare.iter().map(|plane| plane.len() as u64).sum(),
            spare,
            retired: 0,
            pages: Vec::new(),
            pages_free: Vec::new(),
            table: Table::new(),
            flying: 0,
            room: if spec.buffer == 0 { 0 } else { room.max(1) },
            protected: spec.plp && spec.buffer > 0,
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
            sequence: 0,
            flights: VecDeque::new(),
            lost: BTreeSet::new(),
            erases: 0,
            endurance: spec.endurance,
            layout,
            shape,
            #[cfg(test)]
            version: 0,
        }
    }

    /// Returns whether the drive has such a page, and where: its zone, block and page.
    pub(super) fn place(&self, page: u32) -> Option<(u32, u32, u32)> {
        let place = self.layout.place(page);
        (place.0 < self.layout.zones).then_some(place)
    }

    /// Submits an operation for a page of a block.
    pub(super) fn submit(
        &mut self,
        now: Nanos,
        (kind, bytes): (OpKind, u32),
        (block, page): (u32, u32),
        token: u64,
        owner: impl FnOnce(&mut Owners) -> Owner,
        context: &mut Context,
    ) {
        self.blocks[block as usize].busy += 1;
        let at = self.shape.address(self.blocks[block as usize].number, page);
        let priority = if kind == OpKind::Read { Priority::Read } else { Priority::Write };
        let op = Op { kind, at, source: at, bytes, priority, token, group: 0 };
        context.submit_for(now, op, owner);
    }

    /// The block of a zone that an operation was for.
    pub(super) fn block_of(&self, op: &Op) -> u32 {
        self.owners[self.shape.block(op.at.plane.0, op.at.block) as usize]
    }

    /// The zone of a block.
    pub(super) fn zone_of(&self, block: u32) -> u32 {
        block / self.layout.width
    }
}
