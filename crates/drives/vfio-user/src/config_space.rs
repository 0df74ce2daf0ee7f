//! The configuration space of the PCI function.

use stasis_block::Link;

use crate::layout::{BAR0_SIZE, PENDING, TABLE};

/// Bytes of the space: that of conventional PCI, without extended capabilities.
pub const SIZE: usize = 256;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const BAR: usize = 0x10;
const SUBSYSTEM: usize = 0x2c;
const CAPABILITIES: usize = 0x34;
const LINE: usize = 0x3c;
const MSIX: usize = 0x40;
const POWER: usize = 0x50;
const EXPRESS: usize = 0x58;

/// Command register: memory accesses, bus master and INTx disable are the guest's to set (PCI
/// Express Base Specification 6.0, 7.5.1.1.3).
const COMMAND_BITS: u16 = 1 << 1 | BUS_MASTER | 1 << 10;
const BUS_MASTER: u16 = 1 << 2;
/// Status register: there is a list of capabilities.
const HAS_CAPABILITIES: u8 = 1 << 4;
/// The MSI-X capability's number, and the writable bits of its control: enable, mask all
/// (7.7.2).
const MSIX_NUMBER: u8 = 0x11;
const MSIX_BITS: u8 = 0xc0;
/// The power management capability (PCI Bus Power Management Interface Specification 1.2, 3.2): its
/// number, version 3 with the states D0 and D3 and no events, and going back to D0 keeps all.
const POWER_CAPABILITY: [u8; 8] = [0x01, EXPRESS as u8, 3, 0, 1 << 3, 0, 0, 0];
/// Power state, in its control and status register.
const POWER_STATE: u8 = 3;

/// The PCI Express capability of an endpoint (PCI Express Base Specification 6.0, 7.5.3), as of the
/// drives of virtual machines.
mod express {
    pub const NUMBER: u8 = 0x10;
    /// PCI Express Capabilities: version 2, an endpoint.
    pub const CAPABILITIES: usize = 0x02;
    pub const VERSION: u8 = 2;
    /// Device Capabilities: payloads of 256 bytes, errors reported by role, Function Level Reset.
    pub const DEVICE_CAPABILITIES: usize = 0x04;
    pub const DEVICE: u32 = 1 | 1 << 15 | 1 << 28;
    /// Device Control: after a reset relaxed ordering, no snoop, reads of 512 bytes.
    pub const DEVICE_CONTROL: usize = 0x08;
    pub const DEVICE_CONTROL_DEFAULT: u16 = 1 << 4 | 1 << 11 | 2 << 12;
    pub const DEVICE_CONTROL_MASK: u16 = 0x78ff;
    /// Device Control: initiate a Function Level Reset; reads as 0.
    pub const INITIATE_RESET: u8 = 1 << 7;
    /// Link Capabilities: no power state of the link is needed.
    pub const LINK_CAPABILITIES: usize = 0x0c;
    pub const ASPM_OPTIONAL: u32 = 1 << 22;
    /// Link Control: one clock; the guest's are the completion boundary, the clock, extended synch.
    pub const LINK_CONTROL: usize = 0x10;
    pub const COMMON_CLOCK: u16 = 1 << 6;
    pub const LINK_CONTROL_MASK: u16 = 1 << 3 | 1 << 6 | 1 << 7;
    /// Link Status: uses the clock of its connector.
    pub const LINK_STATUS: usize = 0x12;
    pub const SLOT_CLOCK: u16 = 1 << 12;
    /// Device Capabilities 2 and Control 2: completion timeouts can be turned off.
    pub const DEVICE_CAPABILITIES_2: usize = 0x24;
    pub const DEVICE_CONTROL_2: usize = 0x28;
    pub const TIMEOUT_DISABLE: u16 = 1 << 4;
    pub const LINK_CAPABILITIES_2: usize = 0x2c;
    pub const LINK_CONTROL_2: usize = 0x30;
    /// Link Status 2: equalization is complete.
    pub const LINK_STATUS_2: usize = 0x32;
    pub const EQUALIZED: u16 = 0xf << 1;
}

/// Mass storage, non-volatile memory, NVM Express I/O controller (PCI Code and ID Assignment
/// Specification 1.11, 1.9).
const CLASS: [u8; 3] = [0x02, 0x08, 0x01];
/// The device's number: that of the NVMe drives of virtual machines.
const DEVICE: u16 = 2;

/// The space, and the bits of it that a guest changes.
#[derive(Debug)]
pub struct ConfigSpace {
    first: [u8; SIZE],
    bytes: [u8; SIZE],
    writable: [u8; SIZE],
}

impl ConfigSpace {
    /// Makes the space of a function with `vectors` MSI-X vectors, at least one.
    pub fn new(vectors: u16) -> Self {
        let (mut bytes, mut writable) = ([0; SIZE], [0; SIZE]);
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &stasis_nvme::VENDOR_ID.to_le_bytes());
        put(2, &DEVICE.to_le_bytes());
        put(STATUS, &[HAS_CAPABILITIES]);
        put(8, &[1]);
        put(9, &CLASS);
        // A memory BAR of 64 bits.
        put(BAR, &[4]);
        put(SUBSYSTEM, &stasis_nvme::VENDOR_ID.to_le_bytes());
        put(SUBSYSTEM + 2, &DEVICE.to_le_bytes());
        put(CAPABILITIES, &[MSIX as u8]);
        put(MSIX, &[MSIX_NUMBER, POWER as u8]);
        put(MSIX + 2, &(vectors.max(1) - 1).to_le_bytes());
        // In BAR 0, which is the number in the low bits.
        put(MSIX + 4, &(TABLE as u32).to_le_bytes());
        put(MSIX + 8, &(PENDING as u32).to_le_bytes());
        put(POWER, &POWER_CAPABILITY);
        put_express(&mut put, Link::default());
        let mut allow =
            |at: usize, mask: &[u8]| writable[at..at + mask.len()].copy_from_slice(mask);
        allow(COMMAND, &COMMAND_BITS.to_le_bytes());
        allow(BAR, &(!(BAR0_SIZE - 1)).to_le_bytes());
        allow(LINE, &[0xff]);
        allow(MSIX + 3, &[MSIX_BITS]);
        allow(POWER + 4, &[POWER_STATE]);
        for (register, bits) in [
            (express::DEVICE_CONTROL, express::DEVICE_CONTROL_MASK),
            (express::LINK_CONTROL, express::LINK_CONTROL_MASK),
            (express::DEVICE_CONTROL_2, express::TIMEOUT_DISABLE),
            // The speed that is wanted; the link keeps what it has.
            (express::LINK_CONTROL_2, 0xf),
        ] {
            allow(EXPRESS + register, &bits.to_le_bytes());
        }
        Self { first: bytes, bytes, writable }
    }

    /// Restores the state after power-on.
    pub fn reset(&mut self) {
        self.bytes = self.first;
    }

    /// Returns whether the function may reach memory.
    pub fn is_bus_master(&self) -> bool {
        self.bytes[COMMAND] & BUS_MASTER as u8 != 0
    }

    /// Reads from `at` on; the caller has checked the range.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        for (byte, from) in into.iter_mut().zip(self.bytes.iter().skip(at)) {
            *byte = *from;
        }
    }

    /// Writes the bits that are the guest's. Returns whether it asks for a reset of the function, which
    /// the caller is to carry out.
    pub fn write(&mut self, at: usize, from: &[u8]) -> bool {
        // The bit lies in the register's upper byte, and is kept by none.
        let place = (EXPRESS + express::DEVICE_CONTROL + 1).checked_sub(at);
        let resets = place.and_then(|place| from.get(place));
        let places = self.bytes.iter_mut().zip(&self.writable).skip(at);
        for ((byte, mask), from) in places.zip(from) {
            *byte = *byte & !mask | from & mask;
        }
        resets.is_some_and(|byte| byte & express::INITIATE_RESET != 0)
    }
}

/// Puts the PCI Express capability of a function at `link`, the last one.
fn put_express(put: &mut impl FnMut(usize, &[u8]), link: Link) {
    let mut put = |at: usize, field: &[u8]| put(EXPRESS + at, field);
    let speed = u16::from(link.generation());
    let at_link = speed | u16::from(link.lanes()) << 4;
    put(0, &[express::NUMBER, 0]);
    put(express::CAPABILITIES, &[express::VERSION]);
    put(express::DEVICE_CAPABILITIES, &express::DEVICE.to_le_bytes());
    put(express::DEVICE_CONTROL, &express::DEVICE_CONTROL_DEFAULT.to_le_bytes());
    let capabilities = u32::from(at_link) | express::ASPM_OPTIONAL;
    put(express::LINK_CAPABILITIES, &capabilities.to_le_bytes());
    put(express::LINK_CONTROL, &express::COMMON_CLOCK.to_le_bytes());
    put(express::LINK_STATUS, &(at_link | express::SLOT_CLOCK).to_le_bytes());
    put(express::DEVICE_CAPABILITIES_2, &u32::from(express::TIMEOUT_DISABLE).to_le_bytes());
    // Bit n is the speed number n.
    put(express::LINK_CAPABILITIES_2, &((2u32 << speed) - 2).to_le_bytes());
    put(express::LINK_CONTROL_2, &speed.to_le_bytes());
    let equalized = if speed >= 3 { express::EQUALIZED } else { 0 };
    put(express::LINK_STATUS_2, &equalized.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_finds_power_management_and_pci_express() {
        let mut space = ConfigSpace::new(3);
        let byte = |space: &ConfigSpace, at: usize| {
            let mut byte = [0];
            space.read(at, &mut byte);
            byte[0]
        };
        let mut at = byte(&space, CAPABILITIES);
        let mut found = Vec::new();
        while at != 0 {
            found.push((byte(&space, at.into()), at));
            at = byte(&space, usize::from(at) + 1);
        }
        assert_eq!(found, [(MSIX_NUMBER, 0x40), (1, 0x50), (0x10, 0x58)]);
        // PCIe 3.0 x4, as of a drive of a virtual machine.
        assert_eq!((byte(&space, 0x6a), byte(&space, 0x5a)), (0x43, 2));
        // To D3 and back, and nothing else of that register.
        space.write(0x54, &[0xff]);
        assert_eq!(byte(&space, 0x54), 0x0b);
        space.write(0x54, &[0]);
        assert_eq!(byte(&space, 0x54), 0x08);
        assert!(!space.write(0x60, &[0xff, 0x7f]) && space.write(0x60, &[0, 0x80]));
        assert!(space.write(0x61, &[0x80]) && !space.write(0x62, &[0x80]));
        assert_eq!(byte(&space, 0x61) & 0x80, 0, "the bit reads as 0");
    }

    #[test]
    fn a_guest_finds_the_size_of_its_bar_and_msix() {
        let mut space = ConfigSpace::new(17);
        space.write(BAR, &[0xff; 8]);
        let mut bar = [0; 8];
        space.read(BAR, &mut bar);
        assert_eq!(u64::from_le_bytes(bar), !(BAR0_SIZE - 1) | 4);
        let mut control = [0; 2];
        space.write(MSIX + 2, &[0xff, 0xff]);
        space.read(MSIX + 2, &mut control);
        assert_eq!(u16::from_le_bytes(control), 0xc010);
        assert!(!space.is_bus_master());
        space.write(COMMAND, &[6, 0]);
        assert!(space.is_bus_master());
        space.write(0, &[0xff; 4]);
        let mut vendor = [0; 2];
        space.read(0, &mut vendor);
        assert_eq!(u16::from_le_bytes(vendor), stasis_nvme::VENDOR_ID);
        space.reset();
        assert!(!space.is_bus_master());
    }
}
