//! A drive's part of a trace as the log of Linux's dm-log-writes, which xfstests' `replay-log` and
//! others read: what was written and when it was durable, as the guest's end of the drive saw it.
//!
//! The form and the order are those of the kernel's drivers/md/dm-log-writes.c (version 1 of the
//! log) and Documentation/admin-guide/device-mapper/log-writes.rst: a write or discard is logged
//! with the next flush that was submitted after it had completed, in the order of completions; one
//! with FUA as it completes. A line of the command's output is a mark.

mod reader;

use std::collections::HashMap;
use std::io::{self, Seek, SeekFrom, Write};

use stasis_block::{Command, Operation, Status};
use stasis_layout::{layout, IntoBytes, U32, U64};

use crate::frame::{Frame, Level};

pub use self::reader::{read_log_writes, LogReadError, LoggedDevice, ReadLog};

/// `WRITE_LOG_MAGIC` and `WRITE_LOG_VERSION`.
const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// `LOG_FLUSH_FLAG`, `LOG_FUA_FLAG`, `LOG_DISCARD_FLAG`, `LOG_MARK_FLAG`, `LOG_METADATA_FLAG`.
const FLUSH: u64 = 1 << 0;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
const METADATA: u64 = 1 << 4;
/// The log's sector (bytes), which the superblock names; an entry takes one, and its data follow.
const SECTOR: usize = 512;
/// Bytes of a `struct log_write_entry`, behind which a mark stands in the same sector.
const ENTRY: usize = size_of::<EntryHead>();
/// The mark with which the kernel ends a log.
const END: &[u8] = b"dm-log-writes-end";

layout! {
    /// The first sector of a log.
    struct LogHead: 512 {
        [0] magic: U64,
        [8] version: U64,
        [16] entries: U64,
        /// Size of a sector in bytes.
        [24] sector: U32,
        [28] reserved28: [u8; 484],
    }
}

layout! {
    /// The beginning of an entry's first sector.
    struct EntryHead: 32 {
        [0] sector: U64,
        [8] sectors: U64,
        [16] flags: U64,
        /// Bytes of a mark's text, which follows; otherwise 0.
        [24] length: U64,
    }
}

/// A request that the log has no form for.
#[derive(Debug, thiserror::Error)]
pub enum LogWritesError {
    /// The log cannot be written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// An operation that Linux's block layer has in another form, or not at all.
    #[error("request {place} is a {operation}, which a log of dm-log-writes has no form for")]
    Operation {
        /// Its number among the drive's.
        place: u64,
        /// Its name.
        operation: &'static str,
    },
}

struct Entry {
    sector: u64,
    sectors: u64,
    flags: u64,
    data: Vec<u8>,
}

/// A request that has completed, as the log has it.
enum Request {
    Entry(Entry),
    /// With what had completed before it was submitted.
    Flush(Vec<Entry>),
    /// Nothing of the log's: a read.
    Nothing,
}

/// Writes the log of one drive from the frames of a trace.
pub struct LogWrites<W> {
    to: W,
    drive: u16,
    entries: u64,
    under_way: HashMap<u64, Request>,
    /// Completed, and not flushed.
    unflushed: Vec<Entry>,
    /// The beginning of a line.
    line: Vec<u8>,
}

impl<W: Write + Seek> LogWrites<W> {
    /// Begins the log of the drive with this index.
    ///
    /// # Errors
    /// The errors of `to`.
    pub fn new(mut to: W, drive: u16) -> io::Result<Self> {
        // The superblock, once the number of entries is known.
        to.write_all(&[0; SECTOR])?;
        let (under_way, unflushed, line) = (HashMap::new(), Vec::new(), Vec::new());
        Ok(Self { to, drive, entries: 0, under_way, unflushed, line })
    }

    /// Takes the next frame.
    ///
    /// # Errors
    /// [`LogWritesError`] for a request that the log cannot have.
    pub fn take(&mut self, frame: Frame) -> Result<(), LogWritesError> {
        match frame {
            Frame::Request { drive, level: Level::Guest, place, command, data, .. }
                if drive == self.drive =>
            {
                let request = self.request(place, &command, data)?;
                self.under_way.insert(place, request);
            }
            Frame::Completion { drive, level: Level::Guest, place, status, .. }
                if drive == self.drive =>
            {
                match self.under_way.remove(&place) {
                    Some(_) if status != Status::Ok => {}
                    Some(Request::Entry(entry)) if entry.flags & FUA != 0 => self.write(&entry)?,
                    Some(Request::Entry(entry)) => self.unflushed.push(entry),
                    Some(Request::Flush(before)) => {
                        before.iter().try_for_each(|entry| self.write(entry))?;
                        let data = Vec::new();
                        self.write(&Entry { sector: 0, sectors: 0, flags: FLUSH, data })?;
                    }
                    Some(Request::Nothing) | None => {}
                }
            }
            Frame::Output { bytes, .. } => {
                for byte in bytes {
                    match byte {
                        b'\n' => {
                            let line = std::mem::take(&mut self.line);
                            self.mark(&line)?;
                        }
                        byte => self.line.push(*byte),
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn request(
        &mut self,
        place: u64,
        command: &Command,
        data: &[u8],
    ) -> Result<Request, LogWritesError> {
        let fua = if command.fua { FUA } else { 0 };
        let sector = command.offset / SECTOR as u64;
        let sectors = command.length / SECTOR as u64;
        let entry = |flags, data| Ok(Request::Entry(Entry { sector, sectors, flags, data }));
        match command.operation {
            Operation::Write => entry(fua, data.to_vec()),
            // Linux writes the zeroes of a drive without such a command.
            Operation::WriteZeroes => {
                entry(fua, vec![0; usize::try_from(command.length).unwrap_or(usize::MAX)])
            }
            Operation::Discard => entry(DISCARD, Vec::new()),
            Operation::Flush => Ok(Request::Flush(std::mem::take(&mut self.unflushed))),
            Operation::Read | Operation::Verify => Ok(Request::Nothing),
            Operation::Copy | Operation::Barrier => {
                Err(LogWritesError::Operation { place, operation: command.operation.name() })
            }
        }
    }

    fn mark(&mut self, text: &[u8]) -> io::Result<()> {
        // A mark's text ends with its sector.
        let data = text[..text.len().min(SECTOR - ENTRY - 1)].to_vec();
        self.write(&Entry { sector: 0, sectors: 0, flags: MARK, data })
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let mark = entry.flags & MARK != 0;
        let length = if mark { entry.data.len() as u64 } else { 0 };
        let mut head = Vec::with_capacity(SECTOR);
        let Entry { sector, sectors, flags, .. } = entry;
        let [sector, sectors, flags, length] = [*sector, *sectors, *flags, length].map(U64::new);
        head.extend_from_slice(EntryHead { sector, sectors, flags, length }.as_bytes());
        if mark {
            head.extend_from_slice(&entry.data);
        }
        head.resize(SECTOR, 0);
        self.to.write_all(&head)?;
        if !mark {
            self.to.write_all(&entry.data)?;
        }
        self.entries += 1;
        Ok(())
    }

    /// Ends the log with what no flush covered; returns the number of entries.
    ///
    /// # Errors
    /// The errors of the log.
    pub fn finish(mut self) -> io::Result<u64> {
        for entry in std::mem::take(&mut self.unflushed) {
            self.write(&entry)?;
        }
        self.mark(END)?;
        self.to.seek(SeekFrom::Start(0))?;
        let head = LogHead {
            magic: MAGIC.into(),
            version: VERSION.into(),
            entries: self.entries.into(),
            sector: (SECTOR as u32).into(),
            ..Default::default()
        };
        self.to.write_all(head.as_bytes())?;
        self.to.flush()?;
        Ok(self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// The entries of a log as another program reads them: flags, sector, data or text.
    fn read(log: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        let field = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
        assert_eq!((field(0), field(8)), (MAGIC, VERSION));
        assert_eq!(log[24..28], 512u32.to_le_bytes());
        let (mut at, mut entries) = (SECTOR, Vec::new());
        for _ in 0..field(16) {
            let [sector, sectors, flags, length] = [0, 8, 16, 24].map(|part| field(at + part));
            let text = at + ENTRY..at + ENTRY + length as usize;
            at += SECTOR;
            let has_data = flags & (DISCARD | MARK) == 0;
            let data = at..at + if has_data { sectors as usize * SECTOR } else { 0 };
            at = data.end;
            let bytes = if flags & MARK != 0 { &log[text] } else { &log[data] };
            entries.push((flags, sector, bytes.to_vec()));
        }
        assert_eq!(at, log.len(), "nothing is behind the last entry");
        entries
    }

    fn made(act: impl FnOnce(&mut LogWrites<&mut Cursor<Vec<u8>>>)) -> Vec<(u64, u64, Vec<u8>)> {
        let mut bytes = Cursor::new(Vec::new());
        let mut log = LogWrites::new(&mut bytes, 1).unwrap();
        act(&mut log);
        log.finish().unwrap();
        read(bytes.get_ref())
    }

    fn request(place: u64, command: Command, data: &[u8]) -> Frame<'_> {
        Frame::Request { drive: 1, level: Level::Guest, place, at: 0, command, data }
    }

    fn completion(place: u64, status: Status) -> Frame<'static> {
        Frame::Completion { drive: 1, level: Level::Guest, place, at: 0, status }
    }

    fn write(sector: u64) -> Command {
        Command::new(Operation::Write, sector * 512, 512)
    }

    #[test]
    fn what_a_flush_covers_stands_before_it() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|byte| vec![byte; 512]);
        let entries = made(|log| {
            let fua = Command { fua: true, ..write(40) };
            for frame in [
                request(0, write(10), &a),
                request(1, write(20), &b),
                completion(1, Status::Ok),
                request(2, Command::flush(), &[]),
                // After the flush was submitted: it does not cover this.
                completion(0, Status::Ok),
                request(3, fua, &d),
                completion(3, Status::Ok),
                completion(2, Status::Ok),
                Frame::Output { at: 0, bytes: b"dur" },
                Frame::Output { at: 0, bytes: b"able 1\nnext" },
                request(4, write(30), &c),
                completion(4, Status::WriteError),
                request(5, Command::new(Operation::Discard, 512 * 8, 512 * 16), &[]),
                completion(5, Status::Ok),
                // A request of another drive, or below an image.
                Frame::Request {
                    drive: 0,
                    level: Level::Guest,
                    place: 0,
                    at: 0,
                    command: write(9),
                    data: &a,
                },
                Frame::Request {
                    drive: 1,
                    level: Level::Drive,
                    place: 0,
                    at: 0,
                    command: write(9),
                    data: &a,
                },
                // Never completed.
                request(6, write(50), &c),
            ] {
                log.take(frame).unwrap();
            }
        });
        let expected = [
            (FUA, 40, d),
            (0, 20, b),
            (FLUSH, 0, vec![]),
            (MARK, 0, b"durable 1".to_vec()),
            (0, 10, a),
            (DISCARD, 8, vec![]),
            (MARK, 0, END.to_vec()),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn what_the_log_has_no_form_for_is_refused() {
        for operation in [Operation::Copy, Operation::Barrier] {
            let mut log = LogWrites::new(Cursor::new(Vec::new()), 1).unwrap();
            let error = log.take(request(7, Command::new(operation, 0, 512), &[])).unwrap_err();
            assert!(error.to_string().contains("request 7 is a "), "{error}");
        }
        // A long line is cut, as its sector ends.
        let entries = made(|log| {
            let line = [vec![b'x'; 4000], b"\n".to_vec()].concat();
            log.take(Frame::Output { at: 0, bytes: &line }).unwrap();
        });
        assert_eq!(entries[0].2, vec![b'x'; 479]);
    }
}
