//! From what the drive has done to the entry in the completion queue.

use stasis_block::{Operation, Status};

use crate::command::CompletionEntry;
use crate::controller::Controller;
use crate::registers as reg;
use crate::shadow::Shadow;
use crate::slots::{CommandId, GroupEnd, Owner, Purpose, Slot};
use crate::status::{Failure, StatusCode, MORE};
use crate::Memory;

impl Controller {
    /// Returns the status field of a request that failed, 0 of one that did not.
    pub(crate) fn finish(
        &mut self,
        memory: &dyn Memory,
        slot: Slot,
        status: Status,
        data: &[u8],
    ) -> u16 {
        let mut failure = match status {
            Status::Ok => None,
            Status::ReadError => Some(StatusCode::UnrecoveredReadError),
            Status::WriteError => Some(self.write_failure(&slot)),
        };
        self.statistics.media_errors += u128::from(failure.is_some());
        if failure.is_none() {
            // The drive has done it, whether anybody waits for it or not.
            self.clear_marks(&slot);
            if slot.is_awaited() {
                failure = self.use_data(memory, &slot, data);
                if failure.is_none() {
                    self.statistics.count(slot.operation, slot.bytes);
                }
            }
        }
        let ended = failure.map_or(0, |failure| failure as u16);
        if slot.owner == Owner::Format {
            self.piece_formatted(memory, &slot, status);
            return ended;
        }
        let Slot { owner, nsid, lba, segments, .. } = slot;
        self.buffers.give_segments(segments);
        let end = match owner {
            Owner::Command(command) => Some(GroupEnd { command, failure, result: 0 }),
            Owner::Append(command) => {
                let result = if failure.is_none() { lba } else { 0 };
                Some(GroupEnd { command, failure, result })
            }
            Owner::Elements { group, mask } => self.slots.elements_done(group, mask, failure),
            Owner::Part { group, part } => self.slots.part_done(group, part, failure),
            Owner::Shutdown => {
                self.end_shutdown();
                None
            }
            Owner::Orphan | Owner::Format => None,
        };
        let Some(GroupEnd { command, failure, result }) = end else { return ended };
        match failure {
            None => self.post(memory, command, 0, result),
            Some(status) => {
                let field = self.log_failure(command, status.into(), nsid, lba);
                self.post(memory, command, field, result);
            }
        }
        ended
    }

    /// What is to be done with a request's data now that it is there. A drive
    /// that gave back less than was asked of it has failed the command.
    fn use_data(&mut self, memory: &dyn Memory, slot: &Slot, data: &[u8]) -> Option<StatusCode> {
        if slot.operation != Operation::Read {
            return None;
        }
        if data.len() != slot.bytes {
            return Some(StatusCode::UnrecoveredReadError);
        }
        match slot.purpose {
            Purpose::Deliver | Purpose::Format => {
                let sent = stasis_memory::scatter(memory, &slot.segments, data);
                sent.err().map(|_| StatusCode::DataTransferError)
            }
            Purpose::Compare => {
                let mut wanted = self.buffers.take(slot.bytes);
                let failure = match stasis_memory::gather(memory, &slot.segments, &mut wanted) {
                    Err(_) => Some(StatusCode::DataTransferError),
                    Ok(()) if wanted != data => Some(StatusCode::CompareFailure),
                    Ok(()) => None,
                };
                self.buffers.give(wanted);
                failure
            }
        }
    }

    /// Posts the completion of a command that failed, and logs why.
    pub(crate) fn post_failure(
        &mut self,
        memory: &dyn Memory,
        id: CommandId,
        failure: Failure,
        nsid: u32,
        lba: u64,
    ) {
        let field = self.log_failure(id, failure, nsid, lba);
        self.post(memory, id, field, 0);
    }

    /// Logs why a command failed; the status field of its completion.
    pub(crate) fn log_failure(
        &mut self,
        id: CommandId,
        failure: Failure,
        nsid: u32,
        lba: u64,
    ) -> u16 {
        let field = failure.status.field() | MORE;
        self.statistics.error_log_entries += 1;
        let count = self.statistics.error_log_entries;
        self.errors.add(count, id, field, failure.location, nsid, lba);
        field
    }

    /// Posts a completion, or holds it until its queue has room.
    pub(crate) fn post(&mut self, memory: &dyn Memory, id: CommandId, status: u16, result: u64) {
        let Some(sq) = self.queues.submission(id.sq) else { return };
        let cq_id = sq.cq;
        let entry = CompletionEntry { result, sq_head: sq.head, sq_id: id.sq, cid: id.cid, status };
        let Some(cq) = self.queues.completion_mut(cq_id) else { return };
        cq.held.push_back(entry);
        self.post_held(memory, cq_id);
    }

    /// Puts what is held for completion queue `queue` in, as far as there is
    /// room.
    pub(crate) fn post_held(&mut self, memory: &dyn Memory, queue: u16) {
        let shadow = self.queues.shadow_of(queue);
        loop {
            if self.registers.csts & reg::CSTS_CFS != 0 {
                return;
            }
            let Some(cq) = self.queues.completion_mut(queue) else { return };
            let Some(&entry) = cq.held.front() else { return };
            if cq.is_full() {
                match shadow {
                    Some(shadow) if self.refresh_head(memory, queue, shadow) => continue,
                    _ => {
                        self.queues.wait_for_room();
                        return;
                    }
                }
            }
            let put = cq.put(memory, entry);
            cq.held.pop_front();
            if let Some(vector) = cq.vector {
                self.interrupts.completion(vector, queue != 0, self.now);
            }
            if self.or_fatal(put).is_none() {
                return;
            }
        }
    }

    /// Takes over the head of a full completion queue from its shadow doorbell;
    /// says whether there is room now. If not, the driver's next move of the
    /// head rings.
    fn refresh_head(&mut self, memory: &dyn Memory, queue: u16, shadow: Shadow) -> bool {
        for waits in [false, true] {
            let head = shadow.head(memory, queue);
            let Some(head) = self.or_fatal(head) else { return false };
            let Some(cq) = self.queues.completion_mut(queue) else { return false };
            if !cq.set_head(head) {
                self.invalid_doorbell_value(memory);
                return false;
            }
            let (head, size, full) = (cq.head, cq.size, cq.is_full());
            let set = shadow.set_head_event(memory, queue, head, size, full);
            if self.or_fatal(set).is_none() {
                return false;
            }
            // Full: the index has just been set, so look at the head again.
            if !full || waits {
                return !full;
            }
        }
        false
    }
}
