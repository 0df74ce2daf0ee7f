//! A drive in real time: a medium, with a model that holds completions back
//! until their time has come, or without one.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stasis_block::{
    Command, Completion, Fate, Health, Model, Operation, Status, VendorCommand, VendorError,
};
use stasis_clock::Nanos;
use stasis_drive::{Done, Layer, Statistics, Submission};
use stasis_media::{Finished, Medium, MediumError};

/// A model, or none, with a medium. Unlike [`stasis_drive::Drive`] it never
/// waits for the medium: what is late is completed late.
pub struct RealTime {
    index: u16,
    name: String,
    model: Option<Box<dyn Model>>,
    medium: Box<dyn Medium>,
    /// Whether the medium keeps the order of what a barrier parts.
    barriers: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Completed, in the order in which that became known.
    ready: VecDeque<Done>,
    completions: Vec<Completion>,
    finished: Vec<Finished>,
    submitted: u64,
    statistics: Statistics,
    error: Option<MediumError>,
}

/// A command under way.
struct Slot {
    submission: Submission,
    submit: Nanos,
    order: u64,
    /// What the medium made of it.
    outcome: Option<Result<(), MediumError>>,
    /// What the model made of it.
    target: Option<(Nanos, Fate)>,
}

impl RealTime {
    /// A drive with nothing in flight.
    pub fn new(
        index: u16,
        name: String,
        model: Option<Box<dyn Model>>,
        medium: Box<dyn Medium>,
        barriers: bool,
    ) -> Self {
        Self {
            index,
            name,
            model,
            medium,
            barriers,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            completions: Vec::new(),
            finished: Vec::new(),
            submitted: 0,
            statistics: Statistics::default(),
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

    /// Looks at what the medium and the model have done by `now`.
    pub fn turn(&mut self, now: Nanos) {
        if self.slots.len() == self.free.len() {
            return;
        }
        let mut finished = std::mem::take(&mut self.finished);
        self.medium.poll(&mut finished);
        for Finished { ticket, result, data } in finished.drain(..) {
            let index = ticket as u32;
            if let Some(slot) = self.slots.get_mut(index as usize) {
                slot.submission.data = data;
                slot.outcome = Some(result);
                self.try_finish(now, index);
            }
        }
        self.finished = finished;
        if let Some(model) = &mut self.model {
            if model.next_event().is_some_and(|at| at <= now) {
                model.advance(now, &mut self.completions);
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
        let command = slot.submission.command;
        let outcome = slot.outcome.take();
        let empty = Submission { tag: 0, queue: 0, command, data: Vec::new() };
        let Submission { tag, queue, mut data, .. } =
            std::mem::replace(&mut slot.submission, empty);
        let (submit, order) = (slot.submit, slot.order);
        self.free.push(index);
        let status = match (outcome, fate) {
            (Some(Ok(())), Fate::Done) => Status::Ok,
            (Some(Ok(())), Fate::Failed(status)) => status,
            (Some(Ok(())), Fate::Corrupted { seed }) => {
                if command.operation == Operation::Read {
                    flip(&mut data, seed);
                }
                Status::Ok
            }
            (Some(Err(error)), _) => {
                self.error.get_or_insert(error);
                command.operation.failure()
            }
            (None, _) => command.operation.failure(),
        };
        self.statistics.add(command.operation, command.length, status);
        self.ready.push_back(Done { tag, queue, command, status, data, submit, order, at });
    }
}

/// Flips one bit.
fn flip(data: &mut [u8], seed: u64) {
    if let Some(bit) = seed.checked_rem(8 * data.len() as u64) {
        data[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

impl Layer for RealTime {
    fn index(&self) -> u16 {
        self.index
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capacity(&self) -> u64 {
        self.medium.capacity()
    }

    fn discard_zeroes(&self) -> bool {
        self.medium.discard_zeroes()
    }

    fn barrier(&self) -> Option<Nanos> {
        self.barriers.then_some(0)
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() + self.ready.len()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let order = self.submitted;
        self.submitted += 1;
        let Submission { tag, queue, command, data } = submission;
        if command.operation == Operation::Barrier && !self.barriers {
            let status = Status::WriteError;
            self.ready.push_back(Done {
                tag,
                queue,
                command,
                status,
                data,
                submit: now,
                order,
                at: now,
            });
            return;
        }
        let submission = Submission { tag, queue, command, data: Vec::new() };
        let slot = Slot { submission, submit: now, order, outcome: None, target: None };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.free.reserve(self.slots.len());
                self.slots.len() as u32 - 1
            }
        };
        match &mut self.model {
            // A model sees no barriers: they take no time.
            Some(_) if command.operation == Operation::Barrier => {
                self.slots[index as usize].target = Some((now, Fate::Done));
            }
            Some(model) => {
                if model.next_event().is_some_and(|at| at <= now) {
                    model.advance(now, &mut self.completions);
                }
                model.submit(now, index, &command);
            }
            None => {}
        }
        self.medium.submit(u64::from(index), command, data);
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|done| done.at);
        let held = self.completions.first().map(|completion| completion.at);
        let model = self.model.as_ref().and_then(|model| model.next_event());
        [ready, held, model].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.turn(now);
        done.extend(self.ready.drain(..));
    }

    /// Waits for the medium.
    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        if command.operation == Operation::Barrier {
            return (Status::Ok, data);
        }
        let name = u64::MAX;
        self.medium.submit(name, command, data);
        loop {
            let mut finished = std::mem::take(&mut self.finished);
            self.medium.wait(&mut finished);
            let mut mine = None;
            for Finished { ticket, result, data } in finished.drain(..) {
                if ticket == name {
                    mine = Some((result, data));
                } else if let Some(slot) = self.slots.get_mut(ticket as usize) {
                    slot.submission.data = data;
                    slot.outcome = Some(result);
                    let submit = slot.submit;
                    self.try_finish(submit, ticket as u32);
                }
            }
            self.finished = finished;
            match mine {
                Some((Ok(()), data)) => return (Status::Ok, data),
                Some((Err(error), data)) => {
                    self.error.get_or_insert(error);
                    return (command.operation.failure(), data);
                }
                None if self.medium.in_flight() == 0 => {
                    return (command.operation.failure(), Vec::new());
                }
                None => {}
            }
        }
    }

    fn frozen(&self) -> Duration {
        Duration::ZERO
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.error.take()
    }

    fn health(&self) -> Health {
        self.model.as_ref().map(|model| model.health()).unwrap_or_default()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        match &mut self.model {
            Some(model) => {
                model.advance(now, &mut self.completions);
                model.vendor(now, command)
            }
            None => Err(VendorError::Opcode),
        }
    }

    fn inside(&self, now: Nanos) -> Option<String> {
        self.model.as_ref().and_then(|model| model.inside(now))
    }
}

/// A drive in real time below another layer, such as a disk image: whoever
/// serves both looks at the medium before the layer above is asked.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<RealTime>>);

impl Shared {
    /// Shares a drive.
    pub fn new(drive: RealTime) -> Self {
        Self(Arc::new(Mutex::new(drive)))
    }

    /// The drive.
    pub fn lock(&self) -> MutexGuard<'_, RealTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Shared`] as a layer.
pub struct Below {
    shared: Shared,
    name: String,
    statistics: Statistics,
}

impl Below {
    /// The layer that `shared` is.
    pub fn new(shared: &Shared) -> Self {
        let name = shared.lock().name.clone();
        Self { shared: shared.clone(), name, statistics: Statistics::default() }
    }
}

impl Layer for Below {
    fn index(&self) -> u16 {
        self.shared.lock().index()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capacity(&self) -> u64 {
        self.shared.lock().capacity()
    }

    fn discard_zeroes(&self) -> bool {
        self.shared.lock().discard_zeroes()
    }

    fn barrier(&self) -> Option<Nanos> {
        self.shared.lock().barrier()
    }

    fn in_flight(&self) -> usize {
        self.shared.lock().in_flight()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.shared.lock().submit(now, submission);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.shared.lock().next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let before = done.len();
        self.shared.lock().advance(now, done);
        for Done { command, status, .. } in &done[before..] {
            self.statistics.add(command.operation, command.length, *status);
        }
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.shared.lock().instant(command, data)
    }

    fn frozen(&self) -> Duration {
        Duration::ZERO
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.shared.lock().take_error()
    }

    fn health(&self) -> Health {
        self.shared.lock().health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.shared.lock().vendor(now, command)
    }

    fn inside(&self, now: Nanos) -> Option<String> {
        self.shared.lock().inside(now)
    }
}
