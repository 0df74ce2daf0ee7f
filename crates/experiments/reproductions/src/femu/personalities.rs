//! Fig. 5: the basic against the advanced model, under six kinds of load.

use stasis_report::page::{Block, Section};
use stasis_report::published_vs_measured::Figure;
use stasis_report::{Column, Table};
use stasis_results::units::duration;

use super::published::PUBLISHED;
use super::setup::{ssd, THREADS};
use crate::experiments::Settings;
use crate::published_data::figure;
use crate::simulated::{Point, Simulations};

/// Size of the drive.
const SIZE: u64 = 1 << 30;
/// The publication's drive in Fig. 5a: 16 planes on 4 channels.
const CHANNELS: u32 = 4;
const PLANES: u32 = 4;

/// Fig. 5b's load, by its place in [`PERSONALITIES`], and its shapes: threads, channels, and planes
/// of each.
const VARMAIL: usize = 1;
const SHAPES: [(u32, u32, u32); 3] = [(1, 1, 1), (4, 2, 2), (16, 4, 4)];

/// A kind of load: the I/O of filebench's personality of that name, as fio options. Sizes and mixes
/// are those of filebench 1.4's files of that name: mean file and I/O sizes, and operations of one
/// round.
struct Personality {
    name: &'static str,
    options: &'static str,
}

const PERSONALITIES: [Personality; 6] = [
    // Whole files of 128 KiB written, appended to (16 KiB), read.
    Personality {
        name: "fileserver",
        options: "rw=randrw\nrwmixread=33\nbssplit=128k/50:16k/50,128k/100",
    },
    // Mails of 16 KiB, appended to and made durable, read.
    Personality { name: "varmail", options: "rw=randrw\nrwmixread=50\nbs=16k\nfsync=1" },
    // Small pages read, a log appended to.
    Personality { name: "webserver", options: "rw=randrw\nrwmixread=91\nbs=16k" },
    // Objects written once, read five times.
    Personality { name: "webproxy", options: "rw=randrw\nrwmixread=83\nbs=16k" },
    // Pages of 4 KiB read at random, written durably.
    Personality { name: "oltp", options: "rw=randrw\nrwmixread=90\nbs=4k\nfdatasync=8" },
    // Long reads, few long writes.
    Personality { name: "videoserver", options: "rw=randrw\nrwmixread=95\nbs=256k" },
];

#[derive(Clone, Copy)]
struct Outcome {
    basic: f64,
    advanced: f64,
}

impl Outcome {
    /// Deviation of the basic model from the advanced one (%).
    fn error(&self) -> f64 {
        (self.basic / self.advanced - 1.0) * 100.0
    }
}

/// A case to measure: a load, and threads, channels, planes of each.
type Case = (&'static Personality, (u32, u32, u32));

fn cases() -> impl Iterator<Item = Case> {
    let kinds = PERSONALITIES.iter().map(|kind| (kind, (THREADS, CHANNELS, PLANES)));
    kinds.chain(SHAPES.map(|shape| (&PERSONALITIES[VARMAIL], shape)))
}

fn id((kind, (threads, channels, planes)): Case, model: &str) -> String {
    format!("{}-{threads}t-{channels}x{planes}-{model}", kind.name)
}

pub fn points(settings: &Settings) -> Vec<Point> {
    let ios = if settings.quick { 100 } else { 1_000 };
    let both = |case: Case| {
        let (Personality { name, options }, (threads, channels, planes)) = case;
        let job = format!(
            "[load]\n{options}\nnumjobs={threads}\nnumber_ios={ios}\nnorandommap\nsize={SIZE}\n"
        );
        [("basic", false), ("advanced", true)].map(|(model, advanced)| Point {
            id: id(case, model),
            description: format!("Fig. 5: {name}, {threads} threads, {channels} channels of {planes} planes, the {model} model"),
            model: ssd(channels, planes, advanced),
            capacity: SIZE,
            job: job.clone(),
        })
    };
    cases().flat_map(both).collect()
}

/// The outcome of each case, with both models (us).
fn outcomes(simulations: &Simulations) -> Vec<Option<Outcome>> {
    let mean = |case, model| Some(simulations.get(&id(case, model))?.mean() / 1e3);
    let both =
        |case| Some(Outcome { basic: mean(case, "basic")?, advanced: mean(case, "advanced")? });
    cases().map(both).collect()
}

pub fn findings(simulations: &Simulations) -> (Section, Vec<Figure>) {
    let mut figures = Vec::new();
    let mut table = Table::new(vec![
        Column::left("load"),
        Column::right("basic"),
        Column::right("advanced"),
        Column::right("difference"),
    ]);
    let mut row = |name: String, outcome: &Option<Outcome>| {
        let cells = outcome.map(|outcome| {
            let [basic, advanced] = [outcome.basic, outcome.advanced].map(|us| duration(us * 1e3));
            [basic, advanced, format!("{:+.1} %", outcome.error())]
        });
        table.push(std::iter::once(name).chain(cells.into_iter().flatten()).collect());
    };
    let outcomes = outcomes(simulations);
    let (kinds, shapes) = outcomes.split_at(PERSONALITIES.len());
    let mut errors = Vec::new();
    for (personality, outcome) in PERSONALITIES.iter().zip(kinds) {
        row(personality.name.to_owned(), outcome);
        let title = format!("{}: basic model against the advanced", personality.name);
        let error = outcome.map(|outcome| outcome.error());
        figures.push(figure("Fig. 5a", title, "%", None, error));
        errors.extend(error.map(f64::abs));
    }
    let least = errors.iter().copied().reduce(f64::min);
    let most = errors.iter().copied().reduce(f64::max);
    figures.push(figure("Fig. 5a", "least difference", "%", PUBLISHED.basic_error.least, least));
    figures.push(figure("Fig. 5a", "largest difference", "%", PUBLISHED.basic_error.most, most));
    for ((threads, channels, planes), outcome) in SHAPES.into_iter().zip(shapes) {
        let name = format!("varmail, {threads}T{}P", channels * planes);
        row(name.clone(), outcome);
        let error = outcome.map(|outcome| outcome.error());
        figures.push(figure("Fig. 5b", name, "%", None, error));
    }
    let section = Section::new("Fig. 5 The basic and the advanced model")
        .with(Block::Prose(
            "The publication compares both models with the real OpenChannel SSD, which is not at \
             hand: here the advanced model stands for it, so that the figures are what one \
             register and one page time leave out. The loads are fio's, with the mixes of \
             filebench's personalities of these names, on 16 planes of 4 channels; writes go \
             through."
                .into(),
        ))
        .with(Block::Table("Mean latencies of all I/Os.".into(), table));
    (section, figures)
}
