//! `stasis coordinate guest`.

use std::os::fd::AsFd;
use std::process::ExitCode;

use anyhow::{bail, Result};
use stasis_block::clock::{MILLISECOND, SECOND};
use stasis_block::units::format_duration;
use stasis_guest_hints::guest::{run, GuestCounts};
use stasis_guest_hints::guest_end::HintTiming;
use stasis_program::coordinate::GuestArguments;
use stasis_results::units::duration as shown;
use stasis_serve::systemd;

use crate::log::log;

/// `stasis coordinate guest`.
pub fn main(arguments: &GuestArguments) -> Result<ExitCode> {
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
