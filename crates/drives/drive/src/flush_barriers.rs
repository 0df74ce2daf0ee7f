//! Barriers on a drive that has none: a flush that the changes behind it wait for.

use std::collections::{HashMap, VecDeque};

use stasis_block::clock::Nanos;
use stasis_block::{Command, Delivery, Operation, Request, Status, Tag};

use crate::{Decorator, Done, Layer, LayerTimes, Properties};

/// The tag of this layer's own flushes; no caller has that many commands in flight.
const OWN: Tag = Tag::MAX;

/// A layer that offers barriers on one that does not.
///
/// A barrier completes at once. The first change or flush behind it waits for a flush of the
/// layer below, and so do the ones after it; reads pass. Without a change since the last flush a
/// barrier costs nothing. Where such a flush fails, the order is lost: every later change fails.
pub struct FlushBarriers {
    lower: Box<dyn Layer>,
    properties: Properties,
    /// Waiting commands, in the order of request.
    held: VecDeque<Held>,
    /// The flush that held commands wait for: this layer's own, or a caller's that came next.
    flushing: Option<Tag>,
    /// True if anything was changed below since the last such flush.
    changed: bool,
    lost: bool,
    /// The caller's commands in flight: when each came, and its number.
    in_flight: HashMap<Tag, (Nanos, u64)>,
    submitted: u64,
    ready: VecDeque<Done>,
    from_lower: Vec<Done>,
    now: Nanos,
}

enum Held {
    Barrier,
    Command(Request),
}

fn is_read(command: &Command) -> bool {
    matches!(command.operation, Operation::Read | Operation::Verify)
}

impl FlushBarriers {
    /// Barriers for `lower`, in which nothing is in flight.
    pub fn new(lower: Box<dyn Layer>) -> Self {
        Self {
            properties: Properties { barrier: Some(0), ..lower.properties().clone() },
            lower,
            held: VecDeque::new(),
            flushing: None,
            changed: true,
            lost: false,
            in_flight: HashMap::new(),
            submitted: 0,
            ready: VecDeque::new(),
            from_lower: Vec::new(),
            now: 0,
        }
    }

    fn end(&mut self, done: Done) {
        let Some((submit, order)) = self.in_flight.remove(&done.tag) else { return };
        let scheduled = done.layers.scheduled + done.submit.saturating_sub(submit);
        let layers = LayerTimes { scheduled, ..done.layers };
        self.ready.push_back(Done { submit, order, layers, ..done });
    }

    /// Ends a command that the layer below does not get.
    fn answer(&mut self, request: Request, status: Status, at: Nanos) {
        let Request { tag, queue, command, data, .. } = request;
        let (submit, order, failed_at, delivery) = (at, 0, 0, Delivery::Once);
        self.end(Done {
            tag,
            queue,
            command,
            status,
            failed_at,
            data,
            submit,
            order,
            at,
            layers: LayerTimes::default(),
            delivery,
        });
    }

    fn hold_barrier(&mut self) {
        if !matches!(self.held.back(), Some(Held::Barrier)) {
            self.held.push_back(Held::Barrier);
        }
    }

    /// The flush that a barrier is made of.
    fn next_flush(&mut self) -> Request {
        match self.held.pop_front() {
            Some(Held::Command(next)) if next.command.operation == Operation::Flush => next,
            other => {
                if let Some(other) = other {
                    self.held.push_front(other);
                }
                Request::new(OWN, Command::flush(), Vec::new())
            }
        }
    }

    /// Submits the commands that no barrier holds back any more to the layer below.
    fn release(&mut self, now: Nanos) {
        while self.flushing.is_none() {
            match self.held.pop_front() {
                None => return,
                Some(Held::Command(request)) if self.lost => {
                    let status = request.command.operation.failure();
                    self.answer(request, status, now);
                }
                Some(Held::Command(request)) => {
                    self.changed |= request.command.operation != Operation::Flush;
                    self.lower.submit(now, request);
                }
                // Nothing is behind it yet.
                Some(Held::Barrier) if self.held.is_empty() => {
                    self.held.push_front(Held::Barrier);
                    return;
                }
                Some(Held::Barrier) if self.changed && !self.lost => {
                    let flush = self.next_flush();
                    (self.flushing, self.changed) = (Some(flush.tag), false);
                    self.lower.submit(now, flush);
                }
                Some(Held::Barrier) => {}
            }
        }
    }

    /// Everything that happens until `now`, each at its own time.
    fn catch_up(&mut self, now: Nanos) {
        while let Some(at) = self.lower.next_event().filter(|&at| at <= now) {
            self.now = at.max(self.now);
            let mut done = std::mem::take(&mut self.from_lower);
            self.lower.advance(self.now, &mut done);
            for done in done.drain(..) {
                let (at, held_back) = (done.at.max(self.now), self.flushing == Some(done.tag));
                if held_back {
                    self.flushing = None;
                    self.lost |= done.status != Status::Ok;
                }
                if done.tag != OWN {
                    self.end(done);
                }
                if held_back {
                    self.release(at);
                }
            }
            self.from_lower = done;
        }
        self.now = now.max(self.now);
    }
}

impl Decorator for FlushBarriers {
    fn lower(&self) -> &dyn Layer {
        &*self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut *self.lower
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len() + self.ready.len()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        self.catch_up(now);
        self.in_flight.insert(request.tag, (now, self.submitted));
        self.submitted += 1;
        if is_read(&request.command) {
            return self.lower.submit(now, request);
        }
        if request.command.operation == Operation::Barrier {
            self.hold_barrier();
            return self.answer(request, Status::Ok, now);
        }
        self.held.push_back(Held::Command(request));
        self.release(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|done| done.at);
        [ready, self.lower.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.catch_up(now);
        while self.ready.front().is_some_and(|done| done.at <= now) {
            done.extend(self.ready.pop_front());
        }
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        if command.operation == Operation::Barrier {
            self.hold_barrier();
            return (Status::Ok, data);
        }
        if is_read(&command) {
            return self.lower.instant(command, data);
        }
        // Nothing is in flight, so nothing but barriers is held.
        if !self.held.is_empty() && std::mem::take(&mut self.changed) {
            self.lost |= self.lower.instant(Command::flush(), Vec::new()).0 != Status::Ok;
        }
        self.held.clear();
        if self.lost {
            return (command.operation.failure(), data);
        }
        self.changed |= command.operation != Operation::Flush;
        self.lower.instant(command, data)
    }
}
