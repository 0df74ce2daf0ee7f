//! Data that lies in guest memory in pieces.

use super::{Memory, OutOfMemoryRange};

/// Address of data that is thrown away (an NVMe bit bucket): no piece of memory can begin there.
pub const NOWHERE: u64 = u64::MAX;

/// A contiguous piece of guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub length: usize,
}

/// Appends a piece, as part of the one before it where they touch.
pub fn append(segments: &mut Vec<Segment>, address: u64, length: usize) {
    match segments.last_mut() {
        Some(last) if last.address.checked_add(last.length as u64) == Some(address) => {
            last.length += length;
        }
        _ => segments.push(Segment { address, length }),
    }
}

/// Copies guest memory at `segments` to `data`, as far as both go.
///
/// # Errors
/// If a piece that is needed is not all guest memory.
pub fn gather<M: Memory + ?Sized>(
    memory: &M,
    segments: &[Segment],
    data: &mut [u8],
) -> Result<(), OutOfMemoryRange> {
    let mut rest = data;
    for segment in segments {
        let (part, after) = rest.split_at_mut(segment.length.min(rest.len()));
        memory.read(segment.address, part)?;
        rest = after;
    }
    Ok(())
}

/// Copies `data` to guest memory at `segments`, as far as both go; data for [`NOWHERE`] is left
/// out.
///
/// # Errors
/// If a piece that is needed is not all guest memory.
pub fn scatter<M: Memory + ?Sized>(
    memory: &M,
    segments: &[Segment],
    data: &[u8],
) -> Result<(), OutOfMemoryRange> {
    let mut rest = data;
    for segment in segments {
        let (part, after) = rest.split_at(segment.length.min(rest.len()));
        if segment.address != NOWHERE {
            memory.write(segment.address, part)?;
        }
        rest = after;
    }
    Ok(())
}
