//! Interrupts between devices and processors. Steps of the machine: each processor's local APIC owns
//! those that it has got.

use super::common::Common;
use super::slots::Device;
use super::vm::Machine;
use crate::apic::{Delivery, Message};
use crate::error::Error;
use crate::pci::Written;
use crate::pveoi::PvEoi;
use crate::vcpu::ProcessorState;

impl Machine {
    /// Signals the interrupts of a drive.
    pub(super) fn interrupts(&mut self, common: &mut Common, drive: usize) -> Result<(), Error> {
        for path in 0..self.drives[drive].paths() {
            while let Some(vector) = self.drives[drive].pop_interrupt(path) {
                let function = self.bus.function(self.slots.of_path(drive, path));
                let message = function.msix().and_then(|msix| msix.signal(vector));
                if let Some(message) = message {
                    if common.view.keeps_ios() {
                        self.guest_ios_signalled(common, (drive, path, vector), message);
                    }
                    self.send(common, None, message)?;
                }
            }
        }
        Ok(())
    }

    /// A device's configuration was written.
    pub(super) fn configured(
        &mut self,
        common: &mut Common,
        written: Written,
    ) -> Result<(), Error> {
        if let (Some(reset), Some(Device::Drive(drive, path))) =
            (written.reset, self.slots.device(written.slot))
        {
            if let Some(nvme) = self.drives[drive].nvme() {
                nvme.reset(path, reset);
            }
        }
        if let Some(message) = written.message {
            self.send(common, None, message)?;
        }
        let released = self.bus.function(written.slot).msix().map(|msix| msix.released());
        for message in released.into_iter().flatten() {
            self.send(common, None, message)?;
        }
        Ok(())
    }

    /// Prepares an interrupt for the next entry. Returns whether there is one.
    pub(super) fn inject(&mut self, common: &mut Common, index: usize) -> Result<bool, Error> {
        let (vcpu, processor) = (&mut self.vcpus[index], &mut self.processors[index]);
        let Some(vector) = processor.apic.pending() else {
            vcpu.request_window(false);
            return Ok(false);
        };
        if !vcpu.interruptible() {
            vcpu.request_window(true);
            return Ok(false);
        }
        vcpu.inject(vector)?;
        processor.apic.accept(vector);
        if let Some(ios) = common.view.ios() {
            ios.interrupted((self.number, index), vector, common.clock.now_ns());
        }
        vcpu.request_window(processor.apic.pending().is_some());
        if let Some(called) = processor.called.take() {
            let waited = common.clock.now().saturating_sub(called);
            common.statistics.calls.add(common.clock.scale().to_ns(waited));
        }
        if let Some(rewind) = &mut self.rewind {
            rewind.seen(common.clock.now());
        }
        Ok(true)
    }

    /// Delivers `message` from processor `sender` or a device.
    pub(super) fn send(
        &mut self,
        common: &mut Common,
        sender: Option<usize>,
        message: Message,
    ) -> Result<(), Error> {
        let now = common.clock.now();
        for index in 0..self.processors.len() {
            if !self.is_for(index, sender, message.destination) {
                continue;
            }
            let processor = &mut self.processors[index];
            match message.delivery {
                Delivery::Fixed => {
                    processor.apic.raise(message.vector);
                    if let Some(sender) = sender.filter(|&sender| sender != index) {
                        processor.called.get_or_insert(now);
                        // A processor that others wait for goes first: the time that its sender
                        // would wait is the sender's own.
                        self.processors[sender].yields = true;
                    }
                }
                Delivery::Init => {
                    self.vcpus[index].initialize()?;
                    processor.apic.initialize();
                    processor.eoi = PvEoi::default();
                    processor.state = ProcessorState::Waiting;
                    processor.waiting = None;
                }
                // Only after INIT, and only once (Intel SDM vol. 3A, 10.4.4).
                Delivery::Startup if processor.state == ProcessorState::Waiting => {
                    self.vcpus[index].start_at_page(message.vector)?;
                    processor.state = ProcessorState::Runnable;
                    processor.time = processor.time.max(now);
                }
                Delivery::Nmi => {
                    self.vcpus[index].nmi();
                }
                _ => {}
            }
        }
        Ok(())
    }
}
