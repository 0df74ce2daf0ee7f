//! Reads a trace line by line or event by event, in any of its formats.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead, Read};

use stasis_block::blkparse::{self, SECTOR};
use stasis_block::{Command, Operation};
use stasis_run_events::text::Heading;

use super::binary::{Binary, Event};
use super::csv::Spread;
use super::{binary, csv, ios, msr, End, Entry, LeftOut, Parsed, Position, Queued, Reason, Record};
use crate::TraceError;

/// The formats of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// blkparse's default text.
    Blkparse,
    /// MSR Cambridge CSV.
    Msr,
    /// The `ios.csv` of a run.
    Ios,
    /// Alibaba's block traces.
    Alibaba,
    /// Tencent's block traces.
    Tencent,
    /// blktrace's binary events.
    Blktrace,
}

/// The longest line (bytes).
const MAX_LINE: u64 = 64 << 10;
/// Limit on the part of a line that an error shows.
const SHOWN: usize = 120;
/// Number of I/Os of a run that wait for one that was submitted before them: more than are in
/// flight while any completes. Then it is one that never did.
const MAX_WAITING: usize = 1 << 20;

/// A record that waits for those submitted before it.
#[derive(Debug, PartialEq, Eq)]
struct Waiting(Record);

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.order, self.0.line).cmp(&(other.0.order, other.0.line))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
enum State {
    /// The action that is replayed: `D`, or `Q` where there are none.
    Blkparse(&'static str),
    /// The first line's timestamp.
    Msr(Option<u64>),
    /// The columns, and the I/Os that wait to come in order.
    Ios(Option<Box<Heading>>, BinaryHeap<Reverse<Waiting>>, u64),
    /// The first line's timestamp.
    Alibaba(Option<u64>),
    /// As `Alibaba`, with the I/Os that wait for their second to be over.
    Tencent(Option<u64>, Spread),
    Blktrace(Binary),
}

/// A trace in the order of submission, in bounded memory.
pub struct Reader<R> {
    input: R,
    state: State,
    /// The drive's name in the trace, as it stands there.
    drive: Option<String>,
    /// True if others are left out.
    chosen: bool,
    /// True if queued I/Os and completions are read, too.
    whole: bool,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    ended: bool,
    found: bool,
    left_out: LeftOut,
}

impl<R: BufRead> Reader<R> {
    /// Tells the format by the first lines. Of a trace of several drives,
    /// `drive` is the one to read: `8,0` of blkparse's and blktrace's, `host.1` of MSR's, a
    /// number of Alibaba's and Tencent's, a name of a run's.
    ///
    /// # Errors
    /// [`TraceError::Unknown`] if it is of another format, [`TraceError::Device`] if `drive` is no
    /// name of one there.
    pub fn new(mut input: R, drive: Option<&str>) -> Result<Self, TraceError> {
        let start = input.fill_buf()?;
        let binary = match binary::is_like(start) {
            Some(big_endian) => Some(Binary::new(start, big_endian, drive)?),
            None => None,
        };
        let start = String::from_utf8_lossy(start).into_owned();
        let first = start.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        let actions = || {
            start.lines().filter_map(|line| blkparse::parse(line).ok().flatten().map(|e| e.action))
        };
        let state = if let Some(binary) = binary {
            State::Blktrace(binary)
        } else if ios::is_like(first) {
            State::Ios(None, BinaryHeap::new(), 0)
        } else if msr::is_like(first.trim()) {
            State::Msr(None)
        } else if csv::is_alibaba(first.trim()) {
            State::Alibaba(None)
        } else if csv::is_tencent(first.trim()) {
            State::Tencent(None, Spread::default())
        } else if actions().any(|action| action == "D") {
            State::Blkparse("D")
        } else if actions().next().is_some() {
            State::Blkparse("Q")
        } else if start.trim().is_empty() {
            return Err(TraceError::Empty(String::new()));
        } else {
            return Err(TraceError::Unknown);
        };
        let drive = drive.map(|name| match state {
            State::Msr(_) => name.replacen('.', ",", 1),
            State::Ios(..) if name.contains(['"', ',']) => {
                format!("\"{}\"", name.replace('"', "\"\""))
            }
            _ => name.to_owned(),
        });
        let chosen = drive.is_some();
        let line = Vec::with_capacity(1 << 10);
        Ok(Self {
            input,
            state,
            drive,
            chosen,
            whole: false,
            line,
            number: 0,
            bytes: 0,
            ended: false,
            found: false,
            left_out: LeftOut::default(),
        })
    }

    /// Events left out so far.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// The drive that is read, once that is known.
    pub(crate) fn drive(&self) -> Option<String> {
        match &self.state {
            State::Blktrace(binary) => binary.device(),
            _ => self.drive.clone(),
        }
    }

    /// Returns whether it is issues of a binary trace that are replayed.
    pub(crate) fn has_issues(&self) -> bool {
        matches!(&self.state, State::Blktrace(binary) if binary.has_issues())
    }

    /// Reads issues only, as other files of the same binary trace have some.
    pub(crate) fn only_issues(&mut self) {
        if let State::Blktrace(binary) = &mut self.state {
            binary.only_issues();
        }
    }

    /// Queued I/Os and completions are read, too.
    pub(crate) fn read_whole(&mut self) {
        self.whole = true;
        if let State::Blktrace(binary) = &mut self.state {
            binary.read_whole();
        }
    }

    /// The trace's format.
    pub fn format(&self) -> Format {
        match self.state {
            State::Blkparse(_) => Format::Blkparse,
            State::Msr(_) => Format::Msr,
            State::Ios(..) => Format::Ios,
            State::Alibaba(_) => Format::Alibaba,
            State::Tencent(..) => Format::Tencent,
            State::Blktrace(_) => Format::Blktrace,
        }
    }

    /// Number of bytes read.
    pub fn bytes(&self) -> u64 {
        match &self.state {
            State::Blktrace(binary) => binary.bytes(),
            _ => self.bytes,
        }
    }

    /// The next I/O in the order of submission; `None` after the last.
    ///
    /// # Errors
    /// [`TraceError`], with the line.
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            match self.next_entry()? {
                Some(Entry::Io(record)) => return Ok(Some(record)),
                Some(Entry::Queued(_) | Entry::End(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next entry of the trace.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, TraceError> {
        loop {
            if let State::Ios(_, waiting, next) = &mut self.state {
                let enough = self.ended || waiting.len() > MAX_WAITING;
                let ready =
                    |Reverse(Waiting(first)): &Reverse<Waiting>| enough || first.order <= *next;
                if waiting.peek().is_some_and(ready) {
                    let record = waiting.pop().map(|Reverse(Waiting(record))| record);
                    *next = record.map_or(*next, |record| record.order + 1);
                    return Ok(record.map(Entry::Io));
                }
            }
            if let State::Tencent(_, spread) = &mut self.state {
                if self.ended {
                    spread.end();
                }
                if let Some(record) = spread.pop() {
                    return Ok(Some(Entry::Io(record)));
                }
            }
            if self.ended {
                return Ok(None);
            }
            let entry = match self.state {
                State::Blktrace(_) => self.read_event()?,
                _ => self.read_line()?,
            };
            let record = match entry {
                None => continue,
                Some(Entry::Io(record)) => record,
                Some(other) => return Ok(Some(other)),
            };
            match &mut self.state {
                State::Ios(_, waiting, _) => waiting.push(Reverse(Waiting(record))),
                State::Tencent(_, spread) => spread.push(record),
                _ => return Ok(Some(Entry::Io(record))),
            }
        }
    }

    /// Ends the input: nothing is left to read.
    fn end(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        if self.found {
            return Ok(());
        }
        let drive = self.drive.as_ref().filter(|_| self.chosen);
        Err(TraceError::Empty(drive.map_or(String::new(), |drive| format!(" of drive `{drive}`"))))
    }

    /// The I/O of the next event, if that is one of the drive's.
    fn read_event(&mut self) -> Result<Option<Entry>, TraceError> {
        let State::Blktrace(binary) = &mut self.state else { return Ok(None) };
        match binary.read(&mut self.input)? {
            Event::End => self.end()?,
            Event::Nothing => {}
            Event::Left(reason) => self.left_out.count(reason),
            Event::Io(record) => {
                self.found = true;
                return Ok(Some(Entry::Io(record)));
            }
            Event::Other(entry) => return Ok(Some(entry)),
        }
        Ok(None)
    }

    /// The I/O of the next line, if that is one of the drive's.
    fn read_line(&mut self) -> Result<Option<Entry>, TraceError> {
        self.line.clear();
        let read = (&mut self.input).take(MAX_LINE).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            self.end()?;
            return Ok(None);
        }
        self.number += 1;
        self.bytes += read as u64;
        let text = String::from_utf8_lossy(&self.line);
        let line = text.trim_end_matches(['\n', '\r']);
        let bad = |problem: String| TraceError::Line {
            line: self.number,
            problem,
            text: line.chars().take(SHOWN).collect(),
        };
        if read as u64 == MAX_LINE {
            return Err(bad(format!("the line is longer than {MAX_LINE} bytes")));
        }
        let parsed = match &mut self.state {
            State::Blkparse(action) => of_event(line, action, self.whole),
            State::Msr(first) => msr::parse(line.trim(), first),
            State::Alibaba(first) => csv::alibaba(line.trim(), first),
            State::Tencent(first, _) => csv::tencent(line.trim(), first),
            State::Blktrace(_) => return Ok(None),
            State::Ios(columns @ None, ..) => {
                *columns = Some(Box::new(ios::columns(line).map_err(bad)?));
                return Ok(None);
            }
            State::Ios(Some(columns), ..) => ios::parse(columns, line),
        };
        let (drive, mut record) = match parsed.map_err(bad)? {
            Parsed::Nothing => return Ok(None),
            Parsed::Left(reason) => {
                self.left_out.count(reason);
                return Ok(None);
            }
            Parsed::Io { drive, record } => (drive, record),
            Parsed::Other { drive, entry } => {
                // An I/O of a drive that is not chosen is left out or an error.
                let first = self.drive.get_or_insert_with(|| drive.to_owned());
                return Ok((first == drive).then_some(entry));
            }
        };
        record.line = self.number;
        match &self.drive {
            None => self.drive = Some(drive.to_owned()),
            Some(wanted) if wanted == drive => {}
            Some(_) if self.chosen => {
                self.left_out.count(Reason::Drive);
                return Ok(None);
            }
            Some(first) => {
                let shown = |name: &str| match self.state {
                    State::Msr(_) => name.replacen(',', ".", 1),
                    _ => name.to_owned(),
                };
                let (drive, other) = (shown(first), shown(drive));
                return Err(TraceError::Drives {
                    place: Position::Line(self.number),
                    drive,
                    other,
                });
            }
        }
        self.found = true;
        Ok(Some(Entry::Io(record)))
    }
}

fn of_event<'a>(line: &'a str, action: &str, whole: bool) -> Result<Parsed<'a>, String> {
    let Some(event) = blkparse::parse(line)? else { return Ok(Parsed::Nothing) };
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR).ok_or("the sector is too large");
    if event.action != action {
        let (drive, at) = (event.device, event.at);
        let flush = event.operation == Operation::Flush;
        let entry = match event.action {
            _ if !whole => return Ok(Parsed::Nothing),
            // A flush has no place.
            "C" => Entry::End(End { at, offset: bytes(event.sector)?, flush }),
            "Q" => {
                Entry::Queued(Queued { at, offset: bytes(event.sector)?, process: event.process })
            }
            _ => return Ok(Parsed::Nothing),
        };
        return Ok(Parsed::Other { drive, entry });
    }
    let mut command = Command::new(event.operation, bytes(event.sector)?, bytes(event.sectors)?);
    if event.operation == Operation::Flush {
        command = Command::flush();
    }
    command.fua = event.fua;
    let record = Record {
        at: event.at,
        thread: event.cpu.parse().unwrap_or(0),
        process: event.process,
        ended: None,
        early: false,
        order: 0,
        command,
        line: 0,
    };
    Ok(Parsed::Io { drive: event.device, record })
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("drive", &self.drive)
            .field("line", &self.number)
            .finish_non_exhaustive()
    }
}
