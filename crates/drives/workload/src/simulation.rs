//! The loop that brings a source's I/Os to a model.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::timeline::{Numbers, Spans, Tracks};
use stasis_block::{Command, Completion, Fate, Model, Operation, Status};

use crate::{Io, TraceError, Workload};

/// The number of the one drive, for probes.
const DRIVE: u16 = 0;

/// An I/O that the model has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// The I/O.
    pub io: Io,
    /// Its number among all submissions, from 0.
    pub order: u64,
    /// Time at which it was submitted (ns).
    pub submit: Nanos,
    /// Time at which it completed (ns).
    pub at: Nanos,
    /// Outcome of the I/O.
    pub fate: Fate,
}

/// Reason for the return of [`Simulation::run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// As many I/Os have completed as were asked for.
    Batch,
    /// Nothing is left before the given time.
    Time,
    /// The source is over, and nothing is in flight that could complete.
    Over,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    io: Io,
    order: u64,
    submit: Nanos,
}

/// A model driven by a source of I/Os.
///
/// Events happen in the order of time; at the same time completions come
/// before submissions. Once its deepest queue was seen, it allocates nothing.
pub struct Simulation<W> {
    model: Box<dyn Model>,
    workload: W,
    slots: Vec<Slot>,
    free: Vec<u32>,
    due: Vec<Completion>,
    /// Barriers under way, in the order of their times.
    barriers: VecDeque<Completion>,
    submitted: u64,
    now: Nanos,
    /// While the model is watched: the numbers of the commands that it gets.
    numbers: Option<Box<Numbers>>,
}

impl<W: Workload> Simulation<W> {
    /// At time 0, with nothing in flight.
    pub fn new(model: Box<dyn Model>, workload: W) -> Self {
        Self {
            model,
            workload,
            slots: Vec::new(),
            free: Vec::new(),
            due: Vec::new(),
            barriers: VecDeque::new(),
            submitted: 0,
            now: 0,
            numbers: None,
        }
    }

    /// The time of the last event (ns).
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Number of I/Os in flight.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The model.
    pub fn model(&self) -> &dyn Model {
        self.model.as_ref()
    }

    /// The model, to turn it off: nothing more is simulated.
    pub fn model_mut(&mut self) -> &mut dyn Model {
        self.model.as_mut()
    }

    /// As [`Model::watch`].
    pub fn watch(&mut self, owner: &str, tracks: &mut Tracks) {
        self.model.watch(owner, tracks);
        self.numbers.get_or_insert_default();
    }

    /// As [`Model::take_spans`].
    pub fn take_spans(&mut self, spans: &mut Spans) {
        let from = spans.kept().len();
        self.model.take_spans(spans);
        if let Some(numbers) = &self.numbers {
            spans.renumber(from, numbers);
        }
    }

    /// The source.
    pub fn workload(&self) -> &W {
        &self.workload
    }

    /// Runs until an event in [`Pause`]; appends completions to `done`, which holds about `batch`
    /// then. Nothing after `until` happens.
    ///
    /// # Errors
    /// [`TraceError`] where the source cannot be read.
    pub fn run(
        &mut self,
        until: Nanos,
        batch: usize,
        done: &mut Vec<Finished>,
    ) -> Result<Pause, TraceError> {
        loop {
            let submission = self.workload.next_at();
            if submission.is_none() && self.in_flight() == 0 {
                return Ok(Pause::Over);
            }
            let mut event = self.model.next_event();
            if let Some(barrier) = self.barriers.front() {
                event = Some(event.map_or(barrier.at, |at| at.min(barrier.at)));
            }
            let at = match (event, submission) {
                (None, None) => return Ok(Pause::Over),
                (Some(at), None) | (None, Some(at)) => at,
                (Some(event), Some(submission)) => event.min(submission),
            };
            let at = at.max(self.now);
            if at > until {
                return Ok(Pause::Time);
            }
            self.now = at;
            if event.is_some_and(|event| event <= at) {
                self.advance(at, done);
                if done.len() >= batch {
                    return Ok(Pause::Batch);
                }
            } else if let Some(io) = self.workload.take()? {
                self.submit(at, io);
            }
        }
    }

    #[inline]
    fn submit(&mut self, now: Nanos, io: Io) {
        let (order, submit) = (self.submitted, now);
        self.submitted += 1;
        let tag = match self.free.pop() {
            Some(tag) => {
                self.slots[tag as usize] = Slot { io, order, submit };
                tag
            }
            None => {
                self.slots.push(Slot { io, order, submit });
                self.slots.len() as u32 - 1
            }
        };
        if io.command.operation == Operation::Barrier {
            // As in a drive: the layer around the model completes it.
            let (cost, fate) = match self.model.barrier() {
                Some(cost) => (cost, Fate::Done),
                None => (0, Fate::failed(Status::WriteError)),
            };
            let at = now.saturating_add(cost);
            self.barriers.push_back(Completion { tag, at, fate });
            return;
        }
        if let Some(numbers) = &mut self.numbers {
            numbers.pass(order);
        }
        let Command { operation, offset, length, .. } = io.command;
        stasis_probes::io_submitted(DRIVE, tag.into(), operation as u8, offset, length, now);
        self.model.submit(now, tag, &io.command);
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Finished>) {
        self.model.advance(now, &mut self.due);
        while self.barriers.front().is_some_and(|barrier| barrier.at <= now) {
            self.due.extend(self.barriers.pop_front());
        }
        for &Completion { tag, at, fate } in &self.due {
            let Some(slot) = self.slots.get(tag as usize) else {
                debug_assert!(false, "the model completed a command that is not in flight");
                continue;
            };
            self.free.push(tag);
            // There is no medium to wait for.
            stasis_probes::io_due(DRIVE, tag.into(), at);
            stasis_probes::io_completed(DRIVE, tag.into(), at);
            let &Slot { io, order, submit } = slot;
            done.push(Finished { io, order, submit, at, fate });
            self.workload.complete(at, &slot.io, fate);
        }
        self.due.clear();
    }
}

impl<W: std::fmt::Debug> std::fmt::Debug for Simulation<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("workload", &self.workload)
            .field("submitted", &self.submitted)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
