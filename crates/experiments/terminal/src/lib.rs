//! Output to the user's terminal, and ways to stop the program: one line of progress, the output of
//! a run, SIGINT, SIGTERM and SIGHUP.
//!
//! Promises:
//! - There is one line of progress, even with several users of it, and the line is removed at the
//!   end.
//! - A reader that closes the output early, such as `head`, is no error.
//! - After [`progress::quiet`] there is no progress.
//! - A page of a run that goes on is served to this machine alone, and no client of it holds up the
//!   run.
//! - A terminal that was given to a guest is restored at the program's end, of any kind but
//!   SIGKILL.

pub mod answer;
mod branched;
mod interactive;
pub mod live;
pub mod progress;
mod run;
mod signals;

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use stasis_guest_image::{Guest, Recipe};

pub use branched::Branched;
pub use interactive::Interactive;
use progress::Steps;
pub use run::Terminal;
use signals::is_hangup;
pub use signals::{signals, stop_on_signals};

/// The exit status after SIGINT: 128 and the signal's number, as shells have it.
pub const STOPPED: u8 = 130;
/// The exit status if the program itself failed.
pub const FAILURE: u8 = 125;

/// Prints to the standard output. A reader that closes the output early is no error.
///
/// # Errors
/// If the output cannot be written for another reason.
pub fn print(text: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    heard(written).context("cannot write to the standard output")
}

/// Prints a line to the standard error, where that is still there.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::tell(&format!("{}\n", format_args!($($text)*))) };
}

/// Prints to the standard error. There is nobody to be told where that fails: the terminal may be
/// closed, or the reader of a pipe gone.
pub fn tell(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Makes sure that a guest is there, with progress; `stop` ends its building.
///
/// # Errors
/// If the guest is not in the cache and cannot be made.
pub fn ensure_guest(recipe: &Recipe, stop: &AtomicBool) -> Result<Guest> {
    let mut steps = Steps::new();
    stasis_runner::guest::ensure(recipe, stop, &mut |step, fraction| steps.step(step, fraction))
}

/// A reader may close the output before its end, as may a user the terminal.
fn heard(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe || is_hangup(&error) => Ok(()),
        other => other,
    }
}
