//! Section 5.4: a user program, ffmpeg transcoding a clip.

use anyhow::{Context, Result};
use stasis_report::page::{Block, Section};
use stasis_report::plot::{Axis, Bar, Bars, Quantity, Scale, Segment};
use stasis_report::published_vs_measured::Figure;
use stasis_report::{Column, Table};

use super::published::{ProgramColumn, PUBLISHED};
use super::setup::{experiment, on_image, on_ram, on_slow};
use crate::bench::{Runs, Trial};
use crate::experiments::Settings;
use crate::published_data::figure;
use crate::statistics::{coefficient_of_variation, mean};

/// The runs, in the order of Table 4's columns.
const RUNS: [&str; 3] = ["ffmpeg-hdd", "ffmpeg-ram", "ffmpeg-emulated"];
/// The guest's script.
const SCRIPT: &str = include_str!("program.sh");
/// Packages it needs beside the usual ones.
const PACKAGES: [&str; 1] = ["ffmpeg"];
/// Frames of the clip, and how often it is transcoded (the publication: a film of
/// 229,838 frames, ten times).
const FRAMES: u32 = 100;
const TIMES: u32 = 4;

pub fn trials(settings: &Settings) -> Result<Vec<Trial>> {
    if settings.quick {
        // The experiment needs a different guest, which takes minutes to make.
        return Ok(Vec::new());
    }
    let drives = [on_image("jpt39c")?, on_ram("null")?, on_slow("null")?];
    let media = ["the disk", "RAM", "RAM played by the slow disk"];
    let mut trials = Vec::new();
    for ((id, drive), medium) in RUNS.into_iter().zip(drives).zip(media) {
        let words =
            ["env", &format!("FRAMES={FRAMES}"), &format!("RUNS={TIMES}"), "bash", "-c", SCRIPT]
                .map(str::to_owned);
        let mut experiment = experiment(settings, 1, drive, words.to_vec());
        experiment.guest.packages = PACKAGES.map(str::to_owned).to_vec();
        trials.push(Trial {
            id,
            description: format!("5.4: ffmpeg on {medium}"),
            experiment,
            disk_size: None,
            timed: Some("ffmpeg"),
        });
    }
    Ok(trials)
}

/// A run's figures for Table 4.
struct Measured {
    seconds: Vec<f64>,
    frames: f64,
    wall: f64,
}

impl Measured {
    fn average(&self) -> f64 {
        mean(&self.seconds)
    }

    fn frames_per_second(&self) -> f64 {
        self.frames / self.average()
    }

    fn read(runs: &Runs, id: &str) -> Result<Option<Self>> {
        let Some(run) = runs.get(id) else { return Ok(None) };
        let text = |name: &str| {
            let path = run.folder.join(name);
            std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))
        };
        let seconds = microseconds(&text("microseconds")?)?;
        let frames = frames(&text("progress.1")?)
            .with_context(|| format!("ffmpeg's progress in {}", run.folder.display()))?;
        Ok(Some(Self { seconds, frames, wall: run.command_wall }))
    }
}

/// Lines of microseconds, as seconds.
fn microseconds(text: &str) -> Result<Vec<f64>> {
    let number = |line: &str| {
        let number = line.trim().parse::<u64>().with_context(|| format!("`{line}` is no time"))?;
        Ok(number as f64 / 1e6)
    };
    text.lines().map(number).collect()
}

/// The last count of frames in ffmpeg's `-progress` output.
fn frames(text: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| line.strip_prefix("frame=")?.trim().parse().ok())
}

pub fn findings(runs: &Runs) -> Result<(Section, Vec<Figure>)> {
    let mut measured = Vec::new();
    for id in RUNS {
        measured.push(Measured::read(runs, id)?);
    }
    let mut figures = Vec::new();
    for (column, measured) in PUBLISHED.table_4.iter().zip(&measured) {
        figures.extend(rows(column, measured.as_ref()));
    }
    let [disk, ram, played] = [0, 1, 2].map(|index: usize| measured[index].as_ref());
    let accuracy = ram
        .zip(played)
        .map(|(ram, played)| 100.0 - (played.average() / ram.average() - 1.0).abs() * 100.0);
    let title = "run time on the emulated RAM drive, likeness to RAM";
    figures.push(figure("Table 4", title, "%", PUBLISHED.program_accuracy, accuracy).at_least());
    let more =
        disk.zip(played).map(|(disk, played)| (played.wall - disk.wall) / played.wall * 100.0);
    let title = "more wall-clock time than on the disk, share of the emulation's";
    figures.push(figure("Section 5.4", title, "%", PUBLISHED.emulation_time, more).at_most());

    let mut section = Section::new("5.4 A user program: ffmpeg").with(Block::Prose(format!(
        "ffmpeg reads a clip of {FRAMES} frames (160 x 120, MPEG-4) from a file system on the drive, and \
         writes it there in H.264, {TIMES} times with nothing of it in memory; the publication took a film \
         of 229,838 frames, ten times. The disk is a model over 4 GB; RAM is a drive without latency \
         in memory, and the emulated one the same on an image that keeps each I/O waiting for 5 ms \
         of real time. Times are the guest's; wall-clock times are those of all {TIMES} and of making the \
         file system and the clip. What compares is the last column with the one before."
    )));
    if measured.iter().all(Option::is_none) {
        section = section.with(Block::Prose("Not part of the quick form.".into()));
    } else {
        section = section.with(Block::Table("Table 4".into(), table(&measured)));
        section = section.with(Block::Plots(vec![bars(&measured).draw()]));
    }
    Ok((section, figures))
}

fn rows(column: &ProgramColumn, measured: Option<&Measured>) -> Vec<Figure> {
    let row = |measure: &str, unit: &str, published: f64, pick: fn(&Measured) -> f64| {
        figure(
            "Table 4",
            format!("{}, {measure}", column.what),
            unit,
            published,
            measured.map(pick),
        )
        .incomparable()
    };
    vec![
        row("average time", "s", column.seconds, Measured::average),
        row("coefficient of variation", "", column.variation, |run| {
            coefficient_of_variation(&run.seconds)
        }),
        row("frames per second", "1/s", column.frames, Measured::frames_per_second),
        row("wall-clock time", "s", column.wall, |run| run.wall),
    ]
}

fn table(measured: &[Option<Measured>]) -> Table {
    let mut columns = vec![Column::left("")];
    for group in ["published", "measured"] {
        columns.extend(
            PUBLISHED.table_4.iter().map(|column| Column::right(column.what.as_str()).under(group)),
        );
    }
    let mut table = Table::new(columns);
    let all =
        PUBLISHED.table_4.iter().zip(measured).map(|(column, run)| rows(column, run.as_ref()));
    let all: Vec<Vec<Figure>> = all.collect();
    for index in 0..all[0].len() {
        let first = &all[0][index];
        let measure = first.what.split_once(", ").map_or("", |(_, measure)| measure);
        let unit = match first.shown_unit() {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        let mut row = vec![format!("{measure}{unit}")];
        row.extend(all.iter().map(|column| column[index].show(column[index].published)));
        row.extend(all.iter().map(|column| column[index].show(column[index].measured)));
        table.push(row);
    }
    table
}

fn bars(measured: &[Option<Measured>]) -> Bars {
    let bars = PUBLISHED.table_4.iter().zip(measured).filter_map(|(column, run)| {
        let value = run.as_ref()?.average() * 1e9;
        let segments = vec![Segment { name: "measured".into(), colour: 0, value }];
        Some(Bar { label: column.what.clone(), segments })
    });
    Bars {
        title: "Table 4: average time of a transcoding, in the guest".into(),
        axis: Axis::new("time", Scale::Linear, Quantity::Time),
        stacked: false,
        bars: bars.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_leaves_is_read() {
        assert_eq!(microseconds("1500000\n20\n").unwrap(), [1.5, 20e-6]);
        assert!(microseconds("1.5\n").is_err());
        let progress = "frame=0\nprogress=continue\nframe=  100\nfps=3.1\nprogress=end\n";
        assert_eq!(frames(progress), Some(100.0));
        assert_eq!(frames("fps=1\n"), None);
    }

    #[test]
    fn the_script_is_one() {
        let status = std::process::Command::new("bash").args(["-n", "-c", SCRIPT]).status();
        assert!(status.unwrap().success());
    }
}
