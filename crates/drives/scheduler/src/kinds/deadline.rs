//! `deadline`: sweeps in batches of one direction, and a request that waits too long begins the
//! next batch. After Linux's `mq-deadline`, whose defaults these are (Linux,
//! Documentation/block/deadline-iosched.rst).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::{Nanos, MILLISECOND, SECOND};
use stasis_block::units;

use super::{counts, lasts, Parameters, Problem};
use crate::clook_queue::{ClookQueue, Requests};
use crate::plain::{Order, Plain};
use crate::pool::{Held, Pool};
use crate::priority::Class;
use crate::request::reads;
use crate::{QueueId, QueueSpec, QueuedRequest, Scheduler};

const READ: usize = 0;
const WRITE: usize = 1;

/// The parameters of `deadline`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlineSpec {
    /// Time until a read is to begin (ns): its owner waits for it.
    #[serde(with = "units::duration")]
    pub read_expire: Nanos,
    /// By when a write is to begin (ns): caches wait, not people.
    #[serde(with = "units::duration")]
    pub write_expire: Nanos,
    /// Requests of a batch: long enough to save seeks, short enough to wait for.
    #[schemars(range(min = 1))]
    pub batch: u32,
    /// Batches of reads that may go before writes that wait.
    #[schemars(range(min = 1))]
    pub writes_starved: u32,
    /// Limit on the time for which higher classes may hold up a request (ns).
    #[serde(with = "units::duration")]
    pub class_expire: Nanos,
}

impl Default for DeadlineSpec {
    fn default() -> Self {
        Self {
            read_expire: 500 * MILLISECOND,
            write_expire: 5 * SECOND,
            batch: 16,
            writes_starved: 2,
            class_expire: 10 * SECOND,
        }
    }
}

impl Parameters for DeadlineSpec {
    const NAME: &'static str = "deadline";
    const ABOUT: &'static str =
        "sweeps in batches, and nothing waits much longer than its deadline";

    fn check(&self) -> Result<(), Problem> {
        lasts("read_expire", self.read_expire)?;
        lasts("write_expire", self.write_expire)?;
        lasts("class_expire", self.class_expire)?;
        counts("batch", self.batch, u32::MAX)?;
        counts("writes_starved", self.writes_starved, u32::MAX)
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Plain::boxed(Deadline { spec: *self, ..Deadline::default() })
    }
}

// The requests of one class of priority.
#[derive(Debug, Default)]
struct Rank {
    sweeps: [ClookQueue; 2],
    direction: usize,
    // Requests of the batch so far, and batches of reads while writes waited.
    batched: u32,
    starved: u32,
}

impl Rank {
    fn is_empty(&self) -> bool {
        self.sweeps.iter().all(ClookQueue::is_empty)
    }

    /// The request that is next, and its direction; begins a batch if need be.
    fn choose(&mut self, now: Nanos, pool: &Pool, spec: &DeadlineSpec) -> Option<u32> {
        if self.batched > 0 && self.batched < spec.batch {
            if let Some(slot) = self.sweeps[self.direction].next_of_sweep() {
                self.batched += 1;
                return Some(slot);
            }
        }
        let writes = !self.sweeps[WRITE].is_empty();
        let starving = writes && self.starved >= spec.writes_starved;
        if self.sweeps[READ].is_empty() || starving {
            (self.direction, self.starved) = (WRITE, 0);
        } else {
            self.direction = READ;
            self.starved += u32::from(writes);
        }
        let sweep = &self.sweeps[self.direction];
        let (deadline, earliest) = sweep.earliest(pool)?;
        self.batched = 1;
        let next = sweep.next_of_sweep().filter(|_| deadline > now);
        Some(next.unwrap_or(earliest))
    }
}

#[derive(Debug, Default)]
struct Deadline {
    spec: DeadlineSpec,
    classes: Vec<Class>,
    requests: Requests,
    ranks: [Rank; Class::COUNT],
}

impl Deadline {
    /// A request of this class that others have held up for too long: its
    /// direction and slot.
    fn held_up(&self, now: Nanos, class: usize, pool: &Pool) -> Option<(usize, usize, u32)> {
        let expires = [(READ, self.spec.read_expire), (WRITE, self.spec.write_expire)];
        expires.into_iter().find_map(|(direction, expire)| {
            let sweep = &self.ranks[class].sweeps[direction];
            let (deadline, slot) = sweep.earliest(pool)?;
            let waits = now.saturating_sub(deadline.saturating_sub(expire));
            (waits >= self.spec.class_expire).then_some((class, direction, slot))
        })
    }
}

impl Order for Deadline {
    const NAME: &'static str = DeadlineSpec::NAME;

    fn created(&mut self, queue: QueueId, spec: &QueueSpec) {
        let at = queue.0 as usize;
        self.classes.resize(self.classes.len().max(at + 1), Class::default());
        self.classes[at] = spec.priority.class;
    }

    fn deadline(&self, now: Nanos, request: &QueuedRequest) -> Nanos {
        let reads = reads(&request.command);
        let expire = if reads { self.spec.read_expire } else { self.spec.write_expire };
        now.saturating_add(expire)
    }

    fn push(&mut self, pool: &mut Pool, slot: u32, queue: QueueId, request: &QueuedRequest) {
        let class = request.priority.map_or(self.classes[queue.0 as usize], |p| p.class);
        let direction = if reads(&request.command) { READ } else { WRITE };
        self.ranks[class.index()].sweeps[direction].push(&mut self.requests, pool, slot);
    }

    fn pop(&mut self, now: Nanos, pool: &mut Pool) -> Option<Held> {
        let first = self.ranks.iter().position(|rank| !rank.is_empty())?;
        let late = (first + 1..Class::COUNT).find_map(|class| self.held_up(now, class, pool));
        let (sweep, slot) = match late {
            Some((class, direction, slot)) => (&mut self.ranks[class].sweeps[direction], slot),
            None => {
                let rank = &mut self.ranks[first];
                let slot = rank.choose(now, pool, &self.spec)?;
                (&mut rank.sweeps[rank.direction], slot)
            }
        };
        Some(sweep.send(&mut self.requests, pool, slot))
    }
}
