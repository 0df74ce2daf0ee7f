//! `stasis coordinate host`.

use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::PoisonError;

use anyhow::{Context, Result};
use stasis_guest_hints::drive;
use stasis_guest_hints::host::{Guest, Host, Settings};
use stasis_program::coordinate::{GuestPlace, HostArguments};
use stasis_serve::systemd;

use crate::log::log;

/// `stasis coordinate host`.
pub fn main(arguments: &HostArguments) -> Result<ExitCode> {
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
    let guest =
        |place: &GuestPlace| Guest { socket: place.socket.clone(), cgroup: place.cgroup.clone() };
    let guests: Vec<_> = arguments.guests.iter().map(guest).collect();
    let host = Host::new(&guests, &settings)?;
    if let Some(address) = &arguments.metrics {
        let reports = host.reports();
        stasis_program::metrics::answer(address, move || {
            crate::metrics::text(&reports.lock().unwrap_or_else(PoisonError::into_inner))
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
