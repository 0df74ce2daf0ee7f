//! A virtio block device on the PCI bus.

use std::any::Any;

use stasis_block::clock::Nanos;
use stasis_block::{Refused, Request};
use stasis_drive::{Done, Layer};
use stasis_run_events::IoRecord;
use stasis_virtio::{Pci, PciDevice, VirtioDevice};

use super::controller::DriveController;
use crate::layout::DEVICE_BAR;
use crate::memory::GuestMemory;
use crate::pci::{Function, Identity};

/// A capability of the vendor's own (PCI 3.0, appendix H).
const VENDOR_SPECIFIC: u8 = 0x09;

/// Class of the PCI function: mass storage, other (PCI Code and ID Assignment Specification 1.11,
/// 1.9).
const CLASS: u32 = 0x01_80_00;

/// The device.
pub struct VirtioController {
    device: PciDevice,
}

impl VirtioController {
    /// On the bus.
    pub fn new(device: PciDevice) -> Self {
        Self { device }
    }

    /// Returns the device's PCI function.
    pub fn function(&self) -> Function {
        function(&self.device, CLASS)
    }
}

/// The PCI function of a virtio device of this class.
pub(super) fn function<D: VirtioDevice>(device: &Pci<D>, class: u32) -> Function {
    // A modern device's revision is 1 or more (virtio 1.2 section 4.1.2.1).
    let (vendor, number) = (Pci::<D>::VENDOR, Pci::<D>::DEVICE);
    let identity = Identity { vendor, device: number, class, revision: 1 };
    let function = Function::new(identity)
        .with_bar(DEVICE_BAR, Pci::<D>::bar_size(), false)
        .with_msix(device.vectors());
    Pci::<D>::capabilities().into_iter().fold(function, |function, capability| {
        function.with_capability(VENDOR_SPECIFIC, &capability.body(0))
    })
}

impl DriveController for VirtioController {
    fn is_doorbell(&self, offset: u64) -> bool {
        PciDevice::is_doorbell(offset)
    }

    fn read(&mut self, _: usize, offset: u64, into: &mut [u8]) {
        self.device.read_register(offset, into);
    }

    fn write(
        &mut self,
        memory: &GuestMemory,
        _now: Nanos,
        _: &mut dyn Layer,
        (_, offset): (usize, u64),
        data: &[u8],
    ) {
        self.device.write_register(memory, offset, data);
    }

    /// In the queues.
    fn poll(&mut self, memory: &GuestMemory, _now: Nanos) -> bool {
        self.device.poll(memory);
        true
    }

    fn pop_request(&mut self) -> Option<Request> {
        self.device.pop_request()
    }

    fn pop_refused(&mut self) -> Option<Refused> {
        self.device.pop_refused()
    }

    fn entry_of(&self, _path: usize, queue: u16) -> Option<u16> {
        self.device.queue_vector(queue)
    }

    /// Returns no event: nothing ends by itself.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    fn complete(&mut self, memory: &GuestMemory, _: &mut dyn Layer, done: Done, io: &mut IoRecord) {
        // Status 1 is the device's for every failed request (VIRTIO_BLK_S_IOERR).
        io.code = io.failed().into();
        self.device.complete(memory, done.tag, done.status, done.data);
    }

    fn pop_interrupt(&mut self, _: usize) -> Option<u16> {
        self.device.pop_interrupt()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
