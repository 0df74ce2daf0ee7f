//! A plane's steps: the cells begin to work, and what follows the end of a step.

use stasis_block::clock::Nanos;

use super::slots::{Phase, NONE};
use super::unit::UnitState;
use super::{Array, OpKind, OpStatus, Priority};
use crate::faults::Access;

impl Array {
    /// The cells begin with the operations at the data register.
    pub(super) fn begin_cells(&mut self, unit: u32) {
        let now = self.now;
        let this = &mut self.units[unit as usize];
        let leader = this.current;
        let held = this.holders.at(now);
        let (state, access) = match self.slots[leader].op.kind {
            OpKind::Read => (UnitState::Read, Access::Read),
            OpKind::Program => (UnitState::Program, Access::Program),
            OpKind::Erase => (UnitState::Erase, Access::Erase),
            OpKind::Copyback => (UnitState::CopybackRead, Access::Read),
        };
        this.state = state;
        if matches!(state, UnitState::Program | UnitState::Erase) {
            this.given_way = 0;
        }
        let mut longest = 0;
        self.each(leader, |array, index| {
            array.slots.waited(index, now, held);
            longest = longest.max(array.medium.access(now, &mut array.slots[index], access));
        });
        self.begin_step(unit, longest);
        // A step that can be suspended, or that leaves the cache register free, lets others start.
        if matches!(state, UnitState::Program | UnitState::Erase) {
            self.touch(unit);
        }
    }

    /// Begins the second half of a copyback.
    fn begin_copyback_program(&mut self, unit: u32) {
        let now = self.now;
        let this = &mut self.units[unit as usize];
        this.state = UnitState::Program;
        this.given_way = 0;
        let leader = this.current;
        let mut longest = 0;
        self.each(leader, |array, index| {
            if array.slots[index].status != OpStatus::Uncorrectable {
                let slot = &mut array.slots[index];
                longest = longest.max(array.medium.access(now, slot, Access::Program));
            }
        });
        self.begin_step(unit, longest);
        self.touch(unit);
    }

    /// The step of a unit ends now: it is over, or the cells stop for a read.
    fn note_step(&mut self, unit: u32) {
        if let Some(log) = &mut self.log {
            log.step(unit, &self.units[unit as usize], &self.slots, self.now);
        }
    }

    /// The program or erase stands still.
    pub(super) fn suspend(&mut self, unit: u32) {
        let now = self.now;
        self.note_step(unit);
        let this = &mut self.units[unit as usize];
        this.remaining = this.until - now;
        this.state = UnitState::Suspending;
        (this.suspended, this.current) = (this.current, NONE);
        let leader = this.suspended;
        self.each(leader, |array, index| {
            let (times, took) = array.slots.spent(index, now);
            times.cell += took;
        });
        self.begin_step(unit, self.medium.timing().suspend);
    }

    /// Resumes the program or erase.
    fn resume(&mut self, unit: u32) {
        let now = self.now;
        let this = &mut self.units[unit as usize];
        (this.current, this.suspended) = (this.suspended, NONE);
        let (leader, remaining) = (this.current, this.remaining);
        let erase = self.slots[leader].op.kind == OpKind::Erase;
        this.state = if erase { UnitState::Erase } else { UnitState::Program };
        self.each(leader, |array, index| {
            let (times, took) = array.slots.spent(index, now);
            times.behind_reads += took;
        });
        self.begin_step(unit, remaining);
    }

    /// A timed step of a unit is over.
    pub(super) fn end_step(&mut self, unit: u32) {
        let now = self.now;
        self.note_step(unit);
        let this = &mut self.units[unit as usize];
        this.until = Nanos::MAX;
        let leader = this.current;
        match this.state {
            UnitState::Read | UnitState::CopybackRead | UnitState::Program | UnitState::Erase => {
                self.each(leader, |array, index| {
                    let (times, took) = array.slots.spent(index, now);
                    times.cell += took;
                });
                self.end_cells(unit);
            }
            UnitState::ReadCopy => self.end_read_copy(unit),
            UnitState::ProgramCopy => self.end_program_copy(unit),
            UnitState::Suspending => {
                this.state = UnitState::Suspended;
                self.touch(unit);
            }
            UnitState::Resuming => {
                self.resume(unit);
                self.touch(unit);
            }
            state => debug_assert!(false, "{state:?} has no end of its own"),
        }
    }

    /// Continues an operation whose cell phase has ended.
    fn end_cells(&mut self, unit: u32) {
        let now = self.now;
        let this = &mut self.units[unit as usize];
        let leader = this.current;
        match this.state {
            UnitState::Read if self.options.cache_register && this.suspended == NONE => {
                this.state = UnitState::ReadDone;
                // Waiting operations are considered when the copy is over.
                self.begin_read_copy(unit);
            }
            UnitState::Read => {
                this.state = UnitState::DataOut;
                let channel = this.channel;
                let mut pending = 0;
                self.each(leader, |array, index| {
                    if array.request(channel, index, Phase::DataOutHolding) {
                        pending += 1;
                    } else {
                        array.finish(index);
                    }
                });
                self.units[unit as usize].pending = pending;
                if pending == 0 {
                    self.free_array(unit, self.slots[leader].op.priority);
                }
            }
            UnitState::CopybackRead => self.begin_copyback_program(unit),
            _ => {
                let priority = self.slots[leader].op.priority;
                self.each(leader, |array, index| {
                    array.medium.ended(now, &array.slots[index].op);
                    array.finish(index);
                });
                self.free_array(unit, priority);
            }
        }
    }

    /// Read data is in the cache register.
    pub(super) fn end_read_copy(&mut self, unit: u32) {
        let now = self.now;
        let this = &self.units[unit as usize];
        let (leader, channel) = (this.current, this.channel);
        let priority = self.slots[leader].op.priority;
        self.each(leader, |array, index| {
            let (times, took) = array.slots.spent(index, now);
            times.register += took;
            if !array.request(channel, index, Phase::DataOut) {
                let plane = array.slots[index].op.at.plane;
                array.units[unit as usize].cache &= !array.plane_bit(plane);
                array.finish(index);
            }
        });
        self.free_array(unit, priority);
    }

    /// Data to program is in the data register.
    pub(super) fn end_program_copy(&mut self, unit: u32) {
        let now = self.now;
        let leader = self.units[unit as usize].current;
        let planes = self.planes_of(leader);
        self.each(leader, |array, index| {
            let (times, took) = array.slots.spent(index, now);
            times.register += took;
            array.slots[index].mark = array.units[unit as usize].holders.at(now);
        });
        self.units[unit as usize].cache &= !planes;
        self.begin_cells(unit);
        self.touch(unit);
    }

    /// The operation at the data register leaves it.
    pub(super) fn free_array(&mut self, unit: u32, priority: Priority) {
        let now = self.now;
        let this = &mut self.units[unit as usize];
        this.current = NONE;
        this.holders.stop(priority, now);
        if this.suspended == NONE {
            this.state = UnitState::Idle;
            let lun = this.lun;
            self.occupy(lun, -1);
        } else {
            this.state = UnitState::Suspended;
        }
        self.touch_if_waiting(unit);
    }
}
