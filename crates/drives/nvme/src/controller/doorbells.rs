//! From a doorbell, in a register or in its shadow, to its queue and the commands that it
//! announces.

use crate::command::SubmissionEntry;
use crate::events::Event;
use crate::registers as reg;
use crate::status::Outcome;
use crate::Memory;

use crate::context::ControllerMut;

/// The queue of a doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doorbell {
    /// Tail of a submission queue.
    SubmissionTail(u16),
    /// Head of a completion queue.
    CompletionHead(u16),
}

/// The doorbell at `offset`, if it is one.
pub(super) fn doorbell(offset: u64) -> Option<Doorbell> {
    let index = offset.checked_sub(reg::DOORBELLS)? / 4;
    let queue = u16::try_from(index / 2).ok()?;
    Some(if index % 2 == 0 {
        Doorbell::SubmissionTail(queue)
    } else {
        Doorbell::CompletionHead(queue)
    })
}

impl ControllerMut<'_> {
    pub(super) fn ring(&mut self, memory: &dyn Memory, doorbell: Doorbell, value: u32) {
        if !self.host.is_running() {
            return;
        }
        match doorbell {
            Doorbell::SubmissionTail(queue) => {
                let shadowed = self.host.queues.shadow_of(queue).is_some();
                let Some(sq) = self.host.queues.submission_mut(queue) else {
                    return self.host.event(memory, Event::INVALID_DOORBELL_REGISTER);
                };
                if shadowed {
                    return self.fetch_by_shadow(memory, queue);
                }
                match u16::try_from(value) {
                    Ok(tail) if tail < sq.size => sq.tail = tail,
                    _ => return self.host.event(memory, Event::INVALID_DOORBELL_VALUE),
                }
                self.fetch(memory, queue);
            }
            Doorbell::CompletionHead(queue) => {
                let shadowed = self.host.queues.shadow_of(queue).is_some();
                let Some(cq) = self.host.queues.completion_mut(queue) else {
                    return self.host.event(memory, Event::INVALID_DOORBELL_REGISTER);
                };
                // With shadow doorbells the head is read when room is needed.
                if !shadowed && !cq.set_head(value) {
                    return self.host.event(memory, Event::INVALID_DOORBELL_VALUE);
                }
                self.resume_if_waiting(memory);
            }
        }
    }

    /// Fetches up to the shadow doorbell of `queue`.
    pub(super) fn fetch_by_shadow(&mut self, memory: &dyn Memory, queue: u16) {
        // After the event index has moved, the tail is to be read once more,
        // or a submission in between would go unseen (section 7.13). Where
        // other CPUs of the guest run meanwhile, that can repeat.
        for _ in 0..=self.io.config.queue_entries {
            let shadow = self.host.queues.shadow_of(queue).filter(|_| self.host.is_running());
            let Some(shadow) = shadow else { return };
            let tail = shadow.tail(memory, queue);
            let Some(tail) = self.host.or_fatal(tail) else { return };
            let policy = self.io.config.shadow;
            let Some(sq) = self.host.queues.submission_mut(queue) else { return };
            match u16::try_from(tail) {
                Ok(tail) if tail == sq.tail => break,
                Ok(tail) if tail < sq.size => sq.tail = tail,
                _ => return self.host.event(memory, Event::INVALID_DOORBELL_VALUE),
            }
            let set = shadow.set_tail_event(memory, queue, sq.tail, sq.size, policy);
            if self.host.or_fatal(set).is_none() {
                return;
            }
        }
        self.fetch(memory, queue);
    }

    /// Fetches and executes the commands of `queue` up to its tail, as far as
    /// there is room for their requests.
    pub(super) fn fetch(&mut self, memory: &dyn Memory, queue: u16) {
        while self.host.takes_commands() {
            let has_room = self.has_room_for_command(queue);
            let Some(sq) = self.host.queues.submission_mut(queue) else { return };
            if sq.is_empty() || sq.is_stopped {
                return;
            }
            if !has_room || self.io.slices.defers() {
                self.host.queues.wait_for_room();
                return;
            }
            self.io.slices.command();
            let raw = sq.fetch(memory);
            let Some((raw, fault)) = self.host.or_fatal(raw) else { return };
            let mut command = SubmissionEntry::parse(self.host.id, queue, &raw);
            command.fault = fault;
            let number = command.id().cid;
            stasis_probes::command_fetched(self.host.id.0, queue, number, command.opcode);
            if queue != 0 {
                self.io.wake();
            }
            let outcome = match queue {
                0 => self.execute_admin(memory, &command),
                _ => self.take_io(memory, &command),
            };
            let id = command.id();
            match outcome {
                Ok(Outcome::Pending) => {}
                Ok(Outcome::Done(result)) => self.host.post(memory, id, 0, result),
                Ok(Outcome::Failed { failure, result, lba }) => {
                    let field = self.host.log_failure(id, failure, command.nsid, lba);
                    self.host.post(memory, id, field, result);
                }
                Err(failure) => {
                    self.log_refused(&command, failure.status);
                    let lba = failure.lba.unwrap_or(0);
                    self.host.post_failure(memory, id, failure, command.nsid, lba);
                }
            }
            if !self.io.commands.ended.is_empty() {
                self.end_ended(memory);
            }
        }
    }

    /// Returns whether the largest command of all would find room. While a completion waits, no
    /// command is begun, so that those waiting stay few.
    fn has_room_for_command(&self, queue: u16) -> bool {
        let Some(sq) = self.host.queues.submission(queue) else { return false };
        let cq = self.host.queues.completion(sq.cq);
        if !cq.is_some_and(|cq| cq.held.is_empty()) {
            return false;
        }
        let bytes = self.io.commands.slots.bytes() + self.io.config.largest_request();
        queue == 0
            || !self.io.commands.fused.is_under_way()
                && self.io.commands.slots.requests.has_room(crate::io::MAX_REQUESTS)
                && self.io.commands.slots.work.has_room()
                && bytes <= self.io.config.max_in_flight_bytes
    }

    /// Posts the completions and fetches the commands that waited for room.
    pub(super) fn resume_if_waiting(&mut self, memory: &dyn Memory) {
        if !self.host.queues.stop_waiting() {
            return;
        }
        for cq in self.host.queues.identifiers() {
            self.host.post_held(memory, cq);
        }
        for queue in self.host.queues.identifiers() {
            self.fetch(memory, queue);
        }
    }
}
