//! NVMe controllers on the PCI bus. They own the subsystem, and what is known of the drive's health and
//! of the layout of its blocks.

use std::any::Any;

use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Refused, Request, Status};
use stasis_drive::{Done, Layer};
use stasis_nvme::{
    AnaState, ControllerId, ControllerMut, Ended, KeptState, Memory, OutOfMemoryRange, QueuePair,
    Subsystem, Transport, VendorRequest,
};
use stasis_run_events::{IoRecord, IoStatus};

use super::controller::DriveController;
use crate::layout::DEVICE_BAR;
use crate::memory::GuestMemory;
use crate::pci::{Function, Identity, Reset};

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

/// The controllers of a drive: of one subsystem, each with a function of its own on the bus.
pub struct NvmeController {
    subsystem: Subsystem,
    /// The controller of each path.
    controllers: Vec<ControllerId>,
    /// Completions since the drive was last asked for its health.
    since_health: u32,
    /// The changes of the subsystem's state that were looked at, and the layout of blocks that the
    /// drive was told.
    changes_seen: Option<u64>,
    known_layout: Option<BlockLayout>,
}

impl NvmeController {
    /// On the bus, with so many controllers, at most [`stasis_nvme::MAX_CONTROLLERS`].
    pub fn new(mut subsystem: Subsystem, controllers: u16) -> Self {
        let transport = match controllers {
            0 | 1 => Transport::Pcie,
            _ => Transport::SharedPcie,
        };
        let controllers =
            (0..controllers.max(1)).filter_map(|_| subsystem.add_controller(transport)).collect();
        // They are paths of the one guest.
        subsystem.share_host();
        Self { subsystem, controllers, since_health: 0, changes_seen: None, known_layout: None }
    }

    /// Runs `act` with the controller of a path, if there is one.
    fn with<R: Default>(&mut self, path: usize, act: impl FnOnce(&mut ControllerMut) -> R) -> R {
        let id = self.controllers.get(path);
        let controller = id.and_then(|id| self.subsystem.controller(*id));
        controller.map_or_else(R::default, |mut controller| act(&mut controller))
    }

    /// Has controllers go on with what waits for another one's commands, or was changed by them.
    fn attend(&mut self, memory: &GuestMemory) {
        let mut last = None;
        while let Some(id) = self.subsystem.waiting(last) {
            last = Some(id);
            if let Some(mut controller) = self.subsystem.controller(id) {
                controller.attend(memory);
            }
        }
    }

    /// Asks the drive for its health.
    fn ask_health(&mut self, drive: &mut dyn Layer) {
        self.subsystem.set_health(drive.control().health());
        if !self.subsystem.media_parts().is_empty() {
            self.subsystem.set_parts_health(&drive.control().parts_health());
        }
    }

    /// Tells the drive how its blocks lie, which a format changes.
    fn tell_layout(&mut self, drive: &mut dyn Layer) {
        let changes = self.subsystem.state_changes();
        if self.changes_seen.replace(changes) == Some(changes) {
            return;
        }
        let layout = self.subsystem.layout();
        if self.known_layout.as_ref() != Some(&layout) {
            drive.control().set_layout(&layout);
            self.known_layout = Some(layout);
        }
    }

    /// Returns the PCI function of a controller of a subsystem with `config`.
    pub fn function(config: &stasis_nvme::Config) -> Function {
        // Class: mass storage, non-volatile memory, NVM Express I/O controller
        // (PCI Code and ID Assignment Specification 1.11, 1.9).
        let identity = Identity {
            vendor: stasis_nvme::VENDOR_ID,
            device: 0x0002,
            class: 0x01_08_02,
            revision: 1,
        };
        let function = Function::new(identity)
            .with_bar(DEVICE_BAR, stasis_nvme::BAR_SIZE, false)
            .with_msix(config.queue_pairs + 1);
        match config.memory_buffer {
            Some(size) => function.with_bar(stasis_nvme::MEMORY_BUFFER_BAR, size, true),
            None => function,
        }
    }

    /// The number of its controllers.
    pub fn paths(&self) -> usize {
        self.controllers.len()
    }

    /// The state that the drive keeps beside its bytes if its power is off from now on, with its
    /// medium's health at this instant.
    pub fn kept_state(&mut self, drive: &mut dyn Layer) -> KeptState {
        self.ask_health(drive);
        self.subsystem.kept_state()
    }

    /// A path's function has been reset.
    pub fn reset(&mut self, path: usize, reset: Reset) {
        self.with(path, |controller| match reset {
            Reset::Function => controller.reset_function(),
            Reset::Bus => controller.reset_bus(),
        });
    }

    /// A path's memory buffer is at `address`.
    pub fn place_memory_buffer(&mut self, path: usize, address: u64) {
        self.with(path, |controller| controller.place_memory_buffer(address));
    }

    /// Sets the access of a path to the namespaces.
    pub fn set_access(&mut self, memory: &GuestMemory, path: usize, state: AnaState) {
        if let Some(&ControllerId(number)) = self.controllers.get(path) {
            self.subsystem.set_ana(number, state);
            self.attend(memory);
        }
    }

    /// Attaches a namespace to a path, or detaches the namespace.
    pub fn attach(&mut self, memory: &GuestMemory, path: usize, nsid: u32, attached: bool) {
        if let Some(&id) = self.controllers.get(path) {
            self.subsystem.attach(id, nsid, attached);
            self.attend(memory);
        }
    }

    /// Resizes a namespace to `bytes` (`None`: its original size). Returns whether the namespace
    /// can have that size.
    pub fn resize(&mut self, memory: &GuestMemory, nsid: u32, bytes: Option<u64>) -> bool {
        let resized = self.subsystem.resize(nsid, bytes);
        self.attend(memory);
        resized
    }

    /// Returns human-readable lines, one for each pair of queues.
    pub fn queues(&self) -> Vec<String> {
        let several = self.controllers.len() > 1;
        let pairs_of = |id: &ControllerId| {
            let name = if several { format!("controller {}, ", id.0 + 1) } else { String::new() };
            self.subsystem.queue_pairs(*id).map(move |pair| {
                let QueuePair { number, size, submission, to, completion, held, .. } = pair;
                let vector = pair.vector.map_or("none".to_owned(), |vector| vector.to_string());
                let stopped = if pair.is_stopped { ", stopped" } else { "" };
                format!(
                    "{name}queue {number}: {size} entries, head {}, tail {}{stopped}; completions \
                     to {to}: head {}, tail {}, {held} held, vector {vector}",
                    submission.0, submission.1, completion.0, completion.1
                )
            })
        };
        self.controllers.iter().flat_map(pairs_of).collect()
    }

    /// Virtual time is `now`: commands that end by themselves do.
    pub fn set_time(&mut self, memory: &GuestMemory, now: Nanos) {
        self.subsystem.set_time(now);
        if self.subsystem.has_ended_work() {
            self.attend(memory);
        }
    }

    /// Makes the drive carry out its vendor's own commands.
    fn vendor(&mut self, memory: &GuestMemory, drive: &mut dyn Layer, now: Nanos) {
        while let Some(VendorRequest { tag, mut command }) = self.subsystem.pop_vendor() {
            let result = drive.control().vendor(now, &mut command);
            let id = self.subsystem.controller_of_vendor(tag);
            if let Some(mut controller) = id.and_then(|id| self.subsystem.controller(id)) {
                controller.complete_vendor(memory, tag, result, &command.data);
            }
        }
    }
}

impl DriveController for NvmeController {
    fn is_doorbell(&self, offset: u64) -> bool {
        stasis_nvme::is_doorbell(offset)
    }

    fn read(&mut self, path: usize, offset: u64, into: &mut [u8]) {
        self.with(path, |controller| controller.read_register(offset, into));
    }

    fn write(
        &mut self,
        memory: &GuestMemory,
        now: Nanos,
        drive: &mut dyn Layer,
        (path, offset): (usize, u64),
        data: &[u8],
    ) {
        self.set_time(memory, now);
        if stasis_nvme::is_admin_doorbell(offset) {
            self.ask_health(drive);
        }
        self.with(path, |controller| controller.write_register(memory, offset, data));
        self.attend(memory);
        self.tell_layout(drive);
        self.vendor(memory, drive, now);
    }

    /// By the shadow doorbells.
    fn poll(&mut self, memory: &GuestMemory, now: Nanos) -> bool {
        let mut has_shadow = false;
        for path in 0..self.controllers.len() {
            if self.with(path, |controller| controller.has_shadow()) {
                self.set_time(memory, now);
                self.with(path, |controller| controller.poll_shadow(memory));
                has_shadow = true;
            }
        }
        has_shadow
    }

    fn pop_request(&mut self) -> Option<Request> {
        self.subsystem.pop_request()
    }

    fn pop_refused(&mut self) -> Option<Refused> {
        self.subsystem.pop_refused()
    }

    fn entry_of(&self, path: usize, queue: u16) -> Option<u16> {
        let id = *self.controllers.get(path)?;
        self.subsystem.queue_pairs(id).find(|pair| pair.number == queue)?.vector
    }

    /// For interrupts that are held back, and for what ends by itself.
    fn next_event(&self) -> Option<Nanos> {
        self.subsystem.next_deadline()
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
            self.ask_health(drive);
        }
        let ended =
            Ended { status: done.status, failed_at: done.failed_at, delivery: done.delivery };
        // Records have the host's bytes.
        if let Some(layout) = self.known_layout.as_ref().filter(|layout| !layout.is_plain()) {
            let IoRecord { offset, bytes, .. } = IoRecord::of(&layout.of_data(&done.command));
            (io.offset, io.bytes) = (offset, bytes);
        }
        io.code = self.subsystem.complete(memory, done.tag, ended, done.data);
        self.attend(memory);
        self.tell_layout(drive);
        // A comparison can fail where the drive has not.
        if io.code != 0 {
            io.status = IoStatus::Error;
        }
    }

    fn pop_interrupt(&mut self, path: usize) -> Option<u16> {
        self.with(path, |controller| controller.pop_interrupt())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use stasis_block::{Command, Delivery, PowerLoss};
    use stasis_drive::{Control, LayerTimes, Properties};

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
                layers: LayerTimes::default(),
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

    fn properties(name: &str) -> Properties {
        Properties {
            index: 0,
            name: name.into(),
            capacity: 1 << 20,
            discard_zeroes: true,
            barrier: None,
            power_loss: PowerLoss::default(),
        }
    }

    /// The driver of a path: its queues lie one behind the other, the admin queues first.
    struct Driver<'a> {
        memory: &'a GuestMemory,
        path: usize,
        base: u64,
        tails: [u32; 2],
        heads: [u64; 2],
    }

    impl<'a> Driver<'a> {
        const DATA: u64 = 0x4000;

        /// With a pair of I/O queues.
        fn new(device: &mut DriveDevice, memory: &'a GuestMemory, path: usize) -> Self {
            let base = 0x1_0000 * (path as u64 + 1);
            let registers =
                [(0x24, 0x1f_001f), (0x28, base), (0x30, base + 0x1000), (0x14, 0x46_0001)];
            for (at, value) in registers {
                device.write(memory, 0, (path, at), &(value as u32).to_le_bytes());
            }
            let mut driver = Self { memory, path, base, tails: [0; 2], heads: [0; 2] };
            for (opcode, at, flags) in [(5, 0x3000, 1), (1, 0x2000, 1 << 16 | 1)] {
                let dwords = [31 << 16 | 1, flags];
                assert_eq!(driver.run(device, 0, (opcode, 0), base + at, dwords), Some((0, 0)));
            }
            driver
        }

        /// Submits a command; returns Dword 0 and the status of its completion, if it ends.
        fn run(
            &mut self,
            device: &mut DriveDevice,
            queue: usize,
            (opcode, nsid): (u8, u8),
            prp1: u64,
            dwords: [u32; 2],
        ) -> Option<(u32, u16)> {
            let mut entry = [0; 64];
            (entry[0], entry[4]) = (opcode, nsid);
            entry[24..32].copy_from_slice(&prp1.to_le_bytes());
            for (at, dword) in [40, 44].into_iter().zip(dwords) {
                entry[at..at + 4].copy_from_slice(&dword.to_le_bytes());
            }
            let tail = u64::from(self.tails[queue]);
            self.memory.write(self.base + queue as u64 * 0x2000 + tail * 64, &entry).unwrap();
            self.tails[queue] += 1;
            let doorbell = 0x1000 + queue as u64 * 8;
            device.write(self.memory, 0, (self.path, doorbell), &self.tails[queue].to_le_bytes());
            while let Some(at) = device.next_event() {
                device.advance(self.memory, at, false, |_| ());
            }
            self.end(queue)
        }

        /// The next completion of a queue, if there is one.
        fn end(&mut self, queue: usize) -> Option<(u32, u16)> {
            let at = self.base + 0x1000 + queue as u64 * 0x2000 + self.heads[queue] * 16;
            let mut raw = [0; 16];
            self.memory.read(at, &mut raw).unwrap();
            let status = u16::from_le_bytes([raw[14], raw[15]]);
            (status & 1 == 1).then(|| {
                self.heads[queue] += 1;
                (u32::from_le_bytes(raw[..4].try_into().unwrap()), status >> 1 & 0x7ff)
            })
        }

        /// A reservation command with two keys; returns its status.
        fn reserve(
            &mut self,
            device: &mut DriveDevice,
            opcode: u8,
            action: u32,
            keys: [u64; 2],
        ) -> u16 {
            let data = self.base + Self::DATA;
            self.memory.write(data, &keys.map(u64::to_le_bytes).concat()).unwrap();
            self.run(device, 1, (opcode, 1), data, [action, 0]).unwrap().1
        }

        /// The status of a write.
        fn write(&mut self, device: &mut DriveDevice) -> u16 {
            self.run(device, 1, (1, 1), self.base + Self::DATA, [0, 0]).unwrap().1
        }
    }

    /// Each controller of a drive is a host of its own to reservations: what one reserves the other
    /// cannot write, and who loses a reservation has a notice.
    #[test]
    fn controllers_of_a_drive_reserve_it() {
        const REGISTER: u8 = 0x0d;
        const ACQUIRE: u8 = 0x11;
        const WRITE_EXCLUSIVE: u32 = 1 << 8;
        const PREEMPT: u32 = 1;
        const CONFLICT: u16 = 0x083;
        let memory = GuestMemory::new(1 << 20, 0).unwrap();
        let drive = Drive {
            properties: properties("shared"),
            submitted: Vec::new(),
            block_sizes: Rc::default(),
        };
        let namespaces = vec![stasis_nvme::Namespace::new(2048, 512)];
        let config = stasis_nvme::Config { namespaces, ..Default::default() };
        let controller = Box::new(NvmeController::new(Subsystem::new(config).unwrap(), 2));
        let mut device = DriveDevice::new(controller, Box::new(drive), None, false);
        let device = &mut device;
        let mut first = Driver::new(device, &memory, 0);
        let mut second = Driver::new(device, &memory, 1);
        // A request for an event of the first.
        assert_eq!(first.run(device, 0, (0x0c, 0), 0, [0, 0]), None);
        assert_eq!((first.write(device), second.write(device)), (0, 0));
        assert_eq!(first.reserve(device, REGISTER, 0, [0, 11]), 0);
        assert_eq!(first.reserve(device, ACQUIRE, WRITE_EXCLUSIVE, [11, 0]), 0);
        assert_eq!((first.write(device), second.write(device)), (0, CONFLICT));
        assert_eq!(second.reserve(device, ACQUIRE, WRITE_EXCLUSIVE, [22, 0]), CONFLICT);
        assert_eq!(second.reserve(device, REGISTER, 0, [0, 22]), 0);
        assert_eq!(second.reserve(device, ACQUIRE, WRITE_EXCLUSIVE | PREEMPT, [22, 11]), 0);
        assert_eq!((first.write(device), second.write(device)), (CONFLICT, 0));
        // Reservation Log Page Available, which names the log 80h.
        assert_eq!(first.end(0), Some((0x80_0006, 0)));
        assert_eq!(second.end(0), None);
    }

    /// Queues and data of an I/O lie in the memory of the controller.
    #[test]
    fn a_memory_buffer_holds_queues_and_data() {
        const BUFFER: u64 = 0xc020_0000;
        let mut memory = GuestMemory::new(1 << 20, 0).unwrap();
        memory.add_device(BUFFER, 2 << 20).unwrap();
        let drive = Drive {
            properties: properties("disk"),
            submitted: Vec::new(),
            block_sizes: Rc::default(),
        };
        let namespaces = vec![stasis_nvme::Namespace::new(2048, 512)];
        let memory_buffer = Some(2 << 20);
        let config = stasis_nvme::Config { namespaces, memory_buffer, ..Default::default() };
        let function = NvmeController::function(&config);
        let controller = Box::new(NvmeController::new(Subsystem::new(config).unwrap(), 1));
        assert!(function.bar(stasis_nvme::MEMORY_BUFFER_BAR).is_some());
        let mut device = DriveDevice::new(controller, Box::new(drive), None, false);
        let device = &mut device;
        device.nvme().unwrap().place_memory_buffer(0, BUFFER);
        // The controller knows it by another address than its host.
        const KNOWN: u64 = 0x12_3400_0000;
        device.write(&memory, 0, (0, 0x50), &(KNOWN | 3).to_le_bytes());
        let mut driver = Driver::new(device, &memory, 0);
        // A second pair of I/O queues, with a place for data behind them.
        let (submissions, completions, data) = (KNOWN, KNOWN + 0x1000, KNOWN + 0x2000);
        for (opcode, at, flags) in [(5, completions, 1), (1, submissions, 2 << 16 | 1)] {
            let dwords = [31 << 16 | 2, flags];
            assert_eq!(driver.run(device, 0, (opcode, 0), at, dwords), Some((0, 0)));
        }
        let mut write = [0; 64];
        (write[0], write[4]) = (1, 1);
        write[24..32].copy_from_slice(&data.to_le_bytes());
        memory.write(BUFFER, &write).unwrap();
        device.write(&memory, 0, (0, 0x1010), &1u32.to_le_bytes());
        while let Some(at) = device.next_event() {
            device.advance(&memory, at, false, |_| ());
        }
        let mut completion = [0; 16];
        memory.read(BUFFER + 0x1000, &mut completion).unwrap();
        assert_eq!(completion[14..], [1, 0]);
        // A reset of the bus takes the address away, one of the function does not.
        let mut control = [0; 8];
        for (reset, kept) in [(Reset::Function, KNOWN | 3), (Reset::Bus, 0)] {
            device.nvme().unwrap().reset(0, reset);
            device.read(0, 0x50, &mut control);
            assert_eq!(u64::from_le_bytes(control), kept);
        }
    }

    #[test]
    fn a_format_tells_the_drive_its_blocks() {
        let memory = GuestMemory::new(1 << 20, 0).unwrap();
        let block_sizes = Rc::default();
        let drive = Drive {
            properties: properties("disk"),
            submitted: Vec::new(),
            block_sizes: Rc::clone(&block_sizes),
        };
        let namespaces = vec![stasis_nvme::Namespace::new(2048, 512)];
        let config = stasis_nvme::Config { namespaces, ..Default::default() };
        let subsystem = Subsystem::new(config).unwrap();
        let controller = Box::new(NvmeController::new(subsystem, 1));
        let mut device = DriveDevice::new(controller, Box::new(drive), None, false);
        // Admin queues, and in the first entry Format NVM with blocks of 4096 bytes.
        let mut format = [0; 64];
        (format[0], format[4], format[40]) = (0x80, 1, 1);
        memory.write(0x1000, &format).unwrap();
        let registers: [(u64, u32); 5] =
            [(0x24, 0x1f_001f), (0x28, 0x1000), (0x30, 0x2000), (0x14, 0x46_0001), (0x1000, 1)];
        for (at, value) in registers {
            device.write(&memory, 0, (0, at), &value.to_le_bytes());
        }
        while let Some(at) = device.next_event() {
            device.advance(&memory, at, false, |_| ());
        }
        assert_eq!(*block_sizes.borrow(), [512, 4096]);
    }
}
