//! An open image, and what its parts share: [`commands`] carry out what a guest asks for.

mod allocate;
mod commands;
mod flush;
mod grow;
mod log;
mod read;
mod writes;

use std::io;
use std::sync::Arc;
use std::task::Waker;

use crate::host::{HostIo, Shared};
use crate::kill_safety::KillSafety;
use crate::lag::Lag;
use crate::turns::Turns;
use crate::Settings;

/// End of a sequence of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Durable.
    Durable,
    /// Before everything that comes later.
    Ordered,
}

/// An open image.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) turns: Turns,
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Settings,
    /// Freed ranges that may still be pointed to below: clusters are not given out again while that
    /// is possible. (offset, length) in the file.
    pub(crate) freed: std::sync::Mutex<Vec<(u64, u64)>>,
    pub(crate) lag: std::sync::Mutex<Lag>,
    /// Set while the drive below may not have the tables as they are, durably.
    pub(crate) stale: std::sync::Mutex<bool>,
    /// Tasks that wait for a flush that bounds the lag.
    behind: std::sync::Mutex<Vec<Waker>>,
    /// Part of the tables that survives when the program is killed.
    pub(crate) kill_safety: KillSafety,
    /// True if the image may be changed.
    writable: bool,
    /// True if the format has clusters of zeroes.
    zeroes: bool,
    /// True if the drive below orders without waiting.
    barriers: bool,
}

/// Zeroes that are written at once (bytes).
const PIECE: usize = 1 << 20;

impl Core {
    pub(crate) fn new(
        shared: Arc<Shared>,
        settings: Settings,
        kill_safety: KillSafety,
        writable: bool,
        zeroes: bool,
        barriers: bool,
    ) -> Self {
        Self {
            turns: Turns::default(),
            shared,
            settings,
            freed: std::sync::Mutex::default(),
            lag: std::sync::Mutex::default(),
            stale: std::sync::Mutex::new(false),
            behind: std::sync::Mutex::default(),
            kill_safety,
            writable,
            zeroes,
            barriers,
        }
    }

    /// Returns whether a discarded range reads as zeroes.
    pub(crate) fn discard_zeroes(&self) -> bool {
        self.zeroes
    }

    /// Returns whether this part of the disk may be changed.
    fn check_change(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.checked_add(length);
        match () {
            () if !self.writable => Err(io::ErrorKind::PermissionDenied.into()),
            () if end.is_none_or(|end| end > self.shared.lock().disk.size) => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            () => Ok(()),
        }
    }
}

/// Waits for all, and returns the first error.
pub(crate) async fn finish(ios: Vec<HostIo>) -> io::Result<()> {
    let mut first = Ok(());
    for io in ios {
        let outcome = io.await.map(drop);
        if first.is_ok() {
            first = outcome;
        }
    }
    first
}
