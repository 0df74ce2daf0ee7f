//! Violations that an oracle finds on a disk.

use crate::sectors::SECTOR;

/// A violated promise of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A sector holds data that was never written there.
    Unknown {
        /// The sector.
        sector: u64,
    },
    /// A write is gone that was to stay.
    Lost {
        /// The sector.
        sector: u64,
        /// Its place in the guest's log.
        place: usize,
        /// The write, in words.
        write: String,
    },
    /// Something is there, and something that was ordered before it is not.
    Order {
        /// A sector with something too old.
        old: u64,
        /// A sector with something too new, possibly the same sector.
        new: u64,
    },
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let byte = |sector: &u64| sector * SECTOR as u64;
        match self {
            Self::Unknown { sector } => {
                write!(f, "byte {:#x}: its sector holds what nobody wrote there", byte(sector))
            }
            Self::Lost { sector, write, .. } => {
                write!(f, "byte {:#x}: a durable write is gone: {write}", byte(sector))
            }
            Self::Order { old, new } => write!(
                f,
                "bytes {:#x} and {:#x}: the second is there, and the first, ordered before it by \
                 a flush, is not",
                byte(old),
                byte(new)
            ),
        }
    }
}
