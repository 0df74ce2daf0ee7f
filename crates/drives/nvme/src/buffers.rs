//! Memory that commands work with, used again so that an I/O allocates nothing.

use stasis_block::memory::{Pool, Segment};

use crate::command::{location, SubmissionEntry, METADATA_SGL, PSDT};
use crate::protection::Passage;
use crate::status::{Failure, StatusCode};
use crate::{prp, sgl, Memory, PAGE_SIZE};

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

    /// Takes a buffer for a request that may be without data.
    pub fn take_for(&mut self, length: usize) -> Vec<u8> {
        match length {
            0 => Vec::new(),
            _ => self.take(length),
        }
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

    /// Returns the places in guest memory of the `length` bytes of a command, by its PRPs or SGLs.
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

    /// Returns the places in guest memory of the `length` bytes of a command's metadata: where its
    /// pointer points, or by an SGL.
    ///
    /// # Errors
    /// The fault in the pointer or SGL.
    pub fn metadata_segments_of(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
        length: usize,
    ) -> Result<Vec<Segment>, Failure> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let mut segments = self.pool.take_segments();
        let found = match command.flags & PSDT {
            METADATA_SGL => {
                sgl::walk_metadata(memory, command, length, &mut self.page, &mut segments)
            }
            // With PRPs, from a dword on.
            0 if command.mptr & 3 != 0 => Err(StatusCode::InvalidField.at(location::MPTR)),
            _ => sgl::push(&mut segments, command.mptr, length),
        };
        match found {
            Ok(()) => Ok(segments),
            Err(failure) => {
                self.pool.give_segments(segments);
                Err(failure)
            }
        }
    }

    /// The host's data and metadata of that many blocks with metadata, at these places.
    ///
    /// # Errors
    /// A place is not in guest memory.
    pub fn host_data(
        &mut self,
        memory: &dyn Memory,
        passage: Passage,
        blocks: usize,
        (segments, metadata_segments): (&[Segment], &[Segment]),
    ) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let mut host = self.pool.take(passage.data_bytes(blocks));
        let mut apart = self.pool.take(passage.metadata_bytes(blocks));
        let gathered = stasis_block::memory::gather(memory, segments, &mut host)
            .and_then(|()| stasis_block::memory::gather(memory, metadata_segments, &mut apart));
        match gathered {
            Ok(()) => Ok((host, apart)),
            Err(error) => {
                self.pool.give(host);
                self.pool.give(apart);
                Err(error.into())
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
