//! Faults of a network: partitions and delays, at times or by triggers.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_run_events::FaultRecord;

/// A fault of a network, resolved. Times count from the commands' start, or from its trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkFault {
    /// Number among the experiment's faults.
    pub number: u16,
    /// Time at which it begins (ns).
    pub begin: Nanos,
    /// Time at which it ends (ns), if it does.
    pub end: Option<Nanos>,
    /// True if something else than time brings it about.
    pub triggered: bool,
    /// Ports on the one side.
    pub side: Vec<usize>,
    /// Ports on the other side.
    pub peers: Vec<usize>,
    /// True if frames from the one side are befallen only; else those to it are as well.
    pub one_way: bool,
    /// Share of the frames that are lost.
    pub loss: f64,
    /// Time that is added to the delay of the others (ns).
    pub delay: Nanos,
}

impl NetworkFault {
    fn is_between(&self, from: usize, to: usize) -> bool {
        let goes = |from, to| self.side.contains(&from) && self.peers.contains(&to);
        goes(from, to) || !self.one_way && goes(to, from)
    }

    fn holds(&self, at: Nanos) -> bool {
        at >= self.begin && self.end.is_none_or(|end| at < end)
    }
}

/// The faults of a network, and the frames that they have befallen.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Faults whose times count from the commands' start.
    coming: Vec<NetworkFault>,
    /// Faults that wait for their triggers.
    waiting: Vec<NetworkFault>,
    befallen: Vec<FaultRecord>,
}

/// The effect of faults on a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effect {
    /// Share of such frames that arrive.
    pub kept: f64,
    /// Time that is added to the delay (ns).
    pub delay: Nanos,
}

impl Faults {
    pub(crate) fn new(faults: Vec<NetworkFault>) -> Self {
        let (waiting, coming) = faults.into_iter().partition(|fault| fault.triggered);
        Self { coming, waiting, befallen: Vec::new() }
    }

    /// Replaces the faults. Effects that triggers have brought about go on, if their faults stay.
    pub(crate) fn change(&mut self, faults: Vec<NetworkFault>) {
        let (waiting, mut coming): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|fault: &NetworkFault| fault.triggered);
        let stays = |fault: &NetworkFault| {
            fault.triggered && waiting.iter().any(|other| other.number == fault.number)
        };
        self.coming.retain(stays);
        self.coming.append(&mut coming);
        self.waiting = waiting;
    }

    /// Starts fault `number` at `since` after the commands' start (ns) if it is one of these.
    pub(crate) fn trigger(&mut self, number: u16, since: Nanos) {
        let its = self.waiting.iter().find(|fault| fault.number == number).cloned();
        let Some(mut fault) = its else { return };
        // Those that are over take no room.
        self.coming.retain(|other| other.end.is_none_or(|end| end > since));
        fault.begin = since.saturating_add(fault.begin);
        fault.end = fault.end.map(|end| since.saturating_add(end));
        self.coming.push(fault);
    }

    /// The effect on a frame that leaves port `from` for `to` at `since` after the commands' start
    /// (ns).
    pub(crate) fn effect(&self, from: usize, to: usize, since: Nanos) -> Effect {
        let mut effect = Effect { kept: 1.0, delay: 0 };
        for fault in self.of(from, to, since) {
            effect.kept *= 1.0 - fault.loss;
            effect.delay = effect.delay.saturating_add(fault.delay);
        }
        effect
    }

    fn of(&self, from: usize, to: usize, since: Nanos) -> impl Iterator<Item = &NetworkFault> {
        let its = move |fault: &&NetworkFault| fault.is_between(from, to) && fault.holds(since);
        self.coming.iter().filter(its)
    }

    /// Records the faults of a frame of `length` bytes that is `lost` or late. The frame leaves
    /// port `from` for `to` at `since` after the commands' start, and at `at` in the run's time
    /// (ns).
    pub(crate) fn befall(
        &mut self,
        (from, to): (usize, usize),
        (since, at): (Nanos, Nanos),
        lost: bool,
        length: u64,
    ) {
        let acts = |fault: &&NetworkFault| (lost && fault.loss > 0.0) || (!lost && fault.delay > 0);
        let numbers: Vec<u16> =
            self.of(from, to, since).filter(acts).map(|fault| fault.number).collect();
        let record = |fault| FaultRecord { fault, at, order: None, offset: 0, length };
        self.befallen.extend(numbers.into_iter().map(record));
    }

    /// The frames that faults have befallen since the last call.
    pub(crate) fn take_befallen(&mut self) -> Vec<FaultRecord> {
        std::mem::take(&mut self.befallen)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.coming.is_empty()
    }
}
