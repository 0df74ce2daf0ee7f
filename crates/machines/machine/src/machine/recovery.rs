//! The effect of a failure on a machine: it goes off, by itself or with its power, and boots again later
//! on the drives as they are left. All others go on meanwhile.

use stasis_block::clock::Nanos;
use stasis_block::splitmix;
use stasis_drive::Sampling;
use stasis_run_events::FaultRecord;

use super::failures::FailureKind;
use super::run::KernelFiles;
use super::timeline::Timeline;
use super::vm::Machine;
use crate::error::Error;
use crate::vcpu::{Processor, ProcessorState};

/// The draw of what a power cut leaves: everything that can be lost is lost now and then, as a
/// [crash test](stasis_drive::power_cut) does, because that is what promises are measured by.
fn sampling(seed: u64) -> Sampling {
    match splitmix::nth(seed, 1) % 8 {
        0..=2 => Sampling::Least,
        3 => Sampling::Most,
        _ => Sampling::Random(splitmix::nth(seed, 2)),
    }
}

impl Machine {
    /// Fails and comes back as is due.
    pub(super) fn run_due_failures(
        &mut self,
        timeline: &mut Timeline,
        kernel: &KernelFiles<'_>,
    ) -> Result<(), Error> {
        let now = timeline.clock.now_ns();
        if self.failures.come_back(now) {
            self.boot_again(timeline, kernel)?;
        }
        // A command that has ended stays ended.
        if self.ended.is_some() {
            self.failures.forget();
            return Ok(());
        }
        while let Some((failure, at)) = self.failures.fail(now) {
            let number = failure.number;
            timeline.faults.push(FaultRecord {
                fault: number,
                at,
                order: None,
                offset: 0,
                length: 0,
            });
            match failure.kind {
                FailureKind::PowerCut => {
                    self.stop_processors();
                    let mut ends = Vec::with_capacity(self.drives.len());
                    for (index, drive) in self.drives.iter_mut().enumerate() {
                        let seed = splitmix::nth(failure.seed, index as u64);
                        ends.push(drive.control().cut_power(now, sampling(seed)));
                    }
                    self.reset_devices(&ends)?;
                }
                FailureKind::Reset => {
                    self.stop_processors();
                    self.reset_devices(&[])?;
                }
                FailureKind::Hang => self.stop_processors(),
                FailureKind::Panic => self.interrupt_for_panic(timeline.clock.now()),
            }
            // One without a delay.
            if self.failures.come_back(now) {
                self.boot_again(timeline, kernel)?;
            }
        }
        Ok(())
    }

    /// Its kernel has panicked, as it was told to.
    pub(super) fn crash(&mut self, now: Nanos) -> Result<(), Error> {
        self.failures.panicked(now);
        self.stop_processors();
        self.reset_devices(&[])
    }

    fn stop_processors(&mut self) {
        self.kept_boot.end_replay();
        for (index, processor) in self.processors.iter_mut().enumerate() {
            let time = processor.time;
            *processor = Processor { time, ..Processor::new(index as u32) };
            processor.state = ProcessorState::Waiting;
        }
    }

    fn interrupt_for_panic(&mut self, now: u64) {
        self.vcpus[0].nmi();
        let processor = &mut self.processors[0];
        if processor.state == ProcessorState::Halted {
            processor.state = ProcessorState::Runnable;
            processor.time = processor.time.max(now);
        }
    }

    fn boot_again(
        &mut self,
        timeline: &mut Timeline,
        kernel: &KernelFiles<'_>,
    ) -> Result<(), Error> {
        self.discard_frames(timeline);
        self.channel.restart();
        self.wanting = None;
        self.stop_processors();
        self.reset_devices(&[])?;
        self.stop_helping(timeline);
        self.orders.be_callable(false);
        timeline.triggers.forget_lines(self.number);
        for vcpu in &mut self.vcpus {
            vcpu.reset()?;
        }
        // A whole nanosecond: no time of the boot is rounded otherwise than another boot's.
        let scale = timeline.clock.scale();
        let now = timeline.clock.now();
        let whole = scale.to_ticks(scale.to_ns(now));
        let now = if whole < now { scale.to_ticks(scale.to_ns(now) + 1) } else { now };
        for processor in &mut self.processors {
            processor.time = processor.time.max(now);
        }
        if let ([vcpu], [processor]) = (&mut self.vcpus[..], &self.processors[..]) {
            self.origin = if vcpu.count_from(processor.time) { processor.time } else { 0 };
        }
        self.processors[0].state = match self.pauses.is_paused() {
            true => ProcessorState::Paused,
            false => ProcessorState::Runnable,
        };
        if self.replay_boot(timeline)? {
            return Ok(());
        }
        self.reset_devices(&[])?;
        self.lose_memory();
        self.load(kernel)
    }
}
