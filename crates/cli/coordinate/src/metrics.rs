//! Metrics of guests and their help, for Prometheus.

use stasis_guest_hints::report::GuestReport;
use stasis_program::metrics::Kind::{Counter, Gauge};
use stasis_program::metrics::{Metric, Text};

/// The metrics.
pub fn text(guests: &[GuestReport]) -> String {
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
    use stasis_program::dashboard;

    #[test]
    fn the_dashboard_has_these_metrics() {
        let queries = dashboard::queries("stasis_coordinate_", &[]);
        dashboard::check(&queries, &text(&[GuestReport::default()]));
    }

    #[test]
    fn metrics_are_lines_of_names_and_numbers() {
        let guest = GuestReport {
            cgroup: "a\"b".into(),
            helped: true,
            helped_ns: 1_500_000_000,
            ..GuestReport::default()
        };
        let text = text(&[guest]);
        assert!(text.contains("stasis_coordinate_helped{cgroup=\"a\\\"b\"} 1\n"));
        assert!(text.contains("stasis_coordinate_helped_seconds_total{cgroup=\"a\\\"b\"} 1.5\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("stasis_coordinate_") && value.parse::<f64>().is_ok());
        }
    }
}
