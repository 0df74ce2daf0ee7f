//! The figures of candidates, and their differences.

use serde::Serialize;

use stasis_block::Operation;
use stasis_results::units;

use crate::candidate::{Ios, Subject};
use crate::Candidate;
use stasis_results::interval::{mean, of_runs, percentile, Interval};

/// A figure of the I/Os of one operation to one drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// I/Os a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// The arithmetic mean of the latencies.
    Mean,
    /// The percentile of so many per cent of the latencies.
    Percentile(f64),
}

impl Statistic {
    /// All that are looked at, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::Iops,
        Self::Bandwidth,
        Self::Mean,
        Self::Percentile(50.0),
        Self::Percentile(95.0),
        Self::Percentile(99.0),
        Self::Percentile(99.9),
    ];

    /// Returns the figure's name, such as `p99`.
    pub fn name(self) -> String {
        match self {
            Self::Iops => "IOPS".to_owned(),
            Self::Bandwidth => "bandwidth".to_owned(),
            Self::Mean => "mean".to_owned(),
            Self::Percentile(percent) => format!("p{percent}"),
        }
    }

    /// Returns the figure's unit.
    pub fn unit(self) -> Unit {
        match self {
            Self::Iops => Unit::Iops,
            Self::Bandwidth => Unit::BytesPerSecond,
            Self::Mean | Self::Percentile(_) => Unit::Nanoseconds,
        }
    }

    fn of(self, ios: &Ios) -> Option<Interval> {
        match self {
            Self::Iops => Some(Interval::exactly(ios.iops)),
            // Flushes transfer nothing.
            Self::Bandwidth => {
                Some(ios.bytes_per_second).filter(|rate| *rate > 0.0).map(Interval::exactly)
            }
            Self::Mean => mean(&ios.latencies),
            Self::Percentile(percent) => percentile(&ios.latencies, percent),
        }
    }

    /// Returns the figure of a candidate: by its runs where there are several, else by its I/Os.
    pub(crate) fn measured(self, candidate: &Candidate, subject: &Subject) -> Option<Interval> {
        if self == Self::Bandwidth && !subject.1.has_bandwidth() {
            return None;
        }
        let runs: Vec<_> = candidate.of(subject).collect();
        match runs.as_slice() {
            [] => None,
            [one] => self.of(one),
            several => {
                let figures: Option<Vec<f64>> =
                    several.iter().map(|run| Some(self.of(run)?.value)).collect();
                // No latency and no rate is below 0.
                of_runs(&figures?).map(|found| found.not_below(0.0))
            }
        }
    }
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Unit of latencies.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Unit of rates of I/Os.
    #[serde(rename = "1/s")]
    Iops,
    /// Unit of rates of bytes.
    #[serde(rename = "B/s")]
    BytesPerSecond,
}

impl Unit {
    /// A figure with the unit.
    pub(crate) fn shown(self, value: f64) -> String {
        match self {
            Self::Nanoseconds => units::duration(value),
            Self::Iops => format!("{}/s", units::significant(value, 4)),
            Self::BytesPerSecond => units::bandwidth(value),
        }
    }

    /// A figure with its interval, where that is known.
    pub(crate) fn with_interval(self, interval: &Interval) -> String {
        let Interval { value, low, high, .. } = *interval;
        let [value, low, high] = [value, low, high].map(|value| self.shown(value));
        match interval.is_known() {
            true => format!("{value} [{low}, {high}]"),
            false => value,
        }
    }
}

/// One figure of a candidate beside the first one's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The candidate's name.
    pub candidate: String,
    /// The drive.
    pub drive: String,
    /// The operation.
    pub operation: Operation,
    /// The statistic that is compared, such as `p99`.
    pub statistic: String,
    /// The figures' unit.
    pub unit: Unit,
    /// The first candidate's figure.
    pub base: Interval,
    /// The other candidate's figure.
    pub value: Interval,
    /// Difference from the first one's (%).
    pub percent: f64,
    /// True if both candidates did the same I/Os, so that their figures can be compared.
    pub comparable: bool,
    /// True if the intervals do not overlap, and the difference matters. A rate of a single run has
    /// no interval, and no difference of it is significant.
    pub significant: bool,
}

impl Difference {
    /// Returns whether a latency is greater than the first candidate's, or a rate less.
    pub fn is_slower(&self) -> bool {
        match self.unit {
            Unit::Nanoseconds => self.percent > 0.0,
            Unit::Iops | Unit::BytesPerSecond => self.percent < 0.0,
        }
    }

    /// Returns whether it is of latencies.
    pub fn is_of_latency(&self) -> bool {
        self.unit == Unit::Nanoseconds
    }

    /// Returns whether it is significant; none where this cannot be told.
    pub(crate) fn significance(&self) -> Option<bool> {
        let is_known = self.comparable && self.base.is_known() && self.value.is_known();
        (self.significant || is_known).then_some(self.significant)
    }
}

/// The figure of `other` beside the base's; `least`: the smallest difference that matters (%).
pub(crate) fn difference(
    subject: &Subject,
    statistic: Statistic,
    base: Interval,
    other: &Candidate,
    (comparable, least): (bool, f64),
) -> Option<Difference> {
    let value = statistic.measured(other, subject)?;
    // A figure of 0 has nothing to be a share of.
    let percent = if base.value == value.value {
        0.0
    } else if base.value == 0.0 {
        f64::INFINITY
    } else {
        (value.value / base.value - 1.0) * 100.0
    };
    Some(Difference {
        candidate: other.name.clone(),
        drive: subject.0.clone(),
        operation: subject.1,
        statistic: statistic.name(),
        unit: statistic.unit(),
        base,
        value,
        percent,
        comparable,
        significant: comparable
            && percent.abs() >= least
            && value.is_known()
            && base.is_known()
            && value.is_apart_from(&base),
    })
}
