//! `bfq`: budget fair queueing. Each queue in turn has the drive for a budget of
//! sectors; B-WF2Q+ ([`fair`]) chooses the queue, C-LOOK the request that it sends. After the
//! papers (named with each constant), not after Linux's code.

mod budget;
mod fair;
pub mod help_budget;
mod queue;
mod raise;
mod service;
mod spec;
mod state;
mod tournament;
mod waiting;

pub use spec::BfqSpec;

use stasis_block::clock::Nanos;
use stasis_block::Tag;

use super::{counts, lasts, Parameters, Problem};
use crate::priority::Class;
use crate::{
    GroupId, QueueId, QueueSpec, QueueStatistics, QueuedRequest, Refused, Scheduler, WEIGHTS,
};
use fair::{Entity, Owner};
use queue::Queue;
use service::Decision;
use spec::MAX_RAISE;
pub use state::Bfq;
use state::{Group, Level};

impl Parameters for BfqSpec {
    const NAME: &'static str = "bfq";
    const ABOUT: &'static str =
        "weighted shares of the sectors, low latency for what somebody waits for, and help";

    fn check(&self) -> Result<(), Problem> {
        lasts("budget_timeout", self.budget_timeout)?;
        lasts("expire_sync", self.expire_sync)?;
        lasts("expire_async", self.expire_async)?;
        counts("raise", self.raise, MAX_RAISE)?;
        counts("help_raise", self.help_raise, MAX_RAISE)
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(Bfq::new(*self))
    }
}

impl Bfq {
    /// Applies help that began or ended until `now`.
    fn settle_help(&mut self, now: Nanos) {
        if self.help.next().is_some_and(|next| next <= now) {
            self.help.advance(now);
        }
        while let Some(number) = self.help.pop_changed() {
            let given = self.help.is_given(number);
            let Some(queue) = self.queues.get_mut(number) else { continue };
            if queue.helped == given {
                continue;
            }
            queue.helped = given;
            if let Some(group) = queue.group {
                let group = &mut self.groups[group as usize];
                group.helped = if given { group.helped + 1 } else { group.helped - 1 };
                let raise = if group.helped > 0 { u64::from(self.spec.help_raise) } else { 1 };
                let (id, weight) = (group.entity, group.weight * raise);
                let fair = &mut self.root.fairs[Class::BestEffort.index()];
                fair.reweigh(&mut self.entities, id, weight);
                fair.urge(&mut self.entities, id, group.helped > 0);
            }
            self.reweigh(now, number);
            let queue = &self.queues[number];
            let level = match queue.group {
                Some(group) => &mut self.groups[group as usize].level,
                None => &mut self.root,
            };
            level.fairs[queue.class.index()].urge(&mut self.entities, queue.entity, given);
            if given {
                self.preempt_for(now, number);
            }
        }
    }
}

impl Scheduler for Bfq {
    fn name(&self) -> &'static str {
        BfqSpec::NAME
    }

    fn create_group(&mut self, weight: u32) -> GroupId {
        let weight = u64::from(weight.clamp(*WEIGHTS.start(), *WEIGHTS.end()));
        let number = self.groups.len() as u32;
        let entity = self.entities.insert(Entity::new(Owner::Group(number), weight));
        self.groups.push(Group { entity, weight, level: Level::default(), helped: 0 });
        GroupId(number)
    }

    fn create(&mut self, _now: Nanos, spec: &QueueSpec) -> QueueId {
        let weight = u64::from(spec.effective_weight());
        let group = spec.group.map(|group| group.0);
        let group = group.filter(|&group| (group as usize) < self.groups.len());
        // The entity's owner is the queue that is about to be.
        let entity = self.entities.insert(Entity::new(Owner::Queue(0), weight));
        let number = self.queues.insert(Queue::new(entity, spec, group));
        self.entities[entity].owner = Owner::Queue(number);
        QueueId(number)
    }

    fn remove(&mut self, now: Nanos, queue: QueueId) {
        if self.queues.get(queue.0).is_none_or(|queue| queue.removed) {
            return;
        }
        self.help.request(now, queue.0, false);
        self.settle_help(now);
        self.help.forget(now, queue.0);
        self.queues[queue.0].removed = true;
        self.drop_if_done(queue.0);
    }

    fn add(&mut self, now: Nanos, id: QueueId, request: &QueuedRequest) -> Result<(), Refused> {
        self.settle_help(now);
        let queue = self.queues.get_mut(id.0).filter(|queue| !queue.removed);
        let queue = queue.ok_or(Refused::Queue(id))?;
        let expire = if request.sync { self.spec.expire_sync } else { self.spec.expire_async };
        let slot = self.pool.add(id.0, request, now.saturating_add(expire))?;
        if queue.is_done() {
            queue.raise.arrives(now, &self.spec, request.sync, self.peak);
        }
        let at = queue::lane(self.pool.get(slot));
        queue.statistics.urgent += u64::from(at == queue::URGENT);
        let lane = &mut queue.lanes[at];
        lane.anticipation.arrived(now, self.pool.get(slot), self.spec.idle);
        lane.clook.push(&mut self.requests, &mut self.pool, slot);
        queue.changed(at, false);
        queue.wanted = request.priority.unwrap_or(queue.wanted);
        match &mut self.current {
            Some(current) if current.queue == id.0 => {
                // The request that the drive idles for has come: the idling ends.
                current.idle_until[at] = None;
            }
            _ if self.entities[queue.entity].is_waiting() => self.widen(now, id.0),
            _ => {
                self.activate(now, id.0);
                self.preempt_for(now, id.0);
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, now: Nanos) -> Option<Tag> {
        self.settle_help(now);
        loop {
            match self.decide(now)? {
                Decision::Send(slot) => return Some(self.send(now, slot)),
                Decision::Wait => return None,
                Decision::Expire(reason) => self.expire(now, reason),
            }
        }
    }

    fn complete(&mut self, now: Nanos, tag: Tag) {
        let Some(held) = self.pool.complete(tag) else { return };
        self.learn_change(now, held.queue, held.sectors);
        let queue = &mut self.queues[held.queue];
        let at = queue::lane(&held);
        queue.done(at);
        let lane = &mut queue.lanes[at];
        if lane.is_idle() {
            lane.anticipation.idles(now);
            let current = self.current.as_mut().filter(|c| c.queue == held.queue);
            if let Some(current) = current {
                let wait = service::anticipation(&self.spec, queue, at, now);
                current.idle_until[at] = (wait > 0).then(|| now.saturating_add(wait));
            }
        }
        if !queue.is_done() {
            return;
        }
        queue.raise.idles(now, &self.spec);
        self.drop_if_done(held.queue);
    }

    fn next_event(&self) -> Option<Nanos> {
        let until = self.current.as_ref()?.idle_until.iter().flatten().min();
        until.copied().filter(|_| self.pool.waiting() > 0)
    }

    fn help(&mut self, now: Nanos, queue: QueueId, on: bool) {
        if self.queues.get(queue.0).is_some_and(|queue| !queue.removed) {
            self.help.request(now, queue.0, on);
            self.settle_help(now);
        }
    }

    fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    fn statistics(&self, now: Nanos, queue: QueueId) -> QueueStatistics {
        let Some(found) = self.queues.get(queue.0) else { return QueueStatistics::default() };
        let (help_calls, helped, unhelped) = self.help.account(now, queue.0);
        QueueStatistics { help_calls, helped, unhelped, ..found.statistics }
    }
}
