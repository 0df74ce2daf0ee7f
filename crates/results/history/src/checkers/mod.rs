//! Checkers: functions from a history to the contradictions that it holds.
//!
//! Operations that are not of a checker's kinds are left out, so that one history may be of several. One that failed
//! has not happened; one without a known outcome has, or has not, or will.

mod append;
mod bank;
mod progress;
mod queue;
mod register;
mod set;

pub use append::{append, Isolation};
pub use bank::{bank, Overdraft};
pub use progress::progress;
pub use queue::queue;
pub use register::register;
pub use set::{set, Staleness};
