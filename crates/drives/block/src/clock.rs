//! Virtual time: its unit, and the one queue in which everything that happens
//! in virtual time stands.
//!
//! Promise: nothing here reads a wall clock, starts a thread or performs I/O.
//! Events leave the queue in the order of (time, sequence of insertion), so
//! that two runs with the same inputs are the same run.

mod queue;

pub use queue::EventQueue;

/// A point in, or an amount of, virtual time, in nanoseconds.
///
/// The guest's clock starts at zero when its machine is created.
pub type Nanos = u64;

/// One microsecond.
pub const MICROSECOND: Nanos = 1_000;
/// One millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// One second.
pub const SECOND: Nanos = 1_000_000_000;
