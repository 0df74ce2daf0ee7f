//! RAM: memory is taken where something was written.

use std::collections::HashMap;

use stasis_block::{Command, Operation};

use crate::medium::check;
use crate::synchronous::{Contents, Synchronous};
use crate::MediumError;

/// Memory is taken in chunks of this many bytes: large enough that the index
/// stays small, small enough that scattered writes waste little.
const CHUNK: u64 = 64 << 10;

/// A sparse medium in memory. Ranges never written read as zeroes.
pub type Ram = Synchronous<Chunks>;

impl Ram {
    /// An empty medium of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self::of(Chunks { capacity, chunks: HashMap::new() })
    }
}

/// The bytes of [`Ram`].
#[derive(Debug)]
pub struct Chunks {
    capacity: u64,
    chunks: HashMap<u64, Box<[u8]>>,
}

impl Contents for Chunks {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn perform(&mut self, command: &Command, data: &mut [u8]) -> Result<(), MediumError> {
        check(command, data.len(), self.capacity)?;
        let Command { operation, offset, length, .. } = *command;
        match operation {
            Operation::Read => self.read(offset, data),
            Operation::Write => self.write(offset, data)?,
            Operation::Discard | Operation::WriteZeroes => self.zero(offset, length),
            Operation::Copy => {
                let mut bytes = vec![0; length as usize];
                self.read(command.source, &mut bytes);
                self.write(offset, &bytes)?;
            }
            Operation::Flush | Operation::Verify | Operation::Barrier => {}
        }
        Ok(())
    }

    fn discard_zeroes(&self) -> bool {
        true
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

impl Chunks {
    fn read(&self, offset: u64, mut data: &mut [u8]) {
        for (chunk, within) in pieces(offset, data.len() as u64) {
            let (piece, rest) = data.split_at_mut(within.len());
            match self.chunks.get(&chunk) {
                Some(bytes) => piece.copy_from_slice(&bytes[within]),
                None => piece.fill(0),
            }
            data = rest;
        }
    }

    fn write(&mut self, offset: u64, mut data: &[u8]) -> Result<(), MediumError> {
        for (chunk, within) in pieces(offset, data.len() as u64) {
            let (piece, rest) = data.split_at(within.len());
            if let Some(bytes) = self.chunks.get_mut(&chunk) {
                bytes[within].copy_from_slice(piece);
            } else {
                let mut bytes = Vec::new();
                bytes
                    .try_reserve_exact(CHUNK as usize)
                    .and_then(|()| self.chunks.try_reserve(1))
                    .map_err(|_| MediumError::Memory { offset: chunk * CHUNK })?;
                bytes.resize(CHUNK as usize, 0);
                bytes[within].copy_from_slice(piece);
                self.chunks.insert(chunk, bytes.into_boxed_slice());
            }
            data = rest;
        }
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        // A range of many chunks is mostly empty: look at the chunks there are.
        if length / CHUNK > self.chunks.len() as u64 {
            let whole = offset.div_ceil(CHUNK)..end / CHUNK;
            self.chunks.retain(|chunk, _| !whole.contains(chunk));
            let head = whole.start * CHUNK;
            self.zero_pieces(offset, head - offset);
            self.zero_pieces(whole.end * CHUNK, end - whole.end * CHUNK);
        } else {
            self.zero_pieces(offset, length);
        }
    }

    fn zero_pieces(&mut self, offset: u64, length: u64) {
        for (chunk, within) in pieces(offset, length) {
            if within.len() as u64 == CHUNK {
                self.chunks.remove(&chunk);
            } else if let Some(bytes) = self.chunks.get_mut(&chunk) {
                bytes[within].fill(0);
            }
        }
    }
}

/// The chunks that a range touches, and the part of each.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (chunk, start) = (at / CHUNK, at % CHUNK);
        let stop = (start + (end - at)).min(CHUNK);
        at += stop - start;
        Some((chunk, start as usize..stop as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Medium;
    use stasis_block::Request;

    #[test]
    fn memory_is_taken_where_something_was_written_and_given_back() {
        // More than any machine has.
        let mut ram = Ram::new(1 << 50);
        let command = |operation, offset, length| Command::new(operation, offset, length);
        let mut run = |command: Command, data: Vec<u8>| {
            ram.submit(Request::new(0, command, data));
            let mut done = Vec::new();
            ram.poll(&mut done);
            let finished = done.pop().unwrap();
            finished.result.unwrap();
            (finished.data, ram.contents.chunks.len())
        };
        let far = (1 << 49) - 256;
        let (_, chunks) = run(command(Operation::Write, far, 512), vec![7; 512]);
        assert_eq!(chunks, 2);
        let (data, _) = run(command(Operation::Read, far - 1, 514), vec![1; 514]);
        assert_eq!((data[0], data[513]), (0, 0));
        assert!(data[1..513].iter().all(|&byte| byte == 7));
        // The last 255 bytes stay.
        let (_, chunks) = run(command(Operation::Discard, 0, far + 257), vec![]);
        assert_eq!(chunks, 1);
        let (data, _) = run(command(Operation::Read, far, 512), vec![1; 512]);
        assert!(data[..257].iter().all(|&byte| byte == 0));
        assert!(data[257..].iter().all(|&byte| byte == 7));
    }
}
