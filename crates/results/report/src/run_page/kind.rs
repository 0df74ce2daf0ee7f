//! The user of a run's drives, by its engine.

use crate::summary::Summary;

/// The engine of a summary that was made without a guest.
const SIMULATION: &str = "sim";
/// The engine of a summary of drives that others used in real time.
const SERVER: &str = "serve";

/// The user of the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The run's own guest.
    Guest,
    /// Nobody: a load or a trace, and every I/O is delivered at its target.
    Simulation,
    /// Others, in real time.
    Server,
}

impl Kind {
    pub(super) fn of(summary: &Summary) -> Self {
        match summary.engine.as_str() {
            SIMULATION => Self::Simulation,
            SERVER => Self::Server,
            _ => Self::Guest,
        }
    }

    /// The axis of time.
    pub(super) fn time(self) -> &'static str {
        match self {
            Self::Guest => "Virtual time since the command began",
            Self::Simulation => "Virtual time since the first I/O that counts",
            Self::Server => "Time since the server began",
        }
    }
}
