//! Candidates beside the first one.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::interval::{mean, of_runs, percentile, Interval};
use crate::Candidate;

/// A statistic of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The arithmetic mean.
    Mean,
    /// The percentile of so many per cent.
    Percentile(f64),
}

impl Statistic {
    /// All that are looked at.
    pub const ALL: [Self; 5] = [
        Self::Mean,
        Self::Percentile(50.0),
        Self::Percentile(95.0),
        Self::Percentile(99.0),
        Self::Percentile(99.9),
    ];

    /// Its name, such as `p99`.
    pub fn name(self) -> String {
        match self {
            Self::Mean => "mean".to_owned(),
            Self::Percentile(percent) => format!("p{percent}"),
        }
    }

    fn of(self, sorted: &[u64]) -> Option<Interval> {
        match self {
            Self::Mean => mean(sorted),
            Self::Percentile(percent) => percentile(sorted, percent),
        }
    }

    /// Of a candidate: by its runs where there are several, else by its I/Os.
    fn measured(self, candidate: &Candidate, subject: &(String, String)) -> Option<Interval> {
        let of = |values: &Vec<u64>| self.of(values);
        let runs: Vec<_> = candidate.runs.iter().filter_map(|run| run.get(subject)).collect();
        match runs.as_slice() {
            [] => None,
            [one] => of(one),
            several => {
                let figures: Option<Vec<f64>> =
                    several.iter().map(|run| Some(of(run)?.value)).collect();
                of_runs(&figures?)
            }
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
    pub operation: String,
    /// The statistic that is compared, such as `p99`.
    pub statistic: String,
    /// The first candidate's figure (ns).
    pub base: Interval,
    /// The other candidate's figure (ns).
    pub value: Interval,
    /// How much greater it is than the first one's (%).
    pub percent: f64,
    /// Whether the intervals do not overlap.
    pub significant: bool,
}

/// Candidates beside the first one.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The candidates, the first one of which is what the others are compared with.
    pub candidates: Vec<Candidate>,
    /// The differences, those that matter first: significant ones, then by size.
    pub differences: Vec<Difference>,
    /// Subjects that only some candidates have: drive, operation, and the candidates' names.
    pub apart: Vec<(String, String, Vec<String>)>,
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
        let has = |candidate: &Candidate, subject: &(String, String)| {
            candidate.runs.iter().any(|run| run.contains_key(subject))
        };
        let (mut differences, mut apart) = (Vec::new(), Vec::new());
        for subject in all {
            let with: Vec<_> = candidates.iter().filter(|one| has(one, &subject)).collect();
            if with.len() < candidates.len() {
                let names = with.iter().map(|candidate| candidate.name.clone()).collect();
                apart.push((subject.0.clone(), subject.1.clone(), names));
            }
            for other in others {
                let both = |statistic: Statistic| {
                    let base = statistic.measured(base, &subject)?;
                    Some(difference(&subject, statistic, base, other))
                };
                differences.extend(Statistic::ALL.into_iter().filter_map(both).flatten());
            }
        }
        differences.sort_by(|a, b| {
            let size = |one: &Difference| one.percent.abs();
            b.significant.cmp(&a.significant).then(size(b).total_cmp(&size(a)))
        });
        Some(Self { candidates, differences, apart, renamed })
    }

    /// The significant differences by which a candidate is slower than the first one by more
    /// than `percent`.
    pub fn slower_by(&self, percent: f64) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(move |one| one.significant && one.percent > percent)
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
    subject: &(String, String),
    statistic: Statistic,
    base: Interval,
    other: &Candidate,
) -> Option<Difference> {
    let value = statistic.measured(other, subject)?;
    // A drive without latency has nothing to be a share of.
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
        operation: subject.1.clone(),
        statistic: statistic.name(),
        base,
        value,
        percent,
        significant: value.is_apart_from(&base),
    })
}
