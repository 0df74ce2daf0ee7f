//! Pauses and failures of machines, resolved.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{splitmix, Random};
use stasis_drive::CutState;

use super::kinds::MachineFailureKind;
use super::spec::ScheduledFault;

/// Machines' failures draw other numbers than drives.
const FAILURES: u64 = 0x6661_696c;

/// A failure of a machine, resolved. Times count from the start of the guests' commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFailure {
    /// Number among the experiment's faults.
    pub number: u16,
    /// Kind of its failure.
    pub kind: MachineFailureKind,
    /// Time (ns), or the time after its trigger.
    pub at: Nanos,
    /// Limit on how much later than its trigger it happens (ns); `at` has the first draw.
    #[serde(default)]
    pub within: Nanos,
    /// After what time it boots again (ns), if it does.
    pub restart: Option<Nanos>,
    /// The state that a power cut leaves of its drives.
    #[serde(default)]
    pub leaves: CutState,
    /// Seed of what a power cut leaves, and of when the next one of its trigger happens.
    pub seed: u64,
    /// True if something else than time brings it about.
    #[serde(default)]
    pub triggered: bool,
}

/// A fault of a machine, resolved: its processors stand still. Times count from the start of the
/// guests' commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinePause {
    /// Number among the experiment's faults.
    pub number: u16,
    /// Time at which it begins (ns).
    pub begin: Nanos,
    /// Time at which it ends (ns), if it does.
    pub end: Option<Nanos>,
    /// True if something else than time brings it about: its times count from that.
    #[serde(default)]
    pub triggered: bool,
}

impl ScheduledFault {
    /// The pause of a machine that it describes; `number`: its place in the experiment.
    pub(super) fn pause(&self, number: u16) -> MachinePause {
        let triggered = self.is_triggered();
        MachinePause { number, begin: self.begin.unwrap_or(0), end: self.end, triggered }
    }

    /// The failure of a machine that it describes; `number`: its place in the experiment.
    pub(super) fn failure(
        &self,
        kind: MachineFailureKind,
        number: u16,
        seed: u64,
    ) -> MachineFailure {
        let seed = splitmix::nth(seed ^ FAILURES, u64::from(number) + 1);
        let later = self.within.map_or(0, |within| Random::new(seed).up_to(within));
        let at_once = (kind == MachineFailureKind::Reset).then_some(0);
        MachineFailure {
            number,
            kind,
            at: self.at.unwrap_or(0).saturating_add(later),
            within: self.within.unwrap_or(0),
            restart: self.restart.or(at_once),
            leaves: CutState { choice: self.leaves.unwrap_or_default(), loses: self.lost() },
            seed: splitmix::nth(seed, 1),
            triggered: self.is_triggered(),
        }
    }
}
