//! The page of a comparison, and its table for the terminal.

use std::collections::BTreeSet;

use stasis_report::page::{thinned, Block, Head, Page, Resolution, Section};
use stasis_report::plot::{
    Axis, Cdf, CdfSeries, Dot, Dots, Markup, Quantity, Row, Scale, Stroke, COLOURS,
};
use stasis_report::{units, Column, Repeat, Table, Tone};

use crate::compared::Statistic;
use crate::interval::Interval;
use crate::setup;
use crate::{Candidate, Comparison, Difference, Subject, Unit};

/// Points of a drawn distribution: evenly, and as many at its upper end; so many together in the
/// coarsest resolution.
const POINTS: usize = 1000;
const MIN_POINTS: usize = 24;

/// Candidates by their latency (ns) at a percentile of a subject, the fastest first.
type Ranking = (Statistic, Subject, Vec<(usize, f64)>);
/// The subjects that all candidates have, with the distribution of each.
type Curves = Vec<(Subject, Vec<Vec<(f64, f64)>>)>;

impl Comparison {
    /// The differences as a table; all, or the significant ones.
    pub fn table(&self, all: bool) -> Table {
        let mut columns: Vec<_> =
            ["candidate", "drive", "operation"].map(Column::left).into_iter().collect();
        columns.extend(["figure", "base", "this", "difference", "significant"].map(Column::right));
        let mut table = Table::new(columns);
        for one in self.differences.iter().filter(|one| all || one.significant) {
            table.push(vec![
                one.candidate.clone(),
                one.drive.clone(),
                one.operation.name().to_owned(),
                one.statistic.clone(),
                shown(&one.base, one.unit),
                shown(&one.value, one.unit),
                units::deviation(Some(one.percent)),
                if one.significant { "yes" } else { "no" }.to_owned(),
            ]);
        }
        table
    }

    /// The page, as HTML, with what repeats the comparison.
    pub fn to_html(&self, repeat: Option<&Repeat>) -> String {
        let curves = self.subjects().into_iter().map(|subject| {
            let curve = |candidate: &Candidate| points(&candidate.together(&subject));
            let curves = self.candidates.iter().map(curve).collect();
            (subject, curves)
        });
        let curves: Curves = curves.collect();
        Page::within_limit(|resolution| {
            let mut page = self.page(&curves, resolution);
            page.head = page.head.map(|head| head.repeated_by(repeat.cloned()));
            page
        })
    }

    fn page(&self, curves: &Curves, resolution: Resolution) -> Page {
        let names: Vec<_> = self.candidates.iter().map(|one| one.name.as_str()).collect();
        let (base, others) = (names[0], names[1..].join(", "));
        let mut sections = vec![self.setup()];
        sections.extend(self.tails());
        for (number, (subject, curves)) in curves.iter().enumerate() {
            let section = Section::new(format!("{}: {}", subject.0, subject.1.name()));
            sections.push(section.with(if number < resolution.subjects() {
                let mut plots: Vec<_> = self.intervals(subject).into_iter().collect();
                plots.extend([false, true].map(|tail| self.plot(curves, tail, resolution).draw()));
                Block::Plots(plots)
            } else {
                Block::Prose("There are too many plots for one page: compare fewer results.".into())
            }));
        }
        if !self.apart.is_empty() {
            let mut table =
                Table::new(["drive", "operation", "only in"].map(Column::left).to_vec());
            for (drive, operation, names) in &self.apart {
                table.push(vec![drive.clone(), operation.name().to_owned(), names.join(", ")]);
            }
            let section = Section::new("Not compared");
            sections.push(section.with(Block::Table("What only some have".into(), table)));
        }
        if self.candidates.len() > 2 {
            let caption = format!("Each beside {base}.");
            let differences = Block::Table(caption, self.table(true));
            sections.push(Section::new("All differences").with(differences).folded());
        }
        sections.extend(self.repeats());
        let terms = [
            (
                "Interval",
                "of 95 %, in brackets: of one run, that of its I/Os as if they were independent; of several runs, that of the \
                 runs' figures. A rate of one run has none.",
            ),
            ("Significant", "the intervals of the two figures do not overlap."),
            (
                "Rates",
                "I/Os and bytes over the time from a drive's first submission to its last completion.",
            ),
        ];
        let terms = terms.map(|(term, text)| (term.to_owned(), text.to_owned())).to_vec();
        sections.push(Section::new("How to read this").with(Block::Terms(terms)).folded());
        Page {
            title: format!("{others} against {base}"),
            subtitle: self.candidates.iter().map(described).collect::<Vec<_>>().join("; "),
            head: Some(self.head()),
            sections,
        }
    }

    /// The answer: of two, slower or faster, by how much, and where; of more, which is the fastest and
    /// which the slowest, and why.
    fn head(&self) -> Head {
        if self.candidates.len() > 2 {
            return self.head_of_several();
        }
        let latencies = || self.differences.iter().filter(|one| one.is_of_latency());
        let significant = || latencies().filter(|one| one.significant);
        let (all, slower) =
            (latencies().count(), significant().filter(|one| one.is_slower()).count());
        let faster = significant().count() - slower;
        let verdict = match (slower, faster) {
            (0, 0) => ("no difference", Tone::Good),
            (0, _) => ("faster", Tone::Good),
            (_, 0) => ("slower", Tone::Bad),
            _ => ("slower and faster", Tone::Bad),
        };
        let largest = significant().max_by(|a, b| a.percent.abs().total_cmp(&b.percent.abs()));
        let sentence = match largest {
            None => format!("None of the {all} latencies differs significantly."),
            Some(one) => format!(
                "{} {}{} at {} of {} of {}: {} in place of {} ({}), the largest significant difference.",
                one.candidate,
                if one.is_slower() { "is slower than " } else { "is faster than " },
                self.candidates[0].name,
                one.statistic,
                units::operations(one.operation),
                one.drive,
                figure(one.value.value, one.unit),
                figure(one.base.value, one.unit),
                units::deviation(Some(one.percent)),
            ),
        };
        let of = |count: usize| format!("{count} of {all} latencies");
        let tiles = [("Slower", of(slower)), ("Faster", of(faster))];
        let caption = "Significant differences are in colour.";
        let mut head = Head::new(verdict, sentence, tiles).with(caption, self.beside());
        head.notes = self.why(0..2);
        head
    }

    /// The answer of more than two.
    fn head_of_several(&self) -> Head {
        let colours = format!(
            "Significant differences from {} are in colour. All differences with their intervals are below.",
            self.candidates[0].name
        );
        let ranking = self.ranking();
        let Some((statistic, subject, ranked)) = &ranking else {
            let tiles = [("Results", self.candidates.len().to_string()), ("In common", "–".into())];
            let sentence = "No drive and operation is in all results.";
            return Head::new(("not compared", Tone::Neutral), sentence, tiles)
                .with(colours, self.figures());
        };
        let name = |place: usize| &self.candidates[place].name;
        let (best, worst) = (ranked[0], ranked[ranked.len() - 1]);
        let time = |(_, figure): (usize, f64)| units::duration(figure);
        let place = format!("{} of {}", statistic.name(), units::operations(subject.1));
        let of_drive = match self.drives() > 1 {
            true => format!(" of {}", subject.0),
            false => String::new(),
        };
        let ratio = match worst.1 / best.1 {
            ratio if ratio.is_finite() => {
                format!(", {} times as long", units::significant(ratio, 3))
            }
            _ => String::new(),
        };
        let sentence = match best.1 == worst.1 {
            true => format!("At {place}{of_drive} all take {}.", time(best)),
            false => format!(
                "At {place}{of_drive} {} is the fastest, {}, and {} the slowest, {}{ratio}.",
                name(best.0),
                time(best),
                name(worst.0),
                time(worst),
            ),
        };
        let tiles = [
            (format!("Fastest at {place}"), format!("{}: {}", name(best.0), time(best))),
            (format!("Slowest at {place}"), format!("{}: {}", name(worst.0), time(worst))),
        ];
        let verdict = (format!("fastest: {}", name(best.0)), Tone::Neutral);
        let tiles = [(tiles[0].0.as_str(), tiles[0].1.clone()), (&tiles[1].0, tiles[1].1.clone())];
        let mut head = Head::new(verdict, sentence, tiles).with(colours, self.figures());
        head.notes = self.why(ranked.iter().map(|(place, _)| *place));
        head
    }

    /// How many drives there are.
    fn drives(&self) -> usize {
        self.candidates.iter().flat_map(Candidate::drives).collect::<BTreeSet<_>>().len()
    }

    /// The drive and operation with the most I/Os of those that all have.
    fn main_subject(&self) -> Option<Subject> {
        let ios = |subject: &Subject| -> usize {
            let of =
                |one: &Candidate| one.of(subject).map(|ios| ios.latencies.len()).sum::<usize>();
            self.candidates.iter().map(of).sum()
        };
        self.subjects().into_iter().max_by_key(ios)
    }

    /// The candidates by a latency of [`Self::main_subject`], the fastest first: by p99.9, or where
    /// there are too few I/Os by the highest percentile that all carry.
    fn ranking(&self) -> Option<Ranking> {
        let subject = self.main_subject()?;
        [99.9, 99.0, 95.0, 50.0].into_iter().map(Statistic::Percentile).find_map(|statistic| {
            let figure =
                |(place, candidate)| Some((place, statistic.measured(candidate, &subject)?.value));
            let all: Option<Vec<_>> = self.candidates.iter().enumerate().map(figure).collect();
            let mut ranked = all?;
            ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
            Some((statistic, subject.clone(), ranked))
        })
    }

    /// What the slowest I/Os of these candidates waited for: of the first few.
    fn why(&self, candidates: impl Iterator<Item = usize>) -> Vec<String> {
        /// All are in a table below.
        const TOLD: usize = 4;
        let Some(subject) = self.main_subject() else { return Vec::new() };
        let clause = |place: usize| {
            let candidate = &self.candidates[place];
            Some(format!("of {}: {}", candidate.name, candidate.waits(&subject)?.words()))
        };
        let clauses: Vec<_> = candidates.filter_map(clause).take(TOLD).collect();
        let all = units::operations(subject.1);
        let note = format!("Where the slowest {all} spent their time, {}.", clauses.join(". "));
        if clauses.is_empty() {
            Vec::new()
        } else {
            vec![note]
        }
    }

    /// What the slowest I/Os of each candidate waited for, by drive and operation; none where no result
    /// tells.
    pub fn tails(&self) -> Option<Section> {
        let columns = ["drive", "operation", "candidate"].map(Column::left).into_iter();
        let columns =
            columns.chain([Column::right("slowest I/Os"), Column::left("where their time went")]);
        let mut table = Table::new(columns.collect());
        for subject in self.subjects() {
            for candidate in &self.candidates {
                let Some(waits) = candidate.waits(&subject) else { continue };
                table.push(vec![
                    subject.0.clone(),
                    subject.1.name().to_owned(),
                    candidate.name.clone(),
                    units::count(waits.count),
                    waits.words(),
                ]);
            }
        }
        let caption = "Queue is the wait for other commands, service time the latency that a model by figures gives the command alone, \
                       and model the time of a model that tells no parts of it.";
        let section = Section::new("Why the slowest I/Os are slow");
        (!table.rows.is_empty()).then(|| section.with(Block::Table(caption.into(), table)))
    }

    /// The figures, a row for each drive, operation and candidate.
    fn figures(&self) -> Table {
        let several = self.drives() > 1;
        let mut columns: Vec<_> = several.then(|| Column::left("drive")).into_iter().collect();
        columns.extend(["operation", "candidate"].map(Column::left));
        columns.extend(Statistic::ALL.map(|statistic| Column::right(statistic.name())));
        let first = columns.len() - Statistic::ALL.len();
        let mut table = Table::new(columns);
        let mut all: Vec<_> = self.candidates.iter().flat_map(Candidate::subjects).collect();
        all.sort();
        all.dedup();
        for subject in all {
            for candidate in &self.candidates {
                let has = candidate.of(subject).next().is_some();
                let mut row: Vec<_> = several.then(|| subject.0.clone()).into_iter().collect();
                row.extend([subject.1.name().to_owned(), candidate.name.clone()]);
                row.extend(Statistic::ALL.map(|statistic| {
                    let measured = has.then(|| statistic.measured(candidate, subject)).flatten();
                    measured.map_or("–".into(), |one| figure(one.value, statistic.unit()))
                }));
                table.push(row);
                for (place, statistic) in Statistic::ALL.into_iter().enumerate() {
                    let name = statistic.name();
                    let found = self.differences.iter().find(|one| {
                        (&one.drive, one.operation) == (&subject.0, subject.1)
                            && one.candidate == candidate.name
                            && one.statistic == name
                    });
                    if let Some(one) = found.filter(|one| one.significant) {
                        let tone = if one.is_slower() { Tone::Bad } else { Tone::Good };
                        table.judge(first + place, tone);
                    }
                }
            }
        }
        table
    }

    /// The figures by drive, operation and statistic, with the candidates side by side.
    fn beside(&self) -> Table {
        let mut columns = ["drive", "operation", "figure"].map(Column::left).to_vec();
        columns.push(Column::right(self.candidates[0].name.clone()));
        for candidate in &self.candidates[1..] {
            let of = |name: &str| Column::right(name).under(candidate.name.clone());
            columns.extend(["figure", "difference"].map(of));
        }
        let mut table = Table::new(columns);
        let same = |a: &Difference, b: &Difference| {
            (&a.drive, a.operation, &a.statistic) == (&b.drive, b.operation, &b.statistic)
        };
        for row in self.differences.chunk_by(same) {
            let one = &row[0];
            table.push(vec![
                one.drive.clone(),
                one.operation.name().to_owned(),
                one.statistic.clone(),
                shown(&one.base, one.unit),
            ]);
            for (number, candidate) in self.candidates[1..].iter().enumerate() {
                let found = row.iter().find(|one| one.candidate == candidate.name);
                let cells = found.map_or(["–".to_owned(), "–".to_owned()], |one| {
                    [shown(&one.value, one.unit), units::deviation(Some(one.percent))]
                });
                if let Some(last) = table.rows.last_mut() {
                    last.extend(cells);
                }
                if let Some(one) = found.filter(|one| one.significant) {
                    let tone = if one.is_slower() { Tone::Bad } else { Tone::Good };
                    table.judge(5 + 2 * number, tone);
                }
            }
        }
        table
    }

    fn setup(&self) -> Section {
        let section = Section::new("What differs in the set-up");
        if self.candidates.iter().any(|one| one.runs.iter().any(|run| run.setup.0.is_empty())) {
            let text = "Some results have no summary.json, so that their set-up is not known.";
            return section.with(Block::Prose(text.into()));
        }
        match self.setup.is_empty() {
            true => section.with(Block::Prose("Nothing that the results tell.".into())),
            false => section
                .with(Block::Table(String::new(), setup::table(&self.candidates, &self.setup))),
        }
    }

    /// The commands that repeat what is compared.
    fn repeats(&self) -> Option<Section> {
        let of = |one: &Candidate| {
            let commands = one.runs.iter().filter_map(|run| run.repeat.clone());
            let commands: Vec<_> = commands.map(Block::Command).collect();
            let name = Block::Prose(format!("{}:", one.name));
            (!commands.is_empty()).then(|| [vec![name], commands].concat())
        };
        let blocks: Vec<_> = self.candidates.iter().filter_map(of).flatten().collect();
        let mut section = Section::new("To repeat the runs themselves").folded();
        section.blocks = blocks;
        (!section.blocks.is_empty()).then_some(section)
    }

    /// The subjects that all candidates have: drive and operation.
    fn subjects(&self) -> Vec<Subject> {
        let mut all: Vec<_> = self.candidates[0].subjects().cloned().collect();
        all.sort();
        all.dedup();
        all.retain(|subject| {
            self.candidates.iter().all(|one| one.subjects().any(|s| s == subject))
        });
        all
    }

    /// The latencies of a drive and operation with their intervals.
    fn intervals(&self, (drive, operation): &Subject) -> Option<Markup> {
        let of_subject = |one: &&Difference| {
            one.is_of_latency() && one.drive == *drive && one.operation == *operation
        };
        let mut rows: Vec<Row> = Vec::new();
        for one in self.differences.iter().filter(of_subject) {
            let place = self.candidates.iter().position(|each| each.name == one.candidate);
            let colour = place.unwrap_or_default();
            let dot = |name: &str, colour: usize, figure: &Interval, about| Dot {
                name: name.to_owned(),
                colour: colour % COLOURS,
                value: figure.value,
                interval: figure.is_known().then_some([figure.low, figure.high]),
                about,
            };
            if rows.last().is_none_or(|row| row.label != one.statistic) {
                let base = dot(&self.candidates[0].name, 0, &one.base, String::new());
                rows.push(Row { label: one.statistic.clone(), dots: vec![base] });
            }
            let significant = if one.significant { "significant" } else { "not significant" };
            let about = format!("{}, {significant}", units::deviation(Some(one.percent)));
            if let Some(row) = rows.last_mut() {
                row.dots.push(dot(&one.candidate, colour, &one.value, about));
            }
        }
        let plot = Dots {
            title: "Latencies with their intervals of 95 %".to_owned(),
            axis: Axis::new("Delivered latency", Scale::Log, Quantity::Time),
            apart: true,
            rows,
        };
        (!plot.rows.is_empty()).then(|| plot.draw())
    }

    fn plot(&self, curves: &[Vec<(f64, f64)>], tail: bool, resolution: Resolution) -> Cdf {
        let candidates = self.candidates.iter().zip(curves).enumerate();
        let series = candidates.map(|(colour, (candidate, curve))| CdfSeries {
            name: candidate.name.clone(),
            colour,
            stroke: if colour == 0 { Stroke::Band } else { Stroke::Thin },
            points: thinned(curve, resolution.of(2 * POINTS, MIN_POINTS)),
            marks: Vec::new(),
        });
        Cdf {
            title: if tail { "Upper tail" } else { "Distribution" }.to_owned(),
            x: Axis::new("Delivered latency", Scale::Log, Quantity::Time),
            tail,
            series: series.collect(),
        }
    }
}

fn described(candidate: &Candidate) -> String {
    let ios: usize =
        candidate.runs.iter().flat_map(|run| run.ios.values()).map(|ios| ios.latencies.len()).sum();
    let runs = match candidate.runs.len() {
        1 => String::new(),
        several => format!(" in {several} runs"),
    };
    format!("{}: {} I/Os{runs}", candidate.name, units::count(ios as u64))
}

fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => units::duration(value),
        Unit::Iops => format!("{}/s", units::significant(value, 4)),
        Unit::BytesPerSecond => units::bandwidth(value),
    }
}

/// A figure with its interval, where that is known.
pub(crate) fn shown(interval: &Interval, unit: Unit) -> String {
    let [value, low, high] =
        [interval.value, interval.low, interval.high].map(|value| figure(value, unit));
    match interval.is_known() {
        true => format!("{value} [{low}, {high}]"),
        false => value,
    }
}

/// (value, share of values not above it) of values that rise: evenly in the middle, each one
/// at the upper end, where the tail is.
fn points(sorted: &[u64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let step = (count / POINTS).max(1);
    let ranks = (1..=count).filter(|rank| rank % step == 0 || count - rank < POINTS);
    ranks.map(|rank| (sorted[rank - 1] as f64, rank as f64 / count as f64)).collect()
}
