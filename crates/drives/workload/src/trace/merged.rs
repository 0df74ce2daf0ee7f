//! Several files of one trace, such as blktrace's of each processor, in the order of time.

use std::io::BufRead;

use stasis_block::Command;

use super::{Entry, Format, LeftOut, Position, Reader, Record};
use crate::TraceError;

/// A file of a trace.
#[derive(Debug)]
struct Part<R> {
    /// Its name in errors; empty of the only one.
    name: String,
    reader: Reader<R>,
    /// Its next entry, where there are several files.
    next: Option<Entry>,
}

/// The files of a trace as one: each file's I/Os in its own order, and of the files the one
/// first whose next I/O is the earliest.
#[derive(Debug)]
pub struct Merged<R> {
    parts: Vec<Part<R>>,
    /// True if each part's first I/O is there.
    begun: bool,
    /// Position of the last I/O.
    last: usize,
}

impl<R: BufRead> From<Reader<R>> for Merged<R> {
    fn from(reader: Reader<R>) -> Self {
        let part = Part { name: String::new(), reader, next: None };
        Self { parts: vec![part], begun: true, last: 0 }
    }
}

impl<R: BufRead> Merged<R> {
    /// Merges files with names. Empty files are left out: a processor may have seen nothing.
    ///
    /// # Errors
    /// The errors of [`Reader::new`], with the file's name; and an error if all files are empty.
    pub fn new(
        files: impl IntoIterator<Item = (String, R)>,
        drive: Option<&str>,
    ) -> Result<Self, TraceError> {
        let mut parts = Vec::new();
        for (name, input) in files {
            match Reader::new(input, drive) {
                Ok(reader) => parts.push(Part { name, reader, next: None }),
                Err(TraceError::Empty(_)) => {}
                Err(error) => return Err(error.within(&name)),
            }
        }
        // Each I/O is there once where one processor issued requests that others queued.
        if parts.iter().any(|part| part.reader.has_issues()) {
            parts.iter_mut().for_each(|part| part.reader.only_issues());
        }
        if parts.is_empty() {
            return Err(TraceError::Empty(String::new()));
        }
        let begun = parts.len() == 1;
        Ok(Self { parts, begun, last: 0 })
    }

    /// The trace's format.
    pub fn format(&self) -> Format {
        self.parts.first().map_or(Format::Blktrace, |part| part.reader.format())
    }

    /// Number of bytes read of all files.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.reader.bytes()).sum()
    }

    /// Events left out so far.
    pub fn left_out(&self) -> LeftOut {
        self.parts.iter().map(|part| part.reader.left_out()).sum()
    }

    /// An error of the I/O that was read last, with the name of its file.
    pub(crate) fn beyond(&self, record: &Record, command: &Command, capacity: u64) -> TraceError {
        let place = match self.format() {
            Format::Blktrace => Position::Byte(record.line),
            _ => Position::Line(record.line),
        };
        let Command { offset, length, .. } = *command;
        let error = TraceError::Beyond { place, offset, length, capacity };
        match self.parts.get(self.last) {
            Some(part) => error.within(&part.name),
            None => error,
        }
    }

    /// The next I/O; `None` after the last.
    ///
    /// # Errors
    /// [`TraceError`], with the file where there are several.
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            match self.next_entry()? {
                Some(Entry::Io(record)) => return Ok(Some(record)),
                Some(Entry::Queued(_) | Entry::End(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// Queued I/Os and completions are read, too.
    pub(crate) fn read_whole(&mut self) {
        self.parts.iter_mut().for_each(|part| part.reader.read_whole());
    }

    /// The next entry of the trace.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, TraceError> {
        if let [part] = &mut self.parts[..] {
            return part.reader.next_entry().map_err(|error| error.within(&part.name));
        }
        if !self.begun {
            self.begun = true;
            for part in 0..self.parts.len() {
                self.parts[part].next = self.read(part)?;
            }
            self.check()?;
        }
        let times = self.parts.iter().enumerate();
        let first = times.filter_map(|(number, part)| Some((part.next?.order(), number))).min();
        let Some((_, number)) = first else { return Ok(None) };
        self.last = number;
        let next = self.read(number)?;
        Ok(std::mem::replace(&mut self.parts[number].next, next))
    }

    /// The next I/O of a part. One may have none: the others have.
    fn read(&mut self, part: usize) -> Result<Option<Entry>, TraceError> {
        let part = &mut self.parts[part];
        match part.reader.next_entry() {
            Err(TraceError::Empty(_)) => Ok(None),
            other => other.map_err(|error| error.within(&part.name)),
        }
    }

    /// Checks for an I/O, and that all I/Os are of one drive.
    fn check(&self) -> Result<(), TraceError> {
        let parts = self.parts.iter().filter(|part| part.next.is_some());
        let mut drives = parts.filter_map(|part| Some((part, part.reader.drive()?)));
        let Some((_, drive)) = drives.next() else { return Err(TraceError::Empty(String::new())) };
        match drives.find(|(_, other)| *other != drive) {
            None => Ok(()),
            Some((part, other)) => {
                let line = |entry| if let Entry::Io(record) = entry { record.line } else { 0 };
                let place = Position::Byte(part.next.map_or(0, line));
                Err(TraceError::Drives { place, drive, other }.within(&part.name))
            }
        }
    }
}
