//! An NVMe controller on the PCI bus.

use stasis_block::clock::Nanos;
use stasis_block::{Health, Refused, Request, Status};
use stasis_drive::{Done, Layer};
use stasis_nvme::{Ended, Memory, OutOfMemoryRange, VendorRequest};
use stasis_run_events::{IoRecord, IoStatus};

use super::drive::DriveController;
use crate::layout::DEVICE_BAR;
use crate::memory::GuestMemory;
use crate::pci::{Function, Identity};

impl Memory for GuestMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        let length = into.len();
        GuestMemory::read(self, address, into).map_err(|_| OutOfMemoryRange { address, length })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        GuestMemory::write(self, address, from)
            .map_err(|_| OutOfMemoryRange { address, length: from.len() })
    }
}

/// A drive that wears is asked for its health once in so many completions, so
/// that a guest which asks for nothing is warned all the same.
const HEALTH_INTERVAL: u32 = 1024;

/// The controller.
pub struct NvmeController {
    controller: stasis_nvme::Controller,
    /// Completions since the drive was last asked for its health.
    since_health: u32,
}

impl NvmeController {
    /// On the bus.
    pub fn new(controller: stasis_nvme::Controller) -> Self {
        Self { controller, since_health: 0 }
    }

    /// Its PCI function.
    pub fn function(queue_pairs: u16) -> Function {
        // Class: mass storage, non-volatile memory, NVM Express I/O controller
        // (PCI Code and ID Assignment Specification 1.11, 1.9).
        let identity = Identity {
            vendor: stasis_nvme::VENDOR_ID,
            device: 0x0002,
            class: 0x01_08_02,
            revision: 1,
        };
        Function::new(identity)
            .with_bar(DEVICE_BAR, stasis_nvme::Controller::bar_size(), false)
            .with_msix(queue_pairs + 1)
    }
}

impl DriveController for NvmeController {
    fn is_doorbell(&self, offset: u64) -> bool {
        stasis_nvme::Controller::is_doorbell(offset)
    }

    fn kept_state(&mut self, health: Health) -> Option<stasis_nvme::KeptState> {
        self.controller.note_health(health);
        Some(self.controller.kept_state())
    }

    fn reset(&mut self) {
        self.controller.reset_function();
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) {
        self.controller.read_register(offset, into);
    }

    fn write(&mut self, memory: &GuestMemory, drive: &mut dyn Layer, offset: u64, data: &[u8]) {
        if stasis_nvme::Controller::is_admin_doorbell(offset) {
            self.controller.set_health(memory, drive.control().health());
        }
        self.controller.write_register(memory, offset, data);
    }

    fn vendor(&mut self, memory: &GuestMemory, drive: &mut dyn Layer, now: Nanos) {
        while let Some(VendorRequest { tag, mut command }) = self.controller.pop_vendor() {
            let result = drive.control().vendor(now, &mut command);
            self.controller.complete_vendor(memory, tag, result, &command.data);
        }
    }

    /// By the shadow doorbells.
    fn poll(&mut self, memory: &GuestMemory, now: Nanos) -> bool {
        let has_shadow = self.controller.has_shadow();
        if has_shadow {
            self.controller.set_time(now);
            self.controller.poll_shadow(memory);
        }
        has_shadow
    }

    fn pop_request(&mut self) -> Option<Request> {
        self.controller.pop_request()
    }

    fn pop_refused(&mut self) -> Option<Refused> {
        self.controller.pop_refused()
    }

    /// For interrupts that are held back.
    fn next_event(&self) -> Option<Nanos> {
        self.controller.next_deadline()
    }

    fn set_time(&mut self, now: Nanos) {
        self.controller.set_time(now);
    }

    fn complete(
        &mut self,
        memory: &GuestMemory,
        drive: &mut dyn Layer,
        done: Done,
        io: &mut IoRecord,
    ) {
        self.since_health += 1;
        if done.status != Status::Ok || self.since_health >= HEALTH_INTERVAL {
            self.since_health = 0;
            self.controller.set_health(memory, drive.control().health());
        }
        let ended =
            Ended { status: done.status, failed_at: done.failed_at, delivery: done.delivery };
        io.code = self.controller.complete(memory, done.tag, ended, done.data);
        // A comparison can fail where the drive has not.
        if io.code != 0 {
            io.status = IoStatus::Error;
        }
    }

    fn pop_interrupt(&mut self) -> Option<u16> {
        self.controller.pop_interrupt()
    }
}
