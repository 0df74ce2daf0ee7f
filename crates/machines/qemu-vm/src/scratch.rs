//! A disk in memory whose contents this program and QEMU's guest change in
//! turn.

use rustix::fs::{fallocate, memfd_create, seek, FallocateFlags, MemfdFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes compared at once: two pieces fit into a processor's second-level cache.
const PIECE: usize = 128 << 10;
/// The smallest write, a page of the file in memory.
const PAGE: usize = 4096;

/// A file in memory.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
    size: u64,
    wanted: Vec<u8>,
    held: Vec<u8>,
}

impl Scratch {
    /// A disk of `size` bytes, all zeroes.
    pub(crate) fn new(size: u64) -> io::Result<Self> {
        let file = File::from(memfd_create("stasis-scratch", MemfdFlags::CLOEXEC)?);
        file.set_len(size)?;
        Ok(Self { file, size, wanted: vec![0; PIECE], held: vec![0; PIECE] })
    }

    /// Returns the path by which other processes of this user find it while this value lives.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Makes it hold what `read` gives for each offset, and writes no more than
    /// differs. Gives how many bytes that was.
    pub(crate) fn become_copy(
        &mut self,
        read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<u64> {
        let mut changed = 0;
        let mut offset = 0;
        // Before this there is nothing but a hole.
        let mut data = self.next_data(0)?;
        while offset < self.size {
            let length = PIECE.min((self.size - offset) as usize);
            let wanted = &mut self.wanted[..length];
            read(offset, wanted)?;
            let end = offset + length as u64;
            if data < offset {
                data = self.next_data(offset)?;
            }
            let wanted = &self.wanted[..length];
            let zero = is_zero(wanted);
            let hole = data >= end;
            if !(hole && zero) {
                let held = &mut self.held[..length];
                if hole {
                    held.fill(0);
                } else {
                    self.file.read_exact_at(held, offset)?;
                }
                changed += self.write_differences(offset, length, zero && !hole)?;
            }
            offset = end;
        }
        Ok(changed)
    }

    fn write_differences(&self, offset: u64, length: usize, zero: bool) -> io::Result<u64> {
        let (wanted, held) = (&self.wanted[..length], &self.held[..length]);
        if wanted == held {
            return Ok(0);
        }
        if zero {
            // Memory that need not be held, nor be looked at the next time.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.file, flags, offset, length as u64)?;
            return Ok(length as u64);
        }
        let mut changed = 0;
        for (index, (wanted, held)) in wanted.chunks(PAGE).zip(held.chunks(PAGE)).enumerate() {
            if wanted != held {
                self.file.write_all_at(wanted, offset + (index * PAGE) as u64)?;
                changed += wanted.len() as u64;
            }
        }
        Ok(changed)
    }

    /// Returns the place from `offset` on at which there is data; the end if there is none.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        match seek(&self.file, SeekFrom::Data(offset)) {
            Ok(place) => Ok(place),
            Err(Errno::NXIO) => Ok(self.size),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|first| *first == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn copy(scratch: &mut Scratch, from: &[u8]) -> u64 {
        let mut read = |offset: u64, into: &mut [u8]| {
            into.copy_from_slice(&from[offset as usize..offset as usize + into.len()]);
            Ok(())
        };
        scratch.become_copy(&mut read).unwrap()
    }

    fn held(scratch: &Scratch) -> Vec<u8> {
        let mut bytes = vec![1; scratch.size as usize];
        scratch.file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_holds_what_it_was_told_whatever_the_guest_did(
            size in 1usize..600_000,
            states in prop::collection::vec(
                prop::collection::vec((0usize..600_000, 1usize..200_000, 0u8..3), 0..5), 1..5),
            scribbles in prop::collection::vec((0usize..600_000, 0u8..3), 0..5),
        ) {
            let mut scratch = Scratch::new(size as u64).unwrap();
            for writes in states {
                let mut disk = vec![0; size];
                for (start, length, value) in writes {
                    let start = start % size;
                    let end = size.min(start + length);
                    disk[start..end].fill(value);
                }
                copy(&mut scratch, &disk);
                prop_assert!(held(&scratch) == disk);
                // Once more: there is nothing to do.
                prop_assert_eq!(copy(&mut scratch, &disk), 0);
                for (place, value) in &scribbles {
                    scratch.file.write_all_at(&[*value], (*place % size) as u64).unwrap();
                }
            }
        }
    }

    #[test]
    fn little_is_written_where_little_differs() {
        let mut disk = vec![7; 1 << 20];
        let mut scratch = Scratch::new(disk.len() as u64).unwrap();
        assert_eq!(copy(&mut scratch, &disk), 1 << 20);
        disk[70_000] = 8;
        assert_eq!(copy(&mut scratch, &disk), PAGE as u64);
        disk.fill(0);
        copy(&mut scratch, &disk);
        assert_eq!(scratch.next_data(0).unwrap(), scratch.size);
    }

    #[test]
    fn a_disk_that_cannot_be_read_is_an_error() {
        let mut scratch = Scratch::new(10).unwrap();
        let mut read = |_: u64, _: &mut [u8]| Err(io::Error::other("broken"));
        assert!(scratch.become_copy(&mut read).is_err());
    }
}
