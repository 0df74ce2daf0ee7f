//! Drive models: *when* a command completes. Where the bytes live is a
//! medium's business.
//!
//! Promise: models are pure. They have virtual time only, use no threads and
//! no I/O, and draw every random number from the seed that they are given: the
//! same commands at the same times complete at the same times. Completions come
//! in the order of time, each command's exactly once and never before it was
//! submitted, and after a warm-up no call allocates.
//!
//! - [`Model`]: the interface, and [`Latency`] with [`Independent`] for models in
//!   closed form;
//! - [`ModelSpec`]: a model as an experiment writes it, from which it is built;
//!   the form is documented in [`spec`];
//! - [`kinds`]: the kinds of model that descriptions can name, and the trait of a new one;
//! - [`NAMED`]: the named models, with their figures and sources;
//! - [`Sheet`]: a model's performance, in the figures of a data sheet;
//! - [`profile`]: the file format of measured drives, and [`calibrate`], which
//!   makes one of the output of fio or blkparse. Only [`ModelSpec::resolve`] reads
//!   files.

mod cached;
pub mod calibrate;
mod distribution;
mod empirical;
mod kept_sheets;
pub mod kinds;
mod latency;
mod named;
mod parted;
mod pipeline;
pub mod profile;
mod sheet;
mod span;
pub mod spec;

pub use distribution::Interpolation;
pub use empirical::Empirical;
pub use kept_sheets::line;
pub use kinds::card::{Card, CardSpec};
pub use kinds::disk::{DiskSpec, HardDisk, Queue};
pub use kinds::rated::{Rated, RatedLatency, RatedSpec, Rating};
pub use kinds::volume::{Volume, VolumeSpec, VolumeTier};
pub use kinds::{
    FixedSpec, LogShape, ModelKind, NullSpec, Parameters, ProfileSpec, Registered, SpansSpec,
    UniformSpec, KINDS,
};
pub use latency::{Independent, Latency, Spans};
pub use named::{find, NamedModel, NAMED};
pub use parted::{seeds, Part, Parted};
pub use profile::Profile;
pub use sheet::{Figures, Sheet};
pub use span::{Span, SpanError};
pub use spec::{
    BuildContext, BuildError, CacheSpec, ModelChange, ModelSpec, Problem, ResolveError, SpecError,
};
pub use stasis_block::{Completion, Model};
pub use stasis_block::{Rate, RateError};
