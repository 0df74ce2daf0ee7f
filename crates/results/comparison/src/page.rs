//! The page of a comparison, and its table for the terminal.

use stasis_report::page::{thinned, Block, Page, Resolution, Section};
use stasis_report::plot::{Axis, Cdf, CdfSeries, Quantity, Scale, Stroke};
use stasis_report::{units, Column, Table};

use crate::interval::Interval;
use crate::{Candidate, Comparison, Difference};

/// Points of a drawn distribution: evenly, and as many at its upper end; so many together in the
/// coarsest resolution.
const POINTS: usize = 1000;
const MIN_POINTS: usize = 24;

/// The subjects that all candidates have, with the distribution of each.
type Curves = Vec<((String, String), Vec<Vec<(f64, f64)>>)>;

impl Comparison {
    /// The differences as a table, those that matter first; all, or the significant ones.
    pub fn table(&self, all: bool) -> Table {
        let mut columns: Vec<_> =
            ["candidate", "drive", "operation"].map(Column::left).into_iter().collect();
        columns.extend(["latency", "base", "this", "difference", "significant"].map(Column::right));
        let mut table = Table::new(columns);
        for one in self.differences.iter().filter(|one| all || one.significant) {
            table.push(row(one));
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
        let mut sections = vec![Section::new("Differences")
            .with(Block::Prose(format!(
                "Each figure has its confidence interval of 95 %: of one run, that of its I/Os as if they were \
                 independent; of several, that of the runs' figures. A difference is significant where the two \
                 intervals do not overlap. Those that matter come first. The base is {base}."
            )))
            .with(Block::Table("Delivered latency".into(), self.table(true)))];
        for (number, ((drive, operation), curves)) in curves.iter().enumerate() {
            let section = Section::new(format!("{drive}: {operation}"));
            sections.push(section.with(if number < resolution.subjects() {
                let plots = [false, true].map(|tail| self.plot(curves, tail, resolution).draw());
                Block::Plots(plots.to_vec())
            } else {
                Block::Prose("There are too many plots for one page: compare fewer results.".into())
            }));
        }
        if !self.apart.is_empty() {
            let mut table =
                Table::new(["drive", "operation", "only in"].map(Column::left).to_vec());
            for (drive, operation, names) in &self.apart {
                table.push(vec![drive.clone(), operation.clone(), names.join(", ")]);
            }
            let section = Section::new("Not compared");
            sections.push(section.with(Block::Table("What only some have".into(), table)));
        }
        Page {
            title: format!("{others} against {base}"),
            subtitle: self.candidates.iter().map(described).collect::<Vec<_>>().join("; "),
            sections,
        }
    }

    /// The subjects that all candidates have: drive and operation.
    fn subjects(&self) -> Vec<(String, String)> {
        let mut all: Vec<_> = self.candidates[0].subjects().cloned().collect();
        all.sort();
        all.dedup();
        all.retain(|subject| {
            self.candidates.iter().all(|one| one.subjects().any(|s| s == subject))
        });
        all
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
            x: Axis::new("delivered latency", Scale::Log, Quantity::Time),
            tail,
            series: series.collect(),
        }
    }
}

fn described(candidate: &Candidate) -> String {
    let ios: usize = candidate.runs.iter().flat_map(|run| run.values()).map(Vec::len).sum();
    let runs = match candidate.runs.len() {
        1 => String::new(),
        several => format!(" in {several} runs"),
    };
    format!("{}: {} I/Os{runs}", candidate.name, units::count(ios as u64))
}

fn row(one: &Difference) -> Vec<String> {
    let shown = |interval: &Interval| {
        let [value, low, high] = [interval.value, interval.low, interval.high].map(units::duration);
        format!("{value} [{low}, {high}]")
    };
    vec![
        one.candidate.clone(),
        one.drive.clone(),
        one.operation.clone(),
        one.statistic.clone(),
        shown(&one.base),
        shown(&one.value),
        units::deviation(Some(one.percent)),
        if one.significant { "yes" } else { "no" }.to_owned(),
    ]
}

/// (value, share of values not above it) of values that rise: evenly in the middle, each one
/// at the upper end, where the tail is.
fn points(sorted: &[u64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let step = (count / POINTS).max(1);
    let ranks = (1..=count).filter(|rank| rank % step == 0 || count - rank < POINTS);
    ranks.map(|rank| (sorted[rank - 1] as f64, rank as f64 / count as f64)).collect()
}
