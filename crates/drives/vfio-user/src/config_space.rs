//! The configuration space of the PCI function.

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
        put(MSIX, &[MSIX_NUMBER, 0]);
        put(MSIX + 2, &(vectors.max(1) - 1).to_le_bytes());
        // In BAR 0, which is the number in the low bits.
        put(MSIX + 4, &(TABLE as u32).to_le_bytes());
        put(MSIX + 8, &(PENDING as u32).to_le_bytes());
        let mut allow =
            |at: usize, mask: &[u8]| writable[at..at + mask.len()].copy_from_slice(mask);
        allow(COMMAND, &COMMAND_BITS.to_le_bytes());
        allow(BAR, &(!(BAR0_SIZE - 1)).to_le_bytes());
        allow(LINE, &[0xff]);
        allow(MSIX + 3, &[MSIX_BITS]);
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

    /// Writes the bits that are the guest's.
    pub fn write(&mut self, at: usize, from: &[u8]) {
        let places = self.bytes.iter_mut().zip(&self.writable).skip(at);
        for ((byte, mask), from) in places.zip(from) {
            *byte = *byte & !mask | from & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
