//! A flash SSD from the cell up: the NAND array's behaviour in time, and what
//! is built on it.
//!
//! Promise: pure, as the models are. Virtual time and a seed only, no threads,
//! no I/O: the same operations at the same times end at the same times. No
//! data lives here.
//!
//! - [`Geometry`], [`CellPattern`], [`Timing`]: what the array is made of;
//! - [`nand::Array`]: which operation ends when, and how;
//! - [`Variation`], [`Faults`]: how cells differ, and what breaks.

mod buffer;
pub mod cells;
pub mod faults;
pub mod ftl;
pub mod gc;
pub mod geometry;
mod hash;
mod link;
mod logical;
pub mod nand;
mod precondition;
mod prefetch;
#[cfg(test)]
mod shadow;
pub mod spec;
mod ssd;
pub mod statistics;
pub mod timing;
pub mod variation;
pub mod vendor;

pub use cells::{CellPattern, PageType, PatternError};
pub use faults::{Fault, FaultRule, Faults};
pub use geometry::{Geometry, GeometryError, PageAddress, PlaneId};
pub use spec::{Spec, SpecError};
pub use ssd::Ssd;
pub use statistics::Statistics;
pub use timing::{BusRate, Timing};
pub use variation::{CellTimes, Retry, Variation};

#[cfg(test)]
mod tests;
