//! Reads a log of dm-log-writes as the frames of a trace.
//!
//! A log has neither submissions nor times: each entry is submitted and ends before the next. What
//! it orders is kept: a flush covers the entries before it, and one with data flushes first
//! (`REQ_PREFLUSH`). So no state is made that the log does not permit.

use std::collections::HashSet;
use std::io::{self, Read};

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, PowerLoss, Status};
use stasis_layout::{transmute_ref, FromBytes, U64};

use super::{
    EntryHead, LogHead, DISCARD, END, ENTRY, FLUSH, FUA, MAGIC, MARK, METADATA, SECTOR, VERSION,
};
use crate::frame::{Frame, Level};

/// Time between entries (ns), as a log has none.
const STEP: Nanos = 1_000;
/// The largest sector of a log (bytes): Linux's largest logical block, `BLK_MAX_BLOCK_SIZE`.
const MAX_SECTOR: u32 = 64 << 10;
/// The most entries that are read, so that their events can be counted (`CutPoint`).
const MAX_ENTRIES: u64 = 1 << 29;

/// The device that a log is of.
#[derive(Debug, Clone, Copy)]
pub struct LoggedDevice {
    /// Size (bytes).
    pub capacity: u64,
    /// Logical block size (bytes).
    pub block: u64,
    /// True if discarded ranges read as zeroes.
    pub discard_zeroes: bool,
    /// The losses of the device in a power cut.
    pub power_loss: PowerLoss,
}

/// Counts of a log that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadLog {
    /// Number of entries.
    pub entries: u64,
    /// Number of marks among them.
    pub marks: u64,
    /// Writes behind a durable one (FUA) to the same sectors without a flush between them: the
    /// kernel logs the durable one first even where it came last.
    pub ambiguous: u64,
}

/// A log that is refused.
#[derive(Debug, thiserror::Error)]
pub enum LogReadError {
    /// The log cannot be read, or its frames cannot be taken.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The log begins with other bytes.
    #[error(
        "it is no log of dm-log-writes: its magic number is another; name the device or file that \
         the target logged to"
    )]
    NoLog,
    /// Another version.
    #[error("it is a log of version {0}; version {VERSION} is known")]
    Version(u64),
    /// A sector that no device has, or one of other blocks than the drive's.
    #[error("its sectors have {sector} bytes, {why}")]
    Sector {
        /// The log's sector (bytes).
        sector: u32,
        /// The reason.
        why: String,
    },
    /// More entries than can be read.
    #[error("it says that it has {0} entries, more than the {MAX_ENTRIES} that are read")]
    Long(u64),
    /// The log ends too early.
    #[error("it is cut off in entry {entry} of {total}: copy the log's whole device")]
    Cut {
        /// The entry, from 0.
        entry: u64,
        /// Number of entries that its beginning promises.
        total: u64,
    },
    /// An entry that the kernel does not write, or that does not fit the drive.
    #[error("entry {entry} {fault}")]
    Entry {
        /// The entry, from 0.
        entry: u64,
        /// The fault.
        fault: String,
    },
}

/// Reads the log of drive 0, which `device` describes, and hands its frames to `take` in order; a
/// mark is a line of output, but for the one that ends a log.
///
/// # Errors
/// See [`LogReadError`].
pub fn read_log_writes(
    mut from: impl Read,
    device: &LoggedDevice,
    take: &mut dyn FnMut(&Frame<'_>) -> io::Result<()>,
) -> Result<ReadLog, LogReadError> {
    let mut head = [0; SECTOR];
    if !whole(&mut from, &mut head)? {
        return Err(LogReadError::NoLog);
    }
    let head: &LogHead = transmute_ref!(&head);
    if head.magic != MAGIC {
        return Err(LogReadError::NoLog);
    }
    if head.version != VERSION {
        return Err(LogReadError::Version(head.version.get()));
    }
    let total = head.entries.get();
    if total > MAX_ENTRIES {
        return Err(LogReadError::Long(total));
    }
    let sector = head.sector.get();
    check_sector(sector, device)?;
    let mut rest = vec![0; sector as usize - SECTOR];
    if !whole(&mut from, &mut rest)? {
        return Err(LogReadError::Cut { entry: 0, total });
    }
    let (drive, level) = (0, Level::Guest);
    let LoggedDevice { capacity, discard_zeroes, power_loss, .. } = *device;
    take(&Frame::Drive { drive, level, capacity, discard_zeroes, power_loss })?;
    let sector = u64::from(sector);
    let mut reader = Reader { device, sector, take, place: 0, at: 0, durable: HashSet::new() };
    let mut read = ReadLog { entries: total, ..ReadLog::default() };
    let mut head = vec![0; sector as usize];
    let mut data = Vec::new();
    (reader.take)(&Frame::Began { at: 0 })?;
    for entry in 0..total {
        if !whole(&mut from, &mut head)? {
            return Err(LogReadError::Cut { entry, total });
        }
        reader.at = (entry + 1) * STEP;
        let wrong = |fault| LogReadError::Entry { entry, fault };
        let found = Found::of(&head, reader.sector, device).map_err(wrong)?;
        data.clear();
        if let Found::Request { operation: Some(Operation::Write), length, .. } = found {
            // By as much as there is, so that a false length asks for no memory.
            if from.by_ref().take(length).read_to_end(&mut data)? as u64 != length {
                return Err(LogReadError::Cut { entry, total });
            }
        }
        match found {
            Found::Mark(text) if text == END && entry + 1 == total => {}
            Found::Mark(text) => {
                read.marks += 1;
                let at = reader.at;
                (reader.take)(&Frame::Output { at, bytes: &[text, b"\n"].concat() })?;
            }
            Found::Request { flush, operation, fua, offset, length } => {
                if flush {
                    reader.request(Command::flush(), &[])?;
                    reader.durable.clear();
                }
                if let Some(operation) = operation {
                    let command = Command { fua, ..Command::new(operation, offset, length) };
                    read.ambiguous += u64::from(reader.overlaps(&command));
                    reader.request(command, &data)?;
                }
            }
        }
    }
    (reader.take)(&Frame::Over { at: (total + 1) * STEP })?;
    Ok(read)
}

fn check_sector(sector: u32, device: &LoggedDevice) -> Result<(), LogReadError> {
    let wrong = |why: String| Err(LogReadError::Sector { sector, why });
    if !sector.is_power_of_two() || !(SECTOR as u32..=MAX_SECTOR).contains(&sector) {
        return wrong(format!("not a power of two from {SECTOR} to {MAX_SECTOR}"));
    }
    // A drive of smaller blocks could tear what the logged device could not.
    if u64::from(sector) > device.block {
        let block = device.block;
        return wrong(format!(
            "the drive's blocks {block}: give the drive the blocks of the logged device \
             (`block-size`, 512 or 4096)"
        ));
    }
    Ok(())
}

/// Fills `into`; `false` if there is less.
fn whole(from: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// An entry.
enum Found<'a> {
    /// A mark, and its text.
    Mark(&'a [u8]),
    /// A flush, a change of the disk, or the one before the other; place and length in bytes.
    Request { flush: bool, operation: Option<Operation>, fua: bool, offset: u64, length: u64 },
}

impl<'a> Found<'a> {
    /// The entry at the beginning of `head`, a sector; or what is wrong with it.
    fn of(head: &'a [u8], sector: u64, device: &LoggedDevice) -> Result<Self, String> {
        let (entry, _) =
            EntryHead::read_from_prefix(head).map_err(|_| "is cut short".to_owned())?;
        let EntryHead { sector: start, sectors, flags, length: text } = entry;
        let [start, sectors, flags, text] = [start, sectors, flags, text].map(U64::get);
        let has = |flag| flags & flag != 0;
        let unknown = flags & !(FLUSH | FUA | DISCARD | MARK | METADATA);
        if unknown != 0 {
            return Err(format!("has unknown flags ({unknown:#x})"));
        }
        if has(MARK) {
            if flags != MARK || sectors != 0 {
                return Err(format!("is a mark, and a request as well (flags {flags:#x})"));
            }
            let room = head.len() - ENTRY;
            let text = usize::try_from(text).ok().filter(|text| *text <= room);
            let text = text.ok_or_else(|| format!("is a mark of more than {room} bytes"))?;
            let text = &head[ENTRY..ENTRY + text];
            if text.contains(&b'\n') {
                return Err("is a mark of several lines; a mark is one line here".to_owned());
            }
            return Ok(Self::Mark(text));
        }
        if has(DISCARD) && has(FUA | FLUSH) {
            return Err(format!("is a discard with a flush or FUA (flags {flags:#x})"));
        }
        if sectors == 0 {
            return match has(FLUSH) {
                true => {
                    let (operation, fua, offset, length) = (None, false, 0, 0);
                    Ok(Self::Request { flush: true, operation, fua, offset, length })
                }
                false => Err("has no length, and is no flush".to_owned()),
            };
        }
        let bytes = |count: u64| count.checked_mul(sector);
        let place = bytes(start).zip(bytes(sectors));
        let inside = place.filter(|(offset, length)| {
            offset.checked_add(*length).is_some_and(|end| end <= device.capacity)
        });
        let Some((offset, length)) = inside else {
            return Err(format!(
                "is of {sectors} sectors at {start}, beyond the drive's {} bytes: give the drive \
                 the size of the logged device",
                device.capacity
            ));
        };
        if offset % device.block != 0 || length % device.block != 0 {
            return Err(format!(
                "is of {length} bytes at {offset}, not of whole blocks of {}: give the drive \
                 `block-size = {sector}`",
                device.block
            ));
        }
        let operation = if has(DISCARD) { Operation::Discard } else { Operation::Write };
        // `bi_size` has 32 bits.
        if operation == Operation::Write && length > u64::from(u32::MAX) {
            return Err(format!("is a write of {length} bytes, longer than any of Linux's"));
        }
        let (flush, fua) = (has(FLUSH), has(FUA));
        Ok(Self::Request { flush, operation: Some(operation), fua, offset, length })
    }
}

struct Reader<'a> {
    device: &'a LoggedDevice,
    /// The log's sector (bytes).
    sector: u64,
    take: &'a mut dyn FnMut(&Frame<'_>) -> io::Result<()>,
    /// Number of the next request.
    place: u64,
    /// Time of the entry (ns).
    at: Nanos,
    /// Blocks of writes with FUA since the last flush.
    durable: HashSet<u64>,
}

impl Reader<'_> {
    fn request(&mut self, command: Command, data: &[u8]) -> io::Result<()> {
        let (drive, level, place, at) = (0, Level::Guest, self.place, self.at);
        (self.take)(&Frame::Request { drive, level, place, at, command, data })?;
        let at = at + STEP / 2;
        (self.take)(&Frame::Completion { drive, level, place, at, status: Status::Ok })?;
        self.place += 1;
        Ok(())
    }

    /// Returns whether a change stands behind a durable write of the same blocks that it may have
    /// preceded.
    fn overlaps(&mut self, command: &Command) -> bool {
        let block = self.device.block;
        let blocks = command.offset / block..(command.offset + command.length) / block;
        if command.fua {
            self.durable.extend(blocks);
            return false;
        }
        // A discard may be as long as the drive.
        match blocks.end - blocks.start > self.durable.len() as u64 {
            true => self.durable.iter().any(|durable| blocks.contains(durable)),
            false => blocks.clone().any(|block| self.durable.contains(&block)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_writes::LogWrites;
    use crate::{Enumerator, Trace, TraceHeader, TraceWriter, TracedDrive};
    use proptest::prelude::*;
    use stasis_drive::Sampling;
    use std::io::Cursor;

    const SIZE: u64 = 1 << 20;

    fn device() -> LoggedDevice {
        let power_loss = PowerLoss::default();
        LoggedDevice { capacity: SIZE, block: 512, discard_zeroes: true, power_loss }
    }

    /// The head of an entry, and its data.
    fn entry(sector: u64, sectors: u64, flags: u64, data: &[u8]) -> Vec<u8> {
        let length = if flags & MARK != 0 { data.len() as u64 } else { 0 };
        let fields = [sector, sectors, flags, length].map(u64::to_le_bytes).concat();
        let mut bytes = fields;
        if flags & MARK != 0 {
            bytes.extend_from_slice(data);
        }
        bytes.resize(SECTOR, 0);
        if flags & MARK == 0 {
            bytes.extend_from_slice(data);
        }
        bytes
    }

    fn log(entries: &[Vec<u8>]) -> Vec<u8> {
        let fields = [MAGIC, VERSION, entries.len() as u64].map(u64::to_le_bytes).concat();
        let mut bytes = fields;
        bytes.extend_from_slice(&(SECTOR as u32).to_le_bytes());
        bytes.resize(SECTOR, 0);
        bytes.extend(entries.concat());
        bytes
    }

    fn read(log: &[u8]) -> Result<(ReadLog, Vec<u8>), LogReadError> {
        let mut stream = Vec::new();
        let read = read_log_writes(log, &device(), &mut |frame| {
            frame.encode(&mut stream);
            Ok(())
        })?;
        Ok((read, stream))
    }

    /// The requests in order: operation, FUA, offset, length.
    fn requests(log: &[u8]) -> Vec<(Operation, bool, u64, u64)> {
        let (_, stream) = read(log).unwrap();
        let (mut at, mut all) = (0, Vec::new());
        while let Some((frame, length)) = Frame::decode(&stream[at..]).unwrap() {
            if let Frame::Request { command, .. } = frame {
                all.push((command.operation, command.fua, command.offset, command.length));
            }
            at += length;
        }
        all
    }

    fn trace(stream: &[u8]) -> Trace {
        let drives = vec![TracedDrive { name: "disk".into(), ..TracedDrive::default() }];
        let header = TraceHeader { drives, ..TraceHeader::default() };
        let mut file = Vec::new();
        let mut writer = TraceWriter::new(&mut file, &header).unwrap();
        writer.piece(stream).unwrap();
        writer.finish().unwrap();
        Trace::load(&*file, &mut |_, _, into| {
            into.fill(0);
            Ok(())
        })
        .unwrap()
    }

    /// Each state by the sectors that differ from zeroes, with their bytes, at every point.
    fn states(trace: &Trace) -> Vec<Vec<(u64, Vec<u8>)>> {
        let samplings = [Sampling::Least, Sampling::Most].into_iter();
        let samplings: Vec<_> = samplings.chain((0..20).map(Sampling::Random)).collect();
        let mut enumerator = Enumerator::new(trace, false);
        let mut all = Vec::new();
        for point in 0..=trace.events.len() as u32 {
            enumerator.go_to(point);
            for sampling in &samplings {
                let crashed = &enumerator.cut(*sampling)[0];
                let content = |sector| {
                    let content = crashed.get(sector).or(enumerator.settled(0).get(sector))?;
                    Some((sector, trace.contents.bytes(content).to_vec()))
                };
                all.push((0..SIZE / 512).filter_map(content).collect());
            }
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A trace in which nothing overlaps is the same after its export and its import: the same
        /// disks after a cut at each event, and the same lines.
        #[test]
        fn what_was_exported_is_imported_with_the_same_states(
            steps in prop::collection::vec((0..6u8, 0..8u64, 1..5u64), 1..12),
        ) {
            let LoggedDevice { capacity, discard_zeroes, power_loss, .. } = device();
            let (drive, level) = (0, Level::Guest);
            let mut frames = Vec::new();
            let mut place = 0;
            // A line or a durable write would overtake in the log what no flush has covered.
            let mut unflushed = false;
            for (index, (kind, sector, sectors)) in steps.into_iter().enumerate() {
                let (offset, length) = (sector * 512, sectors * 512);
                let (operation, fua) = match kind {
                    0 | 1 => (Operation::Write, false),
                    2 if unflushed => continue,
                    2 => (Operation::Write, true),
                    3 => (Operation::Discard, false),
                    4 => (Operation::Flush, false),
                    _ if unflushed => continue,
                    _ => {
                        frames.push((None, format!("line {index}\n").into_bytes()));
                        continue;
                    }
                };
                unflushed = match operation {
                    Operation::Flush => false,
                    _ => unflushed || !fua,
                };
                let command = match operation {
                    Operation::Flush => Command::flush(),
                    _ => Command { fua, ..Command::new(operation, offset, length) },
                };
                let size = if operation == Operation::Write { length as usize } else { 0 };
                frames.push((Some(command), vec![index as u8 + 1; size]));
            }
            let mut before = Vec::new();
            let mut exported = Cursor::new(Vec::new());
            let mut writer = LogWrites::new(&mut exported, 0).unwrap();
            let mut both = |frame: Frame<'_>| {
                frame.encode(&mut before);
                writer.take(frame).unwrap();
            };
            both(Frame::Drive { drive, level, capacity, discard_zeroes, power_loss });
            for (index, (command, data)) in frames.iter().enumerate() {
                let at = index as u64;
                match *command {
                    Some(command) => {
                        both(Frame::Request { drive, level, place, at, command, data });
                        let status = Status::Ok;
                        both(Frame::Completion { drive, level, place, at, status });
                        place += 1;
                    }
                    None => both(Frame::Output { at, bytes: data }),
                }
            }
            writer.finish().unwrap();
            let (_, after) = read(exported.get_ref()).unwrap();
            let (before, after) = (trace(&before), trace(&after));
            let lines = |trace: &Trace| {
                trace.lines.iter().map(|(point, _, line)| (*point, line.clone())).collect::<Vec<_>>()
            };
            prop_assert_eq!(lines(&before), lines(&after));
            prop_assert!(states(&before) == states(&after));
        }

        #[test]
        fn noise_never_panics(
            noise in prop::collection::vec(any::<u8>(), 0..2000),
            at in 0..1500usize,
        ) {
            let mut bytes = log(&[entry(0, 1, 0, &[1; 512]), entry(0, 0, MARK, b"mark")]);
            for (byte, noise) in bytes.iter_mut().skip(at).zip(&noise) {
                *byte = *noise;
            }
            let _ = read(&bytes);
            let _ = read(&noise);
        }
    }

    #[test]
    fn a_flush_with_data_comes_before_them() {
        use Operation::{Discard, Flush, Write};
        let bytes = log(&[
            entry(8, 1, METADATA, &[1; 512]),
            entry(16, 2, FLUSH | FUA | METADATA, &[2; 1024]),
            entry(0, 0, MARK, b"step 1"),
            entry(0, 100, DISCARD, &[]),
            entry(0, 0, FLUSH, &[]),
            entry(0, 0, MARK, END),
        ]);
        let expected = [
            (Write, false, 4096, 512),
            (Flush, false, 0, 0),
            (Write, true, 8192, 1024),
            (Discard, false, 0, 51200),
            (Flush, false, 0, 0),
        ];
        assert_eq!(requests(&bytes), expected);
        // The mark of the end is no step, and what a log's device has behind it is not read.
        let longer = [&bytes[..], &[9; 700]].concat();
        let (found, _) = read(&longer).unwrap();
        // The discard changes what the durable write wrote.
        assert_eq!(found, ReadLog { entries: 6, marks: 1, ambiguous: 1 });
    }

    #[test]
    fn what_the_kernel_does_not_write_is_refused_by_name() {
        let one = |entry_bytes: Vec<u8>| log(&[entry_bytes]);
        let data = [1; 512];
        let whole = one(entry(0, 1, 0, &data));
        let with = |at: usize, bytes: &[u8]| {
            let mut other = whole.clone();
            other[at..at + bytes.len()].copy_from_slice(bytes);
            other
        };
        for (bytes, why) in [
            (with(0, &[0]), "no log of dm-log-writes"),
            (whole[..100].to_vec(), "no log of dm-log-writes"),
            (with(8, &[2]), "version 2"),
            (with(23, &[1]), "more than the"),
            (with(24, &[0, 3]), "768 bytes, not a power of two"),
            (with(24, &[0, 0, 0, 0]), "0 bytes, not a power of two"),
            (with(24, &[0, 16]), "give the drive the blocks of the logged device"),
            (whole[..whole.len() - 1].to_vec(), "cut off in entry 0 of 1"),
            (whole[..700].to_vec(), "cut off in entry 0 of 1"),
            (with(16, &[2]), "cut off in entry 1 of 2"),
            (one(entry(2047, 2, 0, &[1; 1024])), "beyond the drive's 1048576 bytes"),
            (one(entry(u64::MAX, 1, 0, &data)), "beyond the drive"),
            (one(entry(1, u64::MAX / 512, DISCARD, &[])), "beyond the drive"),
            (one(entry(0, 1, DISCARD | FUA, &[])), "a discard with a flush or FUA"),
            (one(entry(0, 1, DISCARD | FLUSH, &[])), "a discard with a flush or FUA"),
            (one(entry(0, 1, 1 << 5, &data)), "unknown flags (0x20)"),
            (one(entry(0, 0, 0, &[])), "has no length"),
            (one(entry(0, 0, MARK | FUA, b"x")), "is a mark, and a request"),
            (one(entry(0, 0, MARK, b"a\nb")), "several lines"),
            (one(with(SECTOR + 16, &[8])[SECTOR..].to_vec()), "is a mark, and a request"),
        ] {
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{error}: not {why}");
        }
        let mut mark = entry(0, 0, MARK, b"x");
        mark[25] = 2;
        assert!(read(&one(mark)).unwrap_err().to_string().contains("more than 480 bytes"));
        let large = LoggedDevice { block: 4096, ..device() };
        let error = read_log_writes(&*whole, &large, &mut |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("not of whole blocks of 4096"), "{error}");
    }
}
