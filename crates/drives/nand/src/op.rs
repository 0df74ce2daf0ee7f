//! Operations of an array, and how they end.

use std::ops::{AddAssign, Sub};

use stasis_block::clock::Nanos;

use crate::{PageAddress, PlaneId};

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A page's data, from the cells over the channel.
    Read,
    /// A page's data, over the channel into the cells.
    Program,
    /// A block is emptied.
    Erase,
    /// A page is read and programmed to another page of its plane; no data on
    /// the channel.
    Copyback,
}

/// On whose behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// The host's reads: the only ones that suspend a program or an erase.
    Read = 0,
    /// The host's writes.
    Write = 1,
    /// Housekeeping: the only ones that start while their place is held.
    Gc = 2,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// The kind.
    pub kind: OpKind,
    /// The page; of an erase, the block.
    pub at: PageAddress,
    /// The page that a copyback reads, in the same plane; else ignored.
    pub source: PageAddress,
    /// Over the channel, of a read or program.
    pub bytes: u32,
    /// On whose behalf.
    pub priority: Priority,
    /// The caller's name for it.
    pub token: u64,
    /// Where a LUN's planes work in lockstep: operations of one LUN, kind and
    /// priority with the same number, not 0, that are submitted one after another
    /// at the same time run as one multi-plane operation.
    pub group: u32,
}

/// End of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpStatus {
    /// As asked.
    Ok,
    /// There is no data: nothing was programmed by a copyback.
    Uncorrectable,
    /// The page does not hold the programmed data.
    ProgramFailed,
    /// The block is not empty.
    EraseFailed,
    /// The data is wrong, and the array reports no error.
    Corrupted {
        /// Determines the errors in the data.
        seed: u64,
    },
}

/// Parts of an operation's time (ns): they add up to the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Waiting for anything else than the parts below, such as another operation's end.
    pub queue: Nanos,
    /// Waiting while reads of the host's had the plane or the channel, or suspended for them.
    pub behind_reads: Nanos,
    /// Waiting while writes of the host's had the plane or the channel, and housekeeping had not.
    pub behind_writes: Nanos,
    /// The cells at work.
    pub cell: Nanos,
    /// Waiting for the cache register, and copying to or from it.
    pub register: Nanos,
    /// On the channel: its command and its data.
    pub channel: Nanos,
    /// Waiting while housekeeping had the plane or the channel, or held it.
    pub gc: Nanos,
}

impl Breakdown {
    /// The operation's whole time (ns).
    pub fn total(&self) -> Nanos {
        self.queue
            + self.behind_reads
            + self.behind_writes
            + self.cell
            + self.register
            + self.channel
            + self.gc
    }

    /// Returns the parts of the last `last` ns: an operation waits first, and works at its end.
    #[must_use]
    pub fn ending(&self, last: Nanos) -> Self {
        let mut remaining = last;
        let mut take = |part: Nanos| {
            let taken = part.min(remaining);
            remaining -= taken;
            taken
        };
        let [cell, channel, register] = [self.cell, self.channel, self.register].map(&mut take);
        let waits = [self.gc, self.behind_writes, self.behind_reads, self.queue];
        let [gc, behind_writes, behind_reads, queue] = waits.map(take);
        Self { queue, behind_reads, behind_writes, cell, register, channel, gc }
    }
}

impl AddAssign for Breakdown {
    fn add_assign(&mut self, other: Self) {
        self.queue += other.queue;
        self.behind_reads += other.behind_reads;
        self.behind_writes += other.behind_writes;
        self.cell += other.cell;
        self.register += other.register;
        self.channel += other.channel;
        self.gc += other.gc;
    }
}

impl Sub for Breakdown {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            queue: self.queue - other.queue,
            behind_reads: self.behind_reads - other.behind_reads,
            behind_writes: self.behind_writes - other.behind_writes,
            cell: self.cell - other.cell,
            register: self.register - other.register,
            channel: self.channel - other.channel,
            gc: self.gc - other.gc,
        }
    }
}

/// An operation that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpDone {
    /// Its number in the order of submission.
    pub number: u64,
    /// The caller's name for it.
    pub token: u64,
    /// The operation.
    pub op: Op,
    /// Time at which it ended (ns).
    pub at: Nanos,
    /// How.
    pub status: OpStatus,
    /// Parts of its time.
    pub times: Breakdown,
    /// Number of times that its read was repeated, or, where bit errors are corrected in steps
    /// ([`crate::Ecc`]), the place of the step that ended it.
    pub retries: u8,
}

/// The scope of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The whole array.
    Controller,
    /// Every plane of a channel.
    Channel(u32),
    /// A plane; with planes in lockstep, its LUN.
    Plane(PlaneId),
}
