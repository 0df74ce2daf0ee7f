//! Runs the command: relays its output, reaps orphans, reports its end. The end of the job, after
//! the command, is `serve` in `lib.rs`.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg, OFlag};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{kill, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use stasis_channel::{Client, Job, Stream, Transport};

use crate::faults::Faults;
use crate::AgentError;

/// The environment of every command; the job can replace its members.
const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", DEFAULT_PATH), ("HOME", "/root"), ("TERM", "dumb"), ("LANG", "C.UTF-8")];

/// Debian's path for root (login.defs, ENV_SUPATH).
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The signal by which the machine calls (`stasis_channel::Call`).
const CALL: Signal = Signal::SIGINT;

/// The right to reboot(2) and kexec_load(2) (Linux, include/uapi/linux/capability.h).
const CAP_SYS_BOOT: libc::c_ulong = 22;

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
    loop {
        if wait(&signals, &pipes, faults.as_ref(), limit.left())? {
            // Its session is its own; processes that have left the session are killed after its
            // end.
            limit.reached = true;
            let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
        }
        // Asked first: the command's output before its end is in the pipes by now, and is taken out
        // below.
        let Reaped { status, called } = reap(&signals, pid);
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

    /// Returns the time that is left to wait.
    fn left(&self) -> PollTimeout {
        match self.end {
            // Rounded up: a wait that ends too early would be taken for the end.
            Some(end) if !self.reached => {
                let milliseconds = end.saturating_duration_since(Instant::now()).as_millis() + 1;
                PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
            }
            _ => PollTimeout::NONE,
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

/// Finds the program and puts its surroundings together; on failure the
/// status a shell would give, and why.
pub(crate) fn assemble(job: &Job) -> Result<Command, (u8, String)> {
    let [name, arguments @ ..] = job.command.as_slice() else {
        return Err((127, "there is no command to run".into()));
    };
    let start = Path::new(&job.working_directory);
    if !start.is_dir() {
        let text = format!("the working directory {} does not exist in the guest", start.display());
        return Err((126, text));
    }
    let path = job.environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let program = find(name, path, start)?;
    let mut command = Command::new(program);
    command
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(ENVIRONMENT)
        .envs(&job.environment)
        .current_dir(start)
        .stdin(input(job)?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: setsid, sigprocmask and prctl are system calls only (signal-safety(7))
    // and allocate nothing.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            // A machine does not start again: a process that asks gets an error at once.
            if libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_BOOT) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The command would inherit that SIGCHLD is blocked, and a shell's `wait` never end.
            SigSet::empty().thread_set_mask()?;
            Ok(())
        });
    }
    Ok(command)
}

/// The command's standard input.
fn input(job: &Job) -> Result<Stdio, (u8, String)> {
    let Some(path) = &job.stdin else { return Ok(Stdio::null()) };
    let file = fs::File::open(path).and_then(|file| fs::remove_file(path).map(|()| file));
    let file = file.map_err(|error| (126, format!("cannot read the standard input: {error}")))?;
    Ok(file.into())
}

/// Looks a program up as execvp(3) does.
fn find(name: &str, path: &str, start: &Path) -> Result<PathBuf, (u8, String)> {
    let mut found_unusable = None;
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![start.join(name)]
    } else {
        path.split(':').map(|folder| start.join(folder).join(name)).collect()
    };
    for candidate in candidates {
        match fs::metadata(&candidate) {
            Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => {
                return Ok(candidate);
            }
            Ok(_) => found_unusable = Some(candidate),
            Err(_) => {}
        }
    }
    Err(match found_unusable {
        Some(candidate) => {
            (126, format!("{}: not an executable file in the guest", candidate.display()))
        }
        None => (127, missing(name)),
    })
}

fn missing(name: &str) -> String {
    format!("{name}: command not found in the guest")
}

pub(crate) fn not_executable(name: &str, error: &io::Error) -> (u8, String) {
    match error.kind() {
        io::ErrorKind::NotFound => {
            (127, format!("{name}: cannot start: its interpreter is missing in the guest"))
        }
        _ => (126, format!("{name}: cannot start: {error}")),
    }
}

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

/// The meaning of the agent's signals.
pub(crate) struct Reaped {
    /// The command's status, if the command has ended.
    pub(crate) status: Option<u8>,
    /// True if the machine has called.
    pub(crate) called: bool,
}

/// Takes in the signals, and every child that has ended.
pub(crate) fn reap(signals: &SignalFd, command: Pid) -> Reaped {
    let mut reaped = Reaped { status: None, called: false };
    while let Ok(Some(signal)) = signals.read_signal() {
        reaped.called |= signal.ssi_signo == CALL as u32;
    }
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            // An exit code has eight bits; so has 128 + a signal's number.
            Ok(WaitStatus::Exited(pid, code)) if pid == command => {
                reaped.status = Some(code as u8);
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == command => {
                reaped.status = Some(128 + signal as u8);
            }
            Ok(WaitStatus::StillAlive) => return reaped,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return reaped,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lookup_tells_missing_from_unusable() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(&a).unwrap();
        fs::create_dir_all(&b).unwrap();
        let path = "a:b";
        let make = |path: &Path, mode| {
            fs::File::create(path).unwrap().write_all(b"#!/bin/true\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(find("tool", path, folder.path()).unwrap_err().0, 127);
        make(&a.join("tool"), 0o644);
        assert_eq!(find("tool", path, folder.path()).unwrap_err().0, 126);
        make(&b.join("tool"), 0o755);
        assert_eq!(find("tool", path, folder.path()).unwrap(), b.join("tool"));
        assert_eq!(find("./b/tool", "", folder.path()).unwrap(), folder.path().join("./b/tool"));
        assert_eq!(find("./b/x", "", folder.path()).unwrap_err().0, 127);
    }

    #[test]
    fn a_job_without_command_or_place_is_told_apart() {
        let mut job = Job::new(vec![]);
        job.working_directory = "/".into();
        assert_eq!(assemble(&job).unwrap_err().0, 127);
        job.command = vec!["true".into()];
        assert!(assemble(&job).is_ok());
        job.working_directory = "/nowhere at all".into();
        assert_eq!(assemble(&job).unwrap_err().0, 126);
    }
}
