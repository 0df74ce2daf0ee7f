//! Memory that commands work with, used again so that an I/O allocates nothing.

use stasis_block::memory::{Pool, Segment};

use crate::command::SubmissionEntry;
use crate::status::Failure;
use crate::{prp, Memory, PAGE_SIZE};

/// Data buffers, lists of segments, and room for a page read from guest memory.
#[derive(Debug)]
pub struct Buffers {
    pool: Pool,
    page: Box<[u8; PAGE_SIZE]>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { pool: Pool::default(), page: Box::new([0; PAGE_SIZE]) }
    }
}

impl Buffers {
    /// A buffer of `length` zeroes.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        self.pool.take(length)
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        self.pool.give(buffer);
    }

    /// An empty list of segments.
    pub fn take_segments(&mut self) -> Vec<Segment> {
        self.pool.take_segments()
    }

    /// Takes a list of segments back.
    pub fn give_segments(&mut self, segments: Vec<Segment>) {
        self.pool.give_segments(segments);
    }

    /// Where in guest memory the `length` bytes of a command are, by its PRPs or SGLs.
    ///
    /// # Errors
    /// The fault in the PRPs or SGLs.
    pub fn segments_of(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        length: usize,
    ) -> Result<Vec<Segment>, Failure> {
        let mut segments = self.pool.take_segments();
        match prp::walk(memory, command, length, &mut self.page, &mut segments) {
            Ok(()) => Ok(segments),
            Err(failure) => {
                self.pool.give_segments(segments);
                Err(failure)
            }
        }
    }

    /// Those bytes' places, while `use_them` works on them.
    ///
    /// # Errors
    /// The fault in the PRPs or SGLs, or the error of `use_them`.
    pub fn with_segments(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        length: usize,
        use_them: impl FnOnce(&[Segment]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let segments = self.segments_of(memory, command, length)?;
        let result = use_them(&segments);
        self.give_segments(segments);
        result
    }
}
