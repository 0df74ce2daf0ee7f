//! Faults of the host's commands, by address: an experiment injects them whatever the data's place
//! on the array.

use std::ops::Range;

use stasis_block::clock::Nanos;
use stasis_block::{Fate, Operation, Status};
use stasis_nand::hash::{bits, unit};

use crate::ftl::Request;
use crate::spec::{FaultKind, FaultSpec};

#[derive(Debug, Clone)]
struct Rule {
    kind: FaultKind,
    bytes: Range<u64>,
    time: Range<Nanos>,
    rate: f64,
    remaining: u64,
}

/// The effect of the faults on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fortune {
    /// No fault.
    Well,
    /// The command never completes.
    Stuck,
    /// The command ends with this fate.
    Fate(Fate),
}

/// Faults by address, in the order in which they are looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogicalFaults {
    rules: Vec<Rule>,
    seed: u64,
    number: u64,
}

impl LogicalFaults {
    pub fn new(specs: &[FaultSpec], capacity: u64, seed: u64) -> Self {
        let logical = specs.iter().filter(|spec| spec.of_array(1).is_none());
        let rules = logical.map(|spec| Rule {
            kind: spec.kind,
            bytes: spec.offset
                ..spec.length.map_or(capacity, |length| spec.offset.saturating_add(length)),
            time: spec.from..spec.until.unwrap_or(Nanos::MAX),
            rate: spec.rate,
            remaining: spec.count.unwrap_or(u64::MAX),
        });
        Self { rules: rules.collect(), seed, number: 0 }
    }

    /// Draws by `seed` from now on.
    pub fn reseed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Applies the rules to a request that reaches the drive at `now`, and counts it.
    pub fn strike(&mut self, now: Nanos, request: &Request) -> Fortune {
        if self.rules.is_empty() || request.length == 0 {
            return Fortune::Well;
        }
        self.number += 1;
        let end = request.offset.saturating_add(request.length);
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let reads =
                matches!(request.operation, Operation::Read | Operation::Verify | Operation::Copy);
            let concerns = match rule.kind {
                FaultKind::StuckCommand => true,
                FaultKind::FailedWrite => {
                    matches!(request.operation, Operation::Write | Operation::WriteZeroes)
                }
                _ => reads,
            };
            let draw = bits(self.seed ^ ((index as u64 + 1) << 40), self.number);
            let struck = concerns
                && rule.remaining > 0
                && rule.bytes.start < end
                && request.offset < rule.bytes.end
                && rule.time.contains(&now)
                && (rule.rate >= 1.0 || unit(draw) < rule.rate);
            if !struck {
                continue;
            }
            rule.remaining -= 1;
            let first = rule.bytes.start.max(request.offset) - request.offset;
            let failed = |status| Fortune::Fate(Fate::Failed { status, at: first });
            return match rule.kind {
                FaultKind::StuckCommand => Fortune::Stuck,
                FaultKind::FailedWrite => failed(Status::WriteError),
                FaultKind::Corrupt => {
                    // One bit of the data in the faulty range.
                    let last = rule.bytes.end.min(end) - request.offset;
                    let width = (last - first).max(1) * 8;
                    Fortune::Fate(Fate::Corrupted { seed: first * 8 + bits(draw, 1) % width })
                }
                _ => failed(Status::ReadError),
            };
        }
        Fortune::Well
    }
}
