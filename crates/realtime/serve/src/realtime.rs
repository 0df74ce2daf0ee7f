//! A drive in real time: a medium, with a model that holds completions back
//! until their time has come, or without one.

mod layer;
mod shared;

use std::collections::VecDeque;
use std::os::fd::RawFd;

use stasis_block::{Command, Completion, Fate, Model, Operation, PowerLoss, Status, Tag};
use stasis_clock::Nanos;
use stasis_drive::{Done, Properties};
use stasis_media::{Finished, HostMedium, Medium, MediumError, OpenError};

pub use shared::{Shared, SharedLayer};

/// A model, or none, with a medium. Unlike [`stasis_drive::Drive`] it never waits for the medium: a
/// late I/O is completed late.
pub struct RealTime {
    properties: Properties,
    model: Option<Box<dyn Model>>,
    /// Lower bound on the model's time: completions are taken from it a little early.
    reached: Nanos,
    medium: Box<dyn HostMedium>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Completed, in the order in which that became known.
    ready: VecDeque<Done>,
    completions: Vec<Completion>,
    finished: Vec<Finished>,
    submitted: u64,
    completed: u64,
    error: Option<MediumError>,
}

/// A command under way.
struct Slot {
    tag: Tag,
    queue: u16,
    command: Command,
    submit: Nanos,
    order: u64,
    /// Outcome at the medium, with the command's buffer.
    outcome: Option<(Result<(), MediumError>, Vec<u8>)>,
    /// Time and outcome of its completion by the model.
    target: Option<(Nanos, Fate)>,
}

impl RealTime {
    /// A drive with nothing in flight.
    pub fn new(
        index: u16,
        name: String,
        model: Option<Box<dyn Model>>,
        medium: Box<dyn HostMedium>,
    ) -> Self {
        let properties = Properties {
            index,
            name,
            capacity: medium.capacity(),
            discard_zeroes: medium.discard_zeroes(),
            // A medium of this host keeps no order by itself: `FlushBarriers` makes one of flushes.
            barrier: None,
            // The loss of the host's file is for the host to define.
            power_loss: PowerLoss::default(),
        };
        Self {
            properties,
            model,
            reached: 0,
            medium,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            completions: Vec::new(),
            finished: Vec::new(),
            submitted: 0,
            completed: 0,
            error: None,
        }
    }

    /// Descriptors of which one is readable when the medium has finished
    /// something.
    pub fn descriptors(&self) -> Vec<RawFd> {
        self.medium.descriptors()
    }

    /// Whether a model holds completions back.
    pub fn is_timed(&self) -> bool {
        self.model.is_some()
    }

    /// Commands under way are timed anew by `model` if they are submitted from
    /// now on; those that the old one holds are completed at once.
    pub fn set_model(&mut self, now: Nanos, model: Option<Box<dyn Model>>) {
        self.turn(now);
        self.model = model;
        for index in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[index as usize];
            if !self.free.contains(&index) && slot.target.is_none() {
                slot.target = Some((now, Fate::Done));
                self.try_finish(now, index);
            }
        }
    }

    /// Gives the drive another capacity and `model`, for which nothing is in flight.
    ///
    /// # Errors
    /// As [`Medium::resize`].
    pub fn resize(
        &mut self,
        now: Nanos,
        capacity: u64,
        model: Option<Box<dyn Model>>,
    ) -> Result<(), OpenError> {
        self.medium.resize(capacity)?;
        self.properties.capacity = self.medium.capacity();
        self.set_model(now, model);
        Ok(())
    }

    /// Submissions and completions so far: a number that grows whenever something happens.
    pub fn progress(&self) -> u64 {
        self.submitted + self.completed
    }

    /// Handles the progress of the medium and the model by `now`.
    pub fn turn(&mut self, now: Nanos) {
        if self.slots.len() == self.free.len() {
            return;
        }
        let mut finished = std::mem::take(&mut self.finished);
        self.medium.poll(&mut finished);
        for Finished { ticket, result, data } in finished.drain(..) {
            let index = ticket as u32;
            if let Some(slot) = self.slots.get_mut(index as usize) {
                slot.outcome = Some((result, data));
                self.try_finish(now, index);
            }
        }
        self.finished = finished;
        if let Some(model) = &mut self.model {
            // From event to event, and no further: `now` may be a little ahead of the clock, and
            // the next event must not come too late for the model.
            while let Some(at) = model.next_event().filter(|at| *at <= now) {
                model.advance(at, &mut self.completions);
                self.reached = at.max(self.reached);
            }
            let mut completions = std::mem::take(&mut self.completions);
            for Completion { tag, at, fate } in completions.drain(..) {
                if let Some(slot) = self.slots.get_mut(tag as usize) {
                    slot.target = Some((at, fate));
                    self.try_finish(now, tag);
                }
            }
            self.completions = completions;
        }
    }

    /// Completes a command that both have done.
    fn try_finish(&mut self, now: Nanos, index: u32) {
        let timed = self.model.is_some();
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        if slot.outcome.is_none() || timed && slot.target.is_none() {
            return;
        }
        let (at, fate) = slot.target.take().unwrap_or((now, Fate::Done));
        let Slot { tag, queue, command, submit, order, .. } = *slot;
        let Some((result, mut data)) = slot.outcome.take() else { return };
        self.free.push(index);
        let mut failed_at = 0;
        let status = match (result, fate) {
            (Ok(()), Fate::Done) => Status::Ok,
            (Ok(()), Fate::Failed { status, at }) => {
                failed_at = at;
                status
            }
            (Ok(()), Fate::Corrupted { seed }) => {
                if command.operation == Operation::Read {
                    flip(&mut data, seed);
                }
                Status::Ok
            }
            (Err(error), _) => {
                self.error.get_or_insert(error);
                command.operation.failure()
            }
        };
        self.completed += 1;
        let done = Done { tag, queue, command, status, failed_at, data, submit, order, at };
        self.ready.push_back(done);
    }
}

/// Flips one bit.
fn flip(data: &mut [u8], seed: u64) {
    if let Some(bit) = seed.checked_rem(8 * data.len() as u64) {
        data[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}
