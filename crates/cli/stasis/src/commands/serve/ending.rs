//! The end of a server: in order, but in bounded time.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use stasis_block::inside::Inside;
use stasis_serve::{DriveReport, ServeError, Server};

/// Longest time until drives are durable: less than the 90 s after which systemd kills a service
/// (systemd-system.conf(5), `DefaultTimeoutStopSec`).
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Signals within this time are one wish: a terminal's goes to every process of a group, and one of
/// these may pass it on.
const TOGETHER: Duration = Duration::from_secs(5);
/// Longest time until another signal is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Reports of drives that have ended, and the outcome.
pub struct Ended {
    /// The report of each.
    pub report: Vec<DriveReport>,
    /// Statistics from inside their models, if those were asked for.
    pub inside: BTreeMap<String, Inside>,
    /// An error if not all are durable.
    pub stopped: Result<(), ServeError>,
}

/// Ends the server. `inside`: the statistics from inside models are collected.
///
/// # Errors
/// The end takes too long, or another signal came meanwhile: some drives may not be durable.
pub fn end(server: &Arc<Server>, inside: bool, signals: &mut UnixStream) -> Result<Ended> {
    let (sender, ended) = channel();
    let names = Arc::new(Mutex::new(Vec::new()));
    let (server, known) = (Arc::clone(server), Arc::clone(&names));
    let end = move || {
        *known.lock().unwrap_or_else(PoisonError::into_inner) = server.names();
        let report = server.report();
        // The statistics of a large model take time: they are collected only where they are written
        // down.
        let inside = if inside { server.inside() } else { BTreeMap::new() };
        let stopped = server.stop();
        let _ = sender.send(Ended { report, inside, stopped });
    };
    std::thread::Builder::new().name("end".into()).spawn(end).context("cannot end the drives")?;
    signals.set_nonblocking(true).context("cannot wait for signals")?;
    let begun = Instant::now();
    let why = loop {
        match ended.recv_timeout(LOOK) {
            Ok(ended) => return Ok(ended),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(anyhow!("a bug ended the thread that ends the drives"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let again = signals.read(&mut [0; 64]).is_ok_and(|count| count > 0);
        if again && begun.elapsed() > TOGETHER {
            break "another signal came".to_owned();
        }
        if begun.elapsed() > MAX_WAIT {
            break format!("{} s have passed", MAX_WAIT.as_secs());
        }
    };
    let names = names.lock().unwrap_or_else(PoisonError::into_inner).join(", ");
    bail!("{why} before the drives were durable ({names}): what was not flushed may be lost")
}
