//! A scheduler before a drive: the drive holds few requests, the others wait
//! where the scheduler decides.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::{Operation, Tag};

use crate::limit::Limit;
use crate::pool::TagMap;
use crate::{
    sectors, LimitId, LimitSpec, LimitStatistics, QueueId, QueueStatistics, QueuedRequest, Refused,
    Scheduler,
};

#[derive(Debug, Default)]
struct Behind {
    // With the scheduler, and not yet sent.
    waiting: usize,
    // The last one there is a barrier.
    barred: bool,
    // After a barrier, in the order of arrival.
    held: VecDeque<QueuedRequest>,
    // The limit that its requests pass first.
    limit: Option<LimitId>,
    // True if its owner asks for help.
    asks: bool,
    // Service by schedulers that another has followed, and the time at the drive by all.
    before: QueueStatistics,
}

/// A request that waits with the scheduler.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    queue: QueueId,
    barrier: bool,
    sectors: u64,
    // Earlier wait for the queue's limit (ns).
    limited: Nanos,
}

/// A request at the drive.
#[derive(Debug, Clone, Copy)]
struct Sent {
    queue: QueueId,
    // Since when the drive has it.
    begun: Nanos,
    sectors: u64,
    // Earlier wait for the queue's limit (ns).
    limited: Nanos,
}

/// A request that the drive gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatched {
    /// Its name.
    pub tag: Tag,
    /// Wait for the queue's limit (ns).
    pub limited: Nanos,
}

/// A scheduler that follows another one, and what has come since and waits for that.
struct Successor {
    scheduler: Box<dyn Scheduler>,
    depth: usize,
    held: VecDeque<(QueueId, QueuedRequest)>,
}

/// Limits the requests at a drive and the rates of its tenants, and keeps barriers: a queue's later
/// requests are not sent before its barrier, and the barrier not before its earlier requests. Other
/// queues are not held up.
pub struct Dispatcher {
    scheduler: Box<dyn Scheduler>,
    depth: usize,
    in_flight: usize,
    // Requests at the drive.
    at_drive: TagMap<Sent>,
    // By number of queue.
    behind: Vec<Behind>,
    // Requests that wait with the scheduler.
    waiting: TagMap<Waiting>,
    held: usize,
    limits: Vec<Limit>,
    next: Option<Box<Successor>>,
    // Requests that have waited for this scheduler, and come to it in turn.
    arriving: VecDeque<(QueueId, QueuedRequest)>,
}

impl Dispatcher {
    /// The drive gets at most `depth` requests at once, and at least 1.
    pub fn new(scheduler: Box<dyn Scheduler>, depth: u32) -> Self {
        let (depth, in_flight, held) = (depth.max(1) as usize, 0, 0);
        let (at_drive, behind, waiting) = (TagMap::default(), Vec::new(), TagMap::default());
        let (limits, next, arriving) = (Vec::new(), None, VecDeque::new());
        Self {
            scheduler,
            depth,
            in_flight,
            at_drive,
            behind,
            waiting,
            held,
            limits,
            next,
            arriving,
        }
    }

    /// The scheduler, for its queues.
    pub fn scheduler(&mut self) -> &mut dyn Scheduler {
        self.scheduler.as_mut()
    }

    /// The scheduler, to ask.
    pub fn schedules(&self) -> &dyn Scheduler {
        self.scheduler.as_ref()
    }

    /// One more limit on the rate of queues, which share it.
    pub fn create_limit(&mut self, spec: &LimitSpec) -> LimitId {
        self.limits.push(Limit::new(spec));
        LimitId((self.limits.len() - 1) as u32)
    }

    /// Puts the limit before a queue that has no requests yet.
    pub fn limit(&mut self, id: QueueId, limit: LimitId) {
        self.behind(id).limit = Some(limit);
    }

    /// The limit is another one from now on: as new, with the requests that wait for it.
    pub fn change_limit(&mut self, id: LimitId, spec: &LimitSpec) {
        if let Some(limit) = self.limits.get_mut(id.0 as usize) {
            limit.change(spec);
        }
    }

    /// The limit of a queue, if it has one.
    pub fn limit_of(&self, id: QueueId) -> Option<LimitId> {
        self.behind.get(id.0 as usize)?.limit
    }

    /// Has `scheduler` follow the present one, with at most `depth` requests at the drive. It has queues
    /// of the same numbers, and no requests. As in Linux (block/elevator.c, `elevator_switch`), the
    /// requests that are there come to their end first, in the order of the present scheduler; those
    /// that come meanwhile wait for the new one.
    pub fn replace(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>, depth: u32) {
        let next = self.next.take().map(|next| next.held);
        let held = next.unwrap_or_else(|| std::mem::take(&mut self.arriving));
        let depth = depth.max(1) as usize;
        self.next = Some(Box::new(Successor { scheduler, depth, held }));
        self.follow(now);
    }

    /// The successor follows, if nothing is left before it.
    fn follow(&mut self, now: Nanos) {
        if self.in_flight + self.held + self.scheduler.waiting() > 0 {
            return;
        }
        let Some(next) = self.next.take() else { return };
        for (number, behind) in (0..).zip(&mut self.behind) {
            behind.before += self.scheduler.statistics(now, QueueId(number));
        }
        let Successor { scheduler, depth, held } = *next;
        (self.scheduler, self.depth) = (scheduler, depth);
        for (number, _) in (0..).zip(&self.behind).filter(|(_, behind)| behind.asks) {
            self.scheduler.help(now, QueueId(number), true);
        }
        self.arriving = held;
    }

    /// A queue's owner begins or ends to ask for help.
    pub fn help(&mut self, now: Nanos, id: QueueId, on: bool) {
        self.behind(id).asks = on;
        self.scheduler.help(now, id, on);
    }

    /// Service of a queue until `now`, by the requests that the drive has completed.
    pub fn statistics(&self, now: Nanos, id: QueueId) -> QueueStatistics {
        let mut all = self.scheduler.statistics(now, id);
        if let Some(behind) = self.behind.get(id.0 as usize) {
            all += behind.before;
        }
        // The scheduler counts what it gives to the drive.
        for sent in self.at_drive.values().filter(|sent| sent.queue == id) {
            all.requests = all.requests.saturating_sub(1);
            all.sectors = all.sectors.saturating_sub(sent.sectors);
        }
        all
    }

    /// Effect of the queue's limit, if it has one, on the requests that the drive has completed.
    pub fn limit_statistics(&self, id: QueueId) -> Option<LimitStatistics> {
        let limit = self.behind.get(id.0 as usize)?.limit?;
        self.limits.get(limit.0 as usize).map(Limit::statistics)
    }

    fn behind(&mut self, id: QueueId) -> &mut Behind {
        let number = id.0 as usize;
        if self.behind.len() <= number {
            self.behind.resize_with(number + 1, Behind::default);
        }
        &mut self.behind[number]
    }

    /// Number of requests at the drive.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Number of waiting requests.
    pub fn waiting(&self) -> usize {
        let limited: usize = self.limits.iter().map(Limit::waiting).sum();
        let next = self.next.as_ref().map_or(0, |next| next.held.len());
        self.scheduler.waiting() + self.held + limited + next + self.arriving.len()
    }

    /// A request comes. Its tag is unique among those waiting and in flight.
    ///
    /// # Errors
    /// [`Refused`] by the scheduler; for a request behind a barrier, only if
    /// there is no such queue.
    pub fn submit(
        &mut self,
        now: Nanos,
        id: QueueId,
        request: &QueuedRequest,
    ) -> Result<(), Refused> {
        let limit = self.behind(id).limit;
        if let Some(limit) = limit.and_then(|limit| self.limits.get_mut(limit.0 as usize)) {
            if !limit.admits(now, id, request) {
                return Ok(());
            }
        }
        self.arrive(now, id, request)
    }

    /// A request comes that waits for no limit.
    fn arrive(&mut self, now: Nanos, id: QueueId, request: &QueuedRequest) -> Result<(), Refused> {
        if let Some(next) = &mut self.next {
            next.held.push_back((id, *request));
            return Ok(());
        }
        let behind = self.behind(id);
        let barrier = is_barrier(request);
        if behind.barred || !behind.held.is_empty() || (barrier && behind.waiting > 0) {
            behind.held.push_back(*request);
            self.held += 1;
            return Ok(());
        }
        self.pass(now, id, request)
    }

    fn pass(&mut self, now: Nanos, id: QueueId, request: &QueuedRequest) -> Result<(), Refused> {
        self.scheduler.add(now, id, request)?;
        let barrier = is_barrier(request);
        let behind = &mut self.behind[id.0 as usize];
        behind.waiting += 1;
        behind.barred = barrier;
        let (sectors, limited) = (sectors(&request.command), request.limited);
        self.waiting.insert(request.tag, Waiting { queue: id, barrier, sectors, limited });
        Ok(())
    }

    /// The request that the drive gets now. Call it until there is none: after
    /// a submit, a completion, help, and at [`Dispatcher::next_event`].
    pub fn next(&mut self, now: Nanos) -> Option<Dispatched> {
        self.release_limited(now);
        let tag = loop {
            let has_room = self.in_flight < self.depth;
            if let Some(tag) = has_room.then(|| self.scheduler.dispatch(now)).flatten() {
                break tag;
            }
            let (id, request) = self.arriving.pop_front()?;
            let arrived = self.arrive(now, id, &request);
            debug_assert!(
                arrived.is_ok(),
                "the new scheduler has the old one's queues: {arrived:?}"
            );
        };
        self.in_flight += 1;
        let mut limited = 0;
        if let Some(waiting) = self.waiting.remove(&tag) {
            let Waiting { queue, barrier, sectors, .. } = waiting;
            limited = waiting.limited;
            self.at_drive.insert(tag, Sent { queue, begun: now, sectors, limited });
            let behind = &mut self.behind[queue.0 as usize];
            behind.waiting -= 1;
            if barrier {
                behind.barred = false;
            }
            self.release(now, queue);
        }
        Some(Dispatched { tag, limited })
    }

    /// Takes the requests that no limit holds any more.
    fn release_limited(&mut self, now: Nanos) {
        for number in 0..self.limits.len() {
            while let Some((id, request)) = self.limits[number].release(now) {
                // Its queue is there: it has a limit.
                let arrived = self.arrive(now, id, &request);
                debug_assert!(arrived.is_ok(), "{arrived:?}");
            }
        }
    }

    /// Hands the scheduler the requests that no barrier holds any more.
    fn release(&mut self, now: Nanos, id: QueueId) {
        loop {
            let behind = &mut self.behind[id.0 as usize];
            let ready = |first: &QueuedRequest| !is_barrier(first) || behind.waiting == 0;
            if behind.barred || !behind.held.front().is_some_and(ready) {
                return;
            }
            let Some(request) = behind.held.pop_front() else { return };
            self.held -= 1;
            // The scheduler took this queue's requests before: it does again.
            let passed = self.pass(now, id, &request);
            debug_assert!(passed.is_ok(), "{passed:?}");
        }
    }

    /// The drive is done with a request.
    pub fn complete(&mut self, now: Nanos, tag: Tag) {
        self.in_flight -= 1;
        if let Some(Sent { queue, begun, limited, .. }) = self.at_drive.remove(&tag) {
            let behind = self.behind(queue);
            behind.before.at_drive += now.saturating_sub(begun);
            let limit = behind.limit;
            if let Some(limit) = limit.and_then(|limit| self.limits.get_mut(limit.0 as usize)) {
                limit.completed(limited);
            }
        }
        self.scheduler.complete(now, tag);
        self.follow(now);
    }

    /// Returns the time to call [`Dispatcher::next`] even if nothing else happens. May be in the
    /// past.
    pub fn next_event(&self) -> Option<Nanos> {
        let next = self.scheduler.next_event().filter(|_| self.in_flight < self.depth);
        // At its time also where the drive is full: from then on the scheduler knows the request.
        next.into_iter().chain(self.limits.iter().filter_map(Limit::next_event)).min()
    }
}

fn is_barrier(request: &QueuedRequest) -> bool {
    request.command.operation == Operation::Barrier
}
