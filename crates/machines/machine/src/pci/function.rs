//! One function's configuration space.

use stasis_block::Link;
use stasis_layout::{u16_at, u64_at};

use super::express::{self, Express, PortType};
use super::msix::{Msix, MAX_MSIX_VECTORS, MSIX_BAR, MSIX_BAR_SIZE, MSIX_PENDING};
use crate::apic::Message;

/// Bytes of the configuration space that holds anything. Behind these bytes a PCI Express function
/// has an empty list of extended capabilities.
pub(super) const CONFIG: usize = 256;
/// Bytes of a PCI Express function's configuration space.
const EXTENDED_CONFIG: usize = 4096;
/// The command register.
pub(super) const COMMAND: usize = 4;
/// Command register: the function answers memory accesses.
const MEMORY: u8 = 1 << 1;
/// Command register bits that are kept: memory, bus master, interrupt disable.
const COMMAND_MASK: u16 = 0x0406;
const BAR0: usize = 0x10;
const CAPABILITIES: usize = 0x34;
const MSIX: usize = 0x40;
/// Place at which other capabilities begin, one behind the other.
const OTHERS: usize = 0x50;

/// The power management capability's number (PCI Bus Power Management Interface
/// Specification 1.2, 3.2).
const POWER: u8 = 1;
/// Its capabilities register: version 3, states D0 and D3, no events.
const POWER_CAPABILITIES: u16 = 3;
/// Its control and status register: going back to D0 keeps what was set.
const NO_SOFT_RESET: u8 = 1 << 3;
/// Power state, in the same register.
const POWER_STATE: u8 = 3;
const D3_HOT: u8 = 3;

/// The capability of message signalled interrupts (PCI Local Bus Specification 3.0, 6.8.1).
const MSI: u8 = 5;
const MSI_LENGTH: usize = 14;
/// Its control register: addresses of 64 bits.
const MSI_64_BIT: u8 = 1 << 7;
const MSI_ENABLE: u16 = 1;

/// The identity that a device reports.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Class, subclass and programming interface (24 bits).
    pub class: u32,
    /// Revision.
    pub revision: u8,
}

/// A function's configuration space: up to three 64-bit memory BARs (numbers 0,
/// 2 and 4) and capabilities.
#[derive(Debug, Clone)]
pub struct Function {
    config: [u8; CONFIG],
    /// The bits that a guest's writes change.
    writable: [u8; CONFIG],
    /// The writable bits after a reset.
    defaults: [u8; CONFIG],
    /// Size of each 64-bit BAR, 0 for none.
    sizes: [u64; 3],
    msix: Option<Msix>,
    /// Place of the power management's control and status register.
    power: Option<usize>,
    express: Option<Express>,
    /// Place of a slot's message.
    msi: Option<usize>,
    /// Place of the next capability.
    free: usize,
}

/// A side effect of a write to a configuration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Nothing,
    /// This function is to be reset.
    Reset,
}

impl Function {
    /// A function without BARs.
    pub fn new(identity: Identity) -> Self {
        let mut config = [0; CONFIG];
        config[0..2].copy_from_slice(&identity.vendor.to_le_bytes());
        config[2..4].copy_from_slice(&identity.device.to_le_bytes());
        config[8] = identity.revision;
        config[9..12].copy_from_slice(&identity.class.to_le_bytes()[..3]);
        // Subsystem: the same, so that drivers' quirks for others do not match.
        config[0x2c..0x2e].copy_from_slice(&identity.vendor.to_le_bytes());
        config[0x2e..0x30].copy_from_slice(&identity.device.to_le_bytes());
        let mut writable = [0; CONFIG];
        writable[COMMAND..COMMAND + 2].copy_from_slice(&COMMAND_MASK.to_le_bytes());
        writable[0x0c] = 0xff; // cache line size
        writable[0x3c] = 0xff; // interrupt line
        Self {
            config,
            writable,
            defaults: [0; CONFIG],
            sizes: [0; 3],
            msix: None,
            power: None,
            express: None,
            msi: None,
            free: OTHERS,
        }
    }

    /// Adds a 64-bit memory BAR; `bar` is 0, 2 or 4, `size` a power of two.
    pub fn with_bar(mut self, bar: usize, size: u64, prefetchable: bool) -> Self {
        debug_assert!(size.is_power_of_two() && size >= 16 && bar.is_multiple_of(2) && bar <= 4);
        self.sizes[bar / 2] = size;
        let at = BAR0 + 4 * bar;
        self.config[at] = 4 | u8::from(prefetchable) << 3;
        // Bits below the size are fixed: this is how sizing works.
        self.writable[at..at + 8].copy_from_slice(&(!(size - 1)).to_le_bytes());
        self
    }

    /// Adds MSI-X with `vectors` vectors; its table is in [`MSIX_BAR`].
    pub fn with_msix(mut self, vectors: u16) -> Self {
        debug_assert!((1..=MAX_MSIX_VECTORS).contains(&vectors));
        self = self.with_bar(MSIX_BAR, MSIX_BAR_SIZE, false);
        self.config[MSIX] = 0x11;
        self.link(MSIX);
        self.config[MSIX + 2..MSIX + 4].copy_from_slice(&(vectors - 1).to_le_bytes());
        self.writable[MSIX + 3] = 0xc0;
        self.config[MSIX + 4..MSIX + 8].copy_from_slice(&4u32.to_le_bytes());
        self.config[MSIX + 8..MSIX + 12].copy_from_slice(&(4 | MSIX_PENDING as u32).to_le_bytes());
        self.msix = Some(Msix::new(vectors));
        self
    }

    /// Adds a capability that only holds information: its number, and the bytes behind the pointer
    /// to the next.
    pub fn with_capability(mut self, number: u8, body: &[u8]) -> Self {
        self.capability(number, body);
        self
    }

    fn capability(&mut self, number: u8, body: &[u8]) -> usize {
        let at = self.free;
        let end = at + 2 + body.len();
        debug_assert!(end <= CONFIG);
        self.config[at] = number;
        self.config[at + 2..end].copy_from_slice(body);
        self.free = end.next_multiple_of(4);
        self.link(at);
        at
    }

    /// Adds power management with the states D0 and D3 (hot), which every PCI
    /// Express function has (PCI Express Base Specification 6.0, 7.5.2).
    fn with_power(mut self) -> Self {
        let [low, high] = POWER_CAPABILITIES.to_le_bytes();
        let at = 4 + self.capability(POWER, &[low, high, NO_SOFT_RESET, 0, 0, 0]);
        self.writable[at] = POWER_STATE;
        self.power = Some(at);
        self
    }

    /// Makes it a PCI Express function of that type at `link`.
    pub fn with_express(mut self, port_type: PortType, link: Link) -> Self {
        self = self.with_power();
        let capability = express::capability(port_type, link);
        let at = self.capability(express::NUMBER, &capability.registers);
        for (offset, mask) in capability.writable {
            self.allow(at + offset, mask);
        }
        self.defaults = self.config;
        self.express = Some(Express { at, port_type, connected: true });
        self
    }

    /// Makes a port the slot `number`, in which a device comes and goes, with a message for that
    /// (PCI Local Bus Specification 3.0, 6.8.1).
    pub(super) fn with_slot(mut self, number: u8) -> Self {
        let mut body = [0; MSI_LENGTH - 2];
        body[0] = MSI_64_BIT;
        let at = self.capability(MSI, &body);
        for (offset, mask) in
            [(2, MSI_ENABLE), (4, 0xfffc), (6, 0xffff), (8, 0xffff), (10, 0xffff), (12, 0xffff)]
        {
            self.allow(at + offset, mask);
        }
        self.msi = Some(at);
        if let Some(express) = &self.express {
            let (at, mask) = express.add_slot(&mut self.config, number);
            self.allow(at, mask);
        }
        self
    }

    /// The device in a port's slot has come or gone.
    pub(super) fn change_slot(&mut self, connected: bool) {
        if let Some(express) = &mut self.express {
            express.change(&mut self.config, connected);
        }
    }

    /// Returns whether there is a device at the other end of a port's link.
    pub(super) fn is_connected(&self) -> bool {
        self.express.as_ref().is_none_or(|express| express.connected)
    }

    /// The message of a port whose slot asks for an interrupt, if it may send one.
    pub(super) fn slot_message(&self) -> Option<Message> {
        let at = self.msi.filter(|at| self.word(at + 2) & MSI_ENABLE != 0)?;
        let wanted = self.express.as_ref().is_some_and(|port| port.interrupts(&self.config));
        let word = |offset| u64::from(self.word(at + offset));
        let address = word(4) | word(6) << 16 | word(8) << 32 | word(10) << 48;
        wanted.then(|| Message::from_msi(address, self.word(at + 12).into()))
    }

    /// Lets the guest write these bits at `at`.
    pub(super) fn allow(&mut self, at: usize, mask: u16) {
        self.writable[at..at + 2].copy_from_slice(&mask.to_le_bytes());
    }

    /// Sets what firmware or the wiring would.
    pub(super) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.config[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A 16-bit register.
    pub(super) fn word(&self, at: usize) -> u16 {
        u16_at(&self.config, at).unwrap_or(0)
    }

    /// The 16-bit register at `offset` of its PCI Express capability.
    pub(super) fn express_word(&self, offset: usize) -> u16 {
        self.express.as_ref().map_or(0, |express| self.word(express.at + offset))
    }

    /// Puts the capability at `at` in front of the others.
    fn link(&mut self, at: usize) {
        self.config[6] |= 1 << 4; // status: capabilities list
        self.config[at + 1] = self.config[CAPABILITIES];
        self.config[CAPABILITIES] = at as u8;
    }

    /// Address of a 64-bit BAR, if it has one.
    pub fn bar(&self, bar: usize) -> Option<u64> {
        if self.sizes[bar / 2] == 0 {
            return None;
        }
        Some(u64_at(&self.config, BAR0 + 4 * bar)? & !0xf)
    }

    /// Gives its BARs addresses from `next` on, which goes behind them: the largest first, as Linux
    /// does for a device that returns to its slot.
    pub(super) fn place_bars(&mut self, next: &mut u64) {
        let mut bars = [0, 2, 4];
        bars.sort_by_key(|bar| std::cmp::Reverse(self.sizes[bar / 2]));
        for bar in bars {
            let size = self.sizes[bar / 2];
            if size != 0 {
                *next = next.next_multiple_of(size);
                let at = BAR0 + 4 * bar;
                let flags = u64::from(self.config[at] & 0xf);
                self.set(at, &(*next | flags).to_le_bytes());
                *next += size;
            }
        }
    }

    /// Which of its BARs `address` is in, and where.
    pub(super) fn decode(&self, address: u64) -> Option<(usize, u64)> {
        if !self.memory_enabled() {
            return None;
        }
        [0, 2, 4].into_iter().find_map(|bar| {
            let offset = address.checked_sub(self.bar(bar)?)?;
            (offset < self.sizes[bar / 2]).then_some((bar, offset))
        })
    }

    /// Returns whether the device answers memory accesses.
    pub fn memory_enabled(&self) -> bool {
        let asleep = self.power.is_some_and(|at| self.config[at] & POWER_STATE == D3_HOT);
        self.config[COMMAND] & MEMORY != 0 && !asleep
    }

    pub(super) fn read(&self, offset: usize, into: &mut [u8]) {
        let end = if self.express.is_some() { EXTENDED_CONFIG } else { CONFIG };
        for (at, byte) in (offset..).zip(into) {
            let absent = if at < end { 0 } else { 0xff };
            *byte = self.config.get(at).copied().unwrap_or(absent);
        }
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) -> Wanted {
        let power = self.power.map(|at| self.config[at] & POWER_STATE);
        for (at, &byte) in (offset..CONFIG).zip(data) {
            let mask = self.writable[at];
            self.config[at] = self.config[at] & !mask | byte & mask;
        }
        if let Some(msix) = &mut self.msix {
            msix.control(self.config[MSIX + 3]);
        }
        if let (Some(express), Some(_)) = (&self.express, self.msi) {
            express.clear_events(&mut self.config, offset, data);
        }
        if let (Some(at), Some(before)) = (self.power, power) {
            // A state that there is not is ignored (7.5.2.2).
            if !matches!(self.config[at] & POWER_STATE, 0 | D3_HOT) {
                self.config[at] = self.config[at] & !POWER_STATE | before;
            }
        }
        match &self.express {
            Some(express) if express.settle(&mut self.config) => Wanted::Reset,
            _ => Wanted::Nothing,
        }
    }

    /// Resets the writable registers to their values after power-on.
    pub(super) fn reset(&mut self) {
        for (at, byte) in self.config.iter_mut().enumerate() {
            let mask = self.writable[at];
            *byte = *byte & !mask | self.defaults[at] & mask;
        }
        if let Some(msix) = &mut self.msix {
            msix.reset();
        }
    }

    /// The MSI-X state, where there is one.
    pub fn msix(&mut self) -> Option<&mut Msix> {
        self.msix.as_mut()
    }
}
