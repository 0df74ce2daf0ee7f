//! The words of `stasis coordinate`.

use std::path::PathBuf;

use stasis_block::units::parse_duration;
use stasis_scheduler::WEIGHTS;

/// Name of the virtio port through which a guest asks.
pub const HINT_PORT: &str = "org.stasis.help.0";

/// The two ends.
#[derive(Debug, clap::Subcommand)]
pub enum CoordinateCommand {
    /// In a guest: watch its BFQ, and ask through a virtio port
    Guest(GuestArguments),
    /// On the host: hear guests, and set the weights of their cgroups
    Host(HostArguments),
}

/// A duration as a word of the command line.
fn duration(word: &str) -> Result<u64, String> {
    parse_duration(word).map_err(|error| error.to_string())
}

/// Arguments of `stasis coordinate guest`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Run it as root in a guest whose kernel has BFQ and its own types (CONFIG_IOSCHED_BFQ, CONFIG_DEBUG_INFO_BTF:
any distribution's of the last years), with bfq before the drive:

  modprobe bfq; echo bfq > /sys/block/vda/queue/scheduler

QEMU gives the guest its port so:

  -device virtio-serial-pci \\
  -chardev socket,id=help,path=/run/guest1.help,server=on,wait=off \\
  -device virtserialport,chardev=help,name=org.stasis.help.0

Examples:
  stasis coordinate guest
  stasis coordinate guest --dry-run

Exit status: 0 once it was stopped (SIGTERM, SIGINT, SIGHUP); 125 if something failed."
)]
pub struct GuestArguments {
    /// Name of the virtio port, or its device
    #[arg(long, value_name = "NAME", default_value = HINT_PORT)]
    pub port: String,
    /// Time for which asking goes on once no weight is raised
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = duration)]
    pub linger: u64,
    /// Interval of messages without a change; silence for three intervals ends help
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub heartbeat: u64,
    /// Only print when asking begins and ends; needs no port
    #[arg(long)]
    pub dry_run: bool,
    /// Do not say at the end what was done
    #[arg(long, short)]
    pub quiet: bool,
}

/// A guest as the host knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestPlace {
    /// The socket of its port.
    pub socket: PathBuf,
    /// The cgroup of its QEMU.
    pub cgroup: PathBuf,
}

/// Arguments of `stasis coordinate host`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each guest runs `stasis coordinate guest`, and its QEMU runs in a cgroup of its own. A cgroup is a folder, or
its name below where cgroups are mounted; io.bfq.weight (cgroup v2) or blkio.bfq.weight (v1) is set. Sockets may come later,
and go and come again. Weights are restored at the end; after a kill, by the next start.

Examples:
  stasis coordinate host /run/guest1.help=/sys/fs/cgroup/machine.slice/guest1.scope
  stasis coordinate host --drive sda --help-share 0.25 --help-burst 30s /run/a.help=machine.slice/a.scope /run/b.help=machine.slice/b.scope
  stasis coordinate host --dry-run /run/guest1.help=machine.slice/guest1.scope

Exit status: 0 once it was stopped (SIGTERM, SIGINT, SIGHUP) and weights are restored; 125 if something failed."
)]
pub struct HostArguments {
    /// The socket of a guest's port, and the cgroup of its QEMU
    #[arg(value_name = "SOCKET=CGROUP", required = true, value_parser = guest)]
    pub guests: Vec<GuestPlace>,
    /// Weight of a cgroup that is helped, up to 1000
    #[arg(long, value_name = "N", default_value_t = *WEIGHTS.end(), value_parser = weight)]
    pub weight: u32,
    /// Part of time for which help is given in the long run, to all guests together
    #[arg(long, value_name = "0..1", default_value = "0.5", value_parser = share)]
    pub help_share: u32,
    /// How much help a guest can get beyond that at once
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub help_burst: u64,
    /// The host's drive: its scheduler must be bfq, and it gets one request at a time while a guest is helped
    #[arg(long, value_name = "NAME")]
    pub drive: Option<String>,
    /// Leave the drive as many requests at a time as it has
    #[arg(long, requires = "drive")]
    pub keep_depth: bool,
    /// Only say what would be done; set no weight
    #[arg(long)]
    pub dry_run: bool,
    /// Where Prometheus finds metrics, such as 127.0.0.1:9465 [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Folder for the weights that are to be restored
    #[arg(long, value_name = "DIR", default_value = "/run/stasis/coordinate")]
    pub state: PathBuf,
    /// Say neither what happens nor what was done; trouble is still told
    #[arg(long, short)]
    pub quiet: bool,
}

fn guest(word: &str) -> Result<GuestPlace, String> {
    let named =
        word.split_once('=').filter(|(socket, cgroup)| !socket.is_empty() && !cgroup.is_empty());
    let (socket, cgroup) =
        named.ok_or("give the socket of a guest's port and its cgroup: SOCKET=CGROUP")?;
    Ok(GuestPlace { socket: socket.into(), cgroup: cgroup.into() })
}

fn weight(word: &str) -> Result<u32, String> {
    let weight = word.parse().ok().filter(|weight| WEIGHTS.contains(weight));
    weight.ok_or_else(|| {
        format!("a weight is a number from {} to {}", WEIGHTS.start(), WEIGHTS.end())
    })
}

fn share(word: &str) -> Result<u32, String> {
    let share = word.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let share = share.ok_or("a share is a number from 0 to 1, such as 0.5")?;
    Ok((share * 1e6).round() as u32)
}
