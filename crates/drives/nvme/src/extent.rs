//! The logical blocks that a command names.

use crate::command::{location, SubmissionEntry};
use crate::config::Namespace;
use crate::status::{Failure, StatusCode};

/// A run of logical blocks inside its namespace.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub lba: u64,
    pub blocks: u64,
    /// Bytes of their data.
    pub data: u64,
    /// First byte on the drive, and how many.
    pub offset: u64,
    pub length: u64,
}

impl Extent {
    /// `at`: the byte of the command that holds the range, for the error log.
    ///
    /// # Errors
    /// The blocks are not all inside the namespace.
    pub fn new(namespace: &Namespace, lba: u64, blocks: u64, at: u16) -> Result<Self, Failure> {
        let end = lba.checked_add(blocks);
        if end.is_none_or(|end| end > namespace.blocks) {
            let outside = lba.max(namespace.blocks);
            return Err(StatusCode::LbaOutOfRange.at(at).of_block(outside));
        }
        // No overflow: a namespace has less than 2^63 bytes.
        let stride = u64::from(namespace.stride());
        let data = blocks * u64::from(namespace.block_size);
        Ok(Self { lba, blocks, data, offset: lba * stride, length: blocks * stride })
    }

    /// The blocks of Read, Write and the commands like them: SLBA, and NLB (0's
    /// based) in Dword 12.
    ///
    /// # Errors
    /// The blocks are not all inside the namespace.
    pub fn of(namespace: &Namespace, command: &SubmissionEntry) -> Result<Self, Failure> {
        let blocks = u64::from(command.cdw12 & 0xffff) + 1;
        Self::new(namespace, command.starting_lba(), blocks, location::CDW10)
    }

    /// Returns the range of the extent's bytes.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + self.length
    }
}
