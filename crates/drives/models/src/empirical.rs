//! A model that draws from a measured profile.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Random, Status};

use crate::distribution::Distribution;
use crate::latency::Latency;
use crate::pipeline::Pipeline;
use crate::profile::{Block, Observed, Profile};
use crate::span::Span;

/// ns per second.
const NS_PER_S: f64 = 1e9;

/// Latencies drawn from a [`Profile`].
#[derive(Debug)]
pub struct Empirical {
    operations: [Source; Operation::ALL.len()],
    curves: Vec<Curve>,
    // Limit of each operation; none where the drive is not bounded.
    limits: Option<[Limit; Operation::ALL.len()]>,
    pipeline: Pipeline,
    // Ends of the commands in service, where the drive is bounded.
    ends: BinaryHeap<Reverse<Nanos>>,
    // Subtracted from the times that an application saw (ns).
    path: f64,
    random: Random,
}

/// Source of an operation's latency.
#[derive(Debug, Clone, Copy)]
enum Source {
    Span(Span),
    Curve(usize),
    /// There are no figures.
    Refused(Status),
}

/// Time for which commands of one operation hold the drive's pipeline.
#[derive(Debug, Clone, Default)]
struct Limit {
    ns_per_byte: f64,
    // (bytes, ns) by block size, ascending.
    slots: Vec<(f64, f64)>,
    // (bytes, commands in flight at the measurement) by block size, ascending.
    depths: Vec<(f64, usize)>,
}

impl Limit {
    fn new(profile: &Profile, operation: Operation) -> Self {
        let bandwidth = profile.bandwidth.get(&operation);
        let blocks = || profile.operations.get(&operation).into_iter().flatten();
        let depth = |block: &Block| block.depth.unwrap_or(1) as usize;
        Self {
            ns_per_byte: bandwidth.map_or(0.0, |&bandwidth| NS_PER_S / bandwidth as f64),
            slots: blocks()
                .filter_map(|block| Some((block.block_size as f64, NS_PER_S / block.rate? as f64)))
                .collect(),
            depths: blocks().map(|block| (block.block_size as f64, depth(block))).collect(),
        }
    }

    /// With how many others in service a command still takes what was measured.
    fn others(&self, length: f64) -> usize {
        let after = self.depths.partition_point(|(size, _)| *size < length);
        let depth = self.depths.get(after).or(self.depths.last()).map_or(1, |(_, depth)| *depth);
        depth.saturating_sub(1)
    }

    fn slot(&self, length: f64) -> Nanos {
        let after = self.slots.partition_point(|(size, _)| *size < length);
        let by_rate = match (after.checked_sub(1).map(|i| self.slots[i]), self.slots.get(after)) {
            (Some((size0, ns0)), Some((size1, ns1))) => {
                ns0 + (ns1 - ns0) * (length - size0) / (size1 - size0)
            }
            (None, Some((_, ns))) => *ns,
            // Beyond the largest, as many bytes a second.
            (Some((size, ns)), None) => ns * length / size.max(1.0),
            (None, None) => 0.0,
        };
        by_rate.max(self.ns_per_byte * length).round() as Nanos
    }
}

/// The distributions of one operation by block size, ascending.
#[derive(Debug)]
struct Curve {
    blocks: Vec<(f64, Distribution)>,
    ns_per_byte_beyond: Option<f64>,
}

impl Empirical {
    /// From a checked profile.
    ///
    /// `path` (ns) is the time that the guest's own software adds to each command; it is
    /// subtracted from times that were observed by an application. `costs[o]`
    /// takes the place of the profile's figures for operation `o`. A verify
    /// without figures takes as long as a read; a discard, write-zeroes, copy or flush as long as a
    /// write. A read or a write without figures is refused, and so is what takes its time from
    /// it; a flush of a drive without writes takes no time.
    pub fn new(
        profile: &Profile,
        path: Nanos,
        costs: [Option<Span>; Operation::ALL.len()],
        seed: u64,
    ) -> Self {
        use Operation::{Read, Write};
        let mut curves = Vec::new();
        let mut curve_of = [None; Operation::ALL.len()];
        for (&operation, blocks) in &profile.operations {
            curve_of[operation as usize] = Some(curves.len());
            curves.push(Curve::new(profile, operation, blocks));
        }
        let source = |operation: Operation| {
            let own = |o: Operation| {
                costs[o as usize].map(Source::Span).or(curve_of[o as usize].map(Source::Curve))
            };
            let (next, without) = match operation {
                Operation::Read | Operation::Verify => (Read, Source::Refused(Status::ReadError)),
                Operation::Flush | Operation::Barrier => (Write, Source::Span(Span::default())),
                _ => (Write, Source::Refused(Status::WriteError)),
            };
            own(operation).or(own(next)).unwrap_or(without)
        };
        let path = match profile.observed {
            Observed::Device => 0.0,
            Observed::Application => path as f64,
        };
        let operations = Operation::ALL.map(source);
        let limits = Some(Operation::ALL.map(|operation| Limit::new(profile, operation)));
        let (pipeline, random) = (Pipeline::default(), Random::new(seed));
        Self { operations, curves, limits, pipeline, ends: BinaryHeap::new(), path, random }
    }

    /// Removes the pipeline that a drive's commands share.
    pub(crate) fn without_limits(mut self) -> Self {
        self.limits = None;
        self
    }
}

impl Latency for Empirical {
    fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    fn latency(&mut self, now: Nanos, command: &Command) -> Nanos {
        let (operation, length) = (command.operation as usize, command.length as f64);
        let Some(limit) = self.limits.as_ref().map(|limits| &limits[operation]) else {
            return self.alone(command);
        };
        let (slot, others) = (limit.slot(length), limit.others(length));
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= now) {
            self.ends.pop();
        }
        let wait = if self.ends.len() <= others {
            self.pipeline.pass(now, slot);
            0
        } else if slot > 0 {
            self.pipeline.enter(now, slot)
        } else {
            0
        };
        let latency = wait.saturating_add(self.alone(command));
        self.ends.push(Reverse(now.saturating_add(latency)));
        latency
    }

    fn refuses(&self, command: &Command) -> Option<Status> {
        match self.operations[command.operation as usize] {
            Source::Refused(status) => Some(status),
            _ => None,
        }
    }
}

impl Empirical {
    /// Time of a command that waits for no other (ns).
    fn alone(&mut self, command: &Command) -> Nanos {
        match self.operations[command.operation as usize] {
            // It never gets here.
            Source::Refused(_) => 0,
            Source::Span(span) => span.sample(&mut self.random),
            Source::Curve(curve) => {
                let share = self.random.unit();
                let ns = self.curves[curve].latency(share, command.length as f64);
                // A cast saturates, below at 0.
                (ns - self.path).round() as Nanos
            }
        }
    }
}

impl Curve {
    fn new(profile: &Profile, operation: Operation, blocks: &[Block]) -> Self {
        let distribution = |block: &Block| {
            if block.samples.is_empty() {
                Distribution::of_percentiles(&block.percentiles, profile.interpolation)
            } else {
                Distribution::of_samples(&block.samples, profile.interpolation)
            }
        };
        Self {
            blocks: blocks.iter().map(|b| (b.block_size as f64, distribution(b))).collect(),
            ns_per_byte_beyond: profile
                .bandwidth
                .get(&operation)
                .map(|&bandwidth| NS_PER_S / bandwidth as f64),
        }
    }

    fn latency(&self, share: f64, length: f64) -> f64 {
        let after = self.blocks.partition_point(|(size, _)| *size < length);
        let at = |i: usize| self.blocks[i].1.quantile(share);
        if after == 0 {
            return self.blocks.first().map_or(0.0, |(_, d)| d.quantile(share));
        }
        let (size0, ns0) = (self.blocks[after - 1].0, at(after - 1));
        if after < self.blocks.len() {
            let (size1, ns1) = (self.blocks[after].0, at(after));
            return ns0 + (ns1 - ns0) * (length - size0) / (size1 - size0);
        }
        let slope = match self.ns_per_byte_beyond {
            Some(slope) => slope,
            None if after >= 2 => {
                ((ns0 - at(after - 2)) / (size0 - self.blocks[after - 2].0)).max(0.0)
            }
            None => 0.0,
        };
        ns0 + slope * (length - size0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(observed: &str) -> Profile {
        Profile::from_json(
            &r#"{"format": "stasis-profile", "version": 1, "name": "x", "observed": "OBSERVED",
            "operations": {
              "read": [{"block_size": 4096, "samples": [1000]},
                       {"block_size": 8192, "samples": [3000]}],
              "write": [{"block_size": 4096, "samples": [500]}]},
            "bandwidth": {"write": 1000000000}}"#
                .replace("OBSERVED", observed),
        )
        .unwrap()
    }

    fn command(operation: Operation, length: u64) -> Command {
        Command::new(operation, 0, length)
    }

    #[test]
    fn block_sizes_are_interpolated_and_continued() {
        let mut model = Empirical::new(&profile("device"), 400, [None; Operation::ALL.len()], 1);
        for (operation, length, ns) in [
            (Operation::Read, 512, 1000),
            (Operation::Read, 4096, 1000),
            (Operation::Read, 6144, 2000),
            (Operation::Read, 8192, 3000),
            (Operation::Read, 12288, 5000),
            (Operation::Write, 5096, 1500),
            (Operation::Flush, 0, 500),
            (Operation::Discard, 4096, 500),
        ] {
            assert_eq!(model.latency(0, &command(operation, length)), ns, "{operation:?} {length}");
        }
    }

    #[test]
    fn what_an_application_saw_loses_the_path() {
        let mut costs = [None; Operation::ALL.len()];
        costs[Operation::Flush as usize] = Some(Span::fixed(7));
        let mut model = Empirical::new(&profile("application"), 600, costs, 1);
        assert_eq!(model.latency(0, &command(Operation::Read, 4096)), 400);
        assert_eq!(model.latency(0, &command(Operation::Write, 4096)), 0);
        assert_eq!(model.latency(0, &command(Operation::Flush, 0)), 7);
    }
}
