//! The device self-test (NVMe 2.0 section 8.6) and its results: the drive's health is looked at, and
//! blocks of namespaces are verified, piece by piece, beside the hosts' commands.

use std::collections::VecDeque;

use stasis_block::{Command, Operation, Status};
use stasis_nvme_layout::logs::{SelfTestLog, SelfTestResult};

use crate::controller_id::ControllerId;
use crate::io::Io;
use crate::narrow::size;
use crate::slots::{Owner, Purpose, Slot};
use crate::status::StatusCode;

/// Maximum number of bytes of a request to the drive.
const PIECE: u64 = 1 << 30;
/// Bytes that a short test verifies at each end of a namespace.
const SAMPLE: u64 = 1 << 20;
/// Results of the log (NVMe 2.0 figure 215).
const RESULTS: usize = 20;

/// Self-test codes.
pub mod code {
    pub const SHORT: u8 = 1;
    pub const EXTENDED: u8 = 2;
    pub const ABORT: u8 = 0xf;
}

/// Results of a test (NVMe 2.0 figure 216).
pub mod ended {
    pub const WELL: u8 = 0;
    pub const BY_COMMAND: u8 = 1;
    pub const BY_RESET: u8 = 2;
    pub const BY_REMOVAL: u8 = 3;
    pub const BY_FORMAT: u8 = 4;
    pub const BY_SANITIZE: u8 = 9;
    pub const SEGMENT_FAILED: u8 = 7;
    pub const UNUSED: u8 = 0xf;
}

/// Segments, as NVMe 2.0 figure 583 numbers them.
const SMART_CHECK: u8 = 2;
const MEDIA_CHECK: u8 = 7;

/// The test under way, and the results of the last ones.
#[derive(Debug, Default)]
pub struct SelfTest {
    running: Option<Running>,
    /// The results of the log, the last one first.
    results: VecDeque<SelfTestResult>,
}

#[derive(Debug)]
struct Running {
    controller: ControllerId,
    code: u8,
    /// The parts still to verify: namespace, first byte and length.
    remaining: VecDeque<(u32, u64, u64)>,
    total: u64,
    done: u64,
    /// True if the drive has a request.
    asked: bool,
}

impl SelfTest {
    /// Returns whether one is under way.
    pub fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    /// Ends the test under way by `how`, if it is one of those.
    fn abort(&mut self, powered_on: u64, how: u8, which: impl Fn(&Running) -> bool) {
        if let Some(running) = self.running.take_if(|running| which(running)) {
            self.add(powered_on, running.code, how, None);
        }
    }

    /// Adds a result; of a failed segment with the block, if it was one.
    fn add(
        &mut self,
        powered_on: u64,
        code: u8,
        how: u8,
        failed: Option<(u8, Option<(u32, u64)>)>,
    ) {
        const NANOS_PER_HOUR: u64 = 3_600_000_000_000;
        let mut result = SelfTestResult {
            status: code << 4 | how,
            power_on_hours: (powered_on / NANOS_PER_HOUR).into(),
            ..Default::default()
        };
        if let Some((segment, block)) = failed {
            result.segment = segment;
            if let Some((nsid, lba)) = block {
                // NSID, block, and status code type and code are valid.
                result.valid = 0xf;
                result.nsid.set(nsid);
                result.failing_lba.set(lba);
                [result.status_code, result.status_code_type] =
                    (StatusCode::UnrecoveredReadError as u16).to_le_bytes();
            }
        }
        self.results.truncate(RESULTS - 1);
        self.results.push_front(result);
    }

    /// The Device Self-test log.
    pub fn to_page(&self) -> SelfTestLog {
        let unused = SelfTestResult { status: ended::UNUSED, ..Default::default() };
        let mut log = SelfTestLog { results: [unused; RESULTS], ..Default::default() };
        if let Some(Running { code, total, done, .. }) = &self.running {
            log.operation = *code;
            let percent = u128::from(*done) * 100 / u128::from(*total).max(1);
            log.completion = percent.min(100) as u8;
        }
        log.results.iter_mut().zip(&self.results).for_each(|(entry, result)| *entry = *result);
        log
    }
}

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
            for (offset, length) in parts {
                let pieces = (0..length).step_by(size(PIECE));
                remaining.extend(pieces.map(|at| (nsid, offset + at, PIECE.min(length - at))));
            }
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
        let Some(&(nsid, offset, length)) = running.remaining.front() else {
            return self.end_self_test(ended::WELL, None);
        };
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
        if running.remaining.front() != Some(&(slot.nsid, slot.offset, slot.length)) {
            return;
        }
        running.asked = false;
        running.remaining.pop_front();
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

    /// A controller is reset: a short test that came by it ends.
    pub fn reset_self_test(&mut self, controller: ControllerId) {
        let which =
            |running: &Running| running.code == code::SHORT && running.controller == controller;
        self.background.self_test.abort(self.reports.statistics.powered_on, ended::BY_RESET, which);
    }

    /// Ends a test of one of the namespaces about to be erased, by `how`.
    pub fn erasing_ends_self_test(&mut self, nsids: &[u32], how: u8) {
        let which =
            |running: &Running| running.remaining.iter().any(|(nsid, ..)| nsids.contains(nsid));
        self.background.self_test.abort(self.reports.statistics.powered_on, how, which);
    }
}
