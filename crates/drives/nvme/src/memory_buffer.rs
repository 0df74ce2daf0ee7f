//! Controller memory buffer: memory of the controller that the host sees in a base address register,
//! for its queues and data (NVMe 1.4 sections 3.1.11, 3.1.12, 3.1.16, 3.1.17 and 4.7).
//!
//! The carrier has the memory: it lies where [`crate::Memory`] finds it, at one address for the host
//! and for the controller.

use crate::config::ConfigError;

/// Smallest size in bytes: Linux takes no part of a section of 2 MiB for its memory of devices.
pub const MIN_SIZE: u64 = 2 << 20;
/// Largest size in bytes: all base address registers lie below 4 GiB, in less than 1 GiB.
pub const MAX_SIZE: u64 = 64 << 20;
/// The base address register that the buffer is in, whole.
pub const BAR: usize = 2;

/// Controller Memory Buffer Location, 4 bytes.
pub const LOCATION: u64 = 0x38;
/// Controller Memory Buffer Size, 4 bytes.
pub const SIZE: u64 = 0x3c;
/// Controller Memory Buffer Memory Space Control, 8 bytes.
pub const CONTROL: u64 = 0x50;
/// Controller Memory Buffer Status, 4 bytes.
pub const STATUS: u64 = 0x58;

/// CMBLOC: queues may lie there and in the host's memory (CQMMS), data as well (CDPMLS), data apart
/// from its commands (CDPCILS), and metadata apart from data (CDMMMS).
const ANYWHERE: u32 = 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7;
/// CMBSZ: submission queues, completion queues, PRP and SGL lists, data to read and to write.
const ANYTHING: u32 = 0x1f;
/// CMBSZ.SZU: the size is in MiB.
const UNITS_OF_MIB: u32 = 2 << 8;
/// CMBMSC.CRE: CMBLOC and CMBSZ can be read.
const CAPABILITIES_ENABLED: u64 = 1;
/// CMBMSC.CMSE: the controller knows the buffer by the address in CMBMSC.CBA.
const SPACE_ENABLED: u64 = 1 << 1;
/// CMBMSC.CBA: bits 12 and higher.
const BASE_ADDRESS: u64 = !0xfff;
/// CMBSTS.CBAI: the address in CMBMSC.CBA is invalid.
const BASE_ADDRESS_INVALID: u32 = 1;

/// The buffer of a controller, as its host has set it.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryBuffer {
    /// CMBMSC. A reset by CC.EN leaves it as it is: Linux sets it once.
    control: u64,
    /// Where the carrier has put it.
    address: Option<u64>,
}

/// Checks the size of a buffer in bytes.
pub(crate) fn check(size: u64) -> Result<(), ConfigError> {
    match (MIN_SIZE..=MAX_SIZE).contains(&size) && size.is_power_of_two() {
        true => Ok(()),
        false => Err(ConfigError::Number {
            field: "memory buffer",
            value: size,
            expected: "a power of two from 2 MiB to 64 MiB",
        }),
    }
}

/// Whether the 4-byte register at `offset` is a buffer's that the host can write.
pub(crate) fn owns(offset: u64) -> bool {
    offset == CONTROL || offset == CONTROL + 4
}

impl MemoryBuffer {
    /// The carrier has put it at `address`.
    pub fn place(&mut self, address: u64) {
        self.address = Some(address);
    }

    /// As after a reset of the function.
    pub fn reset(&mut self) {
        self.control = 0;
    }

    /// The 4-byte register at `offset`, if it is one of a buffer of `size` bytes.
    pub fn read(&self, offset: u64, size: u64) -> Option<u32> {
        let enabled = self.control & CAPABILITIES_ENABLED != 0;
        let capability = |value: u32| if enabled { value } else { 0 };
        const UPPER: u64 = CONTROL + 4;
        Some(match offset {
            LOCATION => capability(BAR as u32 | ANYWHERE),
            SIZE => capability(ANYTHING | UNITS_OF_MIB | ((size >> 20) as u32) << 12),
            CONTROL => self.control as u32,
            UPPER => (self.control >> 32) as u32,
            STATUS if self.has_wrong_address() => BASE_ADDRESS_INVALID,
            STATUS => 0,
            _ => return None,
        })
    }

    /// Writes the 4-byte register at `offset`, which is one of [`owns`].
    pub fn write(&mut self, offset: u64, value: u32) {
        const KEPT: u64 = BASE_ADDRESS | SPACE_ENABLED | CAPABILITIES_ENABLED;
        let shift = 8 * (offset - CONTROL);
        let (value, mask) = (u64::from(value) << shift, u64::from(u32::MAX) << shift);
        self.control = (self.control & !mask | value) & KEPT;
    }

    /// Whether the host has given an address that the buffer is not at.
    fn has_wrong_address(&self) -> bool {
        let given = self.control & BASE_ADDRESS;
        self.control & SPACE_ENABLED != 0 && self.address != Some(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_in_a_range() {
        for size in [MIN_SIZE, 4 << 20, MAX_SIZE] {
            assert_eq!(check(size), Ok(()));
        }
        for size in [0, 1 << 20, 3 << 20, 2 * MAX_SIZE, u64::MAX] {
            assert!(check(size).is_err());
        }
    }

    #[test]
    fn capabilities_are_read_once_enabled_and_a_wrong_address_is_told() {
        let mut buffer = MemoryBuffer::default();
        buffer.place(0xc020_0000);
        let read = |buffer: &MemoryBuffer, at| buffer.read(at, 16 << 20);
        assert_eq!([LOCATION, SIZE, STATUS].map(|at| read(&buffer, at)), [Some(0); 3]);
        assert_eq!(read(&buffer, 0x54 + 8), None);
        buffer.write(CONTROL, 1);
        assert_eq!(read(&buffer, LOCATION), Some(0xea));
        assert_eq!(read(&buffer, SIZE), Some(16 << 12 | 0x21f));
        assert_eq!(read(&buffer, STATUS), Some(0));
        // Linux writes the higher half first.
        for (low, invalid) in [(0xc020_0000, 0), (0xc030_0000, 1), (0xc020_0ffc, 0)] {
            buffer.write(CONTROL + 4, 0);
            buffer.write(CONTROL, low | 3);
            assert_eq!(read(&buffer, STATUS), Some(invalid), "{low:#x}");
        }
        assert_eq!(read(&buffer, CONTROL), Some(0xc020_0003));
        buffer.write(CONTROL + 4, 1);
        assert_eq!((read(&buffer, CONTROL + 4), read(&buffer, STATUS)), (Some(1), Some(1)));
        buffer.reset();
        assert_eq!([LOCATION, SIZE, CONTROL, STATUS].map(|at| read(&buffer, at)), [Some(0); 4]);
    }
}
