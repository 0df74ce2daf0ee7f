//! Pages on their way into the cells, and where they go.

use stasis_clock::Nanos;
use stasis_nand::{Op, OpDone, OpKind, OpStatus, Priority};

use super::blocks::State;
use super::{Context, Event, PageFtl, PROGRAM, RESERVE};
use crate::buffer::{IN_FLIGHT, NONE};

/// Future contents of the slots of pages that are being programmed: entries of the
/// buffer for the host's, slots that units move from for housekeeping's.
#[derive(Debug)]
pub(in crate::ftl) struct Programs {
    slots: usize,
    contents: Vec<u32>,
    used: Vec<u32>,
    free: Vec<u32>,
}

impl Programs {
    pub fn new(slots: u32) -> Self {
        let slots = slots as usize;
        Self {
            slots,
            contents: Vec::with_capacity(slots * IN_FLIGHT),
            used: Vec::with_capacity(IN_FLIGHT),
            free: Vec::with_capacity(IN_FLIGHT),
        }
    }

    /// A page, empty for now.
    pub fn begin(&mut self) -> u32 {
        if let Some(page) = self.free.pop() {
            self.used[page as usize] = 0;
            return page;
        }
        self.contents.resize(self.contents.len() + self.slots, NONE);
        self.used.push(0);
        self.used.len() as u32 - 1
    }

    /// The page's next slot will hold this.
    pub fn push(&mut self, page: u32, content: u32) {
        let used = &mut self.used[page as usize];
        self.contents[page as usize * self.slots + *used as usize] = content;
        *used += 1;
    }

    /// The future contents of the page's slots.
    pub fn contents(&self, page: u32) -> &[u32] {
        let start = page as usize * self.slots;
        &self.contents[start..start + self.used[page as usize] as usize]
    }

    /// The page is done with.
    pub fn end(&mut self, page: u32) {
        self.free.push(page);
    }

    /// Every page is.
    pub fn clear(&mut self) {
        self.contents.clear();
        self.used.clear();
        self.free.clear();
    }
}

impl PageFtl {
    /// Programs the pages that are ready, as far as planes take them.
    pub(super) fn dispatch(&mut self, now: Nanos, context: &mut Context) {
        if self.stalled || self.read_only {
            return;
        }
        for stream in 0..self.streams {
            while self.buffer.wants_page(stream as u16, self.shape.slots) {
                let Some(plane) = self.choose_plane(now, stream, context) else {
                    self.stalled = true;
                    return;
                };
                self.program(now, plane, stream, context);
            }
        }
    }

    /// The next plane that takes a page of a stream.
    fn choose_plane(&mut self, now: Nanos, stream: u32, context: &mut Context) -> Option<u32> {
        // Planes that hold more than their share are passed over, unless no other
        // is left.
        for fair in [true, false] {
            for _ in 0..self.order.len() {
                let plane = self.order[self.turn];
                self.turn = if self.turn + 1 == self.order.len() { 0 } else { self.turn + 1 };
                if self.open[(plane * self.streams + stream) as usize] != NONE {
                    return Some(plane);
                }
                let pool = &self.blocks.planes[plane as usize];
                if pool.free <= RESERVE || (fair && pool.valid > self.fair_share()) {
                    continue;
                }
                if let Some(block) = self.blocks.open(plane) {
                    self.open[(plane * self.streams + stream) as usize] = block;
                    self.start_if_needed(now, plane, context);
                    return Some(plane);
                }
            }
        }
        None
    }

    /// Units that a plane may hold before others are preferred: the mean, and
    /// half of the spare.
    fn fair_share(&self) -> u32 {
        let all = u64::from(self.shape.planes);
        let mean = u64::from(self.shape.units) / all;
        let spare = self.spare.saturating_sub(self.retired) * u64::from(self.shape.block_slots);
        let share = mean + (spare / all / 2).max(u64::from(self.shape.block_slots / 2));
        u32::try_from(share).unwrap_or(u32::MAX)
    }

    /// The next page of an open block; `None` once it has no more.
    pub(in crate::ftl) fn next_page(&mut self, block: u32) -> u32 {
        let entry = &mut self.blocks.blocks[block as usize];
        entry.next += 1;
        entry.next - 1
    }

    fn program(&mut self, now: Nanos, plane: u32, stream: u32, context: &mut Context) {
        let open = (plane * self.streams + stream) as usize;
        let block = self.open[open];
        let page = self.programs.begin();
        for _ in 0..self.shape.slots {
            let Some(entry) = self.buffer.take(stream as u16) else { break };
            self.programs.push(page, entry);
            self.prefetch_old(self.buffer.unit_of(entry));
        }
        let next = self.next_page(block);
        let at = self.shape.address(block, next);
        if at.page + 1 == self.shape.geometry.pages {
            self.open[open] = NONE;
        }
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            let contents = self.programs.contents(page).iter();
            shadow.program(at, contents.map(|&entry| self.buffer.unit(entry)).collect());
        }
        self.programming += 1;
        let op = Op {
            kind: OpKind::Program,
            at,
            source: at,
            bytes: self.shape.geometry.page_size,
            priority: Priority::Write,
            token: PROGRAM | u64::from(page),
            group: self.group(now, plane),
        };
        context.submit(now, op);
    }

    /// Prefetches the entries of a unit's present place, which change when the unit soon moves.
    fn prefetch_old(&self, unit: u32) {
        if let Some(slot) = self.map.slot(unit) {
            self.map.prefetch_slot(slot);
            self.blocks.prefetch(self.shape.block_of(slot));
        }
    }

    /// The number of the multi-plane operation that an operation of a plane at
    /// `now` is a part of.
    pub(super) fn group(&mut self, now: Nanos, plane: u32) -> u32 {
        if !self.multi_plane {
            return 0;
        }
        let planes = self.shape.geometry.planes;
        let (lun, bit) = (plane / planes, 1 << (plane % planes));
        match &mut self.lockstep {
            Some((at, last, used)) if (*at, *last) == (now, lun) && *used & bit == 0 => {
                *used |= bit;
            }
            _ => {
                self.lockstep = Some((now, lun, bit));
                self.group = self.group.wrapping_add(1).max(1);
            }
        }
        self.group
    }

    pub(in crate::ftl) fn program_done(
        &mut self,
        now: Nanos,
        page: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.programming -= 1;
        let first = self.shape.slot_at(done.op.at);
        let block = self.shape.block(done.op.at.plane.0, done.op.at.block);
        let failed = done.status == OpStatus::ProgramFailed;
        let used = self.programs.contents(page).len();
        let mut maps = 0;
        for index in 0..used {
            let entry = self.programs.contents(page)[index];
            if failed {
                self.buffer.retry(entry);
                continue;
            }
            let landed = self.buffer.land(entry);
            maps += u64::from(landed.unit >= self.shape.units);
            if landed.alive {
                if !self.damaged.is_empty() {
                    self.damaged.remove(&landed.unit);
                }
                self.blocks.add_valid(block, 1);
                self.push_event(landed.unit, Event::Written);
                if let Some(old) = self.map.set(landed.unit, first + index as u32) {
                    self.invalidate(now, old, context);
                }
            }
            if landed.waiter != NONE {
                context.finish(landed.waiter, stasis_block::Fate::Done, &done.times);
            }
        }
        if !failed {
            context.statistics.programmed_units += used as u64 - maps;
            context.statistics.map_units += maps;
        }
        self.programs.end(page);
        self.page_ended(now, block, failed, context);
        self.finish_flushes(context);
    }

    /// A program into a block has ended.
    pub(in crate::ftl) fn page_ended(
        &mut self,
        now: Nanos,
        block: u32,
        failed: bool,
        context: &mut Context,
    ) {
        let entry = &mut self.blocks.blocks[block as usize];
        entry.ended += 1;
        if failed && entry.state == State::Open {
            self.give_up(block);
        }
        let entry = &self.blocks.blocks[block as usize];
        match entry.state {
            State::Open if entry.ended == self.shape.geometry.pages => {
                self.blocks.fill(block);
                let plane = self.shape.plane_of(block);
                if self.collectors[plane as usize].starved {
                    self.start_if_needed(now, plane, context);
                }
            }
            State::Bad if entry.ended == entry.next => self.empty_bad(now, block, context),
            _ => {}
        }
    }
}
