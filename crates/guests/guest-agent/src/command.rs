//! Runs the command: relays its output, reports its end. The end of the job, after the command, is
//! `serve` in `lib.rs`.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{kill, Signal};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use stasis_channel::{Client, Job, Stream, Transport};

use crate::children::{own_signals, reap, Reaped};
use crate::faults::Faults;
use crate::health::Check;
use crate::start::{assemble, not_executable};
use crate::AgentError;

/// Runs the job's command to its end and reports the end to the machine.
pub(crate) fn run<T: Transport>(client: &mut Client<T>, job: &Job) -> Result<(), AgentError> {
    beside(client, job, None)
}

/// Runs a command beside another whose faults go on, if any: in a branch of its run.
fn beside<T: Transport>(
    client: &mut Client<T>,
    job: &Job,
    first: Option<Faults>,
) -> Result<(), AgentError> {
    match job.terminal {
        Some(window) => crate::terminal::run(client, job, window, first),
        None => on_pipes(client, job, first),
    }
}

/// Asks the machine for another job, and runs that job's command to its end. Returns whether there
/// was a job.
pub(crate) fn branch<T: Transport>(
    client: &mut Client<T>,
    faults: &mut Option<Faults>,
    pipes: impl Iterator<Item = OwnedFd>,
) -> Result<bool, AgentError> {
    // Any process of root's can call.
    let Some(job) = client.branch()? else { return Ok(false) };
    crate::kernel::come_first()?;
    // Nobody asks for the first command's output any more; it must not wait for a reader.
    for pipe in pipes {
        let _ = fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty()));
        std::thread::spawn(|| io::copy(&mut fs::File::from(pipe), &mut io::sink()));
    }
    beside(client, &job, faults.take()).map(|()| true)
}

/// Runs a command whose output goes through pipes.
fn on_pipes<T: Transport>(
    client: &mut Client<T>,
    job: &Job,
    first: Option<Faults>,
) -> Result<(), AgentError> {
    let mut command = match assemble(job) {
        Ok(command) => command,
        Err((status, message)) => return Ok(client.not_started(status, &message)?),
    };
    let signals = own_signals()?;
    let is_branch = first.is_some();
    let mut faults = Some(first.map_or_else(|| Faults::of(job), Ok)?);
    if job.prompt_output || job.ordered {
        crate::kernel::come_first()?;
    }
    if !is_branch {
        client.started()?;
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let (status, message) = not_executable(&job.command[0], &error);
            return Ok(client.not_started(status, &message)?);
        }
    };
    let pid = Pid::from_raw(child.id() as i32);
    let mut pipes = [
        child.stdout.take().map(|pipe| Pipe::new(pipe.into(), Stream::Output)),
        child.stderr.take().map(|pipe| Pipe::new(pipe.into(), Stream::Error)),
    ];
    let mut limit = Limit::new(job.limit_ms);
    let mut health = if is_branch { None } else { Check::of(job) };
    loop {
        let until_check = health.as_ref().map(Check::left);
        let is_over = wait(&signals, &pipes, faults.as_ref(), limit.left(until_check))?;
        if is_over && limit.is_reached() {
            // Its session is its own; processes that have left the session are killed after its
            // end.
            limit.reached = true;
            let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
        }
        // Asked first: the command's output before its end is in the pipes by now, and is taken out
        // below.
        let Reaped { status, called, others } = reap(&signals, pid);
        let mut written = false;
        for slot in &mut pipes {
            if let Some(pipe) = slot {
                let (sent, ended) = pipe.relay(client)?;
                written |= sent > 0;
                if ended {
                    *slot = None;
                }
            }
        }
        if let Some(faults) = &mut faults {
            faults.attend(client, written, called)?;
        }
        if let Some(check) = &mut health {
            if status.is_none() && check.attend(client, &others)? {
                health = None;
            }
        }
        let wanted = match status {
            Some(status) => {
                if limit.reached {
                    client.log(&format!("the command ran longer than {} ms", job.limit_ms))?;
                }
                client.exited(if limit.reached { OUT_OF_TIME } else { status })?
            }
            None => called && !is_branch,
        };
        let ends = pipes.iter_mut().filter_map(Option::take).map(|pipe| pipe.end);
        if wanted && branch(client, &mut faults, ends)? || status.is_some() {
            return Ok(());
        }
    }
}

/// The status of a command that has been killed for its time, as of timeout(1).
const OUT_OF_TIME: u8 = 124;

/// Time for which the command may run.
struct Limit {
    end: Option<Instant>,
    reached: bool,
}

impl Limit {
    fn new(milliseconds: u64) -> Self {
        let limited = milliseconds > 0;
        let end = limited.then(|| Instant::now().checked_add(Duration::from_millis(milliseconds)));
        Self { end: end.flatten(), reached: false }
    }

    /// Returns whether the time is over, and that is not known yet.
    fn is_reached(&self) -> bool {
        !self.reached && self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Returns the time to wait: what is left, or `other` if that is less.
    fn left(&self, other: Option<Duration>) -> PollTimeout {
        let end = self.end.filter(|_| !self.reached);
        let own = end.map(|end| end.saturating_duration_since(Instant::now()));
        match own.into_iter().chain(other).min() {
            // Rounded up: a wait that ends too early would be taken for the end.
            Some(rest) => PollTimeout::try_from(rest.as_millis() + 1).unwrap_or(PollTimeout::MAX),
            None => PollTimeout::NONE,
        }
    }
}

/// Sleeps until a child has ended, the machine calls, or a pipe has something; true if none has
/// happened within `limit`.
fn wait(
    signals: &SignalFd,
    pipes: &[Option<Pipe>; 2],
    faults: Option<&Faults>,
    limit: PollTimeout,
) -> Result<bool, AgentError> {
    let mut waiting =
        std::array::from_fn::<_, 5, _>(|_| PollFd::new(signals.as_fd(), PollFlags::POLLIN));
    let mut count = 1;
    let pipes = pipes.iter().flatten().map(|pipe| pipe.end.as_fd());
    for readable in pipes.chain(faults.into_iter().flat_map(Faults::descriptors)) {
        waiting[count] = PollFd::new(readable, PollFlags::POLLIN);
        count += 1;
    }
    match poll(&mut waiting[..count], limit) {
        Ok(0) => Ok(true),
        Ok(_) | Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(AgentError::new("wait for", "the command", e)),
    }
}

/// One of the command's outputs.
struct Pipe {
    end: OwnedFd,
    stream: Stream,
}

impl Pipe {
    fn new(end: OwnedFd, stream: Stream) -> Self {
        // The read end's alone; without it `relay` would wait for more.
        let _ = fcntl(&end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        Self { end, stream }
    }

    /// Sends what is in the pipe; returns how many bytes, and whether that is its end. At most two pipes full, so
    /// that a background process that never stops writing cannot hold it.
    fn relay<T: Transport>(&self, client: &mut Client<T>) -> Result<(usize, bool), AgentError> {
        /// Default capacity of a pipe in bytes (pipe(7)).
        const CAPACITY: usize = 65_536;
        let mut sent = 0;
        while sent < 2 * CAPACITY {
            let mut ended = false;
            let length =
                client.output(self.stream, |space| match nix::unistd::read(&self.end, space) {
                    Ok(length) => {
                        ended = length == 0;
                        Ok(length)
                    }
                    Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
                    Err(e) => Err(e.into()),
                })?;
            if length == 0 {
                return Ok((sent, ended));
            }
            sent += length;
        }
        Ok((sent, false))
    }
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} from descriptor {}", self.stream, self.end.as_raw_fd())
    }
}
