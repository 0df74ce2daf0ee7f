//! The answer of an exploration.

use super::{counted, Verdict};
use crate::table::Tone;

/// The facts of an exploration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explored {
    /// Number of runs, and of those in which no fault happened or nothing was done.
    pub runs: u64,
    /// See [`Explored::runs`].
    pub vacuous: u64,
    /// Number of runs that failed.
    pub failed: u64,
    /// Number of runs that could not be made.
    pub broken: u64,
    /// Number of kinds of failures.
    pub findings: u64,
    /// The first finding and what is enough for it, in a clause; empty where nothing was found.
    pub example: String,
    /// True if it was stopped before its end.
    pub is_stopped: bool,
}

impl Explored {
    /// The answer.
    pub fn verdict(&self) -> Verdict {
        let runs = counted(self.runs, "run", "runs");
        let telling = self.runs.saturating_sub(self.vacuous + self.broken);
        let mut end = match self.vacuous {
            0 => String::new(),
            1 => " Another run says nothing: no fault happened, or nothing was done.".to_owned(),
            vacuous => {
                let more = counted(vacuous, "run", "runs");
                format!(" Another {more} say nothing: no fault happened, or nothing was done.")
            }
        };
        if self.is_stopped {
            end.push_str(" It was stopped before its end.");
        }
        if self.findings > 0 {
            let failed = counted(self.failed, "run", "runs");
            let of_those = counted(telling, "run", "runs");
            let sentence =
                format!("Of {of_those} with faults {failed} failed: {}.{end}", self.example);
            return Verdict::new(
                counted(self.findings, "finding", "findings"),
                Tone::Bad,
                sentence,
            );
        }
        match telling {
            0 => Verdict::new(
                "nothing tried",
                Tone::Neutral,
                format!("None of {runs} says anything: no fault happened, or nothing was done."),
            ),
            telling => {
                let of_those = counted(telling, "run", "runs");
                Verdict::new(
                    "nothing found",
                    Tone::Good,
                    format!("All of {of_those} with faults ended well.{end}"),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn every_case_has_an_answer() {
        for runs in [0, 1, 2000] {
            for vacuous in [0, 1, runs] {
                for failed in [0, 1, 30] {
                    for is_stopped in [false, true] {
                        let (findings, vacuous) = (failed.min(3), vacuous.min(runs));
                        let example = match findings {
                            0 => String::new(),
                            _ => "status 3, by a power cut of db1 at 1.2ms".to_owned(),
                        };
                        let case = Explored {
                            runs,
                            vacuous,
                            failed,
                            broken: 0,
                            findings,
                            example,
                            is_stopped,
                        };
                        let verdict = case.verdict();
                        check(&verdict, &format!("{case:?}"));
                        assert_eq!(verdict.tone == Tone::Bad, failed > 0, "{case:?}");
                    }
                }
            }
        }
    }
}
