//! Plan of one boot's measurements.

use serde::{Deserialize, Serialize};
use stasis_program::pattern::Pattern;

/// Plan of one boot's measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasurementPlan {
    /// The virtual disk, such as `vda`: applications, readers' files and room for
    /// writers in its partitions.
    pub disk: String,
    /// Length of a reader's file (bytes).
    pub file: u64,
    /// True if applications need a graphical server.
    pub graphical: bool,
    /// Time from the beginning of a workload to the first measurement (ms).
    pub settle_ms: u64,
    /// Pause after each start (ms).
    pub gap_ms: u64,
    /// Time limit of a start, after which it counts as failed (ms).
    pub limit_ms: u64,
    /// Length of a sample of throughput (ms).
    pub sample_ms: u64,
    /// The phases, in order.
    pub phases: Vec<Phase>,
}

/// A guest workload and the measurements beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The workload.
    pub workload: Pattern,
    /// Each begins the workload anew.
    pub repetitions: u32,
    /// Samples of throughput in each.
    pub samples: u32,
    /// Starts of each application in each.
    pub starts: u32,
    /// The applications to start.
    pub applications: Vec<Application>,
}

/// An application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// Name of the application.
    pub name: String,
    /// The application's command, which ends as soon as the application has started.
    pub command: Vec<String>,
}
