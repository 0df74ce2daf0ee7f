//! Writing to the log, and reading its content.

use std::io;

use crate::host::HostFile;
use crate::index::{Extent, Source};
use crate::injected::{has, Bug};
use crate::record::{data_size, Kind, HEADER};
use crate::ring::Ring;
use crate::state::{State, SyncPoint};
use stasis_block::clock::Nanos;

/// New content of a range, for a record.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// These bytes, with their checksum.
    Data(&'a [u8], u32),
    /// This many zeroes.
    Zeroes(u64),
}

impl Change<'_> {
    /// Bytes of its record.
    pub fn size(&self) -> u64 {
        match self {
            Change::Data(data, _) => data_size(data.len() as u64),
            Change::Zeroes(_) => HEADER,
        }
    }
}

/// Appends a record; the caller has checked for room.
///
/// # Errors
/// The host's error; the log is then as it was.
pub fn append<F: HostFile>(
    state: &mut State,
    log: &F,
    offset: u64,
    change: Change<'_>,
    now: Nanos,
) -> io::Result<()> {
    let (record, data) = match change {
        Change::Data(data, sum) => (state.next(Kind::Data, offset, data.len() as u64, sum), data),
        Change::Zeroes(length) => (state.next(Kind::Zeroes, offset, length, 0), &[][..]),
    };
    Ring { file: log, size: state.superblock().ring }.write(&record, data)?;
    state.wrote(&record, now);
    Ok(())
}

/// Prepares a sync of the log: returns the part that it makes durable if it begins now.
///
/// # Errors
/// The host's error.
pub fn begin_sync<F: HostFile>(state: &mut State, log: &F, now: Nanos) -> io::Result<SyncPoint> {
    if let Some(seal) = state.seal() {
        Ring { file: log, size: state.superblock().ring }.write(&seal, &[])?;
        state.wrote(&seal, now);
    }
    if has(Bug::EarlyDurable) {
        state.synced(state.point());
    }
    Ok(state.point())
}

/// Reads the range from `offset` on, of which `extents` are not in the disk's
/// own file.
///
/// # Errors
/// The host's error.
pub fn read<L: HostFile, D: HostFile>(
    ring: &Ring<'_, L>,
    disk: &D,
    extents: &[Extent],
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut rest = buffer;
    let mut at = offset;
    for extent in extents {
        let (before, from) = rest.split_at_mut((extent.offset - at) as usize);
        let (piece, behind) = from.split_at_mut(extent.length as usize);
        if !before.is_empty() {
            disk.read(at, before)?;
        }
        match extent.source {
            Source::Log(address) => ring.read(address, piece)?,
            Source::Zeroes(_) => piece.fill(0),
        }
        (rest, at) = (behind, extent.offset + extent.length);
    }
    if rest.is_empty() {
        return Ok(());
    }
    disk.read(at, rest)
}
