//! Collection: a plane's block is emptied by moving its valid units to
//! another block of the plane, and erased.

use std::collections::VecDeque;

use stasis_clock::Nanos;
use stasis_nand::{Op, OpDone, OpKind, OpStatus, PlaneId, Priority, Scope};

use super::blocks::State;
use super::{Context, PageFtl, ERASE};
use crate::buffer::NONE;
use crate::spec::{Blocking, WearLevelling};

/// Operations that one collection has under way at a time: enough that the
/// plane never waits for it, and few enough that the host's get their turn.
pub(super) const WINDOW: u32 = 4;
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
    pub page: u32,
    // Operations under way.
    pub reads: u32,
    pub programs: u32,
    held: bool,
    // All is moved; it waits for the host's reads of the block.
    draining: bool,
    // There is nowhere to move to.
    pub abandoned: bool,
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

impl Collector {
    /// Of a plane with pages of so many slots.
    pub fn new(slots: u32) -> Self {
        Self {
            job: None,
            // Slots read are added to a remainder that does not fill a page.
            gathered: Vec::with_capacity((slots * (WINDOW + 2)) as usize),
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

    /// All is moved: the block is erased, once no read of the host's needs it.
    pub(super) fn emptied(&mut self, now: Nanos, plane: u32, context: &mut Context) {
        let Some(job) = self.collectors[plane as usize].job else { return };
        if job.why == Why::Bad {
            self.retire(job.victim);
            return self.end_job(now, plane, context);
        }
        let drains = self.reads[job.victim as usize] > 0;
        if drains && job.held {
            // Reads that came before the hold could not finish under it.
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
        let block = self.shape.address(job.victim, 0).block;
        context.collected(plane, block, (job.since, now));
        self.start_if_needed(now, plane, context);
    }

    pub(super) fn is_abandoned(&self, plane: u32) -> bool {
        self.collectors[plane as usize].job.is_some_and(|job| job.abandoned)
    }

    /// There is nowhere to move to: the block stays as it is.
    pub(super) fn abandon(&mut self, now: Nanos, plane: u32, context: &mut Context) {
        let Some(job) = self.collectors[plane as usize].job else { return };
        self.collectors[plane as usize].gathered.clear();
        if job.reads + job.programs > 0 {
            // The end of each operation under way calls this again.
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
