//! The page of a comparison, and its table for the terminal.

use stasis_report::page::{thinned, Block, Head, Page, Resolution, Section};
use stasis_report::plot::{
    Axis, Cdf, CdfSeries, Dot, Dots, Markup, Quantity, Row, Scale, Stroke, COLOURS,
};
use stasis_report::verdict::{Alike, Doer, Work};
use stasis_report::{Column, Repeat, Table, Tone, Waits};
use stasis_results::units;

use crate::figures::Statistic;
use crate::inputs::{OtherInput, TextDifference};
use crate::{compared, setup_differences, Candidate, Comparison, Difference, Subject};
use stasis_results::interval::Interval;

/// Points of a drawn distribution: evenly, and as many at its upper end; so many together in the
/// coarsest resolution.
const POINTS: usize = 1000;
const MIN_POINTS: usize = 24;

/// Limit on the files of which the page's top has what differs; all are below.
const MAX_FILES: usize = 2;

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
                one.unit.with_interval(&one.base),
                one.unit.with_interval(&one.value),
                units::deviation(Some(one.percent)),
                one.significance().map_or("–", |yes| if yes { "yes" } else { "no" }).to_owned(),
            ]);
        }
        table
    }

    /// The page, as HTML, with what repeats the comparison, and where it comes from: what made it, and
    /// when.
    pub fn to_html(&self, repeat: Option<&Repeat>, origin: Option<&Section>) -> String {
        let curves = self.subjects().into_iter().map(|subject| {
            let curve = |candidate: &Candidate| points(&candidate.together(&subject));
            let curves = self.candidates.iter().map(curve).collect();
            (subject, curves)
        });
        let curves: Curves = curves.collect();
        Page::within_limit(|resolution| {
            let mut page = self.page(&curves, resolution);
            page.head = page.head.map(|head| head.repeated_by(repeat.cloned()));
            page.sections.extend(origin.cloned().map(Section::folded));
            page
        })
    }

    fn page(&self, curves: &Curves, resolution: Resolution) -> Page {
        let names: Vec<_> = self.candidates.iter().map(|one| one.name.as_str()).collect();
        let (base, others) = (names[0], names[1..].join(", "));
        let mut sections = vec![self.setup()];
        sections.extend(self.printed_section());
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
        let significant = format!(
            "the intervals of the two figures do not overlap, the difference is {} % or more (--least sets this), and \
             both did the same I/Os. It cannot be told of other I/Os, and of figures without an interval{}.",
            units::significant(self.least, 3),
            if self.candidates.len() > 2 { ": a – stands there" } else { "" }
        );
        let terms = [
            (
                "Interval",
                "of 95 %, in brackets, cut off at 0: of one run, that of its I/Os as if they were independent; of several runs, that of the \
                 runs' figures. A rate of one run has none.",
            ),
            ("Significant", significant.as_str()),
            (
                "The same I/Os",
                "of each operation as many I/Os and as many bytes, to within 2 % of all I/Os and bytes; or more of all of them \
                 in the same time, in the same mix.",
            ),
            ("–", "in a table: too few I/Os carry the figure, or there are none."),
            (
                "Rates",
                "I/Os and bytes over the operation's own time, as on the page of a run.",
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

    /// The answer, with the table of the figures.
    fn head(&self) -> Head {
        let [base, others @ ..] = &self.candidates[..] else { return Head::default() };
        let least = units::significant(self.least, 3);
        let compared = match self.works.iter().all(Work::is_comparable) {
            true => "",
            false => {
                " Figures of candidates that did other I/Os are not compared, and have no colour."
            }
        };
        let colours = format!(
            "Significant differences from {} of {least} % and more are in colour.{compared}",
            base.name
        );
        let all = |one: &Candidate| -> u64 {
            let ios = one.distinct().iter().flat_map(|run| run.ios.values());
            let count: u64 = ios.map(|ios| ios.latencies.len() as u64).sum();
            count / one.distinct().len().max(1) as u64
        };
        let ios = ("I/Os", self.each(|one| units::count(all(one))));
        let second = match others {
            [_] if self.works[0].is_comparable() => ("Latencies that differ", self.latencies()),
            _ => ios,
        };
        let took = match base.doer() {
            Doer::Command => "Time of the command, base first",
            Doer::Load => "Time of the load, base first",
        };
        let time = |one: &Candidate| {
            compared::time(one).map_or("–".to_owned(), |time| units::duration(time.value))
        };
        let tiles = [(took, self.each(time)), second];
        let (caption, table) = match others {
            [_] => (colours, self.beside()),
            _ => (
                format!("{colours} All differences with their intervals are below."),
                self.figures(),
            ),
        };
        let mut head = Head::answering(self.verdict(), tiles).with(caption, table);
        head.notes = self.why(&self.fastest_first());
        head.notes.extend(self.setup_note());
        let files = self.inputs.iter().filter_map(OtherInput::sentence);
        head.notes.extend(files.take(MAX_FILES));
        head
    }

    /// A figure of each candidate, of few.
    fn each(&self, figure: impl Fn(&Candidate) -> String) -> String {
        /// Candidates that a tile has room for.
        const SHOWN: usize = 3;
        let (first, more) = self.candidates.split_at(self.candidates.len().min(SHOWN));
        let mut all: Vec<_> = first.iter().map(figure).collect();
        all.extend((!more.is_empty()).then(|| "…".to_owned()));
        all.join("; ")
    }

    /// Numbers of the latencies that are longer and shorter, and of those of which this cannot be told.
    fn latencies(&self) -> String {
        let all = || self.differences.iter().filter(|one| one.is_of_latency());
        let (count, significant) = (all().count(), all().filter(|one| one.significant));
        let (slower, faster): (Vec<_>, Vec<_>) = significant.partition(|one| one.is_slower());
        let differ = match (slower.len(), faster.len()) {
            (0, 0) => format!("none of {count}"),
            (slower, 0) => format!("{slower} of {count} longer"),
            (0, faster) => format!("{faster} of {count} shorter"),
            (slower, faster) => format!("{slower} longer and {faster} shorter of {count}"),
        };
        match all().filter(|one| one.significance().is_none()).count() {
            0 => format!("{differ} beyond chance"),
            unknown => format!("{differ} beyond chance; {unknown} cannot be told"),
        }
    }

    /// The candidates by [`Self::ranking`], the fastest first; of two as they are given.
    fn fastest_first(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.candidates.len()).collect();
        if let (true, Some((_, _, figures))) = (all.len() > 2, self.ranking()) {
            all.sort_by(|a, b| figures[*a].total_cmp(&figures[*b]));
        }
        all
    }

    /// Returns the parts of the time of these candidates' I/Os, on average and of the slowest: of the
    /// first few.
    fn why(&self, candidates: &[usize]) -> Vec<String> {
        /// All are in a table below.
        const TOLD: usize = 4;
        let Some(subject) = self.main_subject() else { return Vec::new() };
        let name = |place: usize| &self.candidates[place].name;
        let mean = |place: usize| {
            let candidate = &self.candidates[place];
            let waits = candidate.mean_waits(&subject)?;
            let latency = Statistic::Mean.measured(candidate, &subject)?;
            let latency = units::duration(latency.value);
            let depth = candidate.at_once(&subject.0).filter(|_| waits.parts[0].0 == "queue");
            let depth = depth.map_or(String::new(), |(depth, each)| {
                let (depth, each) = (units::significant(depth, 2), units::duration(each));
                let queue = waits.parts[0].1;
                let own = waits.parts.iter().find(|(name, _)| *name != "queue");
                let own = own.map_or(String::new(), |(name, share)| {
                    let share = units::significant(100.0 * share / (1.0 - queue), 3);
                    format!("; without the queue {share} % of its time is {name}")
                });
                format!(" ({depth} I/Os of all operations are there at once, and one ends every {each}{own})")
            });
            Some(format!("of {} takes {latency}: {}{depth}", name(place), waits.words()))
        };
        let slowest = |place: usize| {
            let waits = self.candidates[place].waits(&subject)?;
            Some(format!("of {}: {}", name(place), waits.words()))
        };
        let means: Vec<_> = candidates.iter().copied().filter_map(mean).take(TOLD).collect();
        let slowest: Vec<_> = candidates.iter().copied().filter_map(slowest).take(TOLD).collect();
        let (one, all) = (subject.1.name(), units::operations(subject.1));
        let in_the_mean =
            (!means.is_empty()).then(|| format!("On average a {one} {}.", means.join("; ")));
        let of_slowest = (!slowest.is_empty())
            .then(|| format!("Where the slowest {all} spent their time: {}.", slowest.join("; ")));
        in_the_mean.into_iter().chain(of_slowest).collect()
    }

    /// Returns the parts of the time of each candidate's I/Os, on average and of the slowest, by drive and
    /// operation; none where no result has them.
    pub fn tails(&self) -> Option<Section> {
        let columns = ["drive", "operation", "candidate"].map(Column::left).into_iter();
        let figures = ["I/Os at once", "one ends every"];
        let figures = figures.map(|name| Column::right(name).under("of all operations"));
        let columns = columns.chain(figures).chain([
            Column::left("on average").under("where the time went"),
            Column::left("of the slowest").under("where the time went"),
        ]);
        let mut table = Table::new(columns.collect());
        for subject in self.subjects() {
            for candidate in &self.candidates {
                let (mean, slowest) = (candidate.mean_waits(&subject), candidate.waits(&subject));
                if mean.is_none() && slowest.is_none() {
                    continue;
                }
                let words =
                    |waits: Option<Waits>| waits.map_or("–".to_owned(), |waits| waits.words());
                let depth = candidate.at_once(&subject.0);
                table.push(vec![
                    subject.0.clone(),
                    subject.1.name().to_owned(),
                    candidate.name.clone(),
                    depth.map_or("–".to_owned(), |(depth, _)| units::significant(depth, 2)),
                    depth.map_or("–".to_owned(), |(_, each)| units::duration(each)),
                    words(mean),
                    words(slowest),
                ]);
            }
        }
        let caption =
            "Service time is the latency that a model by figures has for the command alone: its cause is the \
             figure. Model is the time of a model of which no parts are kept. I/Os at once are the mean number in the \
             drive, of all operations, from the first submission to the last completion; the next column has the mean \
             time between the ends of two. The slowest are at most twenty of each run.";
        let section = Section::new("Why I/Os take their time");
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
                    measured.map_or("–".into(), |one| statistic.unit().shown(one.value))
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
            let column_of = |name: &str| Column::right(name).under(candidate.name.clone());
            columns.extend(["figure", "difference"].map(column_of));
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
                one.unit.with_interval(&one.base),
            ]);
            for (number, candidate) in self.candidates[1..].iter().enumerate() {
                let found = row.iter().find(|one| one.candidate == candidate.name);
                let cells = found.map_or(["–".to_owned(), "–".to_owned()], |one| {
                    let is_other = one.is_of_latency() && !one.comparable;
                    let percent = (!is_other).then_some(one.percent);
                    let difference =
                        percent.map_or("–".into(), |one| units::deviation(Some(one)));
                    [one.unit.with_interval(&one.value), difference]
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

    /// The difference in the set-up that matters most, of which a section below has all.
    fn setup_note(&self) -> Option<String> {
        /// Limit on the characters of a value.
        const SHOWN: usize = 60;
        let inputs = self.inputs.iter().map(OtherInput::row);
        let all: Vec<_> = self.setup.iter().cloned().chain(inputs).collect();
        // A name follows from what a model was given: of few such keys one tells more.
        let is_name = |name: &str| [": model", ": label"].iter().any(|end| name.ends_with(end));
        let given = || all.iter().filter(|(name, _)| !is_name(name));
        let few = (1..=2).contains(&given().count()).then(|| given().next()).flatten();
        let model = || all.iter().find(|(name, _)| name.ends_with(": model"));
        let (name, values) = few.or_else(model).or(all.first())?;
        let each = values.iter().zip(&self.candidates).map(|(value, candidate)| {
            let value: String = value.chars().take(SHOWN).collect();
            format!("{value} ({})", candidate.name)
        });
        let more = match all.len() - 1 {
            0 => String::new(),
            1 => "; one more parameter differs".to_owned(),
            more => format!("; {more} more parameters differ"),
        };
        Some(format!("Set-up: {name} is {}{more}.", each.collect::<Vec<_>>().join(", ")))
    }

    fn setup(&self) -> Section {
        let mut section = Section::new("What differs in the set-up");
        if self.candidates.iter().any(|one| one.runs.iter().any(|run| run.setup.0.is_empty())) {
            let text = "Some results have no summary.json, so that their set-up is not known.";
            return section.with(Block::Prose(text.into()));
        }
        let inputs: Vec<_> = self.inputs.iter().map(OtherInput::row).collect();
        let all = || self.setup.iter().chain(&inputs);
        if all().next().is_none() {
            let text = "Nothing: the results tell of the same parameters, versions, packages and kernels, and of inputs \
                        with the same contents.";
            return section.with(Block::Prose(text.into()));
        }
        section = section
            .with(Block::Table(String::new(), setup_differences::table(&self.candidates, all())));
        for input in &self.inputs {
            for (candidate, difference) in &input.texts {
                section = section.with(self.difference(&input.name, candidate, difference));
            }
        }
        section
    }

    /// Differences between the first candidate's file of this name and another's.
    fn difference(&self, name: &str, candidate: &str, difference: &TextDifference) -> Block {
        let base = &self.candidates[0].name;
        match difference {
            TextDifference::Lines(changes) => {
                let caption = format!("{name}: − is a line of {base}, + one of {candidate}.");
                Block::Lines(caption, changes.shown.clone())
            }
            TextDifference::LineEnds => Block::Prose(format!(
                "{name}: the files of {base} and {candidate} differ in the ends of lines only."
            )),
            TextDifference::NotKept => Block::Prose(format!(
                "{name}: the files of {base} and {candidate} are others by their lengths or hashes. What differs is \
                 not known, as results keep the text of small files only."
            )),
        }
    }

    /// The figures that the commands printed themselves.
    fn printed_section(&self) -> Option<Section> {
        /// Lines that are shown.
        const SHOWN: usize = 24;
        let printed = self.printed();
        let names = self.candidates.iter().map(|one| Column::left(one.name.clone()));
        let mut table = Table::new(names.collect());
        printed.iter().take(SHOWN).for_each(|both| table.push(both.to_vec()));
        let more = match printed.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" {more} more are in the outputs."),
        };
        let caption = format!("Lines that differ in their figures only.{more}");
        let section = Section::new("What the commands printed");
        (!table.rows.is_empty()).then(|| section.with(Block::Table(caption, table)))
    }

    /// The commands that repeat what is compared.
    fn repeats(&self) -> Option<Section> {
        let blocks_of = |one: &Candidate| {
            let commands = one.runs.iter().filter_map(|run| run.repeat.clone());
            let commands: Vec<_> = commands.map(Block::Command).collect();
            let name = Block::Prose(format!("{}:", one.name));
            (!commands.is_empty()).then(|| [vec![name], commands].concat())
        };
        let blocks: Vec<_> = self.candidates.iter().filter_map(blocks_of).flatten().collect();
        let mut section = Section::new("To repeat the runs themselves").folded();
        if !blocks.is_empty() {
            let text = "Each makes the results of one run, in a folder of the name under which they are compared here.";
            section.blocks.push(Block::Prose(text.to_owned()));
        }
        section.blocks.extend(blocks);
        section.blocks.extend(self.files());
        (!section.blocks.is_empty()).then_some(section)
    }

    /// The files that the runs read, once each.
    fn files(&self) -> Option<Block> {
        let columns = [Column::left("file"), Column::right("length"), Column::left("SHA-256")];
        let mut table = Table::new(columns.to_vec());
        for input in self.candidates.iter().flat_map(|one| &one.runs).flat_map(|run| &run.inputs) {
            let hash = input.sha256.clone().unwrap_or_else(|| "too large to be hashed".to_owned());
            let row = vec![input.path.clone(), units::bytes(input.bytes), hash];
            if !table.rows.contains(&row) {
                table.push(row);
            }
        }
        let caption = "The files that the runs read.".to_owned();
        (!table.rows.is_empty()).then_some(Block::Table(caption, table))
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
            let about = one.significance().map_or(String::new(), |yes| {
                let significant = if yes { "significant" } else { "not significant" };
                format!("{}, {significant}", units::deviation(Some(one.percent)))
            });
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
    let ios: usize = candidate
        .distinct()
        .iter()
        .flat_map(|run| run.ios.values())
        .map(|ios| ios.latencies.len())
        .sum();
    let runs = match (candidate.runs.len(), candidate.counted().alike) {
        (1, _) => String::new(),
        (several, Alike::Whole) => format!(" in each of {several} identical runs"),
        (several, Alike::InFigures) => format!(" in each of {several} runs with the same figures"),
        (several, Alike::No) => format!(" in {several} runs"),
    };
    format!("{}: {} I/Os{runs}", candidate.name, units::count(ios as u64))
}

/// (value, share of values not above it) of values that rise: evenly in the middle, each one
/// at the upper end, where the tail is.
fn points(sorted: &[u64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let step = (count / POINTS).max(1);
    let ranks = (1..=count).filter(|rank| rank % step == 0 || count - rank < POINTS);
    ranks.map(|rank| (sorted[rank - 1] as f64, rank as f64 / count as f64)).collect()
}
