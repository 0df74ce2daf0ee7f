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

pub mod cells;
pub mod faults;
pub mod geometry;
mod hash;
pub mod nand;
pub mod timing;
pub mod variation;

pub use cells::{CellPattern, PageType, PatternError};
pub use faults::{Fault, FaultRule, Faults};
pub use geometry::{Geometry, GeometryError, PageAddress, PlaneId};
pub use timing::{BusRate, Timing};
pub use variation::{CellTimes, Retry, Variation};
