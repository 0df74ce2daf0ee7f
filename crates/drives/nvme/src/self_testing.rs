//! The device self-test under way (NVMe 2.0 section 8.6): the drive's health is looked at, and blocks
//! of namespaces are verified, piece by piece, beside the hosts' commands.

use std::collections::VecDeque;

use stasis_block::{Command, Operation, Status};

use crate::controller_id::ControllerId;
use crate::io::Io;
use crate::self_test::{code, ended, Running};
use crate::slots::{Owner, Purpose, Slot};

/// Maximum number of bytes of a request to the drive.
const PIECE: u64 = 1 << 30;
/// Bytes that a short test verifies at each end of a namespace.
const SAMPLE: u64 = 1 << 20;
/// Segments, as NVMe 2.0 figure 583 numbers them.
const SMART_CHECK: u8 = 2;
const MEDIA_CHECK: u8 = 7;

impl Io {
    /// Begins a test of namespaces, and of the drive's health.
    pub fn begin_self_test(&mut self, controller: ControllerId, code: u8, nsids: Vec<u32>) {
        let mut remaining = VecDeque::new();
        for nsid in nsids {
            let bytes = self.namespaces.capacity(nsid);
            let parts = match code {
                code::SHORT if bytes > 2 * SAMPLE => vec![(0, SAMPLE), (bytes - SAMPLE, SAMPLE)],
                _ => vec![(0, bytes)],
            };
            remaining.extend(parts.into_iter().map(|(offset, length)| (nsid, offset, length)));
        }
        let total = remaining.iter().map(|(.., length)| length).sum();
        let (done, asked) = (0, false);
        self.background.self_test.running =
            Some(Running { controller, code, remaining, total, done, asked });
        let health = self.condition.health();
        if health.read_only || health.available_spare < crate::condition::SPARE_THRESHOLD {
            return self.end_self_test(ended::SEGMENT_FAILED, Some((SMART_CHECK, None)));
        }
        self.go_on_self_test();
    }

    /// Asks the drive for the next piece, if there is room.
    pub fn go_on_self_test(&mut self) {
        let Some(running) =
            self.background.self_test.running.as_mut().filter(|running| !running.asked)
        else {
            return;
        };
        let Some(&(nsid, offset, rest)) = running.remaining.front() else {
            return self.end_self_test(ended::WELL, None);
        };
        let length = rest.min(self.slices.piece(PIECE));
        if let Some(lba) = self.namespaces.first_marked(nsid, offset, length) {
            return self
                .end_self_test(ended::SEGMENT_FAILED, Some((MEDIA_CHECK, Some((nsid, lba)))));
        }
        if self.commands.slots.requests.has_room(1) {
            running.asked = true;
            let verify = Command::new(Operation::Verify, offset, length);
            let purpose = Purpose::Format;
            let slot = Slot { purpose, ..Slot::new(Owner::SelfTest, &verify, nsid, 0) };
            self.request(0, slot, verify);
        }
    }

    /// Handles the drive's answer: it has verified a piece, or found a byte that cannot be read.
    pub fn self_test_piece_done(&mut self, slot: &Slot, status: Status, failed_at: u64) {
        // An aborted test has no piece under way; nor has a later test this piece.
        let Some(running) =
            self.background.self_test.running.as_mut().filter(|running| running.asked)
        else {
            return;
        };
        let Some((nsid, offset, rest)) = running.remaining.front_mut() else { return };
        if (*nsid, *offset) != (slot.nsid, slot.offset) || *rest < slot.length {
            return;
        }
        running.asked = false;
        (*offset, *rest) = (*offset + slot.length, *rest - slot.length);
        if *rest == 0 {
            running.remaining.pop_front();
        }
        running.done += slot.length;
        if status != Status::Ok {
            self.namespaces.note_unreadable(slot.nsid, slot.offset + failed_at);
            let lba = self.namespaces.lba_of(slot.nsid, slot.offset + failed_at);
            let failed = Some((MEDIA_CHECK, Some((slot.nsid, lba))));
            return self.end_self_test(ended::SEGMENT_FAILED, failed);
        }
        self.go_on_self_test();
    }

    fn end_self_test(&mut self, how: u8, failed: Option<(u8, Option<(u32, u64)>)>) {
        if let Some(running) = self.background.self_test.running.take() {
            self.background.self_test.add(
                self.reports.statistics.powered_on,
                running.code,
                how,
                failed,
            );
        }
    }

    /// Aborts the test under way, by a command.
    pub fn abort_self_test(&mut self) {
        self.background.self_test.abort(
            self.reports.statistics.powered_on,
            ended::BY_COMMAND,
            |_| true,
        );
    }

    /// Ends a test of one of the namespaces about to be erased, by `how`.
    pub fn erasing_ends_self_test(&mut self, nsids: &[u32], how: u8) {
        let which =
            |running: &Running| running.remaining.iter().any(|(nsid, ..)| nsids.contains(nsid));
        self.background.self_test.abort(self.reports.statistics.powered_on, how, which);
    }
}
