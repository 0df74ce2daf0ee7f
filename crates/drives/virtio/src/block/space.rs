//! The device's configuration space (virtio 1.2 section 5.2.4).

use crate::block::config::Config;
use crate::SECTOR;

/// Length in bytes, up to the fields of discard and write zeroes.
pub const LENGTH: usize = 60;
/// The one field that a driver writes.
pub const WRITEBACK: u64 = 32;

/// Limit on the ranges of a request to discard or to write zeroes.
pub const MAX_RANGES: usize = 256;
/// Limit on the sectors of a range to discard: 2 GiB.
pub const MAX_DISCARD: u32 = 1 << 22;
/// Limit on the sectors of a range to write zeroes to: 32 MiB, which NVMe's command of that name
/// can express too.
pub const MAX_ZEROES: u32 = 1 << 16;

/// Configuration space as a driver reads it.
pub fn contents(config: &Config, writeback: bool) -> [u8; LENGTH] {
    let mut space = [0; LENGTH];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    let block = config.block_size / SECTOR as u32;
    put(0, &(config.capacity / SECTOR).to_le_bytes());
    put(8, &config.max_segment_bytes.to_le_bytes());
    put(12, &u32::from(config.max_segments).to_le_bytes());
    // 16: geometry, not offered.
    put(20, &config.block_size.to_le_bytes());
    put(24, &[config.physical_block_exponent, 0]);
    put(26, &(1u16 << config.physical_block_exponent).to_le_bytes());
    put(32, &[u8::from(writeback)]);
    put(34, &config.queues.to_le_bytes());
    put(36, &MAX_DISCARD.to_le_bytes());
    put(40, &(MAX_RANGES as u32).to_le_bytes());
    put(44, &block.to_le_bytes());
    put(48, &MAX_ZEROES.to_le_bytes());
    put(52, &(MAX_RANGES as u32).to_le_bytes());
    put(56, &[u8::from(config.discard_zeroes)]);
    space
}
