//! The state of a unit, which works as one: a plane, or a LUN with planes in lockstep.

use stasis_block::clock::Nanos;

use super::holders::Holders;
use super::slots::{List, NONE};

/// The state of the cells and their data register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitState {
    Idle,
    /// Commands, and without a cache register data, are on their way.
    Command,
    Read,
    /// The data register waits for the cache register.
    ReadDone,
    ReadCopy,
    /// Data leaves from the data register.
    DataOut,
    ProgramCopy,
    CopybackRead,
    Program,
    Erase,
    Suspending,
    /// A program or erase stands still; reads may start.
    Suspended,
    Resuming,
}

/// A plane, or a LUN with planes in lockstep.
#[derive(Debug)]
pub(super) struct Unit {
    /// Waiting operations, by priority.
    pub queues: [List; 3],
    pub state: UnitState,
    /// First of the operations at the data register; so are the next two.
    pub current: u32,
    /// The operation suspended for `current`.
    pub suspended: u32,
    /// The operation that is loading, or loaded, in the cache register.
    pub next: u32,
    /// Number of operations of `current` that are not through with the channel.
    pub pending: u8,
    /// Number of operations of `next` that are not through with the channel.
    pub loading: u8,
    /// Reads that the program or erase gave way to.
    pub given_way: u8,
    /// Operations of the host's in a row that passed one of housekeeping.
    pub passed: u8,
    /// True if it is in the list of those that may start something.
    pub dirty: bool,
    /// The planes whose cache registers are taken.
    pub cache: u16,
    pub held: u32,
    /// The end of the current timed step; MAX without one.
    pub until: Nanos,
    /// Time that the suspended operation still needs (ns).
    pub remaining: Nanos,
    /// Who has or holds it.
    pub holders: Holders,
    pub channel: u32,
    pub lun: u32,
}

impl Unit {
    pub fn new(channel: u32, lun: u32) -> Self {
        Self {
            queues: [List::EMPTY; 3],
            state: UnitState::Idle,
            current: NONE,
            suspended: NONE,
            next: NONE,
            pending: 0,
            loading: 0,
            given_way: 0,
            passed: 0,
            dirty: false,
            cache: 0,
            held: 0,
            until: Nanos::MAX,
            remaining: 0,
            holders: Holders::default(),
            channel,
            lun,
        }
    }
}
