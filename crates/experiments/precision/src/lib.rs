//! Precision of an engine on this machine, on which an experiment can rely.
//!
//! [`measure`] runs experiments whose right result is known: drives of constant latency on a quiet
//! and on a busy host, and the clocks of several processors. The [`Verdict`] is the conclusion.
//! [`first_check`] is the part that the first run under KVM does. [`guest_clock`] is the part of it
//! that runs in the guest.

mod clock;
mod delivered;
mod load;
mod measure;
mod measured;
mod verdict;

pub use clock::{main as guest_clock, ClockArguments, Clocks};
pub use delivered::{Delivered, Precision, MODELS};
pub use measure::{first_check, measure};
pub use measured::Measured;
pub use verdict::Verdict;
