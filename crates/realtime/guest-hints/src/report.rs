//! Reports of guests' messages and help.

use serde::Serialize;
use stasis_block::clock::Nanos;

/// Counters of a guest's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Messages that were taken.
    pub messages: u64,
    /// Messages that are missing by their numbers.
    pub lost: u64,
    /// Messages older than one that was taken.
    pub stale: u64,
    /// Messages of another version.
    pub versions: u64,
    /// Bytes that belong to no message.
    pub garbage: u64,
    /// Number of times that it sent more than is read.
    pub floods: u64,
    /// Number of times that its request expired because it fell silent.
    pub expired: u64,
}

impl Counts {
    /// Number of inputs that a well-behaved guest does not send.
    pub fn refused(&self) -> u64 {
        self.stale + self.versions + self.garbage + self.floods
    }
}

/// State of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GuestReport {
    /// Its socket.
    pub socket: String,
    /// Its cgroup.
    pub cgroup: String,
    /// True if the socket is connected.
    pub connected: bool,
    /// True if its weight is raised.
    pub helped: bool,
    /// Number of times that it began or ended to ask.
    pub changes: u64,
    /// Time for which it had help (ns).
    pub helped_ns: Nanos,
    /// Time for which it asked in vain (ns).
    pub unhelped_ns: Nanos,
    /// Number of times that its weight was set.
    pub weights: u64,
    /// Number of times that this failed.
    pub failed: u64,
    /// Counters of its messages.
    #[serde(flatten)]
    pub counts: Counts,
}

impl GuestReport {
    /// Returns the whole report in a line.
    pub fn summary(&self) -> String {
        let seconds = |nanos: Nanos| nanos as f64 / 1e9;
        format!(
            "{}: asked or ended {} times, helped for {:.2} s, in vain for {:.2} s; weight set {} times, failed {}; \
             {} messages, {} lost, {} refused, {} ran out",
            self.cgroup,
            self.changes,
            seconds(self.helped_ns),
            seconds(self.unhelped_ns),
            self.weights,
            self.failed,
            self.counts.messages,
            self.counts.lost,
            self.counts.refused(),
            self.counts.expired,
        )
    }
}
