//! Faults of a machine that are due: its processors stand still, or the paths to its drives change.
//! Steps of the machine: `pauses` and `path_faults` own what is to come.

use stasis_nvme::AnaState;

use super::common::Common;
use super::path_faults::{Path, PathFault};
use super::vm::Machine;
use crate::error::Error;
use crate::pci::Reset;
use crate::vcpu::ProcessorState;

impl Machine {
    /// Ends and begins the pauses that are due.
    pub(super) fn run_due_pauses(&mut self, common: &mut Common) {
        let (now, now_ns) = (common.clock.now(), common.clock.now_ns());
        if self.faults.pauses.end(now_ns) {
            for processor in &mut self.processors {
                if processor.state == ProcessorState::Paused {
                    processor.state = ProcessorState::Runnable;
                    processor.time = processor.time.max(now);
                }
            }
        }
        if let Some(record) = self.faults.pauses.start(now_ns) {
            common.stream.add_faults([record]);
            for processor in &mut self.processors {
                if processor.state == ProcessorState::Runnable {
                    processor.state = ProcessorState::Paused;
                }
            }
        }
    }

    /// Paths to drives go, come back, and change as is due.
    pub(super) fn run_due_path_faults(&mut self, common: &mut Common) -> Result<(), Error> {
        for due in self.faults.paths.take_due(common.clock.now_ns()) {
            let (drive, path) = due.path;
            let happens = if due.fault == PathFault::Gone {
                if let Some(nvme) = self.drives[drive].nvme() {
                    nvme.reset(path, Reset::Bus);
                }
                let slot = self.slots.of_path(drive, path);
                if let Some(message) = self.bus.change_slot(slot, !due.begins) {
                    self.send(common, None, message)?;
                }
                true
            } else {
                let happens = self.befall_controller(due.path, due.fault, due.begins);
                self.interrupts(common, drive)?;
                happens
            };
            common.stream.add_faults(due.record.filter(|_| happens));
        }
        Ok(())
    }

    /// Begins or ends a fault of a path's controller or its namespaces. Returns whether the fault
    /// can take place.
    pub(super) fn befall_controller(
        &mut self,
        (drive, path): Path,
        fault: PathFault,
        begins: bool,
    ) -> bool {
        let Self { drives, memory, .. } = self;
        // No other interface has such faults: the plan of an experiment has looked before.
        let Some(nvme) = drives[drive].nvme() else { return false };
        match fault {
            // The bus has it.
            PathFault::Gone => {}
            PathFault::Access(state) => {
                let state = if begins { state } else { AnaState::default() };
                nvme.set_access(memory, path, state);
            }
            PathFault::Detached(nsid) => nvme.attach(memory, path, nsid, !begins),
            PathFault::Resized { nsid, bytes } => {
                return nvme.resize(memory, nsid, begins.then_some(bytes));
            }
        }
        true
    }
}
