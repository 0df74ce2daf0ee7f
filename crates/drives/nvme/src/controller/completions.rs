//! From the end of the drive's requests to the completion of a command.

use stasis_block::{Delivery, Operation, Status, Tag};

use crate::changes::Change;
use crate::computing::Done;
use crate::event_log::HardwareError;
use crate::ocssd;
use crate::protection::{Flaw, Passage};
use crate::slots::{GroupEnd, Owner, Purpose, Slot};
use crate::status::StatusCode;
use crate::Memory;

use crate::context::ControllerMut;

/// End of a request at the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Success, or the error.
    pub status: Status,
    /// The first byte known to have failed, from the request's start; 0 for a request as a whole.
    pub failed_at: u64,
    /// Delivery to the host, where it ends a command.
    pub delivery: Delivery,
}

impl From<Status> for Ended {
    /// A request that ended with `status` as a whole.
    fn from(status: Status) -> Self {
        Self { status, failed_at: 0, delivery: Delivery::Once }
    }
}

impl ControllerMut<'_> {
    /// Completes the request `tag` that the drive has done: gives a read's data to the guest
    /// and posts the completion. A tag that is not in flight is ignored. Returns the
    /// request's status: code type in bits 10:8, code in bits 7:0, 0 where it ended well.
    pub fn complete(
        &mut self,
        memory: &dyn Memory,
        tag: Tag,
        ended: impl Into<Ended>,
        mut data: Vec<u8>,
    ) -> u16 {
        let ended = ended.into();
        let mut code = 0;
        let view = self.seen(memory);
        let memory = view.memory();
        if let Some(slot) = self.io.commands.slots.requests.remove(tag) {
            let refused = match slot.purpose {
                Purpose::Format => None,
                _ => self.leave(memory, &slot, ended.status, &mut data),
            };
            if let Some(request) = self.io.commands.slots.follower(tag) {
                self.io.commands.outgoing.send(request);
            }
            match slot.owner {
                Owner::SelfTest => {
                    self.io.self_test_piece_done(&slot, ended.status, ended.failed_at);
                }
                Owner::Sanitize => self.io.sanitize_piece_done(&slot, ended.status),
                Owner::Scan(id) => {
                    self.io.scan_piece_done(id, &slot, ended.status, ended.failed_at);
                }
                _ => code = self.finish(memory, slot, (ended, refused), &data),
            }
        }
        self.io.commands.buffers.give(data);
        self.go_on_formatting(memory);
        self.go_on_fused(memory);
        self.go_on_scans(memory);
        self.io.go_on_key_value();
        self.io.go_on_self_test();
        self.io.go_on_sanitize();
        if self.io.commands.slots.requests.is_empty() {
            self.io.power.rest(self.io.now);
        }
        self.report_changes(memory);
        self.resume_if_waiting(memory);
        code
    }

    /// Updates zone or chunk state, or pairs, after a request. Blocks without data become zeroes in
    /// the data of a read. Returns why a pair is not stored whose value is written.
    fn leave(
        &mut self,
        memory: &dyn Memory,
        slot: &Slot,
        status: Status,
        data: &mut [u8],
    ) -> Option<StatusCode> {
        let refused = self.io.namespaces.leave_pairs(slot, status);
        let zones_changed = self.io.namespaces.leave_zones(slot, status, data);
        if zones_changed {
            self.io.reports.changes.add(Change::Zones(slot.nsid));
        }
        let lost = self.io.namespaces.leave_chunks(slot, status, data);
        if let Some((lba, about)) = lost {
            self.chunk_notifications.add(slot.nsid, lba, about);
            self.io.reports.changes.add(Change::Chunks(slot.nsid));
        }
        self.report_changes(memory);
        refused
    }

    /// Returns the status field of a request that failed, 0 of one that did not.
    fn finish(
        &mut self,
        memory: &dyn Memory,
        slot: Slot,
        (Ended { status, failed_at, delivery }, refused): (Ended, Option<StatusCode>),
        data: &[u8],
    ) -> u16 {
        let has_pairs = self.io.namespaces.key_value(slot.nsid).is_some();
        let mut failure = match status {
            Status::Ok => refused,
            Status::ReadError | Status::WriteError if has_pairs => {
                Some(StatusCode::UnrecoveredError)
            }
            Status::ReadError => Some(StatusCode::UnrecoveredReadError),
            Status::WriteError if self.io.namespaces.chunks(slot.nsid).is_some() => {
                Some(ocssd::write_failure(slot.operation))
            }
            Status::WriteError => Some(StatusCode::WriteFault),
            Status::NoSpace => Some(StatusCode::CapacityExceeded),
        };
        self.count_media_error(slot.nsid, status == Status::ReadError);
        // The first block known to have failed: in the source, for a copy that cannot read.
        let namespaces = &self.io.namespaces;
        let mut place = match (slot.operation, status) {
            // Pairs have no blocks.
            _ if has_pairs => 0,
            (_, Status::Ok) => slot.lba,
            (Operation::Copy, Status::ReadError) => {
                slot.lba + failed_at / namespaces.stride(slot.nsid)
            }
            _ => namespaces.lba_of(slot.nsid, slot.offset + failed_at),
        };
        if matches!(status, Status::ReadError | Status::WriteError) {
            self.note_media_error(&slot, status, failure, place);
        }
        if failure.is_none() {
            // The drive has done the request, whether a command waits for it or not.
            self.io.namespaces.clear_marks(&slot);
            self.io.end_erased(&slot);
            self.io.cache.done(&slot);
            if slot.is_awaited() {
                let used = self.use_data(memory, &slot, data);
                if let Some((code, offset)) = used {
                    failure = Some(code);
                    place = self.io.namespaces.lba_of(slot.nsid, slot.offset + offset);
                    if slot.purpose == Purpose::Deliver && code.is_protection() {
                        self.count_media_error(slot.nsid, true);
                    }
                }
                // A page of the index is no I/O of a host's. A comparison that finds a difference has
                // been carried out.
                let is_page = matches!(slot.purpose, Purpose::Page { .. });
                if !is_page && matches!(failure, None | Some(StatusCode::CompareFailure)) {
                    let data = |passage: Passage| passage.data_in(slot.bytes);
                    let bytes = slot.passage.map_or(slot.bytes, data);
                    self.io.reports.statistics.count(slot.operation, bytes);
                    let group = self.io.namespaces.endurance_group(slot.nsid);
                    if let Some(group) = self.io.endurance.group_mut(group) {
                        group.statistics.count(slot.operation, bytes);
                    }
                }
            }
        }
        let ended = failure.map_or(0, |failure| failure as u16);
        if matches!(slot.owner, Owner::Format(_)) {
            self.formatting.piece_done(self.io, self.host, memory, &slot, status);
            return ended;
        }
        let Slot { owner, nsid, lba, length, purpose, segments, metadata_segments, .. } = slot;
        self.io.commands.buffers.give_segments(segments);
        self.io.commands.buffers.give_segments(metadata_segments);
        let slots = &mut self.io.commands.slots;
        let failure = failure.map(|code| (code, place));
        let end = match owner {
            Owner::Command(command) => Some(GroupEnd { command, failure, result: 0 }),
            Owner::Telling(command) => {
                let result = if failure.is_none() { lba } else { 0 };
                Some(GroupEnd { command, failure, result })
            }
            Owner::Elements { group, mask } => slots.elements_done(group, mask, failure),
            Owner::Part { group, part } => slots.part_done(group, part, failure),
            Owner::Shutdown(_) => {
                self.end_shutdown();
                None
            }
            Owner::Orphan
            | Owner::Format(_)
            | Owner::Scan(_)
            | Owner::Collection
            | Owner::SelfTest
            | Owner::Sanitize => None,
        };
        let moved = self.io.transfer_time(purpose, length);
        let Some(GroupEnd { command, failure, result }) = end else { return ended };
        if let (Some(at), None, Delivery::Once) = (moved, failure, delivery) {
            self.io.commands.slots.work.end_at(at, Done { command, nsid, result: Ok(result) });
            return ended;
        }
        match failure {
            None => self.host.deliver(memory, command, 0, result, delivery),
            Some((code, lba)) => {
                let field = self.host.log_failure(command, code.into(), nsid, lba);
                self.host.deliver(memory, command, field, result, delivery);
            }
        }
        self.fused_compared(memory, command, failure.is_none());
        ended
    }

    /// Counts a request whose data the medium could not give back.
    fn count_media_error(&mut self, nsid: u32, happened: bool) {
        let count = u128::from(happened);
        self.io.reports.statistics.media_errors += count;
        let group = self.io.namespaces.endurance_group(nsid);
        if let Some(group) = self.io.endurance.group_mut(group) {
            group.statistics.media_errors += count;
        }
    }

    /// The medium has failed: notes the block that could not be read, and logs the error.
    fn note_media_error(
        &mut self,
        slot: &Slot,
        status: Status,
        failure: Option<StatusCode>,
        place: u64,
    ) {
        if status == Status::ReadError {
            let offset = place.saturating_mul(self.io.namespaces.stride(slot.nsid));
            self.io.namespaces.note_unreadable(slot.nsid, offset);
        }
        let code = failure.map_or(0, |failure| failure as u16);
        let error = HardwareError::Media { status: code, nsid: slot.nsid, lba: place };
        let reason = match status {
            Status::ReadError => "the medium could not be read",
            _ => "the medium could not be written",
        };
        self.io.log_error(self.host.id, error, reason);
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
        // A Verify has data where the controller checks that itself.
        let reads = slot.operation == Operation::Read
            || slot.operation == Operation::Verify && slot.bytes > 0;
        if !reads {
            return None;
        }
        if data.len() != slot.bytes {
            return Some((StatusCode::UnrecoveredReadError, data.len() as u64));
        }
        if let Some(passage) = slot.passage {
            let used = self.use_blocks(memory, slot, passage, data).err();
            return used.map(|flaw| (flaw.status, flaw.block * passage.stride() as u64));
        }
        match slot.purpose {
            Purpose::Deliver | Purpose::Format => {
                let sent = stasis_block::memory::scatter(memory, &slot.segments, data);
                sent.err().map(|_| (StatusCode::DataTransferError, 0))
            }
            Purpose::Page { .. } => None,
            Purpose::ToMemory { at } => {
                let place = self.io.computing.as_mut();
                match place.and_then(|device| device.bytes(at, data.len() as u64)) {
                    Some(place) => {
                        place.copy_from_slice(data);
                        None
                    }
                    None => Some((StatusCode::InternalError, 0)),
                }
            }
            Purpose::Compare => self.io.lend(|io, lease| {
                lease.data = io.commands.buffers.take(slot.bytes);
                let wanted = &mut lease.data;
                if stasis_block::memory::gather(memory, &slot.segments, wanted).is_err() {
                    return Some((StatusCode::DataTransferError, 0));
                }
                first_difference(wanted, data).map(|at| (StatusCode::CompareFailure, at as u64))
            }),
        }
    }

    /// Like `use_data`, but for blocks with metadata, which are checked as the command asks.
    fn use_blocks(
        &mut self,
        memory: &dyn Memory,
        slot: &Slot,
        passage: Passage,
        data: &[u8],
    ) -> Result<(), Flaw> {
        let lost = Flaw { status: StatusCode::DataTransferError, block: 0 };
        let blocks = passage.blocks(data.len());
        let buffers = &mut self.io.commands.buffers;
        let places = (&slot.segments[..], &slot.metadata_segments[..]);
        if slot.operation == Operation::Verify {
            return passage.verify(data);
        }
        if slot.purpose == Purpose::Compare {
            let compared =
                buffers.with_host_data(memory, passage, blocks, places, |host, apart| {
                    passage.compare(data, host, apart)
                });
            return compared.unwrap_or(Err(lost));
        }
        buffers.with_room(passage, blocks, |host, apart| {
            passage.unpack(data, host, apart)?;
            let sent = stasis_block::memory::scatter(memory, places.0, host)
                .and_then(|()| stasis_block::memory::scatter(memory, places.1, apart));
            sent.map_err(|_| lost)
        })
    }
}

/// The first byte of two buffers of one length that differs: as fast as memory where none does.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    const PART: usize = 4096;
    let parts = one.chunks(PART).zip(other.chunks(PART));
    let part = parts.into_iter().position(|(one, other)| one != other)?;
    let within = one[part * PART..].iter().zip(&other[part * PART..]);
    within.into_iter().position(|(one, other)| one != other).map(|at| part * PART + at)
}
