//! The host link: each way, one transfer after another.

use stasis_block::clock::Nanos;
use stasis_nand::BusRate;

use crate::spec::Rate;

/// A link that carries data both ways at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    out: BusRate,
    into: BusRate,
    to_host: Nanos,
    to_drive: Nanos,
}

impl Link {
    pub fn new(rate: Option<Rate>) -> Self {
        Self::of([rate, rate])
    }

    /// Makes a link of one rate to the host, and another one to the drive.
    pub fn of(rates: [Option<Rate>; 2]) -> Self {
        let [out, into] = rates.map(|rate| {
            rate.map_or(BusRate::UNLIMITED, |rate| BusRate::per_second(rate.bytes_per_second()))
        });
        Self { out, into, to_host: 0, to_drive: 0 }
    }

    /// Sets the rates of later transfers.
    pub fn set_rates(&mut self, rates: [Option<Rate>; 2]) {
        let Self { out, into, .. } = Self::of(rates);
        (self.out, self.into) = (out, into);
    }

    /// Returns the time at which data that is ready at `now` has reached the host.
    pub fn send(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let end = now.max(self.to_host).saturating_add(self.out.time_long(bytes));
        self.to_host = end;
        end
    }

    /// Returns the time at which data that the host offers at `now` has reached the drive.
    pub fn receive(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let end = now.max(self.to_drive).saturating_add(self.into.time_long(bytes));
        self.to_drive = end;
        end
    }

    /// Forgets the transfers under way.
    pub fn reset(&mut self) {
        (self.to_host, self.to_drive) = (0, 0);
    }
}
