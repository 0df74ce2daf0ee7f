//! A virtio block device on the PCI bus with a drive behind it.

use stasis_block::Refused;
use stasis_clock::Nanos;
use stasis_drive::{Done, Layer, Submission};
use stasis_run_events::IoRecord;
use stasis_virtio::PciDevice;

use crate::memory::GuestMemory;
use crate::pci::{Function, Identity};

/// A capability of the vendor's own (PCI 3.0, appendix H).
const VENDOR_SPECIFIC: u8 = 0x09;

/// A device, its drive, and what is between them.
pub struct VirtioDevice {
    device: PciDevice,
    drive: Box<dyn Layer>,
    done: Vec<Done>,
    /// Requests that the device has refused, with when: not recorded yet.
    refused: Vec<(Nanos, Refused)>,
    lazy: bool,
}

impl VirtioDevice {
    /// Joins `device` and `drive`. The driver of a `lazy` device does not
    /// notify: it is to be polled.
    pub fn new(device: PciDevice, drive: Box<dyn Layer>, lazy: bool) -> Self {
        Self { device, drive, done: Vec::new(), refused: Vec::new(), lazy }
    }

    /// Its PCI function.
    pub fn function(&self) -> Function {
        // Class: mass storage, other (PCI Code and ID Assignment Specification
        // 1.11, 1.9). Revision: a modern device's is 1 or more (virtio 1.2
        // section 4.1.2.1).
        let (vendor, device) = (PciDevice::VENDOR, PciDevice::DEVICE);
        let identity = Identity { vendor, device, class: 0x01_80_00, revision: 1 };
        let function = Function::new(identity)
            .with_bar(0, PciDevice::bar_size(), false)
            .with_msix(self.device.vectors());
        PciDevice::capabilities().into_iter().fold(function, |function, capability| {
            function.with_capability(VENDOR_SPECIFIC, &capability.body(0))
        })
    }

    /// The drive.
    pub fn drive(&self) -> &dyn Layer {
        &*self.drive
    }

    /// What holds its bytes, to be asked for what it remembers.
    pub fn drive_mut(&mut self) -> &mut dyn Layer {
        &mut *self.drive
    }

    /// Whether a write to `offset` says that there are requests.
    pub fn is_doorbell(offset: u64) -> bool {
        PciDevice::is_doorbell(offset)
    }

    /// The guest reads a register.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) {
        self.device.read_register(offset, into);
    }

    /// The guest writes a register at virtual time `now`.
    pub fn write(&mut self, memory: &GuestMemory, now: Nanos, offset: u64, data: &[u8]) {
        self.device.write_register(memory, offset, data);
        self.submit(now);
    }

    /// Whether requests are found by polling only.
    pub fn is_lazy(&self) -> bool {
        self.lazy
    }

    /// Looks into the queues of a lazy device.
    pub fn poll(&mut self, memory: &GuestMemory, now: Nanos) {
        if self.lazy {
            self.device.poll(memory);
            self.submit(now);
        }
    }

    fn submit(&mut self, now: Nanos) {
        while let Some(request) = self.device.pop_request() {
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
        while let Some(refused) = self.device.pop_refused() {
            self.refused.push((now, refused));
        }
    }

    /// When its drive's model wants to be advanced next, or what was refused is to be
    /// recorded: at once, as the guest may go on for ever with it.
    pub fn next_event(&self) -> Option<Nanos> {
        let refused = self.refused.first().map(|(at, _)| *at);
        [self.drive.next_event(), refused].into_iter().flatten().min()
    }

    /// Delivers what is due at `now`; each I/O is told to `record`.
    pub fn advance(
        &mut self,
        memory: &GuestMemory,
        now: Nanos,
        boot: bool,
        mut record: impl FnMut(IoRecord),
    ) {
        self.drive.advance(now, &mut self.done);
        let mut done = std::mem::take(&mut self.done);
        for done in done.drain(..) {
            let entry = self.drive.record(&done, now, boot);
            // Status 1 is the device's for whatever the drive could not do
            // (VIRTIO_BLK_S_IOERR).
            record(IoRecord { code: entry.failed.into(), ..entry });
            self.device.complete(memory, done.tag, done.status, done.data);
        }
        self.done = done;
        // A completion can make room for requests that waited.
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
        self.device.pop_interrupt()
    }
}
