//! The answer of a run's thresholds.

use super::Verdict;
use crate::table::Tone;

/// The thresholds of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    /// Their number.
    pub count: usize,
    /// The thresholds that were not met, a clause each.
    pub unmet: Vec<String>,
}

impl Thresholds {
    /// The answer before `other`, which is of all that nobody asked for; `other` itself without
    /// thresholds.
    pub fn before(&self, other: Verdict) -> Verdict {
        let Some(own) = self.verdict() else { return other };
        let sentence = format!("{} {}", own.sentence, other.sentence);
        match own.tone {
            Tone::Good => {
                Verdict { word: format!("{}; {}", own.word, other.word), sentence, ..other }
            }
            _ => Verdict { sentence, ..own },
        }
    }

    fn verdict(&self) -> Option<Verdict> {
        let count = self.count;
        Some(match (count, self.unmet.len()) {
            (0, _) => return None,
            (1, 0) => Verdict::new("threshold met", Tone::Good, "The threshold is met."),
            (_, 0) => {
                let sentence = format!("All {count} thresholds are met.");
                Verdict::new("thresholds met", Tone::Good, sentence)
            }
            (_, unmet) => Verdict::new(
                format!("{unmet} of {count} thresholds not met"),
                Tone::Bad,
                format!("Not met: {}.", self.unmet.join("; ")),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn what_was_asked_for_comes_first() {
        for tone in [Tone::Good, Tone::Neutral, Tone::Bad] {
            let run = Verdict::new("exact", tone, "1,000 I/Os.");
            for (count, unmet) in [(0, 0), (1, 0), (1, 1), (3, 0), (3, 2), (3, 3)] {
                let unmet = (0..unmet).map(|at| format!("read.p99 < {at}ms is 9 ms")).collect();
                let case = Thresholds { count, unmet };
                let verdict = case.before(run.clone());
                check(&verdict, &format!("{case:?}"));
                match (count, case.unmet.is_empty()) {
                    (0, _) => assert_eq!(verdict, run),
                    (_, true) => assert_eq!(verdict.tone, tone, "{case:?}"),
                    (_, false) => {
                        assert_eq!(verdict.tone, Tone::Bad, "{case:?}");
                        assert!(verdict.sentence.starts_with("Not met: read.p99"), "{case:?}");
                    }
                }
            }
        }
    }
}
