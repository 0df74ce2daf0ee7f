//! The kinds of model that descriptions can name.
//!
//! A new one is a file here with its keys, which implement [`Parameters`], and a
//! line in [`KINDS`].

pub mod card;
pub mod disk;
#[cfg(test)]
mod extending;
mod flash;
mod kind;
mod null;
mod operation_times;
mod profile;
pub mod rated;
mod spans;
#[cfg(test)]
mod tape;
pub mod volume;

use std::fmt::Debug;
use std::path::Path;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::Serialize;
use stasis_block::Model;

pub use self::kind::{ModelKind, Registered};
pub use self::null::NullSpec;
pub use self::profile::ProfileSpec;
pub use self::spans::{FixedSpec, SpansSpec, UniformSpec};
use crate::spec::{BuildContext, BuildError, Problem, ResolveError};

/// Every kind.
pub const KINDS: &[Registered] = &[
    Registered::of::<NullSpec>(),
    Registered::of::<FixedSpec>(),
    Registered::of::<UniformSpec>(),
    Registered::of::<ProfileSpec>(),
    Registered::of::<rated::RatedSpec>(),
    Registered::of::<disk::DiskSpec>(),
    Registered::of::<card::CardSpec>(),
    Registered::of::<volume::VolumeSpec>(),
    Registered::of::<stasis_flash::Spec>(),
    #[cfg(test)]
    Registered::of::<tape::TapeSpec>(),
];

/// Properties of a drive that a log of pairs on it gains by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogShape {
    /// Bytes that are erased together: segments of whole multiples leave nothing to be moved below
    /// them.
    pub erased: u64,
    /// Bytes that are programmed at once, if a flush makes the drive program fewer.
    pub page: Option<u64>,
}

/// The keys of a kind of model, besides those that every model has.
///
/// The struct's fields are the keys of the table `{ kind = "...", ... }`; their comments are what
/// help, the schema and the manual say of them.
pub trait Parameters:
    Debug + Clone + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// The word of the key `kind`.
    const NAME: &'static str;

    /// Keys that can change while a drive works (`gc.policy`; `timing` for all below it), of a kind
    /// that knows where its drive's contents lie: no other model can take its place then, nor it
    /// that of another. None of a kind that any model can replace.
    const ADAPTS: Option<&'static [&'static str]> = None;

    /// An example of the word `NAME:VALUE` that stands for a table of this kind; `None` if no
    /// word does.
    const WORD: Option<&'static str> = None;

    /// Reads the value of such a word.
    ///
    /// # Errors
    /// A sentence with the fault and the values allowed.
    fn of_word(_value: &str) -> Result<Self, String> {
        Err(format!("a model of kind `{}` cannot be a word", Self::NAME))
    }

    /// Checks the conditions that the types of the keys do not express, and completes values that
    /// follow from others.
    ///
    /// # Errors
    /// [`Problem`] names the key.
    fn check(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    /// The size of the drive (bytes), where that is one of the kind's own keys.
    fn capacity(&self) -> Option<u64> {
        None
    }

    /// Returns whether the model is for a drive of a known size only.
    fn needs_capacity(&self) -> bool {
        false
    }

    /// Returns whether the time to a command's place matters, so that waiting for a neighbour pays.
    fn seeks(&self) -> bool {
        false
    }

    /// Returns whether the seed decides the state that the drive begins in, and not only what it
    /// draws later.
    fn begins_by_seed(&self) -> bool {
        false
    }

    /// Reads the files that the keys name, relative to `base`, into them.
    ///
    /// # Errors
    /// [`ResolveError`], which names the file.
    fn resolve(&mut self, _base: &Path) -> Result<(), ResolveError> {
        Ok(())
    }

    /// Bytes of a zone of a drive of `capacity` bytes, if it has zones that are written in order and
    /// discarded as a whole.
    fn zone(&self, _capacity: u64) -> Option<u64> {
        None
    }

    /// Returns the model for a drive with a log of pairs on it, by default without a change.
    #[must_use]
    fn for_pairs(self) -> Self {
        self
    }

    /// Properties of a drive of `capacity` bytes that a log of pairs gains by, if there are any.
    fn log_shape(&self, _capacity: u64) -> Option<LogShape> {
        None
    }

    /// The file that keeps the model's state between runs, if there is to be one: what
    /// [`stasis_block::Model::shut_down`] returns goes there. [`Parameters::resolve`] has made it
    /// absolute.
    fn state_file(&self) -> Option<&str> {
        None
    }

    /// Checks that a drive of `capacity` bytes can have these parameters, as far as possible
    /// without making the model. `label` is the model's name, for the error.
    ///
    /// # Errors
    /// [`BuildError`] names the value that cannot work.
    fn fits(&self, _label: &str, _capacity: u64) -> Result<(), BuildError> {
        Ok(())
    }

    /// Makes the model, for a drive that [`Parameters::fits`].
    ///
    /// # Errors
    /// [`BuildError`] names the value that cannot work.
    fn build(&self, label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError>;
}
