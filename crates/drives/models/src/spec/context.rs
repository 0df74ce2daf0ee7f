//! The surroundings for which a model is built.

use stasis_block::clock::Nanos;

/// The surroundings for which a model is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildContext {
    /// The seed of the model's random numbers.
    pub seed: u64,
    /// The drive's size in bytes.
    pub capacity: u64,
    /// Time that the guest's own software adds to each command as an application sees it (ns). It
    /// is subtracted from profiles observed by an application.
    pub path: Nanos,
}
