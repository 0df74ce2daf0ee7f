//! Controller memory buffer: memory of the controller that the host sees in a base address register,
//! for its queues and data (NVM Express Base Specification 2.2, figures 47, 48, 52 and 53; NVMe 1.4
//! section 4.7).
//!
//! The carrier has the memory, in what it gives as [`crate::Memory`]: there it lies where the host sees
//! it. The controller knows it by the address that the host gives it, and by none before that.

use crate::narrow::dwords;
use crate::{Memory, OutOfMemoryRange};

/// Smallest size in bytes: Linux takes no part of a section of 2 MiB for its memory of devices.
const MIN_SIZE: u64 = 2 << 20;
/// Largest size in bytes: all base address registers lie below 4 GiB, in less than 1 GiB.
const MAX_SIZE: u64 = 64 << 20;
/// The sizes that a buffer can have, in words.
pub const SIZES: &str = "a power of two from 2MiB to 64MiB";
/// CMBLOC.BIR: the base address register that the buffer is in, whole.
const BIR: u32 = 2;
/// The same, for the carrier.
pub const BAR: usize = BIR as usize;

/// Controller Memory Buffer Location, 4 bytes.
pub const LOCATION: u64 = 0x38;
/// Controller Memory Buffer Size, 4 bytes.
pub const SIZE: u64 = 0x3c;
/// Controller Memory Buffer Memory Space Control, 8 bytes.
pub const CONTROL: u64 = 0x50;
/// Its upper half.
const CONTROL_UPPER: u64 = CONTROL + 4;
/// Controller Memory Buffer Status, 4 bytes.
pub const STATUS: u64 = 0x58;

/// CMBLOC: data may lie there and in the host's memory (CDPMLS), apart from its commands (CDPCILS), and
/// its metadata apart from it (CDMMMS). A queue lies there whole.
const ANYWHERE: u32 = 1 << 5 | 1 << 6 | 1 << 7;
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
    /// CMBMSC. Resets by CC.EN and of the function leave it as it is: Linux sets it once.
    control: u64,
    /// Address at which the carrier has put it.
    address: Option<u64>,
}

/// Returns whether a buffer can have `size` bytes.
pub fn can_have(size: u64) -> bool {
    (MIN_SIZE..=MAX_SIZE).contains(&size) && size.is_power_of_two()
}

/// Returns whether the 4-byte register at `offset` is a buffer's that the host can write.
pub(crate) fn owns(offset: u64) -> bool {
    matches!(offset, CONTROL | CONTROL_UPPER)
}

impl MemoryBuffer {
    /// The carrier has put it at `address`.
    pub fn place(&mut self, address: u64) {
        self.address = Some(address);
    }

    /// Resets the registers, as a reset of the bus does.
    pub fn reset(&mut self) {
        self.control = 0;
    }

    /// The 4-byte register at `offset`, if it is one of a buffer of `size` bytes.
    pub fn read(&self, offset: u64, size: u64) -> Option<u32> {
        let enabled = self.control & CAPABILITIES_ENABLED != 0;
        let capability = |value: u32| if enabled { value } else { 0 };
        Some(match offset {
            LOCATION => capability(BIR | ANYWHERE),
            SIZE => capability(ANYTHING | UNITS_OF_MIB | dwords(size >> 20)[0] << 12),
            CONTROL => dwords(self.control)[0],
            CONTROL_UPPER => dwords(self.control)[1],
            STATUS if self.is_enabled() && self.range(size).is_none() => BASE_ADDRESS_INVALID,
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

    /// Returns whether the controller is to know the buffer by an address.
    fn is_enabled(&self) -> bool {
        const BOTH: u64 = CAPABILITIES_ENABLED | SPACE_ENABLED;
        self.control & BOTH == BOTH
    }

    /// The address by which the controller is to know a buffer of `size` bytes, where it is valid.
    fn range(&self, size: u64) -> Option<u64> {
        let base = self.control & BASE_ADDRESS;
        base.checked_add(size - 1).map(|_| base)
    }

    /// `memory` as a controller with a buffer of `size` bytes sees it.
    pub fn seen<'m>(&self, size: Option<u64>, memory: &'m dyn Memory) -> Seen<'m> {
        match size.zip(self.address) {
            None => Seen::Plain(memory),
            Some((size, place)) => {
                let known = self.range(size).filter(|_| self.is_enabled());
                Seen::Buffer(View { memory, size, place, known })
            }
        }
    }
}

/// The host's memory as a controller sees it.
pub enum Seen<'m> {
    /// As it is.
    Plain(&'m dyn Memory),
    /// With the controller's own buffer.
    Buffer(View<'m>),
}

impl Seen<'_> {
    pub fn memory(&self) -> &dyn Memory {
        match self {
            Self::Plain(memory) => *memory,
            Self::Buffer(view) => view,
        }
    }
}

/// The host's memory, with a buffer that lies at `place` and is known by another address.
pub struct View<'m> {
    memory: &'m dyn Memory,
    size: u64,
    place: u64,
    /// The address by which the controller knows it.
    known: Option<u64>,
}

impl View<'_> {
    /// Returns the place of `length` bytes from `address` on: within the buffer, or wholly outside
    /// it.
    fn find(&self, address: u64, length: usize) -> Result<u64, OutOfMemoryRange> {
        let out = OutOfMemoryRange { address, length };
        let end = address.checked_add(length as u64).ok_or(out)?;
        let overlaps = |base: u64| address < base.saturating_add(self.size) && base < end;
        match self.known {
            Some(known) if overlaps(known) => {
                let offset = address.checked_sub(known).ok_or(out)?;
                match end - known <= self.size {
                    true => Ok(self.place + offset),
                    false => Err(out),
                }
            }
            // The host's address is no address of the controller's.
            _ if overlaps(self.place) => Err(out),
            _ => Ok(address),
        }
    }
}

impl Memory for View<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
        self.memory.read(self.find(address, into.len())?, into)
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
        self.memory.write(self.find(address, from.len())?, from)
    }

    fn load(&self, address: u64) -> Result<u16, OutOfMemoryRange> {
        self.memory.load(self.find(address, 2)?)
    }

    fn store(&self, address: u64, value: u16) -> Result<(), OutOfMemoryRange> {
        self.memory.store(self.find(address, 2)?, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_in_a_range() {
        for size in [MIN_SIZE, 4 << 20, MAX_SIZE] {
            assert!(can_have(size));
        }
        for size in [0, 1 << 20, 3 << 20, 2 * MAX_SIZE, u64::MAX] {
            assert!(!can_have(size));
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
        assert_eq!(read(&buffer, LOCATION), Some(0xe2));
        assert_eq!(read(&buffer, SIZE), Some(16 << 12 | 0x21f));
        // Linux writes the higher half first.
        for (high, low, invalid) in [
            (0, 0xc020_0003, 0),
            (1, 0xc030_0003, 0),
            (0xffff_ffff, 0xff00_0003, 0),
            (0xffff_ffff, 0xff00_1003, 1),
            (0xffff_ffff, 0xff00_1002, 0),
            (0xffff_ffff, 0xff00_1001, 0),
        ] {
            buffer.write(CONTROL + 4, high);
            buffer.write(CONTROL, low | 0xffc);
            assert_eq!(read(&buffer, STATUS), Some(invalid), "{high:#x} {low:#x}");
            assert_eq!(read(&buffer, CONTROL), Some(low));
            assert_eq!(read(&buffer, CONTROL + 4), Some(high));
        }
        buffer.reset();
        assert_eq!([LOCATION, SIZE, CONTROL, STATUS].map(|at| read(&buffer, at)), [Some(0); 4]);
    }

    /// Memory that tells the address of each read.
    struct Addresses;

    impl Memory for Addresses {
        fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfMemoryRange> {
            into.copy_from_slice(&address.to_le_bytes()[..into.len()]);
            Ok(())
        }

        fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfMemoryRange> {
            match from {
                [] => Ok(()),
                _ => Err(OutOfMemoryRange { address, length: from.len() }),
            }
        }
    }

    #[test]
    fn the_controller_knows_the_buffer_by_the_hosts_word() {
        const PLACE: u64 = 0xc020_0000;
        let mut buffer = MemoryBuffer::default();
        buffer.place(PLACE);
        let read = |buffer: &MemoryBuffer, address: u64| {
            let view = buffer.seen(Some(MIN_SIZE), &Addresses);
            let mut found = [0; 8];
            view.memory().read(address, &mut found).ok().map(|()| u64::from_le_bytes(found))
        };
        let last = MIN_SIZE - 8;
        // Not enabled: there is nothing at the host's address.
        let outside = |buffer: &MemoryBuffer, base: u64| {
            assert_eq!(read(buffer, base - 8), Some(base - 8));
            assert_eq!(read(buffer, base + MIN_SIZE), Some(base + MIN_SIZE));
            assert_eq!([base - 4, base + last + 4].map(|at| read(buffer, at)), [None; 2]);
        };
        outside(&buffer, PLACE);
        assert_eq!([PLACE, PLACE + last].map(|at| read(&buffer, at)), [None; 2]);
        // By the host's address, by another, and by one that overlaps the host's.
        for known in [PLACE, 0x5_0000_0000, PLACE + 0x1000, PLACE - 0x1000] {
            let [lower, upper] = dwords(known);
            buffer.write(CONTROL + 4, upper);
            buffer.write(CONTROL, lower | 3);
            assert_eq!(read(&buffer, known), Some(PLACE), "{known:#x}");
            assert_eq!(read(&buffer, known + last), Some(PLACE + last));
            assert_eq!([known - 4, known + last + 4].map(|at| read(&buffer, at)), [None; 2]);
        }
        // The end of the host's range lies behind that one.
        assert_eq!(read(&buffer, PLACE + last), None);
        assert_eq!(read(&buffer, PLACE + MIN_SIZE), Some(PLACE + MIN_SIZE));
        buffer.write(CONTROL + 4, 5);
        assert_eq!([PLACE, PLACE + last].map(|at| read(&buffer, at)), [None; 2]);
        assert_eq!(read(&buffer, u64::MAX - 3), None);
        // A drive without one has all of the host's memory.
        let mut found = [0; 8];
        MemoryBuffer::default()
            .seen(Some(MIN_SIZE), &Addresses)
            .memory()
            .read(7, &mut found)
            .unwrap();
        assert_eq!(u64::from_le_bytes(found), 7);
    }
}
