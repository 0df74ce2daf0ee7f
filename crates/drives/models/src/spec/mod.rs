//! An experiment's description of a drive's model, and the model built from it.
//!
//! A model is a word or a table:
//!
//! ```toml
//! model = "dcpmm"                  # a name from `stasis models`
//! model = "fixed:100us"            # every command takes 100 us
//! model = "uniform:200us-400us"    # every command draws between the two
//! model = "profile:my-drive.json"  # as measured, see `stasis calibrate`
//! model = { kind = "fixed", read = "80us", write = "20us", flush = "1ms", parallelism = 8 }
//! model = { kind = "uniform", read = "200us-400us", write = "50us-200us" }
//! model = { kind = "profile", file = "my-drive.json", flush = "0ns" }
//! model = { kind = "rated", read = { latency = "67us", iops = 500000, bandwidth = "3400MB/s" }, write = { latency = "20us", iops = 450000, bandwidth = "2500MB/s" }, flush = "1ms" }
//! model = { kind = "fixed", latency = "20us", flush = "1ms", cache = { size = "64MiB", drain = "500MB/s" } }
//! model = { kind = "disk", capacity = "1TB", rpm = 7200, outer_rate = "125MB/s", single_track_seek = "0.8ms", average_seek = "8.5ms", write_cache = "32MiB", read_ahead = "1MiB" }
//! model = { kind = "flash", channels = 8, luns = 4, planes = 2, cells = "tlc", over_provisioning = 0.07, precondition = "steady" }
//! model = { kind = "card", read = "1ms", read_rate = "18MB/s", write = "1ms", write_rate = "9MB/s", open_units = 2, close = "250ms" }
//! model = { kind = "volume", read = "500us-1ms", write = "500us-1ms", iops = 3000, bandwidth = "125MiB/s", io_size = "256KiB" }
//! model = { base = "jpt39c", write_cache = "0" }   # a named model with changes
//! ```
//!
//! Every table may have a `label`, its name in results, a `link`, that of
//! the drive's data sheet: `"PCIe 4.0 x4"`, and a `capacity`, the size of a new
//! image of the drive. The keys of each kind are those of its [`Parameters`](crate::Parameters).

mod cache;
mod change;
mod context;
mod error;
mod table;

use std::path::Path;

use stasis_block::{Link, Model};
use stasis_config::{listed, nearest};

pub use self::cache::CacheSpec;
pub(crate) use self::cache::{check_protection, is_false};
pub use self::change::ModelChange;
pub use self::context::BuildContext;
pub(crate) use self::error::range;
pub use self::error::{BuildError, Problem, ResolveError, SpecError};
use crate::kinds::{ModelKind, Parameters, Registered, KINDS};
use crate::named::{self, NamedModel};

/// A model as an experiment describes it.
///
/// It is (de)serialized in the form that the [module](self) shows, and always
/// serialized as a full table: after [`ModelSpec::resolve`] that table needs no
/// other file.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    label: String,
    link: Option<Link>,
    /// But for a kind that has it among its own keys.
    capacity: Option<u64>,
    kind: ModelKind,
}

impl ModelSpec {
    /// A model described by a program.
    pub fn new(label: &str, parameters: impl Parameters) -> Self {
        Self { label: label.into(), link: None, capacity: None, kind: ModelKind::of(parameters) }
    }

    /// Reads the form of a word: a name, `fixed:100us`, `uniform:200us-400us`
    /// or `profile:FILE`.
    ///
    /// # Errors
    /// [`SpecError`], which names the word and the nearest right one.
    pub fn parse(word: &str) -> Result<Self, SpecError> {
        let Some((kind, value)) = word.split_once(':') else {
            return Self::of_name(word);
        };
        let kind = (registered(kind)?.of_word)(value)
            .map_err(|problem| SpecError::Word { word: word.into(), problem })?;
        Ok(Self { label: word.into(), link: None, capacity: None, kind })
    }

    fn of_name(word: &str) -> Result<Self, SpecError> {
        if let Some(named) = named::find(word) {
            return Ok(named.spec());
        }
        if registered(word).is_ok() {
            let problem = format!(
                "the kind alone is not enough: write `fixed:100us`, or a table {{ kind = \
                 \"{word}\", ... }}"
            );
            return Err(SpecError::Word { word: word.into(), problem });
        }
        let nearest = nearest(word, named::NAMED.iter().map(|named| named.name));
        Err(SpecError::Model { word: word.into(), nearest: nearest.map(String::from) })
    }

    /// A short name for results: the word, the table's `label`, or what the
    /// table is made of.
    pub fn label(&self) -> String {
        self.label.clone()
    }

    /// The link that the drive reports to a guest, if the model has one.
    pub fn link(&self) -> Option<Link> {
        self.link
    }

    /// The size of the drive described (bytes), if the model fixes it.
    pub fn capacity(&self) -> Option<u64> {
        self.kind.capacity().or(self.capacity)
    }

    /// The kind of the model, with its keys.
    pub fn kind(&self) -> &ModelKind {
        &self.kind
    }

    /// Reads the files that the description names, relative to `base`, into it.
    ///
    /// # Errors
    /// [`ResolveError`], which names the file.
    pub fn resolve(&mut self, base: &Path) -> Result<(), ResolveError> {
        self.kind.resolve(base)
    }

    /// The model of a drive that has a log of pairs on it.
    pub fn for_pairs(&mut self) {
        self.kind = self.kind.for_pairs();
    }

    /// Checks that [`ModelSpec::build`] can make the model for a drive of
    /// `capacity` bytes, as far as that can be said without making it.
    ///
    /// # Errors
    /// [`BuildError`] names the value that cannot work.
    pub fn check(&self, capacity: u64) -> Result<(), BuildError> {
        self.kind.fits(&self.label, capacity)
    }

    /// Makes the model.
    ///
    /// # Errors
    /// [`BuildError`] if a file was not read yet, or the drive does not fit the
    /// model.
    pub fn build(&self, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        self.check(context.capacity)?;
        self.kind.build(&self.label, context)
    }
}

impl NamedModel {
    /// The model's description.
    pub fn spec(&self) -> ModelSpec {
        ModelSpec {
            label: self.name.into(),
            link: self.link,
            capacity: self.capacity,
            kind: self.kind(),
        }
    }
}

/// The kind of that name.
fn registered(word: &str) -> Result<&'static Registered, SpecError> {
    let names = || KINDS.iter().map(|kind| kind.name);
    KINDS.iter().find(|kind| kind.name == word).ok_or_else(|| SpecError::Kind {
        word: word.into(),
        nearest: nearest(word, names()).map(String::from),
        kinds: listed(names()),
    })
}

impl std::str::FromStr for ModelSpec {
    type Err = SpecError;

    fn from_str(word: &str) -> Result<Self, SpecError> {
        Self::parse(word)
    }
}

#[cfg(test)]
mod tests;
