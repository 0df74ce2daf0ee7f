//! Entities that are served, and virtual time. Weights come from `QueueSpec::effective_weight`
//! (`lib.rs`), raised in `kinds/bfq/queue.rs`.

/// Virtual time: sectors per unit of weight, in fixed point.
pub(in crate::kinds::bfq) type Virtual = u128;

/// Fraction bits of virtual time: a sector moves it by at least 2^8 at the
/// largest sum of weights (2^32), and 2^56 sectors fit.
const FRACTION: u32 = 40;

/// A time and the entity it belongs to, as one number: entities of one time are in the order of
/// their numbers.
pub(super) fn at(time: Virtual, id: u32) -> u128 {
    time.min(LAST) << 32 | u128::from(id)
}

/// The time, and whose it is.
pub(super) fn of_key(key: u128) -> (Virtual, u32) {
    (key >> 32, key as u32)
}

/// `sectors` over a weight, in virtual time.
pub(super) fn amount(sectors: u64, weight: u64) -> Virtual {
    // A division of two words is quick, one of four is not.
    if sectors < 1 << (u64::BITS - FRACTION) {
        Virtual::from((sectors << FRACTION) / weight)
    } else {
        (Virtual::from(sectors) << FRACTION) / Virtual::from(weight)
    }
}

/// The end of virtual time: 2^56 sectors at the least weight.
pub(super) const LAST: Virtual = (1 << 96) - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// Nothing to do.
    #[default]
    Idle,
    /// Nothing to do, and served ahead of the ideal system.
    Ahead,
    /// Has something to do.
    Waiting,
    /// Has the drive.
    Served,
}

/// Owner of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::bfq) enum Owner {
    Queue(u32),
    Group(u32),
}

/// A queue or a group, as B-WF2Q+ sees it.
#[derive(Debug)]
pub(in crate::kinds::bfq) struct Entity {
    pub(in crate::kinds::bfq) owner: Owner,
    pub(super) weight: u64,
    pub(super) start: Virtual,
    pub(super) finish: Virtual,
    // The budget from which its finish was computed, and its service since its start.
    pub(super) budget: u64,
    pub(super) served: u64,
    pub(super) state: State,
    // True if it need not be eligible.
    pub(super) urgent: bool,
    // Its number among those of its server; `NOWHERE` before it first waits there.
    pub(super) place: u32,
}

pub(super) const NOWHERE: u32 = u32::MAX;

impl Entity {
    pub(in crate::kinds::bfq) fn new(owner: Owner, weight: u64) -> Self {
        let (start, finish, budget, served) = (0, 0, 0, 0);
        let (state, urgent, place) = (State::Idle, false, NOWHERE);
        Self { owner, weight, start, finish, budget, served, state, urgent, place }
    }

    pub(in crate::kinds::bfq) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// The budget from which its finish was computed, in sectors.
    pub(in crate::kinds::bfq) fn budget(&self) -> u64 {
        self.budget
    }

    /// Returns whether it neither waits nor has the drive.
    pub(in crate::kinds::bfq) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle | State::Ahead)
    }

    /// `sectors` of service, in virtual time.
    pub(super) fn amount(&self, sectors: u64) -> Virtual {
        amount(sectors, self.weight)
    }
}
