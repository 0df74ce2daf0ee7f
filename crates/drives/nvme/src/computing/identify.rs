//! The Identify data structure of the compute namespace (CP figure 36).

use crate::PAGE_SIZE;

use super::device::{MAX_PROGRAMS, MAX_PROGRAM_BYTES, MAX_RANGES, MAX_SETS};

/// By its byte offsets.
pub fn fill_compute_namespace(page: &mut [u8; PAGE_SIZE]) {
    /// A range begins and ends at dwords, as a power of two.
    const GRANULARITY: u16 = 2;
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    put(0, &MAX_PROGRAMS.to_le_bytes()); // active programs
    put(2, &MAX_SETS.to_le_bytes());
    put(4, &GRANULARITY.to_le_bytes());
    put(6, &[MAX_RANGES]);
    put(8, &(MAX_PROGRAM_BYTES >> 20).to_le_bytes());
    // Load Program takes any number of bytes: as a power of two, 0.
}
