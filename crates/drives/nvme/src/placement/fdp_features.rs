//! Features of Flexible Data Placement (NVMe TP4146).

use crate::command::{location, SubmissionEntry};
use crate::io::Io;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::events::{bit, EVENT_TYPES};
use super::fdp::ENDURANCE_GROUP;
use super::state::PlacementState;

/// Feature identifiers.
pub mod feature {
    /// Flexible Data Placement, of an endurance group.
    pub const PLACEMENT: u8 = 0x1d;
    /// FDP Events, of a namespace.
    pub const EVENTS: u8 = 0x1e;
}

/// Get Features, of one of these; `defaults` instead of the current values.
pub fn get_placement_feature(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
    defaults: bool,
) -> Result<Outcome, Failure> {
    let events = placement_events(io, command)?;
    let Some(handle) = events else {
        // Enabled, by the configuration of index 0.
        return Ok(Outcome::Done(1));
    };
    let PlacementState::Fdp(fdp) = &io.placement else { return Ok(Outcome::Done(0)) };
    let enabled = if defaults { 0 } else { fdp.handles[handle].events };
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

/// Set Features, of one of these.
pub fn set_placement_feature(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let Some(handle) = placement_events(io, command)? else {
        // Only while the endurance group has no namespaces.
        return Err(StatusCode::CommandSequenceError.into());
    };
    let mut kinds = [0; 0xff];
    let kinds = &mut kinds[..(command.cdw11 >> 16 & 0xff) as usize];
    io.receive(memory, command, kinds)?;
    let mut bits = 0;
    for &kind in kinds.iter() {
        bits |= bit(kind).ok_or(StatusCode::InvalidField.at(location::CDW11 + 2))?;
    }
    if let PlacementState::Fdp(fdp) = &mut io.placement {
        fdp.enable_events(handle, bits, command.cdw12 & 1 != 0);
    }
    Ok(Outcome::Done(0))
}

/// Whether these features are there and the command names what they are
/// of: the handle for the events.
fn placement_events(io: &Io, command: &SubmissionEntry) -> Result<Option<usize>, Failure> {
    let invalid = StatusCode::InvalidField.at(location::CDW11);
    let PlacementState::Fdp(fdp) = &io.placement else {
        return Err(StatusCode::InvalidField.at(location::CDW10));
    };
    let of = command.cdw11 as u16;
    if command.cdw10 as u8 == feature::PLACEMENT {
        return if of == ENDURANCE_GROUP { Ok(None) } else { Err(invalid) };
    }
    io.namespace(command.nsid)?;
    // Placement handles are numbered as the reclaim unit handles are.
    match usize::from(of) {
        handle if handle < fdp.handles.len() => Ok(Some(handle)),
        _ => Err(invalid),
    }
}
