//! Block traces of clouds, of five fields a line.
//!
//! * Alibaba's (Li et al., "An In-Depth Analysis of Cloud Block Storage Workloads in
//!   Large-Scale Production", IISWC 2020): `device_id,opcode,offset,length,timestamp`, opcode R
//!   or W, offset and length in bytes, timestamp in µs.
//! * Tencent's (Zhang et al., "OSCA", USENIX ATC 2020; SNIA IOTTA trace 27917 and following):
//!   `Timestamp,Offset,Size,IOType,VolumeID`, timestamp in whole seconds, offset and size in
//!   sectors of 512 bytes, 0 for a read and 1 for a write.

use std::collections::VecDeque;

use stasis_block::clock::{Nanos, SECOND};
use stasis_block::{Command, Operation};

use super::{Parsed, Reason, Record};

/// ns of Alibaba's unit.
const MICROSECOND: Nanos = 1000;
/// Bytes of Tencent's unit.
const SECTOR: u64 = 512;
/// Limit on the I/Os of one second that are kept to be spread over it.
const MAX_SPREAD: usize = 1 << 20;

/// The fields of a line, or `None` where there are more or fewer.
fn fields(line: &str) -> Option<[&str; 5]> {
    let mut all = line.split(',');
    let fields = [all.next()?, all.next()?, all.next()?, all.next()?, all.next()?];
    all.next().is_none().then_some(fields)
}

fn five(line: &str) -> Result<[&str; 5], String> {
    fields(line).ok_or_else(|| "it must have five fields, with commas between them".to_owned())
}

fn number(field: &str, name: &str) -> Result<u64, String> {
    field.trim().parse().map_err(|_| format!("the field {name} is no number"))
}

/// Reads a line of Alibaba's. `first` is the first timestamp, from which times count.
pub(crate) fn alibaba<'a>(line: &'a str, first: &mut Option<u64>) -> Result<Parsed<'a>, String> {
    if line.is_empty() || line.starts_with("device_id,") {
        return Ok(Parsed::Nothing);
    }
    let [drive, opcode, offset, length, timestamp] = five(line)?;
    let operation = match opcode {
        "R" => Operation::Read,
        "W" => Operation::Write,
        _ => return Err(format!("the opcode `{opcode}` is neither R nor W")),
    };
    let (offset, length) = (number(offset, "offset")?, number(length, "length")?);
    let at = since(number(timestamp, "timestamp")?, first, MICROSECOND);
    Ok(io(drive, at, Command::new(operation, offset, length)))
}

/// Reads a line of Tencent's, likewise.
pub(crate) fn tencent<'a>(line: &'a str, first: &mut Option<u64>) -> Result<Parsed<'a>, String> {
    if line.is_empty() || line.starts_with("Timestamp,Offset,") {
        return Ok(Parsed::Nothing);
    }
    let [timestamp, offset, size, kind, drive] = five(line)?;
    let operation = match kind {
        "0" => Operation::Read,
        "1" => Operation::Write,
        _ => return Err(format!("the IOType `{kind}` is neither 0 nor 1")),
    };
    let bytes = |field, name: &str| {
        number(field, name)?.checked_mul(SECTOR).ok_or(format!("the field {name} is too large"))
    };
    let (offset, length) = (bytes(offset, "Offset")?, bytes(size, "Size")?);
    let at = since(number(timestamp, "Timestamp")?, first, SECOND);
    Ok(io(drive, at, Command::new(operation, offset, length)))
}

fn since(timestamp: u64, first: &mut Option<u64>, unit: Nanos) -> Nanos {
    timestamp.saturating_sub(*first.get_or_insert(timestamp)).saturating_mul(unit)
}

fn io(drive: &str, at: Nanos, command: Command) -> Parsed<'_> {
    if command.length == 0 {
        return Parsed::Left(Reason::Empty);
    }
    let record =
        Record { at, thread: 0, process: 0, ended: None, early: false, order: 0, command, line: 0 };
    Parsed::Io { drive, record }
}

/// Returns whether a line is of Alibaba's.
pub(crate) fn is_alibaba(line: &str) -> bool {
    line.starts_with("device_id,opcode,")
        || fields(line).is_some_and(|[_, opcode, ..]| matches!(opcode, "R" | "W"))
            && alibaba(line, &mut None).is_ok()
}

/// Returns whether a line is of Tencent's.
pub(crate) fn is_tencent(line: &str) -> bool {
    line.starts_with("Timestamp,Offset,Size,")
        || fields(line).is_some() && tencent(line, &mut None).is_ok()
}

/// I/Os of which the second is known, spread evenly over it, in their order.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// I/Os of one second, until the next one begins.
    second: VecDeque<Record>,
    /// I/Os whose times are known.
    ready: VecDeque<Record>,
}

impl Spread {
    /// Takes an I/O.
    pub(crate) fn push(&mut self, record: Record) {
        let over = self.second.front().is_some_and(|first| first.at != record.at);
        if over || self.second.len() >= MAX_SPREAD {
            self.end();
        }
        self.second.push_back(record);
    }

    /// The second is over.
    pub(crate) fn end(&mut self) {
        let count = self.second.len().max(1) as u64;
        for (number, mut record) in self.second.drain(..).enumerate() {
            // Not above MAX_SPREAD times a second.
            record.at = record.at.saturating_add(number as u64 * SECOND / count);
            self.ready.push_back(record);
        }
    }

    /// The next I/O whose time is known.
    pub(crate) fn pop(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }
}
