//! What Prometheus reads (its text exposition format, version 0.0.4).

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use crate::{DriveReport, ServeError};

/// How long a reader may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers whoever asks at `address` with a text, from a thread of its own.
///
/// # Errors
/// If the address cannot be listened on.
pub fn answer(address: &str, text: impl Fn() -> String + Send + 'static) -> Result<(), ServeError> {
    let failed = |source| ServeError::Listen { path: address.into(), source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let answer = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = stream.set_write_timeout(Some(PATIENCE));
            // Whatever is asked for, there is one thing to be had.
            let _ = stream.read(&mut [0; 4096]);
            let body = text();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ =
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    };
    std::thread::Builder::new().name("metrics".into()).spawn(answer).map_err(failed)?;
    Ok(())
}

/// The metrics.
pub fn text(drives: &[DriveReport]) -> String {
    let mut out = String::new();
    type Value = fn(&DriveReport) -> f64;
    let counters: [(&str, &str, &str, Value); 14] = [
        ("reads_total", "counter", "Reads completed", |d| d.counts.reads as f64),
        ("read_bytes_total", "counter", "Bytes read", |d| d.counts.read_bytes as f64),
        ("writes_total", "counter", "Writes completed", |d| d.counts.writes as f64),
        ("written_bytes_total", "counter", "Bytes written", |d| d.counts.written_bytes as f64),
        ("flushes_total", "counter", "Flushes completed", |d| d.counts.flushes as f64),
        ("discards_total", "counter", "Discards and writes of zeroes", |d| {
            d.counts.discards as f64
        }),
        ("failed_total", "counter", "Requests that failed", |d| d.counts.failed as f64),
        ("faults_total", "counter", "Faults of guests and clients", |d| d.counts.faults as f64),
        ("resumed_total", "counter", "Requests an earlier server left", |d| {
            d.counts.resumed as f64
        }),
        ("connections_total", "counter", "Clients that connected", |d| d.counts.connections as f64),
        ("refused_total", "counter", "Clients turned away", |d| d.counts.refused as f64),
        ("in_use", "gauge", "Whether a guest uses the drive", |d| f64::from(u8::from(d.in_use))),
        ("in_flight", "gauge", "Requests under way", |d| d.in_flight as f64),
        ("capacity_bytes", "gauge", "Size of the drive", |d| d.capacity as f64),
    ];
    for (name, kind, help, value) in counters {
        let _ = writeln!(out, "# HELP stasis_{name} {help}.\n# TYPE stasis_{name} {kind}");
        for drive in drives {
            let _ = writeln!(out, "stasis_{name}{{drive=\"{}\"}} {}", drive.name, value(drive));
        }
    }
    let _ = writeln!(
        out,
        "# HELP stasis_latency_seconds From a request seen in the ring to its completion there.\n\
         # TYPE stasis_latency_seconds summary"
    );
    for drive in drives {
        for (what, times) in [
            ("read", Some(drive.read)),
            ("write", Some(drive.write)),
            ("flush", Some(drive.flush)),
            ("timing_error", drive.timing_error),
        ] {
            let Some(times) = times else { continue };
            let labels = format!("drive=\"{}\",of=\"{what}\"", drive.name);
            for (quantile, nanos) in
                [("0.5", times.p50_ns), ("0.99", times.p99_ns), ("0.999", times.p999_ns)]
            {
                let seconds = nanos as f64 / 1e9;
                let _ = writeln!(
                    out,
                    "stasis_latency_seconds{{{labels},quantile=\"{quantile}\"}} {seconds}"
                );
            }
            let sum = times.mean_ns * times.count as f64 / 1e9;
            let _ = writeln!(out, "stasis_latency_seconds_sum{{{labels}}} {sum}");
            let _ = writeln!(out, "stasis_latency_seconds_count{{{labels}}} {}", times.count);
        }
    }
    out
}
