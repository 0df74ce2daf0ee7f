//! Words on the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use stasis_experiment::{CpuSpeed, Engine};

use crate::commands;

/// Exit status when the program itself failed, not the command in the guest.
pub const FAILURE: u8 = 125;

/// Runs stock operating systems on storage that you do not have.
#[derive(Debug, Parser)]
#[command(name = "stasis", version, propagate_version = true)]
#[command(after_help = "Examples:
  stasis run --drive model=fixed:100us,medium=ram:1GiB -- fio --name=r --filename=/dev/nvme0n1 --rw=randread --direct=1 --number_ios=1000
  stasis run experiment.toml
  stasis models
  stasis doctor")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command in a guest on modelled drives
    Run(Box<RunArguments>),
    /// Repeat a publication's experiments and print its figures beside ours
    Reproduce(commands::reproduce::Arguments),
    /// Make the guest's system from Debian packages
    #[command(subcommand)]
    Guest(GuestCommand),
}

#[derive(Debug, Subcommand)]
enum GuestCommand {
    /// Make it, or make it again if its recipe has changed
    Build(GuestBuildArguments),
}

/// What the guest is made of.
#[derive(Debug, clap::Args)]
pub struct GuestBuildArguments {
    /// Debian packages beside the usual ones, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE,...")]
    pub packages: Vec<String>,
    /// Package of the kernel [default: linux-image-cloud-amd64]
    #[arg(long, value_name = "PACKAGE")]
    pub kernel: Option<String>,
    /// Debian release [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub suite: Option<String>,
}

/// What `stasis run` runs. Words win over the experiment's file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Drives appear in the guest as /dev/nvme0n1, /dev/nvme1n1, ... in the order given.
What COMMAND leaves in /results in the guest is in the results folder afterwards.

Keys of --drive: model, medium, delay, name, interface, queues, block-size, serial.

Examples:
  stasis run -- uname -a
  stasis run --drive model=dcpmm,medium=file:disk.img,delay=5ms -- fio job.fio
  stasis run experiment.toml --seed 2 --results second

Exit status: that of COMMAND; 124 if a time limit was reached, 125 if the run failed,
126 or 127 if COMMAND could not be started, 130 if it was stopped.")]
pub struct RunArguments {
    /// An experiment file
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    /// Add a drive: what it is like and where its bytes live
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub drive: Vec<String>,
    /// Processors, 1 to 64 [default: 1]
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,
    /// Memory of the guest [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Speed of the processors: 5GHz, or 2x the host's [default: 5GHz under exact, else 1x]
    #[arg(long, value_name = "SPEED")]
    pub cpu_speed: Option<CpuSpeed>,
    /// Seed of everything random [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Folder for the results [default: results]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Where the machine runs: auto, kvm, softkvm or exact [default: auto]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,
    /// Let time go back for drives faster than the guest's own I/O path
    #[arg(long)]
    pub rewind: bool,
    /// Most virtual time of the command, such as 10s
    #[arg(long, value_name = "TIME")]
    pub virtual_limit: Option<String>,
    /// Most wall-clock time of everything, such as 10min
    #[arg(long, value_name = "TIME")]
    pub wall_limit: Option<String>,
    /// Copy a file or folder into the guest's /root, or to DESTINATION
    #[arg(long = "file", value_name = "SOURCE[:DESTINATION]")]
    pub files: Vec<String>,
    /// Debian packages that the guest has beside the usual ones
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE,...")]
    pub packages: Vec<String>,
    /// Package of the guest's kernel
    #[arg(long, value_name = "PACKAGE")]
    pub kernel: Option<String>,
    /// Show what the guest's kernel says
    #[arg(long)]
    pub console: bool,
    /// Do not say at the end what the drives did
    #[arg(long, short)]
    pub quiet: bool,
    /// What to run in the guest, as root
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Does what the command line says.
pub fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Run(arguments) => commands::run::main(*arguments),
        Command::Reproduce(arguments) => commands::reproduce::main(&arguments),
        Command::Guest(GuestCommand::Build(arguments)) => commands::guest::build(&arguments),
    }
}
