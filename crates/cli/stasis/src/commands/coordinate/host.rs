//! `stasis coordinate host`.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::PoisonError;

use anyhow::{Context, Result};
use stasis_guest_hints::drive;
use stasis_guest_hints::host::{Guest, Host, Settings};
use stasis_scheduler::WEIGHTS;
use stasis_serve::systemd;

use super::{duration, log};

/// Whom to help, and how much.
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
pub struct Arguments {
    /// The socket of a guest's port, and the cgroup of its QEMU
    #[arg(value_name = "SOCKET=CGROUP", required = true, value_parser = guest)]
    pub guests: Vec<Guest>,
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

fn guest(word: &str) -> Result<Guest, String> {
    let named =
        word.split_once('=').filter(|(socket, cgroup)| !socket.is_empty() && !cgroup.is_empty());
    let (socket, cgroup) =
        named.ok_or("give the socket of a guest's port and its cgroup: SOCKET=CGROUP")?;
    Ok(Guest { socket: socket.into(), cgroup: cgroup.into() })
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

/// `stasis coordinate host`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let stop = stasis_terminal::signals()?;
    if !drive::check(arguments.drive.as_deref())? {
        log("no drive of this host has the scheduler bfq, so weights will do nothing: echo bfq > /sys/block/NAME/queue/scheduler");
    }
    let settings = Settings {
        weight: arguments.weight,
        share: arguments.help_share,
        burst: arguments.help_burst,
        drive: arguments.drive.clone().filter(|_| !arguments.keep_depth),
        state: (!arguments.dry_run).then(|| arguments.state.clone()),
    };
    let host = Host::new(&arguments.guests, &settings)?;
    if let Some(address) = &arguments.metrics {
        let reports = host.reports();
        crate::metrics::answer(address, move || {
            super::metrics::text(&reports.lock().unwrap_or_else(PoisonError::into_inner))
        })
        .with_context(|| format!("cannot listen on {address}"))?;
    }
    systemd::ready();
    let usual = ["connected", "disconnected", "helped", "not helped any more"];
    let mut on_news = |socket: &str, news: &str| {
        if !(arguments.quiet && usual.contains(&news)) {
            log(&format!("{socket}: {news}"));
        }
    };
    let reports = host.run(stop.as_fd(), &mut on_news)?;
    systemd::stopping();
    if !arguments.quiet {
        reports.iter().for_each(|guest| log(&guest.summary()));
    }
    Ok(ExitCode::SUCCESS)
}
