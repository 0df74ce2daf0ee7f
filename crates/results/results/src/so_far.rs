//! A run that goes on.

use stasis_block::clock::Nanos;

use crate::statistics::DriveStatistics;
use crate::units;

/// The `ending` of a summary of a run that goes on.
pub const RUNNING: &str = "running";

/// Figures of a run that goes on, since its commands began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SoFar {
    /// Virtual time (ns).
    pub virtual_ns: Nanos,
    /// I/Os of all drives.
    pub ios: u64,
    /// Of them, those that failed.
    pub errors: u64,
    /// Their latencies together (ns).
    latencies: u128,
    /// Faults that have happened.
    pub faults: u64,
    /// I/Os a second since the figures before these, and their mean latency (ns).
    pub lately: Option<(f64, f64)>,
}

impl SoFar {
    /// The figures of these drives.
    pub fn of(drives: &[DriveStatistics], faults: u64, virtual_ns: Nanos) -> Self {
        let mut all = Self { virtual_ns, faults, ..Self::default() };
        for figures in drives.iter().flat_map(|drive| &drive.operations) {
            all.ios += figures.count;
            all.errors += figures.errors();
            all.latencies += figures.latencies.delivered.sum();
        }
        all
    }

    /// Adds the rates since `before`.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        let seconds = self.virtual_ns.saturating_sub(before.virtual_ns) as f64 / 1e9;
        let ios = self.ios.saturating_sub(before.ios) as f64;
        let latencies = self.latencies.saturating_sub(before.latencies) as f64;
        self.lately = (seconds > 0.0).then(|| (ios / seconds, latencies / ios.max(1.0)));
        self
    }

    /// The I/Os and the faults, a line each.
    pub fn lines(&self) -> [String; 2] {
        let ios = units::count(self.ios);
        let failed = match self.errors {
            0 => String::new(),
            errors => format!(", {} failed", units::count(errors)),
        };
        let lately = match self.lately {
            Some((rate, mean)) if rate > 0.0 => format!(
                "; lately {} a second, {} on average",
                units::significant(rate, 3),
                units::duration(mean)
            ),
            _ => String::new(),
        };
        let faults = match self.faults {
            0 => "no fault so far".to_owned(),
            1 => "1 fault so far".to_owned(),
            faults => format!("{} faults so far", units::count(faults)),
        };
        [format!("{ios} I/Os{failed}{lately}"), faults]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lately_is_the_difference_from_before() {
        let at =
            |virtual_ns, ios, latencies| SoFar { virtual_ns, ios, latencies, ..SoFar::default() };
        let first = at(1_000_000_000, 1_000, 100_000_000);
        let next = at(1_500_000_000, 1_100, 120_000_000).after(&first);
        assert_eq!(next.lately, Some((200.0, 200_000.0)));
        let [ios, faults] = next.lines();
        assert_eq!(ios, "1,100 I/Os; lately 200 a second, 200 µs on average");
        assert_eq!(faults, "no fault so far");
        // Nothing has happened meanwhile, or no time has passed.
        assert_eq!(first.clone().after(&first).lately, None);
        let still = at(2_000_000_000, 1_000, 100_000_000).after(&first);
        assert_eq!(still.lines()[0], "1,000 I/Os");
    }
}
