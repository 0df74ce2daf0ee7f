//! The cells at work: how long, how often, and with what end.

use stasis_clock::Nanos;

use super::unit::State;
use super::{Array, OpKind, OpStatus};
use crate::faults::Access;
use crate::hash::bits;
use crate::variation::{CellAddress, Condition};
use crate::{Fault, PageAddress};

/// Stream of the seed that chooses the errors in corrupted data.
const CORRUPTION: u64 = 0x636f_7272;
const FAULTS: u64 = 0x6661_756c;

impl Array {
    /// The cells begin with the operations at the data register.
    pub(super) fn begin_cells(&mut self, unit: u32) {
        let now = self.now;
        let this = &mut self.units[unit as usize];
        let leader = this.current;
        let clock = this.housekeeping.at(now);
        let (state, access) = match self.slots[leader].op.kind {
            OpKind::Read => (State::Read, Access::Read),
            OpKind::Program => (State::Program, Access::Program),
            OpKind::Erase => (State::Erase, Access::Erase),
            OpKind::Copyback => (State::CopybackRead, Access::Read),
        };
        this.state = state;
        if matches!(state, State::Program | State::Erase) {
            this.given_way = 0;
        }
        let mut longest = 0;
        self.each(leader, |array, index| {
            array.slots.waited(index, now, clock);
            longest = longest.max(array.cell_time(index, access));
        });
        self.begin_step(unit, longest);
        // A step that can be suspended, or that leaves the cache register free, lets others start.
        if matches!(state, State::Program | State::Erase) {
            self.touch(unit);
        }
    }

    /// Begins the second half of a copyback.
    pub(super) fn begin_copyback_program(&mut self, unit: u32) {
        let this = &mut self.units[unit as usize];
        this.state = State::Program;
        this.given_way = 0;
        let leader = this.current;
        let mut longest = 0;
        self.each(leader, |array, index| {
            if array.slots[index].status != OpStatus::Uncorrectable {
                longest = longest.max(array.cell_time(index, Access::Program));
            }
        });
        self.begin_step(unit, longest);
        self.touch(unit);
    }

    /// How long the cells take (ns) for an access of an operation, whose status
    /// is set.
    fn cell_time(&mut self, index: u32, access: Access) -> Nanos {
        let slot = &self.slots[index];
        let (op, number) = (slot.op, slot.number);
        let copies = op.kind == OpKind::Copyback && access == Access::Read;
        let at = if copies { op.source } else { op.at };
        let page_type = self.cells.page_type(at.page);
        let mut time = match access {
            Access::Read => self.timing.read(page_type),
            Access::Program => self.timing.program(page_type),
            Access::Erase => self.timing.erase,
        };
        if self.plain {
            return time;
        }
        let block = self.geometry.block_index(at.plane, at.block);
        let page = (access != Access::Erase).then_some(at.page);
        let place = CellAddress { lun: self.geometry.lun(at.plane), block, page };
        // Both halves of a copyback draw on their own.
        let draw = 2 * number + u64::from(op.kind == OpKind::Copyback && !copies);
        time = self.variation.time(self.seed, place, draw, time);
        if access == Access::Read && self.variation.retry.is_some() {
            let condition = self.condition(at);
            let (retries, readable) = self.variation.retries(self.seed, place, draw, condition);
            time = time.saturating_mul(u64::from(retries) + 1);
            let slot = &mut self.slots[index];
            slot.retries = retries;
            if !readable {
                slot.status = OpStatus::Uncorrectable;
            }
        }
        let failed = match access {
            Access::Read => OpStatus::Uncorrectable,
            Access::Program => OpStatus::ProgramFailed,
            Access::Erase => OpStatus::EraseFailed,
        };
        let fault =
            self.faults.strike(&self.geometry, self.seed ^ FAULTS, (self.now, draw), (access, at));
        let slot = &mut self.slots[index];
        match fault {
            None => {}
            Some(Fault::Stuck(stands)) => time = time.saturating_add(stands),
            Some(Fault::CorruptedRead) if slot.status != OpStatus::Ok => {}
            Some(Fault::CorruptedRead) => {
                slot.status = OpStatus::Corrupted { seed: bits(self.seed ^ CORRUPTION, draw) };
            }
            Some(Fault::DeadDie) => {
                (time, slot.status, slot.silent, slot.retries) = (0, failed, true, 0);
            }
            Some(_) => slot.status = failed,
        }
        time
    }

    /// The conditions on which a read of a page depends.
    fn condition(&self, at: PageAddress) -> Condition {
        let (erases, since) = self.wear.get(self.geometry.block_index(at.plane, at.block));
        let begun = self.variation.retry.map_or(0, |retry| retry.age);
        let age = match since {
            Some(since) => self.now.saturating_sub(since),
            None => self.now.saturating_add(begun),
        };
        Condition { erases, age }
    }

    /// An erase leaves its trace.
    pub(super) fn wear(&mut self, index: u32) {
        let op = &self.slots[index].op;
        if op.kind == OpKind::Erase {
            self.wear.erased(self.geometry.block_index(op.at.plane, op.at.block), self.now);
        }
    }
}
