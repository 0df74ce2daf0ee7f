//! The children of process 1: signals of their ends, and of the machine's call; they are reaped, and
//! in the end killed.

use std::fs;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{kill, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use crate::AgentError;

/// The signal by which the machine calls (`stasis_channel::Call`).
const CALL: Signal = Signal::SIGINT;

/// A descriptor that becomes readable when a child ends, or the machine calls.
pub(crate) fn own_signals() -> Result<SignalFd, AgentError> {
    let error = |e: Errno| AgentError::new("watch", "child processes", e);
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals.add(CALL);
    // The command gets an empty mask again.
    signals.thread_block().map_err(error)?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(error)
}

/// The meaning of the agent's signals.
pub(crate) struct Reaped {
    /// The command's status, if the command has ended.
    pub(crate) status: Option<u8>,
    /// True if the machine has called.
    pub(crate) called: bool,
    /// Other children that have ended, with their status.
    pub(crate) others: Vec<(Pid, u8)>,
}

impl Reaped {
    fn add(&mut self, command: Pid, pid: Pid, status: u8) {
        if pid == command {
            self.status = Some(status);
        } else {
            self.others.push((pid, status));
        }
    }
}

/// Takes in the signals, and every child that has ended.
pub(crate) fn reap(signals: &SignalFd, command: Pid) -> Reaped {
    let mut reaped = Reaped { status: None, called: false, others: Vec::new() };
    while let Ok(Some(signal)) = signals.read_signal() {
        reaped.called |= signal.ssi_signo == CALL as u32;
    }
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            // An exit code has eight bits; so has 128 + a signal's number.
            Ok(WaitStatus::Exited(pid, code)) => reaped.add(command, pid, code as u8),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                reaped.add(command, pid, 128 + signal as u8);
            }
            Ok(WaitStatus::StillAlive) => return reaped,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return reaped,
        }
    }
}

/// Ends everything else in the guest, as process 1 may. Returns the processes that stay: name,
/// number, state of proc(5), and place in the kernel at which it waits.
pub(crate) fn kill_the_rest() -> Vec<String> {
    /// For a process that waits for a drive that never answers.
    const TIMEOUT_MS: u16 = 5_000;
    if kill(Pid::from_raw(-1), Signal::SIGKILL).is_err() {
        // There is none.
        return Vec::new();
    }
    let Ok(signals) = own_signals() else { return those_left() };
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                let mut waiting = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
                match poll(&mut waiting, PollTimeout::from(TIMEOUT_MS)) {
                    Ok(n) if n > 0 => while let Ok(Some(_)) = signals.read_signal() {},
                    _ => return those_left(),
                }
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return Vec::new(),
        }
    }
}

/// The children of this process, as [`kill_the_rest`] describes them.
fn those_left() -> Vec<String> {
    let own = format!(" {} ", std::process::id());
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let described = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // "PID (NAME) STATE PARENT ...", where the name may hold anything.
        let (head, rest) = stat.rsplit_once(") ")?;
        let (state, rest) = rest.split_at_checked(1)?;
        let name = head.split_once('(')?.1;
        let place = fs::read_to_string(entry.path().join("stack")).unwrap_or_default();
        let places: Vec<_> =
            place.lines().filter_map(|line| line.split_whitespace().nth(1)).take(6).collect();
        let waits = format!("{name} (process {pid}, state {state}, in {})", places.join(" < "));
        rest.starts_with(&own).then_some(waits)
    });
    described.collect()
}
