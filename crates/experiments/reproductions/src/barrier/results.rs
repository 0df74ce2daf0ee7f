//! The measurements of a workload, from its run's results.

use anyhow::{Context, Result};
use stasis_block::inside::Inside;
use stasis_qcow2::Counters;
use stasis_results::DriveSummary;

use super::load::Outcome;
use super::workloads::{ResultFormat, Workload, RECORD};
use crate::bench::Done;
use crate::ios::Io;

/// A workload in one configuration. Counts are those of its drive less those of
/// one that was only prepared.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Operations, and the time that they took (ns).
    pub operations: u64,
    pub ns: f64,
    pub guest_flushes: u64,
    /// Flushes without those that bound the lag, which are counted apart.
    pub host_flushes: u64,
    pub host_barriers: u64,
    pub lag_flushes: u64,
    pub lag_most_flushes: u64,
    pub lag_most_bytes: u64,
    pub lag_longest: u64,
    /// Time that the guest waited for its flushes and writes, if it submits one at a time (ns).
    pub flush_ns: f64,
    pub write_ns: f64,
}

impl Measured {
    pub fn read(run: &Done, workload: &Workload) -> Result<Self> {
        let file = |ending: &str| {
            let path = run.folder.join(format!("{}.{ending}", workload.name));
            std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))
        };
        let (operations, ns) = match workload.form {
            ResultFormat::Dd => dd(&file("txt")?)?,
            ResultFormat::Load => {
                let outcome: Outcome = serde_json::from_slice(file("json")?.as_bytes())
                    .with_context(|| format!("the result of {}", workload.name))?;
                (outcome.operations, outcome.ns as f64)
            }
        };
        let drive = |name: &str| {
            let mut drives = run.summary.drives.iter();
            drives
                .find(|drive| drive.described.name == name)
                .with_context(|| format!("no drive {name}"))
        };
        let (busy, idle) = (drive(workload.name)?, drive(workload.idle)?);
        let (counts, other) = (counters(busy)?, counters(idle)?);
        let less = |count: fn(&Counters) -> u64| count(&counts).saturating_sub(count(&other));
        let lag_flushes = less(|counters| counters.lag_flushes);
        let (flush_ns, write_ns) = match workload.one_at_a_time {
            true => waits(&run.ios()?, workload.name, operations, ns),
            false => (0.0, 0.0),
        };
        Ok(Self {
            operations,
            ns,
            guest_flushes: less(|counters| counters.guest_flushes),
            host_flushes: less(|counters| counters.host_flushes - counters.lag_flushes),
            host_barriers: less(|counters| counters.host_barriers),
            lag_flushes,
            lag_most_flushes: counts.lag_most_flushes,
            lag_most_bytes: counts.lag_most_bytes,
            lag_longest: counts.lag_longest,
            flush_ns,
            write_ns,
        })
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / (self.ns / 1e9)
    }
}

/// Time that the guest waited for a drive's flushes and writes (ns), in the time `ns` from the
/// first of `records` records on: the drive's last writes of that length.
fn waits(ios: &[Io], drive: &str, records: u64, ns: f64) -> (f64, f64) {
    let of_drive = || ios.iter().filter(|io| io.drive == drive);
    let written = of_drive().rev().filter(|io| io.operation == "write" && io.bytes == RECORD);
    let first = written.take(records as usize).last().map_or(u64::MAX, |io| io.submit);
    let inside = |io: &&Io| (first..=first.saturating_add(ns as u64)).contains(&io.submit);
    let waited = |operation: &str| {
        of_drive().filter(inside).filter(|io| io.operation == operation).map(|io| io.latency).sum()
    };
    (waited("flush"), waited("write"))
}

/// The image's counters.
fn counters(drive: &DriveSummary) -> Result<Counters> {
    let counters = drive.inside.as_ref().and_then(Inside::image);
    counters.copied().with_context(|| format!("drive {} is no image", drive.described.name))
}

/// Number of writes, and their time (ns), from GNU dd's output: `3276800 bytes (3.3 MB, 3.1 MiB)
/// copied, 0.172156 s, 19.0 MB/s`.
fn dd(text: &str) -> Result<(u64, f64)> {
    let wrong = || format!("dd said: {text}");
    let records = text.lines().find_map(|line| line.strip_suffix("+0 records out"));
    let seconds = text.split(" copied, ").nth(1).and_then(|rest| rest.split(" s").next());
    let records = records.and_then(|records| records.parse().ok()).with_context(wrong)?;
    let seconds: f64 = seconds.and_then(|seconds| seconds.parse().ok()).with_context(wrong)?;
    Ok((records, seconds * 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_is_not_counted() {
        let io = |drive: &str, operation: &'static str, bytes, submit, latency| Io {
            drive: drive.into(),
            operation,
            bytes,
            submit,
            latency,
        };
        let ios = [
            io("a", "write", RECORD, 0, 1000.0),
            io("a", "flush", 0, 10, 500.0),
            io("a", "write", RECORD, 100, 20.0),
            io("b", "flush", 0, 110, 7.0),
            io("a", "flush", 0, 120, 30.0),
            io("a", "write", 4096, 150, 5.0),
            io("a", "write", RECORD, 160, 20.0),
            io("a", "flush", 0, 180, 30.0),
            io("a", "flush", 0, 300, 30.0),
        ];
        assert_eq!(waits(&ios, "a", 2, 110.0), (60.0, 45.0));
    }

    #[test]
    fn dd_is_understood() {
        let text = "50+0 records in\n50+0 records out\n\
                    3276800 bytes (3.3 MB, 3.1 MiB) copied, 0.172156 s, 19.0 MB/s\n";
        let (records, ns) = dd(text).unwrap();
        assert!(records == 50 && (ns - 172_156_000.0).abs() < 1.0, "{records} {ns}");
        for wrong in ["", "49+1 records out\n", "5+0 records out\n1 byte copied, x s, 1 B/s"] {
            assert!(dd(wrong).is_err(), "{wrong}");
        }
    }
}
