//! The join of a model's completions with a medium's: a command is over once both have done it.

use slab::Slab;
use stasis_block::clock::Nanos;
use stasis_block::medium::{Finished, Medium, MediumError};
use stasis_block::{Command, Delivery, Fate, Operation, Request, Status, Tag, SECTOR};

use crate::{Done, LayerTimes};

/// A medium, and the commands in flight between it and a model. A command's slot is its name at
/// both, independent of the caller's tags.
pub struct Join<M: ?Sized> {
    slots: Slab<Slot>,
    // Finished by the medium, on their way to their slots.
    finished: Vec<Finished>,
    submitted: u64,
    error: Option<MediumError>,
    medium: Box<M>,
}

/// A command in flight.
struct Slot {
    tag: Tag,
    queue: u16,
    command: Command,
    submit: Nanos,
    /// Its number among the submissions.
    order: u64,
    /// Outcome at the medium, with the command's buffer; `None` until then.
    outcome: Option<(Result<(), MediumError>, Vec<u8>)>,
    /// The model's completion, where it came before the medium's.
    target: Option<(Nanos, Fate)>,
}

/// A command in flight at a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// Its number among the submissions.
    pub order: u64,
    /// Number of the submission queue that it came by.
    pub queue: u16,
    /// The command.
    pub command: Command,
    /// Time at which it came (ns).
    pub submit: Nanos,
    /// Time at which it is delivered (ns), once the model has said so.
    pub target: Option<Nanos>,
}

impl<M: Medium + ?Sized> Join<M> {
    /// A medium with nothing in flight.
    pub fn new(medium: Box<M>) -> Self {
        Self { slots: Slab::new(), finished: Vec::new(), submitted: 0, error: None, medium }
    }

    /// The medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The medium, to be changed while nothing is in flight.
    pub fn medium_mut(&mut self) -> &mut M {
        &mut self.medium
    }

    /// Number of commands in flight.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// The commands in flight, in the order of their submission.
    pub fn commands(&self) -> Vec<InFlight> {
        let one = |slot: &Slot| InFlight {
            order: slot.order,
            queue: slot.queue,
            command: slot.command,
            submit: slot.submit,
            target: slot.target.as_ref().map(|(at, _)| *at),
        };
        let mut all: Vec<_> = self.slots.iter().map(|(_, slot)| one(slot)).collect();
        all.sort_unstable_by_key(|command| command.order);
        all
    }

    /// Number of commands submitted so far.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Starts a command at the medium, at `now` (ns). Returns its slot, by which the model names it.
    pub fn submit(&mut self, now: Nanos, request: Request) -> Tag {
        let slot = self.insert(now, &request, None);
        let mut request = Request { tag: slot, ..request };
        // The sender looks itself at blocks that are verified with room for their data.
        if request.command.operation == Operation::Verify && !request.data.is_empty() {
            request.command.operation = Operation::Read;
        }
        self.medium.submit(request);
        slot
    }

    /// As [`Self::submit`], for a command that asks nothing of the medium.
    pub fn submit_without_medium(&mut self, now: Nanos, mut request: Request) -> Tag {
        let data = std::mem::take(&mut request.data);
        self.insert(now, &request, Some(data))
    }

    fn insert(&mut self, now: Nanos, request: &Request, done: Option<Vec<u8>>) -> Tag {
        let &Request { tag, queue, command, .. } = request;
        let (order, outcome) = (self.submitted, done.map(|data| (Ok(()), data)));
        self.submitted += 1;
        let slot = Slot { tag, queue, command, submit: now, order, outcome, target: None };
        self.slots.insert(slot) as Tag
    }

    /// Takes what the medium has finished, without waiting; `settled` gets the slots.
    pub fn poll(&mut self, settled: impl FnMut(Tag)) {
        self.medium.poll(&mut self.finished);
        self.settle(settled);
    }

    /// Brings the medium's finished I/Os to their slots.
    fn settle(&mut self, mut settled: impl FnMut(Tag)) {
        for Finished { tag, result, data } in self.finished.drain(..) {
            let slot = self.slots.get_mut(tag as usize);
            debug_assert!(slot.is_some(), "the medium finished a command that is not in flight");
            if let Some(slot) = slot {
                slot.outcome = Some((result, data));
                settled(tag);
            }
        }
    }

    /// Returns whether the medium has yet to finish a slot's command.
    pub fn awaits_medium(&self, slot: Tag) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.outcome.is_none())
    }

    /// Waits until the medium has finished a slot's command.
    pub fn wait_for(&mut self, slot: Tag) {
        while self.awaits_medium(slot) {
            self.medium.wait(&mut self.finished);
            if self.finished.is_empty() {
                debug_assert!(false, "the medium forgot a command");
                break;
            }
            self.settle(|_| {});
        }
    }

    /// Waits until the medium has finished every command.
    pub fn wait_for_all(&mut self) {
        self.poll(|_| {});
        let waiting = self.slots.iter().filter(|(_, slot)| slot.outcome.is_none());
        let waiting: Vec<Tag> = waiting.map(|(index, _)| index as Tag).collect();
        waiting.into_iter().for_each(|slot| self.wait_for(slot));
    }

    /// Notes the model's completion of a slot's command, for [`Self::take_complete`].
    pub fn set_target(&mut self, slot: Tag, at: Nanos, fate: Fate) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.target = Some((at, fate));
        }
    }

    /// The slots without a completion by the model.
    pub fn without_target(&self) -> Vec<Tag> {
        let without = self.slots.iter().filter(|(_, slot)| slot.target.is_none());
        without.map(|(index, _)| index as Tag).collect()
    }

    /// The slots that the medium has finished, with the times of their submission (ns).
    pub fn settled(&self) -> Vec<(Tag, Nanos)> {
        let settled = self.slots.iter().filter(|(_, slot)| slot.outcome.is_some());
        settled.map(|(index, slot)| (index as Tag, slot.submit)).collect()
    }

    /// Takes out a slot's command if model and medium have both done it; `untimed`: as if the model
    /// had completed it at that time (ns), where it has not.
    pub fn take_complete(&mut self, slot: Tag, untimed: Option<Nanos>) -> Option<Done> {
        let found = self.slots.get(slot as usize)?;
        let target = found.target.or(untimed.map(|at| (at, Fate::Done)));
        let (at, fate) = target.filter(|_| found.outcome.is_some())?;
        self.complete(slot, at, fate)
    }

    /// Takes out a slot's command, which the medium has finished, as the model completes it at `at`
    /// (ns); `None` where the slot is empty.
    pub fn complete(&mut self, slot: Tag, at: Nanos, fate: Fate) -> Option<Done> {
        let Slot { tag, queue, command, submit, order, outcome, .. } =
            self.slots.try_remove(slot as usize)?;
        let mut failed_at = 0;
        let (status, data) = match (self.outcome(&command, outcome), fate) {
            ((Status::Ok, data), Fate::Failed { status, at }) => {
                failed_at = at;
                (status, data)
            }
            ((Status::Ok, mut data), Fate::Corrupted { seed }) => {
                match command.operation {
                    Operation::Read | Operation::Verify => flip(&mut data, seed),
                    Operation::Copy => self.damage_copy(&command, seed),
                    _ => {}
                }
                (Status::Ok, data)
            }
            (outcome, _) => outcome,
        };
        let (layers, delivery) = (LayerTimes::default(), Delivery::Once);
        Some(Done {
            tag,
            queue,
            command,
            status,
            failed_at,
            data,
            submit,
            order,
            at,
            layers,
            delivery,
        })
    }

    /// Carries a command out at once, and waits for it ([`crate::Layer::instant`]).
    pub fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        let order = self.submitted;
        let slot = self.submit(0, Request::new(0, command, data));
        self.submitted = order;
        self.poll(|_| {});
        self.wait_for(slot);
        let outcome = self.slots.try_remove(slot as usize).and_then(|slot| slot.outcome);
        self.outcome(&command, outcome)
    }

    /// Status and data of a command from its outcome at the medium.
    fn outcome(
        &mut self,
        command: &Command,
        outcome: Option<(Result<(), MediumError>, Vec<u8>)>,
    ) -> (Status, Vec<u8>) {
        match outcome {
            Some((Ok(()), data)) => (Status::Ok, data),
            Some((Err(error), data)) => {
                self.error.get_or_insert(error);
                (command.operation.failure(), data)
            }
            None => (command.operation.failure(), Vec::new()),
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

    /// Takes the medium's first error.
    pub fn take_error(&mut self) -> Option<MediumError> {
        self.error.take()
    }
}

/// Flips one bit.
pub(crate) fn flip(data: &mut [u8], seed: u64) {
    if let Some(bit) = seed.checked_rem(8 * data.len() as u64) {
        data[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}
