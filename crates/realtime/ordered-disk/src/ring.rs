//! Addresses in the log and where they are in its file: the records' bytes are
//! used again and again.

use std::io;

use crate::host::HostFile;
use crate::record::{Record, PAGE};
use crate::superblock::SUPERBLOCKS;

const ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];

/// The ring of records in the log's file.
#[derive(Debug)]
pub struct Ring<'a, F> {
    /// The log.
    pub file: &'a F,
    /// Bytes for records.
    pub size: u64,
}

impl<F: HostFile> Ring<'_, F> {
    /// Offset in the file, and bytes to the ring's end there.
    fn place(&self, address: u64) -> (u64, u64) {
        let within = address % self.size;
        (SUPERBLOCKS + within, self.size - within)
    }

    /// Reads `buffer`, not longer than the ring, from `address` on.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (offset, to_end) = self.place(address);
        let (first, second) = buffer.split_at_mut(buffer.len().min(to_end as usize));
        self.file.read(offset, first)?;
        if second.is_empty() {
            return Ok(());
        }
        self.file.read(SUPERBLOCKS, second)
    }

    /// Writes a record and its data, and zeroes up to the page's end: where
    /// only a part of a page were written the host would have to read it.
    pub fn write(&self, record: &Record, data: &[u8]) -> io::Result<()> {
        let header = record.encode();
        let end = record.address + header.len() as u64 + data.len() as u64;
        let padded = end.max(record.end()).next_multiple_of(PAGE);
        let zeroes = &ZEROES[..(padded - end) as usize];
        let (offset, to_end) = self.place(record.address);
        if padded - record.address <= to_end {
            return self.file.write(offset, &[&header, data, zeroes]);
        }
        // Headers do not wrap: the ring's size is a multiple of theirs.
        let (first, second) = data.split_at(data.len().min(to_end as usize - header.len()));
        self.file.write(offset, &[&header, first])?;
        self.file.write(SUPERBLOCKS, &[second, zeroes])
    }
}
