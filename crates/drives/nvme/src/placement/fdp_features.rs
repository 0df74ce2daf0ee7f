//! Features of Flexible Data Placement (NVMe TP4146).

use crate::command::{location, Dword, SubmissionEntry};
use crate::io::Io;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::events::{bit, EVENT_TYPES};
use super::state::PlacementState;

/// Feature identifiers.
pub mod feature {
    /// Flexible Data Placement, of an endurance group.
    pub const PLACEMENT: u8 = 0x1d;
    /// FDP Events, of a namespace.
    pub const EVENTS: u8 = 0x1e;
}

/// The subject of a placement feature.
enum Of {
    /// An endurance group.
    Group(u16),
    /// A reclaim unit handle of a group.
    Handle(u16, usize),
}

/// Get Features of a placement feature; `defaults` instead of the current values.
pub fn get_placement_feature(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    defaults: bool,
) -> Result<Outcome, Failure> {
    let (group, handle) = match subject(io, command)? {
        // Enabled at first, by the configuration of index 0, where the group has it.
        Of::Group(group) => {
            let PlacementState::Fdp(groups) = &io.placement else { return Ok(Outcome::Done(0)) };
            let enabled = groups.of(group).is_some_and(|fdp| defaults || fdp.is_enabled());
            return Ok(Outcome::Done(enabled.into()));
        }
        Of::Handle(group, handle) => (group, handle),
    };
    let PlacementState::Fdp(groups) = &io.placement else { return Ok(Outcome::Done(0)) };
    let enabled = if defaults { 0 } else { groups.enabled(group)?.handles[handle].events };
    // As many descriptors as the host has room for.
    let room = (command.cdw11 >> 16 & 0xff) as usize;
    let descriptors: Vec<u8> = EVENT_TYPES
        .iter()
        .take(room)
        .flat_map(|&kind| [kind, u8::from(bit(kind).is_some_and(|bit| enabled & bit != 0))])
        .collect();
    io.send(memory, command, &descriptors)?;
    Ok(Outcome::Done(EVENT_TYPES.len() as u64))
}

/// Set Features of a placement feature.
pub fn set_placement_feature(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let (group, handle) = match subject(io, command)? {
        Of::Group(group) => return set_enabled(io, group, command),
        Of::Handle(group, handle) => (group, handle),
    };
    let mut kinds = [0; 0xff];
    let kinds = &mut kinds[..(command.cdw11 >> 16 & 0xff) as usize];
    io.receive(memory, command, kinds)?;
    let mut bits = 0;
    for &kind in kinds.iter() {
        bits |= bit(kind).ok_or(StatusCode::InvalidField.at(location::CDW11 + 2))?;
    }
    if let PlacementState::Fdp(groups) = &mut io.placement {
        groups.enabled_mut(group)?.enable_events(handle, bits, command.cdw12 & 1 != 0);
    }
    Ok(Outcome::Done(0))
}

/// Enables Flexible Data Placement of an endurance group by its one configuration, or disables it:
/// while the group has no namespaces.
fn set_enabled(io: &mut Io, group: u16, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    if io.namespaces.nsids().any(|nsid| io.namespaces.endurance_group(nsid) == group) {
        return Err(StatusCode::CommandSequenceError.into());
    }
    let enables = command.cdw12 & 1 != 0;
    if enables && command.cdw12.byte(1) != 0 {
        return Err(StatusCode::InvalidField.at(location::CDW12 + 1));
    }
    let PlacementState::Fdp(groups) = &mut io.placement else {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    };
    match groups.of_mut(group) {
        Some(fdp) => fdp.set_enabled(enables),
        None if enables => return Err(StatusCode::InvalidField.at(location::CDW11)),
        None => {}
    }
    Ok(Outcome::Done(0))
}

/// The subject that a command of these features names: an existing group, or a handle.
fn subject(io: &Io, command: &SubmissionEntry) -> Result<Of, Failure> {
    let invalid = StatusCode::InvalidField.at(location::CDW11);
    let PlacementState::Fdp(groups) = &io.placement else {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    };
    let number = command.cdw11.low();
    if command.cdw10.byte(0) == feature::PLACEMENT {
        return io.endurance.group(number).map(|group| Of::Group(group.id)).ok_or(invalid);
    }
    io.namespace(command.nsid)?;
    let group = io.namespaces.endurance_group(command.nsid);
    let handles = io.namespaces.handles(command.nsid);
    let handle = groups.enabled(group)?.handle(handles, number).ok_or(invalid)?;
    Ok(Of::Handle(group, handle.into()))
}
