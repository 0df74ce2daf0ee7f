//! A fault that has happened, as it is reported.

use stasis_block::clock::Nanos;
use stasis_layout::{layout, U16, U64};

/// One happening of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRecord {
    /// Number of the fault among those of the experiment.
    pub fault: u16,
    /// Time at which it happened (ns).
    pub at: Nanos,
    /// The I/O that it befell, by its number among the submissions to the drive; `None` for one
    /// that befell a drive or a machine as a whole.
    pub order: Option<u64>,
    /// First byte of the range that it befell; 0 where there is none.
    pub offset: u64,
    /// Length of that range in bytes.
    pub length: u64,
}

layout! {
    /// A happening in an event stream's frames.
    pub(crate) struct RawFault: 34 {
        [0] fault: U16,
        [2] at: U64,
        /// [`NO_ORDER`] for none.
        [10] order: U64,
        [18] offset: U64,
        [26] length: U64,
    }
}

/// No run has that many I/Os.
const NO_ORDER: u64 = u64::MAX;

impl From<&FaultRecord> for RawFault {
    fn from(record: &FaultRecord) -> Self {
        Self {
            fault: record.fault.into(),
            at: record.at.into(),
            order: record.order.unwrap_or(NO_ORDER).into(),
            offset: record.offset.into(),
            length: record.length.into(),
        }
    }
}

impl From<&RawFault> for FaultRecord {
    fn from(raw: &RawFault) -> Self {
        Self {
            fault: raw.fault.into(),
            at: raw.at.into(),
            order: Some(raw.order.get()).filter(|order| *order != NO_ORDER),
            offset: raw.offset.into(),
            length: raw.length.into(),
        }
    }
}
