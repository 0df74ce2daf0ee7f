//! Loads the frames of a trace into memory.

use std::collections::HashMap;
use std::io::Read;

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Status};

use super::{
    BaseReader, CutPoint, DriveTrace, Event, EventKind, RequestLog, Trace, TraceError,
    TracedRequest,
};
use crate::frame::{Frame, Level};
use crate::sectors::{Content, SECTOR};
use crate::trace_file::{TraceHeader, TraceReader};

impl Trace {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn load<'a>(from: impl Read, base: &'a mut BaseReader<'a>) -> Result<Self, TraceError> {
        let (mut reader, header) = TraceReader::new(from)?;
        let mut loader = Loader::new(header, base);
        let mut failed = None;
        while failed.is_none() && reader.next(|frame| failed = loader.take(frame).err())? {}
        match failed {
            Some(error) => Err(error),
            None => Ok(loader.finish()),
        }
    }
}

/// The trace from the frames so far.
struct Loader<'a> {
    trace: Trace,
    base: &'a mut BaseReader<'a>,
    // Content of each written sector of the disks, for copies.
    now: HashMap<(u16, bool, u64), Content>,
    line: Vec<u8>,
    outputs: Vec<(usize, Vec<u8>)>,
}

impl<'a> Loader<'a> {
    fn new(header: TraceHeader, base: &'a mut BaseReader<'a>) -> Self {
        let trace = Trace { header, command: (0, Nanos::MAX), ..Trace::default() };
        Self { trace, base, now: HashMap::new(), line: Vec::new(), outputs: Vec::new() }
    }

    fn log(&mut self, drive: u16, level: Level) -> &mut RequestLog {
        let index = usize::from(drive);
        if self.trace.drives.len() <= index {
            self.trace.drives.resize_with(index + 1, DriveTrace::default);
        }
        match level {
            Level::Guest => &mut self.trace.drives[index].guest,
            Level::Drive => self.trace.drives[index].lower.get_or_insert_default(),
        }
    }

    /// The next frame.
    fn take(&mut self, frame: Frame) -> Result<(), TraceError> {
        match frame {
            Frame::Drive { drive, level, capacity, discard_zeroes, power_loss } => {
                let traced = self.trace.header.drives.get(usize::from(drive));
                let zones = traced.map(|traced| traced.device.layout()).unwrap_or_default();
                let log = self.log(drive, level);
                (log.capacity, log.discard_zeroes) = (capacity, discard_zeroes);
                log.zones = zones;
                // Again after a format. A format erases, so that what matters is not torn: the
                // largest of all blocks, and units of whole ones.
                if log.requests.is_empty() || log.power_loss.atomic_unit < power_loss.atomic_unit {
                    log.power_loss = power_loss;
                }
            }
            Frame::Request { drive, level, place, at, command, data } => {
                let wrong = |reason: &str| TraceError::Command { drive, reason: reason.into() };
                if self.log(drive, level).requests.len() as u64 != place {
                    return Err(wrong("a command is missing"));
                }
                let sector = SECTOR as u64;
                if command.offset % sector != 0 || command.length % sector != 0 {
                    return Err(wrong("a command is not of whole sectors"));
                }
                let contents = self.contents(drive, level, &command, data)?;
                let log = self.log(drive, level);
                let start = log.contents.len();
                log.contents.extend_from_slice(&contents);
                let contents = start..log.contents.len();
                log.requests.push(TracedRequest { command, submit: (at, 0), end: None, contents });
                let kind = EventKind::Request(drive, level, place as u32);
                self.trace.events.push(Event { at, kind });
            }
            Frame::Completion { drive, level, place, at, status } => {
                let log = self.log(drive, level);
                let Some(request) = log.requests.get_mut(place as usize) else {
                    let reason = "a command ended that never began".into();
                    return Err(TraceError::Command { drive, reason });
                };
                request.end = Some((at, 0, status == Status::Ok));
                let kind = EventKind::Completion(drive, level, place as u32);
                self.trace.events.push(Event { at, kind });
            }
            Frame::Output { at, bytes } => {
                self.outputs.push((self.trace.events.len(), bytes.to_vec()));
                self.trace.events.push(Event { at, kind: EventKind::Output });
            }
            Frame::Began { at } => self.trace.command.0 = at,
            Frame::Over { at } => self.trace.command.1 = at,
        }
        Ok(())
    }

    /// Content of a command's sectors after it; empty for zeroes.
    fn contents(
        &mut self,
        drive: u16,
        level: Level,
        command: &Command,
        data: &[u8],
    ) -> Result<Vec<Content>, TraceError> {
        let first = command.offset / SECTOR as u64;
        let key = |sector| (drive, level == Level::Drive, sector);
        let all: Vec<Content> = match command.operation {
            Operation::Write => {
                data.chunks(SECTOR).map(|sector| self.trace.contents.find(sector)).collect()
            }
            Operation::Copy => {
                let source = command.source / SECTOR as u64;
                let mut all = Vec::new();
                for sector in source..source + command.length / SECTOR as u64 {
                    all.push(match self.now.get(&key(sector)) {
                        Some(content) => *content,
                        None => {
                            let mut bytes = [0; SECTOR];
                            (self.base)(drive.into(), sector, &mut bytes)
                                .map_err(TraceError::Base)?;
                            self.trace.contents.find(&bytes)
                        }
                    });
                }
                all
            }
            Operation::WriteZeroes | Operation::Discard => {
                let end = first + command.length / SECTOR as u64;
                let zeroes = self.log(drive, level).command_changes(command);
                if zeroes && command.length > self.now.len() as u64 {
                    for (place, content) in &mut self.now {
                        if (place.0, place.1) == (drive, level == Level::Drive)
                            && (first..end).contains(&place.2)
                        {
                            *content = Content::ZERO;
                        }
                    }
                }
                return Ok(Vec::new());
            }
            _ => return Ok(Vec::new()),
        };
        for (index, content) in all.iter().enumerate() {
            self.now.insert(key(first + index as u64), *content);
        }
        Ok(all)
    }

    /// Puts everything in the order of time.
    fn finish(mut self) -> Trace {
        let mut order: Vec<usize> = (0..self.trace.events.len()).collect();
        // Events of the same time stay in the order in which they were seen.
        order.sort_by_key(|&index| self.trace.events[index].at);
        let events: Vec<Event> = order.iter().map(|&index| self.trace.events[index]).collect();
        for (point, event) in events.iter().enumerate() {
            let point = point as CutPoint;
            match event.kind {
                EventKind::Request(drive, level, place) => {
                    self.log(drive, level).requests[place as usize].submit.1 = point;
                }
                EventKind::Completion(drive, level, place) => {
                    if let Some(end) = &mut self.log(drive, level).requests[place as usize].end {
                        end.1 = point;
                    }
                }
                EventKind::Output => {}
            }
        }
        let places: HashMap<usize, CutPoint> =
            order.iter().enumerate().map(|(to, &from)| (from, to as CutPoint)).collect();
        for (index, bytes) in std::mem::take(&mut self.outputs) {
            let point = places[&index] + 1;
            let at = events[places[&index] as usize].at;
            for byte in bytes {
                if byte == b'\n' {
                    self.trace.lines.push((point, at, std::mem::take(&mut self.line)));
                } else {
                    self.line.push(byte);
                }
            }
        }
        self.trace.events = events;
        self.trace
    }
}
