//! Events of a run's drives as a stream of frames: the form in which they leave the machine
//! (docs/reference/power-cuts.md).

use stasis_block::clock::Nanos;
use stasis_block::{CacheKind, Command, Operation, PowerLoss, Status};
use stasis_layout::{layout, FromBytes, IntoBytes, U16, U32, U64};

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

// Frames behind their kinds.
layout! {
    struct RawDrive: 12 {
        [0] drive: U16,
        [2] level: u8,
        [3] capacity: U64,
        [11] discard_zeroes: u8,
    }
}
layout! {
    /// Behind a drive, but not in traces of version 1.
    struct RawPowerLoss: 17 {
        /// 0 unlimited, 1 of a size, 2 protected, 3 none.
        [0] cache: u8,
        [1] size: U64,
        [9] atomic_unit: U64,
    }
}
layout! {
    struct RawRequest: 51 {
        [0] drive: U16,
        [2] level: u8,
        [3] place: U64,
        [11] at: U64,
        [19] offset: U64,
        [27] length: U64,
        [35] source: U64,
        [43] priority: U16,
        [45] operation: u8,
        [46] fua: u8,
        /// Bytes of data that follow.
        [47] data: U32,
    }
}
layout! {
    struct RawCompletion: 20 {
        [0] drive: U16,
        [2] level: u8,
        [3] place: U64,
        [11] at: U64,
        [19] status: u8,
    }
}
layout! {
    struct RawOutput: 12 {
        [0] at: U64,
        /// Bytes that follow.
        [8] length: U32,
    }
}

/// Statuses by their numbers.
const STATUSES: [Status; 4] = [Status::Ok, Status::ReadError, Status::WriteError, Status::NoSpace];

fn number(status: Status) -> u8 {
    match status {
        Status::Ok => 0,
        Status::ReadError => 1,
        Status::WriteError => 2,
        Status::NoSpace => 3,
    }
}

impl Frame<'_> {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut put = |kind, form: &[u8], data: &[u8]| {
            out.push(kind);
            out.extend_from_slice(form);
            out.extend_from_slice(data);
        };
        match *self {
            Frame::Drive { drive, level, capacity, discard_zeroes, power_loss } => {
                let (cache, size) = match power_loss.cache {
                    CacheKind::Unbounded => (0, 0),
                    CacheKind::Volatile(size) => (1, size),
                    CacheKind::Protected => (2, 0),
                    CacheKind::None => (3, 0),
                };
                let atomic_unit = power_loss.atomic_unit.into();
                let loss = RawPowerLoss { cache, size: size.into(), atomic_unit };
                let raw = RawDrive {
                    drive: drive.into(),
                    level: level as u8,
                    capacity: capacity.into(),
                    discard_zeroes: discard_zeroes.into(),
                };
                put(DRIVE, raw.as_bytes(), loss.as_bytes());
            }
            Frame::Request { drive, level, place, at, command, data } => {
                let raw = RawRequest {
                    drive: drive.into(),
                    level: level as u8,
                    place: place.into(),
                    at: at.into(),
                    offset: command.offset.into(),
                    length: command.length.into(),
                    source: command.source.into(),
                    priority: command.priority.into(),
                    operation: command.operation as u8,
                    fua: command.fua.into(),
                    // Commands are bounded by their queues' limits, far below 4 GiB.
                    data: (data.len() as u32).into(),
                };
                put(REQUEST, raw.as_bytes(), data);
            }
            Frame::Completion { drive, level, place, at, status } => {
                let (drive, level) = (drive.into(), level as u8);
                let (place, at, status) = (place.into(), at.into(), number(status));
                let raw = RawCompletion { drive, level, place, at, status };
                put(COMPLETION, raw.as_bytes(), &[]);
            }
            Frame::Output { at, bytes } => {
                let raw = RawOutput { at: at.into(), length: (bytes.len() as u32).into() };
                put(OUTPUT, raw.as_bytes(), bytes);
            }
            Frame::Began { at } => put(BEGAN, &at.to_le_bytes(), &[]),
            Frame::Over { at } => put(OVER, &at.to_le_bytes(), &[]),
        }
    }

    /// The frame at the start of `bytes` and its length; `None` where more bytes
    /// are needed.
    ///
    /// # Errors
    /// [`Damaged`] if it is no frame.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Damaged> {
        let mut rest = bytes;
        match frame(&mut rest) {
            Ok(frame) => Ok(Some((frame, bytes.len() - rest.len()))),
            Err(Missing::Bytes) => Ok(None),
            Err(Missing::Sense) => Err(Damaged),
        }
    }
}

enum Missing {
    Bytes,
    Sense,
}

fn level(number: u8) -> Result<Level, Missing> {
    [Level::Guest, Level::Drive].get(usize::from(number)).copied().ok_or(Missing::Sense)
}

fn power_loss(raw: &RawPowerLoss) -> Result<PowerLoss, Missing> {
    let cache = match raw.cache {
        0 => CacheKind::Unbounded,
        1 => CacheKind::Volatile(raw.size.get()),
        2 => CacheKind::Protected,
        3 => CacheKind::None,
        _ => return Err(Missing::Sense),
    };
    Ok(PowerLoss::new(cache, raw.atomic_unit.get()))
}

/// Takes a form off the stream.
fn take<T: FromBytes>(stream: &mut &[u8]) -> Result<T, Missing> {
    stasis_layout::take(stream).ok_or(Missing::Bytes)
}

/// Takes data off the stream.
fn data<'a>(stream: &mut &'a [u8], length: U32) -> Result<&'a [u8], Missing> {
    let (data, rest) = stream.split_at_checked(length.get() as usize).ok_or(Missing::Bytes)?;
    *stream = rest;
    Ok(data)
}

fn frame<'a>(stream: &mut &'a [u8]) -> Result<Frame<'a>, Missing> {
    Ok(match take(stream)? {
        kind @ (DRIVE | FORMER_DRIVE) => {
            let raw: RawDrive = take(stream)?;
            Frame::Drive {
                drive: raw.drive.get(),
                level: level(raw.level)?,
                capacity: raw.capacity.get(),
                discard_zeroes: raw.discard_zeroes != 0,
                power_loss: match kind {
                    DRIVE => power_loss(&take(stream)?)?,
                    _ => PowerLoss::default(),
                },
            }
        }
        REQUEST => {
            let raw: RawRequest = take(stream)?;
            let operation = Operation::from_number(raw.operation).ok_or(Missing::Sense)?;
            let (offset, length) = (raw.offset.get(), raw.length.get());
            let written = if operation == Operation::Write { length } else { 0 };
            if u64::from(raw.data.get()) != written || offset.checked_add(length).is_none() {
                return Err(Missing::Sense);
            }
            let (source, fua, priority) = (raw.source.get(), raw.fua != 0, raw.priority.get());
            Frame::Request {
                drive: raw.drive.get(),
                level: level(raw.level)?,
                place: raw.place.get(),
                at: raw.at.get(),
                command: Command {
                    source,
                    fua,
                    priority,
                    ..Command::new(operation, offset, length)
                },
                data: data(stream, raw.data)?,
            }
        }
        COMPLETION => {
            let raw: RawCompletion = take(stream)?;
            Frame::Completion {
                drive: raw.drive.get(),
                level: level(raw.level)?,
                place: raw.place.get(),
                at: raw.at.get(),
                status: *STATUSES.get(usize::from(raw.status)).ok_or(Missing::Sense)?,
            }
        }
        OUTPUT => {
            let raw: RawOutput = take(stream)?;
            Frame::Output { at: raw.at.get(), bytes: data(stream, raw.length)? }
        }
        BEGAN => Frame::Began { at: take::<U64>(stream)?.get() },
        OVER => Frame::Over { at: take::<U64>(stream)?.get() },
        _ => return Err(Missing::Sense),
    })
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

    /// Traces are read by later versions.
    #[test]
    fn the_bytes_are_as_ever() {
        let frames = frames();
        let frames = frames.iter().map(|bytes| bytes.escape_ascii().to_string());
        let expected: [&str; 10] = [
            r"D\x03\x00\x01\x00\x00\x00@\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00",
            r"D\x03\x00\x01\x00\x00\x00@\x00\x00\x00\x00\x01\x01\x00\x00\x80\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00",
            r"D\x03\x00\x01\x00\x00\x00@\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00",
            r"D\x03\x00\x01\x00\x00\x00@\x00\x00\x00\x00\x01\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00",
            r"s\x03\x00\x01\x07\x00\x00\x00\x00\x00\x00\x00\t\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\x03\x00\x00\x00abc",
            r"s\x03\x00\x01\x07\x00\x00\x00\x00\x00\x00\x00\t\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00",
            r"e\x03\x00\x01\x07\x00\x00\x00\x00\x00\x00\x00\t\x00\x00\x00\x00\x00\x00\x00\x02",
            r"o\t\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00line\n",
            r"b\t\x00\x00\x00\x00\x00\x00\x00",
            r"v\t\x00\x00\x00\x00\x00\x00\x00",
        ];
        assert_eq!(frames.collect::<Vec<_>>(), expected);
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
