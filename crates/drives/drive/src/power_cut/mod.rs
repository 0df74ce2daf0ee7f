//! State of a drive after a power cut.
//!
//! A drive acknowledges a change before it is durable and writes changes to its medium in any
//! order, within the limits of its model ([`stasis_block::PowerLoss`]) and of the commands:
//! - a durable write (FUA) is durable when it ends; with power-loss protection,
//!   or without a cache, so is every other change;
//! - a flush that has ended made durable the changes that were submitted before it and have ended,
//!   as [`crate::Drive`] promises (NVMe asks only for those that had ended before the flush was
//!   submitted: NVM Express Base Specification 2.0, 7.1);
//! - nothing that was submitted after a barrier is durable before everything
//!   that was submitted before it;
//! - no more atomic units lack data that was acknowledged than the cache holds.
//!   Data that something newer has overwritten on the medium is not lacking, and
//!   discards and writes of zeroes take no room in a cache;
//! - a change that is not durable is there, or not, or torn where an atomic unit
//!   begins;
//! - a sequential zone has no hole: of the data written to it since its last reset that is left, a
//!   beginning is left, and a reset is left as a whole or not at all.
//!
//! A change that failed may be there or not; it counts as there as soon as a
//! flush has ended that was submitted after it.
//!
//! [`VolatileCache`] follows a drive from command to command and keeps these rules;
//! [`VolatileCache::sample`] chooses one of the states that they permit, and
//! [`VolatileCache::permits`] tests whether a given state is one of them.

mod change;
mod choice;
mod cuts;
mod survival;
mod survivors;
mod volatile_cache;
mod write_pointers;
mod zone_holes;

pub use choice::{CutChoice, CutState};
pub use cuts::{PowerCuts, MAX_UNSETTLED};
pub use survival::Survival;
pub use survivors::{Sampling, MAX_NAMED};
pub use volatile_cache::VolatileCache;
pub use write_pointers::WritePointers;
