//! Tests of a run's own figures that show that its result is not to be trusted.
//!
//! The thresholds, which docs/reference/results.md lists too. Under `exact` the figures are what
//! they should be by construction, for drives that take 20 us or more.

use stasis_block::clock::Nanos;

use crate::summary::Summary;
use crate::units;

/// Largest distance of a percentile of delivered latency from its target, in percent: the project's
/// aim for every engine.
pub const LATENESS_PERCENT: f64 = 1.0;
/// Deviations below this are left alone (ns): on a drive of a few microseconds one percent is less
/// than the guest's own path varies by.
pub const LATENESS_FLOOR: Nanos = 500;
/// Largest delay of the ends of slices of guest time at p99, in percent of the latency of the
/// fastest drive in use. An event that falls into a slice is late by as much, so that it is held to
/// the same aim.
pub const OVERSHOOT_PERCENT: f64 = 1.0;
/// Largest delay where no drive was used (ns): a timer of the guest is not finer than Linux's own
/// default slack, 50 us (prctl(2), PR_SET_TIMERSLACK).
pub const OVERSHOOT_WITHOUT_DRIVES: Nanos = 50_000;
/// Number of quanta by which two processors' times may differ. A slice ends one quantum ahead of
/// the others; at twice that, the promise that one sees another's writes at most a quantum late is
/// broken.
pub const SKEW_QUANTA: u64 = 2;

/// Reasons in `summary` not to trust the result, a sentence each. `quantum`: how far one processor
/// may be ahead of another (ns).
pub fn warnings(summary: &Summary, quantum: Nanos) -> Vec<String> {
    let mut warnings: Vec<String> = lateness(summary).collect();
    warnings.extend(overshoot(summary));
    let skew = summary.clock_skew_max_ns;
    if skew > quantum.saturating_mul(SKEW_QUANTA) {
        warnings.push(format!(
            "the clocks of two processors were {} apart, more than {SKEW_QUANTA} quanta of {}: one saw \
             another's writes that late",
            units::duration(skew as f64),
            units::duration(quantum as f64)
        ));
    }
    warnings
}

/// The operations that take a model less than the way to their host.
pub fn short_ways(summary: &Summary) -> impl Iterator<Item = String> + '_ {
    let ways = summary.drives.iter().filter_map(|drive| Some((drive, drive.way_ns?)));
    let used = ways.flat_map(|(drive, way)| drive.used().map(move |used| (drive, way, used)));
    let short = used.filter(|(_, way, (_, used))| {
        used.target_ns.mean > 0.0 && used.target_ns.mean < *way as f64
    });
    short.map(|(drive, way, (operation, used))| {
        format!(
            "drive {}: the model's {} takes {} on average, less than the way to its host, {} at least: \
             the host saw the way more than the model",
            drive.described.name,
            operation.name(),
            units::duration(used.target_ns.mean),
            units::duration(way as f64)
        )
    })
}

/// The drives whose delivered latency is not their model's.
fn lateness(summary: &Summary) -> impl Iterator<Item = String> + '_ {
    let used = summary
        .drives
        .iter()
        .flat_map(|drive| drive.used().map(move |(operation, used)| (drive, operation, used)));
    used.filter_map(|(drive, operation, used)| {
        let error = used.max_error_percent?;
        let targets = used.target_ns.percentiles();
        let pairs = targets.into_iter().zip(used.delivered_ns.percentiles());
        let apart = pairs.map(|((_, target), (_, delivered))| delivered.abs_diff(target)).max()?;
        (error.abs() > LATENESS_PERCENT && apart > LATENESS_FLOOR).then(|| {
            format!(
                "drive {}: the latency of {} is not the model's: percentiles differ by up to {} \
                 (at most {LATENESS_PERCENT} % is aimed at)",
                drive.described.name,
                operation.name(),
                units::deviation(Some(error))
            )
        })
    })
}

fn overshoot(summary: &Summary) -> Option<String> {
    let late = summary.overshoot_ns.p99;
    let used = summary.drives.iter().flat_map(|drive| {
        drive.used().map(move |(_, used)| (used.target_ns.p50, drive.described.name.as_str()))
    });
    let fastest = used.filter(|(target, _)| *target > 0).min();
    let allowed = match fastest {
        Some((target, _)) => {
            ((target as f64 * OVERSHOOT_PERCENT / 100.0) as Nanos).max(LATENESS_FLOOR)
        }
        None => OVERSHOOT_WITHOUT_DRIVES,
    };
    (late > allowed).then(|| {
        let late = units::duration(late as f64);
        match fastest {
            Some((target, name)) => format!(
                "slices of guest time ended {late} late at p99, more than {OVERSHOOT_PERCENT} % of the median \
                 latency of drive {name}, {}: the host was busy with something else",
                units::duration(target as f64)
            ),
            None => format!(
                "slices of guest time ended {late} late at p99: the guest's timers were late, as the \
                 host was busy with something else"
            ),
        }
    })
}
