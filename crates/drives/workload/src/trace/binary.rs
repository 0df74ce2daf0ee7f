//! Linux's binary block trace: `struct blk_io_trace` (include/uapi/linux/blktrace_api.h), one
//! event after the other, each followed by extra data. blktrace writes one file for each
//! processor, in the byte order of the machine; `blkparse -d` writes all in one.

use std::io::{BufRead, Read};

use stasis_block::{Command, Operation};

use super::{End, Entry, Queued, Reason, Record};
use crate::blktrace::*;
use crate::TraceError;

/// Reader of events, and choice of the ones that count.
#[derive(Debug)]
pub(crate) struct Binary {
    big_endian: bool,
    /// The action that is replayed.
    action: u32,
    /// The device, once it is chosen or seen.
    device: Option<u32>,
    /// True if others are left out.
    chosen: bool,
    /// True if queued I/Os and completions are read, too.
    whole: bool,
    /// The event's first byte.
    at: u64,
    /// The next event's.
    next: u64,
}

/// Meaning of an event.
pub(crate) enum Event {
    /// Nothing is left.
    End,
    /// Nothing of interest.
    Nothing,
    /// An I/O that is not replayed.
    Left(Reason),
    /// An I/O.
    Io(Record),
    /// Something else about one.
    Other(Entry),
}

/// Returns whether a file begins with an event; with its byte order.
pub(crate) fn is_like(start: &[u8]) -> Option<bool> {
    let first: [u8; 4] = start.get(..4)?.try_into().ok()?;
    [false, true].into_iter().find(|big| u32_of(first, *big) & !0xff == MAGIC)
}

fn u32_of(bytes: [u8; 4], big_endian: bool) -> u32 {
    match big_endian {
        true => u32::from_be_bytes(bytes),
        false => u32::from_le_bytes(bytes),
    }
}

/// The fields of an event that count.
struct Fields {
    magic: u32,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    process: u32,
    device: u32,
    cpu: u32,
    /// Bytes of the data that follow.
    data: u16,
}

impl Fields {
    fn read(event: &[u8; EVENT], big_endian: bool) -> Self {
        // The offsets are constants within the event.
        let part = |from: usize, bytes: usize| {
            event[from..from + bytes].iter().enumerate().fold(0_u64, |sum, (place, byte)| {
                let place = if big_endian { bytes - 1 - place } else { place };
                sum | u64::from(*byte) << (8 * place)
            })
        };
        Self {
            magic: part(0, 4) as u32,
            time: part(8, 8),
            sector: part(16, 8),
            bytes: part(24, 4) as u32,
            action: part(28, 4) as u32,
            process: part(32, 4) as u32,
            device: part(36, 4) as u32,
            cpu: part(40, 4) as u32,
            data: part(46, 2) as u16,
        }
    }
}

impl Binary {
    /// A reader of a file that begins with `start`. `drive` is the device to read, as
    /// `major,minor`.
    pub(crate) fn new(
        start: &[u8],
        big_endian: bool,
        drive: Option<&str>,
    ) -> Result<Self, TraceError> {
        let device =
            drive.map(|name| number_of(name).ok_or_else(|| TraceError::Device(name.to_owned())));
        let mut binary = Self {
            big_endian,
            action: QUEUE,
            device: device.transpose()?,
            chosen: drive.is_some(),
            whole: false,
            at: 0,
            next: 0,
        };
        if binary.issues(start) {
            binary.action = ISSUE;
        }
        Ok(binary)
    }

    /// Returns whether an issue is among the events that `start` has whole.
    fn issues(&self, mut start: &[u8]) -> bool {
        while let Some((event, rest)) = start.split_first_chunk() {
            let fields = Fields::read(event, self.big_endian);
            let notes = fields.action >> CATEGORY & NOTIFY != 0;
            if fields.action & ACTION == ISSUE && !notes {
                return true;
            }
            start = rest.get(usize::from(fields.data)..).unwrap_or_default();
        }
        false
    }

    /// Returns whether it is issues that are replayed.
    pub(crate) fn has_issues(&self) -> bool {
        self.action == ISSUE
    }

    /// Reads issues only, as other files of the same trace have some.
    pub(crate) fn only_issues(&mut self) {
        self.action = ISSUE;
    }

    /// Queued I/Os and completions are read, too.
    pub(crate) fn read_whole(&mut self) {
        self.whole = true;
    }

    /// The device, as `major,minor`.
    pub(crate) fn device(&self) -> Option<String> {
        self.device.map(name_of)
    }

    /// Number of bytes read.
    pub(crate) fn bytes(&self) -> u64 {
        self.next
    }

    /// Reads an event.
    pub(crate) fn read(&mut self, input: &mut impl BufRead) -> Result<Event, TraceError> {
        self.at = self.next;
        let mut event = [0; EVENT];
        let mut filled = 0;
        while filled < EVENT {
            match input.read(&mut event[filled..]) {
                Ok(0) if filled == 0 => return Ok(Event::End),
                Ok(0) => {
                    return Err(self.bad("the file ends within an event: it is cut off".into()))
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let fields = Fields::read(&event, self.big_endian);
        if fields.magic & !0xff != MAGIC {
            return Err(
                self.bad(format!("no event of blktrace begins here: {:#010x}", fields.magic))
            );
        }
        if fields.magic & 0xff != VERSION {
            let version = fields.magic & 0xff;
            return Err(self.bad(format!("the event is of version {version}, not {VERSION}")));
        }
        let data = u64::from(fields.data);
        if std::io::copy(&mut input.take(data), &mut std::io::sink())? < data {
            return Err(self.bad("the file ends within an event's data: it is cut off".into()));
        }
        self.next += EVENT as u64 + data;
        self.event(&fields)
    }

    /// Returns a queued I/O or a completion, if these are read.
    fn other(&mut self, fields: &Fields, category: u32) -> Option<Entry> {
        let action = fields.action & ACTION;
        let is_event = action == COMPLETE || action == QUEUE && self.action == ISSUE;
        if !self.whole || !is_event || category & (NOTIFY | PASSTHROUGH) != 0 {
            return None;
        }
        // An I/O of a drive that is not chosen is left out or an error.
        if *self.device.get_or_insert(fields.device) != fields.device {
            return None;
        }
        let (at, offset) = (fields.time, fields.sector.checked_mul(SECTOR)?);
        let flush = category & FLUSH != 0 && fields.bytes == 0;
        Some(match action {
            // A flush has no place.
            COMPLETE => Entry::End(End { at, offset: if flush { 0 } else { offset }, flush }),
            _ => Entry::Queued(Queued { at, offset, process: fields.process }),
        })
    }

    fn event(&mut self, fields: &Fields) -> Result<Event, TraceError> {
        let category = fields.action >> CATEGORY;
        if let Some(entry) = self.other(fields, category) {
            return Ok(Event::Other(entry));
        }
        if fields.action & ACTION != self.action || category & NOTIFY != 0 {
            return Ok(Event::Nothing);
        }
        let mut command = match category {
            category if category & PASSTHROUGH != 0 => return Ok(Event::Left(Reason::Operation)),
            category if category & FLUSH != 0 && fields.bytes == 0 => Command::flush(),
            _ if fields.bytes == 0 => return Ok(Event::Left(Reason::Empty)),
            category => {
                let operation = match category {
                    category if category & DISCARD != 0 => Operation::Discard,
                    category if category & WRITE != 0 => Operation::Write,
                    category if category & READ != 0 => Operation::Read,
                    _ => return Ok(Event::Left(Reason::Operation)),
                };
                let offset = fields.sector.checked_mul(SECTOR);
                let offset = offset.ok_or_else(|| {
                    self.bad(format!("the sector {} is beyond any drive", fields.sector))
                })?;
                Command::new(operation, offset, fields.bytes.into())
            }
        };
        command.fua = category & FUA != 0;
        match self.device {
            Some(device) if device == fields.device => {}
            Some(_) if self.chosen => return Ok(Event::Left(Reason::Drive)),
            Some(first) => {
                let (drive, other) = (name_of(first), name_of(fields.device));
                return Err(TraceError::Drives {
                    place: super::Position::Byte(self.at),
                    drive,
                    other,
                });
            }
            None => self.device = Some(fields.device),
        }
        Ok(Event::Io(Record {
            at: fields.time,
            thread: u16::try_from(fields.cpu).unwrap_or(u16::MAX),
            process: fields.process,
            ended: None,
            early: false,
            order: 0,
            command,
            line: self.at,
        }))
    }

    fn bad(&self, problem: String) -> TraceError {
        TraceError::Event { at: self.at, problem }
    }
}

/// A `dev_t` of the trace as `major,minor`: 12 and 20 bits.
fn name_of(device: u32) -> String {
    format!("{},{}", device >> 20, device & 0xf_ffff)
}

fn number_of(name: &str) -> Option<u32> {
    let (major, minor) = name.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}
