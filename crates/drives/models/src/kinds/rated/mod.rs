//! A solid-state drive as its data sheet rates it.
//!
//! Data sheets give three figures per direction: the latency (or, as its
//! reciprocal, the rate at queue depth 1), the highest rate of small commands,
//! and the bandwidth of large ones. The model is the simplest that meets all
//! three: every command holds the drive's pipeline for 1 / rate or, if it is
//! longer than 4 KiB and that is more, for length / bandwidth, in the order of
//! submission, and completes one latency after it entered. So n commands in flight see a throughput of
//! min(n / latency, rate), and reads and writes share one pipeline.

mod spec;

use stasis_block::clock::Nanos;
use stasis_block::inside::Parts;
use stasis_block::{Command, Operation, Random, Rate, TimePerByte};

pub use self::spec::{RatedLatency, RatedSpec, Rating};
use crate::distribution::Distribution;
use crate::latency::{in_parts, Latency};
use crate::pipeline::Pipeline;
use crate::span::Span;

/// ns per second.
const NS_PER_S: u64 = 1_000_000_000;
/// The length (bytes) for which data sheets give latencies and rates.
pub const RATED_LENGTH: u64 = 4096;

/// A distribution that latencies are drawn from.
#[derive(Debug)]
pub(crate) enum Draw {
    Span(Span),
    Distribution(Distribution),
}

impl Draw {
    pub(crate) fn sample(&self, random: &mut Random) -> Nanos {
        match self {
            Self::Span(span) => span.sample(random),
            Self::Distribution(distribution) => distribution.quantile(random.unit()) as Nanos,
        }
    }
}

/// One direction's figures.
#[derive(Debug)]
pub(crate) struct Direction {
    latency: Draw,
    time_per_command: Nanos,
    time_per_byte: TimePerByte,
}

impl Direction {
    pub(crate) fn new(latency: Draw, commands_per_second: u64, bandwidth: Rate) -> Self {
        let time_per_command = NS_PER_S / commands_per_second.max(1);
        Self { latency, time_per_command, time_per_byte: bandwidth.time_per_byte() }
    }
}

/// A drive by its data sheet; see the [module](self).
#[derive(Debug)]
pub struct Rated {
    read: Direction,
    write: Direction,
    flush: Span,
    discard: Span,
    // As a write of the same length, if `None`.
    write_zeroes: Option<Span>,
    pipeline: Pipeline,
    random: Random,
    // Parts of the last command's time: its wait for the pipeline, and the transfer beyond the
    // rated length.
    wait: Nanos,
    transfer: Nanos,
}

impl Rated {
    pub(crate) fn new(
        [read, write]: [Direction; 2],
        [flush, discard]: [Span; 2],
        write_zeroes: Option<Span>,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed);
        let pipeline = Pipeline::default();
        let (wait, transfer) = (0, 0);
        Self { read, write, flush, discard, write_zeroes, pipeline, random, wait, transfer }
    }
}

impl Latency for Rated {
    fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    fn tells(&self) -> bool {
        true
    }

    fn parts(&self, latency: Nanos) -> Parts<Nanos> {
        in_parts(latency, self.wait, self.transfer)
    }

    fn latency(&mut self, now: Nanos, command: &Command) -> Nanos {
        (self.wait, self.transfer) = (0, 0);
        let direction = match (command.operation, self.write_zeroes) {
            (Operation::Read | Operation::Verify, _) => &self.read,
            (Operation::Write | Operation::Copy, _) | (Operation::WriteZeroes, None) => &self.write,
            (Operation::Flush, _) => return self.flush.sample(&mut self.random),
            // The drive around the model completes them.
            (Operation::Barrier, _) => return 0,
            (Operation::Discard, _) => return self.discard.sample(&mut self.random),
            (Operation::WriteZeroes, Some(span)) => return span.sample(&mut self.random),
        };
        let slot = if command.length <= RATED_LENGTH {
            // By the rate alone: some drives' rates exceed their bandwidths a little.
            direction.time_per_command
        } else {
            direction.time_per_byte.times(command.length).max(direction.time_per_command)
        };
        self.wait = self.pipeline.enter(now, slot);
        // The latency as rated holds the transfer of the rated length.
        self.transfer = direction.time_per_byte.times(command.length.saturating_sub(RATED_LENGTH));
        let rated = direction.latency.sample(&mut self.random);
        self.wait.saturating_add(rated).saturating_add(self.transfer)
    }
}
