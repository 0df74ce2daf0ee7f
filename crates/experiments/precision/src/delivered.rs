//! Latencies that drives of known latency deliver, and what they cost.

use std::collections::BTreeMap;

use anyhow::{ensure, Result};
use serde::Serialize;
use stasis_block::clock::Nanos;
use stasis_results::{units, Summary};
use stasis_run_events::Overshoot;
use stasis_runner::Results;

/// The drives: models whose every I/O takes the same time, and their latencies (ns).
pub const MODELS: [(&str, Nanos); 5] = [
    ("null", 0),
    ("fixed:20us", 20_000),
    ("fixed:50us", 50_000),
    ("fixed:100us", 100_000),
    ("fixed:1ms", 1_000_000),
];

/// Latencies delivered by drives of known latency, and their cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Precision {
    /// Each of [`MODELS`].
    pub delivered: Vec<Delivered>,
    /// Lateness of the ends of slices of guest time (ns).
    pub overshoot_ns: Overshoot,
    /// Host time from the guest's last instruction before an exit to its first one after it, as
    /// calibrated, by kind of exit (ns). Empty under `exact`: the host takes no guest time.
    pub exit_ns: BTreeMap<String, f64>,
    /// Spread of the cost of exits of one kind (ns): the distance between the first and the last
    /// decile, of the kind where it is largest.
    pub exit_spread_ns: f64,
    /// Wall-clock time of the command for each exit (ns).
    pub wall_ns_per_exit: f64,
}

/// Latencies delivered by one drive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Delivered {
    /// Model of the drive.
    pub model: &'static str,
    /// Target latency of each I/O (ns).
    pub target_ns: Nanos,
    /// Number of I/Os.
    pub ios: u64,
    /// Median of the delivered latencies (ns).
    pub p50_ns: Nanos,
    /// The 99th percentile of the delivered latencies (ns).
    pub p99_ns: Nanos,
    /// The maximum of the delivered latencies (ns).
    pub max_ns: Nanos,
    /// The largest deviation of a percentile, p1 to p99.9, in percent; none for a target of 0 ns.
    pub error_percent: Option<f64>,
}

impl Precision {
    /// The precision that results show, each drive of which had `ios` reads at least.
    pub(crate) fn of(results: &Results, ios: u64) -> Result<Self> {
        let summary: &Summary = &results.summary;
        let delivered = summary.drives.iter().zip(MODELS).map(|(drive, (model, target_ns))| {
            let read = &drive.read;
            ensure!(read.count >= ios, "the drive {model} had {} reads, not {ios}", read.count);
            let latency = &read.delivered_ns;
            Ok(Delivered {
                model,
                target_ns,
                ios: read.count,
                p50_ns: latency.p50,
                p99_ns: latency.p99,
                max_ns: latency.max,
                error_percent: read.max_error_percent,
            })
        });
        let ns = |ticks: i64| ticks as f64 * 1e6 / summary.tsc_khz.max(1) as f64;
        let ticks: BTreeMap<&str, i64> =
            summary.calibration_ticks.iter().map(|(name, ticks)| (name.as_str(), *ticks)).collect();
        let enter = ticks.get("enter").copied().unwrap_or(0);
        let exits = ticks.iter().filter_map(|(name, leave)| {
            Some((name.strip_prefix("leave-")?.to_owned(), ns(leave + enter)))
        });
        let wall = results.command_wall.unwrap_or_default();
        Ok(Self {
            delivered: delivered.collect::<Result<_>>()?,
            overshoot_ns: summary.overshoot_ns,
            exit_ns: exits.collect(),
            exit_spread_ns: ns(ticks.get("spread").copied().unwrap_or(0)),
            wall_ns_per_exit: wall.as_nanos() as f64 / summary.exits.max(1) as f64,
        })
    }

    /// The cost of precision, in words.
    pub(crate) fn costs(&self) -> String {
        let late = |ns: u64| units::duration(ns as f64);
        let wall = units::short(self.wall_ns_per_exit);
        let exits = match (self.exit_ns.get("port"), self.exit_ns.get("halt")) {
            (Some(port), Some(halt)) => format!(
                "an exit for a port takes {}, for HLT {}, with a spread of {}, and is taken off guest time \
                 ({wall} of wall-clock with the device's work)",
                units::short(*port),
                units::short(*halt),
                units::short(self.exit_spread_ns)
            ),
            _ => format!("an exit takes no guest time ({wall} of wall-clock)"),
        };
        format!(
            "{exits}; slices end {} late at p99, {} at most",
            late(self.overshoot_ns.p99),
            late(self.overshoot_ns.max)
        )
    }
}
