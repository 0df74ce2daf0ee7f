//! Faults in a description.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;
use stasis_nand::{faults::Where, Fault, FaultRule};

/// The kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A read of the array gives no data.
    UncorrectableRead,
    /// A program fails: its block is given up.
    FailedProgram,
    /// An erase fails: its block is given up.
    FailedErase,
    /// A read of the array gives wrong data without an error.
    CorruptedRead,
    /// A LUN fails whatever is asked.
    DeadDie,
    /// An operation of the array stands still for the time `stall`.
    SlowOperation,
    /// A read by the host of these addresses fails.
    Uncorrectable,
    /// A read by the host of these addresses gives wrong data.
    Corrupt,
    /// A write by the host of these addresses fails.
    FailedWrite,
    /// A command of the host on these addresses never completes.
    StuckCommand,
}

/// A fault: its kind, place, time and rate. A limit that is not given does not apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The channel of the array's faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u32>,
    /// The LUN at its channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lun: Option<u32>,
    /// The plane of its LUN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plane: Option<u32>,
    /// Blocks: the first, and the one after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<[u32; 2]>,
    /// Pages: the first, and the one after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<[u32; 2]>,
    /// The first byte of the host's faults.
    #[serde(default, with = "units::size")]
    pub offset: u64,
    /// Bytes from there on; to the end if not given.
    #[serde(default, with = "units::size_option", skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// Not before this time (ns).
    #[serde(default, with = "units::duration")]
    pub from: Nanos,
    /// Not from this time on (ns).
    #[serde(default, with = "units::duration_option", skip_serializing_if = "Option::is_none")]
    pub until: Option<Nanos>,
    /// The share of operations that it happens to.
    #[serde(default = "always")]
    pub rate: f64,
    /// Maximum number of occurrences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Growth of an array's fault: its rate is that of a block with `endurance` erases, and grows
    /// with the erases to this power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear: Option<f64>,
    /// Time for which a slow operation stands still (ns).
    #[serde(default, with = "units::duration")]
    pub stall: Nanos,
}

fn always() -> f64 {
    1.0
}

impl FaultSpec {
    /// A fault everywhere, always.
    pub fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            channel: None,
            lun: None,
            plane: None,
            blocks: None,
            pages: None,
            offset: 0,
            length: None,
            from: 0,
            until: None,
            rate: 1.0,
            count: None,
            wear: None,
            stall: 0,
        }
    }

    /// Returns the fault as an array whose blocks are rated for `endurance` erases takes it; `None`
    /// for a fault of the host's commands.
    pub fn of_array(&self, endurance: u32) -> Option<FaultRule> {
        let fault = match self.kind {
            FaultKind::UncorrectableRead => Fault::UncorrectableRead,
            FaultKind::FailedProgram => Fault::FailedProgram,
            FaultKind::FailedErase => Fault::FailedErase,
            FaultKind::CorruptedRead => Fault::CorruptedRead,
            FaultKind::DeadDie => Fault::DeadDie,
            FaultKind::SlowOperation => Fault::Stuck(self.stall),
            FaultKind::Uncorrectable
            | FaultKind::Corrupt
            | FaultKind::FailedWrite
            | FaultKind::StuckCommand => return None,
        };
        let range = |ends: Option<[u32; 2]>| ends.map(|[start, end]| start..end);
        Some(FaultRule {
            fault,
            place: Where {
                channel: self.channel,
                lun: self.lun,
                plane: self.plane,
                blocks: range(self.blocks),
                pages: range(self.pages),
            },
            time: self.from..self.until.unwrap_or(Nanos::MAX),
            rate: self.rate,
            count: self.count.unwrap_or(u64::MAX),
            wear: self.wear.map(|power| (power, endurance)),
        })
    }
}
