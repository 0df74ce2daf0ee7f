//! A queue of `bfq`: its waiting requests, its budget, its apparent behaviour.

use stasis_block::clock::Nanos;

use super::raise::Raise;
use super::BfqSpec;
use crate::anticipation::Anticipation;
use crate::clook_queue::ClookQueue;
use crate::pool::{Held, Pool};
use crate::priority::{Class, Priority};
use crate::{QueueSpec, QueueStatistics};

/// The largest budget while the drive's rate is not known: 8 MiB (Valente and
/// Checconi 2010).
pub(super) const MAX_FIRST: u64 = 16 * 1024;
/// Budgets go down to this part of the largest: an interactive task of a few
/// requests still fits (BFQ).
const MIN_DIVISOR: u64 = 32;
/// A new queue begins with this part of the largest: a small budget finishes
/// early, so it is served soon, and three that are used up make it the largest.
const BEGINNING: u64 = 8;

/// Lane of a request.
pub(super) fn lane(held: &Held) -> usize {
    match (held.sync, held.urgent) {
        (false, _) => ASYNC,
        (true, false) => SYNC,
        (true, true) => URGENT,
    }
}

/// Reason for the end of a queue's service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its next request exceeds the rest of its budget.
    Exhausted,
    /// The queue had the drive for too long.
    Timeout,
    /// The queue has nothing to do.
    Emptied,
    /// Another is more urgent.
    Preempted,
}

/// The lanes: of requests that nobody waits for, of those that the owner waits for, and of those
/// among them that the owner prefers.
pub(super) const ASYNC: usize = 0;
pub(super) const SYNC: usize = 1;
pub(super) const URGENT: usize = 2;
pub(super) const LANES: usize = 3;

/// A queue's requests of one kind. Each lane has a separate order, so that a reader is waited for
/// independent of data written back beside it, and does not wait for that.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) clook: ClookQueue,
    pub(super) anticipation: Anticipation,
    pub(super) in_flight: usize,
    /// In sectors; 0 until its first turn.
    budget: u64,
}

impl Lane {
    fn new(ordered: bool) -> Self {
        let clook = if ordered { ClookQueue::in_batches() } else { ClookQueue::default() };
        Self { clook, ..Self::default() }
    }

    /// Returns the lane's next budget, never more than `max`: a default before the queue has learnt
    /// a better one.
    pub(super) fn budget(&self, max: u64) -> u64 {
        let budget = if self.budget == 0 { max / BEGINNING } else { self.budget };
        budget.clamp((max / MIN_DIVISOR).max(1), max)
    }

    /// Budget feedback (2010; own steps): one that uses its budget up gets twice as much, so that
    /// sequential ones soon pay few seeks; one that could not gets the amount it used, so that it
    /// is served the sooner next time.
    pub(super) fn adjust(&mut self, reason: Reason, granted: u64, served: u64, max: u64) {
        let smallest = (max / MIN_DIVISOR).max(1);
        let reason = if served >= granted { Reason::Exhausted } else { reason };
        self.budget = match reason {
            Reason::Exhausted => granted.saturating_mul(2).clamp(smallest, max),
            Reason::Timeout | Reason::Emptied => served.clamp(smallest, max),
            Reason::Preempted => self.budget(max),
        };
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.clook.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) entity: u32,
    pub(super) group: Option<u32>,
    pub(super) spec: QueueSpec,
    /// Its requests' latest, which it changes to when it next waits.
    pub(super) wanted: Priority,
    pub(super) class: Class,
    pub(super) lanes: [Lane; LANES],
    /// A bit for each lane in which something waits, and the number of requests in flight: usually
    /// all but one of the lanes are empty, and each is some lines of the cache.
    waiting: u8,
    in_flight: u32,
    /// Its last turn was for late requests that nobody waits for.
    pub(super) wrote_back: bool,
    /// Time when the last request was sent that the owner waits for but does not prefer.
    pub(super) yielded: Nanos,
    pub(super) removed: bool,
    pub(super) helped: bool,
    /// Its weight is still that of the time when it seemed interactive or soft real-time.
    pub(super) weighs_raised: bool,
    pub(super) raise: Raise,
    pub(super) statistics: QueueStatistics,
}

impl Queue {
    pub(super) fn new(entity: u32, spec: &QueueSpec, group: Option<u32>) -> Self {
        Self {
            entity,
            group,
            spec: *spec,
            wanted: spec.priority,
            class: spec.priority.class,
            lanes: std::array::from_fn(|_| Lane::new(spec.ordered)),
            waiting: 0,
            in_flight: 0,
            wrote_back: false,
            yielded: 0,
            removed: false,
            helped: false,
            weighs_raised: false,
            raise: Raise::default(),
            statistics: QueueStatistics::default(),
        }
    }

    /// A request has come to a lane, or left it for the drive.
    pub(super) fn changed(&mut self, lane: usize, sent: bool) {
        self.waiting &= !(1 << lane);
        self.waiting |= u8::from(!self.lanes[lane].clook.is_empty()) << lane;
        self.in_flight += u32::from(sent);
        self.lanes[lane].in_flight += usize::from(sent);
    }

    /// The drive is done with a request of a lane.
    pub(super) fn done(&mut self, lane: usize) {
        self.in_flight -= 1;
        self.lanes[lane].in_flight -= 1;
    }

    /// Returns whether something waits in a lane.
    pub(super) fn waits(&self, lane: usize) -> bool {
        self.waiting & 1 << lane != 0
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting != 0
    }

    fn waiting(&self) -> impl Iterator<Item = &Lane> {
        (0..LANES).filter(|&lane| self.waits(lane)).map(|lane| &self.lanes[lane])
    }

    /// Returns whether no request of the queue waits or is in flight.
    pub(super) fn is_done(&self) -> bool {
        self.waiting == 0 && self.in_flight == 0
    }

    /// Sectors of the next of its requests, of any lane.
    pub(super) fn next_sectors(&self, pool: &Pool) -> u64 {
        let next = self.waiting().filter_map(|lane| lane.clook.next());
        next.map(|slot| pool.get(slot).sectors).max().unwrap_or(0)
    }

    pub(super) fn is_raised(&self, now: Nanos) -> bool {
        self.helped || self.raise.is_on(now)
    }

    pub(super) fn weight(&self, now: Nanos, spec: &BfqSpec) -> u64 {
        let helped = if self.helped { spec.help_raise } else { 1 };
        let raised = if self.raise.is_on(now) { spec.raise } else { 1 };
        u64::from(self.spec.effective_weight()) * u64::from(helped.max(raised))
    }

    /// Returns the queue's next budget: enough for whichever lane's turn it will be, and never more
    /// than `max`.
    pub(super) fn budget(&self, max: u64) -> u64 {
        self.waiting().map(|lane| lane.budget(max)).max().unwrap_or(1)
    }
}
