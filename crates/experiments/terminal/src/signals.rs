//! Signals by which the user stops the program.

use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::progress::stops_by_itself;

/// A flag that SIGINT and SIGTERM set.
///
/// # Errors
/// If the signals cannot be handled.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    stops_by_itself();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot handle signals")?;
    }
    Ok(stop)
}

/// Something to read from once the program is asked to stop.
///
/// # Errors
/// If the signals cannot be handled.
pub fn signals() -> Result<UnixStream> {
    stops_by_itself();
    let (read, write) = UnixStream::pair().context("cannot make a pair of sockets")?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let write = write.try_clone().context("cannot wait for signals")?;
        signal_hook::low_level::pipe::register(signal, write).context("cannot wait for signals")?;
    }
    Ok(read)
}
