//! `stasis guest-clock`, in a guest: do the clocks of its processors ever disagree?

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{ensure, Context, Result};
use rustix::thread::{sched_setaffinity, CpuSet};
use serde::{Deserialize, Serialize};

/// Arguments of `guest-clock`.
#[derive(Debug, clap::Args)]
pub struct ClockArguments {
    /// Number of processors that read the clock
    processors: usize,
    /// Number of reads, on all processors together
    reads: u64,
}

/// Result of reading the clock on several processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// The processors that took part.
    pub processors: usize,
    /// Reads of CLOCK_MONOTONIC, on all of them together.
    pub reads: u64,
    /// Reads that were earlier than one that had ended before they began, on any processor.
    pub backwards: u64,
    /// The largest step backwards (ns).
    pub worst_ns: u64,
}

/// Prints [`Clocks`] as a line of JSON.
pub fn main(arguments: &ClockArguments) -> Result<ExitCode> {
    let clocks = read(arguments.processors, arguments.reads)?;
    stasis_terminal::print(&(serde_json::to_string(&clocks)? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the clock on the first `processors` processors at once.
fn read(processors: usize, reads: u64) -> Result<Clocks> {
    ensure!((1..=CpuSet::MAX_CPU).contains(&processors), "1 to {} processors", CpuSet::MAX_CPU);
    let each = reads / processors as u64;
    let base = Instant::now();
    let latest = AtomicU64::new(0);
    let one = |processor: usize| -> Result<(u64, u64)> {
        let mut set = CpuSet::new();
        set.set(processor);
        sched_setaffinity(None, &set).with_context(|| format!("no processor {processor}"))?;
        let (mut backwards, mut worst) = (0, 0);
        for _ in 0..each {
            let before = latest.load(Ordering::SeqCst);
            // A time before `base` is zero: earlier than all that was read.
            let now = Instant::now().saturating_duration_since(base).as_nanos() as u64;
            if now < before {
                backwards += 1;
                worst = worst.max(before - now);
            }
            latest.fetch_max(now, Ordering::SeqCst);
        }
        Ok((backwards, worst))
    };
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..processors).map(|processor| scope.spawn(move || one(processor))).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut clocks =
        Clocks { processors, reads: each * processors as u64, backwards: 0, worst_ns: 0 };
    for result in results {
        let (backwards, worst) =
            result.map_err(|_| anyhow::anyhow!("a thread that read the clock ended"))??;
        clocks.backwards += backwards;
        clocks.worst_ns = clocks.worst_ns.max(worst);
    }
    Ok(clocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_this_machine_does_not_go_back() {
        let clocks = read(1, 10_000).unwrap();
        let expected = Clocks { processors: 1, reads: 10_000, backwards: 0, worst_ns: 0 };
        assert_eq!(clocks, expected);
        assert!(read(0, 1).is_err() && read(CpuSet::MAX_CPU + 1, 1).is_err());
        assert!(read(CpuSet::MAX_CPU, 1).is_err(), "there are not that many processors");
    }
}
