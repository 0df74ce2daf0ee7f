//! Results of runs side by side: rates, percentiles of latency with their confidence intervals,
//! which differences matter, and what differs in the set-up.
//!
//! [`Candidate::read`] takes a folder of results, or one with such folders in it, such as the
//! seeds of a study. [`Comparison::of`] sets candidates beside the first one.
//!
//! Promises:
//! - The same results give the same comparison: nothing is drawn at random.
//! - An interval is of 95 %. Of one run it is that of an order statistic ([`percentile`]), as if
//!   its I/Os were independent, which neighbours in a queue are not, and there is none where the I/Os
//!   are too few, such as p99.9 of 1,000; of several runs it is that
//!   of the runs' figures by Student's distribution, which needs no such assumption.
//! - A difference is called significant where the intervals do not overlap, it is large enough to
//!   matter, and both candidates did the same I/Os.
//! - Several runs with the same figures count as one.

mod candidate;
mod compared;
mod diff;
mod figures;
mod inputs;
mod junit;
mod page;
mod printed;
mod setup;
mod setup_differences;
mod work;

pub use candidate::{Candidate, Ios, Run, Subject};
pub use compared::{Comparison, Slower};
pub use diff::Changes;
pub use figures::{Difference, Statistic, Unit};
pub use inputs::{OtherInput, TextDifference};
pub use setup::Setup;
pub use stasis_results::interval::{mean, of_runs, percentile, Interval};
