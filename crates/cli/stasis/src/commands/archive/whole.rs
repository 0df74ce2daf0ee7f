//! A folder of results as a whole: the command that made it, and the runs in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{bail, ensure, Context, Result};
use serde::Deserialize;
use serde_json::Value;
use stasis_experiment::Engine;
use stasis_report::{InputFile, Repeat};
use stasis_results::{Summary, SUMMARY_FILE};
use stasis_runner::provenance::words::without_results;

use super::command::Parse;
use super::inputs::{self, unquoted};

/// Names of the study package's files (`python/src/stasis/study/folder.py`).
const STUDY: &str = "study.json";
const POINTS: &str = "points";
const RECORD: &str = "point.json";
const FIGURES: &str = "figures";
/// Files of a study's folder that are no results: its lock, and unfinished points.
const PASSING: [&str; 2] = [".lock", "working"];
/// Length of the part of a point's key that names its file of figures.
const SHORT_KEY: usize = 16;
/// The engine's name in summaries of simulations.
const SIMULATED: &str = "sim";

/// Results, and how they were made.
pub struct Whole {
    pub folder: PathBuf,
    /// The command's words, without the folder of results.
    pub words: Vec<String>,
    pub started: SystemTime,
    /// The version of the program that made them.
    pub version: String,
    /// The runs by name, each with its folder: one, or those of several. A study's are named by
    /// the values of their axes.
    pub runs: BTreeMap<String, PathBuf>,
    /// The first run's figures.
    pub first: Option<Summary>,
    /// The files that a study has read; of other commands the words and files say which.
    study: Option<Vec<PathBuf>>,
}

/// The part of `study.json` that describes a study as a whole.
#[derive(Deserialize)]
struct Study {
    kind: String,
    repeat: Option<StudyRepeat>,
}

#[derive(Deserialize)]
struct StudyRepeat {
    command: String,
    inputs: Vec<InputFile>,
    started_at: String,
    finished: u64,
    total: u64,
}

#[derive(Deserialize)]
struct Record {
    values: Value,
}

impl Whole {
    /// Reads what a folder of results says of itself.
    pub fn read(folder: &Path) -> Result<Self> {
        if folder.join(STUDY).exists() {
            return Self::of_study(folder);
        }
        let mut runs = BTreeMap::new();
        if folder.join(SUMMARY_FILE).exists() {
            runs.insert(String::new(), folder.to_owned());
        } else {
            let about = || format!("cannot read {}", folder.display());
            for entry in folder.read_dir().with_context(about)? {
                let entry = entry.with_context(about)?;
                if entry.path().join(SUMMARY_FILE).exists() {
                    runs.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
                }
            }
        }
        let mut first: Option<(Summary, String, SystemTime)> = None;
        for path in runs.values() {
            let summary = read_summary(path)?;
            let (line, started) = (line(&summary, path, folder)?, date(&summary, path)?);
            match &mut first {
                None => first = Some((summary, line, started)),
                Some((_, other, earliest)) => {
                    ensure!(
                        *other == line,
                        "the runs in {} were made by several commands: `{other}`, and `{line}`. \
                         Archive each, or make them anew by one command",
                        folder.display()
                    );
                    *earliest = started.min(*earliest);
                }
            }
        }
        let Some((summary, line, started)) = first else {
            bail!("{} has no {SUMMARY_FILE}, and is no folder of results", folder.display());
        };
        let version = summary.extra.get("stasis_version").and_then(Value::as_str);
        Ok(Self {
            folder: folder.to_owned(),
            words: words(&line)?,
            started,
            version: version.unwrap_or("unknown").to_owned(),
            runs,
            first: Some(summary),
            study: None,
        })
    }

    fn of_study(folder: &Path) -> Result<Self> {
        let path = folder.join(STUDY);
        let json =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let study: Study = serde_json::from_slice(&json)
            .with_context(|| format!("{} describes no study", path.display()))?;
        ensure!(
            study.kind != "reproduce",
            "{} is a publication that was repeated with --on; what `stasis reproduce` leaves \
             without it can be archived",
            folder.display()
        );
        let repeat = study.repeat.with_context(|| {
            format!(
                "{} does not say what repeats the study: run it again, which computes no finished \
                 point anew",
                path.display()
            )
        })?;
        ensure!(
            repeat.finished == repeat.total,
            "{} of {} points of the study in {} are finished: run it again, and archive it then",
            repeat.finished,
            repeat.total,
            folder.display()
        );
        let current = current(&folder.join(FIGURES))?;
        let (mut runs, mut first) = (BTreeMap::new(), None);
        let points = folder.join(POINTS);
        for entry in points.read_dir().with_context(|| points.display().to_string())? {
            let point = entry.with_context(|| points.display().to_string())?.path();
            // A point of the study as it was before it was changed.
            if !is_current(&point, &current) {
                continue;
            }
            let record = point.join(RECORD);
            let json =
                std::fs::read(&record).with_context(|| format!("cannot read {}", record.display()));
            let record: Record = serde_json::from_slice(&json?)
                .with_context(|| format!("{} describes no point", record.display()))?;
            if first.is_none() {
                first = Some(read_summary(&point)?);
            }
            runs.insert(record.values.to_string(), point);
        }
        ensure!(
            runs.len() as u64 == repeat.finished,
            "{} has {} of {} finished points: run the study again",
            points.display(),
            runs.len(),
            repeat.finished
        );
        let version =
            first.as_ref().and_then(|summary| summary.extra.get("stasis_version")?.as_str());
        Ok(Self {
            folder: folder.to_owned(),
            words: words(&repeat.command)?,
            started: time(&repeat.started_at)?,
            version: version.unwrap_or("unknown").to_owned(),
            runs,
            first,
            study: Some(repeat.inputs.into_iter().map(|input| input.path.into()).collect()),
        })
    }

    /// The files and folders that the command reads, by `parse`, as relative paths from the current folder.
    ///
    /// # Errors
    /// An input cannot go into an archive.
    pub fn inputs(&self, parse: Parse) -> Result<BTreeSet<PathBuf>> {
        match &self.study {
            Some(paths) => inputs::of_study(paths),
            None => inputs::inputs(&self.words, parse),
        }
    }

    /// Returns whether a path in the folder belongs into an archive, with what lies below it.
    pub fn keeps(&self, path: &Path, current: &BTreeSet<String>) -> bool {
        if self.study.is_none() {
            return true;
        }
        let Ok(within) = path.strip_prefix(&self.folder) else { return true };
        let mut parts = within.iter();
        match (parts.next(), parts.next()) {
            (Some(name), _) if PASSING.iter().any(|passing| name == *passing) => false,
            (Some(name), Some(point)) if name == POINTS => is_current(Path::new(point), current),
            _ => true,
        }
    }

    /// Names of the points that the study still has, by the beginning of their keys.
    pub fn current(&self) -> Result<BTreeSet<String>> {
        match self.study {
            Some(_) => current(&self.folder.join(FIGURES)),
            None => Ok(BTreeSet::new()),
        }
    }

    /// The engine, where it does not repeat to the byte.
    pub fn real_time(&self) -> Option<&str> {
        let engine = self.first.as_ref()?.engine.as_str();
        (engine != Engine::Exact.name() && engine != SIMULATED).then_some(engine)
    }
}

/// The beginnings of the keys of all points whose figures are in the data set.
fn current(figures: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    if !figures.is_dir() {
        return Ok(found);
    }
    let mut folders = vec![figures.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().with_context(|| folder.display().to_string())? {
            let path = entry.with_context(|| folder.display().to_string())?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) = path.file_stem() {
                found.insert(name.to_string_lossy().into_owned());
            }
        }
    }
    Ok(found)
}

fn is_current(point: &Path, current: &BTreeSet<String>) -> bool {
    let key = point.file_name().unwrap_or_default().to_string_lossy();
    key.get(..SHORT_KEY).is_some_and(|short| current.contains(short))
}

/// The words of a command line without the program and the folder of results.
fn words(line: &str) -> Result<Vec<String>> {
    Ok(without_results(unquoted(line)?.into_iter().skip(1).collect()))
}

/// The command line that makes the results in `folder`, which has the run in `path`.
fn line(summary: &Summary, path: &Path, folder: &Path) -> Result<String> {
    let alone = Repeat::of(&summary.extra).map(|repeat| repeat.command);
    match alone.filter(|_| path == folder && summary.extra.contains_key("branch")) {
        // One of several branches of a command.
        Some(line) => Ok(line),
        None => said(summary, "command_line", path),
    }
}

fn said(summary: &Summary, name: &str, folder: &Path) -> Result<String> {
    let text = summary.extra.get(name).and_then(Value::as_str).map(str::to_owned);
    text.with_context(|| {
        format!("{} does not say how the run was made", folder.join(SUMMARY_FILE).display())
    })
}

fn date(summary: &Summary, folder: &Path) -> Result<SystemTime> {
    time(&said(summary, "started_at", folder)?)
}

fn time(started: &str) -> Result<SystemTime> {
    stasis_runner::provenance::time_of(started)
        .with_context(|| format!("the date of the run, {started}"))
}

/// A run's figures.
pub fn read_summary(results: &Path) -> Result<Summary> {
    let path = results.join(SUMMARY_FILE);
    let json = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&json).with_context(|| format!("{} is no summary", path.display()))
}
