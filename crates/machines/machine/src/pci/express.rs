//! The PCI Express capability (PCI Express Base Specification 6.0, 7.5.3).

use stasis_block::Link;
use stasis_layout::u16_at;

/// The capability's number.
pub(super) const NUMBER: u8 = 0x10;

// Offsets of its registers.
const CAPABILITIES: usize = 0x02;
const DEVICE_CAPABILITIES: usize = 0x04;
const DEVICE_CONTROL: usize = 0x08;
const LINK_CAPABILITIES: usize = 0x0c;
/// Link Control.
pub(super) const LINK_CONTROL: usize = 0x10;
const LINK_STATUS: usize = 0x12;
const SLOT_CAPABILITIES: usize = 0x14;
/// Slot Control.
const SLOT_CONTROL: usize = 0x18;
/// Slot Status.
const SLOT_STATUS: usize = 0x1a;
const ROOT_CONTROL: usize = 0x1c;
const DEVICE_CAPABILITIES_2: usize = 0x24;
const DEVICE_CONTROL_2: usize = 0x28;
const LINK_CAPABILITIES_2: usize = 0x2c;
const LINK_CONTROL_2: usize = 0x30;
const LENGTH: usize = 0x3c;

/// Device Capabilities: payloads of 256 bytes; errors are reported by role,
/// which is required.
const DEVICE: u32 = 1 | 1 << 15;
/// Device Capabilities: Function Level Reset, which NVMe asks for (NVMe over
/// PCIe Transport Specification 1.0, 3.8.1.3).
const FUNCTION_LEVEL_RESET: u32 = 1 << 28;
/// Device Control: error reporting, relaxed ordering, payload size, no snoop,
/// read request size.
const DEVICE_CONTROL_MASK: u16 = 0x78ff;
/// Device Control after a reset: relaxed ordering, no snoop, reads of 512 bytes.
const DEVICE_CONTROL_DEFAULT: u16 = 1 << 4 | 1 << 11 | 2 << 12;
/// Device Control: initiate a Function Level Reset; reads as 0.
const INITIATE_RESET: u16 = 1 << 15;
/// Link Capabilities: the port reports whether the link is up. Ports of links faster than 5 GT/s
/// must.
const ACTIVE_REPORTING: u32 = 1 << 20;
/// Link Capabilities: no power state of the link is needed to be compliant.
const ASPM_OPTIONAL: u32 = 1 << 22;
/// Link Control: the bits that an endpoint keeps: read completion boundary, common clock, extended
/// synch.
const LINK_CONTROL_MASK: u16 = 1 << 3 | 1 << 6 | 1 << 7;
/// Link Control: the two ends have one clock. Firmware would have set it.
const COMMON_CLOCK: u16 = 1 << 6;
/// Link Control of a port: the link is off.
pub(super) const LINK_DISABLE: u16 = 1 << 4;
/// Link Control of a port: train the link anew; reads as 0.
const RETRAIN: u16 = 1 << 5;
/// Link Status: uses the clock of its connector.
const SLOT_CLOCK: u16 = 1 << 12;
/// Link Status of a port: the link is up.
const LINK_ACTIVE: u16 = 1 << 13;
/// Capabilities: the port is connected to a slot.
const HAS_SLOT: u16 = 1 << 8;
/// Slot Capabilities: a device can come, and go without notice; commands are done at once. There
/// are neither buttons, indicators, a power controller nor a latch.
const HOT_PLUG: u32 = 1 << 5 | 1 << 6 | 1 << 18;
/// Slot Status and Slot Control: a device has come or gone, and the interrupt for that.
const PRESENCE_CHANGED: u16 = 1 << 3;
/// Slot Control: hot-plug interrupts.
const INTERRUPTS: u16 = 1 << 5;
/// Slot Status: always set where there is no slot to be empty.
const PRESENT: u16 = 1 << 6;
/// Slot Status: the link went up or down.
const LINK_CHANGED: u16 = 1 << 8;
/// Slot Control: the interrupt for that.
const ON_LINK_CHANGED: u16 = 1 << 12;
/// Root Control: which errors and events interrupt.
const ROOT_CONTROL_MASK: u16 = 0xf;
/// Device Capabilities 2 and Control 2: completion timeouts can be turned off.
const TIMEOUT_DISABLE: u16 = 1 << 4;
/// Link Status 2: equalization is complete, with its three phases; links of
/// 8 GT/s and more have it.
const EQUALIZED: u16 = 0xf << 1;

/// Which end of a link a function is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortType {
    /// The device's.
    Endpoint,
    /// The root complex's: a root port, with its number.
    RootPort(u8),
}

/// The capability of a function.
#[derive(Debug, Clone)]
pub(super) struct Express {
    /// Moment at which it begins.
    pub at: usize,
    pub port_type: PortType,
    /// True if the other end of its link is there.
    pub connected: bool,
}

/// Initial registers of a capability, and their writable bits.
pub(super) struct Capability {
    /// All behind the pointer to the next.
    pub registers: [u8; LENGTH - 2],
    /// 16-bit registers, by offset, and which of their bits a guest can write.
    pub writable: [(usize, u16); 5],
}

/// The capability of a function of that type at `link`.
pub(super) fn capability(port_type: PortType, link: Link) -> Capability {
    let mut all = [0; LENGTH];
    let mut put = |at: usize, value: u32| {
        all[at..at + 4].copy_from_slice(&value.to_le_bytes());
    };
    let two = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    let speed = u32::from(link.generation());
    let width = u32::from(link.lanes()) << 4;
    let (kind, device, up, status) = match port_type {
        PortType::Endpoint => (0, DEVICE | FUNCTION_LEVEL_RESET, 0, 0),
        PortType::RootPort(number) => {
            (4, DEVICE, ACTIVE_REPORTING | u32::from(number) << 24, LINK_ACTIVE)
        }
    };
    put(CAPABILITIES - 2, two(0, 2 | kind << 4));
    put(DEVICE_CAPABILITIES, device);
    put(DEVICE_CONTROL, u32::from(DEVICE_CONTROL_DEFAULT));
    put(LINK_CAPABILITIES, speed | width | ASPM_OPTIONAL | up);
    put(LINK_CONTROL, two(COMMON_CLOCK, (speed | width) as u16 | SLOT_CLOCK | status));
    if let PortType::RootPort(_) = port_type {
        put(SLOT_STATUS - 2, two(0, PRESENT));
    }
    put(DEVICE_CAPABILITIES_2, u32::from(TIMEOUT_DISABLE));
    // Bit n is the speed number n.
    put(LINK_CAPABILITIES_2, (2 << speed) - 2);
    // Link Status 2 is behind Link Control 2.
    put(LINK_CONTROL_2, two(speed as u16, if speed >= 3 { EQUALIZED } else { 0 }));
    let port = if port_type == PortType::Endpoint { 0 } else { u16::MAX };
    let endpoint = !port;
    Capability {
        registers: all[2..].try_into().expect("all but two bytes"),
        writable: [
            (DEVICE_CONTROL, DEVICE_CONTROL_MASK | endpoint & INITIATE_RESET),
            (LINK_CONTROL, LINK_CONTROL_MASK | port & (LINK_DISABLE | RETRAIN)),
            (ROOT_CONTROL, port & ROOT_CONTROL_MASK),
            (DEVICE_CONTROL_2, TIMEOUT_DISABLE),
            // The speed that is wanted; the link keeps what it has.
            (LINK_CONTROL_2, 0xf),
        ],
    }
}

impl Express {
    /// Completes a write: bits that start an action read as 0, and a port's status is that of its
    /// link. Returns whether the function is to be reset.
    pub(super) fn settle(&self, config: &mut [u8]) -> bool {
        let mut change = |offset: usize, change: &dyn Fn(u16) -> u16| {
            let at = self.at + offset;
            let before = register(config, at);
            config[at..at + 2].copy_from_slice(&change(before).to_le_bytes());
            before
        };
        match self.port_type {
            PortType::Endpoint => {
                let control = change(DEVICE_CONTROL, &|control| control & !INITIATE_RESET);
                control & INITIATE_RESET != 0
            }
            PortType::RootPort(_) => {
                let control = change(LINK_CONTROL, &|control| control & !RETRAIN);
                let up = control & LINK_DISABLE == 0 && self.connected;
                let up = if up { LINK_ACTIVE } else { 0 };
                change(LINK_STATUS, &|status| status & !LINK_ACTIVE | up);
                false
            }
        }
    }
}

/// A port's slot, in which a device comes and goes.
impl Express {
    /// Makes it the slot `number`, and returns which of its 16-bit registers a guest can write.
    pub(super) fn add_slot(&self, config: &mut [u8], number: u8) -> (usize, u16) {
        let flags = register(config, self.at + CAPABILITIES) | HAS_SLOT;
        config[self.at + CAPABILITIES..][..2].copy_from_slice(&flags.to_le_bytes());
        let slot = HOT_PLUG | u32::from(number) << 19;
        config[self.at + SLOT_CAPABILITIES..][..4].copy_from_slice(&slot.to_le_bytes());
        (self.at + SLOT_CONTROL, INTERRUPTS | PRESENCE_CHANGED | ON_LINK_CHANGED)
    }

    /// A guest's write of `data` at `offset`: of Slot Status a 1 clears a bit.
    pub(super) fn clear_events(&self, config: &mut [u8], offset: usize, data: &[u8]) {
        let status = self.at + SLOT_STATUS;
        let events = (PRESENCE_CHANGED | LINK_CHANGED).to_le_bytes();
        for (at, byte) in (offset..).zip(data) {
            if let Some(mask) = at.checked_sub(status).and_then(|at| events.get(at)) {
                config[at] &= !(byte & mask);
            }
        }
    }

    /// The device in the slot has come or gone.
    pub(super) fn change(&mut self, config: &mut [u8], connected: bool) {
        self.connected = connected;
        let at = self.at + SLOT_STATUS;
        let status = register(config, at) & !PRESENT | PRESENCE_CHANGED | LINK_CHANGED;
        let present = if connected { PRESENT } else { 0 };
        config[at..at + 2].copy_from_slice(&(status | present).to_le_bytes());
        self.settle(config);
    }

    /// Returns whether the slot asks for an interrupt.
    pub(super) fn interrupts(&self, config: &[u8]) -> bool {
        let status = register(config, self.at + SLOT_STATUS);
        let control = register(config, self.at + SLOT_CONTROL);
        let wanted = status & control & PRESENCE_CHANGED != 0
            || status & LINK_CHANGED != 0 && control & ON_LINK_CHANGED != 0;
        wanted && control & INTERRUPTS != 0
    }
}

fn register(config: &[u8], at: usize) -> u16 {
    u16_at(config, at).unwrap_or(0)
}
