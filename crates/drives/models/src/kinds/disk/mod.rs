//! A mechanical disk: one arm, a rotating surface, and the caches in front.
//!
//! The model covers seeks and rotation by place and time, zones, a read buffer
//! that reads ahead, a write cache that the arm empties whenever no read waits,
//! back-pressure when that cache is full, flushes that wait for it, and a queue
//! served by shortest positioning time or in order. The model leaves out heat, retries, defects,
//! and the interface beyond its rate.

mod cache;
mod geometry;
mod parameters;
mod read_ahead;
mod seek;
mod spec;

use std::collections::VecDeque;

use stasis_block::clock::{EventQueue, Nanos};
use stasis_block::command_log::CommandLog;
use stasis_block::inside::{Inside, Parts, SlowCommand};
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{
    CacheKind, Command, Completion, Model, Operation, PowerLoss, Tag, TimePerByte, SECTOR,
};

use self::cache::WriteCache;
use self::geometry::{Arm, Geometry, Position};
use self::read_ahead::{Lookup, ReadAhead};
pub use self::spec::{DiskSpec, Queue, MAX_EXTENTS};
use crate::span::Span;
use stasis_block::Random;

/// A command passed over this often for nearer ones is served next, so that the shortest-first
/// order starves none. Four times the queue of SATA; our choice, as no data sheet gives a figure.
const MAX_PASSES: u32 = 128;

/// A command as the host submitted it.
#[derive(Debug, Clone, Copy)]
struct Submitted {
    tag: Tag,
    operation: Operation,
    offset: u64,
    bytes: u64,
    since: Nanos,
}

/// A command that needs the arm.
#[derive(Debug, Clone, Copy)]
struct Pending {
    submitted: Submitted,
    operation: Operation,
    start: u64,
    end: u64,
    // Place of `start`.
    place: Position,
}

/// The current work of the arm.
#[derive(Debug, Clone, Copy)]
enum Job {
    Read { start: u64, end: u64, passing: Passing },
    Write { passing: Passing },
    Destage,
    // Read-ahead that a command waits for.
    Stream { passing: Passing },
}

/// A command whose bytes pass under the head, and cross the interface meanwhile.
#[derive(Debug, Clone, Copy)]
struct Passing {
    submitted: Submitted,
    // Time at which the arm began with it (ns).
    served: Nanos,
    // Time from which bytes can cross the interface (ns), and their number.
    begin: Nanos,
    length: u64,
}

/// A flush and the number of the first write that it does not cover.
#[derive(Debug, Clone, Copy)]
struct Flush {
    submitted: Submitted,
    barrier: u64,
}

/// A mechanical disk; see the [module](self).
#[derive(Debug)]
pub struct HardDisk {
    geometry: Geometry,
    cache: WriteCache,
    read_ahead: ReadAhead,
    // Commands for the arm, and writes that the cache has no room for, each in
    // the order of submission.
    queue: Vec<Pending>,
    waiting: VecDeque<Pending>,
    flushes: VecDeque<Flush>,
    // Number of times that, since it was first, the first of `queue`, the first of `waiting` or
    // `flushes`, and the first flush's oldest bytes were passed over.
    passed_queue: u32,
    passed_blocked: u32,
    passed_oldest: u32,
    busy: Option<(Nanos, Job)>,
    // The head's place.
    head: u64,
    head_radius: f64,
    link_free_at: Nanos,
    due: EventQueue<Tag>,
    commands: CommandLog,
    random: Random,
    queue_order: Queue,
    queue_depth: usize,
    destage_window: usize,
    write_settle: Nanos,
    overhead: Nanos,
    link: TimePerByte,
    flush: Span,
    discard: Span,
    write_zeroes: Option<Span>,
}

impl HardDisk {
    /// From a checked description; `None` if its seek times contradict one
    /// another.
    pub fn new(spec: &DiskSpec, seed: u64) -> Option<Self> {
        let mut random = Random::new(seed);
        let geometry = Geometry::new(spec, spec.seek()?, random.up_to(u64::MAX));
        let extents =
            if spec.write_cache == 0 { 0 } else { spec.write_cache_extents.min(MAX_EXTENTS) };
        Some(Self {
            geometry,
            cache: WriteCache::new(spec.write_cache, extents as u16),
            read_ahead: ReadAhead::new(spec.read_ahead, spec.read_segments as usize),
            queue: Vec::new(),
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
            passed_queue: 0,
            passed_blocked: 0,
            passed_oldest: 0,
            busy: None,
            head: 0,
            head_radius: 0.0,
            link_free_at: 0,
            due: EventQueue::new(),
            commands: CommandLog::default(),
            random,
            queue_order: spec.queue,
            queue_depth: (spec.queue_depth as usize).max(1),
            destage_window: (spec.destage_window as usize).max(1),
            write_settle: spec.write_settle,
            overhead: spec.overhead,
            link: spec.interface_rate.time_per_byte(),
            flush: spec.flush,
            discard: spec.discard,
            write_zeroes: spec.write_zeroes,
        })
    }

    /// A command completes at `end`, the last part of its time with the controller.
    fn complete(&mut self, submitted: Submitted, end: Nanos, before: Parts<Nanos>) {
        let Submitted { tag, operation, offset, bytes, since: begin } = submitted;
        let known = before.queue + before.buffer + before.positioning + before.transfer;
        let controller = end.saturating_sub(begin).saturating_sub(known);
        let parts = Parts { controller, ..before };
        self.commands.record(SlowCommand { operation, offset, bytes, begin, end, parts });
        self.due.push(end, tag);
    }

    /// A command that needs the controller only, for `cost` from `now` on; before that it waited
    /// for the write cache.
    fn complete_in_controller(&mut self, now: Nanos, submitted: Submitted, cost: Nanos) {
        let end = now.saturating_add(cost).saturating_add(self.overhead);
        let buffer = now - submitted.since;
        self.complete(submitted, end, Parts { buffer, ..Parts::default() });
    }

    /// A command that needs the buffer only, from `now` on: it completes when
    /// its bytes have crossed the interface.
    fn complete_buffered(&mut self, now: Nanos, submitted: Submitted, length: u64) {
        let start = self.link_free_at.max(now);
        self.link_free_at = start.saturating_add(self.link.times(length));
        let cost = self.link_free_at - now;
        self.complete_in_controller(now, submitted, cost);
    }

    /// A command whose last byte passed under the head at `end`: it completes when its bytes
    /// have crossed the interface, which carries one command at a time.
    fn complete_passing(&mut self, end: Nanos, passing: Passing) {
        let Passing { submitted, served, begin, length } = passing;
        let mut crossed = end;
        if length > 0 {
            let start = self.link_free_at.max(begin);
            crossed = start.saturating_add(self.link.times(length)).max(end);
            self.link_free_at = crossed;
        }
        let before = Parts {
            queue: served - submitted.since,
            positioning: begin - served,
            transfer: end - begin,
            ..Parts::default()
        };
        self.complete(submitted, crossed.saturating_add(self.overhead), before);
    }

    fn read(&mut self, now: Nanos, pending: Pending) {
        let Pending { submitted, start, end, .. } = pending;
        let arm = self.busy.is_none().then_some(self.head_radius);
        let lookup = if self.cache.contains(start, end) {
            Lookup::Ready
        } else {
            self.read_ahead.lookup(now, (start, end), arm, &self.geometry)
        };
        match lookup {
            Lookup::Ready => {
                self.complete_buffered(now, submitted, end - start);
            }
            Lookup::Arrives(at) if arm.is_some() => {
                let passing = Passing { submitted, served: now, begin: now, length: end - start };
                self.busy = Some((at, Job::Stream { passing }));
                self.set_head(end);
            }
            _ => self.queue.push(pending),
        }
    }

    fn write(&mut self, now: Nanos, pending: Pending, fua: bool) {
        let Pending { start, end, place, .. } = pending;
        self.read_ahead.invalidate(start, end);
        if fua || !self.cache.can_hold(end - start) {
            self.queue.push(pending);
        } else if !self.waiting.is_empty() || !self.cache.accept(start, end, place, self.barrier())
        {
            self.waiting.push_back(pending);
        } else {
            self.complete_buffered(now, pending.submitted, end - start);
        }
    }

    /// The number of the first write that no flush waits for.
    fn barrier(&self) -> u64 {
        self.flushes.back().map_or(0, |flush| flush.barrier)
    }

    fn complete_flushes(&mut self, now: Nanos) {
        while let Some(flush) = self.flushes.front() {
            if !self.cache.is_durable(flush.barrier) {
                break;
            }
            let submitted = flush.submitted;
            let cost = self.flush.sample(&mut self.random);
            self.complete_in_controller(now, submitted, cost);
            self.flushes.pop_front();
            self.passed_oldest = 0;
        }
    }

    fn set_head(&mut self, at: u64) {
        self.head = at;
        self.head_radius = self.geometry.place(at).radius;
    }

    /// Gives the idle arm its next job.
    fn dispatch(&mut self, now: Nanos) {
        if self.busy.is_some() {
            return;
        }
        if self.queue.is_empty() && self.cache.is_clean() {
            return;
        }
        if let Some(reached) = self.read_ahead.stop(now, &self.geometry) {
            self.set_head(reached);
        }
        // Since when a command waits for the cache to empty.
        let blocked =
            [self.waiting.front().map(|w| w.submitted), self.flushes.front().map(|f| f.submitted)];
        let blocked = blocked.into_iter().flatten().map(|submitted| submitted.since).min();
        let arm = self.geometry.arm(now, self.head_radius);
        let queued = self.next_queued(arm);
        let destage =
            (queued.is_none() || blocked.is_some()).then(|| self.next_destage(arm)).flatten();
        let serve_queued = match (queued, destage, blocked) {
            (Some(queued), Some(destage), Some(blocked)) => {
                if self.queue_order == Queue::Fifo {
                    self.queue[queued.0].submitted.since <= blocked
                } else if self.passed_queue >= MAX_PASSES {
                    true
                } else {
                    self.passed_blocked < MAX_PASSES && queued.1 <= destage.1
                }
            }
            (queued, _, _) => queued.is_some(),
        };
        match (queued, destage) {
            (Some((index, positioning)), _) if serve_queued => {
                self.passed_blocked += u32::from(blocked.is_some());
                self.passed_queue = if index == 0 { 0 } else { self.passed_queue + 1 };
                let pending = self.queue.remove(index);
                self.serve(now, positioning, pending);
            }
            (queued, Some((index, positioning))) => {
                self.passed_blocked = 0;
                self.passed_queue += u32::from(queued.is_some());
                self.passed_oldest += u32::from(!self.flushes.is_empty());
                let extent = self.cache.begin(index);
                let transfer = self.geometry.transfer(extent.start, extent.end);
                let end = now.saturating_add(positioning).saturating_add(transfer);
                self.busy = Some((end, Job::Destage));
                self.set_head(extent.end);
            }
            _ => {}
        }
    }

    /// The queued command to serve next and its positioning time (ns).
    fn next_queued(&self, arm: Arm) -> Option<(usize, Nanos)> {
        let first = self.queue.first()?;
        let cost = |pending: &Pending| {
            let settle = if pending.operation == Operation::Read { 0 } else { self.write_settle };
            self.geometry.positioning(arm, &pending.place, settle)
        };
        if self.queue_order == Queue::Fifo || self.passed_queue >= MAX_PASSES {
            return Some((0, cost(first)));
        }
        let window = self.queue.iter().take(self.queue_depth);
        window.map(cost).enumerate().min_by_key(|&(_, cost)| cost)
    }

    /// The extent to destage next and its positioning time (ns).
    fn next_destage(&self, arm: Arm) -> Option<(usize, Nanos)> {
        let cost =
            |index| self.geometry.positioning(arm, self.cache.place(index), self.write_settle);
        if self.queue_order == Queue::Fifo || self.passed_oldest >= MAX_PASSES {
            let index = self.cache.oldest()?;
            return Some((index, cost(index)));
        }
        let near = self.cache.near(self.head, self.destage_window);
        near.map(|index| (index, cost(index))).min_by_key(|&(_, cost)| cost)
    }

    /// Starts a queued command whose first byte comes under the head after `positioning`.
    fn serve(&mut self, now: Nanos, positioning: Nanos, pending: Pending) {
        let Pending { submitted, operation, start, end, .. } = pending;
        let begin = now.saturating_add(positioning);
        let done = begin.saturating_add(self.geometry.transfer(start, end));
        let length = if operation == Operation::WriteZeroes { 0 } else { end - start };
        let passing = Passing { submitted, served: now, begin, length };
        let job = match operation {
            Operation::Read => Job::Read { start, end, passing },
            _ => Job::Write { passing },
        };
        self.busy = Some((done, job));
        self.set_head(end);
    }

    /// Ends the arm's work up to `now`, and starts the work after it.
    fn run(&mut self, now: Nanos) {
        while let Some((end, job)) = self.busy {
            if end > now {
                break;
            }
            self.busy = None;
            match job {
                Job::Read { start, end: behind, passing } => {
                    self.complete_passing(end, passing);
                    self.read_ahead.start(end, start, behind, &self.geometry);
                }
                Job::Destage => {
                    self.cache.finish();
                    self.complete_flushes(end);
                    self.admit(end);
                }
                Job::Write { passing } | Job::Stream { passing } => {
                    self.complete_passing(end, passing);
                }
            }
            self.dispatch(end);
        }
    }

    /// Lets waiting writes into the cache.
    fn admit(&mut self, now: Nanos) {
        while let Some(&Pending { submitted, start, end, place, .. }) = self.waiting.front() {
            if !self.cache.accept(start, end, place, self.barrier()) {
                break;
            }
            self.waiting.pop_front();
            self.complete_buffered(now, submitted, end - start);
        }
    }
}

impl Model for HardDisk {
    fn waiting(&self, _: Nanos) -> Option<String> {
        Some(self.cache.told())
    }

    fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command) {
        self.run(now);
        let operation = match command.operation {
            // Disks offer no copy: one costs as much as the write.
            Operation::Copy => Operation::Write,
            Operation::Verify => Operation::Read,
            operation => operation,
        };
        let (start, end) = self.geometry.clamp(command.offset, command.length);
        let place = self.geometry.place(start);
        let &Command { operation: asked, offset, length: bytes, .. } = command;
        let submitted = Submitted { tag, operation: asked, offset, bytes, since: now };
        let pending = Pending { submitted, operation, start, end, place };
        match operation {
            Operation::Read | Operation::Verify => self.read(now, pending),
            Operation::Write | Operation::Copy => self.write(now, pending, command.fua),
            Operation::Flush => {
                let barrier = self.cache.next_write();
                self.flushes.push_back(Flush { submitted, barrier });
                self.complete_flushes(now);
            }
            // The drive around the model completes them.
            Operation::Barrier => {
                self.due.push(now, tag);
            }
            Operation::Discard => {
                let cost = self.discard.sample(&mut self.random);
                self.complete_in_controller(now, submitted, cost);
            }
            Operation::WriteZeroes => {
                self.read_ahead.invalidate(start, end);
                match self.write_zeroes {
                    Some(span) => {
                        let cost = span.sample(&mut self.random);
                        self.complete_in_controller(now, submitted, cost);
                    }
                    None => self.queue.push(pending),
                }
            }
        }
        self.dispatch(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        let arm = self.busy.map(|(end, _)| end);
        [arm, self.due.next_at()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.run(now);
        while let Some((at, tag)) = self.due.pop_due(now) {
            done.push(Completion::done(tag, at));
        }
    }

    fn start(&mut self, _: Nanos) {
        self.commands.clear();
    }

    fn inside(&self, _: Nanos) -> Option<Inside> {
        self.commands.inside()
    }

    fn watch(&mut self, owner: &str, tracks: &mut Tracks) {
        self.commands.watch(owner, tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        self.commands.take_spans(spans);
    }

    /// Empties the caches and the queue of the arm, which stands where it stood.
    fn cut_power(&mut self, now: Nanos) {
        let pending = self.queue.drain(..).chain(self.waiting.drain(..));
        let mut tags: Vec<Tag> = pending.map(|pending| pending.submitted.tag).collect();
        tags.extend(self.flushes.drain(..).map(|flush| flush.submitted.tag));
        tags.extend(self.busy.take().and_then(|(_, job)| match job {
            Job::Read { passing, .. } | Job::Write { passing } | Job::Stream { passing } => {
                Some(passing.submitted.tag)
            }
            Job::Destage => None,
        }));
        tags.into_iter().for_each(|tag| self.due.push(now, tag));
        self.commands.cut(now);
        (self.passed_queue, self.passed_blocked, self.passed_oldest) = (0, 0, 0);
        self.link_free_at = self.link_free_at.min(now);
        self.cache.empty();
        self.read_ahead.empty();
    }

    // A disk writes a sector as a whole.
    fn power_loss(&self) -> PowerLoss {
        let cache = match self.cache.limit() {
            0 => CacheKind::None,
            size => CacheKind::Volatile(size),
        };
        PowerLoss::new(cache, SECTOR)
    }
}

#[cfg(test)]
mod tests;
