//! Absences of drives: one is pulled out of its slot, and may be put back later.
//!
//! A guest sees what the hardware shows at the surprise removal of an NVMe drive from a slot of PCI
//! Express: the link is down, every register and its configuration space read all ones, commands in
//! flight never complete, and the slot's root port interrupts (PCI Express Base Specification 6.0,
//! 6.7.3). Put back, the drive is as after power-on, with what it was given before it went.

use stasis_block::clock::Nanos;
use stasis_run_events::FaultRecord;

use super::pauses::{Pause, Pauses};
use crate::freeze::Scale;
use crate::layout::FIRST_DRIVE_SLOT;
use crate::pci::Bus;

/// The kernel's option to serve slots though no firmware hands them over (Linux,
/// Documentation/admin-guide/kernel-parameters.txt).
pub(super) const NATIVE_HOT_PLUG: &str = " pcie_ports=native";

/// The absences of a machine's drives.
#[derive(Debug, Default)]
pub(super) struct Absences {
    /// Those of each drive that has any, with its number.
    of: Vec<(usize, Pauses)>,
}

impl Absences {
    /// Adds those of drive `drive`.
    pub(super) fn add(&mut self, drive: usize, absences: Vec<Pause>) {
        if !absences.is_empty() {
            self.of.push((drive, Pauses::new(absences)));
        }
    }

    /// Whether every drive is always there.
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Brings a bus after power-on into the present state.
    pub(super) fn settle(&self, bus: &mut Bus) {
        for (drive, absences) in &self.of {
            bus.make_hot_plug(FIRST_DRIVE_SLOT + drive);
            if absences.is_paused() {
                // Nobody listens to the port yet.
                bus.change_slot(FIRST_DRIVE_SLOT + drive, false);
            }
        }
    }

    /// The trigger of fault `number` has come at `now` (ns).
    pub(super) fn trigger(&mut self, number: u16, now: Nanos) {
        self.of.iter_mut().for_each(|(_, absences)| absences.trigger(number, now));
    }

    /// The commands begin.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.of.iter_mut().for_each(|(_, absences)| absences.begin(now));
    }

    /// The drives that come back or go at `now` (ns), each with whether it is there from now on and,
    /// of one that goes, the record of that.
    pub(super) fn take_due(&mut self, now: Nanos) -> Vec<(usize, bool, Option<FaultRecord>)> {
        let mut due = Vec::new();
        for (drive, absences) in &mut self.of {
            if absences.end(now) {
                due.push((*drive, true, None));
            }
            if let Some(record) = absences.start(now) {
                due.push((*drive, false, Some(record)));
            }
        }
        due
    }

    /// When a drive next goes or comes back (ticks).
    pub(super) fn next_event(&self, scale: Scale) -> Option<u64> {
        self.of.iter().filter_map(|(_, absences)| absences.next_event(scale)).min()
    }
}
