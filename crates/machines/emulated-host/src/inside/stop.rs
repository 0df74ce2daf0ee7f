//! The one thing that reaches the inner side while it runs: a byte on the
//! second serial port asks it to stop.

use super::InsideError;
use crate::items::TIMEOUT_BYTE;
use rustix::fs::OFlags;
use rustix::termios::{tcgetattr, tcsetattr, ControlModes, OptionalActions};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;

/// Why the outer side asks to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The user wants it.
    Cancelled,
    /// The limit on wall-clock time is reached.
    WallLimit,
}

#[derive(Default)]
struct Shared {
    flag: Arc<AtomicBool>,
    byte: AtomicU8,
}

/// A thread that waits for the byte.
#[derive(Clone)]
pub(super) struct Listener {
    shared: Arc<Shared>,
}

impl Listener {
    pub(super) fn start() -> Result<Self, InsideError> {
        let failed = |source| InsideError::Start { step: "listen for a stop".into(), source };
        let mut port = open("/dev/ttyS1").map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let signal = Arc::clone(&shared);
        let wait = move || {
            let mut byte = [0];
            // An end of file would be a hangup, which asks for nothing.
            if matches!(port.read(&mut byte), Ok(1)) {
                signal.byte.store(byte[0], Ordering::Relaxed);
                signal.flag.store(true, Ordering::Release);
            }
        };
        std::thread::Builder::new().name("stop".into()).spawn(wait).map_err(failed)?;
        Ok(Self { shared })
    }

    /// One without a thread, as on the bare machine: [`Listener::look`] is called instead.
    pub(super) fn polled() -> Self {
        Self { shared: Arc::default() }
    }

    /// Looks for the byte on the bare machine, where nobody waits for it.
    pub(super) fn poll(&self) {
        const PORT: u16 = 0x2f8;
        // The line status register, and its bit for a byte that has come (16550).
        const STATUS: u16 = PORT + 5;
        const READY: u8 = 1;
        if stasis_bare::port::read_byte(STATUS) & READY != 0 {
            self.shared.byte.store(stasis_bare::port::read_byte(PORT), Ordering::Relaxed);
            self.shared.flag.store(true, Ordering::Release);
        }
    }

    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.flag)
    }

    pub(super) fn reason(&self) -> Option<StopReason> {
        self.shared.flag.load(Ordering::Acquire).then(|| {
            match self.shared.byte.load(Ordering::Relaxed) {
                TIMEOUT_BYTE => StopReason::WallLimit,
                _ => StopReason::Cancelled,
            }
        })
    }
}

/// Opens a serial port that hands every byte on as it comes.
fn open(path: &str) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // The port does not become this process's terminal.
    const NO_TERMINAL: i32 = OFlags::NOCTTY.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(NO_TERMINAL).open(path)?;
    let mut settings = tcgetattr(&file)?;
    settings.make_raw();
    settings.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    tcsetattr(&file, OptionalActions::Now, &settings)?;
    Ok(file)
}
