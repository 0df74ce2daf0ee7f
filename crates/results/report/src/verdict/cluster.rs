//! The answer of a run of several machines: their commands' last words, and the faults.

use super::{capital, counted, Verdict};
use crate::table::Tone;
use stasis_results::units;

/// Commands and faults that the sentence names; of more faults it has their number.
const NAMED: usize = 3;
/// Limit on the characters of a line that the answer repeats.
const MAX_WORDS: usize = 160;

/// The facts of a run of several machines. Times are of the page's axis (ns).
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster<'a> {
    /// The machines whose commands have ended and wrote something, each with its last line; those
    /// that failed first.
    pub last_lines: Vec<(&'a str, &'a str)>,
    /// True if the experiment has faults.
    pub has_faults: bool,
    /// The faults that came, in the order of time.
    pub faults: Vec<Fault<'a>>,
    /// True if any drive had an I/O.
    pub has_ios: bool,
}

/// A fault that came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// The machine, drive or network that it befell.
    pub target: &'a str,
    /// Its begin.
    pub begin: f64,
    /// Its length; 0 of an instant.
    pub length: f64,
}

/// The operations of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Operations<'a> {
    /// Operations that began, those that were done, that failed, and whose outcome is unknown.
    pub counts: [u64; 4],
    /// The time of the longest (ns).
    pub longest: f64,
    /// The longest time in which none was done (ns), and the fault that it is around.
    pub gap: (f64, Option<Fault<'a>>),
}

impl Cluster<'_> {
    /// The answer; none where the commands wrote nothing and only drives have something to tell.
    pub fn verdict(&self) -> Option<Verdict> {
        let quoted = |(machine, line): &(&str, &str)| {
            let mut words: String = line.chars().take(MAX_WORDS).collect();
            if words.len() < line.len() {
                words.push('…');
            }
            format!("“{words}” ({machine}).")
        };
        let sentences = self.last_lines.iter().take(NAMED).map(quoted).chain(self.faults());
        let sentences: Vec<_> = sentences.collect();
        let sentence = match (sentences.is_empty(), self.has_ios) {
            (true, true) => return None,
            (true, false) => "The commands succeeded.".to_owned(),
            (false, _) => sentences.join(" "),
        };
        Some(Verdict::new("succeeded", Tone::Good, sentence))
    }

    fn faults(&self) -> Option<String> {
        let (Some(first), Some(last)) = (self.faults.first(), self.faults.last()) else {
            return self.has_faults.then(|| "No fault came.".to_owned());
        };
        if self.faults.len() > NAMED {
            return Some(format!(
                "{}, from {} to {}.",
                counted(self.faults.len() as u64, "fault", "faults"),
                units::duration(first.begin),
                units::duration(last.begin)
            ));
        }
        let each: Vec<_> = self.faults.iter().map(Fault::clause).collect();
        Some(format!("{}.", capital(&each.join("; "))))
    }
}

impl Fault<'_> {
    fn clause(&self) -> String {
        let Self { kind, target, .. } = self;
        let begin = units::duration(self.begin);
        if self.length == 0.0 {
            format!("{kind} of {target} at {begin}")
        } else {
            format!("{kind} of {target} for {} from {begin} on", units::duration(self.length))
        }
    }
}

impl Operations<'_> {
    /// A note for the page's top.
    pub fn note(&self) -> String {
        let [began, ok, fail, info] = self.counts;
        let unknown = match info {
            0 => String::new(),
            info => format!(", and the outcome of {} is unknown", units::count(info)),
        };
        let (gap, fault) = &self.gap;
        let during = fault.map_or(String::new(), |Fault { kind, target, begin, .. }| {
            format!(", around the {kind} of {target} at {}", units::duration(begin))
        });
        format!(
            "Clients began {}: {} were done, {} failed{unknown}. The longest took {}; the longest time without success was \
             {}{during}.",
            counted(began, "operation", "operations"),
            units::count(ok),
            units::count(fail),
            units::duration(self.longest),
            units::duration(*gap),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    /// With and without last words, long ones, faults of each number and kind, and I/Os.
    #[test]
    fn all_cases_have_a_verdict() {
        let long = "ä".repeat(500);
        let lines: [&[(&str, &str)]; 4] = [
            &[],
            &[("client", "46 of 60 acknowledged, none lost")],
            &[("client", long.as_str()), ("b", "x"), ("c", "y"), ("d", "z")],
            &[("client", "done."), ("redis1", "ready")],
        ];
        let instant = Fault { kind: "power-cut", target: "redis1", begin: 6e8, length: 0.0 };
        let partition = Fault { kind: "loss", target: "net0", begin: 1e9, length: 4e8 };
        let faults: [&[Fault]; 4] =
            [&[], &[instant], &[instant, partition, instant], &[partition; 5]];
        for (last_lines, faults) in
            lines.iter().flat_map(|one| faults.iter().map(move |two| (one, two)))
        {
            for (has_faults, has_ios) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let has_faults = has_faults || !faults.is_empty();
                let (last_lines, faults) = (last_lines.to_vec(), faults.to_vec());
                let case = Cluster { last_lines, has_faults, faults, has_ios };
                let Some(verdict) = case.verdict() else {
                    assert!(case.last_lines.is_empty() && !has_faults && has_ios, "{case:?}");
                    continue;
                };
                check(&verdict, &format!("{case:?}"));
                if let Some((machine, _)) = case.last_lines.first() {
                    assert!(verdict.sentence.starts_with('“'), "{verdict:?}");
                    assert!(verdict.sentence.contains(&format!("” ({machine}).")), "{verdict:?}");
                }
                assert_eq!(
                    verdict.sentence.contains("No fault came."),
                    has_faults && case.faults.is_empty()
                );
                assert!(verdict.sentence.chars().count() < 600, "{verdict:?}");
            }
        }
    }

    #[test]
    fn operations_are_told_with_what_is_unknown() {
        let fault = Fault { kind: "power-cut", target: "redis1", begin: 6e8, length: 0.0 };
        let note = |info, fault| {
            Operations { counts: [60, 46, 3, info], longest: 1e9, gap: (1.2e9, fault) }.note()
        };
        assert_eq!(
            note(0, None),
            "Clients began 60 operations: 46 were done, 3 failed. The longest took 1 s; the longest time without success was 1.2 s."
        );
        assert_eq!(
            note(11, Some(fault)),
            "Clients began 60 operations: 46 were done, 3 failed, and the outcome of 11 is unknown. The longest took 1 s; the \
             longest time without success was 1.2 s, around the power-cut of redis1 at 600 ms."
        );
    }
}
