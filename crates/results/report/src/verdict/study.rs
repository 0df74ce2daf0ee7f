//! The answer of a study: what each axis changes, where seeds are repetitions.

use std::collections::BTreeMap;

use super::{counted, listed, Verdict};
use crate::table::{Column, Table, Tone};
use stasis_results::interval::of_runs;
use stasis_results::units;

/// The smallest effect that matters (%).
const MIN_EFFECT: f64 = 1.0;
/// Effects that are told in the sentence; all are in the table.
const TOLD: usize = 3;

/// The facts of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// State of the operation.
    pub state: State,
    /// The figure that is looked at, such as `p99 of reads of ssd`; a time (ns).
    pub figure: String,
    /// The names of the axes that have several values, without those of seeds.
    pub axes: Vec<String>,
    /// Its points.
    pub points: Vec<StudyPoint>,
}

/// Progress of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// So many points failed.
    Failed(u64),
    /// So many points gave other results when they were computed again.
    NotRepeating(u64),
    /// So many points miss thresholds.
    Unmet(u64),
    /// Not all points are finished.
    Unfinished,
    /// All is well.
    Complete,
}

/// A point of a study: a design, and one of its repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyPoint {
    /// The value of each axis.
    pub design: Vec<String>,
    /// Its seeds; empty where no axis is one.
    pub seed: String,
    /// The figure (ns).
    pub figure: f64,
}

/// The effect of an axis.
#[derive(Debug, Clone, PartialEq)]
struct Effect<'a> {
    axis: &'a str,
    /// The values with the least and the greatest figure.
    ends: [&'a str; 2],
    /// By which factor the figure is greater at the second; with the ends of its interval of 95 %
    /// where there are several pairs of points that differ in nothing else.
    factor: f64,
    interval: Option<[f64; 2]>,
    /// Number of such pairs.
    pairs: usize,
}

/// Confidence that an axis has an effect.
#[derive(Debug, PartialEq)]
enum Found {
    /// The axis changes the figure by less than what matters.
    None,
    /// The interval has both more and less in it.
    Unsure,
    /// The axis has an effect.
    Sure,
}

impl Effect<'_> {
    fn found(&self) -> Found {
        match self.interval {
            _ if self.factor < 1.0 + MIN_EFFECT / 100.0 => Found::None,
            Some([low, _]) if low <= 1.0 => Found::Unsure,
            _ => Found::Sure,
        }
    }

    fn words(&self) -> String {
        let [least, greatest] = self.ends;
        let interval = match self.interval {
            Some([low, high]) => format!(" [{}, {}]", factor(low), factor(high)),
            None => String::new(),
        };
        match self.found() {
            Found::None => format!("{} has no effect", self.axis),
            Found::Unsure => format!("{} has no effect that can be told from chance", self.axis),
            Found::Sure => format!(
                "{} = {greatest} makes it {}{interval} times as long as {least}",
                self.axis,
                factor(self.factor)
            ),
        }
    }
}

fn factor(factor: f64) -> String {
    units::significant(factor, 3)
}

impl Study {
    /// The answer.
    pub fn verdict(&self) -> Verdict {
        let (word, tone) = match self.state {
            State::Failed(failed) => (format!("{} failed", units::count(failed)), Tone::Bad),
            State::NotRepeating(odd) => (format!("{} do not repeat", units::count(odd)), Tone::Bad),
            State::Unmet(unmet) => {
                (counted(unmet, "point misses thresholds", "points miss thresholds"), Tone::Bad)
            }
            State::Unfinished => ("unfinished".to_owned(), Tone::Neutral),
            State::Complete => ("complete".to_owned(), Tone::Good),
        };
        if self.points.is_empty() {
            return Verdict::new(word, tone, "No point has an I/O to a modelled drive.");
        }
        let sentences = [self.ends(), self.effects_told(), self.seeds()];
        let sentences: Vec<_> = sentences.into_iter().filter(|one| !one.is_empty()).collect();
        Verdict::new(word, tone, sentences.join(" "))
    }

    /// The geometric mean of each design's figure over its seeds.
    fn designs(&self) -> Vec<(&[String], f64)> {
        let mut all: BTreeMap<&[String], Vec<f64>> = BTreeMap::new();
        for point in &self.points {
            all.entry(&point.design).or_default().push(point.figure.max(1.0).ln());
        }
        let mean = |logs: Vec<f64>| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        all.into_iter().map(|(design, logs)| (design, mean(logs))).collect()
    }

    /// The designs with the least and the greatest figure.
    fn ends(&self) -> String {
        let designs = self.designs();
        let least = designs.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let greatest = designs.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (Some((best, least)), Some((worst, greatest))) = (least, greatest) else {
            return String::new();
        };
        let figure = &self.figure;
        let [low, high] = [*least, *greatest].map(units::duration);
        if designs.len() == 1 {
            return format!("The {figure} is {low}.");
        }
        let all = units::count(designs.len() as u64);
        if low == high {
            return format!("The {figure} is {low} in each of {all} designs.");
        }
        let [best, worst] = [best, worst].map(|design| self.named(design));
        format!(
            "Of {all} designs, {best} has the least {figure}, {low}; {worst} has the greatest, {high}."
        )
    }

    fn named(&self, design: &[String]) -> String {
        let axes = self.axes.iter().zip(design);
        axes.map(|(axis, value)| format!("{axis} = {value}")).collect::<Vec<_>>().join(", ")
    }

    /// The effect of each axis, the largest first.
    fn effects(&self) -> Vec<Effect<'_>> {
        let places = 0..self.axes.len();
        let mut all: Vec<_> = places.filter_map(|place| self.effect(place)).collect();
        all.sort_by(|a, b| b.factor.total_cmp(&a.factor));
        all
    }

    /// The effect of an axis: of pairs of points that differ in nothing else.
    fn effect(&self, place: usize) -> Option<Effect<'_>> {
        let mut blocks: BTreeMap<(Vec<&str>, &str), BTreeMap<&str, f64>> = BTreeMap::new();
        for point in &self.points {
            let value = point.design.get(place)?.as_str();
            let others = point.design.iter().enumerate().filter(|(other, _)| *other != place);
            let others = others.map(|(_, value)| value.as_str()).collect();
            let block = blocks.entry((others, &point.seed)).or_default();
            block.insert(value, point.figure.max(1.0).ln());
        }
        // Values are beside each other where all others are the same; the mean of each over blocks
        // that have all of them, or where none has, over those that have it.
        let most = blocks.values().map(BTreeMap::len).max()?;
        let whole: Vec<_> = blocks.values().filter(|block| block.len() == most).collect();
        let mut means: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (value, log) in whole.iter().flat_map(|block| block.iter()) {
            let (sum, count) = means.entry(value).or_default();
            (*sum, *count) = (*sum + log, *count + 1.0);
        }
        let mut means: Vec<(&str, f64)> =
            means.into_iter().map(|(value, (sum, count))| (value, sum / count)).collect();
        means.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (first, last) = (means.first()?.0, means.last()?.0);
        let ratios = blocks.values().filter_map(|block| Some(block.get(last)? - block.get(first)?));
        let ratios: Vec<f64> = ratios.collect();
        if first == last || ratios.is_empty() {
            return None;
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let interval = of_runs(&ratios).map(|found| [found.low.exp(), found.high.exp()]);
        Some(Effect {
            axis: &self.axes[place],
            ends: [first, last],
            factor: mean.exp(),
            interval,
            pairs: ratios.len(),
        })
    }

    fn effects_told(&self) -> String {
        // Of one axis and one seed the designs say it all.
        let effects = self.effects();
        let (none, others): (Vec<_>, Vec<_>) =
            effects.iter().partition(|effect| effect.found() == Found::None);
        let mut sentences: Vec<_> = others.iter().take(TOLD).map(|effect| effect.words()).collect();
        if others.len() > TOLD {
            let more = (others.len() - TOLD) as u64;
            sentences.push(format!("{} in the table", counted(more, "more is", "more are")));
        }
        let axes: Vec<_> = none.iter().map(|effect| effect.axis.to_owned()).collect();
        match &axes[..] {
            [] => {}
            [one] => sentences.push(format!("{one} has no effect (less than {MIN_EFFECT} %)")),
            many => sentences
                .push(format!("{} have no effect (less than {MIN_EFFECT} %)", listed(many))),
        }
        match sentences.is_empty() {
            true => String::new(),
            // A key begins no sentence: it would have another name with a capital letter.
            false => format!("By axis: {}.", sentences.join("; ")),
        }
    }

    /// The differences between seeds.
    fn seeds(&self) -> String {
        let mut by_design: BTreeMap<&[String], Vec<f64>> = BTreeMap::new();
        for point in &self.points {
            by_design.entry(&point.design).or_default().push(point.figure);
        }
        let seeds = by_design.values().map(Vec::len).max().unwrap_or(0);
        if seeds < 2 {
            return match self.axes.is_empty() {
                true => String::new(),
                false => "Each design was run once.".to_owned(),
            };
        }
        let spread = by_design.values().map(|figures| {
            let least = figures.iter().copied().fold(f64::INFINITY, f64::min).max(1.0);
            figures.iter().copied().fold(0.0, f64::max).max(1.0) / least
        });
        let spread = spread.fold(1.0, f64::max);
        match spread == 1.0 {
            true => format!("The seed does not change this figure: it is the same with all {seeds} of each design."),
            false => format!(
                "Seeds are repetitions, up to {seeds} of each design: they differ by a factor of {} at most.",
                factor(spread)
            ),
        }
    }

    /// The effect of each axis as a table, with its caption; none without axes.
    pub fn table(&self) -> Option<(String, Table)> {
        let columns = ["axis", "least at", "greatest at"].map(Column::left).into_iter();
        let columns = columns.chain(["times as long", "interval", "pairs"].map(Column::right));
        let mut table = Table::new(columns.chain([Column::left("effect")]).collect());
        for effect in self.effects() {
            let interval = match effect.interval {
                Some([low, high]) => format!("{} to {}", factor(low), factor(high)),
                None => "–".to_owned(),
            };
            table.push(vec![
                effect.axis.to_owned(),
                effect.ends[0].to_owned(),
                effect.ends[1].to_owned(),
                factor(effect.factor),
                interval,
                units::count(effect.pairs as u64),
                match effect.found() {
                    Found::Sure => "yes",
                    Found::None => "none",
                    Found::Unsure => "cannot be told from chance",
                }
                .to_owned(),
            ]);
        }
        let caption = format!(
            "The {}: each axis between its values with the least and the greatest, over pairs of points that differ in \
             nothing else; seeds are repetitions. Intervals of 95 %, by Student's distribution over the pairs.",
            self.figure
        );
        (!table.rows.is_empty()).then_some((caption, table))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    /// Points of a grid of depth and policy with three seeds, by a figure of each.
    fn grid(figure: impl Fn(u64, u64, u64) -> f64) -> Study {
        let mut points = Vec::new();
        for (depth, policy, seed) in (0..2).flat_map(|depth| {
            (0..2).flat_map(move |policy| (0..3).map(move |seed| (depth, policy, seed)))
        }) {
            points.push(StudyPoint {
                design: vec![
                    ["1", "8"][depth as usize].into(),
                    ["greedy", "d-choices"][policy as usize].into(),
                ],
                seed: seed.to_string(),
                figure: figure(depth, policy, seed),
            });
        }
        let axes = ["depth", "gc.policy"].map(str::to_owned).to_vec();
        Study { state: State::Complete, figure: "p99 of reads of ssd".into(), axes, points }
    }

    #[test]
    fn an_axis_has_its_effect_and_seeds_are_repetitions() {
        let study = grid(|depth, _, seed| 100_000.0 * (1 + 2 * depth) as f64 + 100.0 * seed as f64);
        let verdict = study.verdict();
        let Verdict { sentence, word, .. } = &verdict;
        assert_eq!(word, "complete");
        assert!(sentence.starts_with("Of 4 designs, depth = 1"), "{sentence}");
        assert!(sentence.contains("By axis: depth = 8 makes it 3 ["), "{sentence}");
        assert!(sentence.contains("gc.policy has no effect (less than 1 %)"), "{sentence}");
        assert!(sentence.contains("Seeds are repetitions, up to 3 of each design"), "{sentence}");
        assert!(!sentence.contains("seed ="), "{sentence}");
        let effects = study.effects();
        assert_eq!((effects[0].pairs, effects[0].ends), (6, ["1", "8"]));
        let (_, table) = study.table().unwrap();
        assert_eq!(table.rows[1][6], "none");
    }

    #[test]
    fn an_effect_within_chance_is_none_that_is_told() {
        // The seeds differ by a third either way, whatever the depth is.
        let noise = [0.7, 1.0, 1.3, 1.2, 0.8, 1.1, 0.9, 1.3, 0.7, 1.0, 1.3, 0.8];
        let study =
            grid(|depth, policy, seed| 1e5 * noise[(depth * 6 + policy * 3 + seed) as usize]);
        let sentence = study.verdict().sentence;
        assert!(!sentence.contains("makes it"), "{sentence}");
        assert!(sentence.contains("no effect that can be told from chance"), "{sentence}");
    }

    /// States, axes, seeds and effects in every combination.
    #[test]
    fn all_cases_have_a_verdict() {
        let states =
            [State::Failed(1), State::NotRepeating(2000), State::Unfinished, State::Complete];
        let effects: [fn(u64, u64, u64) -> f64; 5] = [
            |_, _, _| 1e5,
            |_, _, _| 0.0,
            |depth, _, _| 1e5 * (1 + depth) as f64,
            |depth, policy, seed| {
                1e5 * (1 + depth + 2 * policy) as f64 + (seed * 7919 % 1000) as f64
            },
            |depth, policy, seed| 1e5 * (1 + (depth + policy + seed) % 2) as f64,
        ];
        for (state, effect) in
            states.iter().flat_map(|state| effects.map(|effect| (*state, effect)))
        {
            for (seeds, axes) in (0..=3).flat_map(|seeds| (0..=2).map(move |axes| (seeds, axes))) {
                for lack in [0, 3] {
                    let mut study = grid(effect);
                    study.state = state;
                    study
                        .points
                        .retain(|point| point.seed.parse::<u64>().is_ok_and(|seed| seed < seeds));
                    if axes < 2 {
                        study.points.retain(|point| point.design[1] == "greedy");
                    }
                    if axes < 1 {
                        study.points.retain(|point| point.design[0] == "1");
                    }
                    study.axes.truncate(axes);
                    study.points.iter_mut().for_each(|point| point.design.truncate(axes));
                    // Not every point of a grid is finished.
                    let kept = study.points.len().saturating_sub(lack);
                    study.points.truncate(kept);
                    let verdict = study.verdict();
                    check(&verdict, &format!("{study:?}"));
                    assert!(!verdict.sentence.contains("seed ="), "{verdict:?}");
                    study.table();
                }
            }
        }
    }
}
