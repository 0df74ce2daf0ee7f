//! A NAND array: the parts of flash memory, and their behaviour in time.
//!
//! Promise: pure, as the models are. Virtual time and a seed only, no threads,
//! no I/O: the same operations at the same times end at the same times. No
//! data lives here, and no mapping: `stasis-flash` builds drives on it.
//!
//! - [`ArrayConfig`] of [`Geometry`], [`CellPattern`], [`Timing`]: the parts of the array, and their
//!   times;
//! - [`Array`]: which operation ends when, and how;
//! - [`Activity`]: which operation occupied which part of the array and when, while it is watched;
//! - [`Variation`], [`Faults`]: the differences between cells, and their faults;
//! - [`Ecc`]: their bit errors, and the steps that correct them.
//!
//! Event driven: no plane, register or channel is reserved before it is really
//! used, so nothing that comes later is ever too late to be considered. At each
//! instant, everything that ends ends first; then each plane, and after the
//! planes each channel, decides what starts.

mod activity;
mod array;
mod bus;
pub mod cells;
mod ecc;
mod event_queue;
pub mod faults;
pub mod hash;
mod holders;
mod op;
mod operation_latency;
mod options;
mod planes;
mod power;
mod prefetch;
mod slc;
mod slots;
mod steps;
mod timing_parameters;
mod unit;
mod usage;
mod variation;
mod wear;
mod word_lines;

pub use activity::{Activity, Part};
pub use array::Array;
pub use cells::{CellPattern, PageType, PatternError};
pub use ecc::{Ecc, EccError, EccStep, ErrorRate, MAX_ECC_STEPS};
pub use faults::{Fault, FaultError, FaultRule, Faults};
pub use op::{Breakdown, Op, OpDone, OpKind, OpStatus, Priority, Scope};
pub use options::{
    ArrayConfig, ArrayOptions, ChannelOrder, PlaneMode, Scheduling, SlcTimes, TwoPass, MAX_PASSED,
};
pub use prefetch::prefetch;
pub use stasis_block::inside::geometry::{Geometry, GeometryError, PageAddress, PlaneId};
pub use timing_parameters::{BusRate, Timing};
pub use usage::Usage;
pub use variation::{CellTimes, Retry, Variation, VariationError};
