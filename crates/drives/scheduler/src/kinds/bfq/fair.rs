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

    /// Returns an entity's weight, and the sum of weights and the number of all that have something
    /// to do, with it.
    pub(super) fn share(&self, entities: &Entities, id: u32) -> (u64, u64, u64) {
        let entity = &entities[id];
        let new = u64::from(entity.state == State::Idle);
        (entity.weight, self.weights + new * entity.weight, self.count + new)
    }

    /// Activates an entity that had nothing to do: at first up to `budget` sectors.
    pub(super) fn activate(&mut self, entities: &mut Entities, id: u32, budget: u64) {
        let entity = &mut entities[id];
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
        self.wait(entities, id, budget);
    }

    /// Ends an entity's service. With a next budget it waits again; without it has nothing to do.
    pub(super) fn expire(&mut self, entities: &mut Entities, id: u32, next: Option<u64>) {
        let entity = &mut entities[id];
        entity.finish = entity.start + entity.amount(entity.served);
        entity.start = entity.finish;
        entity.served = 0;
        match next {
            Some(budget) => self.wait(entities, id, budget),
            None => {
                entity.state = State::Ahead;
                self.ahead.insert(entity.place, at(entity.finish, id));
                self.settle(entities);
            }
        }
    }

    fn wait(&mut self, entities: &mut Entities, id: u32, budget: u64) {
        let entity = &mut entities[id];
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

    /// Changes a waiting entity's budget.
    pub(super) fn budget(&mut self, entities: &mut Entities, id: u32, budget: u64) {
        if entities[id].state == State::Waiting && entities[id].budget != budget {
            self.stop_waiting(&entities[id]);
            self.wait(entities, id, budget);
        }
    }

    /// Makes an entity urgent, or no longer: it can be next before its start,
    /// by its finish alone. It does not get more for it in the end.
    pub(super) fn urge(&mut self, entities: &mut Entities, id: u32, on: bool) {
        entities[id].urgent = on;
        self.urgent.retain(|&other| other != id);
        if on {
            self.urgent.push(id);
        }
    }

    /// Returns the next entity: with nobody eligible virtual time advances to the first start at
    /// once.
    pub(super) fn peek(&self, entities: &Entities) -> Option<u32> {
        let next = self.eligible.least().or_else(|| Some(self.later.least()?.1));
        let urgent = self.urgent.iter().filter(|&&id| entities[id].is_waiting());
        let next = urgent.map(|&id| at(entities[id].finish, id)).chain(next).min()?;
        Some(of_key(next).1)
    }

    /// Gives the drive to the next entity.
    pub(super) fn select(&mut self, entities: &mut Entities) -> Option<u32> {
        let id = self.peek(entities)?;
        if self.eligible.is_empty() {
            self.now = self.later.least().map_or(self.now, |(start, _)| start);
        }
        self.catch_up(entities);
        self.stop_waiting(&entities[id]);
        entities[id].state = State::Served;
        Some(id)
    }

    /// Follows virtual time: entities whose start it reached are eligible, and those that the ideal
    /// system has caught up with leave its sum of weights.
    fn catch_up(&mut self, entities: &mut Entities) {
        while let Some((start, finish)) = self.later.least() {
            if start > self.now {
                break;
            }
            let place = entities[of_key(finish).1].place;
            self.later.remove(place);
            self.eligible.insert(place, finish);
        }
        self.settle(entities);
    }

    /// Charges the entity that has the drive for `sectors`.
    pub(super) fn charge(&mut self, entities: &mut Entities, id: u32, sectors: u64) {
        entities[id].served += sectors;
        self.now += amount(sectors, self.weights.max(1));
        self.catch_up(entities);
    }

    fn settle(&mut self, entities: &mut Entities) {
        while let Some((finish, id)) = self.ahead.least().map(of_key) {
            if finish > self.now {
                break;
            }
            self.ahead.remove(entities[id].place);
            entities[id].state = State::Idle;
            self.weights -= entities[id].weight;
            self.count -= 1;
        }
    }

    /// Changes an entity's weight; the number of sectors that it is ahead of or behind the ideal
    /// system stays the same (as in Stoica et al., "A Proportional Share Resource Allocation
    /// Algorithm", RTSS 1996, 3.3).
    pub(super) fn reweigh(&mut self, entities: &mut Entities, id: u32, weight: u64) {
        let now = self.now;
        let entity = &mut entities[id];
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
                self.wait(entities, id, budget);
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

    /// Removes an entity without anything to do from this server.
    pub(super) fn leave(&mut self, entities: &mut Entities, id: u32) {
        let entity = &mut entities[id];
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
