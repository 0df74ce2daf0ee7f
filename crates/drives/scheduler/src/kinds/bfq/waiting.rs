//! Start of a queue's, and its group's, wait for the drive.

use stasis_block::clock::Nanos;

use super::queue::Queue;
use super::state::Bfq;
use crate::priority::Class;

impl Bfq {
    /// A queue that has something to do, and neither waits nor has the drive.
    pub(super) fn activate(&mut self, now: Nanos, number: u32) {
        let queue = &mut self.queues[number];
        let (id, group, from) = (queue.entity, queue.group, queue.class.index());
        (queue.class, queue.spec.priority) = (queue.wanted.class, queue.wanted);
        let (to, changes) = (queue.class.index(), queue.class.index() != from);
        if changes {
            let level = match group {
                Some(group) => &mut self.groups[group as usize].level,
                None => &mut self.root,
            };
            level.fairs[from].leave(&mut self.entities, id);
        }
        self.reweigh(now, number);
        let budget = self.next_budget(number);
        let level = match group {
            Some(group) => &mut self.groups[group as usize].level,
            None => &mut self.root,
        };
        if !level.fairs[to].is_waiting() {
            level.turns.begins(now, to);
        }
        level.fairs[to].activate(&mut self.entities, id, budget);
        if let Some(group) = group {
            self.activate_group(now, group);
        }
    }

    /// A request came to a queue that waits: the budget that its finish was
    /// computed from must do for the request that is now next.
    pub(super) fn widen(&mut self, now: Nanos, number: u32) {
        let queue = &self.queues[number];
        let (id, group, class) = (queue.entity, queue.group, queue.class.index());
        let next = queue.next_sectors(&self.pool);
        if next <= self.entities[id].budget() {
            return;
        }
        let level = match group {
            Some(group) => &mut self.groups[group as usize].level,
            None => &mut self.root,
        };
        level.fairs[class].budget(&mut self.entities, id, next);
        if let Some(group) = group {
            self.activate_group(now, group);
        }
    }

    /// A queue of the group came to wait: so does the group, or its budget changes.
    fn activate_group(&mut self, now: Nanos, group: u32) {
        let Some(budget) = self.group_budget(now, group) else { return };
        let id = self.groups[group as usize].entity;
        let class = Class::BestEffort.index();
        let fair = &mut self.root.fairs[class];
        if self.entities[id].is_waiting() {
            fair.budget(&mut self.entities, id, budget);
        } else if self.entities[id].is_idle() {
            if !fair.is_waiting() {
                self.root.turns.begins(now, class);
            }
            fair.activate(&mut self.entities, id, budget);
        }
    }

    /// The queue that has the drive goes if this one, which waits, is more
    /// urgent and would be next: a raised weight is no use while another has a
    /// large budget to spend.
    pub(super) fn preempt_for(&mut self, now: Nanos, number: u32) {
        let Some(current) = &self.current else { return };
        let (queue, other) = (&self.queues[number], &self.queues[current.queue]);
        let within = queue.group.filter(|_| queue.group == other.group);
        let level = within.map_or(&self.root, |group| &self.groups[group as usize].level);
        // Class first, then whether it is raised where the two compete.
        let standing = |queue: &Queue| match queue.group {
            Some(group) if within.is_none() => {
                let group = &self.groups[group as usize];
                (group.entity, Class::BestEffort.index(), group.helped == 0)
            }
            _ => (queue.entity, queue.class.index(), !queue.is_raised(now)),
        };
        let ((id, class, plain), (_, other_class, other_plain)) =
            (standing(queue), standing(other));
        let next = level.fairs[class].peek(&self.entities) == Some(id);
        if next && (class, plain) < (other_class, other_plain) {
            if let Some(current) = &mut self.current {
                current.preempted = true;
            }
        }
    }
}
