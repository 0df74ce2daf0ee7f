//! Signals by which the user stops the program.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::progress::stops_by_itself;

/// True if output goes to a terminal, which may be closed.
static HAS_TERMINAL: AtomicBool = AtomicBool::new(false);

fn note_terminal() {
    // Once it is closed, this is no longer known.
    let has = io::stdout().is_terminal() || io::stderr().is_terminal();
    HAS_TERMINAL.store(has, Ordering::Relaxed);
}

/// Returns whether output failed because its terminal was closed (tty_ioctl(4)).
pub(crate) fn is_hangup(error: &io::Error) -> bool {
    HAS_TERMINAL.load(Ordering::Relaxed) && error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// A flag that SIGINT, SIGTERM and SIGHUP set; the last one not where it is ignored, as by nohup(1).
///
/// # Errors
/// If the signals cannot be handled.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    stops_by_itself();
    for signal in stopping() {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot handle signals")?;
    }
    note_terminal();
    Ok(stop)
}

/// Something to read from once the program is asked to stop.
///
/// # Errors
/// If the signals cannot be handled.
pub fn signals() -> Result<UnixStream> {
    stops_by_itself();
    let (read, write) = UnixStream::pair().context("cannot make a pair of sockets")?;
    for signal in stopping() {
        let write = write.try_clone().context("cannot wait for signals")?;
        signal_hook::low_level::pipe::register(signal, write).context("cannot wait for signals")?;
    }
    note_terminal();
    Ok(read)
}

/// The signals that stop this program.
fn stopping() -> impl Iterator<Item = i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignores = ignores_hangups(&status);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| *signal != SIGHUP || !ignores)
}

/// Returns whether SIGHUP is ignored, by `/proc/self/status` (proc(5): a mask of the ignored
/// signals).
fn ignores_hangups(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_heard() {
        assert!(ignores_hangups("SigBlk:\t0\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangups("SigIgn:\t0000000000001002\n"));
        assert!(!ignores_hangups(""));
    }
}
