//! Memory that commands work with, used again so that an I/O allocates nothing. Owns what is not lent; a
//! [`Lease`] has what a command was lent, and brings back what it has not passed on.

use stasis_block::memory::{Pool, Segment};

use crate::command::{location, SubmissionEntry, METADATA_SGL, PSDT};
use crate::protection::Passage;
use crate::status::{Failure, StatusCode};
use crate::{prp, sgl, Memory, PAGE_SIZE};

/// The buffers of a command that is being carried out (`Io::lend`): those that it does not take out
/// come back, however it ends.
///
/// One that is dropped with buffers, and not by [`Buffers::end`], loses them, so that later commands
/// allocate. With debug assertions this panics; without them it is no error.
#[derive(Debug, Default)]
pub struct Lease {
    /// Places of its data in guest memory.
    pub segments: Vec<Segment>,
    /// Places of its metadata, if that is apart.
    pub metadata_segments: Vec<Segment>,
    pub data: Vec<u8>,
}

impl Lease {
    /// Takes the places out: of the data, and of the metadata.
    pub fn take_places(&mut self) -> (Vec<Segment>, Vec<Segment>) {
        (std::mem::take(&mut self.segments), std::mem::take(&mut self.metadata_segments))
    }

    /// Takes the data out.
    pub fn take_data(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.data)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A panic of the command has dropped it.
        debug_assert!(
            std::thread::panicking()
                || self.segments.capacity() + self.metadata_segments.capacity() == 0
                    && self.data.capacity() == 0,
            "a lease was dropped with buffers, which Buffers::end takes back"
        );
    }
}

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

    /// Takes back what a lease still has.
    pub fn end(&mut self, mut lease: Lease) {
        let (segments, metadata_segments) = lease.take_places();
        self.give_segments(segments);
        self.give_segments(metadata_segments);
        self.give(lease.take_data());
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
        if let Some(fault) = command.fault {
            return Err(fault.status().at(location::PRP1));
        }
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

    /// Runs `work` with room for the data and the metadata of that many blocks with metadata.
    pub fn with_room<R>(
        &mut self,
        passage: Passage,
        blocks: usize,
        work: impl FnOnce(&mut [u8], &mut [u8]) -> R,
    ) -> R {
        let mut host = self.pool.take(passage.data_bytes(blocks));
        let mut apart = self.pool.take(passage.metadata_bytes(blocks));
        let result = work(&mut host, &mut apart);
        self.pool.give(host);
        self.pool.give(apart);
        result
    }

    /// Like `with_room`, but copies the host's data and metadata from these segments before `work`
    /// runs.
    ///
    /// # Errors
    /// A place is not in guest memory.
    pub fn with_host_data<R>(
        &mut self,
        memory: &dyn Memory,
        passage: Passage,
        blocks: usize,
        (segments, metadata_segments): (&[Segment], &[Segment]),
        work: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<R, Failure> {
        self.with_room(passage, blocks, |host, apart| {
            stasis_block::memory::gather(memory, segments, host)?;
            stasis_block::memory::gather(memory, metadata_segments, apart)?;
            Ok(work(host, apart))
        })
    }

    /// Runs `use_them` with the places of a command's `length` bytes in guest memory.
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

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    fn lease(data: Vec<u8>) -> Lease {
        Lease { segments: Vec::new(), metadata_segments: Vec::new(), data }
    }

    #[test]
    fn an_ended_lease_is_dropped_without_buffers() {
        let mut buffers = Buffers::default();
        let lease = lease(buffers.take(4096));
        let place = lease.data.as_ptr();
        buffers.end(lease);
        let again = buffers.take(4096);
        assert_eq!(again.as_ptr(), place);
    }

    #[test]
    #[should_panic(expected = "a lease was dropped with buffers")]
    fn a_lease_that_is_not_ended_is_noticed() {
        drop(lease(Buffers::default().take(512)));
    }
}
