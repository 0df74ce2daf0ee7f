//! Faults of a machine that are due: its processors stand still, or its drives leave their slots.

use super::timeline::Timeline;
use super::vm::Machine;
use crate::error::Error;
use crate::layout::FIRST_DRIVE_SLOT;
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

    /// Drives come back and go as is due.
    pub(super) fn run_due_absences(&mut self, timeline: &mut Timeline) -> Result<(), Error> {
        for (drive, connected, record) in self.absences.take_due(timeline.clock.now_ns()) {
            self.drives[drive].reset();
            let message = self.bus.change_slot(FIRST_DRIVE_SLOT + drive, connected);
            if let Some(message) = message {
                self.send(timeline, None, message)?;
            }
            timeline.faults.extend(record);
        }
        Ok(())
    }
}
