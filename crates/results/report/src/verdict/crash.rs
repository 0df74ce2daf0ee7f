//! The answer of a crash test.

use super::{capital, counted, listed, Verdict};
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
    /// The kinds of findings, those with the most findings first.
    pub kinds: Vec<Found>,
    /// Power cuts whose state broke a promise of a drive or an image.
    pub lossy: u64,
    /// Number of those that a guest checked, and of those on which its check passed.
    pub lossy_checked: u64,
    /// See [`Broken::lossy_checked`].
    pub lossy_passed: u64,
    /// True if all that was found is that the check took too long.
    pub is_late: bool,
    /// An example in a sentence of its own, which may be empty.
    pub example: String,
}

/// Findings of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The kind.
    pub kind: &'static str,
    /// Their number.
    pub findings: u64,
    /// Number of their causes.
    pub causes: u64,
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
            "{} left {} that differ in their disks or in what was promised by then",
            counted(self.cuts, "power cut", "power cuts"),
            counted(self.distinct, "state", "states")
        );
        let mut sentences = match &self.broken {
            None => vec![format!("{states}; none has what a power cut must not leave.")],
            Some(broken) => {
                let example = capital(broken.example.trim());
                let found = format!("{states}. {}", broken.found());
                [example, found].into_iter().filter(|one| !one.is_empty()).collect()
            }
        };
        if self.checked > 0 {
            let rest = match (self.cuts.saturating_sub(self.checked), self.check_every) {
                (0, _) => String::new(),
                (_, 2..) => {
                    format!("; --check-every asks for one in {}", units::count(self.check_every))
                }
                // A check's answer follows from the bytes that it reads, and the lines.
                (1, _) => {
                    "; of the other it would read the same, after the same lines, as of one of these".into()
                }
                (..) => {
                    "; of the others it would read the same, after the same lines, as of one of these".into()
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
            sentences.extend(self.broken.as_ref().and_then(Broken::passed));
        }
        if let Some(rest) = &self.not_inspected {
            sentences.push(format!("Interrupted: {rest} were not looked at."));
        }
        sentences
            .extend(self.not_repeated.as_ref().map(|sentence| format!("{}.", capital(sentence))));
        Verdict::new(word, tone, sentences.join(" "))
    }
}

impl Broken {
    /// Findings by kind, each with its causes.
    fn found(&self) -> String {
        let all: u64 = self.kinds.iter().map(|kind| kind.findings).sum();
        let one = |Found { kind, findings, causes }: &Found| {
            let times = counted(*findings, "time", "times");
            format!("{kind} {times} ({})", counted(*causes, "cause", "causes"))
        };
        let kinds: Vec<_> = self.kinds.iter().map(one).collect();
        format!("{}: {}.", counted(all, "finding", "findings"), listed(&kinds))
    }

    /// The part of the cuts with a broken promise that a check in a guest saw, and passed.
    fn passed(&self) -> Option<String> {
        if self.lossy == 0 {
            return None;
        }
        let cuts = counted(self.lossy, "power cut that broke", "power cuts that broke");
        let checked = match self.lossy_checked {
            0 => "none".to_owned(),
            checked => units::count(checked),
        };
        let passed = match (self.lossy_checked, self.lossy_passed) {
            (0, _) => String::new(),
            (_, 0) => ", and its check passed on none of them".to_owned(),
            (_, passed) => format!(
                ", and its check passed on {}: what is lost there is nothing that it looks at",
                units::count(passed)
            ),
        };
        Some(format!("Of {cuts} a promise of a drive, a guest checked {checked}{passed}."))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn all_cases_have_a_verdict() {
        let broken = |kinds: &[(u64, u64)], lossy: [u64; 3], example: &str| {
            let names = ["durable data lost", "broken"];
            let kinds = names.into_iter().zip(kinds);
            let [lossy, lossy_checked, lossy_passed] = lossy;
            Some(Broken {
                kinds: kinds
                    .map(|(kind, &(findings, causes))| Found { kind, findings, causes })
                    .collect(),
                lossy,
                lossy_checked,
                lossy_passed,
                is_late: example == "late",
                example: example.replace("late", ""),
            })
        };
        let step = "“step 7” relied on a write that state 3 has lost. ";
        let clean = "fsck: clean (state 4, power cut at 1 s). ";
        let all = [
            (None, "", ""),
            (broken(&[(1, 1)], [1, 0, 0], step), "1 finding: durable data lost 1 time (1 cause).", "checked none."),
            (broken(&[(9, 1)], [8, 3, 0], ""), "lost 9 times (1 cause).", "passed on none of them."),
            (
                broken(&[(9, 3), (2, 1)], [9, 4, 2], clean),
                "11 findings: durable data lost 9 times (3 causes) and broken 2 times (1 cause).",
                "Of 9 power cuts that broke a promise of a drive, a guest checked 4, and its check passed on 2: ",
            ),
            (broken(&[(2, 1)], [0, 0, 0], "late"), "2 findings: ", ""),
        ];
        for ((broken, found, passed), is_stopped) in
            all.iter().flat_map(|one| [true, false].map(|two| (one, two)))
        {
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
                assert!(verdict.sentence.contains(found), "{case:?}: {verdict:?}");
                let is_known = verdict.sentence.contains(passed);
                assert!(is_known || checked == 0, "{case:?}: {verdict:?}");
            }
        }
    }
}
