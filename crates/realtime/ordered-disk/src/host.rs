//! The host's files, as far as the disk needs them.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::record::MAX_DATA;

/// A file of the host, from any thread. Data written and not synced may be lost, in part and in any
/// order, when the host's power fails.
pub trait HostFile: Send + Sync {
    /// Fills `buffer`; the part beyond the file's end reads as zeroes.
    ///
    /// # Errors
    /// The host's error.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes the slices one behind the other.
    ///
    /// # Errors
    /// The host's error; any part may have been written.
    fn write(&self, offset: u64, slices: &[&[u8]]) -> io::Result<()>;

    /// The range reads as zeroes afterwards.
    ///
    /// # Errors
    /// The host's error; any part may have been done.
    fn zero(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Everything that had ended before is durable afterwards.
    ///
    /// # Errors
    /// The host's error; data that was not durable may be lost for good.
    fn sync(&self) -> io::Result<()>;
}

impl HostFile for File {
    fn read(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => {
                    buffer.fill(0);
                    break;
                }
                Ok(count) => {
                    buffer = &mut buffer[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&self, mut offset: u64, slices: &[&[u8]]) -> io::Result<()> {
        for part in slices.chunks(4) {
            let mut vector: [IoSlice<'_>; 4] =
                std::array::from_fn(|index| IoSlice::new(part.get(index).copied().unwrap_or(&[])));
            let mut rest = &mut vector[..part.len()];
            // Empty ones in front are passed over.
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                match rustix::io::pwritev(self, rest, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        offset += count as u64;
                        IoSlice::advance_slices(&mut rest, count);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn zero(&self, mut offset: u64, mut length: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self, flags, offset, length) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => {}
            Err(error) => return Err(error.into()),
        }
        let zeroes = vec![0; length.min(MAX_DATA) as usize];
        while length > 0 {
            let part = length.min(MAX_DATA);
            self.write_all_at(&zeroes[..part as usize], offset)?;
            (offset, length) = (offset + part, length - part);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
