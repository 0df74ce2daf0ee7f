//! The write frontier: the open blocks that the host's data (and a layer's map) is programmed into,
//! and the pages on their way.
//!
//! Invariants: a block is open for one plane and stream at most, in state `Open`, and has pages
//! left; pages go round the planes in one order; each page under way is in [`Programs`] once; where
//! word lines have two passes, a page waits ([`Waiting`]) unless its fine pass follows from what is
//! under way.

use std::ops::Range;

use stasis_nand::{Op, OpKind, PageAddress, Priority};

use super::blocks::{Blocks, PageEnd};
use super::placement::Placement;
use super::programs::Programs;
use crate::buffer::{Buffer, NONE};
use crate::ftl::Shape;
use crate::kept::{KeptError, Reader, Writer};
use crate::narrow;
use crate::spec::RESERVE;

/// Place of a stream's next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub plane: u32,
    /// A free block of the plane was opened for it.
    pub opened: bool,
    /// The open block of the plane: a stream's, or behind those a stream's in the SLC cache.
    pub lane: u32,
}

/// Pages of an open block whose fine pass waits for more pages.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    // Pages of the word line that is being filled, and of the one before it.
    filling: u32,
    before: u32,
    // The oldest write that lies in them.
    oldest: u64,
    oldest_before: u64,
}

impl Waiting {
    fn pages(&self) -> u32 {
        self.filling + self.before
    }

    fn oldest(&self) -> u64 {
        match self.before {
            0 => self.oldest,
            _ => self.oldest.min(self.oldest_before),
        }
    }
}

/// The open blocks and the programs under way; see the [module](self).
#[derive(Debug)]
pub(super) struct Frontier {
    shape: Shape,
    streams: u32,
    // Streams, and behind them those that have the SLC cache.
    lanes: u32,
    // Open blocks, by plane and lane; `NONE` where there is none.
    open: Vec<u32>,
    // Planes in the order of writing, and the place in it: of all lanes, and of each of `own`.
    order: Vec<u32>,
    turn: usize,
    own: Range<u32>,
    own_turns: Vec<usize>,
    programs: Programs,
    under_way: u32,
    // By open block, where word lines have two passes; and the pages of all.
    waiting: Vec<Waiting>,
    all_waiting: u32,
}

impl Frontier {
    /// No block is open. `order`: the planes in the order of writing.
    pub fn new(shape: Shape, streams: u32, order: Vec<u32>) -> Self {
        let lanes = streams + shape.cache.map_or(0, |cache| cache.streams);
        Self {
            shape,
            streams,
            lanes,
            open: vec![NONE; (shape.planes * lanes) as usize],
            order,
            turn: 0,
            own: 0..0,
            own_turns: Vec::new(),
            programs: Programs::new(shape.slots),
            under_way: 0,
            waiting: match shape.line {
                1 => Vec::new(),
                _ => vec![Waiting::default(); (shape.planes * lanes) as usize],
            },
            all_waiting: 0,
        }
    }

    /// Lets the streams `own` go round the planes each by itself: data that such a stream writes in
    /// one go is in as many pages of each plane.
    #[must_use]
    pub fn with_own_turns(self, own: Range<u32>) -> Self {
        Self { own_turns: vec![0; own.len()], own, ..self }
    }

    /// Streams of open blocks.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Planes in the order of writing.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The open block that was chosen.
    pub fn open_block(&self, choice: &Choice) -> u32 {
        self.open[(choice.plane * self.lanes + choice.lane) as usize]
    }

    /// Returns whether a program is under way.
    #[inline]
    pub fn is_programming(&self) -> bool {
        self.under_way > 0
    }

    /// Entries of the buffer that a page under way holds.
    #[inline]
    pub fn contents(&self, page: u32) -> &[u32] {
        self.programs.contents(page)
    }

    /// The next plane that takes a page of a stream, with an open block; `None` where no plane
    /// does. A stream that has the SLC cache writes there, while it has room or will have.
    pub fn choose(&mut self, stream: u32, blocks: &mut Blocks) -> Option<Choice> {
        if blocks.is_cache_open() && stream < self.lanes - self.streams {
            let choice = self.choose_cached(stream, blocks);
            if choice.is_some() || blocks.waits_for_cache() {
                return choice;
            }
        }
        self.choose_regular(stream, blocks)
    }

    /// The next plane whose blocks in SLC mode take a page of a stream.
    fn choose_cached(&mut self, stream: u32, blocks: &mut Blocks) -> Option<Choice> {
        let lane = self.streams + stream;
        for fair in [true, false] {
            for _ in 0..self.order.len() {
                let plane = self.next_plane(lane);
                let place = (plane * self.lanes + lane) as usize;
                if self.open[place] != NONE {
                    return Some(Choice { plane, opened: false, lane });
                }
                if fair && blocks.above_share(plane) {
                    continue;
                }
                if let Some(block) = blocks.open_cached(plane) {
                    self.open[place] = block;
                    return Some(Choice { plane, opened: true, lane });
                }
            }
        }
        None
    }

    /// Like `choose_cached`, but past the SLC cache.
    pub fn choose_regular(&mut self, stream: u32, blocks: &mut Blocks) -> Option<Choice> {
        // Planes that hold more than their share are passed over, unless no other
        // is left.
        for fair in [true, false] {
            for _ in 0..self.order.len() {
                let plane = self.next_plane(stream);
                let place = (plane * self.lanes + stream) as usize;
                if self.open[place] != NONE {
                    return Some(Choice { plane, opened: false, lane: stream });
                }
                if blocks.free_in(plane) <= RESERVE || (fair && blocks.above_share(plane)) {
                    continue;
                }
                if let Some(block) = blocks.open(plane) {
                    self.open[place] = block;
                    return Some(Choice { plane, opened: true, lane: stream });
                }
            }
        }
        None
    }

    fn next_plane(&mut self, lane: u32) -> u32 {
        let turn = match self.own.contains(&lane) {
            true => &mut self.own_turns[(lane - self.own.start) as usize],
            false => &mut self.turn,
        };
        let plane = self.order[*turn];
        *turn = if *turn + 1 == self.order.len() { 0 } else { *turn + 1 };
        plane
    }

    /// Takes units of a stream from the buffer into the next page of the plane that
    /// [`Frontier::choose`] named: the program, whose token is the page's number, in no group.
    pub fn program(
        &mut self,
        choice: Choice,
        stream: u32,
        buffer: &mut Buffer,
        placement: &mut Placement,
    ) -> Op {
        let open = (choice.plane * self.lanes + choice.lane) as usize;
        let page = self.programs.begin();
        let mut oldest = u64::MAX;
        for _ in 0..self.shape.slots {
            let Some(entry) = buffer.take(narrow::stream(stream)) else { break };
            self.programs.push(page, entry);
            placement.prefetch_old(buffer.unit_of(entry));
            if self.shape.line > 1 {
                oldest = oldest.min(buffer.sequence_of(entry));
            }
        }
        self.put(open, page, oldest, placement)
    }

    /// Puts a page, whose oldest write is `oldest`, into an open block: the program.
    fn put(&mut self, open: usize, page: u32, oldest: u64, placement: &mut Placement) -> Op {
        let block = self.open[open];
        let at = self.shape.address(block, placement.blocks_mut().next_page(block));
        let last = at.page + 1 == placement.blocks().pages_of(block);
        if last {
            self.open[open] = NONE;
        }
        if self.shape.line > 1 && !placement.blocks().is_slc(block) {
            self.wait(open, at.page, last, oldest);
        }
        self.under_way += 1;
        Op {
            kind: OpKind::Program,
            at,
            source: at,
            bytes: self.shape.geometry.page_size,
            priority: Priority::Write,
            token: u64::from(page),
            group: 0,
        }
    }

    /// A page goes to an open block: it waits for its fine pass, as do those before it, unless what
    /// is under way brings that about.
    fn wait(&mut self, open: usize, page: u32, last: bool, oldest: u64) {
        let waiting = &mut self.waiting[open];
        waiting.oldest = if waiting.filling == 0 { oldest } else { waiting.oldest.min(oldest) };
        waiting.filling += 1;
        self.all_waiting += 1;
        if last {
            self.all_waiting -= waiting.pages();
            *waiting = Waiting::default();
        } else if (page + 1).is_multiple_of(self.shape.line) {
            self.all_waiting -= waiting.before;
            (waiting.before, waiting.oldest_before) = (waiting.filling, waiting.oldest);
            waiting.filling = 0;
        }
    }

    /// Returns whether programs are under way of which none ends by itself.
    pub fn is_waiting(&self) -> bool {
        self.under_way > 0 && self.all_waiting == self.under_way
    }

    /// An open block in whose waiting pages a write up to number `forced` lies.
    pub fn waiting_for(&self, forced: u64) -> Option<usize> {
        if self.all_waiting == 0 {
            return None;
        }
        let waits = |waiting: &Waiting| waiting.pages() > 0 && waiting.oldest() <= forced;
        self.waiting.iter().position(waits)
    }

    /// An empty page that fills up the word line of an open block; `None` once it is full.
    pub fn pad(&mut self, open: usize, placement: &mut Placement) -> Option<Op> {
        let block = self.open[open];
        let full = |begun: u32| begun.is_multiple_of(self.shape.line);
        if block == NONE || full(placement.blocks().begun(block)) {
            return None;
        }
        let page = self.programs.begin();
        Some(self.put(open, page, u64::MAX, placement))
    }

    /// No page of an open block waits any more; returns its last page.
    pub fn close(&mut self, open: usize, blocks: &Blocks) -> Option<PageAddress> {
        self.forget_waiting(open);
        let block = self.open[open];
        (block != NONE).then(|| self.shape.address(block, blocks.begun(block).saturating_sub(1)))
    }

    fn forget_waiting(&mut self, open: usize) {
        if let Some(waiting) = self.waiting.get_mut(open) {
            self.all_waiting -= waiting.pages();
            *waiting = Waiting::default();
        }
    }

    /// The program of a page into a block has ended.
    pub fn ended(&mut self, page: u32, block: u32, failed: bool, blocks: &mut Blocks) -> PageEnd {
        self.under_way -= 1;
        self.programs.end(page);
        if failed {
            let first = (self.shape.plane_of(block) * self.lanes) as usize;
            for open in first..first + self.lanes as usize {
                if self.open[open] == block {
                    self.open[open] = NONE;
                    self.forget_waiting(open);
                }
            }
        }
        blocks.page_ended(block, failed)
    }

    /// The open blocks of a plane, by lane.
    fn open_of(&mut self, plane: u32) -> &mut [u32] {
        let first = (plane * self.lanes) as usize;
        &mut self.open[first..first + self.lanes as usize]
    }

    /// The power failed: no page is under way any more.
    pub fn power_cut(&mut self) {
        self.programs.clear();
        self.under_way = 0;
        self.waiting.fill(Waiting::default());
        self.all_waiting = 0;
    }

    /// A block has pages left after a power cut: it is open again; false if it would need the place
    /// of another. `slc`: whether it is in SLC mode.
    pub fn reopen(&mut self, plane: u32, block: u32, slc: bool) -> bool {
        let streams = self.streams as usize;
        let (regular, cached) = self.open_of(plane).split_at_mut(streams);
        let open = if slc { cached } else { regular };
        if open.contains(&block) {
            return true;
        }
        let free = open.iter_mut().find(|open| **open == NONE);
        free.map(|open| *open = block).is_some()
    }

    /// A block takes no more pages.
    pub fn forget(&mut self, plane: u32, block: u32) {
        let open = self.open_of(plane).iter_mut().filter(|open| **open == block);
        open.for_each(|open| *open = NONE);
    }

    /// Writes the open blocks, and where the next page goes.
    pub fn keep(&self, out: &mut Writer) {
        out.put(self.turn as u64);
        self.own_turns.iter().for_each(|turn| out.put(*turn as u64));
        Blocks::keep_open(self.open.iter().copied(), out);
    }

    /// Reads them; the open blocks are added to `opened`.
    pub fn restore(
        &mut self,
        from: &mut Reader,
        blocks: &Blocks,
        opened: &mut Vec<u32>,
    ) -> Result<(), KeptError> {
        const WRONG: &str = "an open block is not its stream's";
        let planes = self.order.len() as u64;
        for turn in std::iter::once(&mut self.turn).chain(&mut self.own_turns) {
            *turn = from.within(0..planes, "the next page is of no plane")? as usize;
        }
        let kind = |place: u32| (place / self.lanes, place % self.lanes >= self.streams);
        self.open = blocks.restore_open(from, self.open.len(), kind, WRONG, opened)?;
        Ok(())
    }

    /// A block with pages left is open for a stream from the beginning of the run on.
    pub fn resume(&mut self, plane: u32, stream: u32, block: u32) {
        self.open[(plane * self.lanes + stream) as usize] = block;
    }

    /// The next page goes to this place of the order.
    pub fn resume_at(&mut self, place: u32) {
        self.turn = place as usize % self.order.len();
    }

    /// Puts units into the next page of a stream, as if programmed before the run.
    pub fn put_page(
        &mut self,
        stream: u32,
        units: impl Iterator<Item = u32>,
        placement: &mut Placement,
    ) {
        let plane = self.next_plane(stream);
        let open = (plane * self.lanes + stream) as usize;
        if self.open[open] == NONE {
            let Some(block) = placement.blocks_mut().open(plane) else { return };
            self.open[open] = block;
        }
        let block = self.open[open];
        let page = placement.blocks_mut().next_page(block);
        for (slot, unit) in (self.shape.slot(block, page)..).zip(units) {
            placement.preset(unit, slot);
            placement.blocks_mut().add_valid(block, 1);
        }
        if placement.blocks_mut().page_ended(block, false) == PageEnd::Full {
            self.open[open] = NONE;
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use super::super::testing::drive;
    use super::*;
    use crate::spec::{Spec, WearLevelling};

    /// Two planes in reverse order, pages of one slot, two of a block.
    fn parts(streams: u32) -> (Frontier, Placement, Buffer) {
        let (_, shape) = drive(Spec::default(), 2, 2, 64);
        let blocks = Blocks::new(shape, WearLevelling::None, 8, 1);
        let placement = Placement::new(shape, shape.units, blocks, false);
        (Frontier::new(shape, streams, vec![1, 0]), placement, Buffer::new(streams))
    }

    /// Programs a unit of a stream; where it goes.
    fn program(parts: &mut (Frontier, Placement, Buffer), unit: u32, stream: u16) -> Op {
        let (frontier, placement, buffer) = parts;
        buffer.admit(unit, stream, NONE, true);
        let stream = u32::from(stream);
        let choice = frontier.choose(stream, placement.blocks_mut()).unwrap();
        let op = frontier.program(choice, stream, buffer, placement);
        assert_eq!(op.at.plane.0, choice.plane);
        op
    }

    #[test]
    fn ends_of_a_log_go_round_the_planes_each_by_itself() {
        let mut parts = parts(3);
        parts.0 = parts.0.with_own_turns(1..3);
        let planes = [1, 2, 1, 0, 2, 1].map(|stream| {
            let plane = program(&mut parts, u32::from(stream), stream).at.plane.0;
            (stream, plane)
        });
        assert_eq!(planes, [(1, 1), (2, 1), (1, 0), (0, 1), (2, 0), (1, 1)]);
    }

    #[test]
    fn pages_go_round_the_planes_and_streams_keep_apart() {
        let mut parts = parts(2);
        let ops: Vec<Op> = [0, 0, 1, 1]
            .iter()
            .zip(0..)
            .map(|(stream, unit)| program(&mut parts, unit, *stream))
            .collect();
        let places: Vec<_> =
            ops.iter().map(|op| (op.at.plane.0, op.at.block, op.at.page)).collect();
        assert_eq!(places, [(1, 0, 0), (0, 0, 0), (1, 1, 0), (0, 1, 0)]);
        assert!(parts.0.is_programming());
        assert_eq!(parts.0.contents(ops[2].token as u32).len(), 1);
    }

    #[test]
    fn a_block_closes_with_its_last_page_or_a_failed_one() {
        let mut parts = parts(1);
        let ops: Vec<Op> = (0..4).map(|unit| program(&mut parts, unit, 0)).collect();
        let (frontier, placement, _) = &mut parts;
        let end = |frontier: &mut Frontier, placement: &mut Placement, op: &Op, failed| {
            let block = frontier.shape.block(op.at.plane.0, op.at.block);
            frontier.ended(op.token as u32, block, failed, placement.blocks_mut())
        };
        assert_eq!(end(frontier, placement, &ops[0], false), PageEnd::Going);
        assert_eq!(end(frontier, placement, &ops[1], true), PageEnd::Going);
        assert_eq!(end(frontier, placement, &ops[2], false), PageEnd::Full);
        assert_eq!(end(frontier, placement, &ops[3], false), PageEnd::Bad);
        assert!(!frontier.is_programming());
        // Both planes need a new block.
        for plane in [1, 0] {
            let choice = frontier.choose(0, placement.blocks_mut());
            assert_eq!(choice, Some(Choice { plane, opened: true, lane: 0 }));
        }
    }

    #[test]
    fn the_last_blocks_of_a_plane_are_kept_for_collection() {
        let (mut frontier, mut placement, _) = parts(1);
        let blocks = placement.blocks_mut();
        for plane in [0, 1] {
            while blocks.free_in(plane) > RESERVE {
                blocks.open(plane);
            }
        }
        assert_eq!(frontier.choose(0, blocks), None);
    }

    #[test]
    fn a_reopened_block_takes_no_others_place() {
        let (mut frontier, mut placement, _) = parts(1);
        let blocks = placement.blocks_mut();
        let [first, second] = [0, 0].map(|plane| blocks.open(plane).unwrap());
        assert!(frontier.reopen(0, first, false) && frontier.reopen(0, first, false));
        assert!(!frontier.reopen(0, second, false));
        frontier.resume_at(1);
        assert_eq!(frontier.choose(0, blocks), Some(Choice { plane: 0, opened: false, lane: 0 }));
    }
}
