//! B-WF2Q+: the choice of the next entity, so that each gets its weight's share of the sectors
//! independent of the sizes of the budgets.
//!
//! As in WF2Q+ (Bennett and Zhang, "Hierarchical Packet Fair Queueing Algorithms", IEEE/ACM ToN
//! 5(5), 1997) with budgets in the place of packets (Valente and Checconi, "High Throughput Disk
//! Scheduling with Fair Bandwidth Distribution", IEEE ToC 59(9), 2010): of those whose start is not
//! after the system's virtual time, the one with the earliest finish; and a budget that is not used
//! up counts by the used part. Virtual time goes by a sector over the sum of the weights that the
//! ideal system would be serving: those that have something to do, and those that have been served
//! ahead of it and left (Parekh and Gallager, IEEE/ACM ToN 1(3), 1993).

mod entity;

pub(super) use entity::{Entity, Owner};

use super::tournament::{Timed, Tournament};
use crate::queues::Slab;
use entity::{amount, at, of_key, State, Virtual, LAST, NOWHERE};

pub(super) type Entities = Slab<Entity>;

/// One server: all those that compete at one level.
#[derive(Debug, Default)]
pub(super) struct Fair {
    now: Virtual,
    // Weights of all that are not idle, and their number.
    weights: u64,
    count: u64,
    // Those that wait: by finish where the start is not after virtual time, by
    // start and then finish where it is.
    eligible: Tournament,
    later: Timed,
    // By finish.
    ahead: Tournament,
    // Those that are urgent, waiting or not: few.
    urgent: Vec<u32>,
    // Number of places, and the places that are free.
    places: u32,
    free: Vec<u32>,
}

impl Fair {
    pub(super) fn is_waiting(&self) -> bool {
        !self.eligible.is_empty() || !self.later.is_empty()
    }

    /// Its weight, and of all with something to do, itself included, the sum of
    /// weights and the number.
    pub(super) fn share(&self, of: &Entities, id: u32) -> (u64, u64, u64) {
        let entity = &of[id];
        let new = u64::from(entity.state == State::Idle);
        (entity.weight, self.weights + new * entity.weight, self.count + new)
    }

    /// An entity without anything to do gets something: at first up to `budget`
    /// sectors.
    pub(super) fn activate(&mut self, of: &mut Entities, id: u32, budget: u64) {
        let entity = &mut of[id];
        if entity.place == NOWHERE {
            entity.place = self.seat();
        }
        if entity.state == State::Ahead {
            self.ahead.remove(entity.place);
        } else {
            self.weights += entity.weight;
            self.count += 1;
        }
        entity.start = self.now.max(entity.finish);
        if entity.urgent && !self.urgent.contains(&id) {
            self.urgent.push(id);
        }
        self.wait(of, id, budget);
    }

    /// Ends its service. With a next budget it waits again; without it has
    /// nothing to do.
    pub(super) fn expire(&mut self, of: &mut Entities, id: u32, next: Option<u64>) {
        let entity = &mut of[id];
        entity.finish = entity.start + entity.amount(entity.served);
        entity.start = entity.finish;
        entity.served = 0;
        match next {
            Some(budget) => self.wait(of, id, budget),
            None => {
                entity.state = State::Ahead;
                self.ahead.insert(entity.place, at(entity.finish, id));
                self.settle(of);
            }
        }
    }

    fn wait(&mut self, of: &mut Entities, id: u32, budget: u64) {
        let entity = &mut of[id];
        entity.budget = budget;
        entity.finish = entity.start + entity.amount(budget);
        entity.state = State::Waiting;
        let (start, finish) = (entity.start.min(LAST), at(entity.finish, id));
        if start <= self.now {
            self.eligible.insert(entity.place, finish);
        } else {
            self.later.insert(entity.place, start, finish);
        }
    }

    /// One that waits does so no longer, or from another time on.
    fn stop_waiting(&mut self, entity: &Entity) {
        if entity.start.min(LAST) <= self.now {
            self.eligible.remove(entity.place);
        } else {
            self.later.remove(entity.place);
        }
    }

    /// A place for one that comes.
    fn seat(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let place = self.places;
            self.places += 1;
            self.eligible.reserve(self.places);
            self.later.reserve(self.places);
            self.ahead.reserve(self.places);
            place
        })
    }

    /// A waiting entity's budget becomes another.
    pub(super) fn budget(&mut self, of: &mut Entities, id: u32, budget: u64) {
        if of[id].state == State::Waiting && of[id].budget != budget {
            self.stop_waiting(&of[id]);
            self.wait(of, id, budget);
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

    /// The next entity: with nobody eligible virtual time advances to the first start at once.
    pub(super) fn peek(&self, of: &Entities) -> Option<u32> {
        let next = self.eligible.least().or_else(|| Some(self.later.least()?.1));
        let urgent = self.urgent.iter().filter(|&&id| of[id].is_waiting());
        let next = urgent.map(|&id| at(of[id].finish, id)).chain(next).min()?;
        Some(of_key(next).1)
    }

    /// Gives the drive to the next entity.
    pub(super) fn select(&mut self, of: &mut Entities) -> Option<u32> {
        let id = self.peek(of)?;
        if self.eligible.is_empty() {
            self.now = self.later.least().map_or(self.now, |(start, _)| start);
        }
        self.catch_up(of);
        self.stop_waiting(&of[id]);
        of[id].state = State::Served;
        Some(id)
    }

    /// Virtual time went on: whose start it reached is eligible, and whom the
    /// ideal system has caught up with goes from its sum of weights.
    fn catch_up(&mut self, of: &mut Entities) {
        while let Some((start, finish)) = self.later.least() {
            if start > self.now {
                break;
            }
            let place = of[of_key(finish).1].place;
            self.later.remove(place);
            self.eligible.insert(place, finish);
        }
        self.settle(of);
    }

    /// The one that has the drive got this much of it.
    pub(super) fn charge(&mut self, of: &mut Entities, id: u32, sectors: u64) {
        of[id].served += sectors;
        self.now += amount(sectors, self.weights.max(1));
        self.catch_up(of);
    }

    fn settle(&mut self, of: &mut Entities) {
        while let Some((finish, id)) = self.ahead.least().map(of_key) {
            if finish > self.now {
                break;
            }
            self.ahead.remove(of[id].place);
            of[id].state = State::Idle;
            self.weights -= of[id].weight;
            self.count -= 1;
        }
    }

    /// Changes its weight; the number of sectors that it is ahead of or behind the ideal system
    /// stays the same (as in Stoica et al., "A Proportional Share Resource Allocation Algorithm",
    /// RTSS 1996, 3.3).
    pub(super) fn reweigh(&mut self, of: &mut Entities, id: u32, weight: u64) {
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
                entity.finish = moved(entity.finish);
                self.ahead.insert(entity.place, at(entity.finish, id));
            }
            State::Waiting => {
                self.stop_waiting(entity);
                entity.start = moved(entity.start);
                let budget = entity.budget;
                self.wait(of, id, budget);
            }
            State::Served => {
                // Service so far was at the old weight.
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
    pub(super) fn leave(&mut self, of: &mut Entities, id: u32) {
        let entity = &mut of[id];
        debug_assert!(matches!(entity.state, State::Idle | State::Ahead));
        if entity.state == State::Ahead {
            self.ahead.remove(entity.place);
            self.weights -= entity.weight;
            self.count -= 1;
        }
        if entity.place != NOWHERE {
            self.free.push(entity.place);
            entity.place = NOWHERE;
        }
        (entity.state, entity.start, entity.finish) = (State::Idle, 0, 0);
        self.urgent.retain(|&other| other != id);
    }
}

#[cfg(test)]
mod tests;
