//! A `stasis serve` of a function's own, as a process beside it: the function's
//! end does not touch it, and its drives' acknowledged writes are there. Where it
//! ends itself, it is started again, and the function waits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::process::{kill_process, Pid, Signal};
use stasis_media::MediumSpec;
use stasis_qemu_vm::process::Process;
use stasis_qemu_vm::readiness;
use stasis_runner::{failure, program};
use stasis_storage_function::Polling;

use super::RunArguments;
use crate::here;

/// How long it may take to open its drives, or to make them durable at the end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How often the server is looked at, and how soon it is started again.
const PAUSE: Duration = Duration::from_millis(100);

/// A server; dropping it ends it in order.
#[derive(Debug)]
pub struct Server {
    ending: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
    /// The sockets of the function's drives, in the definition's order.
    pub sockets: Vec<PathBuf>,
}

/// How a server is started, and started again.
struct Start {
    arguments: Vec<OsString>,
    folder: PathBuf,
    /// Whether a drive is in the server's memory: another one would not have it.
    memory: bool,
}

/// Starts a server for the drives of the words and the experiment.
pub fn start(
    arguments: &RunArguments,
    wanted: &[String],
    folder: &Path,
    polling: Polling,
    stop: &Arc<AtomicBool>,
) -> Result<Server> {
    let (mut experiment, _) = here::experiment(arguments.experiment.as_deref(), &arguments.drive)?;
    experiment.name_drives()?;
    // Each has a name now.
    let names: Vec<String> =
        experiment.drives.iter().filter_map(|drive| drive.name.clone()).collect();
    let names = choose(&names, wanted)?;
    let memory =
        experiment.drives.iter().any(|drive| matches!(drive.medium, MediumSpec::Ram { .. }));
    let mut words: Vec<OsString> = vec!["serve".into()];
    words.extend(arguments.experiment.iter().map(Into::into));
    for word in &arguments.drive {
        words.extend(["--drive".into(), word.into()]);
    }
    let poll = match polling {
        Polling::Always => "always",
        Polling::Adaptive => "adaptive",
        Polling::Never => "never",
    };
    words.extend(["--sockets".into(), folder.into(), "--poll".into(), poll.into()]);
    let sockets = names.iter().map(|name| folder.join(format!("{name}.sock"))).collect();
    let start = Start { arguments: words, folder: folder.to_owned(), memory };
    let process = start.start()?;
    let ending = Arc::new(AtomicBool::new(false));
    let (asked, stop) = (Arc::clone(&ending), Arc::clone(stop));
    let watcher = std::thread::Builder::new()
        .name("serve".into())
        .spawn(move || supervise(&start, process, &asked, &stop))
        .context("cannot start a thread")?;
    Ok(Server { ending, watcher: Some(watcher), sockets })
}

impl Start {
    /// Starts it; returns when it serves.
    fn start(&self) -> Result<Process> {
        let program = program::own()?;
        let mut command = Command::new(program);
        command.args(&self.arguments);
        Ok(readiness::start(command, "serve", &self.folder, TIMEOUT)?)
    }
}

/// Starts the server again where it ends by itself; its clients wait meanwhile and
/// come back. Where its memory was a drive, all is stopped.
fn supervise(start: &Start, mut process: Process, ending: &AtomicBool, stop: &AtomicBool) {
    while !ending.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        let Some(status) = process.ended() else { continue };
        eprintln!("stasis function: `stasis serve` ended ({status}){}", process.detail());
        if start.memory {
            eprintln!(
                "stasis function: a drive was in its memory and is gone; the function is stopped"
            );
            stop.store(true, Ordering::Relaxed);
            return;
        }
        match start.start() {
            Ok(again) => process = again,
            Err(error) => {
                eprintln!("stasis function: {}; the function is stopped", failure::told(&error));
                stop.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
    // The process makes its drives durable; after that, or after a time limit, it is ended.
    if let Some(id) = Pid::from_raw(process.id() as i32) {
        let _ = kill_process(id, Signal::TERM);
    }
    let begun = Instant::now();
    while process.ended().is_none() && begun.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The served drives that are the function's: those of its names, else in order.
fn choose(served: &[String], wanted: &[String]) -> Result<Vec<String>> {
    if wanted.iter().all(|name| served.contains(name)) {
        return Ok(wanted.to_vec());
    }
    if served.len() != wanted.len() {
        bail!(
            "the function has {} drives ({}), but {} are given: add --drive model=null,medium=file:disk.img for each, \
             or name an experiment file with drives of these names",
            wanted.len(),
            wanted.join(", "),
            served.len()
        );
    }
    Ok(served.to_vec())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            // The thread does not panic, and an error would have no consequence.
            let _ = watcher.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn drives_are_chosen_by_name_or_in_order() {
        let names = |all: &[&str]| all.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let wanted = names(&["data", "log"]);
        assert_eq!(choose(&names(&["x", "log", "data"]), &wanted).unwrap(), wanted);
        assert_eq!(choose(&names(&["a", "b"]), &wanted).unwrap(), names(&["a", "b"]));
        let error = choose(&names(&["a"]), &wanted).unwrap_err().to_string();
        assert!(error.contains("data, log") && error.contains("1 are given"), "{error}");
    }
}
