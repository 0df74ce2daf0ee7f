//! An NVMe controller on the PCI bus with a drive behind it.

use stasis_block::{Refused, Status};
use stasis_clock::Nanos;
use stasis_drive::{Done, Layer, Submission};
use stasis_nvme::{Controller, Memory, OutOfMemoryRange, VendorRequest};
use stasis_run_events::IoRecord;

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

/// A controller, its drive, and what is between them.
pub struct NvmeDevice {
    controller: Controller,
    drive: Box<dyn Layer>,
    done: Vec<Done>,
    /// Commands that the controller has refused, with when: not recorded yet.
    refused: Vec<(Nanos, Refused)>,
    lazy: bool,
    /// Completions since the drive was last asked for its health.
    since_health: u32,
}

impl NvmeDevice {
    /// Joins `controller` and `drive`. A `lazy` controller's driver does not
    /// ring for a submission: it is to be polled.
    pub fn new(controller: Controller, drive: Box<dyn Layer>, lazy: bool) -> Self {
        Self { controller, drive, done: Vec::new(), refused: Vec::new(), lazy, since_health: 0 }
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
            .with_bar(0, Controller::bar_size(), false)
            .with_msix(queue_pairs + 1)
    }

    /// The drive.
    pub fn drive(&self) -> &dyn Layer {
        &*self.drive
    }

    /// What holds its bytes, to be asked for what it remembers.
    pub fn drive_mut(&mut self) -> &mut dyn Layer {
        &mut *self.drive
    }

    /// Its function has been reset.
    pub fn reset(&mut self) {
        self.controller.reset_function();
    }

    /// The guest reads a register.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) {
        self.controller.read_register(offset, into);
    }

    /// The guest writes a register at virtual time `now`.
    pub fn write(&mut self, memory: &GuestMemory, now: Nanos, offset: u64, data: &[u8]) {
        self.controller.set_time(now);
        if Controller::is_admin_doorbell(offset) {
            self.controller.set_health(memory, self.drive.health());
        }
        self.controller.write_register(memory, offset, data);
        self.vendor(memory, now);
        self.submit(now);
    }

    /// Has the drive carry out its vendor's own commands.
    fn vendor(&mut self, memory: &GuestMemory, now: Nanos) {
        while let Some(VendorRequest { tag, mut command }) = self.controller.pop_vendor() {
            let result = self.drive.vendor(now, &mut command);
            self.controller.complete_vendor(memory, tag, result, &command.data);
        }
    }

    /// Whether submissions are found by polling only.
    pub fn is_lazy(&self) -> bool {
        self.lazy
    }

    /// Looks at the shadow doorbells of a lazy controller.
    pub fn poll(&mut self, memory: &GuestMemory, now: Nanos) {
        if self.lazy && self.controller.has_shadow() {
            self.controller.set_time(now);
            self.controller.poll_shadow(memory);
            self.submit(now);
        }
    }

    fn submit(&mut self, now: Nanos) {
        while let Some(request) = self.controller.pop_request() {
            self.drive.submit(
                now,
                Submission {
                    tag: request.tag,
                    queue: request.queue,
                    command: request.command,
                    data: request.data,
                },
            );
        }
        while let Some(refused) = self.controller.pop_refused() {
            self.refused.push((now, refused));
        }
    }

    /// When [`NvmeDevice::advance`] is to be called next: for the drive's model,
    /// for interrupts that are held back, or for what was refused.
    pub fn next_event(&self) -> Option<Nanos> {
        // What was refused is recorded at once: the guest may go on for ever with it.
        let refused = self.refused.first().map(|(at, _)| *at);
        let events = [self.drive.next_event(), self.controller.next_deadline(), refused];
        events.into_iter().flatten().min()
    }

    /// Delivers what is due at `now`; each I/O is told to `record`.
    pub fn advance(
        &mut self,
        memory: &GuestMemory,
        now: Nanos,
        boot: bool,
        mut record: impl FnMut(IoRecord),
    ) {
        self.controller.set_time(now);
        self.drive.advance(now, &mut self.done);
        let mut done = std::mem::take(&mut self.done);
        for done in done.drain(..) {
            let mut entry = self.drive.record(&done, now, boot);
            self.since_health += 1;
            if done.status != Status::Ok || self.since_health >= HEALTH_INTERVAL {
                self.since_health = 0;
                self.controller.set_health(memory, self.drive.health());
            }
            entry.code = self.controller.complete(memory, done.tag, done.status, done.data);
            // A comparison can fail where the drive has not.
            entry.failed |= entry.code != 0;
            record(entry);
        }
        self.done = done;
        // A completion can make room for commands that waited.
        self.submit(now);
        for (at, refused) in self.refused.drain(..) {
            record(self.drive.refused(&refused, at, boot));
        }
    }

    /// The guest begins or ends to need help.
    pub fn help(&mut self, now: Nanos, on: bool) {
        self.drive.help(now, on);
    }

    /// The guest's scheduler prefers what it sends next for these sectors.
    pub fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        self.drive.urge(sectors);
    }

    /// The next MSI-X vector to signal.
    pub fn pop_interrupt(&mut self) -> Option<u16> {
        self.controller.pop_interrupt()
    }
}
