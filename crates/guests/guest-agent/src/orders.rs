//! Faults inside the guest that the machine orders: it says what, and when to ask again.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{clock_gettime, clock_settime};
use nix::unistd::{fork, ForkResult, Pid};
use stasis_channel::{Client, GuestFault, Transport};

use crate::AgentError;

const MILLION: i64 = 1_000_000;

/// The ordered faults.
pub(crate) struct Orders {
    /// Time to ask.
    timer: TimerFd,
    /// Processes that hold memory, each for a fault.
    holders: Vec<(u16, Pid)>,
    /// Factor by which clocks run faster (parts per million), and the number of its fault.
    drift: Option<(u16, i32)>,
    /// True if to ask once the command has written something.
    after_output: bool,
}

impl Orders {
    /// Creates an empty state: the machine is to be asked at once.
    pub(crate) fn new() -> Result<Self, AgentError> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)
            .map_err(|e| AgentError::new("make", "a timer", e))?;
        let orders = Self { timer, holders: Vec::new(), drift: None, after_output: false };
        orders.set(1)?;
        Ok(orders)
    }

    /// Readable when the machine is to be asked.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// Has the timer expire after `after_ns`.
    fn set(&self, after_ns: u64) -> Result<(), AgentError> {
        // A clock that drifts has counted more, or less, by then.
        let ppm = self.drift.map_or(0, |(_, ppm)| i128::from(ppm));
        let after = i128::from(after_ns) * (i128::from(MILLION) + ppm) / i128::from(MILLION);
        let after = Duration::from_nanos(u64::try_from(after).unwrap_or(u64::MAX).max(1));
        let expiration = Expiration::OneShot(TimeSpec::from_duration(after));
        self.timer
            .set(expiration, TimerSetTimeFlags::empty())
            .map_err(|e| AgentError::new("set", "a timer", e))
    }

    /// Asks the machine for orders and carries them out, if it is time, or a process has `asked`
    /// for a fault or the machine called, or the command has `written` something that may cause one.
    pub(crate) fn follow<T: Transport>(
        &mut self,
        client: &mut Client<T>,
        asked: bool,
        written: bool,
    ) -> Result<(), AgentError> {
        // Nothing can be read from a timer that has not expired (timerfd_create(2)).
        let expired = nix::unistd::read(&self.timer, &mut [0; 8]).is_ok();
        if !(expired || asked || written && self.after_output) {
            return Ok(());
        }
        let orders = client.orders()?;
        self.after_output = orders.after_output;
        for number in orders.end {
            self.end(number)?;
        }
        for (number, fault) in orders.begin {
            match self.begin(number, &fault) {
                Ok(()) => client.ordered(number)?,
                Err(why) => client.log(&format!("fault {number}: {why}"))?,
            }
        }
        orders.again_ns.map_or(Ok(()), |after| self.set(after))
    }

    /// Begins a fault.
    fn begin(&mut self, number: u16, fault: &GuestFault) -> Result<(), String> {
        let failed = |action: &str, error: Errno| format!("cannot {action}: {error}");
        match fault {
            GuestFault::Kill { process } => match kill_all(Path::new("/proc"), process) {
                0 => Err(format!("there is no process `{process}` to kill")),
                _ => Ok(()),
            },
            GuestFault::MemoryShortage { bytes } => {
                let holder = hold(*bytes).map_err(|error| failed("take memory", error))?;
                self.holders.push((number, holder));
                Ok(())
            }
            GuestFault::ClockJump { by_ns } => {
                jump(*by_ns).map_err(|error| failed("set the real-time clock", error))
            }
            GuestFault::ClockDrift { ppm } => {
                drift(*ppm).map_err(|error| failed("change the clocks' speed", error))?;
                self.drift = Some((number, *ppm));
                Ok(())
            }
        }
    }

    /// Ends a fault, if it lasts yet.
    fn end(&mut self, number: u16) -> Result<(), AgentError> {
        self.holders.retain(|(begun, holder)| {
            if *begun == number {
                let _ = kill(*holder, Signal::SIGKILL);
            }
            *begun != number
        });
        if self.drift.is_some_and(|(begun, _)| begun == number) {
            self.drift = None;
            drift(0).map_err(|e| AgentError::new("set", "the clocks' speed", e))?;
        }
        Ok(())
    }
}

/// Kills each process of this name, and returns their number.
fn kill_all(processes: &Path, name: &str) -> usize {
    let entries = fs::read_dir(processes).into_iter().flatten().filter_map(Result::ok);
    let numbered =
        entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    let own = std::process::id() as i32;
    let mut found: Vec<i32> = numbered
        .filter(|(number, folder)| *number != own && is_named(folder, name))
        .map(|(number, _)| number)
        .collect();
    // In the order of their numbers, whichever the folder has.
    found.sort_unstable();
    found.iter().filter(|number| kill(Pid::from_raw(**number), Signal::SIGKILL).is_ok()).count()
}

/// Returns whether the process of this folder has the name: its program's, or its own, of which the
/// kernel keeps 15 bytes (proc(5), `comm`).
fn is_named(folder: &Path, name: &str) -> bool {
    const KEPT: usize = 15;
    // A thread of the kernel has no program.
    let Ok(program) = fs::read_link(folder.join("exe")) else { return false };
    let own = fs::read(folder.join("comm")).unwrap_or_default();
    let own = own.strip_suffix(b"\n").unwrap_or(&own);
    program.file_name() == Some(OsStr::new(name)) || own == &name.as_bytes()[..name.len().min(KEPT)]
}

/// Starts a process that takes so much memory and keeps it.
fn hold(bytes: u64) -> Result<Pid, Errno> {
    // The fault's point is that the kernel ends another process where memory is short (proc(5)).
    const NOT_THIS: &str = "-1000";
    let score = |text: &str| fs::write("/proc/self/oom_score_adj", text);
    let _ = score(NOT_THIS);
    // SAFETY: the child makes system calls only (signal-safety(7)).
    let forked = unsafe { fork() };
    match forked? {
        ForkResult::Parent { child } => {
            let _ = score("0");
            Ok(child)
        }
        ForkResult::Child => {
            // SAFETY: system calls on a new mapping of this process; the descriptors that are
            // closed are copies.
            unsafe {
                libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
                libc::prctl(libc::PR_SET_NAME, c"stasis-fault".as_ptr());
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let length = bytes as usize;
                let memory = libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0);
                if memory != libc::MAP_FAILED {
                    libc::mlock(memory, length);
                }
                loop {
                    libc::pause();
                }
            }
        }
    }
}

/// Moves the real-time clock.
fn jump(by_ns: i64) -> Result<(), Errno> {
    const SECOND: i128 = 1_000_000_000;
    let clock = nix::time::ClockId::CLOCK_REALTIME;
    let now = clock_gettime(clock)?;
    let now = i128::from(now.tv_sec()) * SECOND + i128::from(now.tv_nsec());
    let then = now + i128::from(by_ns);
    let seconds = i64::try_from(then.div_euclid(SECOND)).map_err(|_| Errno::EINVAL)?;
    clock_settime(clock, TimeSpec::new(seconds, then.rem_euclid(SECOND) as i64))
}

/// Has the clocks run faster by so many parts per million (adjtimex(2)).
fn drift(ppm: i32) -> Result<(), Errno> {
    let (tick, frequency) = speed(ppm);
    // SAFETY: all zeroes is a valid `timex`.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = libc::ADJ_TICK | libc::ADJ_FREQUENCY;
    (timex.tick, timex.freq) = (tick, frequency);
    // SAFETY: the call reads and writes a `timex`.
    Errno::result(unsafe { libc::adjtimex(&mut timex) }).map(drop)
}

/// The microseconds of a tick of 10 ms, and the rest as a frequency in units of 2^-16 ppm, of
/// which the kernel takes 500 ppm at most (adjtimex(2)).
fn speed(ppm: i32) -> (i64, i64) {
    const TICK: i64 = 10_000;
    let ppm = i64::from(ppm);
    let hundreds = if ppm.abs() <= 500 { 0 } else { ppm / 100 };
    (TICK + hundreds, (ppm - hundreds * 100) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drift_is_a_tick_and_a_frequency() {
        for ppm in -100_000..=100_000 {
            let (tick, frequency) = speed(ppm);
            assert_eq!((tick - 10_000) * 100 + (frequency >> 16), i64::from(ppm));
            assert!((9_000..=11_000).contains(&tick) && frequency.abs() <= 500 << 16);
        }
    }

    #[test]
    fn a_process_has_its_programs_name_or_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path();
        assert!(!is_named(process, "etcd"), "a thread of the kernel");
        std::os::unix::fs::symlink("/usr/bin/python3.11", process.join("exe")).unwrap();
        fs::write(process.join("comm"), "a-long-name-of-\n").unwrap();
        for (name, named) in [
            ("python3.11", true),
            ("a-long-name-of-a-server", true),
            ("a-long-name-of-", true),
            ("a-long", false),
            ("python3", false),
            ("", false),
        ] {
            assert_eq!(is_named(process, name), named, "{name}");
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_not_killed() {
        assert_eq!(kill_all(Path::new("/proc"), "no-process-has-this-name"), 0);
    }
}
