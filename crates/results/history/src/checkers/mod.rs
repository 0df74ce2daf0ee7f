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

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{History, Judgement};

/// A checker that a user can name, in its usual strictness: stale reads of a set and negative balances are
/// none of its contradictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Checker {
    /// [`set`].
    Set,
    /// [`register`].
    Register,
    /// [`bank`].
    Bank,
    /// [`append`].
    Append,
    /// [`queue`].
    Queue,
}

impl Checker {
    /// Checks a history; `isolation` is that of [`append`].
    pub fn check(self, history: &History, isolation: Isolation) -> Judgement {
        match self {
            Self::Set => set(history, Staleness::Allowed),
            Self::Register => register(history),
            Self::Bank => bank(history, None, Overdraft::Allowed),
            Self::Append => append(history, isolation),
            Self::Queue => queue(history),
        }
    }
}
