//! A run that repeats one, so that its debugger goes back in time: where the run stood, and where it
//! is to stop.
//!
//! A run is a function of its experiment, and a stop changes nothing in it. So *back* is forward
//! again from the beginning, or from a snapshot: one run finds the last stop before the present one,
//! where that is not known, and one more goes there. Where there is none after a snapshot, the next
//! run looks before it.

use gdbstub::target::ext::breakpoints::WatchKind;
use serde::{Deserialize, Serialize};
use stasis_bare::svm::WATCHES;

use super::written::Written;

/// The part of a turn in which the run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Part {
    /// Before the turn.
    Before,
    /// Before the entry of the turn's processor.
    Entry,
    /// Within the turn's slice, or within its idle time.
    Within,
    /// The run has ended.
    End,
}

/// A place in a run, between two instructions of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Position {
    /// The turn, counted since the commands have begun.
    pub turn: u64,
    /// Part of the turn.
    pub part: Part,
    /// The time (ticks).
    pub tick: u64,
    /// The place of the processor.
    pub place: usize,
    /// The instruction at which the processor stands: an exception is delivered in no time. None
    /// where the first of this time is meant.
    pub rip: Option<u64>,
}

impl Position {
    /// Beginning of the commands.
    pub const BEGIN: Self = Self { turn: 1, part: Part::Before, tick: 0, place: 0, rip: None };

    /// Just before the turn that follows `turn`, at the processor at `place`.
    pub fn after(turn: u64, place: usize) -> Self {
        Self { turn: turn + 1, place, ..Self::BEGIN }
    }

    /// A run that comes to the place has begun before this turn.
    pub fn first_turn(&self) -> u64 {
        match self.part {
            Part::Before => self.turn.saturating_sub(1),
            Part::Entry | Part::Within | Part::End => self.turn,
        }
    }
}

/// The stop that a run is to find before it comes to where another stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Back {
    /// The last breakpoint or watchpoint.
    Continue,
    /// The last instruction of the processor at this place.
    Step(usize),
    /// The call by which a program has written a line.
    Written,
}

/// Why a run stops where it was to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Why {
    /// There is nothing before.
    Begin,
    /// A breakpoint.
    Breakpoint,
    /// The instruction that is gone back by.
    Step,
    /// This watchpoint is about to come.
    Watch(usize),
    /// It is the moment of the run.
    Moment,
}

/// The purpose of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Goal {
    /// To find what is looked for, up to where a run stood.
    Find(Back, Position),
    /// To stop there.
    Go(Position, Why),
}

impl Goal {
    /// Returns the position to which the run is to come.
    pub fn end(&self) -> Position {
        match self {
            Self::Find(_, present) => *present,
            Self::Go(there, _) => *there,
        }
    }
}

/// A process of a guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Process {
    /// The address of its top page table, which is another's once the process has ended.
    pub table: u64,
    /// Its number in the guest, where that is known.
    pub group: Option<u32>,
}

/// A breakpoint: its linear address, and the process whose it is; None: any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Breakpoint {
    pub linear: u64,
    pub process: Option<Process>,
}

/// A watchpoint: its linear address, whether it is for stores, for loads or for both, its bytes, and the
/// process whose it is; None: any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Watchpoint {
    pub linear: u64,
    pub kind: WatchedBy,
    pub length: u8,
    pub process: Option<Process>,
}

/// Watchpoints in the slots of a processor's.
pub(in super::super) type Watchpoints = [Option<Watchpoint>; WATCHES];

/// The accesses that a watchpoint is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum WatchedBy {
    Write,
    Read,
    Access,
}

impl From<WatchKind> for WatchedBy {
    fn from(kind: WatchKind) -> Self {
        match kind {
            WatchKind::Write => Self::Write,
            WatchKind::Read => Self::Read,
            WatchKind::ReadWrite => Self::Access,
        }
    }
}

impl From<WatchedBy> for WatchKind {
    fn from(kind: WatchedBy) -> Self {
        match kind {
            WatchedBy::Write => Self::Write,
            WatchedBy::Read => Self::Read,
            WatchedBy::Access => Self::ReadWrite,
        }
    }
}

/// The plan of a run that repeats one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Plan {
    pub goal: Goal,
    pub breakpoints: Vec<Breakpoint>,
    pub watchpoints: Watchpoints,
    /// gdb's packets by which both ends have agreed on the protocol.
    pub hello: Vec<u8>,
    /// Bytes of gdb's that have not been looked at.
    pub incoming: Vec<u8>,
    /// The line whose program is looked for; the breakpoints are not gdb's then.
    #[serde(default)]
    pub written: Option<Written>,
    /// Place of a stop where its program, or its instruction, is not found; the breakpoints are not gdb's.
    #[serde(default)]
    pub otherwise: Option<Position>,
}

impl Plan {
    /// The plan of a gdb that has not connected, or not to this run.
    pub fn new(goal: Goal, (breakpoints, watchpoints): (Vec<Breakpoint>, Watchpoints)) -> Self {
        let (hello, incoming) = (Vec::new(), Vec::new());
        Self { goal, breakpoints, watchpoints, hello, incoming, written: None, otherwise: None }
    }
}
