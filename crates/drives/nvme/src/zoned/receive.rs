//! Zone Management Receive (ZNS 1.1 section 3.4.2): the report of zones.

use stasis_nvme_layout::zones::{ZoneDescriptor, ZoneReportHead};
use stasis_nvme_layout::IntoBytes;

use crate::command::{location, SubmissionEntry};
use crate::io::{Io, IoCommand};
use crate::registered::SUPPORTED;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::config::CSI;
use super::set::{Zone, ZoneSet, ZoneState};

/// Zone Receive Action, in Dword 13.
mod action {
    pub const REPORT: u32 = 0;
    pub const EXTENDED_REPORT: u32 = 1;
}

/// Partial Report, in Dword 13.
const PARTIAL: u32 = 1 << 16;
/// Zone Type: sequential write required.
const SEQUENTIAL: u8 = 2;
/// Size of a report's head, and of a descriptor.
const HEAD: usize = size_of::<ZoneReportHead>();
const DESCRIPTOR: usize = size_of::<ZoneDescriptor>();
/// The write pointer of a zone that has none.
const NO_POINTER: u64 = u64::MAX;

pub const ZONE_MANAGEMENT_RECEIVE: IoCommand = IoCommand {
    opcode: 0x7a,
    effects: SUPPORTED,
    announced: |_, set| set == CSI,
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: zone_management_receive,
};

fn zone_management_receive(
    io: &mut Io,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let blocks = io.namespace(command.nsid)?.blocks;
    let set = &io.namespaces.zoned(command.nsid)?.set;
    let lba = command.starting_lba();
    if lba >= blocks {
        return Err(StatusCode::LbaOutOfRange.at(location::CDW10));
    }
    let length = io.length_of(command.cdw12, location::CDW12)?;
    let extension = match command.cdw13 & 0xff {
        action::REPORT => 0,
        action::EXTENDED_REPORT if set.extension_size() > 0 => set.extension_size(),
        _ => return Err(StatusCode::InvalidField.at(location::CDW13)),
    };
    let wanted = filter(command.cdw13 >> 8 & 0xff)
        .ok_or(StatusCode::InvalidField.at(location::CDW13 + 1))?;
    let room = (length as usize).saturating_sub(HEAD) / (DESCRIPTOR + extension);
    let partial = command.cdw13 & PARTIAL != 0;
    let mut report = vec![0; HEAD];
    let mut count = 0;
    for (index, zone) in set.zones().iter().enumerate().skip(set.index(lba)) {
        if wanted.is_some_and(|state| state != zone.state) {
            continue;
        }
        if count < room {
            report.extend_from_slice(descriptor(set, index, zone).as_bytes());
            if extension > 0 {
                report.extend_from_slice(set.extension(index));
            }
        } else if partial {
            break;
        }
        count += 1;
    }
    let head = ZoneReportHead { nzones: (count as u64).into(), ..Default::default() };
    report[..HEAD].copy_from_slice(head.as_bytes());
    io.send_of(memory, command, &report, length)?;
    Ok(Outcome::Done(0))
}

/// Zone Receive Action Specific: zones of which state are reported, if not all;
/// `None` if it is no such value.
#[allow(clippy::option_option)] // Wanted: a value, all, or nonsense.
fn filter(specific: u32) -> Option<Option<ZoneState>> {
    Some(match specific {
        0 => None,
        1 => Some(ZoneState::Empty),
        2 => Some(ZoneState::ImplicitlyOpen),
        3 => Some(ZoneState::ExplicitlyOpen),
        4 => Some(ZoneState::Closed),
        5 => Some(ZoneState::Full),
        6 => Some(ZoneState::ReadOnly),
        7 => Some(ZoneState::Offline),
        _ => return None,
    })
}

/// Zone Descriptor data structure (ZNS 1.1 section 3.4.2.2.3).
fn descriptor(set: &ZoneSet, index: usize, zone: &Zone) -> ZoneDescriptor {
    let start = set.start(index);
    let pointer = match zone.state {
        ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => NO_POINTER,
        _ => start + zone.written,
    };
    ZoneDescriptor {
        zt: SEQUENTIAL,
        zs: (zone.state as u8) << 4,
        za: zone.attributes,
        zcap: set.capacity.into(),
        zslba: start.into(),
        wp: pointer.into(),
        ..Default::default()
    }
}
