//! A `stasis serve` of a function's own, as a process beside it: the function's
//! end does not touch it, and its drives' acknowledged writes are there.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use stasis_experiment::{DriveSpec, Experiment};
use stasis_function::Polling;
use stasis_qemu::process::Process;

use super::RunArguments;

/// How long it may take to open its drives, or to make them durable at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server; dropping it ends it in order.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// The sockets of the function's drives, in the definition's order.
    pub sockets: Vec<PathBuf>,
}

/// Starts a server for the drives of the words and the experiment.
pub fn start(
    arguments: &RunArguments,
    wanted: &[String],
    folder: &Path,
    polling: Polling,
) -> Result<Server> {
    let mut experiment = match &arguments.experiment {
        Some(path) => Experiment::read(path)?,
        None => Experiment::default(),
    };
    for word in &arguments.drive {
        experiment.drives.push(DriveSpec::parse(word)?);
    }
    experiment.name_drives()?;
    let names: Vec<String> = experiment
        .drives
        .iter()
        .enumerate()
        .map(|(index, drive)| drive.name.clone().unwrap_or_else(|| format!("drive{index}")))
        .collect();
    let names = choose(&names, wanted)?;
    let notify = folder.join("notify.sock");
    let _ = std::fs::remove_file(&notify);
    let ready = UnixDatagram::bind(&notify)
        .with_context(|| format!("cannot make the socket {}", notify.display()))?;
    ready.set_read_timeout(Some(Duration::from_millis(50)))?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command.arg("serve").args(&arguments.experiment);
    for word in &arguments.drive {
        command.args(["--drive", word]);
    }
    let word = match polling {
        Polling::Always => "always",
        Polling::Adaptive => "adaptive",
        Polling::Never => "never",
    };
    command.arg("--sockets").arg(folder).args(["--poll", word]).env("NOTIFY_SOCKET", &notify);
    let process = Process::start(command, &[], &folder.join("serve.log"))
        .context("cannot start `stasis serve`")?;
    let sockets = names.iter().map(|name| folder.join(format!("{name}.sock"))).collect();
    let mut server = Server { process, sockets };
    let begun = Instant::now();
    while ready.recv(&mut [0; 64]).is_err() {
        if server.process.ended().is_some() || begun.elapsed() > PATIENCE {
            bail!("`stasis serve` does not get ready{}", server.process.detail());
        }
    }
    Ok(server)
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
        // It makes its drives durable; after that, or too long a time, it is ended.
        let _ = kill(Pid::from_raw(self.process.id() as i32), Signal::SIGTERM);
        let begun = Instant::now();
        while self.process.ended().is_none() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
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
