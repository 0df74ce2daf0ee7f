//! Candidates beside the first one.

use std::collections::BTreeSet;

use serde::Serialize;

use stasis_block::Operation;

use crate::candidate::{Ios, Subject};
use crate::interval::{mean, of_runs, percentile, Interval};
use crate::setup;
use crate::Candidate;

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

    /// Its name, such as `p99`.
    pub fn name(self) -> String {
        match self {
            Self::Iops => "IOPS".to_owned(),
            Self::Bandwidth => "bandwidth".to_owned(),
            Self::Mean => "mean".to_owned(),
            Self::Percentile(percent) => format!("p{percent}"),
        }
    }

    /// Its unit.
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

    /// Of a candidate: by its runs where there are several, else by its I/Os.
    pub(crate) fn measured(self, candidate: &Candidate, subject: &Subject) -> Option<Interval> {
        let runs: Vec<_> = candidate.of(subject).collect();
        match runs.as_slice() {
            [] => None,
            [one] => self.of(one),
            several => {
                let figures: Option<Vec<f64>> =
                    several.iter().map(|run| Some(self.of(run)?.value)).collect();
                of_runs(&figures?)
            }
        }
    }
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Of latencies.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Of rates of I/Os.
    #[serde(rename = "1/s")]
    Iops,
    /// Of rates of bytes.
    #[serde(rename = "B/s")]
    BytesPerSecond,
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
    /// How much greater it is than the first one's (%).
    pub percent: f64,
    /// Whether the intervals do not overlap. A rate of a single run has no interval, and no
    /// difference of it is significant.
    pub significant: bool,
}

impl Difference {
    /// Whether a latency is greater than the first candidate's, or a rate less.
    pub fn is_slower(&self) -> bool {
        match self.unit {
            Unit::Nanoseconds => self.percent > 0.0,
            Unit::Iops | Unit::BytesPerSecond => self.percent < 0.0,
        }
    }

    /// Whether it is of latencies.
    pub fn is_of_latency(&self) -> bool {
        self.unit == Unit::Nanoseconds
    }
}

/// Candidates beside the first one.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The candidates, the first one of which is what the others are compared with.
    pub candidates: Vec<Candidate>,
    /// The differences by drive, operation, statistic and candidate.
    pub differences: Vec<Difference>,
    /// Subjects that only some candidates have: drive, operation, and the candidates' names.
    pub apart: Vec<(String, Operation, Vec<String>)>,
    /// What differs in the set-up: the parameter, and its value for each candidate.
    pub setup: Vec<(String, Vec<String>)>,
    /// Candidates whose only drive has another name than the first one's only drive, with that
    /// name: they are compared all the same, under the first one's.
    pub renamed: Vec<(String, String)>,
}

impl Comparison {
    /// Compares candidates; none where there are fewer than two.
    pub fn of(mut candidates: Vec<Candidate>) -> Option<Self> {
        let renamed = one_name(&mut candidates);
        let (base, others) = candidates.split_first()?;
        if others.is_empty() {
            return None;
        }
        let all: BTreeSet<_> = candidates.iter().flat_map(Candidate::subjects).cloned().collect();
        let has = |candidate: &Candidate, subject: &Subject| candidate.of(subject).next().is_some();
        let (mut differences, mut apart) = (Vec::new(), Vec::new());
        for subject in all {
            let with: Vec<_> = candidates.iter().filter(|one| has(one, &subject)).collect();
            if with.len() < candidates.len() {
                let names = with.iter().map(|candidate| candidate.name.clone()).collect();
                apart.push((subject.0.clone(), subject.1, names));
            }
            for statistic in Statistic::ALL {
                let Some(of_base) = statistic.measured(base, &subject) else { continue };
                let each = |other| difference(&subject, statistic, of_base, other);
                differences.extend(others.iter().filter_map(each));
            }
        }
        let setup = setup::differences(&candidates);
        Some(Self { candidates, differences, apart, setup, renamed })
    }

    /// The significant differences of latencies by which a candidate is slower than the first one
    /// by more than `percent`.
    pub fn slower_by(&self, percent: f64) -> impl Iterator<Item = &Difference> {
        self.differences
            .iter()
            .filter(move |one| one.is_of_latency() && one.significant && one.percent > percent)
    }
}

/// Gives the only drive of each candidate the name of the first one's; no change where one has
/// several.
fn one_name(candidates: &mut [Candidate]) -> Vec<(String, String)> {
    let only: Option<Vec<String>> = candidates
        .iter()
        .map(|candidate| {
            let mut drives = candidate.drives().into_iter();
            drives.next().filter(|_| drives.next().is_none())
        })
        .collect();
    let Some((first, others)) = only.as_deref().and_then(<[String]>::split_first) else {
        return Vec::new();
    };
    let mut renamed = Vec::new();
    for (candidate, drive) in candidates.iter_mut().skip(1).zip(others) {
        if drive != first {
            renamed.push((candidate.name.clone(), drive.clone()));
            candidate.rename(first);
        }
    }
    renamed
}

fn difference(
    subject: &Subject,
    statistic: Statistic,
    base: Interval,
    other: &Candidate,
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
        significant: value.is_known() && base.is_known() && value.is_apart_from(&base),
    })
}
