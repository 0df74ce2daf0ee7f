//! The log: segments, the ends at which they are written, and what is in use of each.

use std::collections::VecDeque;

use crate::layout::{Layout, RESERVE};

/// Who writes at an end of the log: pairs of one writer are of one age, and lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// Values of hosts, and pages of the index.
    Host = 0,
    /// Values that are moved.
    Collection = 1,
}

impl Writer {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Host, Self::Collection];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Full,
    /// The segment is being collected.
    Victim,
    /// Some of it could not be copied: it stays until nothing of it is in use.
    Stuck,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    state: State,
    /// Bytes of values that pairs have.
    live: u64,
    /// Reads and writes under way.
    reads: u32,
    writes: u32,
}

#[derive(Debug)]
pub(crate) struct Log {
    layout: Layout,
    segments: Vec<Segment>,
    /// The free segments, the one first that has been free for the longest.
    free: VecDeque<u32>,
    /// The open segment of each writer, and the bytes of it that are written.
    ends: [Option<(u32, u64)>; 2],
    /// Bytes that stay empty, and are to be written all the same: who writes there, the first, and
    /// how many.
    fills: VecDeque<(Writer, u64, u64)>,
}

impl Log {
    pub fn new(layout: Layout) -> Self {
        let empty = Segment { state: State::Free, live: 0, reads: 0, writes: 0 };
        Self {
            layout,
            segments: vec![empty; layout.segments as usize],
            free: (0..layout.segments).collect(),
            ends: [None; 2],
            fills: VecDeque::new(),
        }
    }

    /// Free segments in their order, and the ends of the log.
    pub fn kept(&self) -> (Vec<u32>, [Option<(u32, u64)>; 2]) {
        (self.free.iter().copied().collect(), self.ends)
    }

    /// An empty log takes over free segments and ends; all others are full.
    ///
    /// # Errors
    /// The reason why there can be no such log.
    pub fn restore(
        &mut self,
        free: &[u32],
        ends: [Option<(u32, u64)>; 2],
    ) -> Result<(), &'static str> {
        let Layout { segment, unit, .. } = self.layout;
        let within = |written: u64| written <= segment && written.is_multiple_of(unit);
        if !ends.into_iter().flatten().all(|(_, written)| within(written)) {
            return Err("an end of its log is not within a segment");
        }
        self.segments.iter_mut().for_each(|segment| segment.state = State::Full);
        let open = ends.into_iter().flatten().map(|(segment, _)| (segment, State::Open));
        for (segment, state) in free.iter().map(|&segment| (segment, State::Free)).chain(open) {
            match self.segments.get_mut(segment as usize) {
                Some(entry) if entry.state == State::Full => entry.state = state,
                _ => return Err("a segment is free or open twice, or is not there"),
            }
        }
        (self.free, self.ends) = (free.iter().copied().collect(), ends);
        Ok(())
    }

    /// Counts bytes in use in a restored log.
    ///
    /// # Errors
    /// The bytes do not lie in written parts of a segment.
    pub fn take_over(&mut self, offset: u64, bytes: u64) -> Result<(), &'static str> {
        const WRONG: &str = "a value does not lie in what is written of a segment";
        let (size, unit) = (self.layout.segment, self.layout.unit);
        let (number, at) = (offset / size, offset % size);
        let ends = self.ends.into_iter().flatten();
        let entry = usize::try_from(number).ok().and_then(|number| self.segments.get_mut(number));
        let entry = entry.ok_or(WRONG)?;
        let written = match entry.state {
            State::Free => 0,
            State::Open => ends
                .filter(|(segment, _)| u64::from(*segment) == number)
                .map(|(_, written)| written)
                .sum(),
            _ => size,
        };
        if !at.is_multiple_of(unit) || at + bytes > written {
            return Err(WRONG);
        }
        entry.live += bytes;
        Ok(())
    }

    fn of(&mut self, offset: u64) -> &mut Segment {
        let segment = self.layout.segment_of(offset);
        &mut self.segments[segment as usize]
    }

    /// Free segments.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Bytes that are left at a writer's end of the log.
    fn left(&self, writer: Writer) -> u64 {
        self.ends[writer as usize].map_or(0, |(_, written)| self.layout.segment - written)
    }

    /// Has at least `bytes` bytes at a writer's end of the log, if they are to be had now; returns
    /// how many there are.
    pub fn room(&mut self, writer: Writer, bytes: u64) -> Option<u64> {
        if self.left(writer) >= bytes {
            return Some(self.left(writer));
        }
        // Collection gives back more than it takes, so it may have the last one.
        let leaves = match writer {
            Writer::Host => RESERVE - 1,
            Writer::Collection => 0,
        };
        if self.free.len() <= leaves {
            return None;
        }
        let next = self.free.pop_front()?;
        if let Some((full, written)) = self.ends[writer as usize].replace((next, 0)) {
            self.segments[full as usize].state = State::Full;
            self.leave_empty(writer, full, written, self.layout.segment);
        }
        self.segments[next as usize].state = State::Open;
        Some(self.layout.segment)
    }

    /// Takes `bytes` bytes of the room at a writer's end of the log, to write there: their first.
    pub fn take(&mut self, writer: Writer, bytes: u64) -> Option<u64> {
        self.room(writer, bytes)?;
        let (segment, written) = self.ends[writer as usize].as_mut()?;
        let offset = self.layout.start(*segment) + *written;
        *written += bytes;
        self.segments[*segment as usize].writes += 1;
        Some(offset)
    }

    /// Bytes of a segment, from one on and up to another, stay empty. They are written, so that what
    /// the drive programs and erases as a whole is of one segment.
    fn leave_empty(&mut self, writer: Writer, segment: u32, from: u64, until: u64) {
        if from < until {
            self.segments[segment as usize].writes += 1;
            self.fills.push_back((writer, self.layout.start(segment) + from, until - from));
        }
    }

    /// Fills both ends up to whole pages, where the drive has such.
    pub fn fill_pages(&mut self) {
        let Some(page) = self.layout.page else { return };
        for writer in Writer::ALL {
            let Some((segment, written)) = self.ends[writer as usize] else { continue };
            let end = written.next_multiple_of(page).min(self.layout.segment);
            self.ends[writer as usize] = Some((segment, end));
            self.leave_empty(writer, segment, written, end);
        }
    }

    /// The next bytes that are written empty.
    pub fn next_fill(&mut self) -> Option<(Writer, u64, u64)> {
        self.fills.pop_front()
    }

    /// A read of bytes begins.
    pub fn begin_read(&mut self, offset: u64) {
        self.of(offset).reads += 1;
    }

    /// Ends a read of bytes.
    pub fn end_read(&mut self, offset: u64) {
        let segment = self.of(offset);
        segment.reads = segment.reads.saturating_sub(1);
    }

    /// Ends a write of bytes.
    pub fn end_write(&mut self, offset: u64) {
        let segment = self.of(offset);
        segment.writes = segment.writes.saturating_sub(1);
    }

    /// A pair has `bytes` bytes now.
    pub fn add(&mut self, offset: u64, bytes: u64) {
        self.of(offset).live += bytes;
    }

    /// Removes the bytes of a pair.
    pub fn remove(&mut self, offset: u64, bytes: u64) {
        let segment = self.of(offset);
        segment.live = segment.live.saturating_sub(bytes);
        if segment.state == State::Stuck && segment.live == 0 {
            segment.state = State::Full;
        }
    }

    /// Returns the full segment with the fewest bytes in use, the first of those, if its collection
    /// gives more than it takes.
    pub fn emptiest(&self) -> Option<u32> {
        let most = self.layout.most_collected();
        let full = self.segments.iter().zip(0..).filter(|(entry, _)| entry.state == State::Full);
        // Bytes that are being written are not in use yet.
        let written = full.filter(|(entry, _)| entry.writes == 0 && entry.live < most);
        written.min_by_key(|(entry, _)| entry.live).map(|(_, segment)| segment)
    }

    /// A segment is collected from now on.
    pub fn begin_collection(&mut self, segment: u32) {
        self.segments[segment as usize].state = State::Victim;
    }

    /// Returns whether a segment is being read.
    pub fn is_read(&self, segment: u32) -> bool {
        self.segments[segment as usize].reads > 0
    }

    /// Bytes of a segment that pairs have.
    pub fn live(&self, segment: u32) -> u64 {
        self.segments[segment as usize].live
    }

    /// A segment could not be collected: what is left of it stays.
    pub fn keep(&mut self, segment: u32) {
        self.segments[segment as usize].state = State::Stuck;
    }

    /// A segment is free again.
    pub fn give_back(&mut self, segment: u32) {
        self.segments[segment as usize] =
            Segment { state: State::Free, live: 0, reads: 0, writes: 0 };
        self.free.push_back(segment);
    }
}
