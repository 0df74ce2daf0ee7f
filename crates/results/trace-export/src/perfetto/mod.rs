//! Perfetto's trace: slices and counters on tracks, on the run's virtual timeline.
//!
//! Each drive is a process; each place of its queues that I/Os take one after the other is a track
//! of it, with a slice for each I/O from its submission to its interrupt, and the I/Os under way
//! are a counter. Figures of results by steps of time, such as for which share of each a processor
//! ran, are counters of further processes ([`Counter`]), and the spans inside a run, where it kept
//! them, are slices of those processes ([`Inside`]). The machines of a cluster are tracks of one
//! process ([`ClusterMoments`]), and the functions of a profile are slices of another.

mod cluster;
mod ios;
mod packets;
mod samples;
mod spans;

use std::io::{self, Write};

use stasis_results::KeptSamples;
use stasis_run_events::IoRecord;

use crate::{Counter, Exported};
use packets::Trace;

pub use cluster::ClusterMoments;
pub use spans::Inside;

/// Writes the I/Os of the drives of these names, by drive, the counters, the spans inside, the
/// moments of a cluster, and the samples of a profile. The
/// I/Os are in memory while their edges are sorted, some 150 bytes each; of the rest only some rows
/// are at a time.
///
/// # Errors
/// Errors of `out`, and of reading the spans inside the run.
pub fn perfetto(
    drives: &[String],
    ios: &[Vec<IoRecord>],
    counters: &[Counter],
    inside: Option<&mut Inside<'_>>,
    cluster: Option<&mut ClusterMoments>,
    samples: Option<&mut KeptSamples>,
    out: &mut dyn Write,
) -> io::Result<Exported> {
    let mut exported = Exported::default();
    let mut trace = Trace::new(out);
    for (name, ios) in drives.iter().zip(ios) {
        ios::write(name, ios, &mut trace)?;
        exported.ios += ios.len() as u64;
    }
    if let Some(inside) = inside {
        exported.spans = spans::write(inside, &mut trace)?;
    }
    if let Some(cluster) = cluster {
        exported.moments = cluster::write(cluster, &mut trace)?;
    }
    if let Some(samples) = samples {
        exported.samples = samples::write(samples, &mut trace)?;
    }
    for (rank, counter) in (0..).zip(counters) {
        sampled(counter, COUNTERS + rank, &mut trace)?;
    }
    out.flush()?;
    Ok(exported)
}

/// Counters come after the slices of their process.
const COUNTERS: u64 = 1 << 24;

/// A counter's track, with a value wherever that changes.
fn sampled(counter: &Counter, rank: u64, trace: &mut Trace<'_>) -> io::Result<()> {
    let track = trace.counter(&counter.group, &counter.name, counter.unit, rank)?;
    let mut last = None;
    // Nothing is known of what comes after the last step.
    for (step, value) in counter.values.iter().chain([&0.0]).enumerate() {
        if last.replace(value) == Some(value) {
            continue;
        }
        let time = counter.begin.saturating_add((step as u64).saturating_mul(counter.step));
        trace.sample(track, time, *value)?;
    }
    Ok(())
}
