//! A trace as a source of I/Os.

use std::io::BufRead;

use stasis_block::clock::Nanos;
use stasis_block::{Fate, Operation};

use super::think::ThinkTimes;
use super::{Entry, Format, LeftOut, Merged, Record};
use crate::{Io, TraceError, Workload};

/// Pace at which a trace's I/Os are submitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// At the trace's times since its first I/O, multiplied by this factor.
    Open(f64),
    /// As fast as possible, with at most this many in flight.
    Closed(u32),
    /// At the times of a run, its boot included.
    Exact,
    /// In a closed loop: after the completions of its process that an I/O followed in the trace,
    /// and the think time between them and it, multiplied by this factor.
    ThinkTimes(f64),
}

/// Options for the replay of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayOptions {
    /// Pace at which I/Os are submitted.
    pub pace: Pace,
    /// The drive's size in bytes; without one, every offset is on it.
    pub capacity: Option<u64>,
    /// True if I/Os beyond the drive are brought back to its beginning.
    pub wrap: bool,
    /// The drive's logical block in bytes: I/Os are widened to whole ones.
    pub block_size: u64,
    /// Time that software needs between a completion and the submission after it, in a closed loop
    /// (ns).
    pub path: Nanos,
    /// Length of the trace's file in bytes, where that is known.
    pub length: Option<u64>,
}

/// Changes to a trace's I/Os for their submission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placed {
    /// Submitted, changed or not.
    pub submitted: u64,
    /// Beyond the drive, and brought back to it.
    pub folded: u64,
    /// Not of whole blocks, and widened to them.
    pub widened: u64,
    /// Earlier than the one before them, and submitted at its time.
    pub backwards: u64,
    /// I/Os of a closed loop that were read after the time at which they were due, and submitted
    /// then.
    pub late: u64,
}

/// A trace on its way to a drive.
#[derive(Debug)]
pub struct Replay<R> {
    reader: Merged<R>,
    options: ReplayOptions,
    next: Option<Record>,
    /// Error that ends it, once everything before is taken.
    error: Option<TraceError>,
    /// The time of the first I/O in the trace.
    first: Option<Nanos>,
    /// Time at which the next I/O is submitted.
    at: Nanos,
    in_flight: u64,
    placed: Placed,
    boot: u64,
    /// Think times of a closed loop, in place of `next`.
    think: Option<Box<ThinkTimes>>,
}

impl<R: BufRead> Replay<R> {
    /// Begins with the trace's first I/O.
    ///
    /// # Errors
    /// [`TraceError`] if that cannot be had.
    pub fn new(reader: impl Into<Merged<R>>, options: ReplayOptions) -> Result<Self, TraceError> {
        let mut replay = Self {
            reader: reader.into(),
            options,
            next: None,
            error: None,
            first: None,
            at: 0,
            in_flight: 0,
            placed: Placed::default(),
            boot: 0,
            think: None,
        };
        if let Pace::ThinkTimes(scale) = options.pace {
            if matches!(replay.format(), Format::Alibaba | Format::Tencent) {
                return Err(TraceError::NoCompletions);
            }
            replay.reader.read_whole();
            replay.think = Some(Box::new(ThinkTimes::new(scale)));
        }
        replay.advance();
        match replay.error.take() {
            Some(error) => Err(error),
            None => Ok(replay),
        }
    }

    /// Changes to the I/Os so far.
    pub fn placed(&self) -> Placed {
        let Some(think) = &self.think else { return self.placed };
        let (backwards, late) = think.shifted();
        Placed { backwards, late, ..self.placed }
    }

    /// Events left out so far.
    pub fn left_out(&self) -> LeftOut {
        LeftOut { boot: self.boot, ..self.reader.left_out() }
    }

    fn advance(&mut self) {
        if let Some(mut think) = self.think.take() {
            if let Err(error) = self.read_ahead(&mut think) {
                self.error = Some(error);
            }
            self.think = Some(think);
            return;
        }
        self.next = None;
        match self.read() {
            Ok(next) => self.next = next,
            Err(error) => self.error = Some(error),
        }
    }

    /// Reads as far ahead as a closed loop needs.
    fn read_ahead(&mut self, think: &mut ThinkTimes) -> Result<(), TraceError> {
        while self.error.is_none() && !think.is_full() {
            match self.reader.next_entry()? {
                Some(Entry::Queued(queued)) => think.queued(&queued),
                Some(Entry::End(end)) => think.ended(&end),
                Some(Entry::Io(record)) if record.early => self.boot += 1,
                Some(Entry::Io(record)) => {
                    let mut placed = record;
                    self.place(&mut placed)?;
                    think.issued(&record, placed.command);
                }
                None => break,
            }
        }
        match think.has_ends() || think.next_at().is_none() {
            true => Ok(()),
            false => Err(TraceError::NoCompletions),
        }
    }

    fn read(&mut self) -> Result<Option<Record>, TraceError> {
        let mut record = loop {
            let Some(record) = self.reader.next_record()? else { return Ok(None) };
            if !record.early || self.options.pace == Pace::Exact {
                break record;
            }
            self.boot += 1;
        };
        self.place(&mut record)?;
        let first = *self.first.get_or_insert(record.at);
        let at = match self.options.pace {
            Pace::Open(1.0) => record.at.saturating_sub(first),
            Pace::Open(scale) => (record.at.saturating_sub(first) as f64 * scale) as Nanos,
            Pace::Exact => record.at,
            Pace::Closed(_) | Pace::ThinkTimes(_) => {
                record.early = false;
                return Ok(Some(record));
            }
        };
        if at < self.at {
            self.placed.backwards += 1;
        }
        self.at = self.at.max(at);
        Ok(Some(record))
    }

    /// Brings the I/O to whole blocks of the drive.
    fn place(&mut self, record: &mut Record) -> Result<(), TraceError> {
        let asked = *record;
        let command = &mut record.command;
        if matches!(command.operation, Operation::Flush | Operation::Barrier) {
            return Ok(());
        }
        let block = self.options.block_size.max(1);
        let (offset, length) = (command.offset, command.length);
        let beyond = |capacity| self.reader.beyond(&asked, &asked.command, capacity);
        let end = offset.checked_add(length).and_then(|end| end.checked_next_multiple_of(block));
        let end = end.ok_or_else(|| beyond(self.options.capacity.unwrap_or(u64::MAX)))?;
        command.offset = offset - offset % block;
        command.length = end - command.offset;
        self.placed.widened += u64::from(command.length != length);
        let Some(capacity) = self.options.capacity else { return Ok(()) };
        let fits = |offset: u64| offset.checked_add(command.length).is_some_and(|e| e <= capacity);
        let inside = fits(command.offset) && fits(command.source);
        if !(inside || self.options.wrap) {
            return Err(beyond(capacity));
        }
        self.placed.folded += u64::from(!inside);
        for place in [&mut command.offset, &mut command.source] {
            let fits = |at: u64| at.checked_add(command.length).is_some_and(|end| end <= capacity);
            if !fits(*place) {
                *place %= capacity.max(1);
                // One that would end beyond the end begins at the beginning.
                *place = if fits(*place) { *place } else { 0 };
                if !fits(*place) {
                    return Err(beyond(capacity));
                }
            }
        }
        Ok(())
    }

    /// The trace's format.
    pub fn format(&self) -> Format {
        self.reader.format()
    }
}

impl<R: BufRead> Workload for Replay<R> {
    fn next_at(&self) -> Option<Nanos> {
        if let Some(think) = &self.think {
            // I/Os that were read before an error come first.
            return think.next_at().or(self
                .error
                .as_ref()
                .filter(|_| self.in_flight == 0)
                .map(|_| self.at));
        }
        if self.next.is_none() && self.error.is_none() {
            return None;
        }
        match self.options.pace {
            Pace::Closed(depth) if self.in_flight >= depth.into() => None,
            _ => Some(self.at),
        }
    }

    fn take(&mut self) -> Result<Option<Io>, TraceError> {
        if let Some(think) = self.think.as_mut() {
            if let Some((number, Record { thread, command, .. })) = think.take() {
                self.in_flight += 1;
                self.placed.submitted += 1;
                self.advance();
                return Ok(Some(Io { thread, early: false, number, command }));
            }
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let Some(Record { thread, early, command, .. }) = self.next else { return Ok(None) };
        self.in_flight += 1;
        self.placed.submitted += 1;
        if matches!(self.options.pace, Pace::Closed(_)) {
            self.at = self.at.saturating_add(self.options.path);
        }
        self.advance();
        Ok(Some(Io { thread, early, number: self.placed.submitted, command }))
    }

    fn complete(&mut self, at: Nanos, io: &Io, _: Fate) {
        if let Some(think) = &mut self.think {
            self.at = self.at.max(at);
            think.complete(at, io.number);
        }
        if let Pace::Closed(depth) = self.options.pace {
            if self.in_flight >= depth.into() {
                self.at = self.at.max(at.saturating_add(self.options.path));
            }
        }
        self.in_flight -= 1;
    }

    fn fraction(&self, _now: Nanos) -> Option<f64> {
        let length = self.options.length.filter(|length| *length > 0)?;
        Some((self.reader.bytes() as f64 / length as f64).min(1.0))
    }
}
