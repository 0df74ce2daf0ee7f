//! Faults of a machine that are due: its processors stand still, or the paths to its drives change.

use stasis_nvme::AnaState;

use super::path_faults::PathFault;
use super::timeline::Timeline;
use super::vm::Machine;
use crate::error::Error;
use crate::pci::Reset;
use crate::vcpu::ProcessorState;

impl Machine {
    /// Ends and begins the pauses that are due.
    pub(super) fn run_due_pauses(&mut self, timeline: &mut Timeline) {
        let (now, now_ns) = (timeline.clock.now(), timeline.clock.now_ns());
        if self.pauses.end(now_ns) {
            for processor in &mut self.processors {
                if processor.state == ProcessorState::Paused {
                    processor.state = ProcessorState::Runnable;
                    processor.time = processor.time.max(now);
                }
            }
        }
        if let Some(record) = self.pauses.start(now_ns) {
            timeline.faults.push(record);
            for processor in &mut self.processors {
                if processor.state == ProcessorState::Runnable {
                    processor.state = ProcessorState::Paused;
                }
            }
        }
    }

    /// Paths to drives go, come back, and change as is due.
    pub(super) fn run_due_path_faults(&mut self, timeline: &mut Timeline) -> Result<(), Error> {
        for due in self.path_faults.take_due(timeline.clock.now_ns()) {
            let (drive, path) = due.path;
            match due.fault {
                PathFault::Gone => {
                    self.drives[drive].reset(path, Reset::Bus);
                    let slot = self.slots.of_path(drive, path);
                    if let Some(message) = self.bus.change_slot(slot, !due.begins) {
                        self.send(timeline, None, message)?;
                    }
                }
                PathFault::Access(state) => {
                    let state = if due.begins { state } else { AnaState::default() };
                    self.drives[drive].set_access(&self.memory, path, state);
                    self.interrupts(timeline, drive)?;
                }
            }
            timeline.faults.extend(due.record);
        }
        Ok(())
    }
}
