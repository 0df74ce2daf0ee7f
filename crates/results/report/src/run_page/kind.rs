//! The user of a run's drives, by its engine.

use crate::plot::{Axis, Quantity, Scale};
use crate::several;
use stasis_results::statistics::DriveStatistics;
use stasis_results::summary::Summary;

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
    fn time(self) -> &'static str {
        match self {
            Self::Guest => "Virtual time since the command began",
            Self::Simulation => "Virtual time since the first measured I/O",
            Self::Server => "Time since the server began",
        }
    }
}

/// The time of a run as the plots of its page show it: one zero and one scale for all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    kind: Kind,
    /// Its beginning, and its length (ns).
    begin: u64,
    length: u64,
}

impl Time {
    /// Returns the extent of a run whose figures begin at `begin`, up to the last I/O; without any,
    /// up to its end.
    pub(super) fn of(
        summary: &Summary,
        drives: &[DriveStatistics],
        kind: Kind,
        begin: u64,
    ) -> Self {
        let run = (summary.virtual_seconds * 1e9).round() as u64;
        let last = drives.iter().filter_map(DriveStatistics::last).max();
        // The host's workloads go on as long as the run.
        let last = last.filter(|_| several::loads(summary).is_empty());
        Self { kind, begin, length: last.map_or(run, |last| last.saturating_sub(begin)) }
    }

    /// A time of the run's (ns) on the axis.
    pub(crate) fn since(&self, at: f64) -> f64 {
        at - self.begin as f64
    }

    /// The end of the run, or of its last I/O, on the axis.
    pub(crate) fn end(&self) -> f64 {
        self.length as f64
    }

    /// Returns whether a place on the axis is within what all plots show.
    pub(crate) fn holds(&self, place: f64) -> bool {
        (0.0..=self.length as f64).contains(&place)
    }

    /// The axis of all plots of drives.
    pub(crate) fn axis(&self) -> Axis {
        self.whole().common(self.length)
    }

    /// An axis for what goes on after the last I/O.
    pub(crate) fn whole(&self) -> Axis {
        Axis::new(self.kind.time(), Scale::Linear, Quantity::Time)
    }
}
