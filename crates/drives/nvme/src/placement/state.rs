//! The controller's state of data placement, and the placement of each write.

use crate::command::{location, Dword, SubmissionEntry};
use crate::config::{Config, MAX_NAMESPACES};
use crate::endurance::EnduranceGroup;
use crate::status::{Failure, StatusCode};

use super::config::Placement;
use super::fdp::Fdp;
use super::streams::Streams;

/// Directive types (NVMe 1.4 section 9; NVMe TP4146 for the last).
pub mod directive {
    pub const IDENTIFY: u8 = 0;
    pub const STREAMS: u8 = 1;
    pub const DATA_PLACEMENT: u8 = 2;
}

/// The controller's state of data placement.
#[derive(Debug)]
pub enum PlacementState {
    None,
    Streams(Streams),
    Fdp(FdpGroups),
}

/// Flexible Data Placement of the endurance groups that have it, by identifier.
#[derive(Debug)]
pub struct FdpGroups(Vec<(u16, Fdp)>);

impl FdpGroups {
    /// Returns the placement of a group.
    pub fn of(&self, group: u16) -> Option<&Fdp> {
        self.0.iter().find(|(id, _)| *id == group).map(|(_, fdp)| fdp)
    }

    /// Like [`Self::of`], but mutable.
    pub fn of_mut(&mut self, group: u16) -> Option<&mut Fdp> {
        self.0.iter_mut().find(|(id, _)| *id == group).map(|(_, fdp)| fdp)
    }

    /// Returns the placement of a group, if it is enabled.
    ///
    /// # Errors
    /// FDP Disabled.
    pub fn enabled(&self, group: u16) -> Result<&Fdp, StatusCode> {
        self.of(group).filter(|fdp| fdp.is_enabled()).ok_or(StatusCode::FdpDisabled)
    }

    /// Like [`Self::enabled`], but mutable.
    ///
    /// # Errors
    /// FDP Disabled.
    pub fn enabled_mut(&mut self, group: u16) -> Result<&mut Fdp, StatusCode> {
        self.of_mut(group).filter(|fdp| fdp.is_enabled()).ok_or(StatusCode::FdpDisabled)
    }

    /// Returns the placement of all groups.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Fdp)> {
        self.0.iter().map(|(id, fdp)| (*id, fdp))
    }
}

impl PlacementState {
    pub fn new(config: &Config) -> Self {
        if let Placement::Streams { max } = config.placement {
            return Self::Streams(Streams::new(max, MAX_NAMESPACES));
        }
        let places = |group: EnduranceGroup| match group.placement {
            Placement::Fdp { reclaim_groups, handles, reclaim_unit } => {
                Some((group.id, Fdp::new(reclaim_groups, handles, reclaim_unit)))
            }
            _ => None,
        };
        let groups: Vec<_> = config.groups().into_iter().filter_map(places).collect();
        if groups.is_empty() {
            Self::None
        } else {
            Self::Fdp(FdpGroups(groups))
        }
    }

    /// Drops the state that a controller reset clears.
    pub fn reset(&mut self) {
        if let Self::Streams(streams) = self {
            streams.reset();
        }
    }

    /// Returns the number of changes of what is kept of it, but for the bytes counted.
    pub fn changes(&self) -> u64 {
        match self {
            Self::Fdp(groups) => groups.iter().map(|(_, fdp)| fdp.changes()).sum(),
            _ => 0,
        }
    }

    /// A namespace is deleted.
    pub fn forget(&mut self, nsid: u32) {
        if let Self::Streams(streams) = self {
            streams.forget(nsid);
        }
    }

    /// The stream that a write asks for: DTYPE in Dword 12, DSPEC in Dword 13. `length` bytes
    /// will be written there, in an endurance group, by the placement handles of the namespace.
    /// `timestamp`: the Timestamp feature's value.
    pub fn place(
        &mut self,
        command: &SubmissionEntry,
        (group, handles): (u16, &[u8]),
        length: u64,
        timestamp: impl FnOnce() -> u64,
    ) -> Result<u16, Failure> {
        let kind = command.cdw12.byte(2) >> 4;
        let specific = command.cdw13.high();
        let unknown = StatusCode::InvalidField.at(location::CDW12 + 2);
        match self {
            Self::None if kind == 0 => Ok(0),
            Self::Streams(streams) if kind == directive::STREAMS => {
                streams.open(command.nsid, specific).ok_or(unknown)
            }
            Self::Fdp(groups) => {
                let Ok(fdp) = groups.enabled_mut(group) else {
                    return if kind == 0 { Ok(0) } else { Err(unknown) };
                };
                let identifier = match kind {
                    0 => 0,
                    directive::DATA_PLACEMENT => specific,
                    _ => return Err(unknown),
                };
                Ok(fdp.write((command.nsid, handles), identifier, length, timestamp()))
            }
            _ if kind == 0 => Ok(0),
            _ => Err(unknown),
        }
    }
}
