//! A `stasis serve` of a function's own, as a process beside it: the function's
//! end does not touch it, and its drives' acknowledged writes are there. Where it
//! ends itself, it is started again, and the function waits.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use stasis_experiment::{Experiment, ServeSpec};
use stasis_media::MediumSpec;
use stasis_program::function::RunArguments;
use stasis_program::{beside, here};
use stasis_qemu_vm::process::Process;
use stasis_qemu_vm::readiness;
use stasis_runner::failure;
use stasis_storage_function::Polling;

/// Longest time to open its drives, or to make them durable at the end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Name of the server's experiment file in the function's folder.
const EXPERIMENT: &str = "serve.toml";

/// Interval between looks at the server, and the pause before it is started again.
const PAUSE: Duration = Duration::from_millis(100);

/// A server; dropping it ends it in order.
#[derive(Debug)]
pub struct Server {
    ending: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
    /// The sockets of the function's drives, in the definition's order.
    pub sockets: Vec<PathBuf>,
}

/// Command that starts a server, and starts it again.
struct Start {
    folder: PathBuf,
    /// True if a drive is in the server's memory: another one would not have it.
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
    let file = arguments.experiment.as_deref();
    let experiment = described(file, &arguments.drive, folder, polling)?;
    // Each has a name now.
    let names: Vec<String> =
        experiment.drives.iter().filter_map(|drive| drive.name.clone()).collect();
    let names = choose(&names, wanted)?;
    let memory =
        experiment.drives.iter().any(|drive| matches!(drive.medium, MediumSpec::Ram { .. }));
    let path = folder.join(EXPERIMENT);
    let text = text_of(&experiment).context("cannot write the server's experiment")?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let sockets = names.iter().map(|name| folder.join(format!("{name}.sock"))).collect();
    let start = Start { folder: folder.to_owned(), memory };
    let process = start.start()?;
    let ending = Arc::new(AtomicBool::new(false));
    let (asked, stop) = (Arc::clone(&ending), Arc::clone(stop));
    let watcher = std::thread::Builder::new()
        .name("serve".into())
        .spawn(move || supervise(&start, process, &asked, &stop))
        .context("cannot start a thread")?;
    Ok(Server { ending, watcher: Some(watcher), sockets })
}

/// The text of an experiment file. By way of a value: TOML's writer is compiled for that alone, not
/// for every type of an experiment.
fn text_of(experiment: &Experiment) -> Result<String> {
    let mut value = serde_json::to_value(experiment)?;
    without_nulls(&mut value);
    Ok(toml::to_string(&value)?)
}

/// Takes out what is not there: TOML has no null.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// The server's experiment, whose paths depend on no folder. The words and the user's file are read
/// here only: a server that is started again has the same drives, whatever the file is by then.
fn described(
    file: Option<&Path>,
    drives: &[String],
    folder: &Path,
    polling: Polling,
) -> Result<Experiment> {
    let (mut experiment, base) = here::experiment(file, drives)?;
    experiment.name_drives()?;
    let base = std::env::current_dir().context("there is no current folder")?.join(base);
    for drive in &mut experiment.drives {
        drive.anchor(&base)?;
    }
    let poll = match polling {
        Polling::Always => stasis_experiment::Polling::Always,
        Polling::Adaptive => stasis_experiment::Polling::Adaptive,
        Polling::Never => stasis_experiment::Polling::Never,
    };
    let serve = ServeSpec { sockets: Some(folder.to_owned()), poll, ..experiment.serve };
    let Experiment { seed, drives, .. } = experiment;
    Ok(Experiment { seed, drives, serve, ..Experiment::default() })
}

impl Start {
    /// Starts it; returns when it serves.
    fn start(&self) -> Result<Process> {
        let mut command = Command::new(beside::main_program());
        command.arg("serve").arg(self.folder.join(EXPERIMENT));
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
    use std::path::Path;

    use stasis_experiment::Experiment;

    use super::*;

    #[test]
    fn drives_are_chosen_by_name_or_in_order() {
        let names = |all: &[&str]| all.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let wanted = names(&["data", "log"]);
        assert_eq!(choose(&names(&["x", "log", "data"]), &wanted).unwrap(), wanted);
        assert_eq!(choose(&names(&["a", "b"]), &wanted).unwrap(), names(&["a", "b"]));
        let error = choose(&names(&["a"]), &wanted).unwrap_err().to_string();
        assert!(error.contains("data, log") && error.contains("1 are given"), "{error}");
    }

    #[test]
    fn the_server_reads_the_drives_as_they_were_read_here() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("user.toml");
        let text = "seed = 7\n[serve]\nthreads = 2\n[[drive]]\nmodel = 'null'\n\
                    medium = { file = 'a.img', size = '1MiB' }\nlimits = { iops = 100 }\n";
        std::fs::write(&user, text).unwrap();
        let word = "model=fixed:100us,medium=file:b.img,name=log,zone-size=64MiB".to_owned();
        let sockets = Path::new("/run/f");
        let wanted = described(Some(&user), &[word], sockets, Polling::Never).unwrap();
        let written = folder.path().join(EXPERIMENT);
        std::fs::write(&written, text_of(&wanted).unwrap()).unwrap();
        assert_eq!(Experiment::read(&written).unwrap(), wanted);
        let names: Vec<_> = wanted.drives.iter().map(|drive| drive.name.as_deref()).collect();
        assert_eq!(names, [Some("drive0"), Some("log")]);
        let paths = wanted.drives.iter().map(|drive| match &drive.medium {
            MediumSpec::File { path, .. } => path.clone(),
            other => panic!("{other:?}"),
        });
        let current = std::env::current_dir().unwrap();
        let expected = [folder.path().join("a.img"), current.join("b.img")];
        assert_eq!(paths.collect::<Vec<_>>(), expected);
        assert_eq!((wanted.seed, wanted.serve.threads), (7, Some(2)));
        assert_eq!(wanted.serve.sockets.as_deref(), Some(sockets));
    }
}
