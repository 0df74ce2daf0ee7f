//! A terminal that belongs to a guest: each key goes to the guest, and the guest's output comes
//! back unchanged.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::{tcgetattr, tcgetwinsize, tcsetattr, OptionalActions, Termios};
use signal_hook::consts::SIGHUP;
use stasis_channel::{Keyboard, Typed, WindowSize, MAX_TYPED};
use stasis_run_events::Stage;
use stasis_runner::{Attended, Event, Observer, Pace};

use crate::Terminal;

/// Key that ends the machine when typed three times: the way out of a guest that hangs.
const ESCAPE: u8 = 0x1d;
const ESCAPES: usize = 3;

/// The state of this program's terminal.
#[derive(Debug, Default)]
struct Tty {
    /// The terminal's former state, while the terminal belongs to the guest.
    before: Mutex<Option<Termios>>,
}

impl Tty {
    fn before(&self) -> MutexGuard<'_, Option<Termios>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the terminal to the guest.
    fn give(&self) -> io::Result<()> {
        let mut before = self.before();
        if before.is_some() {
            return Ok(());
        }
        let settings = tcgetattr(io::stdin())?;
        let mut raw = settings.clone();
        raw.make_raw();
        *before = Some(settings);
        Ok(tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?)
    }

    /// Takes it back.
    fn take_back(&self) {
        if let Some(settings) = self.before().take() {
            // Nothing can be done where it is gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &settings);
        }
    }
}

/// Shows a run whose command has this program's terminal.
#[derive(Debug)]
pub struct Interactive {
    inner: Terminal,
    tty: Arc<Tty>,
    attended: Attended,
    /// The stage at which the terminal becomes the guest's, and whether it has.
    begins: Stage,
    has_begun: bool,
}

impl Interactive {
    /// The terminal of a run that begins now; `stop` is set when the user ends the machine.
    ///
    /// # Errors
    /// If standard input or output is no terminal, or signals cannot be handled.
    pub fn new(console: bool, stop: &Arc<AtomicBool>) -> anyhow::Result<Self> {
        anyhow::ensure!(
            io::stdin().is_terminal() && io::stdout().is_terminal(),
            "there is no terminal: standard input and output must be one; `stasis run` runs a \
             command without"
        );
        // The end of the program must not leave the terminal in the guest's mode.
        signal_hook::flag::register(SIGHUP, Arc::clone(stop)).context("cannot handle signals")?;
        let tty = Arc::new(Tty::default());
        let window = window().unwrap_or_default();
        let keys = Keys {
            stop: Arc::clone(stop),
            window,
            escapes: 0,
            hung_up: false,
            pace: Pace::from(Instant::now()),
        };
        let kind = std::env::var("TERM").unwrap_or_else(|_| "dumb".into());
        let attended = Attended { keyboard: Arc::new(Mutex::new(keys)), window, kind };
        let (begins, has_begun) = (Stage::Running, false);
        Ok(Self { inner: Terminal::new(console), tty, attended, begins, has_begun })
    }

    /// The terminal is the guest's from a branch of the run on.
    pub fn of_branch(mut self) -> Self {
        self.begins = Stage::Branching;
        self
    }

    /// The terminal for a run.
    pub fn attended(&self) -> Attended {
        self.attended.clone()
    }
}

impl Drop for Interactive {
    fn drop(&mut self) {
        self.tty.take_back();
    }
}

impl Observer for Interactive {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Stage(stage) if stage == self.begins => {
                self.inner.event(event)?;
                self.has_begun = true;
                self.tty.give()
            }
            Event::Stage(Stage::Collecting) | Event::Ended => {
                self.tty.take_back();
                self.inner.event(event)
            }
            // The line of progress would lie over the guest's.
            Event::VirtualTime(_) if self.has_begun => Ok(()),
            event => self.inner.event(event),
        }
    }
}

/// The keys, and the wall clock by which they are waited for.
#[derive(Debug)]
struct Keys {
    stop: Arc<AtomicBool>,
    window: WindowSize,
    /// Number of consecutive [`ESCAPE`]s, up to the last key.
    escapes: usize,
    hung_up: bool,
    pace: Pace,
}

impl Keys {
    /// Looks for the keys that end the machine.
    fn find_escape(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.escapes = if *byte == ESCAPE { self.escapes + 1 } else { 0 };
            if self.escapes == ESCAPES {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Keyboard for Keys {
    fn read(&mut self, limit: u64) -> io::Result<Typed> {
        let wait = if limit == 0 { Duration::ZERO } else { self.pace.wait(limit, Instant::now()) };
        let mut bytes = Vec::new();
        if self.hung_up {
            std::thread::sleep(wait);
        } else {
            let stdin = io::stdin();
            let wait = Timespec::try_from(wait).ok();
            let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut waiting, wait.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    let mut space = [0; MAX_TYPED];
                    match rustix::io::read(&stdin, &mut space) {
                        Ok(0) | Err(Errno::IO) => self.hung_up = true,
                        Ok(length) => bytes.extend_from_slice(&space[..length]),
                        Err(Errno::AGAIN | Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.find_escape(&bytes);
        // A change of size interrupts nothing here: it is looked for each time.
        self.window = window().unwrap_or(self.window);
        Ok(Typed { window: self.window, hung_up: self.hung_up, pause: 0, bytes })
    }
}

/// The terminal's size now.
fn window() -> Option<WindowSize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let known = size.ws_row > 0 && size.ws_col > 0;
    known.then_some(WindowSize { rows: size.ws_row, columns: size.ws_col })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys {
            stop: Arc::default(),
            window: WindowSize::default(),
            escapes: 0,
            hung_up: false,
            pace: Pace::from(Instant::now()),
        }
    }

    #[test]
    fn three_escapes_in_a_row_end_the_machine() {
        let mut keys = keys();
        keys.find_escape(b"\x1d\x1dx\x1d");
        assert!(!keys.stop.load(Ordering::Relaxed));
        keys.find_escape(b"\x1d\x1d");
        assert!(keys.stop.load(Ordering::Relaxed));
    }
}
