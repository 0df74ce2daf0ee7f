//! The drive itself.

use std::time::{Duration, Instant};

use stasis_block::{Command, Fate, Health, Operation, Status, Tag, VendorCommand, VendorError};
use stasis_clock::Nanos;
use stasis_journal::IoRecord;
use stasis_media::{Finished, Medium, MediumError};
use stasis_models::{Completion, Model};

use crate::slots::{Slot, Slots};
use crate::Statistics;

/// A command on its way to a drive.
#[derive(Debug)]
pub struct Submission {
    /// The caller's name for it, which comes back with it.
    pub tag: Tag,
    /// The queue it came from.
    pub queue: u16,
    /// What is asked.
    pub command: Command,
    /// What is written, or room for exactly what is read; otherwise empty.
    pub data: Vec<u8>,
}

/// A command that a drive has completed.
#[derive(Debug)]
pub struct Done {
    /// The caller's name for it.
    pub tag: Tag,
    /// The queue it came from.
    pub queue: u16,
    /// What was asked.
    pub command: Command,
    /// How it ended.
    pub status: Status,
    /// The buffer it was submitted with; for a read that ended well, filled.
    pub data: Vec<u8>,
    /// When it was submitted (ns).
    pub submit: Nanos,
    /// When the model completed it: its target time (ns).
    pub at: Nanos,
}

/// A model with a medium.
pub struct Drive {
    index: u16,
    name: String,
    model: Box<dyn Model>,
    medium: Box<dyn Medium>,
    slots: Slots,
    // Completed by the model, and not yet handed out.
    due: Vec<Completion>,
    // Finished by the medium, on their way to their slots.
    finished: Vec<Finished>,
    frozen: Duration,
    statistics: Statistics,
    error: Option<MediumError>,
}

impl Drive {
    /// A drive with nothing in flight. `index` is its place in the experiment.
    pub fn new(index: u16, name: String, model: Box<dyn Model>, medium: Box<dyn Medium>) -> Self {
        Self {
            index,
            name,
            model,
            medium,
            slots: Slots::default(),
            due: Vec::new(),
            finished: Vec::new(),
            frozen: Duration::ZERO,
            statistics: Statistics::default(),
            error: None,
        }
    }

    /// Its place in the experiment.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Its name in the experiment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes.
    pub fn capacity(&self) -> u64 {
        self.medium.capacity()
    }

    /// Whether a discarded range reads as zeroes afterwards; otherwise a
    /// discard changes nothing.
    pub fn discard_zeroes(&self) -> bool {
        self.medium.discard_zeroes()
    }

    /// How many commands are in flight.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// The real time that the medium has kept the guest waiting.
    pub fn frozen(&self) -> Duration {
        self.frozen
    }

    /// What it has done so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The first error of the medium since this was last asked: what the guest
    /// sees is only a status.
    pub fn take_error(&mut self) -> Option<MediumError> {
        self.error.take()
    }

    /// Takes a command at `now` (ns), which is not before any earlier call's.
    /// The model's time for it begins, and the medium starts on it.
    pub fn submit(&mut self, now: Nanos, submission: Submission) {
        // What the model completes before this command must not depend on
        // whether the caller was late to ask for it.
        if self.model.next_event().is_some_and(|at| at <= now) {
            self.model.advance(now, &mut self.due);
        }
        let Submission { tag, queue, command, data } = submission;
        let slot = self.slots.insert(Slot { tag, queue, command, submit: now, outcome: None });
        self.model.submit(now, slot, &command);
        let start = Instant::now();
        self.medium.submit(u64::from(slot), command, data);
        self.frozen += start.elapsed();
    }

    /// When something next happens in the drive (ns): the time at which to call
    /// [`Drive::advance`]. May be in the past.
    pub fn next_event(&self) -> Option<Nanos> {
        match self.due.first() {
            Some(completion) => Some(completion.at),
            None => self.model.next_event(),
        }
    }

    /// Appends the commands that complete by `now` (ns), in the order of their
    /// target times. Where the medium has not finished one of them, waits.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.model.advance(now, &mut self.due);
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

    /// The record of a command that the guest saw completed at `delivered`
    /// (ns). `boot`: before the experiment's command began.
    pub fn record(&self, done: &Done, delivered: Nanos, boot: bool) -> IoRecord {
        IoRecord {
            drive: self.index,
            queue: done.queue,
            operation: done.command.operation,
            failed: done.status != Status::Ok,
            boot,
            offset: done.command.offset,
            bytes: done.command.length,
            submit: done.submit,
            target: done.at,
            delivered,
        }
    }

    /// Waits until the medium has finished with a slot.
    fn wait_for(&mut self, index: u32) {
        let mut start = None;
        while self.slots.get_mut(index).is_some_and(|slot| slot.outcome.is_none()) {
            start.get_or_insert_with(Instant::now);
            self.medium.wait(&mut self.finished);
            if self.finished.is_empty() {
                debug_assert!(false, "the medium forgot a command");
                break;
            }
            self.settle();
        }
        self.frozen += start.map_or(Duration::ZERO, |start| start.elapsed());
    }

    /// Brings what the medium has finished to its slots.
    fn settle(&mut self) {
        for Finished { ticket, result, data } in self.finished.drain(..) {
            let slot = u32::try_from(ticket).ok().and_then(|index| self.slots.get_mut(index));
            debug_assert!(slot.is_some(), "the medium finished a command that is not in flight");
            if let Some(slot) = slot {
                slot.outcome = Some((result, data));
            }
        }
    }

    /// What the drive's SMART log says.
    pub fn health(&self) -> Health {
        self.model.health()
    }

    /// Carries out a vendor's admin command at `now` (ns).
    ///
    /// # Errors
    /// [`VendorError`] if the model does not know it, or it is not possible.
    pub fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.model.advance(now, &mut self.due);
        self.model.vendor(now, command)
    }

    /// What its model did inside until `now` (ns), as JSON.
    pub fn inside(&self, now: Nanos) -> Option<String> {
        self.model.inside(now)
    }

    fn complete(&mut self, slot: Slot, Completion { at, fate, .. }: Completion) -> Done {
        let Slot { tag, queue, command, submit, outcome } = slot;
        let failure = match command.operation {
            Operation::Read | Operation::Verify => Status::ReadError,
            _ => Status::WriteError,
        };
        let (status, data) = match outcome {
            Some((Ok(()), mut data)) => match fate {
                Fate::Done => (Status::Ok, data),
                Fate::Failed(status) => (status, data),
                Fate::Corrupted { seed } => {
                    if command.operation == Operation::Read {
                        flip(&mut data, seed);
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
        self.statistics.add(command.operation, command.length, status);
        Done { tag, queue, command, status, data, submit, at }
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
            .field("index", &self.index)
            .field("name", &self.name)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
