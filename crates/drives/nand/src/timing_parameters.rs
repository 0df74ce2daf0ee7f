//! The times that an array is given; the time of one operation is in `operation_latency.rs`.

use stasis_block::clock::{Nanos, MICROSECOND};

use crate::cells::{PageType, MAX_TYPES};

/// ns per second.
const NS_PER_S: u128 = 1_000_000_000;
/// Binary places of ns that times per byte are kept with.
const PLACES: u32 = 32;

/// A channel's speed, kept as the time per byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusRate {
    bytes_per_second: Option<u64>,
    // In 2^-32 ns per byte.
    per_byte: u64,
}

impl BusRate {
    /// A bus on which data takes no time, and never waits.
    pub const UNLIMITED: Self = Self { bytes_per_second: None, per_byte: 0 };

    /// `bytes` per second, at least 1.
    pub const fn per_second(bytes: u64) -> Self {
        let bytes = if bytes == 0 { 1 } else { bytes };
        // Rounded to the nearest: exact at rates that divide 10^9.
        let scaled = ((NS_PER_S << PLACES) + bytes as u128 / 2) / bytes as u128;
        let per_byte = if scaled > u64::MAX as u128 { u64::MAX } else { scaled as u64 };
        Self { bytes_per_second: Some(bytes), per_byte }
    }

    /// In bytes per second; `None` if unlimited.
    pub fn bytes_per_second(self) -> Option<u64> {
        self.bytes_per_second
    }

    /// The time (ns) that `bytes` take, rounded to the nearest.
    pub fn time(self, bytes: u32) -> Nanos {
        self.time_long(u64::from(bytes))
    }

    /// Like [`Self::time`], but for more bytes than a page has.
    pub fn time_long(self, bytes: u64) -> Nanos {
        let scaled = u128::from(self.per_byte) * u128::from(bytes) + (1 << (PLACES - 1));
        u64::try_from(scaled >> PLACES).unwrap_or(u64::MAX)
    }
}

/// The times of an array. A step that takes no time does not wait either: with
/// `command` = 0 an operation goes to its plane without the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Cells to register (tR), by page type (ns).
    pub read: [Nanos; MAX_TYPES],
    /// Register to cells (tPROG), by page type (ns).
    pub program: [Nanos; MAX_TYPES],
    /// Erasing a block (tBERS, ns).
    pub erase: Nanos,
    /// The channel's speed for data.
    pub bus: BusRate,
    /// The time of a command and its address on the channel (ns).
    pub command: Nanos,
    /// From data to cache register or back (ns).
    pub register_copy: Nanos,
    /// Time to suspend a program or erase for a read (ns).
    pub suspend: Nanos,
    /// Time to resume the program or erase (ns).
    pub resume: Nanos,
}

impl Timing {
    /// Returns parameters with the same times for every page, and no time for anything else.
    pub fn uniform(read: Nanos, program: Nanos, erase: Nanos, bus: BusRate) -> Self {
        Self {
            read: [read; MAX_TYPES],
            program: [program; MAX_TYPES],
            erase,
            bus,
            command: 0,
            register_copy: 0,
            suspend: 0,
            resume: 0,
        }
    }

    /// The times of cells named in [`crate::cells::PRESETS`], behind a
    /// bus of 400 MB/s (ONFI 3.0, NV-DDR2).
    ///
    /// SLC: Agrawal et al., USENIX ATC 2008, table 1. MLC: FEMU, FAST 2018,
    /// section 3.2.3, with an erase time of usual size, which it does not give.
    /// TLC and QLC: round values of the size that vendors state, no one part's.
    pub fn preset(name: &str) -> Option<Self> {
        let us = |times: [Nanos; 4]| {
            std::array::from_fn(|index| times.get(index).map_or(0, |time| time * MICROSECOND))
        };
        let (read, program, erase) = match name {
            "slc" => ([25; 4], [200; 4], 1_500),
            "mlc" => ([48, 64, 64, 64], [900, 2_400, 2_400, 2_400], 3_000),
            "tlc" => ([50, 65, 80, 80], [500, 800, 1_100, 1_100], 5_000),
            "qlc" => ([80, 110, 140, 170], [1_500, 2_000, 2_500, 3_000], 10_000),
            _ => return None,
        };
        let bus = BusRate::per_second(400_000_000);
        let uniform = Self::uniform(0, 0, erase * MICROSECOND, bus);
        Some(Self { read: us(read), program: us(program), ..uniform })
    }

    /// Sets the times of one page type.
    pub fn set(&mut self, page_type: PageType, read: Nanos, program: Nanos) {
        let index = usize::from(page_type.0);
        if index < MAX_TYPES {
            (self.read[index], self.program[index]) = (read, program);
        }
    }

    /// The read time of a page type (ns).
    pub fn read(&self, page_type: PageType) -> Nanos {
        self.read[usize::from(page_type.0) % MAX_TYPES]
    }

    /// The program time of a page type (ns).
    pub fn program(&self, page_type: PageType) -> Nanos {
        self.program[usize::from(page_type.0) % MAX_TYPES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_right_to_the_nanosecond() {
        for rate in [1u64, 3, 40_000_000, 166_000_000, 333_333_333, 400_000_000, 1 << 40] {
            for bytes in [0u32, 1, 512, 4096, 16_384, 1 << 20] {
                let exact = f64::from(bytes) * 1e9 / rate as f64;
                let time = BusRate::per_second(rate).time(bytes);
                assert!((time as f64 - exact).abs() <= 0.501, "{bytes} at {rate}: {time}");
            }
        }
        assert_eq!(BusRate::per_second(400_000_000).time(4096), 10_240);
        assert_eq!(BusRate::UNLIMITED.time(u32::MAX), 0);
        assert_eq!(BusRate::per_second(0), BusRate::per_second(1));
    }

    #[test]
    fn presets_have_the_publications_times() {
        let mlc = Timing::preset("mlc").unwrap();
        assert_eq!((mlc.read(PageType(0)), mlc.read(PageType(1))), (48_000, 64_000));
        assert_eq!((mlc.program(PageType(0)), mlc.program(PageType(1))), (900_000, 2_400_000));
        for (name, _) in crate::cells::PRESETS {
            assert!(Timing::preset(name).is_some(), "{name}");
        }
        assert_eq!(Timing::preset("plc"), None);
    }
}
