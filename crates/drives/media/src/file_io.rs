//! Reads and writes of a file of which all bytes are wanted.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::os::unix::fs::FileExt;

use rustix::io::ReadWriteFlags;

/// Fills `data`; the part behind the file's end is zero.
pub(crate) fn read_to_end(file: &File, mut offset: u64, mut data: &mut [u8]) -> io::Result<()> {
    while !data.is_empty() {
        match file.read_at(data, offset) {
            Ok(0) => {
                data.fill(0);
                break;
            }
            Ok(count) => {
                data = &mut data[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `data`; with `fua`, returns once it is durable.
pub(crate) fn write_all_at(
    file: &File,
    mut data: &[u8],
    mut offset: u64,
    fua: bool,
) -> io::Result<()> {
    while !data.is_empty() {
        let written = if fua {
            let slices = [IoSlice::new(data)];
            rustix::io::pwritev2(file, &slices, offset, ReadWriteFlags::DSYNC)
                .map_err(io::Error::from)
        } else {
            file.write_at(data, offset)
        };
        match written {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                data = &data[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
