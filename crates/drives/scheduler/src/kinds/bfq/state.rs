//! State of `bfq`: queues and groups, the queue that has the drive, and what was learnt of the drive.

use stasis_block::clock::Nanos;

use super::fair::{Entities, Fair};
use super::help_budget::Help;
use super::queue::{Queue, LANES};
use super::spec::BfqSpec;
use crate::clook_queue::Requests;
use crate::pool::Pool;
use crate::priority::{Class, Turns};
use crate::queues::Slab;

/// Entities that compete with each other, by class.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) fairs: [Fair; Class::COUNT],
    pub(super) turns: Turns,
}

/// A group of queues.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) entity: u32,
    pub(super) weight: u64,
    pub(super) level: Level,
    /// Number of its queues that are helped.
    pub(super) helped: usize,
}

/// The scheduler `bfq`.
#[derive(Debug)]
pub struct Bfq {
    pub(super) spec: BfqSpec,
    pub(super) pool: Pool,
    pub(super) requests: Requests,
    pub(super) entities: Entities,
    pub(super) queues: Slab<Queue>,
    pub(super) groups: Vec<Group>,
    pub(super) root: Level,
    pub(super) help: Help,
    pub(super) current: Option<Current>,
    /// The highest rate seen of a sequential queue, in sectors/s; 0 before.
    pub(super) peak: u64,
    /// The same of queues that seek.
    pub(super) seeking: u64,
    /// Cost of a change from one queue to another (ns); 0 before.
    pub(super) change: Nanos,
}

impl Bfq {
    /// With no queues.
    pub fn new(spec: BfqSpec) -> Self {
        Self {
            spec,
            pool: Pool::default(),
            requests: Requests::default(),
            entities: Entities::default(),
            queues: Slab::default(),
            groups: Vec::new(),
            root: Level::default(),
            help: Help::new(spec.help_share, spec.help_burst),
            current: None,
            peak: 0,
            seeking: 0,
            change: 0,
        }
    }

    /// Gives a queue the weight it is to have now.
    pub(super) fn reweigh(&mut self, now: Nanos, number: u32) {
        let queue = &mut self.queues[number];
        queue.weighs_raised = queue.raise.is_on(now);
        let (id, weight) = (queue.entity, queue.weight(now, &self.spec));
        let level = match queue.group {
            Some(group) => &mut self.groups[group as usize].level,
            None => &mut self.root,
        };
        let fair = &mut level.fairs[queue.class.index()];
        fair.reweigh(&mut self.entities, id, weight);
    }

    /// Forgets a queue that was removed, once it has nothing to do.
    pub(super) fn drop_if_done(&mut self, number: u32) {
        let queue = &self.queues[number];
        let idle = self.entities[queue.entity].is_idle();
        if !queue.removed || !queue.is_done() || !idle {
            return;
        }
        let (id, class) = (queue.entity, queue.class.index());
        let level = match queue.group {
            Some(group) => &mut self.groups[group as usize].level,
            None => &mut self.root,
        };
        level.fairs[class].leave(&mut self.entities, id);
        self.entities.remove(id);
        self.queues.remove(number);
    }
}

/// The queue that has the drive.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) queue: u32,
    /// Beginning of its turn.
    pub(super) began: Nanos,
    /// Time until which the drive idles for each of its lanes.
    pub(super) idle_until: [Option<Nanos>; LANES],
    pub(super) granted: u64,
    pub(super) served: u64,
    /// Another is more urgent.
    pub(super) preempted: bool,
    /// Nothing of it is done yet.
    pub(super) first: bool,
    pub(super) lane: usize,
    /// Its lane is [`super::queue::ASYNC`] because that was late: it stays so.
    pub(super) late: bool,
}
