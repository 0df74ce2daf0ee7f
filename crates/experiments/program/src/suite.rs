//! The words of `stasis suite`.

use std::path::PathBuf;

use stasis_experiment::Engine;

use crate::pattern::Pattern;

/// Whether scenarios are coordinated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs)] // descriptions would be part of the help
pub enum Coordinate {
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
    pub device: Vec<String>,
    /// Workloads in the guest
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORKLOAD,...",
        default_value = "none,1r-seq,5r-seq,1r-rand,5r-rand"
    )]
    pub guest_workload: Vec<Pattern>,
    /// Workloads on the host
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "WORKLOAD,...",
        default_value = "none,1r-seq,5r-seq"
    )]
    pub host_workload: Vec<Pattern>,
    /// I/O schedulers of the guest's kernel: bfq, mq-deadline, kyber, none
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "bfq")]
    pub guest_scheduler: Vec<String>,
    /// Host schedulers: bfq, cfq, deadline, clook, none
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "bfq")]
    pub host_scheduler: Vec<String>,
    /// Whether the guest's bfq notifies the host's when it raises weights
    #[arg(long, default_value = "no")]
    pub coordinate: Coordinate,
    /// Applications to start: bash, xterm, konsole; none for COMMAND alone
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_value = "bash")]
    pub application: Vec<String>,
    /// Debian packages that COMMAND needs; xvfb gives it a display
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE,...")]
    pub packages: Vec<String>,
    /// Executions of each benchmark
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repetitions: u32,
    /// Starts in each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub starts: u32,
    /// Samples of throughput in each, of 2 s
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1800))]
    pub samples: u32,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "suite")]
    pub results: PathBuf,
    /// Boots at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Run boots again that are complete
    #[arg(long)]
    pub force: bool,
    /// Where the machines run: auto, kvm, softkvm or exact [default: auto]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,
    /// Command to start in the guest
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
