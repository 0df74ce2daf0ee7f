//! A drive in real time as a layer: commands in, completions out.

use stasis_block::inside::Inside;
use stasis_block::{Command, Health, Operation, Request, Status, VendorCommand, VendorError};
use stasis_clock::Nanos;
use stasis_drive::{Control, Done, Layer, Properties};
use stasis_media::{Finished, MediumError};

use super::{RealTime, Slot};

impl Layer for RealTime {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() + self.ready.len()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        let order = self.submitted;
        self.submitted += 1;
        let Request { tag, queue, command, data, .. } = request;
        if command.operation == Operation::Barrier {
            let status = Status::WriteError;
            self.ready.push_back(Done {
                tag,
                queue,
                command,
                status,
                failed_at: 0,
                data,
                submit: now,
                order,
                at: now,
            });
            return;
        }
        let (submit, outcome, target) = (now, None, None);
        let slot = Slot { tag, queue, command, submit, order, outcome, target };
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
        if let Some(model) = &mut self.model {
            let now = now.max(self.reached);
            if model.next_event().is_some_and(|at| at <= now) {
                model.advance(now, &mut self.completions);
            }
            model.submit(now, index, &command);
        }
        self.medium.submit(u64::from(index), command, data);
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|done| done.at);
        let held = self.completions.first().map(|completion| completion.at);
        let model = self.model.as_ref().and_then(|model| model.next_event());
        // I/Os that the medium has not begun begin when it is polled: at once.
        let medium = self.medium.needs_poll().then_some(0);
        [ready, held, model, medium].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.turn(now);
        done.extend(self.ready.drain(..));
    }

    /// Waits for the medium.
    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        if command.operation == Operation::Barrier {
            return (Status::WriteError, data);
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
                    slot.outcome = Some((result, data));
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

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

// A server reports no spans of its drives.
impl Control for RealTime {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        None
    }

    fn health(&mut self) -> Health {
        self.model.as_ref().map(|model| model.health()).unwrap_or_default()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        match &mut self.model {
            Some(model) => {
                let now = now.max(self.reached);
                model.advance(now, &mut self.completions);
                model.vendor(now, command)
            }
            None => Err(VendorError::Opcode),
        }
    }

    fn start(&mut self, now: Nanos) {
        if let Some(model) = &mut self.model {
            model.start(now);
        }
    }

    fn inside(&mut self, now: Nanos) -> Option<Inside> {
        self.model.as_ref().and_then(|model| model.inside(now))
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.error.take()
    }
}
