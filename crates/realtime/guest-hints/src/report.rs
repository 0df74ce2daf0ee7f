//! Reports of guests' messages and help, and their formats for others.

use serde::Serialize;
use stasis_clock::Nanos;
use stasis_metrics::Kind::{Counter, Gauge};
use stasis_metrics::{Metric, Text};

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
    /// Whether the socket is connected.
    pub connected: bool,
    /// Whether its weight is raised.
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
    /// All of it in a line.
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

/// Metrics for Prometheus.
pub fn metrics(guests: &[GuestReport]) -> String {
    let metrics: [Metric<GuestReport>; 14] = [
        ("connected", Gauge, "Whether the socket is connected", |g| g.connected.into()),
        ("helped", Gauge, "Whether the weight is raised", |g| g.helped.into()),
        ("changes_total", Counter, "How often it began or ended to ask", |g| g.changes as f64),
        ("helped_seconds_total", Counter, "Time with help", |g| g.helped_ns as f64 / 1e9),
        ("unhelped_seconds_total", Counter, "Time asked in vain", |g| g.unhelped_ns as f64 / 1e9),
        ("weights_total", Counter, "Weights set", |g| g.weights as f64),
        ("failed_total", Counter, "Weights that could not be set", |g| g.failed as f64),
        ("messages_total", Counter, "Messages taken", |g| g.counts.messages as f64),
        ("lost_total", Counter, "Messages missing", |g| g.counts.lost as f64),
        ("stale_total", Counter, "Messages that came too late", |g| g.counts.stale as f64),
        ("versions_total", Counter, "Messages of another version", |g| g.counts.versions as f64),
        ("garbage_bytes_total", Counter, "Bytes of no message", |g| g.counts.garbage as f64),
        ("floods_total", Counter, "Times more came than is read", |g| g.counts.floods as f64),
        ("expired_total", Counter, "Times it fell silent while it asked", |g| {
            g.counts.expired as f64
        }),
    ];
    let mut text = Text::default();
    text.table("stasis_coordinate_", &metrics, ("cgroup", |guest| &guest.cgroup), guests);
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_lines_of_names_and_numbers() {
        let guest = GuestReport {
            cgroup: "a\"b".into(),
            helped: true,
            helped_ns: 1_500_000_000,
            ..GuestReport::default()
        };
        let text = metrics(&[guest]);
        assert!(text.contains("stasis_coordinate_helped{cgroup=\"a\\\"b\"} 1\n"));
        assert!(text.contains("stasis_coordinate_helped_seconds_total{cgroup=\"a\\\"b\"} 1.5\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("stasis_coordinate_") && value.parse::<f64>().is_ok());
        }
    }
}
