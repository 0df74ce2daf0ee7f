//! `stasis on`: one workload on several drives, one run each.

mod medium;
mod page;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{bail, ensure, Context, Result};
use serde_json::{json, Value};
use stasis_experiment::{Engine, Experiment};
use stasis_models::ModelSpec;
use stasis_program::here::Here;
use stasis_results::{ResultsFolder, Summary};
use stasis_runner::batch::{self, Batch, Outcome};
use stasis_runner::provenance::Provenance;
use stasis_runner::{engine, guest, Event, Runner, OUTPUT_FILE};
use stasis_terminal::progress::Steps;
use stasis_terminal::{answer, ensure_guest, stop_on_signals, Terminal};

use super::run::experiment;
use crate::arguments::MachineArguments;

/// The name of a drive that no word and no file describes.
const DRIVE: &str = "disk";
/// Largest number of models in one command.
const MAX_MODELS: usize = 64;
/// Length of a failed command's output that a message repeats (bytes).
const LAST_WORDS: usize = 400;
/// The exit status of a run that could not be made.
const FAILED: u8 = 125;

/// Arguments of `stasis on`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each model is a name of `stasis models` or a word that `model=` of --drive takes. One run is made
for each, in a guest of its own that starts from the same state, under the same seed. The drive is
/dev/nvme0n1 with 1 GiB, unless --drive or the file describes others: their models are replaced,
or with --to that of one drive. Files of media stay as they are: each run writes to an overlay.

The folder of results has one folder for each run, report.html with all of them, and
drives.csv with the figures.

Examples:
  stasis on samsung-980-pro,optane-p4800x -- fio --name=r --filename=/dev/nvme0n1 --rw=randread --direct=1 --number_ios=1000
  stasis on fixed:100us,fixed:1ms experiment.toml --results slower

Exit status: 0 if every command succeeded, else the greatest of theirs; 99 if a threshold of the file
([[expect]]) was not met, 125 if a run failed, 130 if it was stopped."
)]
pub struct Arguments {
    /// The models
    #[arg(value_name = "MODEL,...")]
    pub(super) models: String,
    /// An experiment file
    #[arg(value_name = "EXPERIMENT.toml")]
    pub(super) experiment: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArguments,
    /// The drive that gets the models [default: every drive]
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Folder for the results [default: results]
    #[arg(long, value_name = "DIR")]
    pub(super) results: Option<PathBuf>,
    /// Runs at the same time [default: one for each core under exact, else one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Command to run in the guest, as root
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The workload on one drive.
struct Point {
    /// Name of the run and of its folder: the model's word, as far as a folder can have it.
    name: String,
    experiment: Experiment,
    /// The words of the command with this model alone.
    words: Vec<String>,
}

impl batch::Point for Point {
    fn name(&self) -> Cow<'_, str> {
        self.name.as_str().into()
    }
}

/// `stasis on`.
pub fn main(arguments: Arguments, quiet: bool) -> Result<ExitCode> {
    changed(arguments, quiet, |_| ())
}

/// The workload of `stasis on`, and the folder that its relative paths start from.
pub(super) fn joined(arguments: Arguments) -> Result<(Experiment, PathBuf)> {
    let Arguments { experiment: file, machine, to, results, command, .. } = arguments;
    experiment(file.as_deref(), machine, results, |experiment| {
        if !command.is_empty() {
            experiment.command = command;
        }
        if experiment.drives.is_empty() && to.is_none() {
            experiment.drives.extend(usual_drive());
        }
    })
}

/// `stasis on`, with a change of the experiment that is not in its words.
pub(super) fn changed(
    arguments: Arguments,
    quiet: bool,
    change: impl FnOnce(&mut Experiment),
) -> Result<ExitCode> {
    let models = arguments.models.clone();
    let models: Vec<_> = models.split(',').map(str::trim).collect();
    ensure!(
        models.len() <= MAX_MODELS,
        "{} models; one command takes {MAX_MODELS} at most",
        models.len()
    );
    let (file, to, jobs) = (arguments.experiment.clone(), arguments.to.clone(), arguments.jobs);
    let console = arguments.machine.console;
    let (mut workload, base) = joined(arguments)?;
    change(&mut workload);
    if !workload.machine.several().is_empty() {
        bail!("several machines share their drives; a study (`stasis sweep`) varies what they use");
    }
    let folder = workload.results.clone().unwrap_or_else(|| PathBuf::from("results"));
    let points = points(&workload, &base, &models, to.as_deref(), &folder)?;

    let stop = stop_on_signals()?;
    let engine = engine::choose(workload.engine)?;
    let inputs = stasis_runner::input::paths(&workload, &base);
    let mut claimed = ResultsFolder::claim(&folder, &inputs)?;
    let mut read: Vec<_> = file.iter().cloned().collect();
    read.extend(inputs);
    let provenance = Provenance::begin(engine != Engine::Kvm).reading(&read);
    for point in &points {
        claimed.file(&point.name)?;
    }
    ensure_guest(&guest::recipe_of(&workload), &stop)?;
    let usual = (engine != Engine::Exact).then_some(1);
    let jobs = jobs.map(usize::from).or(usual);
    let reads: Vec<_> = file.iter().cloned().collect();
    let outcomes = run_all(&points, (&base, &reads), jobs, console, &stop);
    claimed.begun_within();

    let mut status = 0;
    let mut runs = Vec::new();
    for (point, outcome) in points.iter().zip(&outcomes) {
        match outcome {
            None => {}
            Some(Ok(run)) => {
                if run.status != 0 {
                    stasis_terminal::say!(
                        "stasis: {}: {}",
                        point.name,
                        run.failure(&folder.join(&point.name))
                    );
                }
                status = status.max(run.status);
                answer::push("runs", &run.document(&folder.join(&point.name)))?;
                runs.push((point.name.as_str(), &run.summary));
            }
            Some(Err(message)) => {
                answer::push("failed", &json!({ "name": point.name, "message": message }))?;
                stasis_terminal::say!("stasis: {}: {message}", point.name);
                status = status.max(FAILED);
            }
        }
    }
    if !runs.is_empty() {
        page::write(&mut claimed, &workload.command, &runs, provenance, quiet)?;
        claimed.finished()?;
        answer::put("results", &folder)?;
    }
    let not_begun = outcomes.iter().filter(|outcome| outcome.is_none()).count();
    if not_begun > 0 {
        stasis_terminal::say!(
            "stasis: stopped; {not_begun} of {} runs were not begun",
            points.len()
        );
        status = status.max(130);
    }
    Ok(ExitCode::from(status))
}

/// The drive of a command line without one.
fn usual_drive() -> Option<stasis_experiment::DriveSpec> {
    stasis_experiment::DriveSpec::parse(&format!("name={DRIVE},model=null,medium=ram:1GiB")).ok()
}

/// One experiment for each model; all are checked.
fn points(
    workload: &Experiment,
    base: &Path,
    models: &[&str],
    to: Option<&str>,
    folder: &Path,
) -> Result<Vec<Point>> {
    let here = Here::beside(base)?;
    let mut points: Vec<Point> = Vec::with_capacity(models.len());
    for word in models {
        let model = here.drive(&format!("model={word},medium=ram:1GiB"))?.model;
        let mut name: String = word
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.:".contains(c) { c } else { '_' })
            .collect();
        if let Some(twice) = points.iter().find(|point| point.name == name) {
            bail!("{word}: the model {} is named twice", twice.name);
        }
        if name.trim_matches('.').is_empty() {
            name.insert_str(0, "model");
        }
        let mut experiment = workload.clone();
        replace(&mut experiment, &model, to)?;
        experiment.results = Some(folder.join(&name));
        experiment.finish()?;
        stasis_runner::check_drives(&experiment, base).with_context(|| name.clone())?;
        experiment.drives.iter().try_for_each(|drive| medium::check(drive, base))?;
        points.push(Point { name, experiment, words: words_of(models, word) });
    }
    Ok(points)
}

/// This program's words with one of the models.
fn words_of(models: &[&str], model: &str) -> Vec<String> {
    use stasis_runner::provenance::words;
    let mut all = words::own();
    let own = words::own_words(&all);
    let is_models = |word: &&mut String| word.split(',').map(str::trim).eq(models.iter().copied());
    if let Some(word) = all[..own].iter_mut().skip(1).find(is_models) {
        *word = model.to_owned();
    }
    all
}

/// Gives the drives `model`, or with `to` the drive of that name.
fn replace(experiment: &mut Experiment, model: &ModelSpec, to: Option<&str>) -> Result<()> {
    let names: Vec<_> = experiment.drives.iter().map(|drive| drive.name.clone()).collect();
    let mut replaced = 0;
    for (index, drive) in experiment.drives.iter_mut().enumerate() {
        let usual = format!("drive{index}");
        if to.is_none_or(|to| drive.name.as_deref().unwrap_or(&usual) == to) {
            drive.model = model.clone();
            replaced += 1;
        }
    }
    if replaced == 0 {
        let names = names
            .iter()
            .enumerate()
            .map(|(index, name)| name.clone().unwrap_or_else(|| format!("drive{index}")));
        let names: Vec<_> = names.collect();
        bail!(
            "--to {}: no drive has this name; there are: {}",
            to.unwrap_or_default(),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        );
    }
    Ok(())
}

/// A run that has ended.
struct Run {
    summary: Summary,
    status: u8,
    message: Option<String>,
}

impl Run {
    /// The fields of a run of several, whose results are in `folder`.
    fn document(&self, folder: &Path) -> Value {
        json!({
            "results": folder,
            "status": self.status,
            "message": self.message,
            "summary": self.summary,
        })
    }

    /// The reason why the run did not succeed, with the end of the command's output.
    fn failure(&self, folder: &Path) -> String {
        if let Some(message) = &self.message {
            return message.clone();
        }
        if self.summary.exit_status == 0 {
            let unmet: Vec<_> = stasis_results::thresholds::unmet(&self.summary).collect();
            return format!("not met: {}", unmet.join("; "));
        }
        let output = std::fs::read(folder.join(OUTPUT_FILE)).unwrap_or_default();
        let end = String::from_utf8_lossy(&output[output.len().saturating_sub(LAST_WORDS)..]);
        format!("the command ended with status {}: {}", self.status, end.trim())
    }
}

/// Runs all until each has ended or the user stops.
fn run_all(
    points: &[Point],
    (base, reads): (&Path, &[PathBuf]),
    jobs: Option<usize>,
    console: bool,
    stop: &Arc<AtomicBool>,
) -> Vec<Option<Outcome<Run>>> {
    let (mut steps, mut ended) = (Steps::new(), 0);
    Batch::new(jobs, stop).run(
        points,
        |point, turn| {
            // The lines of several guests would mix.
            if turn.is_beside_others {
                run_one(point, (base, reads), stop, &mut |_: Event<'_>| Ok(()))
            } else {
                run_one(point, (base, reads), stop, &mut Terminal::new(console))
            }
        },
        |point| {
            ended += usize::from(point.is_some());
            let progress = format!("{ended} of {} drives", points.len());
            steps.step(&progress, Some(ended as f64 / points.len() as f64));
        },
    )
}

fn run_one(
    point: &Point,
    (base, reads): (&Path, &[PathBuf]),
    stop: &Arc<AtomicBool>,
    observer: &mut dyn stasis_runner::Observer,
) -> Result<Run> {
    let mut experiment = point.experiment.clone();
    let folder = experiment.results.clone();
    let folder = folder.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let media = medium::overlays(&mut experiment, base, folder)?;
    let runner = Runner::new(&experiment).base(base).stop(stop).keep_output();
    let runner = runner.reading(reads.to_vec()).repeated_by(point.words.clone());
    let run = runner.run(observer)?;
    drop(media);
    Ok(Run { summary: run.summary, status: run.status, message: run.message })
}
