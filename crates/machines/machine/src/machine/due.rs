//! Events of a machine that are due: timers, completions, and what follows from them.

use stasis_block::clock::Nanos;

use super::timeline::{Timeline, BATCH, BATCH_BYTES};
use super::vm::Machine;
use crate::apic::Expiry;
use crate::error::Error;

impl Machine {
    /// Runs all events that are due.
    pub(super) fn run_due_events(&mut self, timeline: &mut Timeline) -> Result<(), Error> {
        self.read_help_page(timeline);
        let now = timeline.clock.now();
        let scale = timeline.clock.scale();
        let now_ns = scale.to_ns(now);
        let clock = self.clock.is_used().then(|| self.clock.with(self.busy()));
        for processor in &mut self.processors {
            let busy = processor.is_busy();
            let due = match (processor.apic.expiry(), clock) {
                (None, _) => false,
                (Some(Expiry::Tsc(at)), Some(clock)) if busy => at <= clock,
                // Without a clock that all share, its own time counts.
                (Some(Expiry::Tsc(at)), _) => at <= if busy { processor.time } else { now },
                (Some(Expiry::At(at)), _) => {
                    at <= scale.to_ns(if busy { processor.time } else { now })
                }
            };
            if due {
                processor.apic.expire();
            }
        }
        if self.lazy {
            for drive in &mut self.drives {
                drive.poll(&self.memory, now_ns);
            }
        }
        if self.held_until(timeline).is_some() {
            return Ok(());
        }
        self.deliver(timeline, now_ns)
    }

    fn deliver(&mut self, timeline: &mut Timeline, now_ns: Nanos) -> Result<(), Error> {
        let boot = self.started.is_none();
        for index in 0..self.drives.len() {
            let drive = &mut self.drives[index];
            if drive.next_event().is_some_and(|at| at <= now_ns) {
                let (records, bytes) = (&mut timeline.records, &mut timeline.recorded_bytes);
                // The root's I/Os are no part of the experiment.
                let told = index < self.own;
                drive.advance(&self.memory, now_ns, boot, |record| {
                    if told {
                        *bytes += record.bytes;
                        records.push(record);
                    }
                });
            }
            self.interrupts(timeline, index)?;
        }
        if let Some(watch) = &mut timeline.watch {
            self.drives.iter_mut().for_each(|drive| drive.control().take_spans(&mut watch.spans));
        }
        let told = timeline.watch.as_ref().is_some_and(|watch| watch.is_full());
        if told || timeline.records.len() >= BATCH || timeline.recorded_bytes >= BATCH_BYTES {
            timeline.flush_records()?;
        }
        Ok(())
    }
}
