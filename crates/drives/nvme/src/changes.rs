//! Changes of namespaces, and of the access to them, that every controller of the subsystem is to report to its host.

use std::collections::VecDeque;

use crate::controller_id::ControllerId;
use crate::reservations::{HostId, Notice};

/// Changes that are kept. A controller that was not attended to for longer reports that every
/// namespace has changed.
const KEPT: usize = 256;

/// A change of a namespace, or of the access to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its Identify data.
    Namespace(u32),
    /// A namespace was attached to a controller, or detached.
    Attachment(ControllerId, u32),
    /// Zones have changed by themselves.
    Zones(u32),
    /// Chunks have changed by themselves.
    Chunks(u32),
    /// The access to the namespaces on a path.
    Access(u16),
    /// Its registrants or its reservation: a notice to one host.
    Reservation(u32, HostId, Notice),
    /// State of the last sanitize operation: whether it has just ended.
    Sanitize { ended: bool },
    /// The slots of firmware; whether a revision becomes active at once.
    Firmware { starts: bool },
    /// Critical warnings of an endurance group that begin to hold.
    Endurance(u16, u8),
    /// Telemetry that the controller has captured waits to be read.
    Telemetry,
}

impl Change {
    /// The namespace that has changed, whose controllers are to report it.
    pub fn namespace(self) -> Option<u32> {
        match self {
            Self::Namespace(nsid) | Self::Zones(nsid) | Self::Chunks(nsid) => Some(nsid),
            Self::Reservation(nsid, ..) => Some(nsid),
            Self::Attachment(..)
            | Self::Access(_)
            | Self::Sanitize { .. }
            | Self::Firmware { .. }
            | Self::Endurance(..)
            | Self::Telemetry => None,
        }
    }
}

/// The last changes.
#[derive(Debug, Default)]
pub struct Changes {
    list: VecDeque<Change>,
    /// Changes ever added.
    count: u64,
}

impl Changes {
    /// Adds a change.
    pub fn add(&mut self, change: Change) {
        if self.list.len() == KEPT {
            self.list.pop_front();
        }
        self.list.push_back(change);
        self.count += 1;
    }

    /// Returns the number of those ever added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the changes after the first `reported`; `None` if some of them are no longer kept.
    pub fn since(&self, reported: u64) -> Option<impl Iterator<Item = Change> + '_> {
        let new = usize::try_from(self.count - reported.min(self.count)).ok()?;
        let skipped = self.list.len().checked_sub(new)?;
        Some(self.list.iter().skip(skipped).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_gets_what_it_has_not_seen() {
        let mut changes = Changes::default();
        (1..=300).for_each(|nsid| changes.add(Change::Namespace(nsid)));
        let since = |reported| changes.since(reported).map(Iterator::collect::<Vec<_>>);
        assert_eq!(since(300), Some(vec![]));
        assert_eq!(since(298), Some(vec![Change::Namespace(299), Change::Namespace(300)]));
        assert_eq!(since(44).map(|all| all.len()), Some(256));
        assert_eq!(since(43), None, "too long ago");
    }
}
