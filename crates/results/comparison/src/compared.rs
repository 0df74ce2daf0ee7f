//! Candidates beside the first one.

use std::collections::BTreeSet;

use serde::Serialize;
use stasis_block::Operation;
use stasis_report::verdict::{
    Alike, Compared, Doer, Latencies, Several, Sure, Times, Verdict, Work,
};
use stasis_results::units;

use crate::candidate::Subject;
use crate::figures::{difference, Difference, Statistic};
use crate::inputs::{self, OtherInput};
use crate::{printed, setup_differences, work, Candidate};
use stasis_results::interval::{of_runs, Interval};

/// Percentiles by which candidates are ranked, the first that all carry.
const RANKED: [f64; 4] = [99.9, 99.0, 95.0, 50.0];

/// Candidates beside the first one.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The candidates, the first one of which is what the others are compared with.
    pub candidates: Vec<Candidate>,
    /// The differences by drive, operation, statistic and candidate.
    pub differences: Vec<Difference>,
    /// Subjects that only some candidates have: drive, operation, and the candidates' names.
    pub apart: Vec<(String, Operation, Vec<String>)>,
    /// Differences in the set-up: the parameter, and its value for each candidate.
    pub setup: Vec<(String, Vec<String>)>,
    /// Files of which another candidate than the first one read others.
    pub inputs: Vec<OtherInput>,
    /// Candidates whose only drive has another name than the first one's only drive, with that
    /// name: they are compared all the same, under the first one's.
    pub renamed: Vec<(String, String)>,
    /// The smallest difference that matters (%).
    pub least: f64,
    /// The I/Os of each candidate but the first beside the first one's.
    pub(crate) works: Vec<Work>,
}

/// A figure of a candidate that is worse than the first one's.
#[derive(Debug, Clone)]
pub enum Slower<'a> {
    /// The candidate's command did not succeed, though the first one's did, for this reason.
    Failed(&'a Candidate, String),
    /// The candidate's command or load takes longer, by so many per cent.
    Time(&'a Candidate, f64),
    /// A latency.
    Latency(&'a Difference),
}

impl Comparison {
    /// Compares candidates; none where there are fewer than two. `least`: the smallest difference
    /// that matters (%).
    pub fn of(mut candidates: Vec<Candidate>, least: f64) -> Option<Self> {
        let renamed = one_name(&mut candidates);
        let (base, others) = candidates.split_first()?;
        if others.is_empty() {
            return None;
        }
        let works: Vec<_> = others.iter().map(|other| work::work(base, other)).collect();
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
                let each = |(other, work): (_, &Work)| {
                    let limits = (work.is_comparable(), least);
                    difference(&subject, statistic, of_base, other, limits)
                };
                differences.extend(others.iter().zip(&works).filter_map(each));
            }
        }
        let setup = setup_differences::differences(&candidates);
        let inputs = inputs::differing(&candidates);
        Some(Self { candidates, differences, apart, setup, inputs, renamed, least, works })
    }

    /// Returns the figures that are worse than the first candidate's by more than `percent`: commands that take longer
    /// or fail, and the significant latencies of candidates that did the same I/Os.
    pub fn slower_by(&self, percent: f64) -> Vec<Slower<'_>> {
        let mut all = Vec::new();
        let base = &self.candidates[0];
        for (other, work) in self.candidates[1..].iter().zip(&self.works) {
            if let (None, Some(why)) = (base.failed(), other.failed()) {
                all.push(Slower::Failed(other, why));
                continue;
            }
            // Beside a command that did not succeed nothing is slower.
            if base.failed().is_some() {
                continue;
            }
            let times = times(base, other).filter(|_| !matches!(work, Work::InTheSameTime(_)));
            if let Some(Times { ns: [was, is], sure }) = times {
                let more = (is / was.max(1.0) - 1.0) * 100.0;
                if sure != Sure::Overlap && more > percent && more >= self.least {
                    all.push(Slower::Time(other, more));
                }
            }
            let latencies = self.differences.iter().filter(|one| one.candidate == other.name);
            let slower = latencies
                .filter(|one| one.is_of_latency() && one.significant && one.percent > percent);
            all.extend(slower.map(Slower::Latency));
        }
        all
    }

    /// Returns whether the times of several commands are known, or why they have none. The time of a load
    /// says nothing beside another load's.
    pub fn is_timed(&self) -> bool {
        let is_timed = |one: &&Candidate| {
            one.doer() == Doer::Command && (time(one).is_some() || one.failed().is_some())
        };
        self.candidates.iter().filter(is_timed).count() > 1
    }

    /// The I/Os of all candidates beside the first one's: the first that is not comparable.
    fn work(&self) -> &Work {
        let other = self.works.iter().find(|work| matches!(work, Work::Other(_)));
        other.or(self.works.first()).unwrap_or(&Work::Nothing)
    }

    /// The answer.
    pub fn verdict(&self) -> Verdict {
        match &self.candidates[..] {
            [base, other] => self.of_two(base, other),
            all => self.of_several(all),
        }
    }

    fn of_two(&self, base: &Candidate, other: &Candidate) -> Verdict {
        let latencies = || self.differences.iter().filter(|one| one.is_of_latency());
        let significant = || latencies().filter(|one| one.significant);
        let slower = significant().filter(|one| one.is_slower()).count();
        // By factor: an eighth is more than twice as much.
        let factor = |one: &Difference| (one.value.value / one.base.value).ln().abs();
        let largest = significant().max_by(|a, b| factor(a).total_cmp(&factor(b)));
        let largest = largest.map(|one| {
            format!(
                "{} of {} of {} is {} in place of {} ({})",
                one.statistic,
                units::operations(one.operation),
                one.drive,
                one.unit.shown(one.value.value),
                one.unit.shown(one.base.value),
                units::deviation(Some(one.percent)),
            )
        });
        let all = latencies().count();
        let faster = significant().count() - slower;
        Compared {
            names: [&base.name, &other.name],
            failed: [base.failed(), other.failed()],
            is_repeated: repeats(base, other),
            doer: other.doer(),
            time: times(base, other),
            printed: self.printed(),
            work: self.works[0].clone(),
            latencies: Latencies { all, slower, faster, largest },
            least: self.least,
            runs: [base.counted(), other.counted()],
        }
        .verdict()
    }

    fn of_several(&self, all: &[Candidate]) -> Verdict {
        let ranking = self.ranking();
        let name = |statistic: Statistic, (drive, operation): &Subject| {
            let of_drive = match self.drives() > 1 {
                true => format!(" of {drive}"),
                false => String::new(),
            };
            format!("{} of {}{of_drive}", statistic.name(), units::operations(*operation))
        };
        let beyond = ranking.as_ref().and_then(|(lower, subject, _)| {
            let highest = Statistic::Percentile(RANKED[0]);
            let figure = |(place, one)| Some((place, highest.measured(one, subject)?.value));
            let some = self.candidates.iter().enumerate().filter_map(figure).collect();
            (*lower != highest).then(|| (name(highest, subject), some))
        });
        let has_intervals = ranking.as_ref().is_some_and(|(statistic, subject, _)| {
            let figure = |one| statistic.measured(one, subject);
            self.candidates.iter().all(|one| figure(one).is_some_and(|one| one.is_known()))
        });
        let latency =
            ranking.map(|(statistic, subject, figures)| (name(statistic, &subject), figures));
        let time = |one: &Candidate| match one.failed() {
            None => time(one).map(|time| time.value),
            Some(_) => None,
        };
        let timed = self.works.iter().any(|work| matches!(work, Work::InTheSameTime(_)));
        let several = |one: &&Candidate| one.runs.len() > 1;
        Several {
            doer: all[0].doer(),
            place: "in",
            each: all.iter().map(|one| (one.name.as_str(), time(one).filter(|_| !timed))).collect(),
            failed: all.iter().filter(|one| one.failed().is_some()).count(),
            work: self.work().clone(),
            latency,
            has_intervals,
            beyond,
            least: self.least,
            seeds: all
                .iter()
                .filter(several)
                .map(|one| one.counted().alike)
                .min()
                .unwrap_or(Alike::No),
        }
        .verdict()
    }

    /// Lines that the commands of two candidates printed with other figures, the base's first.
    pub fn printed(&self) -> Vec<[String; 2]> {
        match &self.candidates[..] {
            [base, other] => match (base.distinct(), other.distinct()) {
                ([was], [is]) => printed::differing(&was.printed, &is.printed, self.least),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// Returns the number of drives.
    pub(crate) fn drives(&self) -> usize {
        self.candidates.iter().flat_map(Candidate::drives).collect::<BTreeSet<_>>().len()
    }

    /// The drive and operation with the most I/Os of those that all have.
    pub(crate) fn main_subject(&self) -> Option<Subject> {
        let ios = |subject: &Subject| -> usize {
            let count_of =
                |one: &Candidate| one.of(subject).map(|ios| ios.latencies.len()).sum::<usize>();
            self.candidates.iter().map(count_of).sum()
        };
        self.subjects().into_iter().max_by_key(ios)
    }

    /// A latency (ns) of [`Self::main_subject`] for each candidate: p99.9, or where there are too
    /// few I/Os the highest percentile that all carry.
    pub(crate) fn ranking(&self) -> Option<(Statistic, Subject, Vec<f64>)> {
        let subject = self.main_subject()?;
        RANKED.into_iter().map(Statistic::Percentile).find_map(|statistic| {
            let figure = |one| Some(statistic.measured(one, &subject)?.value);
            let all: Option<Vec<_>> = self.candidates.iter().map(figure).collect();
            Some((statistic, subject.clone(), all?))
        })
    }

    /// The subjects that all candidates have: drive and operation.
    pub(crate) fn subjects(&self) -> Vec<Subject> {
        let mut all: Vec<_> = self.candidates[0].subjects().cloned().collect();
        all.sort();
        all.dedup();
        all.retain(|subject| {
            self.candidates.iter().all(|one| one.subjects().any(|s| s == subject))
        });
        all
    }

    /// The comparison for other programs.
    pub fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Written<'a> {
            verdict: String,
            sentence: String,
            least_percent: f64,
            candidates: Vec<Beside<'a>>,
            setup: Vec<Parameter<'a>>,
            differences: &'a [Difference],
        }
        #[derive(Serialize)]
        struct Beside<'a> {
            name: &'a str,
            runs: usize,
            /// True if these runs have the same figures, and count as one.
            identical: bool,
            time_ns: Option<Interval>,
            failed: Option<String>,
            /// True if it did the same I/Os as the first one.
            comparable: bool,
        }
        #[derive(Serialize)]
        struct Parameter<'a> {
            name: &'a str,
            values: &'a [String],
        }
        let Verdict { word, sentence, .. } = self.verdict();
        let works = [&Work::Same].into_iter().chain(&self.works);
        let candidates = self.candidates.iter().zip(works).map(|(one, work)| Beside {
            name: &one.name,
            runs: one.runs.len(),
            identical: one.counted().alike > Alike::No,
            time_ns: time(one),
            failed: one.failed(),
            comparable: work.is_comparable(),
        });
        let inputs: Vec<_> = self.inputs.iter().map(OtherInput::row).collect();
        let setup = self.setup.iter().chain(&inputs);
        serde_json::to_string_pretty(&Written {
            verdict: word,
            sentence,
            least_percent: self.least,
            candidates: candidates.collect(),
            setup: setup.map(|(name, values)| Parameter { name, values }).collect(),
            differences: &self.differences,
        })
    }
}

/// The time of a candidate's command or load (ns): that of its run, or the mean of several.
pub(crate) fn time(candidate: &Candidate) -> Option<Interval> {
    let times: Option<Vec<f64>> = candidate.distinct().iter().map(|run| run.time).collect();
    match times?.as_slice() {
        [one] => Some(Interval::exactly(*one)),
        several => of_runs(several),
    }
}

fn times(base: &Candidate, other: &Candidate) -> Option<Times> {
    let (was, is) = (time(base)?, time(other)?);
    let sure = match was.is_known() && is.is_known() {
        false => Sure::OneRunEach,
        true if was.is_apart_from(&is) => Sure::Apart,
        true => Sure::Overlap,
    };
    Some(Times { ns: [was.value, is.value], sure })
}

/// Returns whether one has the I/Os of the other, each at its time.
fn repeats(base: &Candidate, other: &Candidate) -> bool {
    match (base.distinct(), other.distinct()) {
        ([was], [is]) => {
            let has_ios = !was.ios.is_empty();
            has_ios && (was.digest, was.time, &was.ios) == (is.digest, is.time, &is.ios)
        }
        _ => false,
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
