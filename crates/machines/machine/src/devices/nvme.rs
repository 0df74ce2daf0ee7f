//! An NVMe controller on the PCI bus.

use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Health, Refused, Request, Status};
use stasis_drive::{Done, Layer};
use stasis_nvme::{Ended, Memory, OutOfMemoryRange, QueuePair, VendorRequest};
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
    /// The changes of the controller's state that were looked at, and the layout of blocks that the
    /// drive was told.
    seen: Option<u64>,
    told: Option<BlockLayout>,
}

impl NvmeController {
    /// On the bus.
    pub fn new(controller: stasis_nvme::Controller) -> Self {
        Self { controller, since_health: 0, seen: None, told: None }
    }

    /// Tells the drive how its blocks lie, which a format changes.
    fn tell_layout(&mut self, drive: &mut dyn Layer) {
        let changes = self.controller.state_changes();
        if self.seen.replace(changes) == Some(changes) {
            return;
        }
        let layout = self.controller.layout();
        if self.told.as_ref() != Some(&layout) {
            drive.control().set_layout(&layout);
            self.told = Some(layout);
        }
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
        self.tell_layout(drive);
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

    fn queues(&self) -> Vec<String> {
        let pair = |pair: QueuePair| {
            let QueuePair { number, size, submission, to, completion, held, .. } = pair;
            let vector = pair.vector.map_or("none".to_owned(), |vector| vector.to_string());
            let stopped = if pair.is_stopped { ", stopped" } else { "" };
            format!(
                "queue {number}: {size} entries, head {}, tail {}{stopped}; completions to {to}: \
                 head {}, tail {}, {held} held, vector {vector}",
                submission.0, submission.1, completion.0, completion.1
            )
        };
        self.controller.queue_pairs().map(pair).collect()
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
        // Records have the host's bytes.
        if let Some(layout) = self.told.as_ref().filter(|layout| !layout.is_plain()) {
            let IoRecord { offset, bytes, .. } = IoRecord::of(&layout.of_data(&done.command));
            (io.offset, io.bytes) = (offset, bytes);
        }
        io.code = self.controller.complete(memory, done.tag, ended, done.data);
        self.tell_layout(drive);
        // A comparison can fail where the drive has not.
        if io.code != 0 {
            io.status = IoStatus::Error;
        }
    }

    fn pop_interrupt(&mut self) -> Option<u16> {
        self.controller.pop_interrupt()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use stasis_block::{Command, Delivery, PowerLoss};
    use stasis_drive::{Control, Properties};

    use super::*;
    use crate::devices::drive::DriveDevice;

    /// Does everything at once, and keeps the sizes of blocks that it is told.
    struct Drive {
        properties: Properties,
        submitted: Vec<Request>,
        block_sizes: Rc<RefCell<Vec<u32>>>,
    }

    impl Layer for Drive {
        fn properties(&self) -> &Properties {
            &self.properties
        }

        fn submit(&mut self, _: Nanos, request: Request) {
            self.submitted.push(request);
        }

        fn next_event(&self) -> Option<Nanos> {
            self.submitted.first().map(|_| 1)
        }

        fn advance(&mut self, _: Nanos, done: &mut Vec<Done>) {
            done.extend(self.submitted.drain(..).map(|Request { tag, command, data, .. }| Done {
                tag,
                queue: 0,
                command,
                status: Status::Ok,
                failed_at: 0,
                data,
                submit: 0,
                order: 0,
                at: 1,
                delivery: Delivery::Once,
            }));
        }

        fn in_flight(&self) -> usize {
            self.submitted.len()
        }

        fn instant(&mut self, _: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
            (Status::Ok, data)
        }

        fn control(&mut self) -> &mut dyn Control {
            self
        }
    }

    impl Control for Drive {
        fn lower(&mut self) -> Option<&mut dyn Control> {
            None
        }

        fn set_layout(&mut self, layout: &BlockLayout) {
            self.block_sizes.borrow_mut().push(layout.largest());
        }
    }

    #[test]
    fn a_format_tells_the_drive_its_blocks() {
        let memory = GuestMemory::new(1 << 20, 0).unwrap();
        let block_sizes = Rc::default();
        let properties = Properties {
            index: 0,
            name: "disk".into(),
            capacity: 1 << 20,
            discard_zeroes: true,
            barrier: None,
            power_loss: PowerLoss::default(),
        };
        let drive =
            Drive { properties, submitted: Vec::new(), block_sizes: Rc::clone(&block_sizes) };
        let namespaces = vec![stasis_nvme::Namespace::new(2048, 512)];
        let config = stasis_nvme::Config { namespaces, ..Default::default() };
        let controller = stasis_nvme::Controller::new(config).unwrap();
        let controller = Box::new(NvmeController::new(controller));
        let mut device = DriveDevice::new(controller, Box::new(drive), None, false);
        // Admin queues, and in the first entry Format NVM with blocks of 4096 bytes.
        let mut format = [0; 64];
        (format[0], format[4], format[40]) = (0x80, 1, 1);
        memory.write(0x1000, &format).unwrap();
        let registers: [(u64, u32); 5] =
            [(0x24, 0x1f_001f), (0x28, 0x1000), (0x30, 0x2000), (0x14, 0x46_0001), (0x1000, 1)];
        for (at, value) in registers {
            device.write(&memory, 0, at, &value.to_le_bytes());
        }
        while let Some(at) = device.next_event() {
            device.advance(&memory, at, false, |_| ());
        }
        assert_eq!(*block_sizes.borrow(), [512, 4096]);
    }
}
