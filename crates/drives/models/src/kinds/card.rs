//! A memory card or embedded memory with simple firmware.
//!
//! Such firmware keeps its map by large *units* and has few of them open for
//! writing at once (Bergmann, "Optimizing Linux with cheap flash drives",
//! LWN.net, 2011). A write that continues where an open unit was left costs its
//! transfer. Any other needs a unit to be opened, and once as many are open as
//! can be, the one that was written longest ago is closed before: its unwritten part is copied,
//! which takes long. So sequential writes are quick, a few sequential streams as well, and random
//! ones are slow however short they are. Reads take an access and their transfer, wherever they
//! are. One command at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Command, Model, Operation, Random, Rate, TimePerByte};

use super::Parameters;
use crate::latency::{Independent, Latency};
use crate::span::Span;
use crate::spec::{range, BuildContext, BuildError, Problem};

/// Maximum number of open units.
const MAX_OPEN: u32 = 1024;
/// The smallest unit (bytes): a page of flash.
const MIN_UNIT: u64 = 4096;

/// A memory card's description: `{ kind = "card", ... }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CardSpec {
    /// Time of a read before its transfer.
    pub read: Span,
    /// The rate of a read's transfer.
    pub read_rate: Rate,
    /// Time of a write before its transfer.
    pub write: Span,
    /// The rate of a write's transfer.
    pub write_rate: Rate,
    /// Bytes of a unit; 4MiB if not given.
    #[serde(default = "unit", with = "units::size")]
    pub unit: u64,
    /// Units that can be open for writing; 2 if not given.
    #[serde(default = "open_units")]
    #[schemars(range(min = 1, max = MAX_OPEN))]
    pub open_units: u32,
    /// Time to close a unit.
    pub close: Span,
    /// Time of a flush; 0 if not given.
    #[serde(default)]
    pub flush: Span,
    /// Time of a discard; 0 if not given.
    #[serde(default)]
    pub discard: Span,
}

fn unit() -> u64 {
    4 << 20
}

fn open_units() -> u32 {
    2
}

impl Parameters for CardSpec {
    const NAME: &'static str = "card";

    fn check(&mut self) -> Result<(), Problem> {
        if self.unit < MIN_UNIT {
            let least = units::format_size(MIN_UNIT);
            return Err(Problem::value("unit", format!("must be at least {least}")));
        }
        range("open_units", self.open_units, MAX_OPEN)
    }

    fn build(&self, _label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        Ok(Box::new(Independent::new(Card::new(self, context.seed), Some(1))))
    }
}

// A unit that is open: where its next write is, in order.
#[derive(Debug, Clone, Copy)]
struct Open {
    number: u64,
    next: u64,
}

/// A memory card; see the [module](self).
#[derive(Debug)]
pub struct Card {
    spec: CardSpec,
    read: TimePerByte,
    write: TimePerByte,
    // The one written last at the end.
    open: Vec<Open>,
    random: Random,
}

impl Card {
    /// A card with no unit open.
    pub fn new(spec: &CardSpec, seed: u64) -> Self {
        Self {
            read: spec.read_rate.time_per_byte(),
            write: spec.write_rate.time_per_byte(),
            open: Vec::with_capacity(spec.open_units as usize),
            random: Random::new(seed),
            spec: spec.clone(),
        }
    }

    /// Opens unit `number`, if needed, for a write of `offset` to `end` within it; returns the time
    /// (ns).
    fn enter(&mut self, number: u64, offset: u64, end: u64) -> Nanos {
        let mut time = 0;
        if let Some(at) = self.open.iter().position(|open| open.number == number) {
            let mut open = self.open.remove(at);
            if offset < open.next {
                // It cannot be written twice: closed, and opened again.
                time = self.spec.close.sample(&mut self.random);
            }
            open.next = end;
            self.open.push(open);
            return time;
        }
        if self.open.len() >= self.spec.open_units as usize {
            self.open.remove(0);
            time = self.spec.close.sample(&mut self.random);
        }
        self.open.push(Open { number, next: end });
        time
    }

    fn written(&mut self, offset: u64, length: u64) -> Nanos {
        let (mut at, end) = (offset, offset.saturating_add(length));
        let mut time = self.spec.write.sample(&mut self.random);
        time = time.saturating_add(self.write.times(length));
        // A long command opens each unit that it meets; more than are open at
        // once close each other. Of very many, those in the middle all cost the
        // same.
        let many = 2 * u64::from(self.spec.open_units);
        while at < end {
            let number = at / self.spec.unit;
            let remaining = (end - at) / self.spec.unit;
            if remaining > 2 * many && at > offset.saturating_add(many * self.spec.unit) {
                let skipped = remaining - many;
                let close = self.spec.close.sample(&mut self.random);
                time = time.saturating_add(close.saturating_mul(skipped));
                at += skipped * self.spec.unit;
                continue;
            }
            let unit_end = (number + 1).saturating_mul(self.spec.unit).min(end);
            time = time.saturating_add(self.enter(number, at, unit_end));
            at = unit_end;
        }
        time
    }
}

impl Latency for Card {
    fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    fn latency(&mut self, _now: Nanos, command: &Command) -> Nanos {
        let Command { offset, length, .. } = *command;
        match command.operation {
            Operation::Read | Operation::Verify => {
                let access = self.spec.read.sample(&mut self.random);
                access.saturating_add(self.read.times(length))
            }
            Operation::Write | Operation::WriteZeroes => self.written(offset, length),
            Operation::Copy => {
                let time = self.written(offset, length);
                time.saturating_add(self.read.times(length))
            }
            Operation::Flush => self.spec.flush.sample(&mut self.random),
            Operation::Discard => self.spec.discard.sample(&mut self.random),
            // The drive around the model completes them.
            Operation::Barrier => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Nanos = 1_000;

    fn card() -> Card {
        let spec = CardSpec {
            read: Span::fixed(100 * MICROSECOND),
            read_rate: Rate::per_second(100_000_000),
            write: Span::fixed(50 * MICROSECOND),
            write_rate: Rate::per_second(50_000_000),
            unit: 1 << 20,
            open_units: 2,
            close: Span::fixed(10_000 * MICROSECOND),
            flush: Span::default(),
            discard: Span::default(),
        };
        Card::new(&spec, 1)
    }

    fn ask(card: &mut Card, operation: Operation, offset: u64, length: u64) -> Nanos {
        card.latency(0, &Command::new(operation, offset, length)) / MICROSECOND
    }

    #[test]
    fn streams_are_quick_as_long_as_their_units_are_open() {
        let mut card = card();
        let mut write = |offset| ask(&mut card, Operation::Write, offset, 50_000);
        const FAR: u64 = 100 << 20;
        let quick = 50 + 1000;
        // Two streams in turn, within a unit each.
        for step in 0..20 {
            assert_eq!((write(step * 50_000), write(FAR + step * 50_000)), (quick, quick));
        }
        // A third closes the first, and that one then the second.
        assert_eq!(write(2 * FAR), quick + 10_000);
        assert_eq!(write(960_000), quick + 10_000);
        assert_eq!(write(2 * FAR + 50_000), quick, "still open");
        // Backwards.
        assert_eq!(write(2 * FAR), quick + 10_000);
    }

    #[test]
    fn random_writes_close_a_unit_each_and_reads_none() {
        let mut card = card();
        let mut slow = 0;
        for step in 0..50u64 {
            let place = (step * 7919 % 1000) << 20;
            slow += u32::from(ask(&mut card, Operation::Write, place, 4096) > 10_000);
            assert_eq!(ask(&mut card, Operation::Read, place, 100_000), 100 + 1000);
        }
        assert_eq!(slow, 48, "all but the first two");
    }

    #[test]
    fn the_longest_write_is_no_loop_without_end() {
        let mut card = card();
        let closed = ((1u64 << 40 >> 20) - 2) * 10_000;
        let time = ask(&mut card, Operation::WriteZeroes, 0, 1 << 40);
        assert_eq!(time, 50 + (1 << 40) / 50 + closed);
        ask(&mut card, Operation::WriteZeroes, 5, u64::MAX - 5);
    }

    #[test]
    fn a_long_write_goes_from_unit_to_unit() {
        let mut card = card();
        // Four units, of which two are closed for the later ones.
        let time = ask(&mut card, Operation::Write, 0, 4 << 20);
        assert_eq!(time, 50 + (4 << 20) / 50 + 20_000);
    }
}
