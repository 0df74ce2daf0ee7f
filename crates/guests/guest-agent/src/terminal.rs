//! Runs a command on a terminal: a pseudo terminal in the guest, whose other end is the terminal
//! of the person who watches the run.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::poll::{poll, PollFd, PollFlags};
use nix::pty::{openpty, Winsize};
use nix::sys::signal::{kill, Signal};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use stasis_channel::{Client, Job, Stream, Transport, WindowSize};

use crate::children::{own_signals, reap, Reaped};
use crate::faults::Faults;
use crate::start::{assemble, not_executable};
use crate::AgentError;

/// Interval at which the machine is asked for input, where its answer has no interval.
const EVERY: Duration = Duration::from_millis(5);

/// The guest's end of a pseudo terminal, which the agent holds.
struct Pty {
    master: OwnedFd,
    window: WindowSize,
    /// Input that has not been taken yet.
    pending: Vec<u8>,
    /// True if anyone has the other end open.
    open: bool,
    hung_up: bool,
    /// Times at which the machine was asked for input, and at which it is to be asked again.
    asked: Instant,
    every: Duration,
}

/// Runs the job's command on a terminal of this size to its end; in a branch of a run, beside its
/// `first` command, whose faults go on.
pub(crate) fn run<T: Transport>(
    client: &mut Client<T>,
    job: &Job,
    window: WindowSize,
    first: Option<Faults>,
) -> Result<(), AgentError> {
    let mut command = match assemble(job) {
        Ok(command) => command,
        Err((status, message)) => return Ok(client.not_started(status, &message)?),
    };
    let mut pty = Pty::attach(&mut command, window)?;
    let signals = own_signals()?;
    let is_branch = first.is_some();
    let mut faults = first.map_or_else(|| Faults::of(job), Ok)?;
    if !is_branch {
        client.started()?;
    }
    let spawned = command.spawn();
    // The command's end of the terminal is now the command's alone.
    drop(command);
    let child = match spawned {
        Ok(child) => Pid::from_raw(child.id() as i32),
        Err(error) => {
            let (status, message) = not_executable(&job.command[0], &error);
            return Ok(client.not_started(status, &message)?);
        }
    };
    loop {
        pty.wait(&signals, &faults)?;
        // Asked first, so that what was written before the end is taken below.
        let Reaped { status, called, .. } = reap(&signals, child);
        let written = pty.relay(client)? > 0;
        faults.attend(client, written, called)?;
        if let Some(status) = status {
            return Ok(client.exited(status).map(drop)?);
        }
        if pty.asked.elapsed() >= pty.every {
            pty.take(client, child)?;
        }
    }
}

impl Pty {
    /// Makes a terminal and has `command` begin on it, as the leader of its session.
    fn attach(command: &mut Command, window: WindowSize) -> Result<Self, AgentError> {
        let error = |e: Errno| AgentError::new("make", "a terminal", e);
        let pty = openpty(Some(&size(window)), None).map_err(error)?;
        let copy = || pty.slave.try_clone().map(Stdio::from);
        let io = |e: std::io::Error| AgentError::new("make", "a terminal", e);
        command.stdin(copy().map_err(io)?).stdout(copy().map_err(io)?).stderr(pty.slave);
        // SAFETY: a system call only, on the standard input, which is the terminal by now; the
        // session is new (`assemble`).
        unsafe {
            command.pre_exec(|| {
                Errno::result(libc::ioctl(0, libc::TIOCSCTTY, 0)).map(drop).map_err(Into::into)
            });
        }
        for argument in [
            FcntlArg::F_SETFL(OFlag::O_NONBLOCK),
            FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
        ] {
            fcntl(&pty.master, argument).map_err(error)?;
        }
        Ok(Self {
            master: pty.master,
            window,
            pending: Vec::new(),
            open: true,
            hung_up: false,
            asked: Instant::now(),
            every: EVERY,
        })
    }

    /// Sleeps until the command has written or ended, or the machine is to be asked.
    fn wait(&self, signals: &SignalFd, faults: &Faults) -> Result<(), AgentError> {
        let mut waiting = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let master = self.open.then_some(self.master.as_fd());
        let more = master.into_iter().chain(faults.descriptors());
        waiting.extend(more.map(|readable| PollFd::new(readable, PollFlags::POLLIN)));
        let timeout = self.every.saturating_sub(self.asked.elapsed()).as_micros().div_ceil(1000);
        match poll(&mut waiting, timeout.max(1) as u16) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(AgentError::new("wait for", "the terminal", e)),
        }
    }

    /// Sends what the command has written; returns how many bytes.
    fn relay<T: Transport>(&mut self, client: &mut Client<T>) -> Result<usize, AgentError> {
        /// So that a command that never stops writing is interrupted all the same.
        const MAX_AT_ONCE: usize = 65_536;
        let mut sent = 0;
        while self.open && sent < MAX_AT_ONCE {
            let length = client.output(Stream::Output, |space| {
                match nix::unistd::read(&self.master, space) {
                    Ok(length) => Ok(length),
                    Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
                    // Nobody has the terminal open any more.
                    Err(Errno::EIO) => {
                        self.open = false;
                        Ok(0)
                    }
                    Err(e) => Err(e.into()),
                }
            })?;
            if length == 0 {
                break;
            }
            sent += length;
        }
        Ok(sent)
    }

    /// Takes what was typed, and the window's size.
    fn take<T: Transport>(&mut self, client: &mut Client<T>, child: Pid) -> Result<(), AgentError> {
        let typed = client.typed()?;
        self.asked = Instant::now();
        if typed.pause > 0 {
            self.every = Duration::from_millis(typed.pause.into());
        }
        if typed.window != self.window {
            self.window = typed.window;
            // SAFETY: the ioctl reads a `Winsize`. The kernel notifies the foreground processes.
            let set = unsafe {
                libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size(typed.window))
            };
            Errno::result(set)
                .map_err(|e| AgentError::new("set the size of", "the terminal", e))?;
        }
        self.pending.extend(typed.bytes);
        while !self.pending.is_empty() {
            match nix::unistd::write(&self.master, &self.pending) {
                Ok(length) => drop(self.pending.drain(..length)),
                Err(Errno::EINTR) => {}
                // Full, or closed: later, or never.
                Err(_) => break,
            }
        }
        if !self.pending.is_empty() {
            self.every = EVERY;
        }
        if typed.hung_up && !self.hung_up {
            self.hung_up = true;
            let _ = kill(Pid::from_raw(-child.as_raw()), Signal::SIGHUP);
        }
        Ok(())
    }
}

fn size(window: WindowSize) -> Winsize {
    Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 }
}
