//! Words on the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use stasis_experiment::{CpuSpeed, DriveSpec, Engine, GuestSpec};
use stasis_report::Ios;
use stasis_reproductions as reproductions;

use crate::commands;
use stasis_crash_test::power_cut::When;

/// Runs stock operating systems on storage that you do not have.
#[derive(Debug, Parser)]
#[command(name = "stasis", version = stasis_runner::provenance::version(), propagate_version = true)]
#[command(after_help = "Examples:
  stasis run --drive model=fixed:100us,medium=ram:1GiB -- fio --name=r --filename=/dev/nvme0n1 --rw=randread --direct=1 --number_ios=1000
  stasis run experiment.toml
  stasis models
  stasis doctor")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Show no progress, and no summary at the end
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command in a guest on modelled drives
    Run(Box<RunArguments>),
    /// Open a terminal in a guest on modelled drives
    Shell(Box<ShellArguments>),
    /// Cut the power of a run's drives many times, and look at what is left
    CrashTest(commands::crash_test::Arguments),
    /// Drive a model without a guest, with a fio job file's load or a trace
    Sim(Box<stasis_simulation::Arguments>),
    /// Run a study, a grid of experiments; comes with the Python package
    Sweep(commands::sweep::Arguments),
    /// Set results side by side, and say which differences matter
    Compare(commands::compare::Arguments),
    /// Write a run's I/Os as blktrace, Perfetto or fio have them
    Export(commands::export::Arguments),
    /// Draw tables and interactive plots of figures of your own
    Page(commands::page::Arguments),
    /// Serve drives in real time to QEMU and Cloud Hypervisor
    Serve(commands::serve::Arguments),
    /// Run storage functions, such as a file server, in virtual machines of their own
    #[command(subcommand)]
    Function(commands::function::FunctionCommand),
    /// Have this host's BFQ help stock QEMU guests whose BFQ raises weights
    #[command(subcommand)]
    Coordinate(commands::coordinate::CoordinateCommand),
    /// Repeat a publication's experiments and print its figures beside ours
    Reproduce(reproductions::Arguments),
    /// A workload for the guest, see `stasis_reproductions::load`
    #[command(subcommand, hide = true)]
    GuestLoad(reproductions::Load),
    /// Measure throughput and start-up times of a guest that shares a drive with its host
    Suite(reproductions::SuiteArguments),
    /// The suite's part in the guest, see `stasis_reproductions::suite_part`
    #[command(subcommand, hide = true)]
    GuestSuite(reproductions::SuitePart),
    /// A part of `reproduce controller`, in a machine of its own
    #[command(subcommand, hide = true)]
    ControllerPart(reproductions::ControllerPart),
    /// Make the guest's system from Debian packages; list and remove those that are kept
    #[command(subcommand)]
    Guest(GuestCommand),
    /// Say what is kept for later runs and how much disk it takes, or remove it
    #[command(after_help = "Examples:
  stasis cache
  stasis cache prune")]
    Cache {
        #[command(subcommand)]
        command: Option<commands::cache::CacheCommand>,
    },
    /// Make, check and convert disk images
    #[command(subcommand)]
    Image(commands::image::ImageCommand),
    /// List the named drives with their figures, or show one as TOML to start from
    Models(ModelsArguments),
    /// Make a model of what fio or blkparse measured on a real drive
    Calibrate(CalibrateArguments),
    /// Print the JSON Schema of experiment files, or of storage functions, for editors
    #[command(after_help = commands::schema::HELP)]
    Schema {
        /// What the files say
        #[arg(value_enum, default_value_t)]
        of: commands::schema::Files,
    },
    /// Say what this machine has, which engine a run takes, and what to install
    Doctor(commands::doctor::DoctorArguments),
    /// A part of `doctor --measure`, in its guest
    #[command(hide = true)]
    GuestClock(stasis_precision::ClockArguments),
    /// Print completions for a shell
    #[command(after_help = "Example:
  stasis completions bash > ~/.local/share/bash-completion/completions/stasis")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages to a folder, or print the first one
    #[command(after_help = "Example:
  stasis man ~/.local/share/man/man1")]
    Man {
        /// The folder; made if it is not there
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

/// What `stasis models` shows.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stasis models
  stasis models jpt39c > my-disk.toml
  stasis models uniform:200us-400us
  stasis models dcpmm --json")]
struct ModelsArguments {
    /// A name of the list, or a model as --drive takes it
    #[arg(value_name = "MODEL")]
    model: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `stasis calibrate` reads and writes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fio job.fio --output-format=json+ --output=fio.json && stasis calibrate fio.json
  blkparse -i sdb > sdb.txt && stasis calibrate sdb.txt -o sdb.json
  stasis run --drive model=profile:sdb.json,medium=ram:1GiB -- fio job.fio")]
pub struct CalibrateArguments {
    /// fio's JSON output or blkparse's text output; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The profile's file; - prints it [default: profile.json]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Name of the profile [default: the first job's]
    #[arg(long)]
    pub name: Option<String>,
    /// Write over a file that is there
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Subcommand)]
enum GuestCommand {
    /// Make it, or make it again if its recipe has changed
    #[command(
        after_help = "Each recipe is one guest in the cache. `stasis run` builds what it needs by itself.

Examples:
  stasis guest build
  stasis guest build experiment.toml
  stasis guest build --packages ffmpeg,stress-ng --suite trixie"
    )]
    Build(GuestBuildArguments),
    /// List the guests that are kept, the newest first
    List,
    /// Remove guests that are kept
    #[command(after_help = "Example:
  stasis guest remove 03eebb63adb4fd2b")]
    Remove {
        /// Their names, as `stasis guest list` has them
        #[arg(required = true, value_name = "GUEST")]
        names: Vec<String>,
    },
}

/// What the guest is made of.
#[derive(Debug, clap::Args)]
pub struct GuestBuildArguments {
    /// An experiment file whose guest it is to be
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    #[command(flatten)]
    pub system: SystemArguments,
    /// Debian release [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub suite: Option<String>,
}

/// Characters of a line of help; where the terminal is narrower, clap breaks it once more.
const HELP_WIDTH: usize = 98;

/// What follows the help of `stasis run`: the keys of `--drive` are those of the schema.
fn run_help() -> String {
    let keys = DriveSpec::keys();
    let width = keys.iter().map(|key| key.name.len()).max().unwrap_or_default();
    let mut lines = String::new();
    for key in keys {
        let mut line = format!("  {:width$} ", key.name);
        for word in key.summary.split(' ') {
            if line.len() + 1 + word.len() > HELP_WIDTH {
                lines.push_str(&line);
                line = format!("\n{:width$}   ", "");
            }
            line.push(' ');
            line.push_str(word);
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    RUN_HELP.replace("KEYS\n", &lines)
}

const RUN_HELP: &str =
    "Drives appear in the guest as /dev/nvme0n1, /dev/nvme1n1, ... in the order given, or with
interface=virtio-blk as /dev/vda, /dev/vdb, ...
What COMMAND leaves in /results in the guest is in the results folder afterwards.

Keys of --drive; `stasis schema` has them with all that a [[drive]] table can say:
KEYS

With --power-cut the run works on copies of its media: the files of file: and qcow2: stay as they
are. What is durable according to the drive's model (its volatile cache, power-loss protection and
atomic unit) is kept, of the rest some is lost or torn, as --seed draws it; the disks after the cut
are in the results folder as NAME.after-cut.img or .qcow2.
See also `stasis crash-test`, which cuts the power of one run thousands of times.

Examples:
  stasis run -- uname -a
  stasis run experiment.toml --power-cut 1.5s --check 'mount /dev/vda /mnt && umount /mnt && fsck.ext4 -fn /dev/vda'
  stasis run --drive model=dcpmm,medium=file:disk.img,delay=5ms -- fio job.fio
  stasis run experiment.toml --seed 2 --results second

Exit status: that of COMMAND, or with --power-cut 0 if nothing is wrong with what is left and 1
otherwise; 124 if a time limit was reached, 125 if the run failed,
126 or 127 if COMMAND could not be started, 130 if it was stopped.";

/// What `stasis run` runs. Words win over the experiment's file.
#[derive(Debug, clap::Args)]
#[command(after_help = run_help())]
pub struct RunArguments {
    /// An experiment file
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Speed of the processors: 5GHz, or 2x the host's [default: 5GHz under exact, else 1x]
    #[arg(long, value_name = "SPEED")]
    pub cpu_speed: Option<CpuSpeed>,
    /// Folder for the results [default: results]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// How the I/Os are kept: parquet (ios.parquet), csv (ios.csv, which a killed run keeps, too), zst (ios.csv.zst), or none
    #[arg(long, value_name = "FORM", default_value = "parquet")]
    pub ios: Ios,
    /// Keep in timeline.parquet what processors, flash drives and schedulers do when
    #[arg(long, conflicts_with = "power_cut")]
    pub timeline: bool,
    /// Let time go back for drives faster than the guest's own I/O path
    #[arg(long)]
    pub rewind: bool,
    /// Most virtual time of the command, such as 10s
    #[arg(long, value_name = "TIME")]
    pub virtual_limit: Option<String>,
    /// Most wall-clock time of everything, such as 10min
    #[arg(long, value_name = "TIME")]
    pub wall_limit: Option<String>,
    /// Cut the power at this time of the command, after so many I/Os (io:1000), at random, or at
    /// each flush between two times (flushes:1s..2s)
    #[arg(long, value_name = "WHEN")]
    pub power_cut: Option<When>,
    /// After a power cut, run this in a new guest, with the drives as /dev/vda, /dev/vdb, ...
    #[arg(long, value_name = "COMMAND", requires = "power_cut")]
    pub check: Option<String>,
    /// What to run in the guest, as root
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The machine, its drives and its guest, for what runs one.
#[derive(Debug, clap::Args)]
pub struct MachineArguments {
    /// Add a drive: what it is like and where its bytes live
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub drive: Vec<String>,
    /// Processors, 1 to 64 [default: 1]
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,
    /// Memory of the guest [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Seed of everything random [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where the machine runs: auto, kvm, softkvm or exact [default: auto]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<Engine>,
    #[command(flatten)]
    pub guest: GuestArguments,
    /// Show what the guest's kernel says
    #[arg(long)]
    pub console: bool,
}

/// What the guest is made of, and what it has beside that.
#[derive(Debug, clap::Args)]
pub struct GuestArguments {
    /// Copy a file or folder into the guest's /root, or to DESTINATION
    #[arg(long = "file", value_name = "SOURCE[:DESTINATION]")]
    pub files: Vec<String>,
    #[command(flatten)]
    pub system: SystemArguments,
}

/// What the guest's system is made of.
#[derive(Debug, clap::Args)]
pub struct SystemArguments {
    /// Debian packages that the guest has beside the usual ones
    #[arg(long, value_delimiter = ',', value_name = "PACKAGE,...")]
    pub packages: Vec<String>,
    /// Package of the guest's kernel; or, with `/`, `./` or `~/` in front, your own: an image, a
    /// build folder, a package's file [default: linux-image-cloud-amd64]
    #[arg(long, value_name = "PACKAGE|PATH")]
    pub kernel: Option<String>,
    /// Root file system of the guest in place of Debian packages: a folder, a tar archive, a
    /// container image's archive, a disk image, or host
    #[arg(long, value_name = "PATH|host")]
    pub root: Option<String>,
}

impl SystemArguments {
    /// Puts them into what an experiment's file says; they win.
    pub fn apply(self, guest: &mut GuestSpec) {
        guest.packages.extend(self.packages);
        guest.kernel = self.kernel.or(guest.kernel.take());
        guest.root = self.root.or(guest.root.take());
    }
}

/// What `stasis shell` opens a terminal in. Words win over the experiment's file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The terminal is this one: its size, Ctrl-C and Ctrl-Z are the guest's. While the guest only waits
for you, its time passes as the wall clock's; what it computes takes the virtual time that it takes
in `stasis run`, so under the engine exact a busy guest is slow to look at. exit or Ctrl-D ends it.
Ctrl-] three times ends a guest that hangs.

Examples:
  stasis shell
  stasis shell --drive model=samsung-980-pro,medium=ram:1GiB
  stasis shell experiment.toml
  stasis shell --root image.tar -- /bin/ash -l

Exit status: that of the shell; 124 if a time limit was reached, 125 if the machine failed, 126 or
127 if the shell could not be started, 130 if it was stopped."
)]
pub struct ShellArguments {
    /// An experiment file; its command is left out
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Folder for the results [default: none are kept]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// What to run in place of a login shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Does what the command line says.
pub fn main() -> Result<ExitCode> {
    let Cli { command, quiet } = Cli::parse();
    if quiet {
        stasis_terminal::progress::quiet();
    }
    match command {
        Command::Run(arguments) => commands::run::main(*arguments, quiet),
        Command::Shell(arguments) => commands::guest_shell::main(*arguments, quiet),
        Command::CrashTest(arguments) => commands::crash_test::main(&arguments),
        Command::Sim(arguments) => stasis_simulation::main(&arguments, quiet),
        Command::Sweep(arguments) => commands::sweep::main(&arguments),
        Command::Compare(arguments) => commands::compare::main(&arguments, quiet),
        Command::Export(arguments) => commands::export::main(&arguments, quiet),
        Command::Page(arguments) => commands::page::main(&arguments),
        Command::Serve(arguments) => commands::serve::main(&arguments),
        Command::Function(command) => commands::function::main(&command),
        Command::Coordinate(command) => commands::coordinate::main(&command),
        Command::Reproduce(arguments) if arguments.is_study() => commands::sweep::reproduce(),
        Command::Reproduce(arguments) => reproductions::main(&arguments),
        Command::GuestLoad(load) => reproductions::load(&load),
        Command::Suite(arguments) => reproductions::suite(&arguments),
        Command::GuestSuite(part) => reproductions::suite_part(&part),
        Command::ControllerPart(part) => reproductions::controller_part(&part),
        Command::Guest(GuestCommand::Build(arguments)) => commands::guest::build(arguments),
        Command::Guest(GuestCommand::List) => commands::guest::list(),
        Command::Guest(GuestCommand::Remove { names }) => commands::guest::remove(&names),
        Command::Cache { command } => commands::cache::main(command.as_ref()),
        Command::Image(command) => commands::image::image(&command),
        Command::Models(arguments) => {
            commands::models::main(arguments.model.as_deref(), arguments.json)
        }
        Command::Calibrate(arguments) => commands::calibrate::main(&arguments),
        Command::Schema { of } => commands::schema::main(of),
        Command::Doctor(arguments) => commands::doctor::main(&arguments),
        Command::GuestClock(arguments) => stasis_precision::guest_clock(&arguments),
        Command::Completions { shell } => commands::shell::completions(Cli::command(), shell),
        Command::Man { folder } => commands::shell::man(Cli::command(), folder.as_deref()),
    }
}
