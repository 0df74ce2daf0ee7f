//! What a model is made for.

use stasis_clock::Nanos;

/// What a model needs to know of where it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildContext {
    /// Of the model's random numbers.
    pub seed: u64,
    /// The drive's size in bytes.
    pub capacity: u64,
    /// What the guest's own software adds to each command as an application
    /// sees it (ns). It is subtracted from profiles observed by an application.
    pub path: Nanos,
}
