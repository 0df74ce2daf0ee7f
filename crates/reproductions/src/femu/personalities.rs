//! Fig. 5: the basic against the advanced model, under six kinds of load.

use anyhow::Result;
use stasis_report::figures::Figure;
use stasis_report::page::{Block, Section};
use stasis_report::units::duration;
use stasis_report::{Column, Table};

use super::published::PUBLISHED;
use super::{figure, ssd, Point, Settings, Simulator};
use crate::statistics::mean;

/// Size of the drive.
const SIZE: u64 = 1 << 30;
/// The publication's drive in Fig. 5a: 16 planes on 4 channels.
const CHANNELS: u32 = 4;
const PLANES: u32 = 4;

/// Fig. 5b: threads, channels, and planes of each.
const SHAPES: [(u32, u32, u32); 3] = [(1, 1, 1), (4, 2, 2), (16, 4, 4)];

/// A kind of load: what filebench's personality of that name does to a drive, as
/// fio options. Sizes and mixes are those of filebench 1.4's files of that name:
/// mean file and I/O sizes, and operations of one round.
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

struct Outcome {
    basic: f64,
    advanced: f64,
}

impl Outcome {
    /// How far the basic model is from the advanced (%).
    fn error(&self) -> f64 {
        (self.basic / self.advanced - 1.0) * 100.0
    }
}

/// What is measured: fio's options, and channels, planes of each, and threads.
type Case = (&'static str, (u32, u32, u32));

/// The outcome of each case, with both models.
fn measure(settings: &Settings, simulator: &Simulator, cases: &[Case]) -> Result<Vec<Outcome>> {
    let ios = if settings.quick { 100 } else { 1_000 };
    let points: Vec<_> = cases
        .iter()
        .flat_map(|&(options, (channels, planes, threads))| {
            let job = format!(
                "[load]\n{options}\nnumjobs={threads}\nnumber_ios={ios}\nnorandommap\nsize={SIZE}\n"
            );
            [false, true].map(|advanced| Point {
                model: ssd(channels, planes, advanced),
                capacity: SIZE,
                job: job.clone(),
            })
        })
        .collect();
    let means = simulator.run_all(&points, |run| {
        let all: Vec<f64> = run.reads.into_iter().chain(run.writes).collect();
        mean(&all) / 1e3
    })?;
    Ok(means.chunks(2).map(|pair| Outcome { basic: pair[0], advanced: pair[1] }).collect())
}

pub fn findings(settings: &Settings, simulator: &Simulator) -> Result<(Section, Vec<Figure>)> {
    let mut figures = Vec::new();
    let mut table = Table::new(vec![
        Column::left("load"),
        Column::right("basic"),
        Column::right("advanced"),
        Column::right("difference"),
    ]);
    let mut row = |name: String, outcome: &Outcome| {
        table.push(vec![
            name,
            duration(outcome.basic * 1e3),
            duration(outcome.advanced * 1e3),
            format!("{:+.1} %", outcome.error()),
        ]);
    };
    let shape = (CHANNELS, PLANES, super::THREADS);
    let mut cases = PERSONALITIES.map(|personality| (personality.options, shape)).to_vec();
    let varmail = PERSONALITIES[1].options;
    cases.extend(SHAPES.map(|(threads, channels, planes)| (varmail, (channels, planes, threads))));
    let outcomes = measure(settings, simulator, &cases)?;
    let (kinds, shapes) = outcomes.split_at(PERSONALITIES.len());
    let mut errors = Vec::new();
    for (personality, outcome) in PERSONALITIES.iter().zip(kinds) {
        row(personality.name.to_owned(), outcome);
        let what = format!("{}: basic model against the advanced", personality.name);
        figures.push(figure("Fig. 5a", what, "%", None, Some(outcome.error())));
        errors.push(outcome.error().abs());
    }
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    let most = errors.iter().copied().fold(0.0, f64::max);
    figures.push(figure(
        "Fig. 5a",
        "least difference",
        "%",
        PUBLISHED.basic_error.least,
        Some(least),
    ));
    figures.push(figure(
        "Fig. 5a",
        "largest difference",
        "%",
        PUBLISHED.basic_error.most,
        Some(most),
    ));
    for ((threads, channels, planes), outcome) in SHAPES.into_iter().zip(shapes) {
        let name = format!("varmail, {threads}T{}P", channels * planes);
        row(name.clone(), outcome);
        figures.push(figure("Fig. 5b", name, "%", None, Some(outcome.error())));
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
    Ok((section, figures))
}
