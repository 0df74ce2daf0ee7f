//! Limits of a medium's size.

/// Smallest medium (bytes): less holds no partition table and file system.
pub const MIN_CAPACITY: u64 = 1 << 20;

/// A medium's capacity is a multiple of this (bytes): the smallest logical
/// block of NVMe (NVM Command Set 1.0, LBA data size of at least 9).
pub const SECTOR: u64 = 512;
