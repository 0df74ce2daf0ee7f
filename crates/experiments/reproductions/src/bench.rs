//! Runs a list of experiments, each in its own folder, several at a time where nothing of
//! theirs is measured by the wall clock. One that is complete there, from the same program and
//! settings, is not run again.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use stasis_experiment::{Engine, Experiment};
use stasis_media::MediumSpec;
use stasis_qcow2::CreateOptions;
use stasis_report::{Summary, SUMMARY_FILE};
use stasis_runner::{failure, guest, Event, Observer, Runner, OUTPUT_FILE};
use stasis_terminal::{ensure_guest, Terminal};

use crate::complete::{digest_of, gone, program_digest, Key, COMPLETE_FILE, NOT_COMPLETE};
use crate::fio::{self, Latencies};
use crate::ios;
use crate::request::{Part, Request};

/// Folder of the images behind drives: in a folder for each experiment, gone after it.
const MEDIA: &str = "media";
/// Length of a failed command's output that a message repeats (bytes).
const LAST_WORDS: usize = 600;

/// The end of a command's output in `path`, for a message.
pub fn last_words(path: &Path) -> String {
    let said = std::fs::read(path).unwrap_or_default();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(LAST_WORDS)..]);
    said.trim().to_owned()
}

/// An experiment to run.
pub struct Trial {
    /// Name of the experiment and of its folder.
    pub id: &'static str,
    /// Description in one line.
    pub what: String,
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
    /// Describes the experiment for a program that runs it elsewhere.
    ///
    /// # Errors
    /// If the experiment cannot be written.
    pub fn part(&self) -> Result<Part> {
        let machines = self.experiment.machine.all();
        let own = machines.iter().flat_map(|machine| &machine.drives);
        let media = self.experiment.drives.iter().chain(own).map(|drive| match drive.medium {
            MediumSpec::Ram { size } => size,
            _ => 0,
        });
        let memory = machines.iter().map(|machine| machine.memory).chain(media);
        Ok(Part {
            name: self.id.to_owned(),
            what: self.what.clone(),
            digest: digest_of(&(&self.experiment, self.disk_size))?,
            guests: vec![self.experiment.guest.clone()],
            memory: memory.fold(0, u64::saturating_add),
            timed: self.timed,
        })
    }
}

/// Everything was to stop.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// The content of [`COMPLETE_FILE`].
#[derive(Debug, Serialize, Deserialize)]
struct Complete {
    #[serde(flatten)]
    key: Key,
    /// Wall-clock time of the command alone (s), which no other file has.
    command_wall_seconds: f64,
}

/// The place of a reproduction's runs.
pub struct Bench {
    folder: PathBuf,
    force: bool,
    gather: bool,
    program: String,
    /// Number of experiments that run at a time.
    jobs: usize,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// Runs on an engine in the folder that the request names. Machines that run in real time
    /// would disturb one another: without a number in the request, only those of `exact` run
    /// side by side, one on each core.
    ///
    /// # Errors
    /// If this program cannot be read.
    pub fn new(request: &Request, engine: Engine) -> Result<Self> {
        let usual = || match engine {
            Engine::Exact => std::thread::available_parallelism().map_or(1, usize::from),
            _ => 1,
        };
        Ok(Self {
            folder: request.folder.clone(),
            force: request.force,
            gather: request.gather,
            program: program_digest()?,
            jobs: request.jobs.unwrap_or_else(usual).max(1),
            stop: Arc::clone(&request.stop),
        })
    }

    /// Runs all, also after one fails: first those that can run side by side, then the timed ones,
    /// one after the other.
    ///
    /// # Errors
    /// [`Stopped`], and where the folder or a guest cannot be made.
    pub fn run_all(&self, trials: Vec<Trial>) -> Result<Runs> {
        let media = self.folder.join(MEDIA);
        std::fs::create_dir_all(&media)
            .with_context(|| format!("cannot create the folder {}", media.display()))?;
        let several =
            trials.iter().filter(|trial| trial.timed.is_none()).count().min(self.jobs) > 1;
        let (timed, beside): (Vec<_>, Vec<_>) =
            (0..trials.len()).partition(|&place| trials[place].timed.is_some() || !several);
        let (next, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let all = Mutex::new(Runs { done: BTreeMap::new(), failed: Vec::new() });
        let run = |place: usize, observer: &mut dyn Observer| {
            let trial = &trials[place];
            let done = self.trial(trial, (&begun, trials.len()), observer);
            // An experiment that was stopped has not failed: the next call continues with it.
            if !self.stop.load(Ordering::Relaxed) {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                match done {
                    Ok(done) => drop(all.done.insert(trial.id, (place, done))),
                    Err(error) => all.failed.push((trial.id.to_owned(), failure::told(&error))),
                }
            }
        };
        if several && !self.gather {
            self.make_guests(beside.iter().map(|&place| &trials[place]))?;
        }
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(beside.len()) {
                scope.spawn(|| {
                    while !self.stop.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&place) = beside.get(number) else { break };
                        // Several lines of progress would be in one another's way.
                        run(place, &mut |_: Event<'_>| Ok(()));
                    }
                });
            }
        });
        for place in timed.into_iter().take_while(|_| !self.stop.load(Ordering::Relaxed)) {
            run(place, &mut Terminal::new(false));
        }
        if self.stop.load(Ordering::Relaxed) {
            bail!(Stopped);
        }
        // The folder is empty, unless another program has added files.
        let _ = std::fs::remove_dir(media);
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        let order = |id: &str| trials.iter().position(|trial| trial.id == id);
        all.failed.sort_by_key(|(id, _)| order(id));
        Ok(all)
    }

    /// Makes the guests of those that are not complete, so that not each makes its own.
    fn make_guests<'a>(&self, trials: impl Iterator<Item = &'a Trial>) -> Result<()> {
        for trial in trials {
            let known = completed(&self.folder.join(trial.id), &self.key(&trial.experiment)?);
            if self.force || known.is_none() {
                ensure_guest(&guest::recipe(&trial.experiment.guest))?;
            }
        }
        Ok(())
    }

    /// Runs one, if it is not complete.
    fn trial(
        &self,
        trial: &Trial,
        (begun, of): (&AtomicUsize, usize),
        observer: &mut dyn Observer,
    ) -> Result<Done> {
        let key = self.key(&trial.experiment)?;
        let folder = self.folder.join(trial.id);
        let before = if self.force { None } else { completed(&folder, &key) };
        let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
        announce(number, of, trial.id, &trial.what, before.is_some());
        if let Some(done) = before {
            return Ok(done);
        }
        if self.gather {
            bail!(NOT_COMPLETE);
        }
        let media = self.folder.join(MEDIA).join(trial.id);
        gone(&media, std::fs::remove_dir_all(&media))?;
        std::fs::create_dir_all(&media)
            .with_context(|| format!("cannot create the folder {}", media.display()))?;
        let done = make_disks(trial, &media)
            .and_then(|()| self.run(trial.experiment.clone(), (&folder, &media), key, observer));
        // The images hold nothing that anyone wants, and the next needs the room.
        let _ = std::fs::remove_dir_all(media);
        done
    }

    fn run(
        &self,
        mut experiment: Experiment,
        (folder, media): (&Path, &Path),
        key: Key,
        observer: &mut dyn Observer,
    ) -> Result<Done> {
        let path = folder.join(COMPLETE_FILE);
        gone(&path, std::fs::remove_file(&path))?;
        experiment.results = Some(folder.to_owned());
        experiment.finish()?;
        let runner = Runner::new(&experiment).base(media).stop(&self.stop).keep_output();
        let run = runner.run(observer)?;
        if run.status != 0 {
            let said = last_words(&folder.join(OUTPUT_FILE));
            let message = run.message.unwrap_or_else(|| {
                format!("the command ended with status {}: {}", run.status, said)
            });
            bail!(message);
        }
        let command_wall_seconds = run.command_wall.map_or(f64::NAN, |wall| wall.as_secs_f64());
        let done = Done::read(folder, command_wall_seconds)?;
        let complete = Complete { key, command_wall_seconds };
        serde_json::to_vec_pretty(&complete)
            .map_err(std::io::Error::from)
            .and_then(|json| std::fs::write(&path, json))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(done)
    }

    fn key(&self, experiment: &Experiment) -> Result<Key> {
        Ok(Key { program: self.program.clone(), experiment: digest_of(experiment)? })
    }
}

/// Shows the next run on a terminal.
fn announce(number: usize, of: usize, id: &str, what: &str, done: bool) {
    if std::io::stderr().is_terminal() {
        let done = if done { ", done before" } else { "" };
        eprintln!("[{number}/{of}] {id}: {what}{done}");
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

/// The results in `folder`, if they are whole and of `key`.
fn completed(folder: &Path, key: &Key) -> Option<Done> {
    let written = std::fs::read(folder.join(COMPLETE_FILE)).ok()?;
    let written: Complete = serde_json::from_slice(&written).ok()?;
    (written.key == *key).then(|| Done::read(folder, written.command_wall_seconds).ok())?
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_another_program_or_experiment_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let bench = |program: &str| Bench {
            folder: folder.path().to_owned(),
            force: false,
            gather: false,
            program: program.into(),
            jobs: 1,
            stop: Arc::default(),
        };
        let experiment = Experiment { seed: 1, ..Experiment::default() };
        let key = bench("a").key(&experiment).unwrap();
        assert_eq!(key, bench("a").key(&experiment).unwrap());
        assert_ne!(key, bench("b").key(&experiment).unwrap());
        let other = Experiment { seed: 2, ..Experiment::default() };
        assert_ne!(key, bench("a").key(&other).unwrap());
        // The key alone is no result.
        let complete = Complete { key: key.clone(), command_wall_seconds: 1.0 };
        let json = serde_json::to_vec(&complete).unwrap();
        std::fs::write(folder.path().join(COMPLETE_FILE), json).unwrap();
        assert!(completed(folder.path(), &key).is_none());
    }
}
