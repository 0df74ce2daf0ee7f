//! The time of an operation on the channel and in the cells, and its end: cells, their wear,
//! retries and faults.
//!
//! Invariants: equal accesses of equal numbers at equal times have equal ends, as all that is
//! random comes from the seed and the operation's number; `plain` only if no access depends on
//! anything but its page's type.

use stasis_block::clock::Nanos;

use super::ecc::Errors;
use super::slc::SlcMode;
use super::slots::{Phase, Slot};
use super::wear::Wear;
use super::{ArrayConfig, Op, OpKind, OpStatus};
use crate::faults::Access;
use crate::hash::bits;
use crate::variation::{CellAddress, Condition, Seeds};
use crate::{Fault, FaultRule, Geometry, PageAddress, PlaneId, Timing};

/// Stream of the seed that chooses the errors in corrupted data.
const CORRUPTION: u64 = 0x636f_7272;
const FAULTS: u64 = 0x6661_756c;

/// Cells, their wear and their faults; see the [module](self).
#[derive(Debug)]
pub(super) struct Medium {
    config: ArrayConfig,
    // By which operations draw: places are as the configuration's own seed has made them.
    draws: u64,
    // True if every cell is as good as every other.
    plain: bool,
    wear: Wear,
    // Time for which the array was in use before (ns).
    before: Nanos,
    slc: Option<SlcMode>,
    errors: Option<Box<Errors>>,
}

/// The page whose cells an operation's access needs: both halves of a copyback have their own.
#[inline]
fn accessed(op: &Op, access: Access) -> PageAddress {
    match op.kind == OpKind::Copyback && access == Access::Read {
        true => op.source,
        false => op.at,
    }
}

impl Medium {
    /// Starts with blocks that were never erased.
    pub fn new(config: ArrayConfig) -> Self {
        let ArrayConfig { variation, faults, .. } = &config;
        let plain = variation.is_uniform()
            && variation.retry.is_none()
            && faults.is_empty()
            && config.ecc.is_none();
        let blocks = config.geometry.total_blocks();
        let slc = config.slc.map(|times| SlcMode::new(times, blocks));
        let pages = config.geometry.pages;
        let errors = config.ecc.clone().map(|ecc| Box::new(Errors::new(ecc, blocks, pages)));
        let draws = config.seed;
        Self { config, draws, plain, wear: Wear::new(blocks), before: 0, slc, errors }
    }

    /// A block is in SLC mode from now on, or is not.
    pub fn set_slc(&mut self, plane: PlaneId, block: u32, slc: bool) {
        let block = self.config.geometry.block_index(plane, block);
        if let Some(mode) = &mut self.slc {
            mode.set(block, slc);
        }
    }

    /// Returns whether a block is in SLC mode.
    pub fn is_slc(&self, plane: PlaneId, block: u32) -> bool {
        let block = self.config.geometry.block_index(plane, block);
        self.slc.as_ref().is_some_and(|slc| slc.is_set(block))
    }

    /// The parts of the array.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.config.geometry
    }

    /// The times of operations.
    #[inline]
    pub fn timing(&self) -> &Timing {
        &self.config.timing
    }

    /// Sets the times of steps that begin later.
    pub fn set_timing(&mut self, timing: Timing) {
        self.config.timing = timing;
    }

    /// Operations draw by `seed` from now on; the cells are those that they were.
    pub fn reseed(&mut self, seed: u64) {
        self.draws = seed;
    }

    /// Adds a fault from now on.
    pub fn inject(&mut self, rule: FaultRule) {
        self.config.faults.push(rule);
        self.plain = false;
    }

    /// Returns the number of times that a block was erased.
    pub fn erases(&self, plane: PlaneId, block: u32) -> u32 {
        self.wear.get(self.config.geometry.block_index(plane, block)).0
    }

    /// Makes a block as worn as if it had been erased so often.
    pub fn set_erases(&mut self, plane: PlaneId, block: u32, erases: u32) {
        self.wear.set(self.config.geometry.block_index(plane, block), erases);
    }

    /// Returns the time for which the array is in use at `now` (ns), and the wear of its blocks,
    /// for [`Medium::restore`].
    pub fn history(&self, now: Nanos) -> (Nanos, &[u32]) {
        (self.before.saturating_add(now), self.wear.packed())
    }

    /// The array was in use for so long, and its blocks are so worn.
    pub fn restore(&mut self, before: Nanos, wear: Vec<u32>) {
        self.before = before;
        self.wear.restore(wear);
    }

    /// By block, where bit errors come: when it was written, and its reads, for
    /// [`Medium::restore_clocks`].
    pub fn clocks(&self) -> Option<[&[u32]; 2]> {
        self.errors.as_ref().map(|errors| errors.clocks())
    }

    /// Restores the clocks that [`Self::clocks`] has returned.
    pub fn restore_clocks(&mut self, clocks: [Vec<u32>; 2]) {
        if let Some(errors) = &mut self.errors {
            errors.restore(clocks);
        }
    }

    /// The time of an operation's phase on the channel (ns).
    #[inline]
    pub fn transfer(&self, slot: &Slot, phase: Phase) -> Nanos {
        let bytes = slot.op.bytes;
        match phase {
            Phase::Command => self.config.timing.command,
            Phase::DataIn => {
                self.config.timing.command.saturating_add(self.config.timing.bus.time(bytes))
            }
            Phase::DataOut | Phase::DataOutHolding if slot.silent => 0,
            Phase::DataOut | Phase::DataOutHolding => self.config.timing.bus.time(bytes),
        }
    }

    /// Returns the time that the cells take (ns) for an access of an operation that begins at
    /// `now`; sets the operation's status.
    #[inline]
    pub fn access(&mut self, now: Nanos, slot: &mut Slot, access: Access) -> Nanos {
        let at = accessed(&slot.op, access);
        let page_type = self.config.cells.page_type(at.page);
        let mut time = match access {
            Access::Read => self.config.timing.read(page_type),
            Access::Program => self.config.timing.program(page_type),
            Access::Erase => self.config.timing.erase,
        };
        if let Some(slc) = &self.slc {
            let block = self.config.geometry.block_index(at.plane, at.block);
            time = slc.time(block, access).unwrap_or(time);
        }
        if self.config.two_pass.is_some() {
            time = self.time_in_line(slot, access, time);
        }
        if self.plain {
            return time;
        }
        self.access_of_its_own(now, slot, access, time)
    }

    /// The time of an access that takes `time` where word lines have one pass.
    #[inline(never)]
    fn time_in_line(&self, slot: &Slot, access: Access, time: Nanos) -> Nanos {
        let at = slot.op.at;
        match &self.config.two_pass {
            Some(two_pass) if access == Access::Program && !self.is_slc(at.plane, at.block) => {
                if slot.fine {
                    two_pass.fine
                } else {
                    two_pass.time(at.page, self.config.geometry.pages)
                }
            }
            _ => time,
        }
    }

    /// Returns the time of an access in an array whose cells differ; `time`: that of the cells'
    /// kind.
    #[inline(never)]
    fn access_of_its_own(
        &mut self,
        now: Nanos,
        slot: &mut Slot,
        access: Access,
        mut time: Nanos,
    ) -> Nanos {
        let (op, number, at) = (slot.op, slot.number, accessed(&slot.op, access));
        let copies = op.kind == OpKind::Copyback && access == Access::Read;
        let block = self.config.geometry.block_index(at.plane, at.block);
        let page = (access != Access::Erase).then_some(at.page);
        let place = CellAddress { lun: self.config.geometry.lun(at.plane), block, page };
        // Both halves of a copyback draw on their own.
        let draw = 2 * number + u64::from(op.kind == OpKind::Copyback && !copies);
        let seeds = Seeds { places: self.config.seed, draws: self.draws };
        time = self.config.variation.time(seeds, place, draw, time);
        if access == Access::Read && self.config.variation.retry.is_some() {
            let condition = self.condition(now, at);
            let (retries, readable) = self.config.variation.retries(seeds, place, draw, condition);
            time = time.saturating_mul(u64::from(retries) + 1);
            slot.retries = retries;
            if !readable {
                slot.status = OpStatus::Uncorrectable;
            }
        }
        if access == Access::Read && self.errors.is_some() {
            time = self.decode(now, block, draw, time, slot);
        }
        let failed = match access {
            Access::Read => OpStatus::Uncorrectable,
            Access::Program => OpStatus::ProgramFailed,
            Access::Erase => OpStatus::EraseFailed,
        };
        let fault = self.config.faults.strike(
            &self.config.geometry,
            self.draws ^ FAULTS,
            (now, draw),
            (access, at, self.wear.get(block).0),
        );
        match fault {
            None => {}
            Some(Fault::Stuck(stands)) => time = time.saturating_add(stands),
            Some(Fault::CorruptedRead) if slot.status != OpStatus::Ok => {}
            Some(Fault::CorruptedRead) => {
                slot.status = OpStatus::Corrupted { seed: bits(self.draws ^ CORRUPTION, draw) };
            }
            Some(Fault::DeadDie) => {
                (time, slot.status, slot.silent, slot.retries) = (0, failed, true, 0);
            }
            Some(_) => slot.status = failed,
        }
        time
    }

    /// The time of a read whose cells take `time` with that of its decoding; sets the step and the
    /// status of its end. In SLC mode the first step corrects it.
    fn decode(&mut self, now: Nanos, block: u64, draw: u64, time: Nanos, slot: &mut Slot) -> Nanos {
        let Some(errors) = &mut self.errors else { return time };
        errors.read(block);
        let slc = self.slc.as_ref().is_some_and(|slc| slc.is_set(block));
        let now = now.saturating_add(self.before);
        let erases = self.wear.get(block).0;
        let rate = if slc { 0.0 } else { errors.rate(block, erases, now) };
        let whole = slot.op.kind == OpKind::Copyback;
        let bytes = if whole { self.config.geometry.page_size } else { slot.op.bytes };
        let end = errors.decode(bytes, rate, (self.draws, draw));
        slot.retries = end.step;
        if !end.corrected {
            slot.status = OpStatus::Uncorrectable;
        }
        let again = time.saturating_mul(u64::from(end.reads)).saturating_add(end.latency);
        time.saturating_add(again)
    }

    /// The conditions on which a read of a page depends.
    fn condition(&self, now: Nanos, at: PageAddress) -> Condition {
        let (erases, since) = self.wear.get(self.config.geometry.block_index(at.plane, at.block));
        let begun = self.config.variation.retry.map_or(0, |retry| retry.age);
        let now = now.saturating_add(self.before);
        let age = match since {
            Some(since) => now.saturating_sub(since),
            None => now.saturating_add(begun),
        };
        Condition { erases, age }
    }

    /// An operation has ended: an erase leaves its trace.
    #[inline]
    pub fn ended(&mut self, now: Nanos, op: &Op) {
        if op.kind == OpKind::Erase {
            let block = self.config.geometry.block_index(op.at.plane, op.at.block);
            self.wear.erased(block, now.saturating_add(self.before));
            self.set_slc(op.at.plane, op.at.block, false);
            if let Some(errors) = &mut self.errors {
                errors.erased(block);
            }
            return;
        }
        let programs = matches!(op.kind, OpKind::Program | OpKind::Copyback) && op.at.page == 0;
        if let (Some(errors), true) = (&mut self.errors, programs) {
            let block = self.config.geometry.block_index(op.at.plane, op.at.block);
            errors.written(block, now.saturating_add(self.before));
        }
    }

    /// The age (ns) of a block's data at `now`, where bit errors come.
    pub fn age(&self, now: Nanos, plane: PlaneId, block: u32) -> Option<Nanos> {
        let block = self.config.geometry.block_index(plane, block);
        self.errors.as_ref().map(|errors| errors.age(block, now.saturating_add(self.before)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::holders::Held;
    use super::super::slots::Slots;
    use super::super::Priority;
    use super::*;
    use crate::{CellPattern, Faults};

    const GEOMETRY: Geometry = Geometry {
        channels: 1,
        luns: 1,
        planes: 1,
        blocks: 4,
        pages: 8,
        page_size: 4096,
        oob_size: 0,
    };

    fn medium(faults: Vec<FaultRule>) -> Medium {
        let cells = CellPattern::parse("slc", GEOMETRY.pages).unwrap();
        let timing = Timing::preset("slc").unwrap();
        let faults = Faults::new(faults);
        Medium::new(ArrayConfig { faults, seed: 7, ..ArrayConfig::new(GEOMETRY, cells, timing) })
    }

    fn op(kind: OpKind, block: u32) -> Op {
        let at = PageAddress { plane: PlaneId(0), block, page: 0 };
        Op { kind, at, source: at, bytes: 4096, priority: Priority::Read, token: 0, group: 0 }
    }

    #[test]
    fn a_plain_medium_takes_the_times_of_its_pages_and_wears() {
        let mut medium = medium(Vec::new());
        let mut slots = Slots::new();
        let index = slots.insert(0, 0, Held::default(), op(OpKind::Erase, 2));
        let took = medium.access(0, &mut slots[index], Access::Erase);
        assert_eq!((took, slots[index].status), (medium.timing().erase, OpStatus::Ok));
        medium.ended(5, &op(OpKind::Erase, 2));
        medium.ended(5, &op(OpKind::Read, 1));
        assert_eq!([1, 2].map(|block| medium.erases(PlaneId(0), block)), [0, 1]);
    }

    #[test]
    fn a_dead_die_takes_no_time_and_sends_nothing() {
        let mut medium = medium(Vec::new());
        medium.inject(FaultRule::new(Fault::DeadDie));
        let mut slots = Slots::new();
        let index = slots.insert(0, 0, Held::default(), op(OpKind::Read, 0));
        assert!(medium.transfer(&slots[index], Phase::DataOut) > 0);
        assert_eq!(medium.access(0, &mut slots[index], Access::Read), 0);
        assert_eq!(slots[index].status, OpStatus::Uncorrectable);
        assert_eq!(medium.transfer(&slots[index], Phase::DataOut), 0);
    }
}
