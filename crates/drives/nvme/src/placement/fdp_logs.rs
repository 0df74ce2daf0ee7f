//! Log pages of endurance groups, and of Flexible Data Placement in them (NVMe TP4146; NVMe 1.4
//! section 5.14.1.9).

use crate::command::{location, SubmissionEntry};
use crate::condition::SPARE_THRESHOLD;
use crate::endurance::GroupState;
use crate::error_log::ErrorLog;
use crate::io::Io;
use crate::kept::{KeptFdp, KeptGroup};
use crate::log_page as page;
use crate::status::{Failure, StatusCode};

use super::events::EventLog;
use super::fdp::Fdp;
use super::state::PlacementState;

/// The endurance group of a log page: in Dword 11.
fn group_of<'a>(io: &'a Io, command: &SubmissionEntry) -> Result<&'a GroupState, Failure> {
    let group = io.endurance.group((command.cdw11 >> 16) as u16);
    group.ok_or(StatusCode::InvalidField.at(location::CDW11 + 2))
}

/// Returns the log page of Flexible Data Placement that `command` asks for, if it is one.
pub fn placement_page(io: &Io, command: &SubmissionEntry) -> Result<Vec<u8>, Failure> {
    let PlacementState::Fdp(groups) = &io.placement else {
        return Err(StatusCode::InvalidLogPage.at(location::CDW10));
    };
    let identifier = command.cdw10 as u8;
    let group = group_of(io, command)?;
    if identifier == page::FDP_CONFIGURATIONS {
        // A group that has none cannot be named: they are counted from one on.
        let fdp = groups.of(group.id);
        return fdp.map(configurations).ok_or(StatusCode::InvalidField.at(location::CDW11 + 2));
    }
    let fdp = groups.enabled(group.id)?;
    // Log Specific Field: bit 0 for the host's events. The controller does
    // nothing by itself that there is an event for.
    let host_events = command.cdw10 & 1 << 8 != 0;
    Ok(match identifier {
        page::FDP_HANDLE_USAGE => usage(fdp),
        page::FDP_STATISTICS => placement_statistics(group, fdp),
        _ if host_events => fdp.host_events.to_page(),
        _ => EventLog::default().to_page(),
    })
}

/// FDP Statistics: bytes that the host wrote and that the medium took.
fn placement_statistics(group: &GroupState, fdp: &Fdp) -> Vec<u8> {
    let mut log = vec![0; 64];
    log[0..8].copy_from_slice(&fdp.host_written.to_le_bytes());
    log[16..24].copy_from_slice(&media_written(group, fdp).to_le_bytes());
    log[32..40].copy_from_slice(&media_erased(group, fdp).to_le_bytes());
    log
}

/// Bytes written to the medium since the drive was made (MBMW). A drive that reports none has no
/// internal writes: the host's bytes count.
fn media_written(group: &GroupState, fdp: &Fdp) -> u64 {
    let since = fdp.host_written - fdp.before.host_written.min(fdp.host_written);
    fdp.before.media_written.saturating_add(group.condition.media_written().unwrap_or(since))
}

/// Bytes that the medium erased since the drive was made (MBE); of a drive with nothing inside
/// none.
fn media_erased(group: &GroupState, fdp: &Fdp) -> u64 {
    fdp.before.media_erased.saturating_add(group.condition.media_erased())
}

/// The state that Flexible Data Placement keeps, by endurance group.
pub fn kept_groups(io: &Io) -> Vec<KeptGroup> {
    let PlacementState::Fdp(groups) = &io.placement else { return Vec::new() };
    let kept = |(id, fdp): (u16, &Fdp)| -> Option<KeptGroup> {
        let group = io.endurance.group(id)?;
        let fdp: KeptFdp = fdp.kept(media_written(group, fdp), media_erased(group, fdp));
        let made = io.config.groups().into_iter().find(|made| made.id == id)?;
        Some(KeptGroup { id, placement: made.placement, fdp })
    };
    groups.iter().filter_map(kept).collect()
}

/// Endurance Group Information. `errors`: those of the command's controller.
pub fn endurance_page(
    io: &Io,
    errors: &ErrorLog,
    command: &SubmissionEntry,
) -> Result<Vec<u8>, Failure> {
    // Data is counted in thousands of millions of bytes, rounded up.
    const UNIT: u128 = 1_000_000_000;
    let group = group_of(io, command)?;
    let GroupState { id, condition, statistics } = group;
    let health = condition.health();
    let mut log = vec![0; 512];
    log[0] = io.endurance.warnings(*id);
    log[3] = health.available_spare;
    log[4] = SPARE_THRESHOLD;
    log[5] = health.percentage_used;
    let media = u128::from(health.media_bytes_written);
    let capacity = io.endurance.capacity(*id, io.namespaces.total_capacity());
    let allocated: u64 = {
        let nsids =
            io.namespaces.nsids().filter(|&nsid| io.namespaces.endurance_group(nsid) == *id);
        nsids.map(|nsid| io.namespaces.capacity(nsid)).sum()
    };
    // Errors that no namespace has are the drive's, and so of its only group.
    let errors = match io.config.endurance_groups.is_empty() {
        true => errors.count(),
        false => {
            let nsids = io.namespaces.nsids();
            let nsids = nsids.filter(|&nsid| io.namespaces.endurance_group(nsid) == *id);
            nsids.map(|nsid| errors.count_of(nsid)).sum()
        }
    };
    for (at, value) in [
        (48, statistics.bytes_read.div_ceil(UNIT)),
        (64, statistics.bytes_written.div_ceil(UNIT)),
        (80, media.div_ceil(UNIT)),
        (96, statistics.read_commands),
        (112, statistics.write_commands),
        (128, statistics.media_errors),
        (144, errors.into()),
        (160, capacity.into()),
        (176, capacity.saturating_sub(allocated).into()),
    ] {
        log[at..at + 16].copy_from_slice(&u128::to_le_bytes(value));
    }
    Ok(log)
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
