//! B-WF2Q+: who is next, so that each gets its weight's share of the sectors
//! whatever the sizes of the budgets.
//!
//! As in WF2Q+ (Bennett and Zhang, "Hierarchical Packet Fair Queueing
//! Algorithms", IEEE/ACM ToN 5(5), 1997) with budgets in the place of packets
//! (Valente and Checconi, "High Throughput Disk Scheduling with Fair Bandwidth
//! Distribution", IEEE ToC 59(9), 2010): of those whose start is not after the
//! system's virtual time, the one with the earliest finish; and a budget that is
//! not used up counts by what was used. Virtual time goes by a sector over the
//! sum of the weights that the ideal system would be serving: those that have
//! something to do, and those that have been served ahead of it and left
//! (Parekh and Gallager, IEEE/ACM ToN 1(3), 1993).

use crate::forest::{Forest, Root};
use crate::queues::Slab;

/// Virtual time: sectors per unit of weight, in fixed point.
pub(super) type Virtual = u128;

/// Fraction bits of virtual time: a sector moves it by at least 2^8 at the
/// largest sum of weights (2^32), and 2^56 sectors fit.
const FRACTION: u32 = 40;

/// The trees of all levels: by start with the least finish, or by finish. What
/// is of one time is in the order of its numbers.
pub(super) type Trees = Forest<u128>;

/// A time and whose it is, as one number.
fn at(time: Virtual, id: u32) -> u128 {
    time.min(LAST) << 32 | u128::from(id)
}

/// The time, and whose it is.
fn of_key(key: u128) -> (Virtual, u32) {
    (key >> 32, key as u32)
}

/// `sectors` over a weight, in virtual time.
fn amount(sectors: u64, weight: u64) -> Virtual {
    // A division of two words is quick, one of four is not.
    if sectors < 1 << (u64::BITS - FRACTION) {
        Virtual::from((sectors << FRACTION) / weight)
    } else {
        (Virtual::from(sectors) << FRACTION) / Virtual::from(weight)
    }
}

/// The end of virtual time: 2^56 sectors at the least weight.
const LAST: Virtual = (1 << 96) - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
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

/// Whose an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Queue(u32),
    Group(u32),
}

/// A queue or a group, as B-WF2Q+ sees it.
#[derive(Debug)]
pub(super) struct Entity {
    pub(super) owner: Owner,
    weight: u64,
    start: Virtual,
    finish: Virtual,
    // What its finish was computed from, and what it got since its start.
    budget: u64,
    served: u64,
    state: State,
    // Whether it need not be eligible.
    urgent: bool,
}

impl Entity {
    pub(super) fn new(owner: Owner, weight: u64) -> Self {
        let (start, finish, budget, served) = (0, 0, 0, 0);
        let (state, urgent) = (State::Idle, false);
        Self { owner, weight, start, finish, budget, served, state, urgent }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// What its finish was computed from, in sectors.
    pub(super) fn budget(&self) -> u64 {
        self.budget
    }

    /// Whether it neither waits nor has the drive.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle | State::Ahead)
    }

    /// `sectors` of service, in virtual time.
    fn amount(&self, sectors: u64) -> Virtual {
        amount(sectors, self.weight)
    }
}

pub(super) type Entities = Slab<Entity>;

/// One server: all those that compete at one level.
#[derive(Debug, Default)]
pub(super) struct Fair {
    now: Virtual,
    // Of all that are not idle.
    weights: u64,
    waiting: Root,
    ahead: Root,
    // Those that are urgent, waiting or not: few.
    urgent: Vec<u32>,
}

impl Fair {
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Its weight, and the sum of all with something to do, itself included.
    pub(super) fn share(&self, of: &Entities, id: u32) -> (u64, u64) {
        let entity = &of[id];
        let own = if entity.state == State::Idle { entity.weight } else { 0 };
        (entity.weight, self.weights + own)
    }

    /// An entity without anything to do gets something: at first up to `budget`
    /// sectors.
    pub(super) fn activate(&mut self, of: &mut Entities, trees: &mut Trees, id: u32, budget: u64) {
        let entity = &mut of[id];
        if entity.state == State::Ahead {
            trees.remove(&mut self.ahead, at(entity.finish, id));
        } else {
            self.weights += entity.weight;
        }
        entity.start = self.now.max(entity.finish);
        if entity.urgent && !self.urgent.contains(&id) {
            self.urgent.push(id);
        }
        self.wait(of, trees, id, budget);
    }

    /// Ends its service. With a next budget it waits again; without it has
    /// nothing to do.
    pub(super) fn expire(
        &mut self,
        of: &mut Entities,
        trees: &mut Trees,
        id: u32,
        next: Option<u64>,
    ) {
        let entity = &mut of[id];
        entity.finish = entity.start + entity.amount(entity.served);
        entity.start = entity.finish;
        entity.served = 0;
        match next {
            Some(budget) => self.wait(of, trees, id, budget),
            None => {
                entity.state = State::Ahead;
                let finish = at(entity.finish, id);
                trees.insert(&mut self.ahead, finish, finish, id);
                self.settle(of, trees);
            }
        }
    }

    fn wait(&mut self, of: &mut Entities, trees: &mut Trees, id: u32, budget: u64) {
        let entity = &mut of[id];
        entity.budget = budget;
        entity.finish = entity.start + entity.amount(budget);
        entity.state = State::Waiting;
        trees.insert(&mut self.waiting, at(entity.start, id), at(entity.finish, id), id);
    }

    /// A waiting entity's budget becomes another.
    pub(super) fn budget(&mut self, of: &mut Entities, trees: &mut Trees, id: u32, budget: u64) {
        if of[id].state == State::Waiting && of[id].budget != budget {
            trees.remove(&mut self.waiting, at(of[id].start, id));
            self.wait(of, trees, id, budget);
        }
    }

    /// Makes an entity urgent, or no longer: it can be next before its start,
    /// by its finish alone. It does not get more for it in the end.
    pub(super) fn urge(&mut self, of: &mut Entities, id: u32, on: bool) {
        of[id].urgent = on;
        self.urgent.retain(|&other| other != id);
        if on {
            self.urgent.push(id);
        }
    }

    /// Who would be next.
    pub(super) fn peek(&self, of: &Entities, trees: &Trees) -> Option<u32> {
        self.choose(of, trees).map(|(id, _)| id)
    }

    /// Who would be next, and the virtual time then: with nobody eligible it
    /// goes to the first start at once.
    fn choose(&self, of: &Entities, trees: &Trees) -> Option<(u32, Virtual)> {
        let (first, _) = of_key(trees.first(self.waiting)?);
        let now = self.now.max(first);
        let next = trees.least_up_to(self.waiting, at(now, u32::MAX));
        let urgent = self.urgent.iter().filter(|&&id| of[id].is_waiting());
        let next = urgent.map(|&id| at(of[id].finish, id)).chain(next).min()?;
        Some((of_key(next).1, now))
    }

    /// Gives the drive to who is next.
    pub(super) fn select(&mut self, of: &mut Entities, trees: &mut Trees) -> Option<u32> {
        let (id, now) = self.choose(of, trees)?;
        self.now = now;
        self.settle(of, trees);
        trees.remove(&mut self.waiting, at(of[id].start, id));
        of[id].state = State::Served;
        Some(id)
    }

    /// The one that has the drive got this much of it.
    pub(super) fn charge(&mut self, of: &mut Entities, trees: &mut Trees, id: u32, sectors: u64) {
        of[id].served += sectors;
        self.now += amount(sectors, self.weights.max(1));
        self.settle(of, trees);
    }

    /// Whom the ideal system has caught up with goes from its sum of weights.
    fn settle(&mut self, of: &mut Entities, trees: &mut Trees) {
        while let Some((finish, id)) = trees.first(self.ahead).map(of_key) {
            if finish > self.now {
                break;
            }
            trees.remove(&mut self.ahead, at(finish, id));
            of[id].state = State::Idle;
            self.weights -= of[id].weight;
        }
    }

    /// Its weight becomes another; how many sectors it is ahead of or behind
    /// the ideal system stays what it is (as in Stoica et al., "A Proportional
    /// Share Resource Allocation Algorithm", RTSS 1996, 3.3).
    pub(super) fn reweigh(&mut self, of: &mut Entities, trees: &mut Trees, id: u32, weight: u64) {
        let now = self.now;
        let entity = &mut of[id];
        let old = std::mem::replace(&mut entity.weight, weight);
        if old == weight {
            return;
        }
        let scale = |gap: Virtual| {
            let (old, new) = (Virtual::from(old), Virtual::from(weight));
            gap.checked_mul(old).map_or_else(|| (gap / new).saturating_mul(old), |gap| gap / new)
        };
        let moved = |time: Virtual| {
            if time > now {
                now + scale(time - now)
            } else {
                now.saturating_sub(scale(now - time))
            }
        };
        if entity.state != State::Idle {
            self.weights = self.weights - old + weight;
        }
        match entity.state {
            State::Idle => {}
            State::Ahead => {
                let finish = entity.finish;
                entity.finish = moved(finish);
                let moved = at(entity.finish, id);
                trees.remove(&mut self.ahead, at(finish, id));
                trees.insert(&mut self.ahead, moved, moved, id);
            }
            State::Waiting => {
                let (start, budget) = (entity.start, entity.budget);
                entity.start = moved(start);
                trees.remove(&mut self.waiting, at(start, id));
                self.wait(of, trees, id, budget);
            }
            State::Served => {
                // What it got so far was at its old weight.
                let before = amount(entity.served, old);
                let at = moved(entity.start + before);
                let (served, budget) = (entity.served, entity.budget);
                entity.start = at;
                entity.served = 0;
                entity.budget = budget.saturating_sub(served);
            }
        }
    }

    /// An entity without anything to do leaves this server.
    pub(super) fn leave(&mut self, of: &mut Entities, trees: &mut Trees, id: u32) {
        let entity = &mut of[id];
        debug_assert!(matches!(entity.state, State::Idle | State::Ahead));
        if entity.state == State::Ahead {
            trees.remove(&mut self.ahead, at(entity.finish, id));
            self.weights -= entity.weight;
        }
        (entity.state, entity.start, entity.finish) = (State::Idle, 0, 0);
        self.urgent.retain(|&other| other != id);
    }
}
