//! Starts a function, watches it, and starts it again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use stasis_guest_image::Guest;
use stasis_qemu_vm::fd::readable;
use stasis_qemu_vm::{Outcome, Piece, Vm};

use crate::backoff::{Backoff, Decision};
use crate::disk::ExportedDisk;
use crate::{pin, scripts, Error, Instance};

/// Limit on the part of a script's output that is kept (bytes).
const SAID: usize = 4096;

/// Event of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its machine is started.
    Starting,
    /// The function is well, for the first time since its start.
    Well {
        /// Process id of its QEMU.
        machine: u32,
        /// True if KVM runs it.
        kvm: bool,
        /// Duration of its start.
        took: Duration,
    },
    /// Its own report.
    Report(String),
    /// A disk of it is there as a file of the host.
    Disk(std::path::PathBuf),
    /// The function failed and has been ended; it is started again after the pause.
    Failed {
        /// Cause of the failure.
        reason: String,
        /// Pause before it is started again.
        pause: Duration,
        /// Number of its failures.
        restarts: u64,
    },
    /// The function has ended in order.
    Stopped,
}

/// End of a life of the function.
enum End {
    /// As asked.
    Asked,
    /// By itself, or because it was not well.
    Failed(String),
}

/// Runs the function until `stop` is set.
///
/// # Errors
/// The function cannot run at all, or has never been well.
pub fn supervise(
    instance: &Instance,
    guest: &Guest,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(&Event),
) -> Result<(), Error> {
    let mut backoff = Backoff::default();
    let _forwards = instance.network.forward(&instance.definition.ports)?;
    let mut disks = Vec::new();
    loop {
        on_event(&Event::Starting);
        let mut well = None;
        let reason = match live(instance, guest, stop, &mut well, &mut disks, on_event)? {
            End::Asked => {
                on_event(&Event::Stopped);
                return Ok(());
            }
            End::Failed(reason) => reason,
        };
        let well = well.map(|since: Instant| since.elapsed());
        match backoff.failed(well) {
            Decision::Wait(pause) => {
                on_event(&Event::Failed { reason, pause, restarts: backoff.restarts });
                wait(stop, pause, || Ok(false))?;
                if stop.load(Ordering::Relaxed) {
                    on_event(&Event::Stopped);
                    return Ok(());
                }
            }
            Decision::GiveUp => {
                let attempts = u32::try_from(backoff.restarts).unwrap_or(u32::MAX);
                return Err(Error::NeverWell { name: instance.name.clone(), attempts, reason });
            }
        }
    }
}

/// Runs one life: start, watch, end. The machine is gone then.
fn live(
    instance: &Instance,
    guest: &Guest,
    stop: &AtomicBool,
    well: &mut Option<Instant>,
    disks: &mut Vec<ExportedDisk>,
    on_event: &mut dyn FnMut(&Event),
) -> Result<End, Error> {
    let begun = Instant::now();
    let mut vm = match Vm::start(&instance.config(guest.clone())) {
        Ok(vm) => vm,
        // Another attempt would not find more.
        Err(error @ (stasis_qemu_vm::Error::QemuMissing | stasis_qemu_vm::Error::Kvm(_))) => {
            return Err(error.into())
        }
        Err(error) => return Ok(End::Failed(format!("it did not boot: {error}"))),
    };
    instance.network.up()?;
    pin::pin(&mut vm, &instance.processors)?;
    let files = scripts::archive(&instance.definition.files, &instance.base)?;
    let init = scripts::init(instance, !instance.definition.files.is_empty());
    if let Some(reason) = failure("its start", run(&mut vm, &init, &files)) {
        return Ok(End::Failed(reason));
    }
    let process = pidfd(vm.process_id())?;
    let health = &instance.definition.health;
    let check = scripts::job(instance, &health.command, health.deadline);
    loop {
        if let Some(reason) = failure("its health check", run(&mut vm, &check, &[])) {
            return Ok(End::Failed(reason));
        }
        if well.is_none() {
            // A program that waits for the function may take its disks at once.
            show(instance, disks, on_event)?;
            *well = Some(Instant::now());
            let (machine, kvm) = (vm.process_id(), vm.uses_kvm());
            on_event(&Event::Well { machine, kvm, took: begun.elapsed() });
        }
        if !instance.definition.report.is_empty() {
            let report = scripts::job(instance, &instance.definition.report, health.deadline);
            match run(&mut vm, &report, &[]) {
                Ok((_, output)) => on_event(&Event::Report(output)),
                Err(error) => return Ok(End::Failed(format!("its report: {error}"))),
            }
        }
        let gone = || Ok(readable([process.as_fd()], 50).map_err(poll_failed)? == [true]);
        if wait(stop, health.every, gone)? {
            let end = vm.shell("true").err().map(|error| error.to_string());
            return Ok(End::Failed(end.unwrap_or_else(|| "its machine ended".into())));
        }
        if stop.load(Ordering::Relaxed) {
            // The disks' own flushes come before the function's end.
            disks.clear();
            return Ok(end(instance, vm));
        }
    }
}

/// Shows the disks that the function offers; they outlive its machine, and I/Os
/// wait for the next one.
fn show(
    instance: &Instance,
    disks: &mut Vec<ExportedDisk>,
    on_event: &mut dyn FnMut(&Event),
) -> Result<(), Error> {
    if !disks.is_empty() {
        return Ok(());
    }
    for port in &instance.definition.ports {
        let Some(name) = &port.disk else { continue };
        let disk = ExportedDisk::new(&instance.folder, name, &instance.network.reached(port))?;
        on_event(&Event::Disk(disk.path().to_owned()));
        disks.push(disk);
    }
    Ok(())
}

/// Ends the function in order; if it does not end so, at once.
fn end(instance: &Instance, mut vm: Vm) -> End {
    if !instance.definition.stop.is_empty() {
        let job =
            scripts::job(instance, &instance.definition.stop, instance.definition.init_deadline);
        if run(&mut vm, &job, &[]).is_err() {
            return End::Asked;
        }
    }
    // Dropped, it is ended; its drives are the server's.
    let _ = vm.stop();
    End::Asked
}

/// Runs a job; returns its outcome, and the end of its output.
fn run(
    vm: &mut Vm,
    job: &stasis_qemu_vm::Job,
    input: &[u8],
) -> Result<(Outcome, String), stasis_qemu_vm::Error> {
    let mut output = Vec::new();
    let outcome = vm.run(job, &mut &input[..], &mut |piece| {
        if let Piece::Output(_, bytes) = piece {
            output.extend_from_slice(bytes);
            let above = output.len().saturating_sub(SAID);
            output.drain(..above);
        }
    })?;
    Ok((outcome, String::from_utf8_lossy(&output).trim().to_owned()))
}

/// Returns the reason why a job that must succeed did not; `None` if it did.
fn failure(job: &str, ended: Result<(Outcome, String), stasis_qemu_vm::Error>) -> Option<String> {
    match ended {
        Ok((outcome, _)) if outcome.status == 0 => None,
        Ok((outcome, output)) => {
            let message = outcome.message.trim();
            Some(format!("{job} ended with status {}: {message} {output}", outcome.status))
        }
        Err(error) => Some(format!("{job}: {error}")),
    }
}

/// Waits for `time`, or until `stop` is set or `gone` is true; returns whether `gone` was.
fn wait(
    stop: &AtomicBool,
    time: Duration,
    mut gone: impl FnMut() -> Result<bool, Error>,
) -> Result<bool, Error> {
    let start = Instant::now();
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        if gone()? {
            return Ok(true);
        }
        if before.elapsed() < Duration::from_millis(5) {
            std::thread::sleep(Duration::from_millis(20).min(time));
        }
    }
    Ok(false)
}

fn poll_failed(source: io::Error) -> Error {
    Error::System { action: "wait for QEMU's end", source }
}

/// A descriptor that can be read once the process has ended (pidfd_open(2)).
fn pidfd(process: u32) -> Result<OwnedFd, Error> {
    Pid::from_raw(process as i32)
        .map_or(Err(Errno::SRCH), |process| pidfd_open(process, PidfdFlags::empty()))
        .map_err(|error| poll_failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_for_its_reasons() {
        let stop = AtomicBool::new(false);
        let begun = Instant::now();
        assert!(!wait(&stop, Duration::from_millis(30), || Ok(false)).unwrap());
        assert!(begun.elapsed() >= Duration::from_millis(30));
        assert!(wait(&stop, Duration::from_secs(1000), || Ok(true)).unwrap());
        stop.store(true, Ordering::Relaxed);
        assert!(!wait(&stop, Duration::from_secs(1000), || Ok(false)).unwrap());
    }

    #[test]
    fn a_process_that_ends_is_seen() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let fd = pidfd(child.id()).unwrap();
        assert_eq!(readable([fd.as_fd()], 0).unwrap(), [false]);
        child.kill().unwrap();
        assert_eq!(readable([fd.as_fd()], 10_000).unwrap(), [true]);
        child.wait().unwrap();
        assert!(pidfd(u32::MAX).is_err());
    }

    #[test]
    fn failures_say_what_and_why() {
        let ended = |status, message: &str, output: &str| {
            let message = message.into();
            Ok((Outcome { status, started: true, late: false, message }, output.to_owned()))
        };
        assert_eq!(failure("x", ended(0, "", "all well")), None);
        let text = failure("its start", ended(124, "longer than 5 ms", "half")).unwrap();
        assert_eq!(text, "its start ended with status 124: longer than 5 ms half");
        assert_eq!(failure("x", Err(stasis_qemu_vm::Error::Stopped)).unwrap(), "x: stopped");
    }
}
