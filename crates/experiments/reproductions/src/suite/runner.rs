//! Runs boots, several at a time, each as a separate `stasis run`. A boot with complete results in
//! its folder, from the same program and settings, is not run again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::process::{kill_process, Pid, Signal};
use serde::{Deserialize, Serialize};
use stasis_experiment::Engine;
use stasis_runner::failure;

use super::disk::{self, Layout};
use super::measured::{self, Measurement};
use super::plan::{graphical, Boot};
use crate::bench::{last_words, Stopped};
use crate::complete::{digest, gone, program_digest, COMPLETE_FILE, NOT_COMPLETE};

/// Folder of the drives' images, gone at the end.
const MEDIA: &str = "media";
/// The experiment of a boot.
const EXPERIMENT: &str = "experiment.toml";
/// Output of `stasis run`.
const LOG: &str = "log.txt";
/// Interval between two checks whether a run has ended.
const LOOK: Duration = Duration::from_millis(200);

/// Runs boots.
pub struct Runner {
    pub folder: PathBuf,
    pub engine: Engine,
    /// Run boots again that are complete.
    pub force: bool,
    /// Number of boots at a time.
    pub jobs: usize,
    /// Run nothing: boots that are not complete count as failed.
    pub gather: bool,
    /// Whether other processes run other boots in this folder: then an image is one boot's.
    pub beside_others: bool,
    /// The root file system with the applications.
    pub root: PathBuf,
    /// Recipe of the root file system.
    pub recipe: String,
    /// Whether the file system has a graphical server.
    pub has_server: bool,
    pub stop: Arc<AtomicBool>,
}

/// Outcome of a boot: its measurements, or the reason of its failure.
pub type Outcome = Result<Vec<Measurement>, String>;

/// Identity of results: the program, experiment and applications that made them.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    program: String,
    experiment: String,
    applications: String,
}

impl Runner {
    /// Runs all boots that are not complete, also after one fails.
    ///
    /// # Errors
    /// [`Stopped`], and where the folder cannot be written.
    pub fn run(&self, boots: &[Boot]) -> Result<Vec<Outcome>> {
        let media = self.folder.join(MEDIA);
        std::fs::create_dir_all(&media)
            .with_context(|| format!("cannot create the folder {}", media.display()))?;
        let program = (stasis_runner::program::own()?, program_digest()?);
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; boots.len()]);
        let progress = Mutex::new(Progress::new(boots));
        std::thread::scope(|scope| {
            for slot in 0..self.jobs.clamp(1, boots.len().max(1)) {
                let (next, outcomes, progress, program) = (&next, &outcomes, &progress, &program);
                scope.spawn(move || {
                    let mut fresh = true;
                    while !self.stop.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(boot) = boots.get(number) else { break };
                        let mut again = true;
                        let outcome = self.boot(boot, slot, &mut fresh, program, &mut again);
                        let outcome = outcome.map_err(|error| failure::told(&error));
                        if outcome.is_err() && self.stop.load(Ordering::Relaxed) {
                            // The boot was stopped, and runs again at the next call.
                            break;
                        }
                        lock(progress).ended(boot, &outcome, again);
                        lock(outcomes)[number] = Some(outcome);
                    }
                });
            }
        });
        if self.stop.load(Ordering::Relaxed) {
            bail!(Stopped);
        }
        // The images are of no further use; a failure to remove them does no harm.
        let _ = match self.beside_others {
            true => std::fs::remove_dir(media),
            false => std::fs::remove_dir_all(media),
        };
        let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(outcomes.into_iter().map(|o| o.unwrap_or_else(|| Err("not run".into()))).collect())
    }

    /// One boot; `again` becomes false where it was complete.
    fn boot(
        &self,
        boot: &Boot,
        slot: usize,
        fresh: &mut bool,
        program: &(PathBuf, String),
        again: &mut bool,
    ) -> Result<Vec<Measurement>> {
        let folder = self.folder.join(boot.setup.name());
        let length = std::fs::metadata(&self.root)
            .with_context(|| format!("cannot read {}", self.root.display()))?
            .len();
        let layout = Layout::new(boot.setup.device.disk, length)?;
        let plan = boot.plan(&layout, graphical(boot, self.has_server));
        let text = |image: &str| boot.experiment(self.engine, &plan, image);
        let key = Key {
            program: program.1.clone(),
            experiment: digest(text("")?.as_bytes()),
            applications: self.recipe.clone(),
        };
        if !self.force && complete(&folder, &key) {
            *again = false;
            return measured::read(&folder, boot);
        }
        if self.gather {
            bail!(NOT_COMPLETE);
        }
        gone(&folder, std::fs::remove_dir_all(&folder))?;
        let write = |name: &str, text: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let image = match self.beside_others {
            true => format!("{}.img", boot.setup.name()),
            false => format!("drive-{slot}.img"),
        };
        let path = self.folder.join(MEDIA).join(&image);
        disk::make(&path, &boot.setup.device, &layout, &self.root, *fresh)?;
        *fresh = self.beside_others;
        write(EXPERIMENT, text(&format!("../{MEDIA}/{image}"))?.as_bytes())?;
        let executed = self.execute(&folder, &program.0);
        if self.beside_others {
            gone(&path, std::fs::remove_file(&path))?;
        }
        executed?;
        let measurements = measured::read(&folder, boot)?;
        // Large, and nothing here reads it.
        for name in stasis_report::IOS_FILES {
            let _ = std::fs::remove_file(folder.join(name));
        }
        write(COMPLETE_FILE, &serde_json::to_vec_pretty(&key)?)?;
        Ok(measurements)
    }

    /// Runs `stasis run` with the experiment in `folder`.
    fn execute(&self, folder: &Path, program: &Path) -> Result<()> {
        let path = folder.join(LOG);
        let log =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = Command::new(program);
        command.arg("run").arg(folder.join(EXPERIMENT)).arg("--quiet");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn().context("cannot start stasis run")?;
        let mut told = false;
        let status: ExitStatus = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if self.stop.load(Ordering::Relaxed) && !told {
                told = true;
                // The process may have ended meanwhile.
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            }
            std::thread::sleep(LOOK);
        };
        if !status.success() {
            bail!("stasis run: {status}: {}", last_words(&path));
        }
        Ok(())
    }
}

fn complete(folder: &Path, key: &Key) -> bool {
    let written = std::fs::read(folder.join(COMPLETE_FILE)).ok();
    written.and_then(|text| serde_json::from_slice::<Key>(&text).ok()).as_ref() == Some(key)
}

/// A poisoned lock still guards consistent data: no operation under the lock can fail halfway.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports the finished boots, and an estimate of the time left.
struct Progress {
    begun: Instant,
    of: usize,
    ended: usize,
    /// Weights: of the remaining boots, and of those that were run.
    left: f64,
    run: f64,
}

impl Progress {
    fn new(boots: &[Boot]) -> Self {
        let left = boots.iter().map(Boot::weight).sum();
        Self { begun: Instant::now(), of: boots.len(), ended: 0, left, run: 0.0 }
    }

    fn ended(&mut self, boot: &Boot, outcome: &Outcome, again: bool) {
        self.ended += 1;
        self.left -= boot.weight();
        self.run += if again { boot.weight() } else { 0.0 };
        let mut words = match outcome {
            Ok(_) if !again => ": done before".to_owned(),
            Ok(_) => String::new(),
            Err(message) => format!(": failed: {message}"),
        };
        if let Some(left) = estimate(self.begun.elapsed(), self.run, self.left) {
            words.push_str(&format!("; about {} min left", left.as_secs().div_ceil(60)));
        }
        eprintln!("[{}/{}] {}{words}", self.ended, self.of, boot.setup.name());
    }
}

/// Estimates the time of the remaining weight `left` from the time `elapsed` for the weight `run`.
fn estimate(elapsed: Duration, run: f64, left: f64) -> Option<Duration> {
    // Sums of weights that were taken off again.
    (run > 0.0 && left > 1e-6).then(|| elapsed.mul_f64(left / run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_was_run() {
        let minute = Duration::from_secs(60);
        assert_eq!(estimate(minute, 2.0, 6.0), Some(3 * minute));
        assert_eq!(estimate(minute, 2.0, 1e-9), None);
        assert_eq!(estimate(minute, 0.0, 6.0), None);
    }

    #[test]
    fn only_results_of_the_same_key_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let key = |program: &str| Key {
            program: program.into(),
            experiment: "e".into(),
            applications: "a".into(),
        };
        assert!(!complete(folder.path(), &key("a")));
        let text = serde_json::to_vec(&key("a")).unwrap();
        std::fs::write(folder.path().join(COMPLETE_FILE), text).unwrap();
        assert!(complete(folder.path(), &key("a")));
        assert!(!complete(folder.path(), &key("b")));
    }
}
