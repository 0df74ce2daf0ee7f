//! Events of a run's drives as a stream of frames: the form in which they leave the machine
//! (docs/reference/power-cuts.md).

use stasis_block::clock::Nanos;
use stasis_block::{CacheKind, Command, Operation, PowerLoss, Status};

/// The end of a drive at which a command was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// The guest's end: its requests, and their acknowledgements.
    Guest = 0,
    /// The drive's end, below an image: the drive has the cache that loses its contents.
    Drive = 1,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A drive is there, seen from one end.
    Drive {
        /// Index of the drive in the experiment.
        drive: u16,
        /// The end.
        level: Level,
        /// Size of the disk (bytes).
        capacity: u64,
        /// True if discarded ranges read as zeroes.
        discard_zeroes: bool,
        /// Data that the drive at the bottom can lose in a power cut.
        power_loss: PowerLoss,
    },
    /// A command was submitted.
    Request {
        /// The drive.
        drive: u16,
        /// The drive's end.
        level: Level,
        /// Number of the command at this end, from 0.
        place: u64,
        /// Time of submission (ns).
        at: Nanos,
        /// The command.
        command: Command,
        /// The data of a write.
        data: &'a [u8],
    },
    /// A command ended.
    Completion {
        /// The drive.
        drive: u16,
        /// The drive's end.
        level: Level,
        /// Number of the command at this end.
        place: u64,
        /// Time of completion (ns).
        at: Nanos,
        /// Status of the command.
        status: Status,
    },
    /// The command in the guest wrote to its standard output.
    Output {
        /// Time at which the machine received the output (ns).
        at: Nanos,
        /// The output.
        bytes: &'a [u8],
    },
    /// The command in the guest began.
    Began {
        /// Time of the beginning (ns).
        at: Nanos,
    },
    /// The command in the guest ended.
    Over {
        /// Time of the end (ns).
        at: Nanos,
    },
}

/// A stream that no program wrote in this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of it is damaged")]
pub struct Damaged;

// A drive without its losses in a power cut: in traces of version 1.
const FORMER_DRIVE: u8 = b'd';
const DRIVE: u8 = b'D';
const REQUEST: u8 = b's';
const COMPLETION: u8 = b'e';
const OUTPUT: u8 = b'o';
const BEGAN: u8 = b'b';
const OVER: u8 = b'v';

impl Frame<'_> {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let ends = |out: &mut Vec<u8>, kind, drive: u16, level: Level| {
            out.push(kind);
            out.extend_from_slice(&drive.to_le_bytes());
            out.push(level as u8);
        };
        match *self {
            Frame::Drive { drive, level, capacity, discard_zeroes, power_loss } => {
                ends(out, DRIVE, drive, level);
                out.extend_from_slice(&capacity.to_le_bytes());
                out.push(u8::from(discard_zeroes));
                let (kind, size) = match power_loss.cache {
                    CacheKind::Unbounded => (0, 0),
                    CacheKind::Volatile(size) => (1, size),
                    CacheKind::Protected => (2, 0),
                    CacheKind::None => (3, 0),
                };
                out.push(kind);
                out.extend_from_slice(&size.to_le_bytes());
                out.extend_from_slice(&power_loss.atomic_unit.to_le_bytes());
            }
            Frame::Request { drive, level, place, at, command, data } => {
                ends(out, REQUEST, drive, level);
                for number in [place, at, command.offset, command.length, command.source] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(&command.priority.to_le_bytes());
                out.push(command.operation as u8);
                out.push(u8::from(command.fua));
                // Commands are bounded by their queues' limits, far below 4 GiB.
                out.extend_from_slice(&(data.len() as u32).to_le_bytes());
                out.extend_from_slice(data);
            }
            Frame::Completion { drive, level, place, at, status } => {
                ends(out, COMPLETION, drive, level);
                out.extend_from_slice(&place.to_le_bytes());
                out.extend_from_slice(&at.to_le_bytes());
                out.push(match status {
                    Status::Ok => 0,
                    Status::ReadError => 1,
                    Status::WriteError => 2,
                    Status::NoSpace => 3,
                });
            }
            Frame::Output { at, bytes } => {
                out.push(OUTPUT);
                out.extend_from_slice(&at.to_le_bytes());
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Frame::Began { at } | Frame::Over { at } => {
                out.push(if matches!(self, Frame::Began { .. }) { BEGAN } else { OVER });
                out.extend_from_slice(&at.to_le_bytes());
            }
        }
    }

    /// The frame at the start of `bytes` and its length; `None` where more bytes
    /// are needed.
    ///
    /// # Errors
    /// [`Damaged`] if it is no frame.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Damaged> {
        let mut cursor = Cursor { bytes, at: 0 };
        let frame = cursor.frame();
        match frame {
            Ok(frame) => Ok(Some((frame, cursor.at))),
            Err(Missing::Bytes) => Ok(None),
            Err(Missing::Sense) => Err(Damaged),
        }
    }
}

enum Missing {
    Bytes,
    Sense,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Missing> {
        let end = self.at.checked_add(length).ok_or(Missing::Sense)?;
        let taken = self.bytes.get(self.at..end).ok_or(Missing::Bytes)?;
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self, length: usize) -> Result<u64, Missing> {
        let bytes = self.take(length)?;
        Ok(stasis_layout::number(bytes))
    }

    fn long(&mut self) -> Result<u64, Missing> {
        self.number(8)
    }

    fn end(&mut self) -> Result<(u16, Level), Missing> {
        let drive = self.number(2)? as u16;
        let level = match self.number(1)? {
            0 => Level::Guest,
            1 => Level::Drive,
            _ => return Err(Missing::Sense),
        };
        Ok((drive, level))
    }

    fn power_loss(&mut self) -> Result<PowerLoss, Missing> {
        let (kind, size, atomic_unit) = (self.number(1)?, self.long()?, self.long()?);
        let cache = match kind {
            0 => CacheKind::Unbounded,
            1 => CacheKind::Volatile(size),
            2 => CacheKind::Protected,
            3 => CacheKind::None,
            _ => return Err(Missing::Sense),
        };
        Ok(PowerLoss::new(cache, atomic_unit))
    }

    fn frame(&mut self) -> Result<Frame<'a>, Missing> {
        Ok(match self.number(1)? as u8 {
            kind @ (DRIVE | FORMER_DRIVE) => {
                let (drive, level) = self.end()?;
                let (capacity, discard_zeroes) = (self.long()?, self.number(1)? != 0);
                let power_loss = match kind {
                    DRIVE => self.power_loss()?,
                    _ => PowerLoss::default(),
                };
                Frame::Drive { drive, level, capacity, discard_zeroes, power_loss }
            }
            REQUEST => {
                let (drive, level) = self.end()?;
                let (place, at) = (self.long()?, self.long()?);
                let (offset, length, source) = (self.long()?, self.long()?, self.long()?);
                let priority = self.number(2)? as u16;
                let operation =
                    Operation::from_number(self.number(1)? as u8).ok_or(Missing::Sense)?;
                let fua = self.number(1)? != 0;
                let size = self.number(4)?;
                let written = if operation == Operation::Write { length } else { 0 };
                if size != written || offset.checked_add(length).is_none() {
                    return Err(Missing::Sense);
                }
                let data = self.take(size as usize)?;
                let command =
                    Command { source, fua, priority, ..Command::new(operation, offset, length) };
                Frame::Request { drive, level, place, at, command, data }
            }
            COMPLETION => {
                let (drive, level) = self.end()?;
                let (place, at) = (self.long()?, self.long()?);
                let status = match self.number(1)? {
                    0 => Status::Ok,
                    1 => Status::ReadError,
                    2 => Status::WriteError,
                    3 => Status::NoSpace,
                    _ => return Err(Missing::Sense),
                };
                Frame::Completion { drive, level, place, at, status }
            }
            OUTPUT => {
                let at = self.long()?;
                let size = self.number(4)? as usize;
                Frame::Output { at, bytes: self.take(size)? }
            }
            BEGAN => Frame::Began { at: self.long()? },
            OVER => Frame::Over { at: self.long()? },
            _ => return Err(Missing::Sense),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> Vec<Vec<u8>> {
        let mut write = Command::new(Operation::Write, 512, 3);
        write.fua = true;
        let (drive, level, place, at) = (3, Level::Drive, 7, 9);
        let drive_with = |cache, unit| {
            let power_loss = PowerLoss::new(cache, unit);
            Frame::Drive { drive, level, capacity: 1 << 30, discard_zeroes: true, power_loss }
        };
        let all = [
            drive_with(CacheKind::Unbounded, 512),
            drive_with(CacheKind::Volatile(8 << 20), 4096),
            drive_with(CacheKind::Protected, 1 << 14),
            drive_with(CacheKind::None, 512),
            Frame::Request { drive, level, place, at, command: write, data: b"abc" },
            Frame::Request { drive, level, place, at, command: Command::flush(), data: b"" },
            Frame::Completion { drive, level, place, at, status: Status::WriteError },
            Frame::Output { at, bytes: b"line\n" },
            Frame::Began { at },
            Frame::Over { at },
        ];
        all.iter()
            .map(|frame| {
                let mut bytes = Vec::new();
                frame.encode(&mut bytes);
                let (back, length) = Frame::decode(&bytes).unwrap().unwrap();
                assert_eq!((&back, length), (frame, bytes.len()));
                bytes
            })
            .collect()
    }

    #[test]
    fn a_frame_is_read_back_and_a_part_of_it_is_not_enough() {
        for bytes in frames() {
            for length in 0..bytes.len() {
                assert_eq!(Frame::decode(&bytes[..length]), Ok(None));
            }
        }
    }

    #[test]
    fn a_drive_of_a_former_trace_has_a_cache_without_a_limit() {
        let (drive, level, capacity) = (2, Level::Guest, 4096);
        let mut bytes = vec![FORMER_DRIVE, 2, 0, 0];
        bytes.extend_from_slice(&4096u64.to_le_bytes());
        bytes.push(1);
        let power_loss = PowerLoss::default();
        let frame = Frame::Drive { drive, level, capacity, discard_zeroes: true, power_loss };
        assert_eq!(Frame::decode(&bytes), Ok(Some((frame, bytes.len()))));
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frame::decode(&noise);
        }
    }
}
