//! Faults on purpose: a medium whose I/Os fail at the places, or at the rate, of a plan.

use std::ops::Range;

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Operation, Request};

use crate::{Finished, HostMedium, Medium, MediumError};

/// The I/Os that fail. They are not carried out at all.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    /// Reads that touch one of these ranges of bytes fail.
    pub bad_to_read: Vec<Range<u64>>,
    /// Writes, discards and writes of zeroes that touch one of these ranges fail.
    pub bad_to_write: Vec<Range<u64>>,
    /// The part of all reads that fails, from 0 to 1.
    pub read_rate: f64,
    /// The part of all writes, discards and writes of zeroes that fails.
    pub write_rate: f64,
    /// The part of all flushes that fails.
    pub flush_rate: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// A medium with the faults of a plan.
#[derive(Debug)]
pub struct Faults<M> {
    inner: M,
    plan: FaultPlan,
    random: Xoshiro256PlusPlus,
    failed: Vec<Finished>,
}

impl<M: Medium> Faults<M> {
    /// Puts faults in front of `inner`. The same plan and the same I/Os give
    /// the same faults.
    pub fn new(inner: M, plan: FaultPlan) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
        Self { inner, plan, random, failed: Vec::new() }
    }

    fn fails(&mut self, command: &Command) -> bool {
        let (bad, rate) = match command.operation {
            Operation::Read => (self.plan.bad_to_read.as_slice(), self.plan.read_rate),
            Operation::Flush => ([].as_slice(), self.plan.flush_rate),
            _ => (self.plan.bad_to_write.as_slice(), self.plan.write_rate),
        };
        let end = command.offset.saturating_add(command.length);
        let touched = bad.iter().any(|bad| bad.start < end && command.offset < bad.end);
        // One number for each I/O, so that a range leaves the others as they were. 53 bits is the
        // precision of an f64.
        let number = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        touched || number < rate
    }
}

impl<M: Medium> Medium for Faults<M> {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn submit(&mut self, request: Request) {
        if self.fails(&request.command) {
            let Request { tag, command: Command { operation, offset, .. }, data, .. } = request;
            let result = Err(MediumError::Injected { operation, offset });
            self.failed.push(Finished { tag, result, data });
        } else {
            self.inner.submit(request);
        }
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        done.append(&mut self.failed);
        self.inner.poll(done);
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        if self.failed.is_empty() {
            self.inner.wait(done);
        } else {
            self.poll(done);
        }
    }

    fn in_flight(&self) -> usize {
        self.failed.len() + self.inner.in_flight()
    }

    fn discard_zeroes(&self) -> bool {
        self.inner.discard_zeroes()
    }
}

impl<M: Medium> HostMedium for Faults<M> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ram;

    fn run(plan: FaultPlan, commands: &[Command]) -> Vec<bool> {
        let mut medium = Faults::new(Ram::new(1 << 20), plan);
        let mut done = Vec::new();
        let one = |command: &Command| {
            medium.submit(Request::new(7, *command, vec![0; command.length as usize]));
            assert_eq!(medium.in_flight(), 1);
            medium.wait(&mut done);
            done.pop().unwrap().result.is_err()
        };
        commands.iter().map(one).collect()
    }

    #[test]
    fn ranges_fail_for_what_touches_them() {
        let plan = FaultPlan { bad_to_write: vec![1024..1025, 9000..9001], ..FaultPlan::default() };
        let command = |operation, offset, length| Command::new(operation, offset, length);
        let commands = [
            command(Operation::Write, 512, 512),
            command(Operation::Write, 512, 513),
            command(Operation::Discard, 1024, 512),
            command(Operation::Read, 1024, 512),
            command(Operation::Write, 1536, 512),
        ];
        assert_eq!(run(plan, &commands), [false, true, true, false, false]);
    }

    #[test]
    fn rates_are_kept_and_repeat() {
        let read = Command::new(Operation::Read, 0, 1);
        let plan = FaultPlan { read_rate: 0.25, seed: 3, ..FaultPlan::default() };
        let failed = run(plan.clone(), &[read; 10_000]);
        let count = failed.iter().filter(|&&failed| failed).count();
        // Four standard deviations of a binomial distribution.
        assert!(count.abs_diff(2500) < 174, "{count}");
        assert_eq!(failed, run(plan, &[read; 10_000]));
    }
}
