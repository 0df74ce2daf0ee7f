//! The modern PCI transport (virtio 1.2 section 4.1): its registers, all in one BAR, and how they
//! act on the device.

use stasis_block::{Refused, Request, Status, Tag};
use stasis_layout::{layout, IntoBytes, U16, U32, U64};

use crate::block::{Config, ConfigError, Device};
use crate::net;
use crate::ring::QueueSetup;
use crate::virtio_device::{Interrupt, VirtioDevice};
use crate::Memory;

/// Structures in the BAR: a page for each.
const COMMON: u64 = 0x0000;
const ISR: u64 = 0x1000;
const SPACE: u64 = 0x2000;
const NOTIFY: u64 = 0x3000;
const BAR_SIZE: u64 = 0x4000;
/// Bytes between the notification registers of two queues.
const NOTIFY_STEP: u64 = 4;
/// `VIRTIO_MSI_NO_VECTOR` (section 4.1.5.1.2).
const NO_VECTOR: u16 = 0xffff;

/// Bits of the device status (section 2.1).
mod status {
    pub const DRIVER_OK: u8 = 4;
    pub const FEATURES_OK: u8 = 8;
    pub const NEEDS_RESET: u8 = 64;
    /// ACKNOWLEDGE, DRIVER, DRIVER_OK, FEATURES_OK and FAILED.
    pub const OF_DRIVER: u8 = 0x8f;
}

layout! {
    /// `struct virtio_pci_common_cfg` (section 4.1.4.3).
    struct Common: 60 {
        [0] device_feature_select: U32,
        [4] device_feature: U32,
        [8] driver_feature_select: U32,
        [12] driver_feature: U32,
        [16] config_vector: U16,
        [18] num_queues: U16,
        [20] device_status: u8,
        [21] config_generation: u8,
        [22] queue_select: U16,
        [24] queue_size: U16,
        [26] queue_vector: U16,
        [28] queue_enable: U16,
        [30] queue_notify_off: U16,
        /// Descriptor table, driver area and device area.
        [32] queue_addresses: [U64; 3],
        [56] queue_notify_data: U16,
        [58] queue_reset: U16,
    }
}

/// Offsets of the fields that a driver writes in the common configuration.
mod field {
    use super::Common;
    use std::mem::offset_of;

    pub const DEVICE_FEATURE_SELECT: u64 = offset_of!(Common, device_feature_select) as u64;
    pub const DRIVER_FEATURE_SELECT: u64 = offset_of!(Common, driver_feature_select) as u64;
    pub const DRIVER_FEATURE: u64 = offset_of!(Common, driver_feature) as u64;
    pub const CONFIG_VECTOR: u64 = offset_of!(Common, config_vector) as u64;
    pub const DEVICE_STATUS: u64 = offset_of!(Common, device_status) as u64;
    pub const QUEUE_SELECT: u64 = offset_of!(Common, queue_select) as u64;
    pub const QUEUE_SIZE: u64 = offset_of!(Common, queue_size) as u64;
    pub const QUEUE_VECTOR: u64 = offset_of!(Common, queue_vector) as u64;
    pub const QUEUE_ENABLE: u64 = offset_of!(Common, queue_enable) as u64;
    pub const QUEUE_ADDRESSES: u64 = offset_of!(Common, queue_addresses) as u64;
    pub const QUEUE_ADDRESSES_END: u64 = offset_of!(Common, queue_notify_data) as u64;
}

/// A vendor-specific capability with the place of a structure (section 4.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    kind: u8,
    offset: u64,
    length: u64,
    step: Option<u64>,
}

impl Capability {
    /// Returns the capability's bytes but for the first two, its number (0x09) and the pointer to
    /// the next; the structures are in BAR `bar`.
    pub fn body(&self, bar: u8) -> Vec<u8> {
        let mut body = vec![0, self.kind, bar, 0, 0, 0];
        body.extend_from_slice(&(self.offset as u32).to_le_bytes());
        body.extend_from_slice(&(self.length as u32).to_le_bytes());
        if let Some(step) = self.step {
            body.extend_from_slice(&(step as u32).to_le_bytes());
        }
        body[0] = body.len() as u8 + 2;
        body
    }
}

/// The driver's settings of a queue.
#[derive(Debug, Clone, Copy)]
struct Registers {
    size: u16,
    vector: u16,
    enabled: bool,
    /// Descriptor table, driver area and device area.
    addresses: [u64; 3],
}

/// A virtio block device on a PCI bus.
pub type PciDevice = Pci<Device>;

/// A virtio network device on a PCI bus.
pub type PciNetworkDevice = Pci<net::Device>;

/// A virtio device on a PCI bus.
#[derive(Debug)]
pub struct Pci<D> {
    device: D,
    feature_select: u32,
    driver_feature_select: u32,
    driver_features: u64,
    config_vector: u16,
    status: u8,
    /// Grows with each change of the configuration space.
    generation: u8,
    queue_select: u16,
    queues: Vec<Registers>,
    isr: u8,
}

impl<D: VirtioDevice> Pci<D> {
    /// PCI's vendor of all virtio devices (section 4.1.2).
    pub const VENDOR: u16 = 0x1af4;
    /// A modern device's number: 0x1040 and the device type (section 4.1.2).
    pub const DEVICE: u16 = 0x1040 + D::TYPE;

    /// `device` without a driver yet.
    pub fn of(device: D) -> Self {
        let registers = Registers::new(device.queue_size());
        Self {
            queues: vec![registers; usize::from(device.queues())],
            device,
            feature_select: 0,
            driver_feature_select: 0,
            driver_features: 0,
            config_vector: NO_VECTOR,
            status: 0,
            generation: 0,
            queue_select: 0,
            isr: 0,
        }
    }

    /// Size of the registers in bytes, for their base address register. The
    /// MSI-X table is the carrier's.
    pub fn bar_size() -> u64 {
        BAR_SIZE
    }

    /// The capabilities of its configuration space.
    pub fn capabilities() -> [Capability; 4] {
        // `cfg_type` (section 4.1.4): common, notify, ISR, device. The fifth, a
        // window to them in configuration space, is for firmware.
        [
            Capability { kind: 1, offset: COMMON, length: size_of::<Common>() as u64, step: None },
            Capability { kind: 2, offset: NOTIFY, length: 64 * 4, step: Some(NOTIFY_STEP) },
            Capability { kind: 3, offset: ISR, length: 1, step: None },
            Capability { kind: 4, offset: SPACE, length: D::SPACE as u64, step: None },
        ]
    }

    /// Number of MSI-X vectors that the carrier is to offer: one for each queue and one for changes
    /// of the configuration.
    pub fn vectors(&self) -> u16 {
        self.queues.len() as u16 + 1
    }

    /// The MSI-X vector of a queue's completions, if the driver has set one.
    pub fn queue_vector(&self, queue: u16) -> Option<u16> {
        let queue = self.queues.get(usize::from(queue))?;
        Some(queue.vector).filter(|&vector| vector != NO_VECTOR)
    }

    /// Returns whether `offset` is where queues are notified.
    pub fn is_doorbell(offset: u64) -> bool {
        (NOTIFY..BAR_SIZE).contains(&offset)
    }

    /// The device behind the registers.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device behind the registers, to change.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Reads registers from `offset` on, of any width.
    pub fn read_register(&mut self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        match offset {
            COMMON..ISR => {
                let common = self.common();
                let rest = common.as_bytes().get(offset as usize..).unwrap_or_default();
                let length = rest.len().min(into.len());
                into[..length].copy_from_slice(&rest[..length]);
            }
            // Reading acknowledges (section 4.1.4.5).
            ISR => {
                if let Some(first) = into.first_mut() {
                    *first = std::mem::take(&mut self.isr);
                }
            }
            SPACE..NOTIFY => self.device.read_config(offset - SPACE, into),
            _ => {}
        }
    }

    fn common(&self) -> Common {
        let half = |features: u64, select: u32| match select {
            0 => features as u32,
            1 => (features >> 32) as u32,
            _ => 0,
        };
        let common = Common {
            device_feature_select: self.feature_select.into(),
            device_feature: half(self.device.features(), self.feature_select).into(),
            driver_feature_select: self.driver_feature_select.into(),
            driver_feature: half(self.driver_features, self.driver_feature_select).into(),
            config_vector: self.config_vector.into(),
            num_queues: (self.queues.len() as u16).into(),
            device_status: self.status(),
            config_generation: self.generation,
            queue_select: self.queue_select.into(),
            ..Default::default()
        };
        // A missing queue has size 0 (section 4.1.5.1.3).
        let queue = self.queues.get(usize::from(self.queue_select));
        queue.map_or(common, |queue| Common {
            queue_size: queue.size.into(),
            queue_vector: queue.vector.into(),
            queue_enable: u16::from(queue.enabled).into(),
            queue_notify_off: self.queue_select.into(),
            queue_addresses: queue.addresses.map(U64::new),
            ..common
        })
    }

    fn status(&self) -> u8 {
        match self.device.fault() {
            Some(_) => self.status | status::NEEDS_RESET,
            None => self.status,
        }
    }

    /// Writes the register at `offset`. A width that is not the register's is
    /// ignored; an address is written at once or by its halves.
    pub fn write_register(&mut self, memory: &dyn Memory, offset: u64, data: &[u8]) {
        match offset {
            COMMON..ISR => match *data {
                [a] if offset == field::DEVICE_STATUS => self.set_status(memory, a),
                [a, b] => self.write16(offset, u16::from_le_bytes([a, b])),
                [a, b, c, d] => self.write32(offset, u32::from_le_bytes([a, b, c, d])),
                [a, b, c, d, e, f, g, h] if offset >= field::QUEUE_ADDRESSES => {
                    self.write32(offset, u32::from_le_bytes([a, b, c, d]));
                    self.write32(offset + 4, u32::from_le_bytes([e, f, g, h]));
                }
                _ => {}
            },
            SPACE..NOTIFY => self.device.write_config(offset - SPACE, data),
            NOTIFY..BAR_SIZE if (offset - NOTIFY).is_multiple_of(NOTIFY_STEP) => {
                let queue = (offset - NOTIFY) / NOTIFY_STEP;
                self.device.notify(memory, queue as u16);
            }
            _ => {}
        }
    }

    fn write16(&mut self, offset: u64, value: u16) {
        let vectors = self.vectors();
        let vector = if value < vectors { value } else { NO_VECTOR };
        match offset {
            field::CONFIG_VECTOR => self.config_vector = vector,
            field::QUEUE_SELECT => self.queue_select = value,
            _ => {
                let Some(queue) = self.queues.get_mut(usize::from(self.queue_select)) else {
                    return;
                };
                match offset {
                    field::QUEUE_SIZE if !queue.enabled => queue.size = value,
                    field::QUEUE_VECTOR => queue.vector = vector,
                    field::QUEUE_ENABLE => queue.enabled |= value == 1,
                    _ => {}
                }
            }
        }
    }

    fn write32(&mut self, offset: u64, value: u32) {
        match offset {
            field::DEVICE_FEATURE_SELECT => self.feature_select = value,
            field::DRIVER_FEATURE_SELECT => self.driver_feature_select = value,
            // Negotiated features stay as they are.
            field::DRIVER_FEATURE if self.status & status::FEATURES_OK == 0 => {
                let shift = match self.driver_feature_select {
                    0 => 0,
                    1 => 32,
                    _ => return,
                };
                self.driver_features &= !(u64::from(u32::MAX) << shift);
                self.driver_features |= u64::from(value) << shift;
            }
            field::QUEUE_ADDRESSES..field::QUEUE_ADDRESSES_END if offset.is_multiple_of(4) => {
                let Some(queue) = self.queues.get_mut(usize::from(self.queue_select)) else {
                    return;
                };
                if queue.enabled {
                    return;
                }
                let at = offset - field::QUEUE_ADDRESSES;
                let shift = 8 * (at % 8);
                let address = &mut queue.addresses[(at / 8) as usize];
                *address &= !(u64::from(u32::MAX) << shift);
                *address |= u64::from(value) << shift;
            }
            _ => {}
        }
    }

    /// The driver writes the device status (section 3.1.1).
    fn set_status(&mut self, memory: &dyn Memory, value: u8) {
        if value == 0 {
            return self.reset();
        }
        let before = self.status;
        self.status |= value & status::OF_DRIVER;
        let set = self.status & !before;
        if set & status::FEATURES_OK != 0 && !self.device.accept(self.driver_features) {
            self.status &= !status::FEATURES_OK;
        }
        if self.status & status::FEATURES_OK == 0 {
            self.status &= !status::DRIVER_OK;
        } else if set & status::DRIVER_OK != 0 {
            for (queue, registers) in self.queues.iter().enumerate() {
                if registers.enabled {
                    let setup = registers.setup();
                    if self.device.start_queue(memory, queue as u16, &setup).is_err() {
                        break; // the driver sees that the device needs a reset
                    }
                }
            }
        }
    }

    fn reset(&mut self) {
        let registers = Registers::new(self.device.queue_size());
        self.device.reset();
        self.queues.fill(registers);
        self.feature_select = 0;
        self.driver_feature_select = 0;
        self.driver_features = 0;
        self.config_vector = NO_VECTOR;
        self.status = 0;
        self.queue_select = 0;
        self.isr = 0;
    }

    /// The next MSI-X vector to signal.
    pub fn pop_interrupt(&mut self) -> Option<u16> {
        while let Some(interrupt) = self.device.pop_interrupt() {
            let (vector, bit) = match interrupt {
                Interrupt::Queue(queue) => (self.queues[usize::from(queue)].vector, 1),
                Interrupt::Configuration => (self.config_vector, 2),
            };
            if vector != NO_VECTOR {
                return Some(vector);
            }
            // A driver without vectors looks there (section 4.1.5.3).
            self.isr |= bit;
        }
        None
    }
}

impl PciDevice {
    /// A block device without a driver yet.
    ///
    /// # Errors
    /// Returns the invalid field of `config` and its allowed values.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self::of(Device::new(config)?))
    }

    /// Looks for requests in every queue.
    pub fn poll(&mut self, memory: &dyn Memory) {
        self.device.poll(memory);
    }

    /// See [`Device::resize`].
    ///
    /// # Errors
    /// The disk cannot be so large.
    pub fn resize(&mut self, capacity: u64) -> Result<(), ConfigError> {
        self.device.resize(capacity)?;
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// The next I/O request for the drive.
    pub fn pop_request(&mut self) -> Option<Request> {
        self.device.pop_request()
    }

    /// See [`Device::pop_refused`].
    pub fn pop_refused(&mut self) -> Option<Refused> {
        self.device.pop_refused()
    }

    /// See [`Device::complete`].
    pub fn complete(&mut self, memory: &dyn Memory, tag: Tag, status: Status, data: Vec<u8>) {
        self.device.complete(memory, tag, status, data);
    }
}

impl Registers {
    fn new(size: u16) -> Self {
        Self { size, vector: NO_VECTOR, enabled: false, addresses: [0; 3] }
    }

    fn setup(&self) -> QueueSetup {
        let [descriptors, available, used] = self.addresses;
        QueueSetup { size: self.size, descriptors, available, used, next: 0 }
    }
}
