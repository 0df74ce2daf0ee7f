//! The host's I/O schedulers: which of the waiting requests a shared drive gets
//! next.
//!
//! Promise: pure state machines over virtual time. No threads, no clock, no
//! I/O, no randomness; the same calls give the same order. Nothing allocates
//! per request once its queues have been as full as they get.
//!
//! [`SchedulerSpec`] names and builds one; [`Dispatcher`] puts it before a drive and
//! limits the requests at the drive; [`kinds`] has the kinds, and the interface of a new one.
//! `docs/reference/schedulers.md` describes each with its constants and their sources.

mod anticipation;
mod clook_queue;
mod dispatcher;
pub mod kinds;
mod limit;
mod plain;
mod pool;
mod priority;
mod queues;
mod request;
mod share;
mod spec;
mod tree_arena;

pub use dispatcher::{Dispatched, Dispatcher};
pub use kinds::bfq::help_budget::Help;
pub use kinds::{
    Bfq, BfqSpec, Cfq, CfqSpec, ClookSpec, DeadlineSpec, NoneSpec, Parameters, Registered,
    SchedulerKind, KINDS,
};
pub use limit::{LimitId, LimitSpec, LimitStatistics};
pub use priority::{Class, Priority, DEFAULT_WEIGHT, WEIGHTS};
pub use request::{sectors, QueueId, QueuedRequest, SECTOR};
pub use spec::{SchedulerSpec, SpecError};

use stasis_block::clock::Nanos;
use stasis_block::Tag;

/// Names a group of queues of one scheduler, such as those of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u32);

/// Properties of a queue for its scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSpec {
    /// Its share against others of its class, in [`WEIGHTS`]; if not given,
    /// its priority's.
    pub weight: Option<u32>,
    /// Its class, and its level in the class.
    pub priority: Priority,
    /// The group it shares with others; none: it stands beside the groups.
    pub group: Option<GroupId>,
    /// True if its owner orders its requests itself, like a guest with a scheduler and many
    /// processes: `bfq` then lets none of them be overtaken for long.
    pub ordered: bool,
    /// Limits on its rate. The [`Dispatcher`] keeps them, before the scheduler.
    pub limits: LimitSpec,
}

impl QueueSpec {
    /// A best-effort queue of this weight, in no group.
    pub fn weighted(weight: u32) -> Self {
        Self { weight: Some(weight), ..Self::default() }
    }

    /// Returns the queue's weight: its own, or its priority's. BFQ raises it for a time
    /// (`kinds/bfq/queue.rs`), and divides service by it (`kinds/bfq/fair.rs`).
    pub fn effective_weight(&self) -> u32 {
        let weight = self.weight.unwrap_or_else(|| self.priority.weight());
        weight.clamp(*WEIGHTS.start(), *WEIGHTS.end())
    }
}

/// Reason why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such queue, or it has been removed.
    #[error("the scheduler has no queue {}: create it first", .0 .0)]
    Queue(QueueId),
    /// Another request of this tag waits or is in flight.
    #[error("tag {0} is taken: tags are unique among requests waiting and in flight")]
    Tag(Tag),
}

/// Service of a queue so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStatistics {
    /// Requests: those given to the drive, as a scheduler counts; those completed, as a
    /// [`Dispatcher`] does.
    pub requests: u64,
    /// Their sectors.
    pub sectors: u64,
    /// Time that those which have completed had at the drive, together (ns).
    pub at_drive: Nanos,
    /// Number of the requests that were urgent to its owner.
    pub urgent: u64,
    /// Number of times that it began or ended to ask for help.
    pub help_calls: u64,
    /// Time for which it has been raised because it asked (ns).
    pub helped: Nanos,
    /// Time for which it asked in vain, its bound being used up (ns).
    pub unhelped: Nanos,
}

impl QueueStatistics {
    /// Returns the service since it was `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            sectors: self.sectors.saturating_sub(before.sectors),
            at_drive: self.at_drive.saturating_sub(before.at_drive),
            urgent: self.urgent.saturating_sub(before.urgent),
            help_calls: self.help_calls.saturating_sub(before.help_calls),
            helped: self.helped.saturating_sub(before.helped),
            unhelped: self.unhelped.saturating_sub(before.unhelped),
        }
    }
}

impl std::ops::AddAssign for QueueStatistics {
    fn add_assign(&mut self, other: Self) {
        let Self { requests, sectors, at_drive, urgent, help_calls, helped, unhelped } = other;
        self.requests += requests;
        self.sectors += sectors;
        self.at_drive += at_drive;
        self.urgent += urgent;
        self.help_calls += help_calls;
        self.helped += helped;
        self.unhelped += unhelped;
    }
}

/// Decides the order in which requests reach a drive.
///
/// Calls come in the order of time. The holder of the drive calls
/// [`Scheduler::dispatch`] while it has room: after an add, after a completion,
/// and at [`Scheduler::next_event`].
pub trait Scheduler: Send {
    /// Returns the scheduler's name in experiments.
    fn name(&self) -> &'static str;

    /// A new group of queues that share the service of `weight`. Schedulers without groups take the
    /// queues as if they stood alone.
    fn create_group(&mut self, _weight: u32) -> GroupId {
        GroupId(0)
    }

    /// Makes a queue. An unknown group means none.
    fn create(&mut self, now: Nanos, spec: &QueueSpec) -> QueueId;

    /// The queue takes no more requests, and goes when those it has are done.
    fn remove(&mut self, now: Nanos, queue: QueueId);

    /// A request comes to wait.
    ///
    /// # Errors
    /// [`Refused`] if there is no such queue, or the tag is taken.
    fn add(&mut self, now: Nanos, queue: QueueId, request: &QueuedRequest) -> Result<(), Refused>;

    /// The request that goes to the drive now; `None` if none waits, or the
    /// drive is to idle for a queue until [`Scheduler::next_event`].
    fn dispatch(&mut self, now: Nanos) -> Option<Tag>;

    /// The drive is done with a request.
    fn complete(&mut self, now: Nanos, tag: Tag);

    /// Returns the time to call [`Scheduler::dispatch`] even if nothing else happens.
    fn next_event(&self) -> Option<Nanos>;

    /// The queue's owner begins or ends to ask for help: that it be preferred
    /// for now. Only `bfq` helps.
    fn help(&mut self, _now: Nanos, _queue: QueueId, _on: bool) {}

    /// Number of waiting requests.
    fn waiting(&self) -> usize;

    /// Service of a queue until `now`.
    fn statistics(&self, now: Nanos, queue: QueueId) -> QueueStatistics;
}
