//! Runs a list of experiments, each in its own folder, several at a time where nothing of
//! theirs is measured by the wall clock. One that is complete there, from the same program and
//! settings, is not run again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use stasis_experiment::{Engine, Experiment};
use stasis_media::MediumSpec;
use stasis_qcow2::CreateOptions;
use stasis_results::{Summary, SUMMARY_FILE};
use stasis_runner::batch::{self, digest_of, gone, Batch, KeptResults, Turn};
use stasis_runner::provenance::words;
use stasis_runner::{guest, Event, Observer, Runner, OUTPUT_FILE};
use stasis_terminal::{ensure_guest, Terminal};

use crate::fio::{self, Latencies};
use crate::ios;
use crate::reproduction::{Part, Reproduction};

/// Folder of the images behind drives: in a folder for each experiment, gone after it.
const MEDIA: &str = "media";
/// Length of a failed command's output that a message repeats (bytes).
const LAST_WORDS: usize = 600;

/// The end of a command's output in `path`, for a message.
pub fn last_words(path: &Path) -> String {
    let output = std::fs::read(path).unwrap_or_default();
    let output = String::from_utf8_lossy(&output[output.len().saturating_sub(LAST_WORDS)..]);
    output.trim().to_owned()
}

/// An experiment to run.
pub struct Trial {
    /// Name of the experiment and of its folder.
    pub id: &'static str,
    /// Description in one line.
    pub description: String,
    /// The experiment. Its media that are files have a relative path: they are in a separate
    /// folder.
    pub experiment: Experiment,
    /// Size of the disks whose images are made for it, and removed after it (bytes).
    pub disk_size: Option<u64>,
    /// Set if the experiment's wall-clock time is one of the figures, so that nothing else runs
    /// beside it: the name of the group of experiments that are compared.
    pub timed: Option<&'static str>,
}

impl Trial {
    /// Checks that each drive's model fits the drive.
    ///
    /// # Errors
    /// The first one that does not, with its reason.
    pub fn check(&self) -> Result<()> {
        let own = self.experiment.machine.all().iter().flat_map(|machine| &machine.drives);
        for drive in self.experiment.drives.iter().chain(own) {
            let size = match drive.medium {
                MediumSpec::Ram { size } => Some(size),
                _ => self.disk_size,
            };
            let mut model = drive.model.clone();
            model.resolve(Path::new("."))?;
            if let Some(size) = size {
                model.check(size).with_context(|| format!("{}: a drive", self.id))?;
            }
        }
        Ok(())
    }

    /// Describes the experiment for a program that runs it elsewhere.
    ///
    /// # Errors
    /// If the experiment cannot be written, or a drive cannot be made.
    pub fn part(&self) -> Result<Part> {
        self.check()?;
        let machines = self.experiment.machine.all();
        let own = machines.iter().flat_map(|machine| &machine.drives);
        let media = self.experiment.drives.iter().chain(own).map(|drive| match drive.medium {
            MediumSpec::Ram { size } => size,
            _ => 0,
        });
        let memory = machines.iter().map(|machine| machine.memory).chain(media);
        Ok(Part {
            name: self.id.to_owned(),
            what: self.description.clone(),
            digest: digest_of(&(&self.experiment, self.disk_size))?,
            guests: vec![self.experiment.guest.clone()],
            memory: memory.fold(0, u64::saturating_add),
            timed: self.timed,
        })
    }
}

impl batch::Point for Trial {
    fn name(&self) -> Cow<'_, str> {
        self.id.into()
    }

    fn runs_alone(&self) -> bool {
        self.timed.is_some()
    }
}

/// A result that no other file has.
#[derive(Serialize, Deserialize)]
struct Timed {
    /// Wall-clock time of the command alone (s).
    command_wall_seconds: f64,
}

/// The place of a reproduction's runs.
pub struct Bench {
    kept: KeptResults,
    folder: PathBuf,
    gather: bool,
    /// Number of experiments that run at a time; none for one on each core.
    jobs: Option<usize>,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// Runs on an engine in the folder that the request names. Machines that run in real time
    /// would disturb one another: without a number in the request, only those of `exact` run
    /// side by side, one on each core.
    ///
    /// # Errors
    /// This program's file cannot be read.
    pub fn new(request: &Reproduction, engine: Engine) -> Result<Self> {
        let usual = (engine != Engine::Exact).then_some(1);
        Ok(Self {
            kept: KeptResults::new(&request.folder, request.force, request.gather)?,
            folder: request.folder.clone(),
            gather: request.gather,
            jobs: request.jobs.or(usual),
            stop: Arc::clone(&request.stop),
        })
    }

    /// Runs all, also after one fails: first those that can run side by side, then the timed ones,
    /// one after the other.
    ///
    /// # Errors
    /// [`batch::Stopped`], and where the folder or a guest cannot be made.
    pub fn run_all(&self, trials: &[Trial]) -> Result<Runs> {
        let media = self.folder.join(MEDIA);
        std::fs::create_dir_all(&media)
            .with_context(|| format!("cannot create the folder {}", media.display()))?;
        let batch = Batch::new(self.jobs, &self.stop);
        if !self.gather {
            // So that not each makes its own.
            for index in batch.beside(trials) {
                if self.completed(&trials[index])?.is_none() {
                    ensure_guest(&guest::recipe_of(&trials[index].experiment), &self.stop)?;
                }
            }
        }
        let run = |trial: &Trial, turn: Turn| {
            // Several lines of progress would be in one another's way.
            if turn.is_beside_others {
                self.trial(trial, (turn.number, trials.len()), &mut |_: Event<'_>| Ok(()))
            } else {
                self.trial(trial, (turn.number, trials.len()), &mut Terminal::new(false))
            }
        };
        let outcomes = batch.run_all(trials, run, |_| ())?;
        // The folder is empty, unless another program has added files.
        let _ = std::fs::remove_dir(media);
        let failed = batch::failed(trials, &outcomes);
        let done = trials.iter().zip(outcomes).enumerate();
        let done = done.filter_map(|(place, (trial, done))| Some((trial.id, (place, done.ok()?))));
        Ok(Runs { done: done.collect(), failed })
    }

    /// Returns the results of a trial, if they are complete.
    fn completed(&self, trial: &Trial) -> Result<Option<Done>> {
        let read = |folder: &Path, timed: Timed| Done::read(folder, timed.command_wall_seconds);
        Ok(self.kept.find(trial.id, &digest_of(&trial.experiment)?, read))
    }

    /// Runs one, if it is not complete.
    fn trial(
        &self,
        trial: &Trial,
        (number, total): (usize, usize),
        observer: &mut dyn Observer,
    ) -> Result<Done> {
        let before = self.completed(trial)?;
        announce(number, total, trial.id, &trial.description, before.is_some());
        if let Some(done) = before {
            return Ok(done);
        }
        let begun = self.kept.begin(trial.id, &digest_of(&trial.experiment)?)?;
        let media = self.folder.join(MEDIA).join(trial.id);
        gone(&media, std::fs::remove_dir_all(&media))?;
        std::fs::create_dir_all(&media)
            .with_context(|| format!("cannot create the folder {}", media.display()))?;
        let done = make_disks(trial, &media)
            .and_then(|()| self.run(trial, (&begun.folder, &media), observer));
        // The images hold nothing that anyone wants, and the next needs the room.
        let _ = std::fs::remove_dir_all(media);
        let done = done?;
        begun.complete(Timed { command_wall_seconds: done.command_wall })?;
        Ok(done)
    }

    fn run(
        &self,
        trial: &Trial,
        (folder, media): (&Path, &Path),
        observer: &mut dyn Observer,
    ) -> Result<Done> {
        let mut experiment = trial.experiment.clone();
        experiment.results = Some(folder.to_owned());
        experiment.finish()?;
        let runner = Runner::new(&experiment).base(media).stop(&self.stop).keep_output();
        let runner = runner.title(format!("{}: {}", trial.id, trial.description));
        let runner = runner.repeated_by(alone(words::own(), trial.id));
        let run = runner.run(observer)?;
        if run.status != 0 {
            let output = last_words(&folder.join(OUTPUT_FILE));
            let message = run.message.unwrap_or_else(|| {
                format!("the command ended with status {}: {}", run.status, output)
            });
            bail!(message);
        }
        Done::read(folder, run.command_wall.map_or(f64::NAN, |wall| wall.as_secs_f64()))
    }
}

/// The words that run one experiment of those that `words` ask for.
fn alone(mut words: Vec<String>, id: &str) -> Vec<String> {
    if let Some(place) = words.iter().position(|word| word == "--only") {
        words.drain(place..words.len().min(place + 2));
    }
    words.retain(|word| !word.starts_with("--only="));
    words.extend(["--only".to_owned(), id.to_owned()]);
    words
}

/// Shows the next run on a terminal.
fn announce(number: usize, total: usize, id: &str, description: &str, done: bool) {
    if std::io::stderr().is_terminal() {
        let done = if done { ", done before" } else { "" };
        eprintln!("[{number}/{total}] {id}: {description}{done}");
    }
}

/// Makes the disk images of an experiment anew.
fn make_disks(trial: &Trial, media: &Path) -> Result<()> {
    let Some(size) = trial.disk_size else { return Ok(()) };
    let options = CreateOptions { size: Some(size), ..CreateOptions::default() };
    for drive in &trial.experiment.drives {
        if let MediumSpec::Qcow2 { path, .. } = &drive.medium {
            stasis_qcow2::create(&media.join(path), &options)?;
        }
    }
    Ok(())
}

/// A run that is complete.
#[derive(Debug, Clone)]
pub struct Done {
    /// Folder of the run's results.
    pub folder: PathBuf,
    /// The measurements from outside the guest.
    pub summary: Summary,
    /// Wall-clock time of the command, without the making of hosts and guests and
    /// without the boot (s).
    pub command_wall: f64,
    /// Latencies that fio measured in the guest, by job; empty if fio did not run.
    jobs: Vec<(String, Latencies)>,
}

impl Done {
    fn read(folder: &Path, command_wall: f64) -> Result<Self> {
        let path = folder.join(SUMMARY_FILE);
        let context = || format!("cannot read {}", path.display());
        let summary = std::fs::read(&path).with_context(context)?;
        let summary = serde_json::from_slice(&summary).with_context(context)?;
        let has_fio = folder.join(fio::FILE).exists();
        let jobs = if has_fio { fio::read(folder)? } else { Vec::new() };
        Ok(Self { folder: folder.to_owned(), summary, command_wall, jobs })
    }

    /// Latencies that fio measured in job `name`.
    pub fn job(&self, name: &str) -> Option<&Latencies> {
        self.jobs.iter().find(|job| job.0 == name).map(|job| &job.1)
    }

    /// The I/Os while the command ran, in the order of completion.
    pub fn ios(&self) -> Result<Vec<ios::Io>> {
        ios::read(&self.folder)
    }

    /// Delivered latencies (ns) of one operation, in the order of completion.
    pub fn delivered(&self, operation: &str) -> Result<Vec<f64>> {
        ios::delivered(&self.folder, operation)
    }
}

/// All runs of a reproduction.
pub struct Runs {
    // Finished runs, with their places in the list.
    done: BTreeMap<&'static str, (usize, Done)>,
    /// Failed experiments, each with its reason.
    pub failed: Vec<(String, String)>,
}

impl Runs {
    /// A run, where it was to be run and did not fail.
    pub fn get(&self, id: &str) -> Option<&Done> {
        self.done.get(id).map(|(_, done)| done)
    }

    /// Latencies that fio measured in a run's job.
    pub fn job(&self, id: &str, name: &str) -> Option<&Latencies> {
        self.get(id)?.job(name)
    }

    /// The runs in the order in which they were run.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Done)> {
        let mut all: Vec<_> = self.done.iter().collect();
        all.sort_by_key(|(_, (place, _))| *place);
        all.into_iter().map(|(id, (_, done))| (*id, done))
    }
}
