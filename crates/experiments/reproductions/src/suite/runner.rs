//! Runs boots, several at a time, each as a separate process of this program ([`main`]). A boot with
//! complete results in its folder, from the same program and settings, is not run again.

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::process::{kill_process, Pid, Signal};
use stasis_experiment::{Engine, Experiment};
use stasis_runner::batch::{digest_of, gone, Batch, KeptResults, Outcome, Point, Turn};
use stasis_terminal::{stop_on_signals, Terminal};

use super::disk::{self, Layout};
use super::measured::{self, Measurement};
use super::plan::{graphical, Boot};
use crate::bench::last_words;

/// Folder of the drives' images, gone at the end.
const MEDIA: &str = "media";
/// The experiment of a boot.
const EXPERIMENT: &str = "experiment.toml";
/// Output of the boot.
const LOG: &str = "log.txt";
/// The command of a boot.
const COMMAND: &str = "suite-boot";
/// Interval between two checks whether a run has ended.
const LOOK: Duration = Duration::from_millis(200);

/// Runs boots.
pub struct Runner {
    pub folder: PathBuf,
    pub engine: Engine,
    /// Results of earlier boots.
    pub kept: KeptResults,
    /// Number of boots at a time; none for one on each core.
    pub jobs: Option<usize>,
    /// True if other processes run other boots in this folder: then an image is one boot's.
    pub beside_others: bool,
    /// The root file system with the applications.
    pub root: PathBuf,
    /// Recipe of the root file system.
    pub recipe: String,
    /// True if the file system has a graphical server.
    pub has_server: bool,
    pub stop: Arc<AtomicBool>,
}

/// A boot, as a process of its own.
#[derive(Debug, clap::Args)]
pub struct SuiteBoot {
    /// Its experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    experiment: PathBuf,
    /// Folder for the results [default: the experiment's]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// Runs a boot, as `stasis run` does: its guest's first process is this program.
pub fn main(boot: &SuiteBoot) -> Result<ExitCode> {
    let file = &boot.experiment;
    let mut experiment = Experiment::read(file)?;
    let base = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let base = base.unwrap_or(Path::new("."));
    let own = experiment.results.take().map(|folder| base.join(folder));
    experiment.results = boot.results.clone().or(own);
    experiment.finish()?;
    let stop = stop_on_signals()?;
    let runner = stasis_runner::Runner::new(&experiment).base(base).stop(&stop);
    let run = runner.reading(vec![file.clone()]).run(&mut Terminal::new(false))?;
    if let Some(message) = &run.message {
        stasis_terminal::say!("stasis: {message}");
    }
    Ok(ExitCode::from(run.status))
}

/// Outcome of a boot: its measurements, or the reason of its failure.
pub type BootOutcome = Outcome<Vec<Measurement>>;

impl Point for Boot {
    fn name(&self) -> Cow<'_, str> {
        self.setup.name().into()
    }
}

/// Measurements of a boot, and whether they were complete before.
type Measured = (Vec<Measurement>, bool);

impl Runner {
    /// Runs all boots that are not complete, also after one fails.
    ///
    /// # Errors
    /// [`Stopped`](stasis_runner::batch::Stopped), and where the folder cannot be written.
    pub fn run(&self, boots: &[Boot]) -> Result<Vec<BootOutcome>> {
        let media = self.folder.join(MEDIA);
        std::fs::create_dir_all(&media)
            .with_context(|| format!("cannot create the folder {}", media.display()))?;
        let program = stasis_runner::program::own()?;
        // Set for each worker's image that has the root file system.
        let ready: Vec<_> = boots.iter().map(|_| AtomicBool::new(false)).collect();
        let run =
            |boot: &Boot, turn: Turn| self.boot(boot, &program, turn.worker, &ready[turn.worker]);
        let mut progress = Progress::new(boots);
        let on_progress = |ended: Option<(&Boot, &Outcome<Measured>)>| {
            let Some((boot, outcome)) = ended else { return };
            // A boot that was stopped has not failed: it runs again at the next call.
            if outcome.is_ok() || !self.stop.load(Ordering::Relaxed) {
                progress.ended(boot, outcome);
            }
        };
        let outcomes = Batch::new(self.jobs, &self.stop).run_all(boots, run, on_progress)?;
        // The images are of no further use; a failure to remove them does no harm.
        let _ = match self.beside_others {
            true => std::fs::remove_dir(media),
            false => std::fs::remove_dir_all(media),
        };
        Ok(outcomes.into_iter().map(|outcome| outcome.map(|measured| measured.0)).collect())
    }

    /// Runs one boot, if it is not complete. `ready`: the worker's image has the root file system.
    fn boot(
        &self,
        boot: &Boot,
        program: &Path,
        worker: usize,
        ready: &AtomicBool,
    ) -> Result<Measured> {
        let name = boot.setup.name();
        let length = std::fs::metadata(&self.root)
            .with_context(|| format!("cannot read {}", self.root.display()))?
            .len();
        let layout = Layout::new(boot.setup.device.disk, length)?;
        let plan = boot.plan(&layout, graphical(boot, self.has_server));
        let text = |image: &str| boot.experiment(self.engine, &plan, image);
        let digest = digest_of(&(text("")?, &self.recipe))?;
        let read = |folder: &Path, (): ()| measured::read(folder, boot);
        if let Some(measurements) = self.kept.find(&name, &digest, read) {
            return Ok((measurements, true));
        }
        let begun = self.kept.begin(&name, &digest)?;
        let folder = &begun.folder;
        gone(folder, std::fs::remove_dir_all(folder))?;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let image = match self.beside_others {
            true => format!("{name}.img"),
            false => format!("drive-{worker}.img"),
        };
        let path = self.folder.join(MEDIA).join(&image);
        let fresh = !ready.load(Ordering::Relaxed);
        disk::make(&path, &boot.setup.device, &layout, &self.root, fresh)?;
        ready.store(!self.beside_others, Ordering::Relaxed);
        let file = folder.join(EXPERIMENT);
        std::fs::write(&file, text(&format!("../{MEDIA}/{image}"))?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let executed = self.execute(folder, program);
        if self.beside_others {
            gone(&path, std::fs::remove_file(&path))?;
        }
        executed?;
        let measurements = measured::read(folder, boot)?;
        // Large, and nothing here reads it.
        for name in stasis_results::IOS_FILES {
            let _ = std::fs::remove_file(folder.join(name));
        }
        begun.complete(())?;
        Ok((measurements, false))
    }

    /// Runs the experiment in `folder` in a process of its own.
    fn execute(&self, folder: &Path, program: &Path) -> Result<()> {
        let path = folder.join(LOG);
        let log =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = Command::new(program);
        command.arg(COMMAND).arg(folder.join(EXPERIMENT)).arg("--quiet");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn().context("cannot start a boot")?;
        let mut signalled = false;
        let status: ExitStatus = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if self.stop.load(Ordering::Relaxed) && !signalled {
                signalled = true;
                // The process may have ended meanwhile.
                let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            }
            std::thread::sleep(LOOK);
        };
        if !status.success() {
            bail!("the boot: {status}: {}", last_words(&path));
        }
        Ok(())
    }
}

/// Reports the finished boots, and an estimate of the time left.
struct Progress {
    begun: Instant,
    total: usize,
    ended: usize,
    /// Weights: of the remaining boots, and of those that were run.
    remaining: f64,
    run: f64,
}

impl Progress {
    fn new(boots: &[Boot]) -> Self {
        let remaining = boots.iter().map(Boot::weight).sum();
        Self { begun: Instant::now(), total: boots.len(), ended: 0, remaining, run: 0.0 }
    }

    fn ended(&mut self, boot: &Boot, outcome: &Outcome<Measured>) {
        let was_done = outcome.as_ref().is_ok_and(|measured| measured.1);
        self.ended += 1;
        self.remaining -= boot.weight();
        self.run += if was_done { 0.0 } else { boot.weight() };
        let mut words = match outcome {
            Ok(_) if was_done => ": done before".to_owned(),
            Ok(_) => String::new(),
            Err(message) => format!(": failed: {message}"),
        };
        if let Some(time) = estimate(self.begun.elapsed(), self.run, self.remaining) {
            words.push_str(&format!("; about {} min left", time.as_secs().div_ceil(60)));
        }
        eprintln!("[{}/{}] {}{words}", self.ended, self.total, boot.setup.name());
    }
}

/// Estimates the time of the remaining weight `remaining` from the time `elapsed` for the weight `run`.
fn estimate(elapsed: Duration, run: f64, remaining: f64) -> Option<Duration> {
    // Sums of weights that were taken off again.
    (run > 0.0 && remaining > 1e-6).then(|| elapsed.mul_f64(remaining / run))
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
}
