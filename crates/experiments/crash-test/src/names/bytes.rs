//! Numbers of superblocks.

/// A little-endian number of a superblock.
pub fn little(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let part = bytes.get(at..at + length)?;
    Some(part.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// A big-endian number of a superblock.
pub fn big(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let part = bytes.get(at..at + length)?;
    Some(part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}
