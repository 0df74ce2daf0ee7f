//! The kinds of scheduler that experiments can name.
//!
//! A new one is a file here with its parameters, which implement [`Parameters`],
//! and a line in [`KINDS`].

pub mod bfq;
mod cfq;
mod clook;
mod deadline;
#[cfg(test)]
mod extending;
mod kind;
#[cfg(test)]
mod newest;
mod none;

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::Serialize;
use stasis_block::clock::Nanos;

pub use self::bfq::{Bfq, BfqSpec};
pub use self::cfq::{Cfq, CfqSpec};
pub use self::clook::ClookSpec;
pub use self::deadline::DeadlineSpec;
pub use self::kind::{Registered, SchedulerKind};
pub use self::none::NoneSpec;
use crate::Scheduler;

/// Every kind.
pub const KINDS: &[Registered] = &[
    Registered::of::<BfqSpec>(),
    Registered::of::<CfqSpec>(),
    Registered::of::<DeadlineSpec>(),
    Registered::of::<ClookSpec>(),
    Registered::of::<NoneSpec>(),
    #[cfg(test)]
    Registered::of::<newest::NewestSpec>(),
];

/// The parameters of a kind of scheduler.
///
/// The struct's fields are the keys of the table `{ kind = "...", ... }`; their comments are the
/// descriptions in help, the schema and the manual. The default is the meaning of the kind's name
/// alone.
pub trait Parameters:
    Debug
    + Clone
    + PartialEq
    + Default
    + Serialize
    + DeserializeOwned
    + JsonSchema
    + Send
    + Sync
    + 'static
{
    /// The name in experiments.
    const NAME: &'static str;

    /// Description in one line.
    const ABOUT: &'static str;

    /// Checks constraints beyond those of the keys' types.
    ///
    /// # Errors
    /// [`Problem`]: the key, and the fault of its value.
    fn check(&self) -> Result<(), Problem> {
        Ok(())
    }

    /// The scheduler, with no queues.
    fn build(&self) -> Box<dyn Scheduler>;
}

/// A key, and the fault of its value.
pub type Problem = (&'static str, String);

/// Checks that a duration (ns) is not zero.
///
/// # Errors
/// [`Problem`] with the key.
pub(crate) fn lasts(key: &'static str, duration: Nanos) -> Result<(), Problem> {
    match duration {
        0 => Err((key, "`0s` is too short: write such as \"100ms\"".into())),
        _ => Ok(()),
    }
}

/// Checks that a number is from 1 to `most`.
///
/// # Errors
/// [`Problem`] with the key.
pub(crate) fn counts(key: &'static str, count: u32, most: u32) -> Result<(), Problem> {
    if (1..=most).contains(&count) {
        Ok(())
    } else {
        Err((key, format!("`{count}`: write a number from 1 to {most}")))
    }
}
