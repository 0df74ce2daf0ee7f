//! The times of the array: a table of 22 numbers of 64 bits, 176 bytes.
//!
//! | number | bytes | what |
//! | --- | --- | --- |
//! | 0 to 7 | 0 to 63 | read time (ns) of page types 0 to 7, in the order of their letters in the pattern |
//! | 8 to 15 | 64 to 127 | program time (ns) of page types 0 to 7 |
//! | 16 | 128 to 135 | erase time (ns) |
//! | 17 | 136 to 143 | bus speed (bytes per second; 0: unlimited) |
//! | 18 | 144 to 151 | command time on the bus (ns) |
//! | 19 | 152 to 159 | register copy (ns) |
//! | 20 | 160 to 167 | until a program or erase is suspended (ns) |
//! | 21 | 168 to 175 | until it is resumed (ns) |
//!
//! Opcode 0xC2, to the host, reads as much of the table as there is room for;
//! Dword 0 of its completion is 22. Opcode 0xC0, without data, sets number CDW12
//! to CDW13 (low half) and CDW14 (high half), for steps that begin later.

use stasis_block::clock::Nanos;
use stasis_block::{VendorCommand, VendorError};
use stasis_nand::{cells::MAX_TYPES, BusRate, Timing};

use super::{CDW12, CDW13, CDW14};
use crate::narrow::count;
use crate::Ssd;

/// Numbers in the table.
const NUMBERS: usize = 2 * MAX_TYPES + 6;
/// The longest time that can be set (ns): an hour. Sums of times must fit.
const MAX_TIME: u64 = 3_600_000_000_000;

fn table(timing: &Timing) -> [u64; NUMBERS] {
    let mut numbers = [0; NUMBERS];
    numbers[..MAX_TYPES].copy_from_slice(&timing.read);
    numbers[MAX_TYPES..2 * MAX_TYPES].copy_from_slice(&timing.program);
    numbers[2 * MAX_TYPES..].copy_from_slice(&[
        timing.erase,
        timing.bus.bytes_per_second().unwrap_or(0),
        timing.command,
        timing.register_copy,
        timing.suspend,
        timing.resume,
    ]);
    numbers
}

pub(super) fn get(
    ssd: &mut Ssd,
    _now: Nanos,
    command: &mut VendorCommand,
) -> Result<u32, VendorError> {
    command.data.fill(0);
    let numbers = table(ssd.context.array.timing());
    for (place, number) in command.data.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    Ok(count(NUMBERS))
}

pub(super) fn set(
    ssd: &mut Ssd,
    _now: Nanos,
    command: &mut VendorCommand,
) -> Result<u32, VendorError> {
    let value = u64::from(command.dwords[CDW14]) << 32 | u64::from(command.dwords[CDW13]);
    let number = command.dwords[CDW12] as usize;
    let mut timing = *ssd.context.array.timing();
    if number == 2 * MAX_TYPES + 1 {
        timing.bus = if value == 0 { BusRate::UNLIMITED } else { BusRate::per_second(value) };
    } else {
        let tail = |number: usize| number.checked_sub(2 * MAX_TYPES);
        let time = match (number, tail(number)) {
            (0..MAX_TYPES, _) => timing.read.get_mut(number),
            (_, None) => timing.program.get_mut(number - MAX_TYPES),
            (_, Some(0)) => Some(&mut timing.erase),
            (_, Some(2)) => Some(&mut timing.command),
            (_, Some(3)) => Some(&mut timing.register_copy),
            (_, Some(4)) => Some(&mut timing.suspend),
            (_, Some(5)) => Some(&mut timing.resume),
            _ => None,
        };
        if value > MAX_TIME {
            return Err(VendorError::Field);
        }
        *time.ok_or(VendorError::Field)? = value;
    }
    ssd.context.array.set_timing(timing);
    Ok(0)
}
