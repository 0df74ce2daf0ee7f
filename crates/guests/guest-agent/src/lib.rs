//! The guest's `/init`, process 1 of the virtual machine: it mounts the root file system,
//! runs one command and hands output and results to the machine. At the end (`serve`) it kills
//! the remaining processes, sends the results, unmounts the drives, calls sync(2) and reports
//! `finished`. [`bfq_tracer`] traces a kernel's BFQ, for the agent and in anybody's guest.
//!
//! Promise: the agent does nothing between the command's start and its end but relay output,
//! reap orphans, and in a coordinated guest tend its BFQ; and, where the machine calls it, run what
//! the machine gives it beside the command.
//!
//! The agent runs as the only thread, but for one that tends a coordinated guest's BFQ. Its work
//! before the command starts is wall-clock time that the user waits for, so there is little of it.

mod bfq;
pub mod bfq_tracer;
mod checked;
mod children;
mod client;
mod command;
mod device;
mod error;
mod faults;
mod health;
mod in_place;
mod job;
mod kernel;
mod mounts;
mod network;
mod nodes;
mod orders;
mod port;
mod programs;
mod results;
mod root;
mod start;
mod terminal;
mod udev;
mod user;
mod volumes;
mod wait;

use std::fs::File;
use std::io::Write;

use nix::sys::reboot::{reboot, RebootMode};
use stasis_channel::{Client, Job, Transport, CLIENT_PROGRAM};

pub use client::run_client;
pub use error::AgentError;
pub use faults::ask_for_fault;

use job::{begin, send_results, surroundings, Udev};
use kernel::modules;

/// Runs as `/init` in a Stasis machine: one job, then the machine ends. With
/// `STASIS_PORT` on the kernel's command line it runs in a stock machine
/// instead, and takes job after job over a virtio port.
///
/// To be called only as process 1, before anything else happens.
pub fn main() -> ! {
    // The kernel passes unknown parameters of its command line to `/init` as its environment.
    if std::env::var_os("STASIS_PORT").is_some() {
        end(port::serve)
    }
    run(device::Device::find)
}

/// Runs as `/init` over any transport, which `connect` opens once `/sys` and
/// `/dev` are there.
pub fn run<T: Transport>(connect: impl FnOnce() -> Result<T, AgentError>) -> ! {
    end(|| serve(connect))
}

/// Does `work` and powers the machine off.
fn end(work: impl FnOnce() -> Result<(), AgentError>) -> ! {
    // A process 1 that unwinds or exits makes the kernel panic.
    std::panic::set_hook(Box::new(|info| {
        complain(&format!("the agent failed: {info}"));
        power_off()
    }));
    if let Err(error) = work() {
        complain(&error.to_string());
    }
    power_off()
}

fn serve<T: Transport>(connect: impl FnOnce() -> Result<T, AgentError>) -> Result<(), AgentError> {
    root::mount_kernel_files()?;
    kernel::take_calls()?;
    // Up to the greeting a boot depends on nothing but the machine: a machine that comes back goes on
    // from its first boot there. Drivers of drives and networks come after it.
    let announcements = wait::Announcements::listen()
        .and_then(|listener| kernel::load_list(modules(), "order").map(|()| listener));
    let mut client = Client::new(connect()?);
    let mut job = client.hello()?;
    let prepared = announcements.and_then(|announcements| {
        let tools = prepare(&mut client, &job, &announcements)?;
        // From here on the guest depends on what runs in it, and on the seed.
        job = client.command()?;
        kernel::reseed_random(job.seed)?;
        begin(&mut client, &job, tools.as_ref())
    });
    match prepared {
        Ok(()) => command::run(&mut client, &job)?,
        Err(error) => client.not_started(126, &error.to_string())?,
    }
    // After the last job, `sync` is all that can be done about what does not end.
    let _ = children::kill_the_rest();
    if job.send_results {
        send_results(&mut client)?;
    }
    root::unmount_drives(job.root.as_ref());
    nix::unistd::sync();
    client.finished()?;
    Ok(())
}

/// Sets the guest up, beyond what all guests have. Returns the folder of programs for volumes, if there is one.
fn prepare<T: Transport>(
    client: &mut Client<T>,
    job: &Job,
    announcements: &wait::Announcements,
) -> Result<Option<File>, AgentError> {
    kernel::set_clock(job.realtime_ns)?;
    kernel::seed_random(job.seed)?;
    kernel::count_processors(job.vcpus)?;
    device::uncover()?;
    kernel::load_drives(modules(), &device::vendors())?;
    if !job.interfaces.is_empty() {
        kernel::load_list(modules(), "order-network")?;
    }
    let asked = kernel::Asked::find()?;
    let folder = job.container.as_ref().map(|container| container.folder.as_str());
    let tools = root::enter(announcements, job.root.as_ref(), folder)?;
    asked.load()?;
    network::loopback_up()?;
    if job.container.is_some() {
        network::name_container(&job.hostname)?;
    }
    network::set_up(&job.interfaces, &job.hosts)?;
    if !job.interfaces.is_empty() {
        programs::put(CLIENT_PROGRAM)?;
    }
    surroundings(client, job, announcements, Udev::Starts)?;
    // After udevd, which takes their groups away: it looks no names up.
    nodes::make()?;
    Ok(tools)
}

/// Writes a message to the kernel's console, for want of a channel. Priority 2 (critical,
/// Documentation/admin-guide/serial-console and printk) is shown even with `quiet`.
fn complain(text: &str) {
    if let Ok(mut log) = std::fs::OpenOptions::new().write(true).open("/dev/kmsg") {
        for line in text.lines() {
            // A record is one write; there is nowhere left to report an error to.
            let _ = log.write_all(format!("<2>stasis: {line}\n").as_bytes());
        }
    }
}

fn power_off() -> ! {
    nix::unistd::sync();
    // Comes back only with an error, as when this is not process 1.
    let _ = reboot(RebootMode::RB_POWER_OFF);
    std::process::exit(1)
}
