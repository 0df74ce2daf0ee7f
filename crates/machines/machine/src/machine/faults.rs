//! The faults of a machine: failures, pauses, faults of the paths to its drives, and those that its agent
//! brings about. Each kind owns its own; what befalls all of them is here.
//! Triggers other than a time are in `triggers.rs`.

use stasis_block::clock::Nanos;

use super::changes::MachineFaults;
use super::failures::Failures;
use super::orders::Orders;
use super::path_faults::PathFaults;
use super::pauses::Pauses;
use crate::freeze::Scale;

/// A fault that lies before the moment of a change: its kind, and when it begins (ns).
pub(super) type Early = (&'static str, Nanos);

/// The faults.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) failures: Failures,
    pub(super) pauses: Pauses,
    pub(super) paths: PathFaults,
    pub(super) orders: Orders,
}

impl Faults {
    /// Creates the faults of a machine and of the paths to its drives.
    pub(super) fn new(faults: MachineFaults, paths: PathFaults) -> Self {
        let MachineFaults { failures, pauses, orders } = faults;
        Self {
            failures: Failures::new(failures),
            pauses: Pauses::new(pauses),
            paths,
            orders: Orders::new(orders),
        }
    }

    /// The commands begin at `now` (ns).
    pub(super) fn begin(&mut self, now: Nanos) {
        self.pauses.begin(now);
        self.paths.begin(now);
        self.failures.begin(now);
        self.orders.begin(now);
    }

    /// Starts fault `number` at `now` (ns) if it is one of these. Returns whether the agent must be
    /// called.
    pub(super) fn trigger(&mut self, number: u16, now: Nanos) -> bool {
        self.failures.trigger(number, now);
        self.pauses.trigger(number, now);
        self.paths.trigger(number, now);
        self.orders.trigger(number, now) && !self.failures.is_off()
    }

    /// Replaces the faults that come from `now` (ns) on, except those of paths; see
    /// [`Failures::change`]. Of those that lie before, returns the first whose fault is not one of
    /// `known`.
    pub(super) fn change(
        &mut self,
        faults: MachineFaults,
        known: &[u16],
        now: Nanos,
    ) -> Option<Early> {
        let failure = self.failures.change(faults.failures, known, now);
        let pause = self.pauses.change(faults.pauses, known, now);
        let order = self.orders.change(faults.orders, known, now);
        let early = failure.map(|failure| ("a failure", failure.at));
        let early = early.or(pause.map(|pause| ("a pause", pause.begin)));
        early.or(order.map(|(_, begin)| ("a fault in the guest", begin)))
    }

    /// The time at which the next of those that the machine brings about is due (ticks).
    pub(super) fn next_event(&self, scale: Scale) -> Option<u64> {
        let failure = self.failures.next_event().map(|at| scale.to_ticks(at));
        let events = [self.pauses.next_event(scale), self.paths.next_event(scale), failure];
        events.into_iter().flatten().min()
    }
}
