//! Collection: a plane's block is emptied by moving what is valid in it to
//! another block of the plane, and erased.

use std::collections::VecDeque;

use stasis_clock::Nanos;

use super::blocks::State;
use super::{Context, PageFtl, ERASE, GC_COPY, GC_PROGRAM, GC_READ};
use crate::buffer::NONE;
use crate::nand::{Op, OpDone, OpKind, OpStatus, Priority, Scope};
use crate::spec::{Blocking, WearLevelling};
use crate::PlaneId;

/// Operations that one collection has under way at a time: enough that the
/// plane never waits for it, and few enough that the host's get their turn.
const WINDOW: u32 = 4;
/// Erases by which a plane's blocks may differ before data is moved out of the
/// least worn: static wear levelling.
const WEAR_GAP: u32 = 16;

/// Why a block is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// For the space.
    Space,
    /// Because it is little worn.
    Wear,
    /// Because a program failed in it: it is not erased.
    Bad,
}

/// A block that is being emptied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub victim: u32,
    why: Why,
    // The next page to look at.
    page: u32,
    // Operations under way.
    reads: u32,
    programs: u32,
    held: bool,
    // All is moved; it waits for the host's reads of the block.
    draining: bool,
    // There is nowhere to move to.
    abandoned: bool,
    since: Nanos,
}

/// A plane's collection.
#[derive(Debug, Clone)]
pub(super) struct Collector {
    pub job: Option<Job>,
    // Slots that were read and move next.
    pub gathered: Vec<u32>,
    // The block that units move to.
    pub open: u32,
    // Blocks that are to be emptied because a program failed.
    pub bad: VecDeque<u32>,
    // It should collect, and no block would gain anything.
    pub starved: bool,
    // Erases since wear was last looked at.
    erases: u32,
}

impl Default for Collector {
    fn default() -> Self {
        Self {
            job: None,
            gathered: Vec::new(),
            open: NONE,
            bad: VecDeque::new(),
            starved: false,
            erases: 0,
        }
    }
}

impl PageFtl {
    /// Begins to empty a block of a plane, if one should be.
    pub(super) fn start_if_needed(&mut self, now: Nanos, plane: u32, context: &mut Context) {
        if self.collectors[plane as usize].job.is_some() {
            return;
        }
        let Some((victim, why)) = self.next_victim(now, plane) else { return };
        if why != Why::Bad {
            self.blocks.collect(victim);
        }
        let held = self.gc.blocking != Blocking::None;
        if held {
            context.array.hold(now, self.scope(plane));
        }
        self.collecting += 1;
        self.collectors[plane as usize].starved = false;
        self.collectors[plane as usize].job = Some(Job {
            victim,
            why,
            page: 0,
            reads: 0,
            programs: 0,
            held,
            draining: false,
            abandoned: false,
            since: now,
        });
        self.go_on(now, plane, context);
    }

    fn scope(&self, plane: u32) -> Scope {
        match self.gc.blocking {
            Blocking::Channel => Scope::Channel(self.shape.geometry.channel(PlaneId(plane))),
            Blocking::Controller => Scope::Controller,
            Blocking::Plane | Blocking::None => Scope::Plane(PlaneId(plane)),
        }
    }

    fn next_victim(&mut self, now: Nanos, plane: u32) -> Option<(u32, Why)> {
        let collector = &mut self.collectors[plane as usize];
        if let Some(block) = collector.bad.pop_front() {
            return Some((block, Why::Bad));
        }
        let free = self.blocks.planes[plane as usize].free;
        // Without a block to move into nothing can be collected.
        if free == 0 && collector.open == NONE {
            return None;
        }
        let idle = self.idle_since.is_some_and(|since| since + self.gc.idle <= now);
        let target = if idle { self.gc.background } else { 0 }.max(self.gc.foreground);
        if free < target {
            let base = self.shape.block(plane, 0);
            let chosen = self.policy.choose(&self.blocks.candidates(plane)).map(|at| base + at);
            let gains = |block: &u32| self.gains(*block);
            let victim = chosen.filter(gains).or_else(|| self.blocks.least_valid(plane));
            let victim = victim.filter(|block| self.gains(*block));
            self.collectors[plane as usize].starved = victim.is_none();
            return victim.map(|block| (block, Why::Space));
        }
        self.collectors[plane as usize].starved = false;
        self.little_worn(plane).map(|block| (block, Why::Wear))
    }

    /// Whether moving a block's units takes fewer pages than it has.
    fn gains(&self, block: u32) -> bool {
        let valid = self.blocks.blocks[block as usize].valid;
        valid.div_ceil(self.shape.slots) < self.shape.geometry.pages
    }

    /// A block whose data should move so that others rest; looked for once in an
    /// eighth as many erases as a plane has blocks, which keeps the cost of an
    /// erase from growing with the plane.
    fn little_worn(&mut self, plane: u32) -> Option<u32> {
        if self.levelling != WearLevelling::Static {
            return None;
        }
        let collector = &mut self.collectors[plane as usize];
        if collector.erases < self.shape.geometry.blocks / 8 {
            return None;
        }
        collector.erases = 0;
        let start = self.shape.block(plane, 0) as usize;
        let blocks = &self.blocks.blocks[start..start + self.shape.geometry.blocks as usize];
        let most = blocks.iter().map(|block| block.erases).max()?;
        let least = self.blocks.least_worn(plane)?;
        (self.blocks.blocks[least as usize].erases + WEAR_GAP <= most).then_some(least)
    }

    /// Moves what the window allows; erases once all is moved.
    pub(super) fn go_on(&mut self, now: Nanos, plane: u32, context: &mut Context) {
        let pages = self.shape.geometry.pages;
        while let Some(job) = self.collectors[plane as usize].job {
            if job.abandoned {
                return self.abandon(now, plane, context);
            }
            if job.page == pages || job.reads + job.programs >= WINDOW {
                break;
            }
            if let Some(job) = &mut self.collectors[plane as usize].job {
                job.page += 1;
            }
            if !self.move_page(now, plane, job.victim, job.page, context) {
                return;
            }
        }
        let Some(job) = self.collectors[plane as usize].job else { return };
        if job.page < pages || job.reads > 0 {
            return;
        }
        if !self.write_gathered(now, plane, 1, context) {
            return;
        }
        let Some(job) = self.collectors[plane as usize].job else { return };
        if job.programs == 0 && self.collectors[plane as usize].gathered.is_empty() {
            self.emptied(now, plane, context);
        }
    }

    /// Reads, or copies, what is valid of a page; false if the job was given up.
    fn move_page(
        &mut self,
        now: Nanos,
        plane: u32,
        victim: u32,
        page: u32,
        context: &mut Context,
    ) -> bool {
        let first = self.shape.slot(victim, page);
        let slots = first..first + self.shape.slots;
        let valid = slots.clone().filter(|&slot| self.map.unit(slot).is_some()).count() as u32;
        if valid == 0 {
            return true;
        }
        let source = self.shape.address(victim, page);
        if self.copyback && valid == self.shape.slots {
            let page = self.programs.begin();
            slots.for_each(|slot| self.programs.push(page, slot));
            return self.move_to(now, plane, OpKind::Copyback, source, page, context);
        }
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.reads += 1;
        }
        let op = Op {
            kind: OpKind::Read,
            at: source,
            source,
            bytes: valid * self.shape.unit,
            priority: Priority::Gc,
            token: GC_READ | u64::from(plane),
            group: 0,
        };
        context.submit(now, op);
        true
    }

    /// Programs pages of what was gathered, each of `least` units at least; false
    /// if the job was given up.
    fn write_gathered(
        &mut self,
        now: Nanos,
        plane: u32,
        least: usize,
        context: &mut Context,
    ) -> bool {
        let collector = &mut self.collectors[plane as usize];
        // What the host wrote or trimmed meanwhile stays behind.
        collector.gathered.retain(|&slot| self.map.unit(slot).is_some());
        while self.collectors[plane as usize].gathered.len() >= least.max(1) {
            let page = self.programs.begin();
            let gathered = &mut self.collectors[plane as usize].gathered;
            let count = gathered.len().min(self.shape.slots as usize);
            gathered.drain(..count).for_each(|slot| self.programs.push(page, slot));
            let nowhere = crate::PageAddress::default();
            if !self.move_to(now, plane, OpKind::Program, nowhere, page, context) {
                return false;
            }
        }
        true
    }

    /// Submits a page of moved units; false if there is no room and the job was
    /// given up.
    fn move_to(
        &mut self,
        now: Nanos,
        plane: u32,
        kind: OpKind,
        source: crate::PageAddress,
        page: u32,
        context: &mut Context,
    ) -> bool {
        if self.collectors[plane as usize].open == NONE {
            self.collectors[plane as usize].open = self.blocks.open(plane).unwrap_or(NONE);
        }
        let block = self.collectors[plane as usize].open;
        if block == NONE {
            self.programs.end(page);
            self.abandon(now, plane, context);
            return false;
        }
        let next = self.next_page(block);
        let at = self.shape.address(block, next);
        if at.page + 1 == self.shape.geometry.pages {
            self.collectors[plane as usize].open = NONE;
        }
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            shadow.moved(at, self.programs.contents(page));
        }
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.programs += 1;
        }
        let copies = kind == OpKind::Copyback;
        let op = Op {
            kind,
            at,
            source: if copies { source } else { at },
            bytes: if copies { 0 } else { self.shape.geometry.page_size },
            priority: Priority::Gc,
            token: if copies { GC_COPY } else { GC_PROGRAM } | u64::from(page),
            group: 0,
        };
        context.submit(now, op);
        true
    }

    pub(super) fn gc_read_done(
        &mut self,
        now: Nanos,
        plane: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.take_in(now, plane, done, context);
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.reads -= 1;
        }
        let least = self.shape.slots as usize;
        if self.is_abandoned(plane) || self.write_gathered(now, plane, least, context) {
            self.go_on(now, plane, context);
        }
    }

    /// Gathers what is valid of a page that was read.
    fn take_in(&mut self, now: Nanos, plane: u32, done: &OpDone, context: &mut Context) {
        let first = self.shape.slot_at(done.op.at);
        for slot in first..first + self.shape.slots {
            let Some(unit) = self.map.unit(slot) else { continue };
            match done.status {
                OpStatus::Uncorrectable => {
                    self.damaged.insert(unit, None);
                    self.map.clear(unit);
                    self.invalidate(now, slot, context);
                    #[cfg(test)]
                    if let Some(shadow) = &mut context.shadow {
                        shadow.damage(unit, slot);
                    }
                    continue;
                }
                OpStatus::Corrupted { seed } => {
                    self.damaged.insert(unit, Some(seed));
                }
                _ => {}
            }
            self.collectors[plane as usize].gathered.push(slot);
        }
    }

    pub(super) fn gc_program_done(
        &mut self,
        now: Nanos,
        page: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.moved(now, page, done, context);
    }

    pub(super) fn gc_copy_done(
        &mut self,
        now: Nanos,
        page: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        if done.status == OpStatus::Uncorrectable {
            // There was nothing to copy. The page it was to go to stays empty.
            let plane = done.op.at.plane.0;
            let mut read = *done;
            read.op.at = done.op.source;
            self.take_in(now, plane, &read, context);
        }
        self.moved(now, page, done, context);
    }

    /// A page of moved units was programmed, or not.
    fn moved(&mut self, now: Nanos, page: u32, done: &OpDone, context: &mut Context) {
        let plane = done.op.at.plane.0;
        let first = self.shape.slot_at(done.op.at);
        let block = self.shape.block(plane, done.op.at.block);
        let failed = done.status == OpStatus::ProgramFailed;
        let used = self.programs.contents(page).len();
        for index in 0..used {
            let old = self.programs.contents(page)[index];
            // The host wrote it meanwhile, or it was lost.
            let Some(unit) = self.map.unit(old) else { continue };
            if failed {
                self.collectors[plane as usize].gathered.push(old);
                continue;
            }
            if let OpStatus::Corrupted { seed } = done.status {
                self.damaged.insert(unit, Some(seed));
            }
            self.blocks.add_valid(block);
            self.map.set(unit, first + index as u32);
            self.blocks.drop_valid(self.shape.block_of(old));
            context.statistics.moved_units += 1;
        }
        self.programs.end(page);
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.programs -= 1;
        }
        self.page_ended(now, block, failed, context);
        self.go_on(now, plane, context);
    }

    /// All is moved: the block is erased, once no read of the host's needs it.
    fn emptied(&mut self, now: Nanos, plane: u32, context: &mut Context) {
        let Some(job) = self.collectors[plane as usize].job else { return };
        if job.why == Why::Bad {
            self.retire(job.victim);
            return self.end_job(now, plane, context);
        }
        let drains = self.reads[job.victim as usize] > 0;
        if drains && job.held {
            // They came before the hold, and could not go on.
            context.array.release(now, self.scope(plane));
        }
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.draining = drains;
            job.held &= !drains;
        }
        if drains {
            return;
        }
        let op = Op {
            kind: OpKind::Erase,
            at: self.shape.address(job.victim, 0),
            source: self.shape.address(job.victim, 0),
            bytes: 0,
            priority: Priority::Gc,
            token: ERASE | u64::from(plane),
            group: 0,
        };
        context.submit(now, op);
    }

    /// The host's last read of a block has ended.
    pub(super) fn drained(&mut self, now: Nanos, plane: u32, block: u32, context: &mut Context) {
        let scope = self.scope(plane);
        let Some(job) = &mut self.collectors[plane as usize].job else { return };
        if !job.draining || job.victim != block {
            return;
        }
        job.draining = false;
        if self.gc.blocking != Blocking::None {
            job.held = true;
            context.array.hold(now, scope);
        }
        self.emptied(now, plane, context);
    }

    pub(super) fn erase_done(
        &mut self,
        now: Nanos,
        plane: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        let block = self.shape.block(plane, done.op.at.block);
        if done.status == OpStatus::EraseFailed {
            self.retire(block);
        } else {
            self.blocks.blocks[block as usize].erases += 1;
            self.erases += 1;
            self.collectors[plane as usize].erases += 1;
            self.blocks.free(block);
        }
        self.end_job(now, plane, context);
    }

    fn end_job(&mut self, now: Nanos, plane: u32, context: &mut Context) {
        let Some(job) = self.collectors[plane as usize].job.take() else { return };
        if job.held {
            context.array.release(now, self.scope(plane));
        }
        self.collecting -= 1;
        self.stalled = false;
        context.statistics.collected(now - job.since);
        self.start_if_needed(now, plane, context);
    }

    fn is_abandoned(&self, plane: u32) -> bool {
        self.collectors[plane as usize].job.is_some_and(|job| job.abandoned)
    }

    /// There is nowhere to move to: the block stays as it is.
    fn abandon(&mut self, now: Nanos, plane: u32, context: &mut Context) {
        let Some(job) = self.collectors[plane as usize].job else { return };
        self.collectors[plane as usize].gathered.clear();
        if job.reads + job.programs > 0 {
            // What is under way comes back here.
            if let Some(job) = &mut self.collectors[plane as usize].job {
                job.abandoned = true;
            }
            return;
        }
        if job.why == Why::Bad {
            self.collectors[plane as usize].bad.push_back(job.victim);
        } else {
            self.blocks.put_back(job.victim);
        }
        self.collectors[plane as usize].job = None;
        self.collectors[plane as usize].starved = true;
        if job.held {
            context.array.release(now, self.scope(plane));
        }
        self.collecting -= 1;
    }

    /// Empties a block in which a program failed, now that none is under way.
    pub(super) fn empty_bad(&mut self, now: Nanos, block: u32, context: &mut Context) {
        debug_assert_eq!(self.blocks.blocks[block as usize].state, State::Bad);
        let plane = self.shape.plane_of(block);
        self.collectors[plane as usize].bad.push_back(block);
        self.start_if_needed(now, plane, context);
    }
}
