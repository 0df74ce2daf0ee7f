//! `stasis suite`: throughput and application start-up on a drive that a guest
//! shares with its host, with the publication's workloads and statistics (vIrtical,
//! deliverable D3.6, chapters 7 and 8).

pub mod applications;
pub mod disk;
pub mod guest;
pub mod measured;
pub mod pattern;
pub mod plan;
pub mod runner;
pub mod scenario;
pub mod statistics;
pub mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{anyhow, bail, Context, Result};
use stasis_experiment::{Engine, GuestSpec};
use stasis_models::ModelSpec;
use stasis_report::page::{Block, Page, Section};
use stasis_results::REPORT_FILE;
use stasis_runner::batch::{self, KeptResults, Stopped};
use stasis_runner::engine;
use stasis_runner::guest::recipe;
use stasis_scheduler::SchedulerSpec;
use stasis_terminal::{answer, ensure_guest, FAILURE, STOPPED};

use applications::Applications;
use measured::Measurement;
use pattern::Pattern;
use plan::{Boot, Grid, Size};
use runner::{BootOutcome, Runner};
use scenario::Device;

/// The statistics of every scenario.
pub const SCENARIOS_FILE: &str = "scenarios.json";

/// Whether scenarios are coordinated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Coordinate {
    No,
    Yes,
    Both,
}

/// Arguments of `stasis suite`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Every combination is a scenario, with a name that says it:
  DEVICE.host-SCHEDULER.WORKLOAD-on-host.
    guest-SCHEDULER[-coordinated].WORKLOAD.BENCHMARK

Workloads are none, 1r-seq, 5r-seq, 1r-rand, 5r-rand, 2r2w-seq, ...: readers and writers, each with a file of its own.
COMMAND is started from the modelled disk with cold caches, and has started when it ends; a start is
given up after 60 s of virtual time. DIR/scenarios.json has the statistics, DIR/report.html the plots,
DIR/SETUP/experiment.toml is what was run. A boot that is complete in DIR is not run again.

Examples:
  stasis suite
  stasis suite --device sem16g --application xterm --host-workload none,5r-seq --coordinate both
  stasis suite --application none --packages vim --guest-workload 1r-seq -- vim -c q

Exit status: 0; 125 if a boot failed, 130 if it was stopped.")]
pub struct Arguments {
    /// Models of drives, such as mk6006gah, sdhc-class-6, sem16g
    #[arg(long, value_delimiter = ',', value_name = "MODEL,...", default_value = "mk6006gah")]
    device: Vec<String>,
    /// Workloads in the guest
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORKLOAD,...",
        default_value = "none,1r-seq,5r-seq,1r-rand,5r-rand"
    )]
    guest_workload: Vec<Pattern>,
    /// Workloads on the host
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORKLOAD,...",
        default_value = "none,1r-seq,5r-seq"
    )]
    host_workload: Vec<Pattern>,
    /// I/O schedulers of the guest's kernel: bfq, mq-deadline, kyber, none
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "bfq")]
    guest_scheduler: Vec<String>,
    /// Host schedulers: bfq, cfq, deadline, clook, none
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "bfq")]
    host_scheduler: Vec<String>,
    /// Whether the guest's bfq notifies the host's when it raises weights
    #[arg(long, default_value = "no")]
    coordinate: Coordinate,
    /// Applications to start: bash, xterm, konsole; none for COMMAND alone
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "bash")]
    application: Vec<String>,
    /// Debian packages that COMMAND needs; xvfb gives it a display
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE,...")]
    packages: Vec<String>,
    /// Executions of each benchmark
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Starts in each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    starts: u32,
    /// Samples of throughput in each, of 2 s
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1800))]
    samples: u32,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "suite")]
    results: PathBuf,
    /// Boots at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Run boots again that are complete
    #[arg(long)]
    force: bool,
    /// Where the machines run: auto, kvm, softkvm or exact [default: auto]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,
    /// Command to start in the guest
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Arguments {
    fn grid(&self) -> Result<(Grid, Applications)> {
        let names: Vec<String> =
            self.application.iter().filter(|name| *name != "none").cloned().collect();
        let applications = Applications::new(&names, &self.command, &self.packages);
        let applications = applications.map_err(|error| anyhow!("--application: {error}"))?;
        for name in &self.device {
            ModelSpec::parse(name).with_context(|| format!("--device {name}"))?;
        }
        for word in &self.host_scheduler {
            SchedulerSpec::parse(word).with_context(|| format!("--host-scheduler {word}"))?;
        }
        const KERNEL: [&str; 4] = ["bfq", "mq-deadline", "kyber", "none"];
        if let Some(word) = self.guest_scheduler.iter().find(|word| !KERNEL.contains(&&***word)) {
            bail!("--guest-scheduler {word}: there are {}", KERNEL.join(", "));
        }
        let grid = Grid {
            devices: self.device.iter().map(|name| Device::named(name)).collect(),
            host_schedulers: self.host_scheduler.clone(),
            host_workloads: self.host_workload.clone(),
            guest_schedulers: self.guest_scheduler.clone(),
            coordinated: match self.coordinate {
                Coordinate::No => vec![false],
                Coordinate::Yes => vec![true],
                Coordinate::Both => vec![false, true],
            },
            guest_workloads: self.guest_workload.clone(),
            applications: applications.list.clone(),
            size: Size {
                repetitions: self.repetitions,
                samples: self.samples,
                starts: self.starts,
            },
        };
        Ok((grid, applications))
    }
}

/// Options for running boots, in words of the command line.
pub struct Running<'a> {
    pub folder: &'a Path,
    pub engine: Engine,
    pub force: bool,
    pub jobs: Option<usize>,
    /// Run nothing: boots that are not complete count as failed.
    pub gather: bool,
    /// True if other processes run other boots in this folder.
    pub beside_others: bool,
}

/// Runs boots with these applications.
///
/// # Errors
/// [`Stopped`], and where guests or folders cannot be made.
pub fn run_boots(
    running: &Running,
    boots: &[Boot],
    applications: &Applications,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<BootOutcome>> {
    let engine = engine::choose(running.engine)?;
    // The guest that measures, and the one whose system is on the disk.
    ensure_guest(&recipe(&GuestSpec::default()), stop)?;
    let packages = applications.packages.clone();
    let on_disk = recipe(&GuestSpec { packages, ..GuestSpec::default() });
    let root = ensure_guest(&on_disk, stop)?.root;
    let runner = Runner {
        folder: running.folder.to_owned(),
        engine,
        kept: KeptResults::new(running.folder, running.force, running.gather)?,
        jobs: running.jobs,
        beside_others: running.beside_others,
        root,
        recipe: serde_json::to_string(&on_disk)?,
        has_server: applications.has_server(),
        stop: Arc::clone(stop),
    };
    runner.run(boots)
}

/// Writes every scenario's statistics.
pub fn write_scenarios(folder: &Path, measurements: &[Measurement]) -> Result<()> {
    let path = folder.join(SCENARIOS_FILE);
    let text = serde_json::to_vec_pretty(measurements)?;
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// `stasis suite`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let (grid, applications) = arguments.grid()?;
    let boots = grid.boots();
    if boots.is_empty() {
        bail!("nothing to do: only bfq in the guest and on the host can be coordinated");
    }
    if grid.applications.is_empty() && arguments.samples == 0 {
        bail!("nothing to do: neither samples of throughput nor anything to start");
    }
    let stop = stasis_terminal::stop_on_signals()?;
    let provenance = stasis_runner::provenance::Provenance::begin(true);
    let folder = &arguments.results;
    let Arguments { engine, force, jobs, .. } = *arguments;
    let (engine, gather, beside_others) = (engine.unwrap_or_default(), false, false);
    let running = Running { folder, engine, force, jobs, gather, beside_others };
    let outcomes = match run_boots(&running, &boots, &applications, &stop) {
        Err(error) if error.is::<Stopped>() => {
            eprintln!("stasis: {error}; the same command goes on from here");
            return Ok(ExitCode::from(STOPPED));
        }
        other => other?,
    };
    let measurements: Vec<Measurement> = outcomes.iter().flatten().flatten().cloned().collect();
    write_scenarios(folder, &measurements)?;
    let failed = batch::failed(&boots, &outcomes);
    let mut page = Page {
        title: "Throughput and start-up".into(),
        subtitle: "A guest and its host on one drive.".into(),
        head: Some(tables::head(&measurements, &failed).repeated_by(Some(provenance.repeat()))),
        sections: vec![Section::new("Scenarios").with(Block::Plots(tables::plots(&measurements)))],
    };
    page.sections.extend(provenance.section());
    page.write(folder, REPORT_FILE)?;
    answer::put("results", folder)?;
    answer::put("scenarios", &measurements)?;
    answer::text(&tables::scenarios(&measurements).to_text())?;
    eprintln!("statistics: {}", folder.join(SCENARIOS_FILE).display());
    eprintln!("report: {}", folder.join(REPORT_FILE).display());
    for (name, why) in &failed {
        eprintln!("stasis: {name} failed: {why}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) })
}
