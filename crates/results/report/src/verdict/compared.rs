//! The answer of a comparison: of two, or of several.
//!
//! A comparison begins with the time of the command itself, then has what it printed, then whether
//! the same I/Os were done, and their latencies only where they were.

use super::{capital, counted, listed, Verdict};
use crate::table::Tone;
use stasis_results::units;

/// Below this ratio of two single runs' times a verdict says that chance can make the difference.
const BY_CHANCE: f64 = 1.1;
/// Differences of the I/Os that are told; the rest is counted.
const TOLD: usize = 4;

/// A candidate beside another.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared<'a> {
    /// The name of what is compared with, and of what is compared.
    pub names: [&'a str; 2],
    /// Why the time of each has no meaning, such as `failed with status 1`; none where its command
    /// succeeded.
    pub failed: [Option<String>; 2],
    /// True if one repeats the other's I/Os, each at its time.
    pub is_repeated: bool,
    /// Who took the time.
    pub doer: Doer,
    /// The time of each; none where it is not known.
    pub time: Option<Times>,
    /// Lines that both printed with other figures: the base's and the other's. More than two of
    /// them are told elsewhere.
    pub printed: Vec<[String; 2]>,
    /// Comparison of their I/Os.
    pub work: Work,
    /// The latencies of the I/Os.
    pub latencies: Latencies,
    /// The smallest difference that matters (%).
    pub least: f64,
    /// The runs of each.
    pub runs: [Runs; 2],
}

/// Who took the time that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doer {
    /// A command in a guest.
    Command,
    /// A load or trace without one.
    Load,
}

/// Two times (ns).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// The base's, and the other's.
    pub ns: [f64; 2],
    /// Confidence that they differ.
    pub sure: Sure,
}

/// Confidence that two figures differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sure {
    /// One run each: nothing is known of chance.
    OneRunEach,
    /// The intervals of several runs do not overlap.
    Apart,
    /// The intervals overlap.
    Overlap,
}

/// The I/Os of two candidates beside each other.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Neither did any.
    Nothing,
    /// Both did the same, by counts, sizes and mix.
    Same,
    /// In the same time one did so many times as many of the same kinds and sizes.
    InTheSameTime(f64),
    /// The candidates did different I/Os; the differences, such as `20 flushes in place of 501`.
    Other(Vec<String>),
}

impl Work {
    /// Returns whether latencies of the two can be compared.
    pub fn is_comparable(&self) -> bool {
        matches!(self, Self::Same | Self::InTheSameTime(_))
    }
}

/// Latencies that differ significantly and by enough to matter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latencies {
    /// Number of all, of the longer and of the shorter ones.
    pub all: usize,
    /// See [`Latencies::all`].
    pub slower: usize,
    /// See [`Latencies::all`].
    pub faster: usize,
    /// The largest difference, such as `p99 of reads of drive0 is 2 ms in place of 1 ms (+100 %)`.
    pub largest: Option<String>,
}

/// The runs of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// Number of units.
    pub count: usize,
    /// Likeness of several.
    pub alike: Alike,
}

/// Likeness of the runs of several seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alike {
    /// Their figures differ, or there is one run.
    No,
    /// They have the same latencies, rates and time, and count as one; their I/Os are others by place or time.
    InFigures,
    /// They have the same I/Os, each at its time, as well.
    Whole,
}

impl Alike {
    /// The effect of the seeds, as a sentence's begin; none where they have one.
    fn effect(self) -> Option<&'static str> {
        match self {
            Self::No => None,
            Self::InFigures => {
                Some("The seed changes places or times of single I/Os, and no figure here")
            }
            Self::Whole => Some("The seed changes nothing here"),
        }
    }
}

/// Relation of two times.
enum Pace {
    Unknown,
    Same,
    Unsure,
    /// The other takes less, or more.
    Faster,
    Slower,
}

impl Compared<'_> {
    /// The answer.
    pub fn verdict(&self) -> Verdict {
        if let Some(failed) = self.failure() {
            return failed;
        }
        let [base, other] = self.names;
        if self.is_repeated {
            let sentence =
                format!("Nothing differs: {other} has the I/Os of {base}, each at its time.");
            return Verdict::new("the same", Tone::Good, self.with_seeds(sentence));
        }
        let mut sentences = vec![self.time()];
        if let [_] | [_, _] = &self.printed[..] {
            let printed =
                self.printed.iter().map(|[was, is]| format!("“{is}” in place of “{was}”"));
            sentences.push(format!("It prints {}.", listed(&printed.collect::<Vec<_>>())));
        }
        sentences.push(self.work());
        sentences.push(self.latencies());
        sentences.retain(|one| !one.is_empty());
        let (word, tone) = self.word();
        Verdict::new(word, tone, self.with_seeds(sentences.join(" ")))
    }

    fn failure(&self) -> Option<Verdict> {
        let clause = |place: usize| {
            let why = self.failed[place].as_ref()?;
            Some(format!("the command of {} {why}", self.names[place]))
        };
        let clauses: Vec<_> = [clause(0), clause(1)].into_iter().flatten().collect();
        if clauses.is_empty() {
            return None;
        }
        let sentence = format!("Not compared: {}.", clauses.join(", and "));
        Some(Verdict::new("not compared", Tone::Bad, sentence))
    }

    fn pace(&self) -> Pace {
        if let Work::InTheSameTime(_) = self.work {
            return Pace::Same;
        }
        let Some(Times { ns: [was, is], sure }) = self.time else { return Pace::Unknown };
        match (is_close(was, is, self.least), sure) {
            (true, _) => Pace::Same,
            (false, Sure::Overlap) => Pace::Unsure,
            (false, _) if is < was => Pace::Faster,
            (false, _) => Pace::Slower,
        }
    }

    fn word(&self) -> (&'static str, Tone) {
        let Latencies { slower, faster, .. } = self.latencies;
        let comparable = self.work.is_comparable();
        match (self.pace(), &self.work) {
            // A load is given: its time says something of the same one only.
            (_, Work::Other(_)) if self.doer == Doer::Load => ("other I/Os", Tone::Neutral),
            (Pace::Faster, _) if comparable && slower > 0 => {
                ("faster; some I/Os slower", Tone::Neutral)
            }
            (Pace::Faster, _) => ("faster", Tone::Good),
            (Pace::Slower, _) if comparable && faster > 0 && slower == 0 => {
                ("slower, though I/Os are faster", Tone::Bad)
            }
            (Pace::Slower, _) => ("slower", Tone::Bad),
            (_, Work::InTheSameTime(times)) if !is_close(1.0, *times, self.least) => {
                match *times > 1.0 {
                    true if slower > 0 => ("more I/Os; some slower", Tone::Neutral),
                    true => ("faster", Tone::Good),
                    false => ("slower", Tone::Bad),
                }
            }
            (_, Work::Same | Work::InTheSameTime(_)) => match (slower, faster) {
                (0, 0) => ("no difference", Tone::Good),
                (0, _) => ("faster", Tone::Good),
                (_, 0) => ("slower", Tone::Bad),
                _ => ("slower and faster", Tone::Bad),
            },
            (Pace::Same, Work::Other(_)) => ("as fast, by other I/Os", Tone::Neutral),
            (Pace::Same, Work::Nothing) => ("no difference", Tone::Good),
            (Pace::Unsure, _) => ("not told apart", Tone::Neutral),
            (Pace::Unknown, Work::Other(_)) => ("other I/Os", Tone::Neutral),
            (Pace::Unknown, Work::Nothing) => ("no I/O", Tone::Neutral),
        }
    }

    fn time(&self) -> String {
        let Some(Times { ns: [was, is], sure }) = self.time else { return String::new() };
        let ([base, other], doer) = (self.names, self.doer.name());
        let times = |ns: f64| units::duration(ns);
        if let Work::InTheSameTime(_) = self.work {
            return String::new();
        }
        if let (Doer::Load, Work::Other(_)) = (self.doer, &self.work) {
            return format!(
                "The load takes {} in {other} and {} in {base}.",
                times(is),
                times(was)
            );
        }
        match self.pace() {
            Pace::Unknown => String::new(),
            Pace::Same if was == is => format!("The {doer} takes {} in both.", times(is)),
            Pace::Same => format!(
                "The {doer} takes as long in both, within {}: {} in {other}, {} in {base}.",
                percent(self.least),
                times(is),
                times(was)
            ),
            Pace::Unsure => format!(
                "The {doer} takes {} in {other} and {} in {base}; the intervals of the runs overlap, so that chance can \
                 make the difference.",
                times(is),
                times(was)
            ),
            Pace::Faster | Pace::Slower => {
                let chance = match (sure, was.max(is) < BY_CHANCE * was.min(is)) {
                    (Sure::OneRunEach, true) => " Of one run each: several seeds tell whether that is chance.",
                    _ => "",
                };
                format!(
                    "The {doer} takes {} in {other} in place of {} in {base}{}.{chance}",
                    times(is),
                    times(was),
                    pace(": ", was, is)
                )
            }
        }
    }

    fn work(&self) -> String {
        let [base, other] = self.names;
        match &self.work {
            Work::Nothing => "No I/O reached a modelled drive.".to_owned(),
            Work::Same => String::new(),
            Work::InTheSameTime(times) if is_close(1.0, *times, self.least) => {
                "In the same time both did as many I/Os.".to_owned()
            }
            Work::InTheSameTime(times) => format!(
                "In the same time {other} did {} times as many I/Os as {base}, of the same kinds and sizes.",
                units::significant(*times, 3)
            ),
            Work::Other(differences) => {
                let mut shown: Vec<_> = differences.iter().take(TOLD).cloned().collect();
                if differences.len() > TOLD {
                    let more = (differences.len() - TOLD) as u64;
                    shown.push(counted(more, "more difference", "more differences"));
                }
                format!(
                    "They did not do the same I/Os: {other} did {}. Latencies of different work are not compared.",
                    listed(&shown)
                )
            }
        }
    }

    fn latencies(&self) -> String {
        if !self.work.is_comparable() {
            return String::new();
        }
        let least = percent(self.least);
        match (&self.latencies.largest, self.latencies.all) {
            (_, 0) => "There are too few I/Os to compare their latencies.".to_owned(),
            (Some(largest), _) => {
                let begin = match self.work {
                    Work::Same => "Of the same I/Os, ",
                    _ => "",
                };
                format!(
                    "{}, the largest significant difference of a latency.",
                    capital(&format!("{begin}{largest}"))
                )
            }
            (None, 1) => {
                format!("The one latency does not differ significantly by {least} or more.")
            }
            (None, all) => {
                format!("None of the {all} latencies differs significantly by {least} or more.")
            }
        }
    }

    /// The effect of the seeds, after the other sentences.
    fn with_seeds(&self, sentence: String) -> String {
        let [base, other] = [0, 1].map(|place| {
            let runs = self.runs[place];
            (runs.alike > Alike::No)
                .then(|| format!("the {} runs of {}", runs.count, self.names[place]))
        });
        let several = self.runs.iter().map(|runs| runs.alike).filter(|alike| *alike > Alike::No);
        let effect = several.min().and_then(Alike::effect).unwrap_or_default();
        let identical = match (base, other) {
            (None, None) => return sentence,
            (Some(one), None) | (None, Some(one)) => {
                format!("{one} have the same figures and count as one")
            }
            (Some(one), Some(two)) => {
                format!("{one} have the same figures, as have {two}, and count as one each")
            }
        };
        format!("{sentence} {effect}: {identical}.")
    }
}

impl Doer {
    fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Load => "load",
        }
    }
}

/// Returns whether two figures differ by less than a share (%) of the first.
pub fn is_close(was: f64, is: f64, least: f64) -> bool {
    was == is || (is - was).abs() < was.abs() * least / 100.0
}

/// `, 21.4 times as fast`, `, 3 % less`, `, 2 times as long`; empty where one takes no time.
fn pace(before: &str, was: f64, is: f64) -> String {
    let (short, long) = (was.min(is), was.max(is));
    if short < 1.0 {
        return String::new();
    }
    let ratio = long / short;
    let words = match (ratio >= 2.0, is < was) {
        (true, true) => format!("{} times as fast", units::significant(ratio, 3)),
        (true, false) => format!("{} times as long", units::significant(ratio, 3)),
        (false, is_less) => {
            let change = units::significant((is / was - 1.0).abs() * 100.0, 3);
            format!("{change} % {}", if is_less { "less" } else { "more" })
        }
    };
    format!("{before}{words}")
}

fn percent(share: f64) -> String {
    format!("{} %", units::significant(share, 3))
}

/// Several candidates beside each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Several<'a> {
    /// Who took the times.
    pub doer: Doer,
    /// `on` drives, or `in` results.
    pub place: &'a str,
    /// Each one's name and time (ns), which is none where it is not known or its command failed.
    pub each: Vec<(&'a str, Option<f64>)>,
    /// Number of those that failed.
    pub failed: usize,
    /// The I/Os of the others beside the first one's: the first that did others.
    pub work: Work,
    /// A latency that all have, such as `p99.9 of reads`, and each one's (ns).
    pub latency: Option<(String, Vec<f64>)>,
    /// True if all of these have intervals, so that chance is known.
    pub has_intervals: bool,
    /// A latency further up the tail that only some carry, and their places and figures (ns).
    pub beyond: Option<(String, Vec<(usize, f64)>)>,
    /// The smallest difference that matters (%).
    pub least: f64,
    /// Likeness of the runs of all that have several.
    pub seeds: Alike,
}

/// The fastest and the slowest: a place and a figure each.
type Ends = [(usize, f64); 2];

impl Several<'_> {
    /// The candidates with the shortest and the longest time, where all that did not fail have one.
    fn times(&self) -> Option<Ends> {
        let known = self.each.iter().enumerate();
        let known: Vec<_> = known.filter_map(|(place, (_, ns))| Some((place, (*ns)?))).collect();
        let all = known.len() + self.failed >= self.each.len();
        ends(&known).filter(|_| all)
    }

    /// The answer.
    pub fn verdict(&self) -> Verdict {
        let failed = match (self.failed, self.each.len()) {
            (0, _) => String::new(),
            (failed, all) if failed >= all => "The command failed everywhere.".to_owned(),
            (failed, all) => format!("It failed {} {failed} of {all}.", self.place),
        };
        let times = self.times();
        let latency = self.latency.as_ref().filter(|_| self.work.is_comparable());
        let latency = latency.and_then(|(name, all)| {
            let all: Vec<_> = all.iter().copied().enumerate().collect();
            Some((name, ends(&all)?))
        });
        let mut sentences = Vec::new();
        if let Some(times) = times {
            sentences.push(self.time(times));
        }
        sentences.push(failed);
        sentences.push(match (&self.work, self.latency.is_some()) {
            (Work::Other(_), true) => {
                "Not all did the same I/Os, so that their latencies are not ranked.".to_owned()
            }
            (Work::Nothing, _) => "No I/O reached a modelled drive.".to_owned(),
            _ => String::new(),
        });
        sentences.extend(latency.as_ref().map(|(name, ends)| self.latency(name, *ends)));
        sentences.extend(latency.as_ref().and_then(|_| self.beyond()));
        sentences.retain(|one| !one.is_empty());
        if sentences.is_empty() {
            sentences.push("No drive and operation is in all results.".to_owned());
        }
        sentences.extend(self.seeds.effect().map(|effect| {
            format!("{effect}: runs of one have the same figures, and count as one.")
        }));
        let differing = |ends: &Ends| !is_close(ends[0].1, ends[1].1, self.least);
        // The tile names its measure: another one can be at the front of another measure.
        let by_time = times.filter(differing).map(|ends| ("time", ends));
        let by_latency = latency.as_ref().map(|(name, ends)| (name.as_ref(), *ends));
        let least = by_time.or(by_latency.filter(|(_, ends)| differing(ends)));
        let (word, tone) = match (self.failed, least) {
            (1.., _) => {
                (format!("failed {} {} of {}", self.place, self.failed, self.each.len()), Tone::Bad)
            }
            (0, Some((measure, [best, _]))) => {
                (format!("shortest {measure}: {}", self.each[best.0].0), Tone::Neutral)
            }
            (0, None) if times.is_some() || latency.is_some() => {
                ("no difference".to_owned(), Tone::Neutral)
            }
            (0, None) => ("not compared".to_owned(), Tone::Neutral),
        };
        Verdict::new(word, tone, sentences.join(" "))
    }

    fn time(&self, [best, worst]: Ends) -> String {
        let name = |place: usize| self.each[place].0;
        let (doer, place) = (self.doer.name(), self.place);
        let time = units::duration;
        match is_close(best.1, worst.1, self.least) {
            true if best.0 == worst.0 => {
                format!("The {doer} takes {} {place} {}.", time(best.1), name(best.0))
            }
            true => format!(
                "The {doer} takes as long {place} all, within {}: {} to {}.",
                percent(self.least),
                time(best.1),
                time(worst.1)
            ),
            false => format!(
                "The {doer} takes {} {place} {}, and {} {place} {}{}.",
                time(best.1),
                name(best.0),
                time(worst.1),
                name(worst.0),
                pace(": ", best.1, worst.1)
            ),
        }
    }

    /// The order further up the tail, of those that carry it.
    fn beyond(&self) -> Option<String> {
        let (latency, some) = self.beyond.as_ref()?;
        let [best, worst] = ends(some).filter(|[best, worst]| best.0 != worst.0)?;
        let name = |place: usize| self.each[place].0;
        let carries = |place: usize| some.iter().any(|(each, _)| *each == place);
        let few = (0..self.each.len()).filter(|place| !carries(*place)).map(name);
        let few: Vec<_> = few.map(str::to_owned).collect();
        Some(format!(
            "At {latency}, for which {} did too few I/Os, {} is the fastest of the others, {}, and {} their slowest, {}.",
            listed(&few),
            name(best.0),
            units::duration(best.1),
            name(worst.0),
            units::duration(worst.1)
        ))
    }

    fn latency(&self, latency: &str, [best, worst]: Ends) -> String {
        let name = |place: usize| self.each[place].0;
        let time = units::duration;
        match is_close(best.1, worst.1, self.least) {
            true if best.1 == worst.1 => format!("At {latency} all take {}.", time(best.1)),
            true => format!("At {latency} all take as long, within {}.", percent(self.least)),
            false => format!(
                "At {latency} {} is the fastest, {}, and {} the slowest, {}{}{}.",
                name(best.0),
                time(best.1),
                name(worst.0),
                time(worst.1),
                pace(", ", best.1, worst.1),
                match self.has_intervals {
                    true => "",
                    false => "; too few I/Os carry these figures to tell what is chance",
                }
            ),
        }
    }
}

fn ends(all: &[(usize, f64)]) -> Option<Ends> {
    let best = all.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let worst = all.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some([*best, *worst])
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    const ONE: Runs = Runs { count: 1, alike: Alike::No };

    fn compared<'a>() -> Compared<'a> {
        Compared {
            names: ["one", "lazy"],
            failed: [None, None],
            is_repeated: false,
            doer: Doer::Command,
            time: Some(Times { ns: [1.0972e9, 51.3e6], sure: Sure::OneRunEach }),
            printed: vec![["470 commits a second".into(), "30,800 commits a second".into()]],
            work: Work::Other(vec![
                "1,210 writes in place of 1,704".into(),
                "20 flushes in place of 501".into(),
            ]),
            latencies: Latencies {
                all: 8,
                slower: 3,
                faster: 1,
                largest: Some(
                    "p99 of writes of drive0 is 2 ms in place of 1 ms (+100.00 %)".into(),
                ),
            },
            least: 1.0,
            runs: [ONE, ONE],
        }
    }

    /// The guide's own example: the command takes a twentieth of the time, by other I/Os.
    #[test]
    fn other_work_in_less_time_is_faster() {
        let verdict = compared().verdict();
        assert_eq!((verdict.word.as_str(), verdict.tone), ("faster", Tone::Good));
        assert_eq!(
            verdict.sentence,
            "The command takes 51.3 ms in lazy in place of 1.0972 s in one: 21.4 times as fast. It prints “30,800 commits a \
             second” in place of “470 commits a second”. They did not do the same I/Os: lazy did 1,210 writes in place \
             of 1,704 and 20 flushes in place of 501. Latencies of different work are not compared."
        );
    }

    /// 100,000 ns against 100,001 ns.
    #[test]
    fn what_is_less_than_the_least_is_the_same() {
        let time = Some(Times { ns: [100_000.0, 100_001.0], sure: Sure::OneRunEach });
        let latencies = Latencies { all: 7, ..Latencies::default() };
        let same = Compared { time, work: Work::Same, latencies, printed: vec![], ..compared() };
        let verdict = same.verdict();
        assert_eq!((verdict.word.as_str(), verdict.tone), ("no difference", Tone::Good));
        assert!(verdict.sentence.contains("within 1 %"), "{}", verdict.sentence);
        assert!(
            is_close(100.0, 100.99, 1.0) && !is_close(100.0, 101.0, 1.0) && is_close(0.0, 0.0, 1.0)
        );
    }

    fn latencies() -> Vec<Latencies> {
        let largest =
            || Some("p50 of reads of drive0 is 2 ms in place of 1 ms (+100 %)".to_owned());
        vec![
            Latencies::default(),
            Latencies { all: 1, ..Latencies::default() },
            Latencies { all: 8, ..Latencies::default() },
            Latencies { all: 8, slower: 2, faster: 0, largest: largest() },
            Latencies { all: 8, slower: 0, faster: 3, largest: largest() },
            Latencies { all: 8, slower: 1, faster: 1, largest: largest() },
        ]
    }

    fn works() -> Vec<Work> {
        let others =
            |count: u64| (0..count).map(|n| format!("{} reads in place of 9", n + 2)).collect();
        let mut all =
            vec![Work::Nothing, Work::Same, Work::Other(others(1)), Work::Other(others(9))];
        all.extend([1.0, 1.001, 0.5, 4.0].map(Work::InTheSameTime));
        all
    }

    /// Every combination of what was the same, what differed, by how much, and how sure that is. The
    /// word and the sentence never contradict the facts.
    #[test]
    fn all_cases_of_two_have_a_verdict_that_the_facts_allow() {
        let five =
            [Alike::No, Alike::InFigures, Alike::Whole].map(|alike| Runs { count: 5, alike });
        let ones = [&[ONE], &five[..]].concat();
        let failures = [[None, None], [None, Some("failed with status 1".to_owned())]];
        let sures = [Sure::OneRunEach, Sure::Apart, Sure::Overlap];
        let ns = [
            [1e9, 1e9],
            [1e5, 100_001.0],
            [1e9, 1.05e9],
            [1e9, 0.95e9],
            [1.097e9, 51e6],
            [51e6, 1.097e9],
            [1.0, 0.0],
        ];
        let times = ns.iter().flat_map(|ns| sures.map(|sure| Some(Times { ns: *ns, sure })));
        let times: Vec<_> = times.chain([None]).collect();
        let printed = |count: usize| vec![["1 op/s".to_owned(), "2 op/s".to_owned()]; count];
        let mut cases = 0;
        for (time, work) in
            times.iter().flat_map(|time| works().into_iter().map(move |work| (time, work)))
        {
            for (latencies, failed) in
                latencies().iter().flat_map(|one| failures.iter().map(move |two| (one, two)))
            {
                for (runs, is_repeated) in
                    ones.iter().flat_map(|one| [true, false].map(|two| (one, two)))
                {
                    for (count, doer) in
                        [(0, Doer::Command), (1, Doer::Command), (2, Doer::Load), (9, Doer::Load)]
                    {
                        let case = Compared {
                            names: ["before", "after"],
                            failed: failed.clone(),
                            is_repeated,
                            doer,
                            time: *time,
                            printed: printed(count),
                            work: work.clone(),
                            latencies: latencies.clone(),
                            least: 1.0,
                            runs: [*runs, ONE],
                        };
                        let verdict = case.verdict();
                        check(&verdict, &format!("{case:?}"));
                        allowed(&case, &verdict);
                        cases += 1;
                    }
                }
            }
        }
        assert!(cases > 20_000, "{cases}");
    }

    fn allowed(case: &Compared, verdict: &Verdict) {
        let Verdict { word, tone, sentence } = verdict;
        if case.failed[1].is_some() {
            assert!(
                word == "not compared" && sentence.contains("status 1"),
                "{case:?}: {verdict:?}"
            );
            return;
        }
        for (alike, effect) in [
            (
                Alike::InFigures,
                "The seed changes places or times of single I/Os, and no figure here: the 5 runs",
            ),
            (Alike::Whole, "The seed changes nothing here: the 5 runs"),
        ] {
            let is_so = case.runs[0].alike == alike;
            assert_eq!(sentence.contains(effect), is_so, "{case:?}: {verdict:?}");
        }
        if case.is_repeated {
            assert_eq!(word, "the same");
            return;
        }
        let given = case.doer == Doer::Load && matches!(case.work, Work::Other(_));
        let timed = case.time.filter(|_| !given && !matches!(case.work, Work::InTheSameTime(_)));
        let pace = timed.map(|Times { ns: [was, is], sure }| {
            match is_close(was, is, case.least) || sure == Sure::Overlap {
                true => 0,
                false if is < was => -1,
                false => 1,
            }
        });
        // The time of the command decides, where it differs.
        match pace {
            Some(-1) => {
                assert!(word.starts_with("faster") && *tone != Tone::Bad, "{case:?}: {verdict:?}")
            }
            Some(1) => {
                assert!(word.starts_with("slower") && *tone == Tone::Bad, "{case:?}: {verdict:?}")
            }
            _ => {}
        }
        if !case.work.is_comparable() {
            assert!(
                !sentence.contains("p50 of") && !sentence.contains("latencies differs"),
                "{case:?}: {verdict:?}"
            );
            if pace.is_none_or(|pace| pace == 0) {
                assert!(
                    !word.contains("slower") && !word.contains("faster"),
                    "{case:?}: {verdict:?}"
                );
            }
        }
        let other = matches!(case.work, Work::Other(_));
        assert_eq!(sentence.contains("not do the same I/Os"), other, "{case:?}: {verdict:?}");
        let few = (1..=2).contains(&case.printed.len());
        assert_eq!(sentence.contains("It prints"), few, "{case:?}: {verdict:?}");
    }

    #[test]
    fn all_cases_of_several_have_a_verdict() {
        let times: [[Option<f64>; 3]; 5] = [
            [Some(1e9), Some(2e9), Some(3e9)],
            [Some(1e9), Some(1e9), Some(1.001e9)],
            [Some(1e9), None, Some(3e9)],
            [Some(1e9), None, None],
            [None; 3],
        ];
        let latencies =
            [None, Some([1e6, 1e6, 1e6]), Some([1e6, 2e6, 0.5e6]), Some([0.0, 0.0, 1.0])];
        for (times, work) in
            times.iter().flat_map(|time| works().into_iter().map(move |work| (time, work)))
        {
            for (latency, failed) in
                latencies.iter().flat_map(|one| [0, 1, 2, 3].map(|two| (one, two)))
            {
                let of_two = ("p99.9 of reads".to_owned(), vec![(0, 3e6), (2, 1e6)]);
                for (seeds, beyond) in
                    [(Alike::Whole, None), (Alike::InFigures, None), (Alike::No, Some(of_two))]
                {
                    let case = Several {
                        doer: Doer::Command,
                        place: "on",
                        each: ["a", "b", "c"].into_iter().zip(*times).collect(),
                        failed,
                        work: work.clone(),
                        latency: latency.map(|all| ("p99 of reads".to_owned(), all.to_vec())),
                        has_intervals: failed == 0,
                        beyond: beyond.clone(),
                        least: 1.0,
                        seeds,
                    };
                    let verdict = case.verdict();
                    check(&verdict, &format!("{case:?}"));
                    let other = !work.is_comparable();
                    let doubts = verdict.sentence.contains("to tell what is chance");
                    let differs = latency.is_some_and(|all| all[0] != all[1]) && !other;
                    assert!(!doubts || failed > 0, "{case:?}: {verdict:?}");
                    assert!(doubts || failed == 0 || !differs, "{case:?}: {verdict:?}");
                    assert!(
                        !other || !verdict.sentence.contains("At p99"),
                        "{case:?}: {verdict:?}"
                    );
                    let further = beyond.is_some() && latency.is_some() && !other;
                    assert_eq!(
                        verdict.sentence.contains(
                            "At p99.9 of reads, for which b did too few I/Os, c is the fastest of the \
                             others, 1 ms, and a their slowest, 3 ms"
                        ),
                        further,
                        "{case:?}: {verdict:?}"
                    );
                    assert_eq!(verdict.sentence.contains("The seed changes"), seeds > Alike::No);
                    assert_eq!(
                        verdict.word.starts_with("failed"),
                        failed > 0,
                        "{case:?}: {verdict:?}"
                    );
                }
            }
        }
    }
}
