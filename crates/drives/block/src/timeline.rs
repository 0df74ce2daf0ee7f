//! Activity in virtual time: spans on tracks, kept where a caller asks for them.
//!
//! A track is something that does one thing at a time, such as a channel of a flash drive; a
//! span is one thing that it did. A source of spans announces its tracks once ([`Tracks::add`]),
//! and keeps its spans in a [`Spans`] until they are taken.

use std::collections::VecDeque;

use crate::clock::Nanos;
use serde::{Deserialize, Serialize};

/// Spans that one [`Spans`] keeps at most.
const MAX_SPANS: usize = 1 << 16;

/// Kind of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackKind {
    /// A channel of a NAND array: commands and data.
    Channel,
    /// A plane of a NAND array, or a LUN whose planes work as one.
    Nand,
    /// A plane's garbage collection.
    Collection,
    /// A host's scheduler serves one of the tenants of a shared drive.
    Turn,
    /// One request at the drive: from the scheduler's dispatch to the end.
    Request,
    /// A command of the host's at a model: the parts of its time.
    Command,
    /// A virtual processor.
    Vcpu,
    /// A time for which the guest stood still for a drive's medium.
    Freeze,
}

impl TrackKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Channel,
        Self::Nand,
        Self::Collection,
        Self::Turn,
        Self::Request,
        Self::Command,
        Self::Vcpu,
        Self::Freeze,
    ];

    /// Returns the kind's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Nand => "nand",
            Self::Collection => "collection",
            Self::Turn => "turn",
            Self::Request => "request",
            Self::Command => "command",
            Self::Vcpu => "vcpu",
            Self::Freeze => "freeze",
        }
    }
}

/// A part that does one thing at a time. Of [`TrackKind::Request`] and [`TrackKind::Command`], each
/// lane does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    /// Kind of the track.
    pub kind: TrackKind,
    /// The drive or machine that it is part of.
    pub owner: String,
    /// Its name there.
    pub name: String,
    /// Its channel, where it is part of a NAND array.
    #[serde(default)]
    pub channel: Option<u32>,
    /// Its LUN, counted through the array, likewise.
    #[serde(default)]
    pub lun: Option<u32>,
    /// Its plane in the LUN, likewise.
    #[serde(default)]
    pub plane: Option<u32>,
}

impl Track {
    /// A track that is no part of a NAND array.
    pub fn new(kind: TrackKind, owner: &str, name: String) -> Self {
        Self { kind, owner: owner.to_owned(), name, channel: None, lun: None, plane: None }
    }
}

/// The tracks of a run, in the order in which they were announced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracks(Vec<Track>);

impl Tracks {
    /// One more; its number, by which its spans name it.
    pub fn add(&mut self, track: Track) -> u32 {
        self.0.push(track);
        self.0.len() as u32 - 1
    }

    /// Returns all tracks.
    pub fn into_vec(self) -> Vec<Track> {
        self.0
    }
}

/// Activity of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum What {
    /// A page is read.
    Read,
    /// A write of the host's.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
    /// Zeroes are written.
    WriteZeroes,
    /// A range is copied.
    Copy,
    /// A range is verified.
    Verify,
    /// A barrier.
    Barrier,
    /// A page is programmed.
    Program,
    /// A block is erased.
    Erase,
    /// A page is copied within its plane.
    Copyback,
    /// A block is emptied.
    Collection,
    /// The scheduler serves it.
    Turn,
    /// The processor runs.
    Running,
    /// The processor waits for an interrupt.
    Idle,
    /// The guest's time stands still.
    Frozen,
    /// A block in SLC mode is folded: its data goes to blocks that are not.
    Fold,
}

impl What {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
        Self::Copy,
        Self::Verify,
        Self::Barrier,
        Self::Program,
        Self::Erase,
        Self::Copyback,
        Self::Collection,
        Self::Turn,
        Self::Running,
        Self::Idle,
        Self::Frozen,
        Self::Fold,
    ];

    /// Returns the activity's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
            Self::Copy => "copy",
            Self::Verify => "verify",
            Self::Barrier => "barrier",
            Self::Program => "program",
            Self::Erase => "erase",
            Self::Copyback => "copyback",
            Self::Collection => "collection",
            Self::Turn => "turn",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Frozen => "frozen",
            Self::Fold => "fold",
        }
    }
}

impl From<crate::Operation> for What {
    fn from(operation: crate::Operation) -> Self {
        // Commands come first here, in the order of their own numbers.
        Self::ALL[operation as usize]
    }
}

/// Step of a NAND operation, or part of a command's time, that a span covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Step {
    /// The span is no part of one.
    None,
    /// Its command is on the channel.
    Command,
    /// Its command and its data are, towards the plane.
    DataIn,
    /// Its data is, from the plane.
    DataOut,
    /// The cells are at work.
    Cells,
    /// Data moves between the plane's registers.
    Register,
    /// The cells give way to a read.
    Suspend,
    /// The cells resume a suspended operation.
    Resume,
    /// A command crosses the link and the controller.
    Controller,
    /// A command waits for the write buffer.
    Buffer,
    /// A command waits for the write buffer while housekeeping holds up the programs that empty it.
    BufferGc,
    /// A command waits for its turn.
    Queue,
    /// A command waits for its turn while housekeeping has it.
    Gc,
    /// Of a command, its channel is at work.
    Channel,
    /// A disk seeks.
    Positioning,
    /// A disk's bytes pass under the head, or a rated drive's bytes cross.
    Transfer,
    /// The latency that a model gives a command by itself.
    Service,
    /// Another part of a command's time.
    Other,
    /// A command waits for a plane or channel that reads of the host's have.
    BehindReads,
    /// A command waits for a plane or channel that writes of the host's have.
    BehindWrites,
}

impl Step {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 20] = [
        Self::None,
        Self::Command,
        Self::DataIn,
        Self::DataOut,
        Self::Cells,
        Self::Register,
        Self::Suspend,
        Self::Resume,
        Self::Controller,
        Self::Buffer,
        Self::BufferGc,
        Self::Queue,
        Self::Gc,
        Self::Channel,
        Self::Positioning,
        Self::Transfer,
        Self::Service,
        Self::Other,
        Self::BehindReads,
        Self::BehindWrites,
    ];

    /// Returns the step's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Command => "command",
            Self::DataIn => "data-in",
            Self::DataOut => "data-out",
            Self::Cells => "cells",
            Self::Register => "register",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Controller => "controller",
            Self::Buffer => "buffer",
            Self::BufferGc => "buffer-gc",
            Self::Queue => "queue",
            Self::Gc => "gc",
            Self::Channel => "channel",
            Self::Positioning => "positioning",
            Self::Transfer => "transfer",
            Self::Service => "service",
            Self::Other => "other",
            Self::BehindReads => "behind-reads",
            Self::BehindWrites => "behind-writes",
        }
    }
}

/// On whose behalf a drive works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// The span is not a drive's own work.
    None,
    /// A read of the host's.
    HostRead,
    /// A write of the host's.
    HostWrite,
    /// Housekeeping.
    Housekeeping,
}

impl Cause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::None, Self::HostRead, Self::HostWrite, Self::Housekeeping];

    /// Returns the cause's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::HostRead => "host-read",
            Self::HostWrite => "host-write",
            Self::Housekeeping => "housekeeping",
        }
    }
}

/// Purpose of an operation of a NAND array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Purpose {
    /// The purpose is not known, or the span is no such operation.
    #[default]
    None,
    /// The data of the host's commands.
    Command,
    /// A collection, a fold or a merge.
    Collection,
    /// A visit of a block, on a drive that is scrubbed.
    Visit,
    /// The map of a drive that keeps it in flash.
    Map,
    /// Data that the host may read next.
    ReadAhead,
    /// Data that a power cut left in the drive's memory, and pages that it left empty.
    Recovery,
}

impl Purpose {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Command,
        Self::Collection,
        Self::Visit,
        Self::Map,
        Self::ReadAhead,
        Self::Recovery,
    ];

    /// Returns the purpose's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Command => "command",
            Self::Collection => "collection",
            Self::Visit => "visit",
            Self::Map => "map",
            Self::ReadAhead => "read-ahead",
            Self::Recovery => "recovery",
        }
    }
}

/// The command or the collection that a span belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Whom {
    /// Purpose of an operation of a NAND array.
    pub purpose: Purpose,
    /// The number of the first of the commands among the drive's submissions, or of the collection
    /// among the drive's; 0 where there is none.
    pub number: u64,
    /// Number of commands: several where a page gathers the data of several.
    pub commands: u32,
}

impl Whom {
    /// One command.
    pub fn command(number: u64) -> Self {
        Self { purpose: Purpose::Command, number, commands: 1 }
    }

    /// A collection.
    pub fn collection(number: u64) -> Self {
        Self { purpose: Purpose::Collection, number, commands: 0 }
    }

    /// The first of its commands, if it is for any.
    pub fn first_command(&self) -> Option<u64> {
        (self.commands > 0).then_some(self.number)
    }

    /// Returns the collection's number, if the operation is for one.
    pub fn its_collection(&self) -> Option<u64> {
        (self.purpose == Purpose::Collection).then_some(self.number)
    }
}

/// The numbers of what a part passes on, counted behind it and before it.
///
/// Commands that it keeps back or adds make the two differ.
#[derive(Debug, Default)]
pub struct Numbers {
    passed: u64,
    /// From each number behind it on, the number before it; rising.
    jumps: VecDeque<(u64, u64)>,
}

/// Limit on the places at which the two counts of [`Numbers`] part that are remembered.
const MAX_JUMPS: usize = 1 << 16;

impl Numbers {
    /// Creates the numbers after `passed` commands were passed on, with the same numbers on both
    /// sides.
    pub fn after(passed: u64) -> Self {
        Self { passed, jumps: VecDeque::from([(0, 0)]) }
    }

    /// The next that is passed on has the number `own` before it.
    pub fn pass(&mut self, own: u64) {
        if self.before(self.passed) != Some(own) {
            if self.jumps.len() == MAX_JUMPS {
                self.jumps.pop_front();
            }
            self.jumps.push_back((self.passed, own));
        }
        self.passed += 1;
    }

    /// The number before it of the one that has the number `behind` behind it; `None` of one that is
    /// too long ago.
    pub fn before(&self, behind: u64) -> Option<u64> {
        let place = self.jumps.partition_point(|&(from, _)| from <= behind);
        let &(from, own) = self.jumps.get(place.checked_sub(1)?)?;
        Some(own + (behind - from))
    }
}

/// One thing that a track did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The track's number.
    pub track: u32,
    /// Lane of the track, where it has several.
    pub lane: u16,
    /// Activity during the span.
    pub activity: What,
    /// Step of a NAND operation.
    pub step: Step,
    /// On whose behalf.
    pub cause: Cause,
    /// Time at which it began (ns).
    pub begin: Nanos,
    /// Time at which it ended (ns).
    pub end: Nanos,
    /// Of a NAND operation, its number in the order of submission: its spans have the same number.
    /// Of a request, its number among its owner's. Of a freeze, its duration on the wall clock
    /// (ns), where that is reported. Of a command, the number of the NAND operation whose end
    /// completed it, where [`Span::cause`] tells for whom that was.
    pub number: u64,
    /// The block of a NAND operation or a collection.
    pub block: u32,
    /// The page of a NAND operation.
    pub page: u32,
    /// Bytes that cross a channel, or that a request or a command covers.
    pub bytes: u64,
    /// The first byte of a command.
    pub offset: u64,
    /// Of a NAND operation for whom it is; of a command or a request its own number at the drive, and
    /// of a collection its own.
    pub whom: Whom,
}

impl Span {
    /// A span that is no part of a drive's own work.
    pub fn new(track: u32, activity: What, begin: Nanos, end: Nanos) -> Self {
        let (step, cause) = (Step::None, Cause::None);
        let (lane, number, block, page, bytes, offset) = (0, 0, 0, 0, 0, 0);
        let whom = Whom::default();
        Self {
            track,
            lane,
            activity,
            step,
            cause,
            begin,
            end,
            number,
            block,
            page,
            bytes,
            offset,
            whom,
        }
    }
}

/// Spans that wait to be taken: a bounded number, and how many more there were.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    kept: Vec<Span>,
    lost: u64,
}

impl Spans {
    /// Keeps one more, or counts it where too many wait.
    pub fn push(&mut self, span: Span) {
        if self.kept.len() < MAX_SPANS {
            self.kept.push(span);
        } else {
            self.lost += 1;
        }
    }

    /// Keeps all of `spans`, or counts them where there is no room for all; `count`: their number.
    pub fn push_all(&mut self, spans: impl Iterator<Item = Span>, count: usize) {
        if self.kept.len() + count <= MAX_SPANS {
            self.kept.extend(spans);
        } else {
            self.lost += count as u64;
        }
    }

    /// Takes over the spans of another.
    pub fn append(&mut self, other: &mut Self) {
        self.lose(std::mem::take(&mut other.lost));
        other.kept.drain(..).for_each(|span| self.push(span));
    }

    /// Counts spans that are not there.
    pub fn lose(&mut self, count: u64) {
        self.lost += count;
    }

    /// Returns the spans that wait, in the order in which they were kept.
    pub fn kept(&self) -> &[Span] {
        &self.kept
    }

    /// Gives the commands of the spans behind the first `from` their numbers before a part
    /// ([`Numbers::before`]); one without a number there is none's.
    pub fn renumber(&mut self, from: usize, numbers: &Numbers) {
        let whoms = self.kept.iter_mut().skip(from).map(|span| &mut span.whom);
        for whom in whoms.filter(|whom| whom.commands > 0) {
            match numbers.before(whom.number) {
                Some(number) => whom.number = number,
                None => (whom.number, whom.commands) = (0, 0),
            }
        }
    }

    /// Number of spans beyond those that could be kept.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Forgets those that wait, and keeps the room for as many.
    pub fn clear(&mut self) {
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;

    #[test]
    fn each_command_has_its_name() {
        for operation in Operation::ALL {
            assert_eq!(What::from(operation).name(), operation.name());
        }
        assert!(What::ALL
            .iter()
            .enumerate()
            .all(|(number, activity)| *activity as usize == number));
        assert!(Step::ALL.iter().enumerate().all(|(number, step)| *step as usize == number));
        assert!(Cause::ALL.iter().enumerate().all(|(number, cause)| *cause as usize == number));
        assert!(Purpose::ALL.iter().enumerate().all(|(number, one)| *one as usize == number));
    }

    #[test]
    fn numbers_before_a_part_are_found_by_those_behind_it() {
        let (mut numbers, mut spans) = (Numbers::default(), Spans::default());
        assert_eq!(numbers.before(0), None);
        let mut joined = Numbers::after(3);
        [4, 5].into_iter().for_each(|own| joined.pass(own));
        assert_eq!([0, 2, 3, 4].map(|behind| joined.before(behind).unwrap()), [0, 2, 4, 5]);
        // The part keeps back its second and its fifth; the sixth comes twice.
        let passed = [0, 2, 3, 5, 5, 6];
        passed.iter().for_each(|&own| numbers.pass(own));
        let before: Vec<_> = (0..6).map(|behind| numbers.before(behind).unwrap()).collect();
        assert_eq!(before, passed);
        let span_for = |whom| Span { whom, ..Span::new(0, What::Read, 0, 1) };
        [Whom::command(1), Whom::command(1), Whom::collection(1)]
            .into_iter()
            .for_each(|whom| spans.push(span_for(whom)));
        spans.renumber(1, &numbers);
        let found: Vec<_> = spans.kept().iter().map(|span| span.whom.number).collect();
        assert_eq!(found, [1, 2, 1]);
        // Each jump is one too many, and the first is forgotten.
        (0..MAX_JUMPS as u64).for_each(|number| numbers.pass(2 * number + 100));
        assert_eq!((numbers.before(0), numbers.before(6 + 7)), (None, Some(114)));
        spans.renumber(0, &numbers);
        assert_eq!(spans.kept()[0].whom.first_command(), None);
        assert_eq!(spans.kept()[2].whom.its_collection(), Some(1));
    }

    #[test]
    fn spans_are_kept_up_to_a_limit_and_counted_beyond_it() {
        let (mut spans, mut all) = (Spans::default(), Spans::default());
        for begin in 0..MAX_SPANS as u64 + 3 {
            spans.push(Span::new(0, What::Idle, begin, begin + 1));
        }
        all.append(&mut spans);
        assert_eq!((all.kept().len(), all.lost()), (MAX_SPANS, 3));
        assert_eq!((spans.kept().len(), spans.lost()), (0, 0));
        all.clear();
        spans.push(Span::new(1, What::Idle, 0, 1));
        all.append(&mut spans);
        assert_eq!((all.kept()[0].track, all.lost()), (1, 3));
    }
}
