//! What an experiment says of a drive's model, and the model made of it.
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
//! model = { base = "jpt39c", write_cache = "0" }   # a named model with changes
//! ```
//!
//! Every table may have a `label`, its name in results, a `link`, that of
//! the drive's data sheet: `"PCIe 4.0 x4"`, and a `capacity`, the size of a new
//! image of the drive. The keys of each kind are those of [`SpansSpec`], [`ProfileSpec`], [`RatedSpec`] (with
//! [`CacheSpec`] in each), [`CardSpec`], [`DiskSpec`] and [`stasis_flash::Spec`].

mod cache;
mod error;
mod kinds;
mod table;

use std::path::Path;

use stasis_block::units::format_size;
use stasis_block::{CacheKind, Link, Operation, PowerLoss, SECTOR};
use stasis_clock::Nanos;
use stasis_config::{listed, nearest};
use stasis_flash::Ssd;

pub use self::cache::CacheSpec;
pub(crate) use self::error::{range, Problem};
pub use self::error::{BuildError, ResolveError, SpecError};
pub use self::kinds::{ProfileSpec, RatedLatency, RatedSpec, Rating, SpansSpec};
use crate::cached::Cached;
use crate::card::{Card, CardSpec};
use crate::disk::{Disk, DiskSpec};
use crate::empirical::Empirical;
use crate::latency::{Independent, Latency, Spans};
use crate::named::{self, NamedModel};
use crate::profile::Profile;
use crate::random::Span;
use crate::rated::Rated;
use stasis_block::Model;

/// A model as an experiment describes it.
///
/// It is (de)serialized in the form that the [module](self) shows, and always
/// serialized as a full table: after [`ModelSpec::resolve`] that table needs no
/// other file.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    label: String,
    link: Option<Link>,
    /// But for a disk, whose table has it.
    capacity: Option<u64>,
    table: ModelTable,
}

/// The kinds of model and what they need.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelTable {
    /// Every command takes no time.
    Null,
    /// Every operation takes a time of its own.
    Fixed(SpansSpec),
    /// Every operation draws from an interval of its own.
    Uniform(SpansSpec),
    /// As measured.
    Profile(Box<ProfileSpec>),
    /// A solid-state drive by its data sheet.
    Rated(Box<RatedSpec>),
    /// A mechanical disk.
    Disk(Box<DiskSpec>),
    /// A memory card.
    Card(Box<CardSpec>),
    /// A flash SSD.
    Flash(Box<stasis_flash::Spec>),
}

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

/// The kinds as tables name them.
const KINDS: [&str; 8] = ["null", "fixed", "uniform", "profile", "rated", "disk", "card", "flash"];

impl ModelSpec {
    /// A model described by a program.
    pub fn new(label: &str, table: ModelTable) -> Self {
        Self { label: label.into(), link: None, capacity: None, table }
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
        let wrong = |problem: String| SpecError::Word { word: word.into(), problem };
        let span = || Span::parse(value).map_err(|e| wrong(e.to_string()));
        let table = match kind {
            "fixed" => {
                let span = span()?;
                if !span.is_fixed() {
                    return Err(wrong(format!("that is no single duration: `uniform:{value}`")));
                }
                ModelTable::Fixed(SpansSpec::all(span))
            }
            "uniform" => ModelTable::Uniform(SpansSpec::all(span()?)),
            "profile" if value.is_empty() => {
                return Err(wrong("a file is missing: `profile:my-drive.json`".into()));
            }
            "profile" => {
                let file = Some(value.into());
                ModelTable::Profile(Box::new(ProfileSpec { file, ..ProfileSpec::default() }))
            }
            kind if KINDS.contains(&kind) => {
                return Err(wrong(format!("a model of kind `{kind}` cannot be a word")));
            }
            kind => return Err(unknown_kind(kind)),
        };
        Ok(Self { label: word.into(), link: None, capacity: None, table })
    }

    fn of_name(word: &str) -> Result<Self, SpecError> {
        if let Some(named) = named::find(word) {
            return Ok(named.spec());
        }
        if KINDS.contains(&word) {
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

    /// The link that a guest is told of, where the model says one.
    pub fn link(&self) -> Option<Link> {
        self.link
    }

    /// The size of the drive that it describes (bytes), where it has one of
    /// its own.
    pub fn capacity(&self) -> Option<u64> {
        match &self.table {
            ModelTable::Disk(spec) => Some(spec.capacity),
            _ => self.capacity,
        }
    }

    /// What the model is made of.
    pub fn table(&self) -> &ModelTable {
        &self.table
    }

    /// Reads the files that the description names, relative to `base`, into it.
    ///
    /// # Errors
    /// [`ResolveError`], which names the file.
    #[expect(
        clippy::disallowed_methods,
        reason = "what is read becomes part of the description, before a model is built"
    )]
    pub fn resolve(&mut self, base: &Path) -> Result<(), ResolveError> {
        let ModelTable::Profile(spec) = &mut self.table else { return Ok(()) };
        let (Some(file), None) = (&spec.file, &spec.profile) else { return Ok(()) };
        let path = base.join(file);
        let text = std::fs::read_to_string(&path)
            .map_err(|cause| ResolveError::Read { path: path.clone(), cause })?;
        let profile = Profile::from_json(&text);
        spec.profile = Some(profile.map_err(|cause| ResolveError::Profile { path, cause })?);
        Ok(())
    }

    /// Whether [`ModelSpec::build`] could make the model for a drive of
    /// `capacity` bytes, as far as that can be said without making it.
    ///
    /// # Errors
    /// [`BuildError`] names what cannot work.
    pub fn check(&self, capacity: u64) -> Result<(), BuildError> {
        match &self.table {
            ModelTable::Disk(spec) if capacity > spec.capacity => Err(BuildError::Capacity {
                model: self.label.clone(),
                capacity: format_size(capacity),
                disk: format_size(spec.capacity),
            }),
            ModelTable::Flash(spec) => spec.check(capacity).map_err(|cause| self.not_flash(cause)),
            _ => Ok(()),
        }
    }

    fn not_flash(&self, cause: stasis_flash::SpecError) -> BuildError {
        BuildError::Flash { model: self.label.clone(), cause: Box::new(cause) }
    }

    /// Makes the model.
    ///
    /// # Errors
    /// [`BuildError`] if a file was not read yet, or the drive does not fit the
    /// model.
    pub fn build(&self, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        self.check(context.capacity)?;
        let seed = context.seed;
        Ok(match &self.table {
            ModelTable::Null => {
                let spans = [Span::default(); Operation::ALL.len()];
                Box::new(Independent::new(Spans::new(spans, seed), None))
            }
            ModelTable::Fixed(spec) | ModelTable::Uniform(spec) => {
                let spans = Spans::new(spec.spans(), seed);
                behind(spec.cache.as_ref(), spec.plp, spans, spec.parallelism, seed)
            }
            ModelTable::Profile(spec) => {
                let Some(profile) = &spec.profile else {
                    let file = spec.file.clone().unwrap_or_default();
                    return Err(BuildError::Unresolved { file });
                };
                let empirical = Empirical::new(profile, context.path, spec.costs(), seed);
                behind(spec.cache.as_ref(), spec.plp, empirical, spec.parallelism, seed)
            }
            ModelTable::Rated(spec) => {
                let directions = [spec.read.direction(), spec.write.direction()];
                let costs = [spec.flush, spec.discard];
                let rated = Rated::new(directions, costs, spec.write_zeroes, seed);
                behind(spec.cache.as_ref(), spec.plp, rated, None, seed)
            }
            ModelTable::Disk(spec) => {
                let disk = Disk::new(spec, seed).ok_or_else(|| BuildError::Contradiction {
                    model: self.label.clone(),
                    problem: "its seek times do not ascend",
                })?;
                Box::new(disk)
            }
            ModelTable::Card(spec) => Box::new(Independent::new(Card::new(spec, seed), Some(1))),
            ModelTable::Flash(spec) => {
                let ssd = Ssd::new(spec, context.capacity, seed);
                Box::new(ssd.map_err(|cause| self.not_flash(cause))?)
            }
        })
    }
}

/// A model in closed form, behind a write cache if it has one; `plp`: what it
/// acknowledges survives a power cut.
fn behind(
    cache: Option<&CacheSpec>,
    plp: bool,
    latency: impl Latency + 'static,
    parallelism: Option<u32>,
    seed: u64,
) -> Box<dyn Model> {
    match cache {
        None => {
            let known = if plp { CacheKind::Protected } else { CacheKind::Unbounded };
            let power_loss = PowerLoss::new(known, SECTOR);
            Box::new(Independent::new(latency, parallelism).with_power_loss(power_loss))
        }
        Some(cache) => {
            let cached = Cached::new(latency, cache, seed);
            let power_loss = PowerLoss::new(CacheKind::Volatile(cache.size), SECTOR);
            let model = Independent::new(cached, parallelism).with_barrier(cache.barrier);
            Box::new(model.with_power_loss(power_loss))
        }
    }
}

impl ModelTable {
    /// The kind as tables name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => KINDS[0],
            Self::Fixed(_) => KINDS[1],
            Self::Uniform(_) => KINDS[2],
            Self::Profile(_) => KINDS[3],
            Self::Rated(_) => KINDS[4],
            Self::Disk(_) => KINDS[5],
            Self::Card(_) => KINDS[6],
            Self::Flash(_) => KINDS[7],
        }
    }
}

impl NamedModel {
    /// The model's description.
    pub fn spec(&self) -> ModelSpec {
        ModelSpec {
            label: self.name.into(),
            link: self.link(),
            capacity: self.capacity,
            table: self.table(),
        }
    }
}

fn unknown_kind(word: &str) -> SpecError {
    SpecError::Kind {
        word: word.into(),
        nearest: nearest(word, KINDS).map(String::from),
        kinds: listed(KINDS),
    }
}

impl std::str::FromStr for ModelSpec {
    type Err = SpecError;

    fn from_str(word: &str) -> Result<Self, SpecError> {
        Self::parse(word)
    }
}

#[cfg(test)]
mod tests;
