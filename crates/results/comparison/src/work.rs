//! Whether two candidates did the same I/Os: as many, of the same sizes, in the same mix.

use std::collections::{BTreeMap, BTreeSet};

use stasis_report::verdict::{is_close, Work};
use stasis_results::units;

use crate::{Candidate, Subject};

/// By this share (%) of all I/Os and of all bytes two candidates' I/Os of an operation may differ
/// and count as the same. A journal or a cache writes some I/Os more or less at any time.
const SAME: f64 = 2.0;

/// I/Os and bytes of each drive and operation, on average of the runs.
type Amounts = BTreeMap<Subject, (f64, f64)>;

fn amounts(candidate: &Candidate) -> Amounts {
    let runs = candidate.distinct();
    let mut all = Amounts::new();
    for (subject, ios) in runs.iter().flat_map(|run| &run.ios) {
        let (count, bytes) = all.entry(subject.clone()).or_default();
        *count += ios.latencies.len() as f64 / runs.len() as f64;
        *bytes += ios.bytes as f64 / runs.len() as f64;
    }
    all
}

/// I/Os and bytes of all drives and operations.
fn whole(amounts: &Amounts) -> (f64, f64) {
    amounts.values().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1))
}

/// From the first submission to the last completion, on average of the runs (ns).
fn span(candidate: &Candidate) -> f64 {
    let runs = candidate.distinct();
    runs.iter().map(|run| run.time.unwrap_or(run.span)).sum::<f64>() / runs.len().max(1) as f64
}

/// The I/Os of `other` beside those of `base`.
pub(crate) fn work(base: &Candidate, other: &Candidate) -> Work {
    let (was, is) = (amounts(base), amounts(other));
    let (all_was, all_is) = (whole(&was), whole(&is));
    if all_was.0 == 0.0 && all_is.0 == 0.0 {
        return Work::Nothing;
    }
    let differences = differing(&was, &is, 1.0);
    if differences.is_empty() {
        return Work::Same;
    }
    // A load with a time limit does more on a faster drive, of the same kinds.
    let times = all_is.0 / all_was.0.max(1.0);
    let as_long = is_close(span(base), span(other), SAME);
    if as_long && all_was.0 > 0.0 && all_is.0 > 0.0 && differing(&was, &is, times).is_empty() {
        return Work::InTheSameTime(times);
    }
    let several =
        was.keys().chain(is.keys()).map(|(drive, _)| drive).collect::<BTreeSet<_>>().len() > 1;
    Work::Other(differences.into_iter().map(|one| one.text(several)).collect())
}

/// A drive and operation of which the two did not do the same.
struct Differing {
    subject: Subject,
    /// I/Os and bytes of each.
    was: (f64, f64),
    is: (f64, f64),
    /// Which share of the I/Os or bytes the difference is.
    share: f64,
}

/// The operations in which `is` differs from `times` as much as `was`, those that differ most first.
fn differing(was: &Amounts, is: &Amounts, times: f64) -> Vec<Differing> {
    let (all_was, all_is) = (whole(was), whole(is));
    let most = ((all_was.0 * times).max(all_is.0), (all_was.1 * times).max(all_is.1));
    let subjects: BTreeSet<_> = was.keys().chain(is.keys()).cloned().collect();
    let share = |was: f64, is: f64, all: f64| match all > 0.0 {
        true => (is - was * times).abs() / all * 100.0,
        false => 0.0,
    };
    let found = subjects.into_iter().map(|subject| {
        let amount_in = |amounts: &Amounts| amounts.get(&subject).copied().unwrap_or_default();
        let (was, is) = (amount_in(was), amount_in(is));
        let share = share(was.0, is.0, most.0).max(share(was.1, is.1, most.1));
        Differing { subject, was, is, share }
    });
    let mut found: Vec<_> = found.filter(|one| one.share > SAME).collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

impl Differing {
    fn text(&self, several: bool) -> String {
        let name = match self.is.0.round() == 1.0 {
            true => self.subject.1.name(),
            false => units::operations(self.subject.1),
        };
        let of_drive = match several {
            true => format!(" of {}", self.subject.0),
            false => String::new(),
        };
        let [was, is] = [self.was.0, self.is.0].map(|count| units::count(count.round() as u64));
        if was == is {
            let size = |(count, bytes): (f64, f64)| units::bytes((bytes / count.max(1.0)) as u64);
            let [was, now] = [self.was, self.is].map(size);
            return format!("{is} {name}{of_drive} of {now} in place of {was}");
        }
        format!("{is} {name}{of_drive} in place of {was}")
    }
}
