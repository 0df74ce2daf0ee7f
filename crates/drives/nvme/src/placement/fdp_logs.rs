//! Log pages of Flexible Data Placement and of its endurance group (NVMe
//! TP4146; NVMe 1.4 section 5.14.1.9).

use crate::command::{location, SubmissionEntry};
use crate::condition::SPARE_THRESHOLD;
use crate::controller_id::ControllerId;
use crate::io::Io;
use crate::kept::KeptFdp;
use crate::log_page as page;
use crate::status::{Failure, StatusCode};

use super::events::EventLog;
use super::fdp::{Fdp, ENDURANCE_GROUP};
use super::state::PlacementState;

/// The log page that `command` asks for, if it is one of these; the
/// endurance group is in Dword 11.
pub fn placement_page(io: &Io, errors: u64, command: &SubmissionEntry) -> Result<Vec<u8>, Failure> {
    let PlacementState::Fdp(fdp) = &io.placement else {
        return Err(StatusCode::InvalidLogPage.at(location::CDW10));
    };
    let identifier = command.cdw10 as u8;
    if command.cdw11 >> 16 != u32::from(ENDURANCE_GROUP) {
        return Err(StatusCode::InvalidField.at(location::CDW11 + 2));
    }
    // Log Specific Field: bit 0 for the host's events. The controller does
    // nothing by itself that there is an event for.
    let host_events = command.cdw10 & 1 << 8 != 0;
    Ok(match identifier {
        page::ENDURANCE_GROUP => endurance_page(io, command.controller, errors),
        page::FDP_CONFIGURATIONS => configurations(fdp),
        page::FDP_HANDLE_USAGE => usage(fdp),
        page::FDP_STATISTICS => placement_statistics(io, fdp),
        _ if host_events => fdp.host_events.to_page(),
        _ => EventLog::default().to_page(),
    })
}

/// FDP Statistics: bytes that the host wrote and that the medium took.
fn placement_statistics(io: &Io, fdp: &Fdp) -> Vec<u8> {
    let mut log = vec![0; 64];
    log[0..8].copy_from_slice(&fdp.host_written.to_le_bytes());
    log[16..24].copy_from_slice(&media_written(io, fdp).to_le_bytes());
    log[32..40].copy_from_slice(&media_erased(io, fdp).to_le_bytes());
    log
}

/// Bytes written to the medium since the drive was made (MBMW). A drive that reports none has no
/// internal writes: the host's bytes count.
fn media_written(io: &Io, fdp: &Fdp) -> u64 {
    let since = fdp.host_written - fdp.before.host_written.min(fdp.host_written);
    fdp.before.media_written.saturating_add(io.condition.media_written().unwrap_or(since))
}

/// Bytes that the medium erased since the drive was made (MBE); of a drive with nothing inside
/// none.
fn media_erased(io: &Io, fdp: &Fdp) -> u64 {
    fdp.before.media_erased.saturating_add(io.condition.media_erased())
}

/// The state that Flexible Data Placement keeps; `None` for a drive without it.
pub fn kept_fdp(io: &Io) -> Option<KeptFdp> {
    let PlacementState::Fdp(fdp) = &io.placement else { return None };
    Some(fdp.kept(media_written(io, fdp), media_erased(io, fdp)))
}

/// Critical warnings of the endurance group: spare capacity and read-only media of those that
/// hold; none without a group.
pub fn endurance_group_warnings(io: &Io, controller: ControllerId) -> u8 {
    match io.placement {
        PlacementState::Fdp(_) => io.features(controller).critical_warning(&io.condition) & 0b1101,
        _ => 0,
    }
}

/// Endurance Group Information.
fn endurance_page(io: &Io, controller: ControllerId, errors: u64) -> Vec<u8> {
    // Data is counted in thousands of millions of bytes, rounded up.
    const UNIT: u128 = 1_000_000_000;
    let mut log = vec![0; 512];
    log[0] = endurance_group_warnings(io, controller);
    log[3] = io.condition.health().available_spare;
    log[4] = SPARE_THRESHOLD;
    log[5] = io.condition.health().percentage_used;
    let health = io.condition.health();
    let media = u128::from(health.media_bytes_written);
    let capacity: u64 = io.namespaces.total_capacity();
    for (at, value) in [
        (48, io.statistics.bytes_read.div_ceil(UNIT)),
        (64, io.statistics.bytes_written.div_ceil(UNIT)),
        (80, media.div_ceil(UNIT)),
        (96, io.statistics.read_commands),
        (112, io.statistics.write_commands),
        (128, io.statistics.media_errors),
        (144, errors.into()),
        (160, capacity.into()),
    ] {
        log[at..at + 16].copy_from_slice(&u128::to_le_bytes(value));
    }
    log
}

/// FDP Configurations: the only one.
fn configurations(fdp: &Fdp) -> Vec<u8> {
    const HEADER: usize = 16;
    const DESCRIPTOR: usize = 64;
    const HANDLE: usize = 4;
    const VALID: u8 = 1 << 7;
    /// Data placed apart may come together when the drive moves it.
    const INITIALLY_ISOLATED: u8 = 1;
    let handles = fdp.handles.len();
    let length = DESCRIPTOR + handles * HANDLE;
    let mut log = vec![0; HEADER + length];
    let size = log.len() as u32;
    // Number of configurations is 0's based; version 0.
    log[4..8].copy_from_slice(&size.to_le_bytes());
    let descriptor = &mut log[HEADER..];
    descriptor[0..2].copy_from_slice(&(length as u16).to_le_bytes());
    descriptor[2] = VALID | fdp.group_bits() as u8;
    descriptor[4..8].copy_from_slice(&u32::from(fdp.groups).to_le_bytes());
    descriptor[8..10].copy_from_slice(&(handles as u16).to_le_bytes());
    // Maximum placement identifiers, 0's based.
    descriptor[10..12].copy_from_slice(&(handles as u16 - 1).to_le_bytes());
    // Number of namespaces supported, not limited here; nominal unit size.
    descriptor[12..16].copy_from_slice(&128u32.to_le_bytes());
    descriptor[16..24].copy_from_slice(&fdp.unit.to_le_bytes());
    for handle in descriptor[DESCRIPTOR..].chunks_exact_mut(HANDLE) {
        handle[0] = INITIALLY_ISOLATED;
    }
    log
}

/// Reclaim Unit Handle Usage.
fn usage(fdp: &Fdp) -> Vec<u8> {
    const HEADER: usize = 8;
    const DESCRIPTOR: usize = 8;
    const HOST_SPECIFIED: u8 = 1;
    let mut log = vec![0; HEADER + fdp.handles.len() * DESCRIPTOR];
    log[0..2].copy_from_slice(&(fdp.handles.len() as u16).to_le_bytes());
    for (raw, handle) in log[HEADER..].chunks_exact_mut(DESCRIPTOR).zip(&fdp.handles) {
        raw[0] = if handle.used { HOST_SPECIFIED } else { 0 };
    }
    log
}
