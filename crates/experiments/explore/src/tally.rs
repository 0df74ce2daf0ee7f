//! Counts of an exploration's runs, by what became of them and of what befell them.

use std::collections::BTreeMap;

use serde::Serialize;
use stasis_block::clock::Nanos;
use stasis_experiment::ScheduledFault;

use crate::log::Entry;
use crate::moments::{Moments, Phase};
use crate::space::POWER_CUT;
use crate::verdict::{Vacuity, Verdict};

/// Limit on the numbers of runs that a finding lists.
const MAX_LISTED: usize = 20;

/// Runs by their verdicts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All runs.
    pub runs: u64,
    /// Runs that ended well, with faults and work.
    pub passed: u64,
    /// Runs in which none of the faults happened.
    pub no_fault: u64,
    /// Runs in which no operation was acknowledged.
    pub no_work: u64,
    /// Runs in which a checker of the history could not decide.
    pub undecided: u64,
    /// Runs in which an oracle found something.
    pub failed: u64,
    /// Runs that could not be made.
    pub broken: u64,
    /// Runs with a power cut at most 10 ms after an acknowledgement.
    pub cut_after_acknowledgement: u64,
}

/// Runs in which a kind of fault happened in a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Landed {
    /// The fault's kind.
    pub kind: String,
    /// The drive, the machine or the machines that it befell.
    pub target: String,
    /// The phase in which it happened first.
    pub phase: Phase,
    /// Number of faults.
    pub faults: u64,
    /// Number of those in runs that failed.
    pub failed: u64,
}

/// Failures with one signature.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Their signature.
    pub signature: String,
    /// Number of runs that failed so.
    pub count: u64,
    /// Numbers of these runs, the first ones.
    pub runs: Vec<u64>,
}

impl Group {
    /// Number of runs after which a correction is believed at 95 %, of `runs` until now: the failure
    /// would have come by then with a probability of 0.95, at its share of the runs so far.
    pub fn runs_to_believe(&self, runs: u64) -> u64 {
        let share = self.count as f64 / runs.max(1) as f64;
        if share >= 1.0 {
            return 1;
        }
        (0.05f64.ln() / (1.0 - share).ln()).ceil() as u64
    }
}

/// The counts of an exploration.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Runs by verdict.
    pub counts: Counts,
    landed: BTreeMap<(String, String, Phase), (u64, u64)>,
    /// Failures by signature, in the order of their first runs.
    pub groups: Vec<Group>,
    /// The reason of the first run that could not be made.
    pub broken: Option<String>,
}

impl Tally {
    /// Counts a run.
    pub fn add(&mut self, entry: &Entry, moments: &Moments) {
        let Self { counts, landed, groups, broken } = self;
        counts.runs += 1;
        match &entry.verdict {
            Verdict::Passed => counts.passed += 1,
            Verdict::Vacuous(Vacuity::NoFault) => counts.no_fault += 1,
            Verdict::Vacuous(Vacuity::NoWork) => counts.no_work += 1,
            Verdict::Vacuous(Vacuity::Undecided) => counts.undecided += 1,
            Verdict::Broken(why) => {
                counts.broken += 1;
                broken.get_or_insert_with(|| why.clone());
            }
            Verdict::Failed(failure) => {
                counts.failed += 1;
                let signature = failure.signature();
                let place = groups.iter().position(|group| group.signature == signature);
                let place = place.unwrap_or_else(|| {
                    groups.push(Group { signature, count: 0, runs: Vec::new() });
                    groups.len() - 1
                });
                let group = &mut groups[place];
                group.count += 1;
                if group.runs.len() < MAX_LISTED {
                    group.runs.push(entry.run);
                }
            }
        }
        counts.cut_after_acknowledgement += u64::from(entry.cut_after_acknowledgement);
        let failed = u64::from(matches!(entry.verdict, Verdict::Failed(_)));
        for (fault, at) in entry.faults.iter().zip(&entry.happened_ns) {
            let Some(at) = at else { continue };
            let key = (fault.kind.clone(), fault.target(), moments.phase(*at));
            let count = landed.entry(key).or_default();
            *count = (count.0 + 1, count.1 + failed);
        }
    }

    /// The faults that have happened, by kind, target and phase.
    pub fn landed(&self) -> Vec<Landed> {
        let row =
            |((kind, target, phase), (faults, failed)): (&(String, String, Phase), &(u64, u64))| {
                let (kind, target) = (kind.clone(), target.clone());
                Landed { kind, target, phase: *phase, faults: *faults, failed: *failed }
            };
        self.landed.iter().map(row).collect()
    }
}

/// Limit on the time from an acknowledgement to a cut that counts as just after it (ns).
const JUST_AFTER: Nanos = 10_000_000;

/// Returns whether a power cut came just after an acknowledgement; `acknowledged`: rising times, as those
/// of `happened`.
pub fn cuts_after_acknowledgement(
    faults: &[ScheduledFault],
    happened: &[Option<Nanos>],
    acknowledged: &[Nanos],
) -> bool {
    let cuts = faults.iter().zip(happened).filter(|(fault, _)| fault.kind == POWER_CUT);
    cuts.filter_map(|(_, at)| *at).any(|at| {
        let before = acknowledged.partition_point(|time| *time <= at);
        before.checked_sub(1).is_some_and(|last| at - acknowledged[last] <= JUST_AFTER)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_is_believed_after_as_many_runs_as_the_failure_is_rare() {
        let group = |count| Group { signature: String::new(), count, runs: Vec::new() };
        assert_eq!(group(10).runs_to_believe(10), 1);
        assert_eq!(group(5).runs_to_believe(10), 5);
        assert_eq!(group(1).runs_to_believe(100), 299);
    }

    #[test]
    fn a_cut_counts_if_it_is_just_after_an_acknowledgement() {
        let cut = ScheduledFault { kind: "power-cut".into(), ..ScheduledFault::default() };
        let acknowledged = [1_000_000, 20_000_000];
        let counts =
            |at| cuts_after_acknowledgement(std::slice::from_ref(&cut), &[at], &acknowledged);
        assert!(counts(Some(1_000_000)) && counts(Some(30_000_000)));
        assert!(!counts(Some(999_999)) && !counts(Some(11_000_001)) && !counts(None));
    }
}
