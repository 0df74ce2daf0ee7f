//! From the end of the drive's requests to the completion of a command.

use stasis_block::{Operation, Status};

use crate::events::Event;
use crate::ocssd;
use crate::slots::{GroupEnd, Owner, Purpose, Slot};
use crate::status::StatusCode;
use crate::Memory;

use super::Controller;

impl Controller {
    /// Updates zone or chunk state after a request. Blocks without data become zeroes in the data
    /// of a read.
    pub(super) fn leave(
        &mut self,
        memory: &dyn Memory,
        slot: &Slot,
        status: Status,
        data: &mut [u8],
    ) {
        let zones_changed = self.io.namespaces.leave_zones(slot, status, data);
        if zones_changed && self.io.features.reports_zone_changes() {
            self.host.event(memory, Event::zones_changed(slot.nsid));
        }
        let lost = self.io.namespaces.leave_chunks(slot, status, data);
        if let Some((lba, about)) = lost {
            self.chunk_notifications.add(slot.nsid, lba, about);
            self.host.event(memory, Event::chunks_changed(slot.nsid));
        }
    }

    /// Returns the status field of a request that failed, 0 of one that did not.
    pub(super) fn finish(
        &mut self,
        memory: &dyn Memory,
        slot: Slot,
        status: Status,
        data: &[u8],
    ) -> u16 {
        let mut failure = match status {
            Status::Ok => None,
            Status::ReadError => Some(StatusCode::UnrecoveredReadError),
            Status::WriteError if self.io.namespaces.chunks(slot.nsid).is_some() => {
                Some(ocssd::write_failure(slot.operation))
            }
            Status::WriteError => Some(StatusCode::WriteFault),
        };
        self.host.statistics.media_errors += u128::from(status == Status::ReadError);
        // The first block that is known to be concerned: of a copy that could not write, the
        // destination's.
        let mut place = slot.lba;
        if status == Status::WriteError && slot.operation == Operation::Copy {
            place = self.io.namespaces.lba_of(slot.nsid, slot.offset);
        }
        if failure.is_none() {
            // The drive has done the request, whether a command waits for it or not.
            self.io.namespaces.clear_marks(&slot);
            self.io.cache.done(&slot);
            if slot.is_awaited() {
                let used = self.use_data(memory, &slot, data);
                if let Some((code, offset)) = used {
                    failure = Some(code);
                    place = self.io.namespaces.lba_of(slot.nsid, slot.offset + offset);
                }
                // A comparison that finds a difference has been carried out.
                if matches!(failure, None | Some(StatusCode::CompareFailure)) {
                    self.host.statistics.count(slot.operation, slot.bytes);
                }
            }
        }
        let ended = failure.map_or(0, |failure| failure as u16);
        if slot.owner == Owner::Format {
            self.formatting.piece_done(&mut self.io, &mut self.host, memory, &slot, status);
            return ended;
        }
        let Slot { owner, nsid, lba, segments, .. } = slot;
        self.io.buffers.give_segments(segments);
        let slots = &mut self.io.slots;
        let end = match owner {
            Owner::Command(command) => Some(GroupEnd { command, failure, result: 0 }),
            Owner::Append(command) => {
                let result = if failure.is_none() { lba } else { 0 };
                Some(GroupEnd { command, failure, result })
            }
            Owner::Elements { group, mask } => slots.elements_done(group, mask, failure),
            Owner::Part { group, part } => slots.part_done(group, part, failure),
            Owner::Shutdown => {
                self.end_shutdown();
                None
            }
            Owner::Orphan | Owner::Format => None,
        };
        let Some(GroupEnd { command, failure, result }) = end else { return ended };
        match failure {
            None => self.host.post(memory, command, 0, result),
            Some(status) => {
                let field = self.host.log_failure(command, status.into(), nsid, place);
                self.host.post(memory, command, field, result);
            }
        }
        ended
    }

    /// Delivers a request's data to the guest, or compares it. A drive that returns less than was
    /// asked fails the command. Returns the failure and the first byte of the request that it
    /// concerns.
    fn use_data(
        &mut self,
        memory: &dyn Memory,
        slot: &Slot,
        data: &[u8],
    ) -> Option<(StatusCode, u64)> {
        if slot.operation != Operation::Read {
            return None;
        }
        if data.len() != slot.bytes {
            return Some((StatusCode::UnrecoveredReadError, data.len() as u64));
        }
        match slot.purpose {
            Purpose::Deliver | Purpose::Format => {
                let sent = stasis_memory::scatter(memory, &slot.segments, data);
                sent.err().map(|_| (StatusCode::DataTransferError, 0))
            }
            Purpose::Compare => {
                let mut wanted = self.io.buffers.take(slot.bytes);
                let failure = match stasis_memory::gather(memory, &slot.segments, &mut wanted) {
                    Err(_) => Some((StatusCode::DataTransferError, 0)),
                    Ok(()) => {
                        let differs = wanted.iter().zip(data).position(|(one, other)| one != other);
                        differs.map(|at| (StatusCode::CompareFailure, at as u64))
                    }
                };
                self.io.buffers.give(wanted);
                failure
            }
        }
    }
}
