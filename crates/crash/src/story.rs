//! A record in memory: what happened to each drive, in the order of time.

use std::collections::HashMap;
use std::io::{self, Read};

use stasis_block::{Command, Operation, PowerLoss, Status};
use stasis_clock::Nanos;

use crate::file::{FileError, Head, RecordReader};
use crate::frame::{Frame, Level};
use crate::sectors::{Content, Contents, SECTOR};

/// A place in the order of everything that happened: after so many moments.
pub type Position = u32;

/// A command that changes a drive or puts changes in order.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What was asked.
    pub command: Command,
    /// When it was submitted (ns), and the moment.
    pub submit: (Nanos, Position),
    /// When it ended (ns), the moment, and whether well.
    pub end: Option<(Nanos, Position, bool)>,
    // Its contents among those of the trace.
    contents: std::ops::Range<usize>,
}

impl Asked {
    /// Whether it had ended well after `position` moments.
    pub fn well_by(&self, position: Position) -> bool {
        self.end.is_some_and(|(_, moment, well)| well && moment < position)
    }
}

/// What one end of a drive saw.
#[derive(Debug, Default)]
pub struct Trace {
    /// Size of the disk (bytes).
    pub capacity: u64,
    /// Whether discarded ranges read as zeroes.
    pub discard_zeroes: bool,
    /// What a power cut can take from the drive.
    pub power_loss: PowerLoss,
    /// Commands in the order of submission.
    pub asked: Vec<Asked>,
    contents: Vec<Content>,
}

impl Trace {
    /// Whether the command `place` changes the disk.
    pub fn changes(&self, place: usize) -> bool {
        match self.asked[place].command.operation {
            Operation::Write | Operation::WriteZeroes | Operation::Copy => true,
            Operation::Discard => self.discard_zeroes,
            _ => false,
        }
    }

    /// What the command `place` leaves in each sector.
    pub fn sectors(&self, place: usize) -> impl Iterator<Item = (u64, Content)> + '_ {
        let Asked { command, contents, .. } = &self.asked[place];
        let first = command.offset / SECTOR as u64;
        let count = if self.changes(place) { command.length / SECTOR as u64 } else { 0 };
        let written = &self.contents[contents.clone()];
        (0..count).map(move |index| {
            let content = written.get(index as usize).copied().unwrap_or(Content::ZERO);
            (first + index, content)
        })
    }
}

/// What kind of moment it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A command of this place was submitted.
    Submitted(u16, Level, u32),
    /// It ended.
    Ended(u16, Level, u32),
    /// The command in the guest wrote something.
    Output,
}

/// Something that happened at an instant.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// When (ns).
    pub at: Nanos,
    /// What.
    pub what: What,
}

/// A drive, seen from both ends.
#[derive(Debug, Default)]
pub struct DriveStory {
    /// The guest's.
    pub guest: Trace,
    /// The drive's below an image; `None` where it is the same.
    pub lower: Option<Trace>,
}

impl DriveStory {
    /// What the drive with the cache was asked.
    pub fn cached(&self) -> &Trace {
        self.lower.as_ref().unwrap_or(&self.guest)
    }

    /// The end of [`DriveStory::cached`].
    pub fn cached_level(&self) -> Level {
        if self.lower.is_some() {
            Level::Drive
        } else {
            Level::Guest
        }
    }
}

/// Everything that a record has.
#[derive(Debug, Default)]
pub struct Story {
    /// What has to be known beside it.
    pub head: Head,
    /// The drives, in order.
    pub drives: Vec<DriveStory>,
    /// What happened, in order.
    pub moments: Vec<Moment>,
    /// Whole lines of the command's output, with the moment after which each
    /// was there, and its time (ns).
    pub lines: Vec<(Position, Nanos, Vec<u8>)>,
    /// Contents of sectors.
    pub contents: Contents,
    /// When the command in the guest began and ended (ns).
    pub command: (Nanos, Nanos),
}

/// A record that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum StoryError {
    /// Its file.
    #[error("{0}")]
    File(#[from] FileError),
    /// The disk before the run.
    #[error("the disk as it was before the run cannot be read: {0}")]
    Base(io::Error),
    /// A command that does not fit its drive.
    #[error("drive {drive}: {what}")]
    Command {
        /// The drive's number.
        drive: u16,
        /// What is wrong.
        what: String,
    },
}

/// Reads a sector of a drive's disk as it was before the run, as the guest saw
/// it.
pub type BaseReader<'a> = dyn FnMut(usize, u64, &mut [u8]) -> io::Result<()> + 'a;

struct Loader<'a> {
    story: Story,
    base: &'a mut BaseReader<'a>,
    // What is on each disk where something was written, for copies.
    now: HashMap<(u16, bool, u64), Content>,
    line: Vec<u8>,
    outputs: Vec<(usize, Vec<u8>)>,
}

impl Story {
    /// Reads a record to its end.
    ///
    /// # Errors
    /// See [`StoryError`].
    pub fn load<'a>(from: impl Read, base: &'a mut BaseReader<'a>) -> Result<Self, StoryError> {
        let (mut reader, head) = RecordReader::new(from)?;
        let story = Self { head, command: (0, Nanos::MAX), ..Self::default() };
        let (now, line, outputs) = (HashMap::new(), Vec::new(), Vec::new());
        let mut loader = Loader { story, base, now, line, outputs };
        let mut failed = None;
        while failed.is_none() && reader.next(|frame| failed = loader.take(frame).err())? {}
        match failed {
            Some(error) => Err(error),
            None => Ok(loader.finish()),
        }
    }

    /// What a level of a drive saw.
    pub fn trace(&self, drive: u16, level: Level) -> Option<&Trace> {
        let drive = self.drives.get(usize::from(drive))?;
        match level {
            Level::Guest => Some(&drive.guest),
            Level::Drive => drive.lower.as_ref(),
        }
    }
}

impl Loader<'_> {
    fn trace(&mut self, drive: u16, level: Level) -> &mut Trace {
        let index = usize::from(drive);
        if self.story.drives.len() <= index {
            self.story.drives.resize_with(index + 1, DriveStory::default);
        }
        match level {
            Level::Guest => &mut self.story.drives[index].guest,
            Level::Drive => self.story.drives[index].lower.get_or_insert_default(),
        }
    }

    fn take(&mut self, frame: Frame) -> Result<(), StoryError> {
        match frame {
            Frame::Drive { drive, level, capacity, discard_zeroes, power_loss } => {
                let trace = self.trace(drive, level);
                (trace.capacity, trace.discard_zeroes) = (capacity, discard_zeroes);
                trace.power_loss = power_loss;
            }
            Frame::Submitted { drive, level, place, at, command, data } => {
                let wrong = |what: &str| StoryError::Command { drive, what: what.into() };
                if self.trace(drive, level).asked.len() as u64 != place {
                    return Err(wrong("a command is missing"));
                }
                let sector = SECTOR as u64;
                if command.offset % sector != 0 || command.length % sector != 0 {
                    return Err(wrong("a command is not of whole sectors"));
                }
                let contents = self.contents(drive, level, &command, data)?;
                let trace = self.trace(drive, level);
                let start = trace.contents.len();
                trace.contents.extend_from_slice(&contents);
                let contents = start..trace.contents.len();
                trace.asked.push(Asked { command, submit: (at, 0), end: None, contents });
                let what = What::Submitted(drive, level, place as u32);
                self.story.moments.push(Moment { at, what });
            }
            Frame::Ended { drive, level, place, at, status } => {
                let trace = self.trace(drive, level);
                let Some(asked) = trace.asked.get_mut(place as usize) else {
                    let what = "a command ended that never began".into();
                    return Err(StoryError::Command { drive, what });
                };
                asked.end = Some((at, 0, status == Status::Ok));
                let what = What::Ended(drive, level, place as u32);
                self.story.moments.push(Moment { at, what });
            }
            Frame::Output { at, bytes } => {
                self.outputs.push((self.story.moments.len(), bytes.to_vec()));
                self.story.moments.push(Moment { at, what: What::Output });
            }
            Frame::Began { at } => self.story.command.0 = at,
            Frame::Over { at } => self.story.command.1 = at,
        }
        Ok(())
    }

    /// What a command leaves in its sectors; empty for zeroes.
    fn contents(
        &mut self,
        drive: u16,
        level: Level,
        command: &Command,
        data: &[u8],
    ) -> Result<Vec<Content>, StoryError> {
        let first = command.offset / SECTOR as u64;
        let key = |sector| (drive, level == Level::Drive, sector);
        let all: Vec<Content> = match command.operation {
            Operation::Write => {
                data.chunks(SECTOR).map(|sector| self.story.contents.find(sector)).collect()
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
                                .map_err(StoryError::Base)?;
                            self.story.contents.find(&bytes)
                        }
                    });
                }
                all
            }
            Operation::WriteZeroes | Operation::Discard => {
                let end = first + command.length / SECTOR as u64;
                let zeroes = command.operation == Operation::WriteZeroes
                    || self.trace(drive, level).discard_zeroes;
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
    fn finish(mut self) -> Story {
        let mut order: Vec<usize> = (0..self.story.moments.len()).collect();
        // What has one time stays in the order of what was seen.
        order.sort_by_key(|&index| self.story.moments[index].at);
        let moments: Vec<Moment> = order.iter().map(|&index| self.story.moments[index]).collect();
        for (position, moment) in moments.iter().enumerate() {
            let position = position as Position;
            match moment.what {
                What::Submitted(drive, level, place) => {
                    self.trace(drive, level).asked[place as usize].submit.1 = position;
                }
                What::Ended(drive, level, place) => {
                    if let Some(end) = &mut self.trace(drive, level).asked[place as usize].end {
                        end.1 = position;
                    }
                }
                What::Output => {}
            }
        }
        let places: HashMap<usize, Position> =
            order.iter().enumerate().map(|(to, &from)| (from, to as Position)).collect();
        for (index, bytes) in std::mem::take(&mut self.outputs) {
            let position = places[&index] + 1;
            let at = moments[places[&index] as usize].at;
            for byte in bytes {
                if byte == b'\n' {
                    self.story.lines.push((position, at, std::mem::take(&mut self.line)));
                } else {
                    self.line.push(byte);
                }
            }
        }
        self.story.moments = moments;
        self.story
    }
}

impl Story {
    /// How many moments there were until `at` (ns), those at `at` among them.
    pub fn position(&self, at: Nanos) -> Position {
        self.moments.partition_point(|moment| moment.at <= at) as Position
    }

    /// The time after so many moments (ns).
    pub fn time(&self, position: Position) -> Nanos {
        let last = (position as usize).min(self.moments.len());
        last.checked_sub(1).map_or(0, |index| self.moments[index].at)
    }

    /// The positions between which the command in the guest ran.
    pub fn span(&self) -> (Position, Position) {
        let first = self.moments.partition_point(|moment| moment.at < self.command.0) as Position;
        (first, self.position(self.command.1).max(first))
    }
}
