//! Statistics of a run, reported at its end.

use std::time::{Duration, Instant};

use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;
use stasis_run_events::{Ending, Exits, Outcome, Overshoot, ProcessorOutcome, Processors};

use crate::freeze::Clock;
use crate::utilization::Utilization;

/// Counters of one run. Those of the command begin with [`Statistics::start`]
/// and end with [`Statistics::finish`].
#[derive(Debug)]
pub struct Statistics {
    /// Time at which the machine was made.
    born: Instant,
    /// True if the command runs.
    pub running: bool,
    /// Virtual time when the command began (ns).
    pub started_virtual: Nanos,
    /// Virtual time that was skipped (ticks).
    pub skipped: u64,
    /// Exits.
    pub exits: Exits,
    /// Delays of slices' ends.
    pub overshoot: Histogram,
    /// Durations of interrupts between processors.
    pub calls: Histogram,
    /// Slices, and how far ahead of the others one ended at most (ticks).
    slices: u64,
    ahead: u64,
    /// Largest distance by which the clock of several processors was ahead of their mean (ticks).
    lead: u64,
    /// On how many threads processors are in guest mode at once, and the quantum (ticks).
    pub turns_on: TurnsOn,
    utilization: Utilization,
    boot_wall: Duration,
    started_wall: Instant,
    started_frozen: Duration,
    finished: Option<Finished>,
}

/// Arrangement of the processors' turns.
#[derive(Debug, Clone, Copy, Default)]
pub struct TurnsOn {
    /// On how many of the host's threads they are in guest mode at once.
    pub threads: u32,
    /// Largest distance between them (ticks): the configured value, or more where slices end late.
    pub quantum: u64,
}

#[derive(Debug)]
struct Finished {
    virtual_ns: Nanos,
    wall: Duration,
    frozen: Duration,
    skipped: u64,
    exits: Exits,
    overshoot: Overshoot,
    end: u64,
    slices: u64,
    ahead: u64,
    lead: u64,
    calls: Overshoot,
}

impl Statistics {
    /// Creates the counters of a run of `processors` processors, made at `born`.
    pub fn new(born: Instant, processors: usize) -> Self {
        Self {
            born,
            running: false,
            started_virtual: 0,
            skipped: 0,
            exits: Exits::default(),
            overshoot: Histogram::default(),
            calls: Histogram::default(),
            slices: 0,
            ahead: 0,
            lead: 0,
            turns_on: TurnsOn::default(),
            utilization: Utilization::new(processors, 0),
            boot_wall: Duration::ZERO,
            started_wall: born,
            started_frozen: Duration::ZERO,
            finished: None,
        }
    }

    /// The command begins.
    pub fn start(&mut self, clock: &Clock, frozen: Duration, processors: usize) {
        self.running = true;
        self.started_virtual = clock.now_ns();
        self.utilization = Utilization::new(processors, clock.now());
        (self.slices, self.ahead, self.lead) = (0, 0, 0);
        self.calls = Histogram::default();
        self.started_wall = Instant::now();
        self.boot_wall = self.started_wall - self.born;
        self.started_frozen = frozen;
        self.skipped = 0;
        self.exits = Exits::default();
        self.overshoot = Histogram::default();
    }

    /// A slice of the processor at `place` was from and to these times (ticks), and
    /// ended `ahead` ticks ahead of the processor furthest behind.
    pub fn slice(&mut self, place: usize, (from, to): (u64, u64), ahead: u64) {
        self.slices += 1;
        self.ahead = self.ahead.max(ahead);
        if self.running && self.finished.is_none() {
            self.utilization.add(place, from, to);
        }
    }

    /// A slice began with the clock of several processors so far ahead of their mean (ticks).
    pub fn lead(&mut self, ticks: u64) {
        self.lead = self.lead.max(ticks);
    }

    /// The command has ended, or the run has without it; the first call counts.
    pub fn finish(&mut self, clock: &Clock, frozen: Duration) {
        if self.finished.is_none() {
            self.finished = Some(Finished {
                virtual_ns: clock.now_ns().saturating_sub(self.started_virtual),
                wall: self.started_wall.elapsed(),
                frozen: frozen.saturating_sub(self.started_frozen),
                skipped: self.skipped,
                exits: self.exits,
                overshoot: self.overshoot.summary(),
                end: clock.now(),
                slices: self.slices,
                ahead: self.ahead,
                lead: self.lead,
                calls: self.calls.summary(),
            });
        }
    }

    /// Everything, at the run's end; `inside` holds the statistics of the drives' models,
    /// `processors` each one's machine and number there.
    pub fn outcome(
        mut self,
        ending: Ending,
        clock: &Clock,
        frozen: Duration,
        inside: Vec<Option<Inside>>,
        processors: &[(usize, usize)],
    ) -> Outcome {
        self.finish(clock, frozen);
        let booted = self.running;
        let finished = self.finished.expect("just finished");
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let scale = clock.scale();
        let utilization = &self.utilization;
        let processor = |(place, &(machine, number)): (usize, &(usize, usize))| ProcessorOutcome {
            machine: machine as u16,
            number: number as u32,
            running_ns: scale.to_ns(utilization.total(place)),
            shares: utilization.shares(place, finished.end),
        };
        let processors = Processors {
            slices: finished.slices,
            call: finished.calls,
            clock_skew_max_ns: scale.to_ns(finished.ahead),
            clock_lead_max_ns: scale.to_ns(finished.lead),
            threads: self.turns_on.threads,
            quantum_ns: scale.to_ns(self.turns_on.quantum),
            step_ns: scale.to_ns(utilization.width()),
            each: processors.iter().enumerate().map(processor).collect(),
        };
        Outcome {
            ending,
            processors,
            virtual_ns: if booted { finished.virtual_ns } else { 0 },
            boot_virtual_ns: if booted { self.started_virtual } else { clock.now_ns() },
            boot_wall_ns: nanos(if booted { self.boot_wall } else { self.born.elapsed() }),
            wall_ns: if booted { nanos(finished.wall) } else { 0 },
            frozen_ns: nanos(finished.frozen),
            skipped_ns: clock.scale().to_ns(finished.skipped),
            exits: finished.exits,
            overshoot: finished.overshoot,
            calibration: clock.costs.named(),
            tsc_khz: clock.scale().khz(),
            inside,
            medium_errors: Vec::new(),
            cut_ios: Vec::new(),
            machines: Vec::new(),
            networks: Vec::new(),
            restarts: Vec::new(),
            returns: Vec::new(),
            shared: Vec::new(),
            lost_spans: 0,
        }
    }
}

/// A histogram of times in fixed memory: exact up to 15 ns, then eight buckets
/// to each doubling.
#[derive(Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

const BUCKETS: usize = 16 + 60 * 8;

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts `value`.
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    fn summary(&self) -> Overshoot {
        Overshoot { p50: self.percentile(50), p99: self.percentile(99), max: self.max }
    }

    fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100);
        let mut passed = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            passed += count;
            if passed >= rank && passed > 0 {
                return highest(index).min(self.max);
            }
        }
        0
    }
}

fn bucket(value: u64) -> usize {
    if value < 16 {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros() as usize;
    16 + (exponent - 4) * 8 + (value >> (exponent - 3) & 7) as usize
}

// The largest value of a bucket.
fn highest(index: usize) -> u64 {
    if index < 16 {
        return index as u64;
    }
    let (exponent, step) = ((index - 16) / 8 + 4, (index - 16) % 8);
    let width = 1u64 << (exponent - 3);
    (1u64 << exponent) + (step as u64) * width + (width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_within_an_eighth(mut values in prop::collection::vec(0u64..1 << 40, 1..200)) {
            let mut histogram = Histogram::default();
            for &value in &values { histogram.add(value); }
            values.sort_unstable();
            for percent in [50, 99] {
                let exact = values[(values.len() * percent).div_ceil(100) - 1];
                let got = histogram.percentile(percent as u64);
                prop_assert!(got >= exact && got <= exact + exact / 8, "{got} for {exact}");
            }
            prop_assert_eq!(histogram.summary().max, *values.last().unwrap());
        }
    }
}
