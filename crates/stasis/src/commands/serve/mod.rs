//! `stasis serve`: drives in real time on sockets.

mod drives;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use stasis_experiment::{DriveSpec, Experiment, Polling};
use stasis_serve::{Poll, Server};

/// What `stasis serve` serves, and how.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each drive is a vhost-user-blk socket, NAME.sock in the folder of sockets. The guest's memory must be
shared with this program. QEMU:

  qemu-system-x86_64 -m 1G -object memory-backend-memfd,id=mem,size=1G,share=on -machine q35,memory-backend=mem \\
    -chardev socket,id=c0,path=/run/stasis/drive0.sock,reconnect=1 -device vhost-user-blk-pci,chardev=c0 ...

Cloud Hypervisor:

  cloud-hypervisor --memory size=1G,shared=on --disk vhost_user=true,socket=/run/stasis/drive0.sock ...

Examples:
  stasis serve experiment.toml
  stasis serve --drive model=null,medium=file:disk.img --sockets /tmp/drives
  stasis serve --drive model=fixed:100us,medium=ram:1GiB --poll always

Exit status: 0 once it was stopped (SIGTERM, SIGINT) and all is durable; 125 if something failed."
)]
pub struct Arguments {
    /// An experiment file, with drives and a [serve] table
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    /// Add a drive: what it is like and where its bytes live
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub drive: Vec<String>,
    /// Folder of the sockets [default: /run/stasis]
    #[arg(long, value_name = "DIR")]
    pub sockets: Option<PathBuf>,
    /// How to look for work: always, adaptive or never [default: adaptive]
    #[arg(long, value_name = "WORD", value_parser = ["always", "adaptive", "never"])]
    pub poll: Option<String>,
    /// Polling threads [default: 1]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Do not say at the end what the drives did
    #[arg(long, short)]
    pub quiet: bool,
}

/// Words win over the file.
fn experiment(arguments: &Arguments) -> Result<(Experiment, PathBuf)> {
    let (mut experiment, base) = match &arguments.experiment {
        Some(path) => {
            let base = path.parent().unwrap_or(std::path::Path::new("")).to_owned();
            (Experiment::read(path)?, base)
        }
        None => (Experiment::default(), PathBuf::new()),
    };
    for word in &arguments.drive {
        experiment.drives.push(DriveSpec::parse(word)?);
    }
    experiment.name_drives()?;
    let serve = &mut experiment.serve;
    if let Some(folder) = &arguments.sockets {
        serve.sockets = Some(folder.clone());
    }
    if let Some(word) = &arguments.poll {
        serve.poll = match word.as_str() {
            "always" => Polling::Always,
            "never" => Polling::Never,
            _ => Polling::Adaptive,
        };
    }
    serve.threads = arguments.threads.or(serve.threads);
    if !(1..=64).contains(&serve.threads.unwrap_or(1)) {
        bail!("threads is {}, but must be 1 to 64", serve.threads.unwrap_or(1));
    }
    if experiment.drives.is_empty() {
        bail!("there is no drive to serve: say --drive model=null,medium=ram:1GiB, or name an experiment file");
    }
    Ok((experiment, base))
}

/// `stasis serve`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let (experiment, base) = experiment(arguments)?;
    let folder = experiment.serve.sockets.clone().unwrap_or_else(|| "/run/stasis".into());
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder of sockets {}", folder.display()))?;
    let poll = match experiment.serve.poll {
        Polling::Always => Poll::Always,
        Polling::Adaptive => Poll::Adaptive,
        Polling::Never => Poll::Never,
    };
    let mut signals = signals()?;
    let server = Server::new(experiment.serve.threads.unwrap_or(1), poll)?;
    for (index, spec) in experiment.drives.iter().enumerate() {
        let drive = drives::new(spec, index, experiment.seed, &base, &folder)?;
        let (name, path) = (drive.name.clone(), drive.path.clone());
        server.attach(drive)?;
        eprintln!("stasis serve: {name}: {} on {}", spec.model.label(), path.display());
    }
    signals.read_exact(&mut [0]).context("cannot wait for signals")?;
    let report = server.report();
    let stopped = server.stop();
    if !arguments.quiet {
        report.iter().for_each(|drive| eprintln!("{}", summary(drive)));
    }
    stopped?;
    Ok(ExitCode::SUCCESS)
}

/// What a drive has done, in a line.
fn summary(drive: &stasis_serve::DriveReport) -> String {
    let us = |nanos: f64| nanos / 1000.0;
    let counts = &drive.counts;
    let mut line = format!(
        "stasis serve: {}: {} reads, {} writes, {} flushes, {} failed; {} connections, {} faults",
        drive.name,
        counts.reads,
        counts.writes,
        counts.flushes,
        counts.failed,
        counts.connections,
        counts.faults,
    );
    for (name, times) in [("read", drive.read), ("write", drive.write)] {
        if times.count > 0 {
            line += &format!(
                "; {name} {:.1} us mean, {:.1} us p99",
                us(times.mean_ns),
                us(times.p99_ns as f64)
            );
        }
    }
    if let Some(error) = drive.timing_error {
        line += &format!(
            "; later than the model by {:.2} us mean, {:.1} us p99, {:.1} us p99.9, {:.0} us at most",
            us(error.mean_ns),
            us(error.p99_ns as f64),
            us(error.p999_ns as f64),
            us(error.max_ns as f64)
        );
    }
    line
}

/// Something to read from once the program is asked to stop.
fn signals() -> Result<UnixStream> {
    let (read, write) = UnixStream::pair().context("cannot make a pair of sockets")?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        let write = write.try_clone().context("cannot wait for signals")?;
        signal_hook::low_level::pipe::register(signal, write).context("cannot wait for signals")?;
    }
    Ok(read)
}
