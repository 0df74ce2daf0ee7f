//! Sources of I/Os without a guest: the synthetic load of a fio job file, a load of key-value pairs,
//! or a trace; and the loop that brings them to a model.
//!
//! Promises:
//! * A [`Load`] is a function of its job file, the drive's size and a seed.
//! * Memory does not grow with the number of I/Os but for `verify`, whose writes
//!   are remembered, and pairs, whose values are; and none is allocated for each.
//! * No text and no bytes make a parser panic; its errors name the line.

pub mod blktrace;
mod error;
mod job;
#[cfg(feature = "key-value")]
mod pairs;
mod permutation;
mod simulation;
mod source;
pub mod trace;

pub use error::{JobError, TraceError};
pub use job::{
    table as fio, Direction, Distribution, Each, Include, Included, Job, JobFile, JobText, Load,
    Place, Size, Weighted,
};
#[cfg(feature = "key-value")]
pub use pairs::{PairCounts, PairLoad, PairsError, PairsSpec, PhaseCounts};
pub use simulation::{Finished, Pause, Simulation};
pub use source::{Io, Workload};
