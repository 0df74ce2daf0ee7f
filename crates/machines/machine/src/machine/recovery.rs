//! The effect of a failure on a machine: it goes off, by itself or with its power, and boots again later
//! on the drives as they are left. All others go on meanwhile. Steps of the machine: `failures` owns
//! which comes when, and `kept_boot` the boot.

use stasis_block::clock::Nanos;
use stasis_block::splitmix;
use stasis_drive::Control;

use super::common::Common;
use super::failures::FailureKind;
use super::run::KernelFiles;
use super::vm::Machine;
use crate::error::Error;
use crate::vcpu::{Processor, ProcessorState};

impl Machine {
    /// Fails and comes back as is due.
    pub(super) fn run_due_failures(
        &mut self,
        common: &mut Common,
        kernel: &KernelFiles<'_>,
    ) -> Result<(), Error> {
        let now = common.clock.now_ns();
        if self.faults.failures.come_back(now) {
            self.boot_again(common, kernel)?;
        }
        // A command that has ended stays ended.
        if self.progress.has_ended() {
            self.faults.failures.forget();
            return Ok(());
        }
        while let Some((failure, at)) = self.faults.failures.fail(now) {
            common.stream.add_fault(failure.number, at);
            match failure.kind {
                FailureKind::PowerCut => {
                    self.stop_processors();
                    let cut = |(index, drive): (u64, &mut dyn Control)| {
                        let seed = splitmix::nth(failure.seed, index);
                        drive.cut_power(now, failure.leaves.sampling(seed))
                    };
                    let ends: Vec<_> = (0..).zip(self.drives.controls()).map(cut).collect();
                    self.reset_devices(&ends)?;
                }
                FailureKind::Reset => {
                    self.stop_processors();
                    self.reset_devices(&[])?;
                }
                FailureKind::Hang => self.stop_processors(),
                FailureKind::Panic => self.interrupt_for_panic(common.clock.now()),
            }
            // One without a delay.
            if self.faults.failures.come_back(now) {
                self.boot_again(common, kernel)?;
            }
        }
        Ok(())
    }

    /// Stops the machine after the panic that a fault has brought about.
    pub(super) fn crash(&mut self, now: Nanos) -> Result<(), Error> {
        self.faults.failures.panicked(now);
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

    fn boot_again(&mut self, common: &mut Common, kernel: &KernelFiles<'_>) -> Result<(), Error> {
        self.discard_frames(common);
        self.channel.restart();
        self.progress.boot_again();
        self.stop_processors();
        self.reset_devices(&[])?;
        self.help.end(&mut self.drives, common.clock.now_ns());
        self.faults.orders.be_callable(false);
        common.triggers.forget_lines(self.number);
        for vcpu in &mut self.vcpus {
            vcpu.reset()?;
        }
        // A whole nanosecond: no time of the boot is rounded otherwise than another boot's.
        let scale = common.clock.scale();
        let now = common.clock.now();
        let whole = scale.to_ticks(scale.to_ns(now));
        let now = if whole < now { scale.to_ticks(scale.to_ns(now) + 1) } else { now };
        for processor in &mut self.processors {
            processor.time = processor.time.max(now);
        }
        if let ([vcpu], [processor]) = (&mut self.vcpus[..], &self.processors[..]) {
            self.origin = if vcpu.count_from(processor.time) { processor.time } else { 0 };
        }
        self.processors[0].state = match self.faults.pauses.is_paused() {
            true => ProcessorState::Paused,
            false => ProcessorState::Runnable,
        };
        if self.replay_boot(common)? {
            return Ok(());
        }
        self.reset_devices(&[])?;
        self.lose_memory();
        self.load(kernel)
    }
}
