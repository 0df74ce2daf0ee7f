//! The controller's state of data placement, and the placement of each write.

use crate::command::{location, SubmissionEntry};
use crate::config::{Config, MAX_NAMESPACES};
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
    Fdp(Fdp),
}

impl PlacementState {
    pub fn new(config: &Config) -> Self {
        match config.placement {
            Placement::None => Self::None,
            Placement::Streams { max } => Self::Streams(Streams::new(max, MAX_NAMESPACES)),
            Placement::Fdp { reclaim_groups, handles, reclaim_unit } => {
                Self::Fdp(Fdp::new(reclaim_groups, handles, reclaim_unit))
            }
        }
    }

    /// Drops the state that a controller reset clears.
    pub fn reset(&mut self) {
        if let Self::Streams(streams) = self {
            streams.reset();
        }
    }

    /// How often what is kept of it has changed, but for the bytes counted.
    pub fn changes(&self) -> u64 {
        match self {
            Self::Fdp(fdp) => fdp.changes(),
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
    /// will be written there. `timestamp`: the Timestamp feature's value.
    pub fn place(
        &mut self,
        command: &SubmissionEntry,
        length: u64,
        timestamp: impl FnOnce() -> u64,
    ) -> Result<u16, Failure> {
        let kind = (command.cdw12 >> 20 & 0xf) as u8;
        let specific = (command.cdw13 >> 16) as u16;
        let unknown = StatusCode::InvalidField.at(location::CDW12 + 2);
        match self {
            Self::None if kind == 0 => Ok(0),
            Self::Streams(streams) if kind == directive::STREAMS => {
                streams.open(command.nsid, specific).ok_or(unknown)
            }
            Self::Fdp(fdp) => {
                let identifier = match kind {
                    0 => 0,
                    directive::DATA_PLACEMENT => specific,
                    _ => return Err(unknown),
                };
                Ok(fdp.write(command.nsid, identifier, length, timestamp()))
            }
            _ if kind == 0 => Ok(0),
            _ => Err(unknown),
        }
    }
}
