//! Directive Send and Receive (NVMe 1.4 sections 5.10, 5.9 and 9).

use stasis_nvme_layout::directives::{DirectiveParameters, StreamParameters};
use stasis_nvme_layout::IntoBytes;

use crate::command::{location, Dword, SubmissionEntry, ALL_NAMESPACES};
use crate::config::Config;
use crate::context::AdminCommand;
use crate::context::ControllerMut;
use crate::narrow::count16;
use crate::registered::{OF_NAMESPACE, SUPPORTED};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::config::Placement;
use super::state::{directive, PlacementState};
use super::streams::NamespaceStreams;

/// Operations of the Identify directive, by command.
const RETURN_PARAMETERS: u8 = 1;
const ENABLE: u8 = 1;
/// Operations of the Streams directive: of Directive Receive,
const STREAM_PARAMETERS: u8 = 1;
const STREAM_STATUS: u8 = 2;
const ALLOCATE: u8 = 3;
/// and of Directive Send.
const RELEASE_IDENTIFIER: u8 = 1;
const RELEASE_RESOURCES: u8 = 2;

/// Returns whether a drive has directives.
fn has_directives(config: &Config, _set: u8) -> bool {
    config.placement != Placement::None || config.has_fdp()
}

/// A directive command's fields: type, operation, and the specific field.
fn fields(command: &SubmissionEntry) -> (u8, u8, u16) {
    (command.cdw11.byte(1), command.cdw11.byte(0), command.cdw11.high())
}

pub const DIRECTIVE_SEND: AdminCommand = AdminCommand {
    opcode: 0x19,
    effects: SUPPORTED | OF_NAMESPACE,
    announced: has_directives,
    identify: 1 << 5,
    counts_as: None,
    during_sanitize: false,
    execute: directive_send,
};

pub const DIRECTIVE_RECEIVE: AdminCommand = AdminCommand {
    opcode: 0x1a,
    effects: SUPPORTED | OF_NAMESPACE,
    announced: has_directives,
    identify: 1 << 5,
    counts_as: None,
    during_sanitize: false,
    execute: directive_receive,
};

fn directive_receive(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let invalid = StatusCode::InvalidField.at(location::CDW11);
    let all = command.nsid == ALL_NAMESPACES;
    if !all {
        controller.io.namespace(command.nsid)?;
    }
    let index = (command.nsid as usize).wrapping_sub(1);
    let (kind, operation, _) = fields(command);
    let group = controller.io.namespaces.endurance_group(command.nsid);
    let data = match (&mut controller.io.placement, kind, operation) {
        (PlacementState::None, ..) => {
            return Err(StatusCode::InvalidOpcode.at(location::OPCODE));
        }
        (placement, directive::IDENTIFY, RETURN_PARAMETERS) => {
            parameters(placement, index, group).as_bytes().to_vec()
        }
        (PlacementState::Streams(streams), directive::STREAMS, STREAM_PARAMETERS) => {
            // In blocks; none is better than another.
            const WRITE_SIZE: u32 = 1;
            const GRANULARITY: u16 = 1;
            let own = streams.namespaces.get(index);
            let (allocated, open) = own.map_or((0, 0), |own| match own.allocated {
                0 => (0, 0),
                allocated => (allocated, count16(own.open.len())),
            });
            let data = StreamParameters {
                msl: streams.max.into(),
                nssa: streams.shared().into(),
                nsso: streams.shared_open().into(),
                sws: WRITE_SIZE.into(),
                sgs: GRANULARITY.into(),
                nsa: allocated.into(),
                nso: open.into(),
                ..Default::default()
            };
            data.as_bytes().to_vec()
        }
        (PlacementState::Streams(streams), directive::STREAMS, STREAM_STATUS) if !all => {
            let open = &streams.namespaces[index].open;
            let count = count16(open.len());
            std::iter::once(&count).chain(open).flat_map(|id| id.to_le_bytes()).collect()
        }
        (PlacementState::Streams(streams), directive::STREAMS, ALLOCATE) if !all => {
            let own = &streams.namespaces[index];
            if !own.enabled || own.allocated > 0 {
                return Err(invalid);
            }
            let granted = streams.allocate(command.nsid, command.cdw12.low());
            let granted = granted.ok_or(StatusCode::StreamAllocationFailed)?;
            return Ok(Outcome::Done(granted.into()));
        }
        _ => return Err(invalid),
    };
    let length = controller.io.length_of(command.cdw10, location::CDW10)?;
    controller.io.send_of(memory, command, &data, length)?;
    Ok(Outcome::Done(0))
}

fn directive_send(
    controller: &mut ControllerMut,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let invalid = StatusCode::InvalidField.at(location::CDW11);
    if matches!(controller.io.placement, PlacementState::None) {
        return Err(StatusCode::InvalidOpcode.at(location::OPCODE));
    }
    let nsids = match command.nsid {
        ALL_NAMESPACES => 1..=controller.io.namespaces.count(),
        nsid => {
            controller.io.namespace(nsid)?;
            nsid..=nsid
        }
    };
    let (kind, operation, specific) = fields(command);
    // Under FDP no directive can be enabled or disabled: that of data placement always is enabled.
    let PlacementState::Streams(streams) = &mut controller.io.placement else {
        return Err(invalid);
    };
    let attachments = &controller.io.access.attachments;
    let concerned = |nsid: u32| nsids.contains(&nsid) && attachments.has(command.controller, nsid);
    let all = (1..).zip(&mut streams.namespaces);
    for (_, own) in all.filter(|(nsid, _)| concerned(*nsid)) {
        match (kind, operation) {
            (directive::IDENTIFY, ENABLE) => {
                if command.cdw12.byte(1) != directive::STREAMS {
                    return Err(StatusCode::InvalidField.at(location::CDW12 + 1));
                }
                let enabled = command.cdw12 & 1 != 0;
                if own.enabled != enabled {
                    *own = NamespaceStreams { enabled, ..Default::default() };
                }
            }
            (directive::STREAMS, RELEASE_IDENTIFIER) if own.enabled => {
                own.open.retain(|&open| open != specific);
            }
            (directive::STREAMS, RELEASE_RESOURCES) if own.enabled => {
                own.allocated = 0;
                own.open.clear();
            }
            _ => return Err(invalid),
        }
    }
    Ok(Outcome::Done(0))
}

/// Which directives are supported, and which enabled, a bit for each, of the namespace of an index in
/// an endurance group.
fn parameters(placement: &PlacementState, index: usize, group: u16) -> DirectiveParameters {
    let mut data = DirectiveParameters::default();
    let (supported, enabled) = match placement {
        PlacementState::None => (0, 0),
        PlacementState::Streams(streams) => {
            let enabled = streams.namespaces.get(index).is_some_and(|own| own.enabled);
            (1 << directive::STREAMS, u8::from(enabled) << directive::STREAMS)
        }
        PlacementState::Fdp(groups) => {
            let enabled = u8::from(groups.enabled(group).is_ok());
            (1 << directive::DATA_PLACEMENT, enabled << directive::DATA_PLACEMENT)
        }
    };
    data.supported[0] = 1 << directive::IDENTIFY | supported;
    data.enabled[0] = 1 << directive::IDENTIFY | enabled;
    data
}
