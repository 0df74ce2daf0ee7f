//! The drive itself.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stasis_block::inside::Inside;
use stasis_block::medium::{Finished, Medium, MediumError};
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{
    Command, Fate, Health, Operation, Request, Status, VendorCommand, VendorError, SECTOR,
};
use stasis_clock::Nanos;
use stasis_models::{Completion, Model};

use crate::slots::{Slot, Slots};
use crate::{Control, Done, Layer, Properties};

/// A model with a medium.
pub struct Drive {
    properties: Properties,
    model: Box<dyn Model>,
    medium: Box<dyn Medium>,
    // The host's clock, if the guest stands still for the medium. It changes nothing but `frozen`.
    host_clock: Option<fn() -> Instant>,
    slots: Slots,
    // Completed by the model, and not yet handed out.
    due: Vec<Completion>,
    // Barriers under way, in the order of their times.
    barriers: VecDeque<Completion>,
    // Finished by the medium, on their way to their slots.
    finished: Vec<Finished>,
    frozen: Duration,
    submitted: u64,
    error: Option<MediumError>,
}

impl Drive {
    /// A drive with nothing in flight. `index` is its place in the experiment.
    pub fn new(index: u16, name: String, model: Box<dyn Model>, medium: Box<dyn Medium>) -> Self {
        let properties = Properties {
            index,
            name,
            capacity: medium.capacity(),
            discard_zeroes: medium.discard_zeroes(),
            barrier: model.barrier(),
            power_loss: model.power_loss(),
        };
        Self {
            properties,
            model,
            host_clock: None,
            medium,
            slots: Slots::default(),
            due: Vec::new(),
            barriers: VecDeque::new(),
            finished: Vec::new(),
            frozen: Duration::ZERO,
            submitted: 0,
            error: None,
        }
    }

    /// The same drive, which counts by `clock` for how long the guest stands still for the medium
    /// ([`Control::frozen`]). A medium that takes no time is not measured: reading a clock costs
    /// more than an I/O in memory does.
    #[must_use]
    pub fn with_host_clock(mut self, clock: fn() -> Instant) -> Self {
        self.host_clock = (!self.medium.is_immediate()).then_some(clock);
        self
    }

    /// The same drive, with a barrier that costs `cost` (ns), whatever its
    /// model offers.
    #[must_use]
    pub fn with_barrier(mut self, cost: Nanos) -> Self {
        self.properties.barrier = Some(cost);
        self
    }

    /// Moves the barriers that are over by `now` to the due completions.
    fn finish_barriers(&mut self, now: Nanos) {
        while self.barriers.front().is_some_and(|barrier| barrier.at <= now) {
            let Some(barrier) = self.barriers.pop_front() else { break };
            let place = self.due.partition_point(|other| other.at <= barrier.at);
            self.due.insert(place, barrier);
        }
    }

    /// Waits until the medium has finished with a slot.
    fn wait_for(&mut self, index: u32) {
        let mut start = None;
        let clock = self.host_clock;
        while self.slots.get_mut(index).is_some_and(|slot| slot.outcome.is_none()) {
            start = start.or_else(|| clock.map(|clock| clock()));
            self.medium.wait(&mut self.finished);
            if self.finished.is_empty() {
                debug_assert!(false, "the medium forgot a command");
                break;
            }
            self.settle();
        }
        self.count_frozen(start);
    }

    /// Adds the host's time since `start` to that for which the guest stood still.
    fn count_frozen(&mut self, start: Option<Instant>) {
        if let (Some(clock), Some(start)) = (self.host_clock, start) {
            self.frozen += clock().duration_since(start);
        }
    }

    /// Brings the medium's finished I/Os to their slots.
    fn settle(&mut self) {
        for Finished { ticket, result, data } in self.finished.drain(..) {
            let slot = u32::try_from(ticket).ok().and_then(|index| self.slots.get_mut(index));
            debug_assert!(slot.is_some(), "the medium finished a command that is not in flight");
            if let Some(slot) = slot {
                slot.outcome = Some((result, data));
            }
        }
    }

    /// Flips a bit of a copied range: the drive read its source wrong. The medium's own copy was
    /// right.
    fn damage_copy(&mut self, copy: &Command, seed: u64) {
        let Some(bit) = seed.checked_rem(copy.length.saturating_mul(8)) else { return };
        let at = copy.offset + bit / 8;
        let sector = at / SECTOR * SECTOR;
        let read = Command::new(Operation::Read, sector, SECTOR);
        let (status, mut data) = self.instant(read, vec![0; SECTOR as usize]);
        if status == Status::Ok {
            flip(&mut data, 8 * (at - sector) + bit % 8);
            self.instant(Command { operation: Operation::Write, ..read }, data);
        }
    }

    fn complete(&mut self, slot: Slot, Completion { at, fate, .. }: Completion) -> Done {
        let Slot { tag, queue, command, submit, order, outcome } = slot;
        let failure = command.operation.failure();
        let mut failed_at = 0;
        let (status, data) = match outcome {
            Some((Ok(()), mut data)) => match fate {
                Fate::Done => (Status::Ok, data),
                Fate::Failed { status, at } => {
                    failed_at = at;
                    (status, data)
                }
                Fate::Corrupted { seed } => {
                    match command.operation {
                        Operation::Read => flip(&mut data, seed),
                        Operation::Copy => self.damage_copy(&command, seed),
                        _ => {}
                    }
                    (Status::Ok, data)
                }
            },
            Some((Err(error), data)) => {
                self.error.get_or_insert(error);
                (failure, data)
            }
            None => (failure, Vec::new()),
        };
        Done { tag, queue, command, status, failed_at, data, submit, order, at }
    }
}

impl Layer for Drive {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn in_flight(&self) -> usize {
        self.slots.len()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        // Completions of the model before this command must not depend on whether the caller asked
        // for them late.
        if self.model.next_event().is_some_and(|at| at <= now) {
            self.model.advance(now, &mut self.due);
        }
        let Request { tag, queue, command, data, .. } = request;
        let order = self.submitted;
        self.submitted += 1;
        if command.operation == Operation::Barrier {
            // Order costs the drive's mechanics nothing; nothing waits for it.
            let outcome = Some((Ok(()), data));
            let slot = Slot { tag, queue, command, submit: now, order, outcome };
            let slot = self.slots.insert(slot);
            let barrier = self.properties.barrier;
            let fate = match barrier {
                Some(_) => Fate::Done,
                None => Fate::failed(Status::WriteError),
            };
            let at = now.saturating_add(barrier.unwrap_or(0));
            self.barriers.push_back(Completion { tag: slot, at, fate });
            return;
        }
        let slot = Slot { tag, queue, command, submit: now, order, outcome: None };
        let slot = self.slots.insert(slot);
        self.model.submit(now, slot, &command);
        let start = self.host_clock.map(|clock| clock());
        self.medium.submit(u64::from(slot), command, data);
        self.count_frozen(start);
    }

    fn next_event(&self) -> Option<Nanos> {
        let next = match self.due.first() {
            Some(completion) => Some(completion.at),
            None => self.model.next_event(),
        };
        match self.barriers.front() {
            Some(barrier) => Some(next.map_or(barrier.at, |at| at.min(barrier.at))),
            None => next,
        }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.model.advance(now, &mut self.due);
        self.finish_barriers(now);
        if self.due.is_empty() {
            return;
        }
        self.medium.poll(&mut self.finished);
        self.settle();
        let mut due = std::mem::take(&mut self.due);
        for completion in due.drain(..) {
            self.wait_for(completion.tag);
            let Some(slot) = self.slots.remove(completion.tag) else {
                debug_assert!(false, "the model completed a command that is not in flight");
                continue;
            };
            done.push(self.complete(slot, completion));
        }
        self.due = due;
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        if command.operation == Operation::Barrier {
            return (Status::Ok, data);
        }
        let slot = Slot { tag: 0, queue: 0, command, submit: 0, order: 0, outcome: None };
        let slot = self.slots.insert(slot);
        self.medium.submit(u64::from(slot), command, data);
        self.medium.poll(&mut self.finished);
        self.settle();
        self.wait_for(slot);
        let outcome = self.slots.remove(slot).and_then(|slot| slot.outcome);
        match outcome {
            Some((Ok(()), data)) => (Status::Ok, data),
            Some((Err(error), data)) => {
                self.error.get_or_insert(error);
                (command.operation.failure(), data)
            }
            None => (command.operation.failure(), Vec::new()),
        }
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for Drive {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        None
    }

    fn health(&mut self) -> Health {
        self.model.health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.model.advance(now, &mut self.due);
        self.model.vendor(now, command)
    }

    fn start(&mut self, now: Nanos) {
        self.model.start(now);
    }

    fn inside(&mut self, now: Nanos) -> Option<Inside> {
        self.model.inside(now)
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        self.model.watch(&self.properties.name, tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        self.model.take_spans(spans);
    }

    fn frozen(&mut self) -> Duration {
        self.frozen
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.error.take()
    }
}

/// Flips one bit.
fn flip(data: &mut [u8], seed: u64) {
    if let Some(bit) = seed.checked_rem(8 * data.len() as u64) {
        data[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Drive")
            .field("index", &self.properties.index)
            .field("name", &self.properties.name)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
