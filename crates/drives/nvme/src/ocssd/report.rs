//! The report of chunks that a host can read (OCSSD 2.0 section 3.2).

use crate::command::location;
use crate::status::{Failure, StatusCode};

use super::set::{ChunkSet, ChunkState};

/// Size of a chunk descriptor in bytes.
pub const DESCRIPTOR: usize = 32;

/// The bytes of the Chunk Information log from `offset` on.
pub fn chunk_information(set: &ChunkSet, offset: u64, length: usize) -> Result<Vec<u8>, Failure> {
    let end = (set.chunks().len() * DESCRIPTOR) as u64;
    if offset > end {
        return Err(StatusCode::InvalidField.at(location::CDW12));
    }
    let first = (offset / DESCRIPTOR as u64) as usize;
    let skipped = (offset % DESCRIPTOR as u64) as usize;
    let count = (skipped + length).div_ceil(DESCRIPTOR);
    let last = set.chunks().len().min(first + count);
    let log: Vec<u8> = (first..last).flat_map(|index| descriptor(set, index)).collect();
    Ok(log[skipped.min(log.len())..].to_vec())
}

/// Chunk descriptor.
pub fn descriptor(set: &ChunkSet, index: usize) -> [u8; DESCRIPTOR] {
    // Chunk Type: to be written in order.
    const SEQUENTIAL: u8 = 1;
    let chunk = &set.chunks()[index];
    let pointer = match chunk.state {
        ChunkState::Offline => u64::MAX,
        _ => chunk.written.into(),
    };
    let mut raw = [0; DESCRIPTOR];
    raw[0] = chunk.state as u8;
    raw[1] = SEQUENTIAL;
    raw[2] = set.wear(index);
    raw[8..16].copy_from_slice(&set.start(index).to_le_bytes());
    raw[16..24].copy_from_slice(&u64::from(set.config.sectors).to_le_bytes());
    raw[24..32].copy_from_slice(&pointer.to_le_bytes());
    raw
}
