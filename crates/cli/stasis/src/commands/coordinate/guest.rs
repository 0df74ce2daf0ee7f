//! `stasis coordinate guest`.

use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::{bail, Result};
use stasis_block::clock::{MILLISECOND, SECOND};
use stasis_block::units::format_duration;
use stasis_guest_hints::guest::{run, GuestCounts};
use stasis_guest_hints::guest_end::HintTiming;
use stasis_guest_hints::PORT_NAME;
use stasis_results::units::duration as shown;
use stasis_serve::systemd;

use super::{duration, log};

/// How a guest asks.
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
pub struct Arguments {
    /// Name of the virtio port, or its device
    #[arg(long, value_name = "NAME", default_value = PORT_NAME)]
    pub port: String,
    /// How long to go on asking once no weight is raised
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = duration)]
    pub linger: u64,
    /// How often to say what is so though nothing changes; silence for three of these ends help
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub heartbeat: u64,
    /// Only print when asking begins and ends; needs no port
    #[arg(long)]
    pub dry_run: bool,
    /// Do not say at the end what was done
    #[arg(long, short)]
    pub quiet: bool,
}

/// `stasis coordinate guest`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    if !(10 * MILLISECOND..=3 * SECOND).contains(&arguments.heartbeat) {
        bail!("--heartbeat is {}, but must be 10ms to 3s", format_duration(arguments.heartbeat));
    }
    if arguments.linger > 10 * SECOND {
        bail!("--linger is {}, but must be 10s at most", format_duration(arguments.linger));
    }
    let stop = stasis_terminal::signals()?;
    let timing = HintTiming {
        linger: arguments.linger,
        heartbeat: arguments.heartbeat,
        ..HintTiming::default()
    };
    let port = (!arguments.dry_run).then_some(arguments.port.as_str());
    let mut on_change = |asks: bool| {
        if arguments.dry_run {
            log(if asks { "help is needed" } else { "no help is needed" });
        }
    };
    let ready = || {
        systemd::ready();
        log("watching bfq");
    };
    let counts = run(port, timing, stop.as_fd(), &mut { ready }, &mut on_change)?;
    systemd::stopping();
    if !arguments.quiet {
        log(&summary(&counts));
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(counts: &GuestCounts) -> String {
    let mean = counts.delay.0 / counts.wakes.max(1);
    format!(
        "asked {} times; {} messages sent, {} unheard; woken {} times, {} after bfq's change on average, {} at most",
        counts.begun,
        counts.messages,
        counts.undelivered,
        counts.wakes,
        shown(mean as f64),
        shown(counts.delay.1 as f64)
    )
}
