//! The bytes of an image's files, to be read and written outside of time: in the file, or on the layer
//! that holds it.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use stasis_block::{Command, Operation, Status};
use stasis_drive::Layer;

use crate::header::ReadAt;

/// Limit on the bytes of one read.
const MAX_READ: u64 = 1 << 20;
/// Reads begin and end at multiples of this (bytes).
const SECTOR: u64 = 512;

/// Bytes that are read and written.
pub(crate) trait Bytes: ReadAt {
    /// Writes all of `bytes` from `offset` on.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Has all that was written be durable.
    fn flush(&self) -> io::Result<()>;
}

impl Bytes for File {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A file in a layer.
pub(crate) struct Below<'l> {
    lower: RefCell<&'l mut dyn Layer>,
    start: u64,
    capacity: u64,
}

impl<'l> Below<'l> {
    /// Makes the file that begins at the byte `start` of a layer, of at most `capacity` bytes.
    pub(crate) fn new(lower: &'l mut dyn Layer, start: u64, capacity: u64) -> Self {
        Self { lower: RefCell::new(lower), start, capacity }
    }

    fn run(&self, command: Command, data: Vec<u8>, failure: &'static str) -> io::Result<Vec<u8>> {
        match self.lower.borrow_mut().instant(command, data) {
            (Status::Ok, data) => Ok(data),
            _ => Err(io::Error::other(failure)),
        }
    }
}

impl fmt::Debug for Below<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Below").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl ReadAt for Below<'_> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(room) = self.capacity.checked_sub(offset).filter(|room| *room > 0) else {
            return Ok(0);
        };
        let length = room.min(into.len() as u64).min(MAX_READ);
        let first = offset / SECTOR * SECTOR;
        let whole = (offset + length).next_multiple_of(SECTOR) - first;
        let command = Command::new(Operation::Read, self.start + first, whole);
        let data = self.run(command, vec![0; whole as usize], "the drive below cannot read it")?;
        let from = (offset - first) as usize;
        into[..length as usize].copy_from_slice(&data[from..from + length as usize]);
        Ok(length as usize)
    }
}

impl Bytes for Below<'_> {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let command = Command::new(Operation::Write, self.start + offset, bytes.len() as u64);
        self.run(command, bytes.to_vec(), "the drive below cannot write it").map(drop)
    }

    fn flush(&self) -> io::Result<()> {
        self.run(Command::flush(), Vec::new(), "the drive below cannot flush it").map(drop)
    }
}
