//! The file of a trace: a header, and the stream of frames in pieces with
//! checksums (docs/reference/power-cuts.md).

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use stasis_layout::{layout, IntoBytes, U32};
use stasis_media::ImageSettings;

use crate::device::TracedDevice;
use crate::frame::{Damaged, Frame};

/// The first bytes of the file, with its version.
const MAGIC: &[u8; 16] = b"stasis record 2\n";
/// First bytes of traces without the losses of drives in a power cut, which are read as if each
/// drive had an unlimited volatile cache.
const FORMER: &[u8; 16] = b"stasis record 1\n";
/// First bytes of traces of every version.
const ANY: &[u8] = b"stasis record ";
/// Maximum length of a piece (bytes).
const MAX_PIECE: usize = 64 << 20;

/// Description of a run, beside its stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TraceHeader {
    /// The command in the guest.
    pub command: Vec<String>,
    /// The run's seed.
    pub seed: u64,
    /// The drives, in order.
    pub drives: Vec<TracedDrive>,
    /// The fault that was injected, if any.
    #[serde(alias = "plant")]
    pub fault: Option<String>,
}

/// Description of a drive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TracedDrive {
    /// Name in the results.
    pub name: String,
    /// The file with the drive's contents before the run, in the trace's folder; none if the drive
    /// was empty.
    pub base: Option<std::path::PathBuf>,
    /// Settings of the medium's image, with the meaning of flushes; none if the medium is no image.
    pub image: Option<ImageSettings>,
    /// Images below it, from the top, and whether each is raw.
    pub below: Vec<(std::path::PathBuf, bool)>,
    /// The device that the drive was to the guest.
    #[serde(default)]
    pub device: TracedDevice,
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file begins with other bytes.
    #[error("it is no trace of a run; `stasis crash-test` makes one")]
    NoTrace,
    /// The file is a trace of another version.
    #[error(
        "it is a trace of a version that this program does not know: read it with the version of \
         Stasis that wrote it, or trace the run again"
    )]
    Version,
    /// A checksum is wrong, or a piece is cut off.
    #[error(
        "it is damaged or cut off at byte {0}: the run was ended while it was written; trace the run again"
    )]
    Damaged(u64),
    /// A frame that no program wrote in this form.
    #[error("{0}; trace the run again")]
    Frame(#[from] Damaged),
}

layout! {
    /// Before each piece.
    struct PieceHead: 8 {
        /// Bytes of the piece.
        [0] length: U32,
        /// CRC-32 of the piece.
        [4] checksum: U32,
    }
}

impl PieceHead {
    fn of(piece: &[u8]) -> Self {
        let length = (piece.len() as u32).into();
        Self { length, checksum: crc32fast::hash(piece).into() }
    }
}

/// Writes a trace as it comes.
pub struct TraceWriter<W> {
    to: W,
    written: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// The errors of `to`.
    pub fn new(mut to: W, header: &TraceHeader) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        let mut writer = Self { to, written: 0 };
        let head = serde_json::to_vec(header).map_err(io::Error::other)?;
        writer.piece(&head)?;
        Ok(writer)
    }

    /// Writes the next piece of the stream, which may be cut anywhere.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        for bytes in bytes.chunks(MAX_PIECE) {
            self.to.write_all(PieceHead::of(bytes).as_bytes())?;
            self.to.write_all(bytes)?;
            self.written += bytes.len() as u64;
        }
        Ok(())
    }

    /// Writes one frame.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn frame(&mut self, frame: &Frame) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.piece(&bytes)
    }

    /// Ends the file; returns the number of bytes in its pieces.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn finish(mut self) -> io::Result<u64> {
        // An empty piece: nothing was cut off.
        self.to.write_all(PieceHead::of(&[]).as_bytes())?;
        self.to.flush()?;
        Ok(self.written)
    }
}

/// Reads a trace piece by piece.
pub struct TraceReader<R> {
    from: R,
    at: u64,
    buffer: Vec<u8>,
    start: usize,
    over: bool,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn new(mut from: R) -> Result<(Self, TraceHeader), FileError> {
        let mut magic = [0; MAGIC.len()];
        match from.read_exact(&mut magic) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
            Err(_) => return Err(FileError::NoTrace),
            _ if magic == *MAGIC || magic == *FORMER => {}
            _ if magic.starts_with(ANY) => return Err(FileError::Version),
            _ => return Err(FileError::NoTrace),
        }
        let at = MAGIC.len() as u64;
        let mut reader = Self { from, at, buffer: Vec::new(), start: 0, over: false };
        reader.piece()?;
        let head =
            serde_json::from_slice(&reader.buffer).map_err(|_| FileError::Damaged(reader.at))?;
        reader.buffer.clear();
        Ok((reader, head))
    }

    fn piece(&mut self) -> Result<(), FileError> {
        let at = self.at;
        let damaged = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => FileError::Damaged(at),
            _ => error.into(),
        };
        let mut head = PieceHead::default();
        self.from.read_exact(head.as_mut_bytes()).map_err(damaged)?;
        let length = head.length.get() as usize;
        if length > MAX_PIECE {
            return Err(FileError::Damaged(at));
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + length, 0);
        self.from.read_exact(&mut self.buffer[before..]).map_err(damaged)?;
        if PieceHead::of(&self.buffer[before..]) != head {
            return Err(FileError::Damaged(at));
        }
        self.at += (size_of::<PieceHead>() + length) as u64;
        self.over = length == 0;
        Ok(())
    }

    /// Hands the next frame to `take`; `false` at the end.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn next(&mut self, mut take: impl FnMut(Frame)) -> Result<bool, FileError> {
        loop {
            if let Some((frame, length)) = Frame::decode(&self.buffer[self.start..])? {
                take(frame);
                self.start += length;
                return Ok(true);
            }
            if self.over {
                let unread = self.start < self.buffer.len();
                return if unread { Err(FileError::Damaged(self.at)) } else { Ok(false) };
            }
            self.piece()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut bytes = Vec::new();
        let head = TraceHeader { seed: 5, ..TraceHeader::default() };
        let mut writer = TraceWriter::new(&mut bytes, &head).unwrap();
        let mut stream = Vec::new();
        for at in 0..9 {
            Frame::Output { at, bytes: &vec![1; at as usize * 7] }.encode(&mut stream);
        }
        stream.chunks(10).for_each(|piece| writer.piece(piece).unwrap());
        writer.finish().unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<(u64, usize)>, FileError> {
        let (mut reader, head) = TraceReader::new(bytes)?;
        assert_eq!(head.seed, 5);
        let mut outputs = Vec::new();
        while reader.next(|frame| match frame {
            Frame::Output { at, bytes } => outputs.push((at, bytes.len())),
            other => panic!("{other:?}"),
        })? {}
        Ok(outputs)
    }

    #[test]
    fn frames_come_back_however_they_were_cut() {
        let expected: Vec<_> = (0..9).map(|at| (at, at as usize * 7)).collect();
        assert_eq!(read(&file()).unwrap(), expected);
    }

    #[test]
    fn a_former_version_is_read_and_a_later_one_is_named() {
        let mut other = file();
        other[14] = b'1';
        assert_eq!(read(&other).unwrap(), read(&file()).unwrap());
        other[14] = b'3';
        let wrong = read(&other).unwrap_err().to_string();
        assert!(wrong.contains("version") && wrong.contains("trace the run again"), "{wrong}");
        other[0] = b'x';
        assert!(matches!(read(&other), Err(FileError::NoTrace)));
    }

    #[test]
    fn a_file_that_was_cut_off_or_changed_is_refused() {
        let whole = file();
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        for place in 0..whole.len() {
            let mut other = whole.clone();
            other[place] ^= 4;
            assert!(read(&other).is_err(), "{place}");
        }
    }
}
