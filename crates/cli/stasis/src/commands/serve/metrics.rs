//! Metrics of served drives, for Prometheus.

use stasis_program::metrics::Kind::{Counter, Gauge, Summary};
use stasis_program::metrics::{Metric, Text};
use stasis_serve::DriveReport;

/// The metrics.
pub fn text(drives: &[DriveReport]) -> String {
    let metrics: [Metric<DriveReport>; 15] = [
        ("reads_total", Counter, "Reads completed", |d| d.counts.reads as f64),
        ("read_bytes_total", Counter, "Bytes read", |d| d.counts.read_bytes as f64),
        ("writes_total", Counter, "Writes completed", |d| d.counts.writes as f64),
        ("written_bytes_total", Counter, "Bytes written", |d| d.counts.written_bytes as f64),
        ("flushes_total", Counter, "Flushes completed", |d| d.counts.flushes as f64),
        ("discards_total", Counter, "Discards and writes of zeroes", |d| d.counts.discards as f64),
        ("failed_total", Counter, "Requests that failed", |d| d.counts.failed as f64),
        ("faults_total", Counter, "Faults of guests and clients", |d| d.counts.faults as f64),
        ("resumed_total", Counter, "Requests an earlier server left", |d| d.counts.resumed as f64),
        ("connections_total", Counter, "Clients that connected", |d| d.counts.connections as f64),
        ("refused_total", Counter, "Clients turned away", |d| d.counts.refused as f64),
        ("trapped_total", Counter, "Register accesses by message", |d| d.counts.trapped as f64),
        ("in_use", Gauge, "Whether a guest uses the drive", |d| f64::from(u8::from(d.in_use))),
        ("in_flight", Gauge, "Requests under way", |d| d.in_flight as f64),
        ("capacity_bytes", Gauge, "Size of the drive", |d| d.capacity as f64),
    ];
    let mut text = Text::default();
    text.table("stasis_", &metrics, ("drive", |drive| &drive.name), drives);
    let name = "stasis_latency_seconds";
    text.begin(name, Summary, "From a request seen in the ring to its completion there");
    for drive in drives {
        for (measure, times) in [
            ("read", Some(drive.read)),
            ("write", Some(drive.write)),
            ("flush", Some(drive.flush)),
            ("timing_error", drive.timing_error),
        ] {
            let Some(times) = times else { continue };
            let labels = [("drive", drive.name.as_str()), ("of", measure)];
            for (quantile, nanos) in
                [("0.5", times.p50_ns), ("0.99", times.p99_ns), ("0.999", times.p999_ns)]
            {
                let labels = [labels[0], labels[1], ("quantile", quantile)];
                text.value(name, &labels, nanos as f64 / 1e9);
            }
            let sum = times.mean_ns * times.count as f64 / 1e9;
            text.value("stasis_latency_seconds_sum", &labels, sum);
            text.value("stasis_latency_seconds_count", &labels, times.count as f64);
        }
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_program::dashboard;
    use stasis_serve::{Counts, Summary as Times};

    #[test]
    fn the_dashboard_has_these_metrics() {
        let drive = DriveReport {
            name: "disk".into(),
            socket: String::new(),
            capacity: 1,
            model: String::new(),
            medium: String::new(),
            thread: 0,
            in_use: true,
            in_flight: 0,
            counts: Counts::default(),
            read: Times::default(),
            write: Times::default(),
            flush: Times::default(),
            timing_error: Some(Times::default()),
            timing_bias_ns: None,
            way_ns: None,
        };
        let queries = dashboard::queries("stasis_", &["stasis_coordinate_"]);
        dashboard::check(&queries, &text(&[drive]));
    }
}
