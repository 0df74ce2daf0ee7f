//! The arguments of the commands that run a machine, and those that they share with others.

use std::path::PathBuf;

use stasis_crash_test::power_cut::When;
use stasis_experiment::{CpuSpeed, DriveSpec, Engine, GuestSpec};
use stasis_results::Ios;

use crate::commands::moment::MomentArguments;
use crate::commands::run::snapshots::SnapshotArguments;

/// Characters of a line of the keys, which man(1) indents by seven.
const KEYS_WIDTH: usize = 73;

/// The text after the help of `stasis run`: the keys of `--drive` are those of the schema.
fn run_help() -> String {
    let keys = DriveSpec::keys();
    let width = keys.iter().map(|key| key.name.len()).max().unwrap_or_default();
    let mut lines = String::new();
    for key in keys {
        let mut line = format!("  {:width$} ", key.name);
        for word in key.summary.split(' ') {
            if line.len() + 1 + word.len() > KEYS_WIDTH {
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
  stasis run experiment.toml --power-cut 1.5s --check 'mount /dev/vda /mnt && umount /mnt && e2fsck -fn /dev/vda'
  stasis run --drive model=dcpmm,medium=file:disk.img,delay=5ms --file job.fio -- fio job.fio
  stasis run experiment.toml --seed 2 --results second
  stasis run experiment.toml --expect 'read.p99 < 1ms' --expect 'errors == 0' --junit run.xml

Exit status: that of COMMAND, or with --power-cut 0 if nothing is wrong with what is left and 1
otherwise; 99 if COMMAND succeeded and a threshold was not met; 124 if a time limit was reached, 125 if
the run failed, 126 or 127 if COMMAND could not be started, 130 if it was stopped.";

/// Arguments of `stasis run`. Words win over the experiment's file.
#[derive(Debug, Clone, PartialEq, clap::Args)]
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
    /// Take the seed and the faults of this file in place of the experiment's: `stasis explore` leaves
    /// such files
    #[arg(long, value_name = "FILE", requires = "experiment", conflicts_with_all = ["seed", "branch"])]
    pub scenario: Option<PathBuf>,
    /// Keep in timeline.parquet what processors, flash drives and schedulers do when
    #[arg(long, conflicts_with = "power_cut")]
    pub timeline: bool,
    /// Keep in which functions processors are, sampled each so many virtual nanoseconds, in
    /// profile.folded and on the page: 100us
    #[arg(long, value_name = "INTERVAL", conflicts_with = "power_cut")]
    pub profile: Option<String>,
    /// Keep in guest-ios.parquet the time of each I/O in the guest: from its system call to the
    /// doorbell, and from its interrupt until its thread runs again
    #[arg(long, conflicts_with = "power_cut")]
    pub guest_times: bool,
    #[command(flatten)]
    pub snapshots: SnapshotArguments,
    /// Let time go back for drives faster than the guest's own I/O path
    #[arg(long)]
    pub rewind: bool,
    /// Most virtual time of the command, such as 10s
    #[arg(long, value_name = "TIME")]
    pub virtual_limit: Option<String>,
    /// Most wall-clock time of everything, such as 10min
    #[arg(long, value_name = "TIME")]
    pub wall_limit: Option<String>,
    #[command(flatten)]
    pub expect: ExpectArguments,
    /// Show the page while the run goes on, on this port of 127.0.0.1 [default: a free one]
    #[arg(
        long, value_name = "PORT", num_args = 0..=1, require_equals = true,
        default_missing_value = "0", conflicts_with_all = ["power_cut", "branch"]
    )]
    pub live: Option<u16>,
    /// Cut the power at this time of the command, after so many I/Os (io:1000), at random, or at
    /// each flush between two times (flushes:1s..2s)
    #[arg(long, value_name = "WHEN")]
    pub power_cut: Option<When>,
    /// After a power cut, run this in a new guest that has the same drives under the same names
    #[arg(long, value_name = "COMMAND", requires = "power_cut")]
    pub check: Option<String>,
    /// Command to run in the guest, as root
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Thresholds, and the file that has them as tests.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct ExpectArguments {
    /// Expect a figure of the run to keep within a value, such as 'read.p99 < 1ms'; again for another
    #[arg(long, value_name = "THRESHOLD")]
    pub expect: Vec<String>,
    /// Write the command and the thresholds as tests in JUnit's XML to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["power_cut", "branch"])]
    pub junit: Option<PathBuf>,
}

/// The machine, its drives and its guest, for what runs one.
#[derive(Debug, Clone, PartialEq, clap::Args)]
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
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = stasis_block::units::parse_seed)]
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

/// The guest's system, and the files added to it.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct GuestArguments {
    /// Copy a file or folder into the guest's /root, or to DESTINATION
    #[arg(long = "file", value_name = "SOURCE[:DESTINATION]")]
    pub files: Vec<String>,
    #[command(flatten)]
    pub system: SystemArguments,
}

/// The guest's system.
#[derive(Debug, Clone, PartialEq, clap::Args)]
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
    /// Container image as the guest's root: the path of one with `/`, `./` or `~/` in front, or a name
    /// that podman, docker or skopeo knows
    #[arg(long, value_name = "NAME|PATH", conflicts_with = "root")]
    pub image: Option<String>,
}

impl SystemArguments {
    /// Applies them to the specification of an experiment's file; they win.
    pub fn apply(self, guest: &mut GuestSpec) {
        guest.packages.extend(self.packages);
        guest.kernel = self.kernel.or(guest.kernel.take());
        // Either takes the place of the file's root and image.
        if self.root.is_some() || self.image.is_some() {
            (guest.root, guest.image) = (self.root, self.image);
        }
    }
}

/// Arguments of `stasis shell`. Words win over the experiment's file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The terminal is this one: its size, Ctrl-C and Ctrl-Z are the guest's. While the guest only waits
for you, its time passes as the wall clock's; what it computes takes the virtual time that it takes
in `stasis run`, so under the engine exact a busy guest is slow to look at. exit or Ctrl-D ends it.
Ctrl-] three times ends a guest that hangs.

With --at, --at-io, --at-output, --at-function or --at-end the run of the experiment, or the one
that has left the results, goes to that moment under the engine exact, and is another from there on:
the shell, or COMMAND, runs in the guest beside its command, whose output is no longer shown. Where
standard input or output is no terminal, COMMAND runs without one. The results stay as they are.

Examples:
  stasis shell
  stasis shell --drive model=samsung-980-pro,medium=ram:1GiB
  stasis shell experiment.toml
  stasis shell --root image.tar -- /bin/ash -l
  stasis shell --at 1.25s results
  stasis shell --at-io drive0:1234 results -- ps -eo pid,stat,wchan,args

Exit status: that of the shell; 124 if a time limit was reached, 125 if the machine failed, 126 or
127 if the shell could not be started, 130 if it was stopped."
)]
pub struct ShellArguments {
    /// An experiment file; its command is left out. At a moment: one with a command, or a folder
    /// of results
    #[arg(value_name = "EXPERIMENT.toml|RESULTS")]
    pub experiment: Option<PathBuf>,
    #[command(flatten)]
    pub machine: MachineArguments,
    #[command(flatten)]
    pub moment: MomentArguments,
    /// At a moment: the machine whose guest it is [default: the first]
    #[arg(long = "machine", value_name = "NAME")]
    pub on: Option<String>,
    /// Folder for the results [default: none are kept]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Command in place of a login shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
