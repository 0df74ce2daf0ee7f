//! Log pages of endurance groups, and of Flexible Data Placement in them (NVMe TP4146; NVMe 1.4
//! section 5.14.1.9).

use stasis_nvme_layout::logs::EnduranceGroupLog;
use stasis_nvme_layout::placement::{
    FdpConfiguration, FdpConfigurationsHead, FdpStatistics, HandleUsage, HandleUsageHead,
    ReclaimUnitHandle,
};
use stasis_nvme_layout::IntoBytes;

use crate::command::{location, Dword, SubmissionEntry};
use crate::condition::SPARE_THRESHOLD;
use crate::config::MAX_NSID;
use crate::endurance::GroupState;
use crate::error_log::ErrorLog;
use crate::io::Io;
use crate::kept::{KeptFdp, KeptGroup};
use crate::log_page as page;
use crate::narrow::{bits, count16, count32};
use crate::status::{Failure, StatusCode};

use super::events::EventLog;
use super::fdp::Fdp;
use super::state::PlacementState;

/// The endurance group of a log page: in Dword 11.
fn group_of<'a>(io: &'a Io, command: &SubmissionEntry) -> Result<&'a GroupState, Failure> {
    let group = io.endurance.group(command.cdw11.high());
    group.ok_or(StatusCode::InvalidField.at(location::CDW11 + 2))
}

/// Returns the log page of Flexible Data Placement that `command` asks for, if it is one.
pub fn placement_page(io: &Io, command: &SubmissionEntry) -> Result<Vec<u8>, Failure> {
    let PlacementState::Fdp(groups) = &io.placement else {
        return Err(StatusCode::InvalidLogPage.at(location::CDW10));
    };
    let identifier = command.cdw10.byte(0);
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
        page::FDP_HANDLE_USAGE => usage(io, group.id, fdp),
        page::FDP_STATISTICS => placement_statistics(group, fdp),
        _ if host_events => fdp.host_events.to_page(),
        _ => EventLog::default().to_page(),
    })
}

/// FDP Statistics: bytes that the host wrote and that the medium took.
fn placement_statistics(group: &GroupState, fdp: &Fdp) -> Vec<u8> {
    let log = FdpStatistics {
        hbmw: u128::from(fdp.host_written).into(),
        mbmw: u128::from(media_written(group, fdp)).into(),
        mbe: u128::from(media_erased(group, fdp)).into(),
        ..Default::default()
    };
    log.as_bytes().to_vec()
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
    let log = EnduranceGroupLog {
        critical_warning: io.endurance.warnings(*id),
        available_spare: health.available_spare,
        available_spare_threshold: SPARE_THRESHOLD,
        percentage_used: health.percentage_used,
        data_units_read: statistics.bytes_read.div_ceil(UNIT).into(),
        data_units_written: statistics.bytes_written.div_ceil(UNIT).into(),
        media_units_written: media.div_ceil(UNIT).into(),
        host_read_commands: statistics.read_commands.into(),
        host_write_commands: statistics.write_commands.into(),
        media_errors: statistics.media_errors.into(),
        error_log_entries: u128::from(errors).into(),
        tegcap: u128::from(capacity).into(),
        uegcap: u128::from(capacity.saturating_sub(allocated)).into(),
        ..Default::default()
    };
    Ok(log.as_bytes().to_vec())
}

/// FDP Configurations: the only one.
fn configurations(fdp: &Fdp) -> Vec<u8> {
    const VALID: u8 = 1 << 7;
    /// Data placed apart may come together when the drive moves it.
    const INITIALLY_ISOLATED: u8 = 1;
    let handles = fdp.handles.len();
    let count = count16(handles);
    let handle = ReclaimUnitHandle { ruht: INITIALLY_ISOLATED, ..Default::default() };
    let length = size_of::<FdpConfiguration>() + handles * size_of_val(&handle);
    let size = size_of::<FdpConfigurationsHead>() + length;
    // One, of version 0.
    let head = FdpConfigurationsHead { size: count32(size).into(), ..Default::default() };
    let descriptor = FdpConfiguration {
        size: count16(length).into(),
        fdpa: VALID | bits(fdp.group_bits()),
        nrg: u32::from(fdp.groups).into(),
        nruh: count.into(),
        maxpids: (count - 1).into(),
        // Not limited here.
        nnss: MAX_NSID.into(),
        runs: fdp.unit.into(),
        ..Default::default()
    };
    [head.as_bytes(), descriptor.as_bytes(), &handle.as_bytes().repeat(handles)].concat()
}

/// Reclaim Unit Handle Usage: whether a namespace has the handle, and who has chosen it.
fn usage(io: &Io, group: u16, fdp: &Fdp) -> Vec<u8> {
    const HOST_SPECIFIED: u8 = 1;
    const CONTROLLER_SPECIFIED: u8 = 2;
    let mut attributes = vec![0; fdp.handles.len()];
    for nsid in io.namespaces.nsids_on_drive() {
        if io.namespaces.endurance_group(nsid) != group {
            continue;
        }
        match io.namespaces.handles(nsid) {
            [] => attributes.fill(HOST_SPECIFIED),
            [handle]
                if io.namespaces.creation(nsid).is_some_and(|made| made.handles.is_empty()) =>
            {
                let attribute = &mut attributes[usize::from(*handle)];
                *attribute = if *attribute == 0 { CONTROLLER_SPECIFIED } else { *attribute };
            }
            handles => {
                handles.iter().for_each(|&handle| attributes[usize::from(handle)] = HOST_SPECIFIED);
            }
        }
    }
    let nruh = count16(fdp.handles.len()).into();
    let head = HandleUsageHead { nruh, ..Default::default() };
    let mut log = head.as_bytes().to_vec();
    for ruha in attributes {
        log.extend(HandleUsage { ruha, ..Default::default() }.as_bytes());
    }
    log
}
