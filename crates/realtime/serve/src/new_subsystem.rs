//! Description of the NVMe subsystem of a drive that is to be served.

use stasis_nvme::{KeptState, Subsystem};

/// Makes the subsystem of a drive of so many bytes, of which discarded ones read as zeroes or not.
pub type MakeSubsystem = Box<dyn FnOnce(u64, bool) -> Result<NewSubsystem, String> + Send>;

/// Keeps the state of a subsystem beside its medium, once all else is durable.
pub type KeepState = Box<dyn FnOnce(KeptState) -> Result<(), String> + Send>;

/// A subsystem that is to be served.
pub struct NewSubsystem {
    /// The subsystem, in the state that was kept of it.
    pub subsystem: Subsystem,
    /// Keeps its state when the server ends; `None`: its medium does not last.
    pub keep: Option<KeepState>,
}
