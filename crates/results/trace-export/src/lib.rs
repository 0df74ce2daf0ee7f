//! A run's I/Os in the formats of other tools, on the run's virtual timeline.
//!
//! * [`blktrace`]: the binary trace of Linux's blktrace, for blkparse, btt, iowatcher,
//!   btreplay and fio's `read_iolog`.
//! * [`fio_log`]: a completion latency log as fio's `write_lat_log` leaves it, for
//!   fio_generate_plots and fiologparser.
//! * [`off_cpu`]: stacks of waits, for flamegraph.pl, speedscope and inferno.
//! * [`perfetto`]: tracks for the Perfetto UI, with a slice for each I/O from its submission
//!   to its interrupt, and for each thing that happened inside the run where it kept that.
//! * [`pprof`]: a profile for pprof.
//!
//! Promises:
//! * Times are those of `ios.csv`: nothing is rounded but where a format has a coarser unit, which
//!   its module documents.
//! * The same I/Os give the same bytes.
//! * Data that a format cannot hold is counted, not dropped without a word
//!   ([`Exported::left_out`]).

mod blktrace;
mod counters;
mod fio_log;
mod message;
mod off_cpu;
mod perfetto;
mod pprof;

pub use blktrace::blktrace;
pub use counters::{counters, Counter};
pub use fio_log::fio_log;
pub use off_cpu::off_cpu;
pub use perfetto::{perfetto, ClusterMoments, Inside};
pub use pprof::pprof;

/// Counts of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// I/Os that the file has.
    pub ios: u64,
    /// I/Os that its format cannot represent.
    pub left_out: u64,
    /// Spans of what happened inside the run.
    pub spans: u64,
    /// Moments of the machines of a cluster.
    pub moments: u64,
    /// Samples of busy processors.
    pub samples: u64,
}
