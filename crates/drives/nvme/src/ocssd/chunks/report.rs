//! The report of chunks that a host can read (OCSSD 2.0 section 3.2).

use stasis_nvme_layout::open_channel::ChunkDescriptor;
use stasis_nvme_layout::transmute;

use crate::command::location;
use crate::ocssd::kept::ChunkState;
use crate::status::{Failure, StatusCode};

use super::set::ChunkSet;

/// Size of a chunk descriptor in bytes.
pub const DESCRIPTOR: usize = size_of::<ChunkDescriptor>();

/// The bytes of the Chunk Information log from `offset` on.
pub fn chunk_information(set: &ChunkSet, offset: u64, length: usize) -> Result<Vec<u8>, Failure> {
    let end = set.chunks().len() * DESCRIPTOR;
    let offset = usize::try_from(offset).ok().filter(|&offset| offset <= end);
    let offset = offset.ok_or(StatusCode::InvalidField.at(location::CDW12))?;
    let (first, skipped) = (offset / DESCRIPTOR, offset % DESCRIPTOR);
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
    transmute!(ChunkDescriptor {
        cs: chunk.state as u8,
        ct: SEQUENTIAL,
        wli: set.wear(index),
        slba: set.start(index).into(),
        cnlb: u64::from(set.config.sectors).into(),
        wp: pointer.into(),
        ..Default::default()
    })
}
