//! The parts between the host and the translation layer that commands share: the firmware's
//! processors, the controller's memory, and the firmware's work on discards.
//!
//! Invariant: each part is busy with one thing at a time, in the order in which it was asked.

use stasis_block::clock::Nanos;
use stasis_nand::BusRate;

use crate::spec::Spec;

/// A processor for a time, and for each unit.
#[derive(Debug)]
struct Processors {
    // Times at which each is free again.
    free: Vec<Nanos>,
    command: Nanos,
    unit: Nanos,
}

/// A part that does one thing after another.
#[derive(Debug)]
struct Serial {
    each: Nanos,
    rate: BusRate,
    free: Nanos,
}

impl Serial {
    /// Returns the time at which a request of `now` is done.
    fn take(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let took = self.each.saturating_add(self.rate.time_long(bytes));
        self.free = now.max(self.free).saturating_add(took);
        self.free
    }
}

/// The parts that a drive has; see the [module](self).
#[derive(Debug)]
pub(crate) struct Front {
    processors: Option<Processors>,
    dram: Option<(Serial, u64)>,
    trims: Option<Serial>,
}

impl Front {
    /// Makes the front of a checked description; none of a drive that has none of them.
    pub fn new(spec: &Spec) -> Option<Box<Self>> {
        let rate = |rate: crate::spec::Rate| BusRate::per_second(rate.bytes_per_second());
        let processors = spec.processors.as_ref().map(|processors| Processors {
            free: vec![0; processors.cores as usize],
            command: processors.command,
            unit: processors.unit,
        });
        let dram = spec.dram.as_ref().map(|dram| {
            (Serial { each: 0, rate: rate(dram.rate), free: 0 }, u64::from(dram.passes))
        });
        let trims = spec.trim.as_ref().map(|trim| Serial {
            each: trim.range,
            rate: trim.rate.map_or(BusRate::UNLIMITED, rate),
            free: 0,
        });
        let any = processors.is_some() || dram.is_some() || trims.is_some();
        any.then(|| Box::new(Self { processors, dram, trims }))
    }

    /// Returns the time at which a command for so many units, which has arrived at `now`, has had
    /// its processor: the one that is free first.
    pub fn process(&mut self, now: Nanos, units: u64) -> Nanos {
        let Some(Processors { free, command, unit }) = &mut self.processors else { return now };
        let took = command.saturating_add(unit.saturating_mul(units));
        let Some(first) = free.iter_mut().min() else { return now };
        *first = now.max(*first).saturating_add(took);
        *first
    }

    /// Returns the time at which data that the memory gets at `now` has gone through it.
    pub fn pass(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let Some((dram, passes)) = &mut self.dram else { return now };
        dram.take(now, bytes.saturating_mul(*passes))
    }

    /// Returns the time at which a range that is to be discarded at `now` is forgotten.
    pub fn trim(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.trims.as_mut().map_or(now, |trims| trims.take(now, bytes))
    }

    /// Forgets the work under way.
    pub fn reset(&mut self) {
        if let Some(processors) = &mut self.processors {
            processors.free.fill(0);
        }
        if let Some((dram, _)) = &mut self.dram {
            dram.free = 0;
        }
        if let Some(trims) = &mut self.trims {
            trims.free = 0;
        }
    }
}
