//! The page of a comparison, and its table for the terminal.

use stasis_report::page::{thinned, Block, Head, Page, Resolution, Section};
use stasis_report::plot::{
    Axis, Cdf, CdfSeries, Dot, Dots, Markup, Quantity, Row, Scale, Stroke, COLOURS,
};
use stasis_report::{units, Column, Table, Tone};

use crate::interval::Interval;
use crate::setup;
use crate::{Candidate, Comparison, Difference, Subject, Unit};

/// Points of a drawn distribution: evenly, and as many at its upper end; so many together in the
/// coarsest resolution.
const POINTS: usize = 1000;
const MIN_POINTS: usize = 24;

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

    /// The page, as HTML.
    pub fn to_html(&self) -> String {
        let curves = self.subjects().into_iter().map(|subject| {
            let curve = |candidate: &Candidate| points(&candidate.together(&subject));
            let curves = self.candidates.iter().map(curve).collect();
            (subject, curves)
        });
        let curves: Curves = curves.collect();
        Page::within_limit(|resolution| self.page(&curves, resolution))
    }

    fn page(&self, curves: &Curves, resolution: Resolution) -> Page {
        let names: Vec<_> = self.candidates.iter().map(|one| one.name.as_str()).collect();
        let (base, others) = (names[0], names[1..].join(", "));
        let mut sections = vec![self.setup()];
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

    /// The answer: slower or faster, by how much, and where.
    fn head(&self) -> Head {
        let latencies = || self.differences.iter().filter(|one| one.is_of_latency());
        let significant = || latencies().filter(|one| one.significant);
        let (all, slower) =
            (latencies().count(), significant().filter(|one| one.is_slower()).count());
        let faster = significant().count() - slower;
        let several = self.candidates.len() > 2;
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
                "{} {}{} at {} of {}s of {}: {} in place of {} ({}), the largest difference.",
                one.candidate,
                if one.is_slower() { "is slower than " } else { "is faster than " },
                self.candidates[0].name,
                one.statistic,
                one.operation.name(),
                one.drive,
                figure(one.value.value, one.unit),
                figure(one.base.value, one.unit),
                units::deviation(Some(one.percent)),
            ),
        };
        let of = |count: usize| format!("{count} of {all} latencies");
        let tiles = [("Slower", of(slower)), ("Faster", of(faster))];
        let colours = "Significant differences are in colour.";
        let caption = match several {
            true => format!("Each beside {}. {colours}", self.candidates[0].name),
            false => colours.to_owned(),
        };
        Head::new(verdict, sentence, tiles).with(caption, self.beside())
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
