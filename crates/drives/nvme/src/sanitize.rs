//! State of the sanitize operation (NVMe 2.0 section 8.21).

use stasis_nvme_layout::logs::SanitizeLog;
use stasis_nvme_layout::U32;

use crate::command::Dword;
use crate::kept::{KeptSanitize, Standing};
use crate::status::StatusCode;

/// Sanitize Action, in Dword 10 (NVMe 2.0 figure 317).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    BlockErase,
    Overwrite,
    CryptoErase,
}

impl Action {
    /// The action of a command's Dword 10, if it is one that erases.
    pub fn of(dword10: u32) -> Option<Self> {
        match dword10 & 7 {
            2 => Some(Self::BlockErase),
            3 => Some(Self::Overwrite),
            4 => Some(Self::CryptoErase),
            _ => None,
        }
    }
}

/// Fields of Dword 10.
pub mod field {
    /// Allow Unrestricted Sanitize Exit.
    pub const UNRESTRICTED: u32 = 1 << 3;
    /// Overwrite Invert Pattern Between Passes.
    pub const INVERT: u32 = 1 << 8;
    /// No-Deallocate After Sanitize.
    pub const NO_DEALLOCATE: u32 = 1 << 9;
}

/// Overwrite Pass Count of Dword 10: 0 stands for 16.
pub fn passes(dword10: u32) -> u8 {
    match dword10.byte(0) >> 4 {
        0 => 16,
        count => count,
    }
}

/// The operation under way, and how the last one has ended.
#[derive(Debug, Default)]
pub struct Sanitize {
    pub last: KeptSanitize,
    pub running: Option<Running>,
}

/// The operation under way.
#[derive(Debug)]
pub struct Running {
    /// The parts of a pass that are left, as indexes of `nsids` and first bytes.
    pub nsids: Vec<u32>,
    pub at: usize,
    pub offset: u64,
    pub step: Step,
    /// Bytes done and to do, all passes counted.
    pub done: u64,
    pub total: u64,
    /// Passes of an overwrite that are complete.
    pub passed: u8,
    /// True if the drive has a request.
    pub asked: bool,
}

/// The work of an operation at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A pass over all bytes.
    Erase,
    /// The blocks that were overwritten are deallocated.
    Deallocate,
    /// The drive's cache becomes durable.
    Flush,
}

impl Sanitize {
    /// The state that is kept without power; `None` if there was no operation.
    pub fn kept(&self) -> Option<KeptSanitize> {
        (self.last.standing != Standing::Never).then_some(self.last)
    }

    /// Returns whether one is under way.
    pub fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    /// Returns whether the last one has failed, in restricted completion mode or not; `None`: it
    /// has not.
    pub fn failed(&self) -> Option<bool> {
        let restricted = self.last.dword10 & field::UNRESTRICTED == 0;
        (self.last.standing == Standing::Failed).then_some(restricted)
    }

    /// The status of commands that have to wait for its end, or for an exit from its failure.
    pub fn refusal(&self) -> Option<StatusCode> {
        match self.last.standing {
            Standing::UnderWay => Some(StatusCode::SanitizeInProgress),
            Standing::Failed => Some(StatusCode::SanitizeFailed),
            Standing::Never | Standing::Done => None,
        }
    }

    /// The Sanitize Status log.
    pub fn to_page(&self) -> SanitizeLog {
        const GLOBAL_DATA_ERASED: u16 = 1 << 8;
        const NOT_REPORTED: U32 = U32::MAX_VALUE;
        let KeptSanitize { standing, dword10, erased, .. } = self.last;
        let (mut progress, mut passed) = (0xffff, 0);
        if let Some(Running { done, total, passed: complete, .. }) = self.running {
            let share = u128::from(done) * 0x1_0000 / u128::from(total).max(1);
            progress = share.min(0xffff) as u16;
            passed = complete;
        } else if standing == Standing::Done && Action::of(dword10) == Some(Action::Overwrite) {
            passed = passes(dword10);
        }
        let erased = if erased { GLOBAL_DATA_ERASED } else { 0 };
        SanitizeLog {
            sprog: progress.into(),
            sstat: (standing as u16 | u16::from(passed) << 3 | erased).into(),
            scdw10: dword10.into(),
            eto: NOT_REPORTED,
            etbe: NOT_REPORTED,
            etce: NOT_REPORTED,
            etond: NOT_REPORTED,
            etbend: NOT_REPORTED,
            etcend: NOT_REPORTED,
            ..Default::default()
        }
    }
}
