//! What precision an experiment can count on with an engine on this machine.
//!
//! [`measure`] runs experiments whose right result is known: drives of constant latency on a
//! quiet and on a busy host, and the clocks of several processors. The [`Verdict`] says what
//! follows. [`first_check`] is what the first run under KVM does of it. [`guest_clock`] is the part of it that runs in the guest.

mod clock;
mod load;
mod measure;
mod verdict;

pub use clock::{main as guest_clock, ClockArguments, Clocks};
pub use measure::{first_check, measure, Delivered, Measured, Precision, MODELS};
pub use verdict::Verdict;
