//! The answer of a crash test.

use super::{capital, counted, Verdict};
use crate::table::Tone;
use stasis_results::units;

/// The facts of a crash test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashTest {
    /// Power cuts, and how many different states they left.
    pub cuts: u64,
    /// See [`CrashTest::cuts`].
    pub distinct: u64,
    /// Numbers and kinds of the states that were asked for and not looked at.
    pub not_inspected: Option<String>,
    /// Findings that a clock of instructions did not repeat, in a clause.
    pub not_repeated: Option<String>,
    /// True if it was stopped before its end.
    pub is_stopped: bool,
    /// Number of states that a check inspected in a guest; 0 without one.
    pub checked: u64,
    /// Number of those on which the check failed.
    pub failed: u64,
    /// Interval of the check: it looks at one of this many power cuts.
    pub check_every: u64,
    /// The findings; none where nothing was found.
    pub broken: Option<Broken>,
}

/// The findings of a crash test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Findings, and their causes.
    pub findings: u64,
    /// See [`Broken::findings`].
    pub causes: u64,
    /// True if all that was found is that the check took too long.
    pub is_late: bool,
    /// An example in a sentence of its own, which may be empty.
    pub example: String,
    /// The kind of most findings and its drive.
    pub most: String,
}

impl CrashTest {
    /// The answer.
    pub fn verdict(&self) -> Verdict {
        let (word, tone) = match (&self.broken, self.is_stopped) {
            (None, false) => ("nothing found", Tone::Good),
            (None, true) => ("interrupted", Tone::Neutral),
            (Some(broken), _) if broken.is_late => ("check too slow", Tone::Bad),
            (Some(_), _) => ("broken", Tone::Bad),
        };
        let states = format!(
            "{}, which left {} that differ in their disks or in what was promised by then",
            counted(self.cuts, "power cut", "power cuts"),
            counted(self.distinct, "state", "states")
        );
        let mut sentences = match &self.broken {
            None => vec![format!("{states}; none has what a power cut must not leave.")],
            Some(broken) => {
                let causes = counted(broken.causes, "cause", "causes");
                let findings = counted(broken.findings, "finding", "findings");
                let share = if broken.causes == 1 { "" } else { "most of them " };
                let example = capital(broken.example.trim());
                let found = format!("{}: {findings} of {causes}, {share}{}.", states, broken.most);
                [example, found].into_iter().filter(|one| !one.is_empty()).collect()
            }
        };
        if self.checked > 0 {
            let rest = match (self.cuts.saturating_sub(self.checked), self.check_every) {
                (0, _) => String::new(),
                (_, 2..) => {
                    format!("; --check-every asks for one in {}", units::count(self.check_every))
                }
                // States with the same disks and lines have the same answer.
                (1, _) => {
                    "; the other left the same disks after the same lines as one of these".into()
                }
                (..) => {
                    "; the others left the same disks after the same lines as one of these".into()
                }
            };
            let failed = match self.failed {
                0 => "passed on all".to_owned(),
                failed => format!("failed on {}", units::count(failed)),
            };
            sentences.push(format!(
                "A guest checked {} of {}, each with the lines of output until then; the check {failed} of them{rest}.",
                units::count(self.checked),
                counted(self.cuts, "power cut", "power cuts"),
            ));
            let findings = self.broken.as_ref().map_or(0, |broken| broken.findings);
            if findings > self.failed && self.failed < self.checked {
                sentences.push("A cut can lose what the check does not look at.".to_owned());
            }
        }
        if let Some(rest) = &self.not_inspected {
            sentences.push(format!("Interrupted: {rest} were not looked at."));
        }
        sentences
            .extend(self.not_repeated.as_ref().map(|sentence| format!("{}.", capital(sentence))));
        Verdict::new(word, tone, sentences.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn all_cases_have_a_verdict() {
        let broken = |findings, causes, is_late, example: &str| Broken {
            findings,
            causes,
            is_late,
            example: example.into(),
            most: "lost data, of drive0".into(),
        };
        let all = [
            None,
            Some(broken(1, 1, false, "“step 7” relied on a write that state 3 has lost. ")),
            Some(broken(9, 1, false, "")),
            Some(broken(9, 3, false, "fsck: clean (state 4, power cut at 1 s). ")),
            Some(broken(2, 1, true, "")),
        ];
        for (broken, is_stopped) in all.iter().flat_map(|one| [true, false].map(|two| (one, two))) {
            for (cuts, distinct, checked, failed, check_every) in [
                (0, 0, 0, 0, 1),
                (1, 1, 1, 0, 1),
                (5000, 900, 0, 0, 1),
                (5000, 900, 90, 2, 1),
                (5000, 900, 9, 9, 50),
            ] {
                let broken = broken.clone();
                let not_inspected = is_stopped.then(|| "9 of 10 just after lines of output".into());
                let not_repeated = None;
                let case = CrashTest {
                    cuts,
                    distinct,
                    not_inspected,
                    not_repeated,
                    is_stopped,
                    checked,
                    failed,
                    check_every,
                    broken,
                };
                let verdict = case.verdict();
                check(&verdict, &format!("{case:?}"));
                let good = verdict.tone == Tone::Good;
                assert_eq!(good, case.broken.is_none() && !is_stopped, "{case:?}");
            }
        }
    }
}
