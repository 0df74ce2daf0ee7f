//! Runs a list of experiments, each in its own folder. One that is complete there,
//! from the same program and settings, is not run again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stasis_experiment::Experiment;
use stasis_media::MediumSpec;
use stasis_qcow2::CreateOptions;
use stasis_report::{Summary, SUMMARY_FILE};
use stasis_runner::{failure, Runner, OUTPUT_FILE};
use stasis_terminal::Terminal;

use crate::fio::{self, Latencies};
use crate::publication::Request;
use crate::{announce, ios};

/// The file that says that a folder's results are whole, and of what.
pub const COMPLETE_FILE: &str = "complete.json";
/// Folder of the images behind slow drives, gone at the end.
const MEDIA: &str = "media";
/// How much of a failed command's output a message repeats (bytes).
const LAST_WORDS: usize = 600;

/// The end of what a command wrote to `path`, for a message.
pub fn last_words(path: &Path) -> String {
    let said = std::fs::read(path).unwrap_or_default();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(LAST_WORDS)..]);
    said.trim().to_owned()
}

/// What came of removing `path`, which need not have been there.
///
/// # Errors
/// Names the path.
pub fn gone(path: &Path, removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("cannot remove {}: {error}", path.display())
        }
        _ => Ok(()),
    }
}

/// An experiment to run.
pub struct Trial {
    /// Its name and that of its folder.
    pub id: &'static str,
    /// What it is, in a line.
    pub what: String,
    /// The experiment. Media that are files stand in the folder [`image`] names.
    pub experiment: Experiment,
    /// Size of the disks whose images are made for it, and removed after it (bytes).
    pub disk_size: Option<u64>,
}

/// Where an image behind a drive stands, for an experiment's medium.
pub fn image(name: &str) -> PathBuf {
    Path::new(MEDIA).join(name)
}

/// Everything was to stop.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// What is in [`COMPLETE_FILE`].
#[derive(Debug, Serialize, Deserialize)]
struct Complete {
    #[serde(flatten)]
    key: Key,
    /// Wall-clock time of the command alone (s), which no other file has.
    command_wall_seconds: f64,
}

/// What results are the results of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Key {
    /// Digest of the program.
    program: String,
    /// Digest of the experiment.
    experiment: String,
}

/// The place of a reproduction's runs.
pub struct Bench {
    folder: PathBuf,
    force: bool,
    program: String,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// Runs in the folder that the request names.
    ///
    /// # Errors
    /// If this program cannot be read.
    pub fn new(request: &Request) -> Result<Self> {
        let program = stasis_runner::program::own()?;
        let bytes = std::fs::read(&program)
            .with_context(|| format!("cannot read {}", program.display()))?;
        Ok(Self {
            folder: request.folder.clone(),
            force: request.force,
            program: digest(&bytes),
            stop: Arc::clone(&request.stop),
        })
    }

    /// Runs all, and goes on where one fails.
    ///
    /// # Errors
    /// [`Stopped`], and where the folder cannot be written.
    pub fn run_all(&mut self, trials: Vec<Trial>) -> Result<Runs> {
        let media = self.folder.join(MEDIA);
        std::fs::create_dir_all(&media)
            .with_context(|| format!("cannot create the folder {}", media.display()))?;
        let mut runs = Runs { done: BTreeMap::new(), failed: Vec::new() };
        let of = trials.len();
        for (index, trial) in trials.into_iter().enumerate() {
            let key = self.key(&trial.experiment)?;
            let folder = self.folder.join(trial.id);
            let before = if self.force { None } else { completed(&folder, &key) };
            announce(index + 1, of, trial.id, &trial.what, before.is_some());
            let done = match before {
                Some(done) => Ok(done),
                None => self
                    .make_disks(&trial)
                    .and_then(|disks| Ok((disks, self.run(trial.experiment, &folder, key)?)))
                    .map(|(disks, done)| {
                        // The next needs the room.
                        disks.iter().for_each(|path| drop(std::fs::remove_file(path)));
                        done
                    }),
            };
            if self.stop.load(Ordering::Relaxed) {
                bail!(Stopped);
            }
            match done {
                Ok(done) => drop(runs.done.insert(trial.id, (index, done))),
                Err(error) => runs.failed.push((trial.id.to_owned(), failure::told(&error))),
            }
        }
        // The images hold nothing that anyone wants; failing to remove them harms nobody.
        let _ = std::fs::remove_dir_all(media);
        Ok(runs)
    }

    /// Makes the disk images of an experiment anew.
    fn make_disks(&self, trial: &Trial) -> Result<Vec<PathBuf>> {
        let Some(size) = trial.disk_size else { return Ok(Vec::new()) };
        let options = CreateOptions { size: Some(size), ..CreateOptions::default() };
        let mut disks = Vec::new();
        for drive in &trial.experiment.drives {
            let MediumSpec::Qcow2 { path, .. } = &drive.medium else { continue };
            let path = self.folder.join(path);
            gone(&path, std::fs::remove_file(&path))?;
            stasis_qcow2::create(&path, &options)?;
            disks.push(path);
        }
        Ok(disks)
    }

    fn run(&self, mut experiment: Experiment, folder: &Path, key: Key) -> Result<Done> {
        let path = folder.join(COMPLETE_FILE);
        gone(&path, std::fs::remove_file(&path))?;
        experiment.results = Some(folder.to_owned());
        experiment.finish()?;
        let runner = Runner::new(&experiment).base(&self.folder).stop(&self.stop).keep_output();
        let run = runner.run(&mut Terminal::new(false))?;
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
        let json = serde_json::to_vec(experiment).context("cannot write the experiment")?;
        Ok(Key { program: self.program.clone(), experiment: digest(&json) })
    }
}

/// SHA-256 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
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
    /// Its results.
    pub folder: PathBuf,
    /// What was measured from outside.
    pub summary: Summary,
    /// Wall-clock time of the command, without the making of hosts and guests and
    /// without the boot (s).
    pub command_wall: f64,
    /// What fio measured in the guest, by job; empty where fio did not run.
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

    /// What fio measured in job `name`.
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
    // With their places in the list.
    done: BTreeMap<&'static str, (usize, Done)>,
    /// What failed, and why.
    pub failed: Vec<(String, String)>,
}

impl Runs {
    /// A run, where it was to be run and did not fail.
    pub fn get(&self, id: &str) -> Option<&Done> {
        self.done.get(id).map(|(_, done)| done)
    }

    /// What fio measured in a run's job.
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
            program: program.into(),
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
