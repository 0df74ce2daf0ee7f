//! State of the device self-test (NVMe 2.0 section 8.6), and its results.

use std::collections::VecDeque;

use stasis_nvme_layout::logs::{SelfTestLog, SelfTestResult};

use crate::controller_id::ControllerId;
use crate::status::StatusCode;

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

/// The test under way, and the results of the last ones.
#[derive(Debug, Default)]
pub struct SelfTest {
    pub running: Option<Running>,
    /// The results of the log, the last one first.
    results: VecDeque<SelfTestResult>,
}

/// The test under way.
#[derive(Debug)]
pub struct Running {
    pub controller: ControllerId,
    pub code: u8,
    /// The parts still to verify: namespace, first byte and length.
    pub remaining: VecDeque<(u32, u64, u64)>,
    pub total: u64,
    pub done: u64,
    /// True if the drive has a request.
    pub asked: bool,
}

impl SelfTest {
    /// Returns whether one is under way.
    pub fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    /// A controller is reset: a short test that came by it ends.
    pub fn reset(&mut self, powered_on: u64, controller: ControllerId) {
        let which =
            |running: &Running| running.code == code::SHORT && running.controller == controller;
        self.abort(powered_on, ended::BY_RESET, which);
    }

    /// Ends the test under way by `how`, if it is one of those.
    pub fn abort(&mut self, powered_on: u64, how: u8, which: impl Fn(&Running) -> bool) {
        if let Some(running) = self.running.take_if(|running| which(running)) {
            self.add(powered_on, running.code, how, None);
        }
    }

    /// Adds a result; of a failed segment with the block, if it was one.
    pub fn add(
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
