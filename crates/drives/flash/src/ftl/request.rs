//! The host's requests: as a translation layer gets one, and while it is under way.

use stasis_block::clock::Nanos;
use stasis_block::inside::Parts;
use stasis_block::{Fate, Operation, Status, Tag};
use stasis_nand::{Breakdown, OpStatus};

/// Names a request while it is under way.
pub type RequestId = u32;

/// A command, or the part of one, that a translation layer is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// The host's operation.
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Which data a write belongs with; 0 for none.
    pub stream: u16,
    /// Durable before it is complete.
    pub fua: bool,
}

/// The fate of a host's read whose operation ended with `status`, and begins at the byte `at` of
/// its request. The translation layer handles failed programs and erases.
#[inline]
pub fn fate_of(status: OpStatus, at: impl FnOnce() -> u64) -> Fate {
    match status {
        OpStatus::Ok | OpStatus::ProgramFailed | OpStatus::EraseFailed => Fate::Done,
        OpStatus::Uncorrectable => Fate::Failed { status: Status::ReadError, at: at() },
        OpStatus::Corrupted { seed } => Fate::Corrupted { seed },
    }
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub tag: Tag,
    pub request: Request,
    // Destination of a copy, once it was read.
    pub copy_to: Option<u64>,
    pub since: Nanos,
    pub pieces: u32,
    pub fate: Fate,
    // Parts of the time of the piece that was last.
    pub times: Breakdown,
    // No command of the host's: the drive reads ahead.
    pub ahead: bool,
    // For which its data left the read cache's memory, or waited for it.
    pub memory: Nanos,
    // Time at which it had crossed the link and the controller.
    pub entered: Nanos,
    // Parts of its waits since, before its last piece began: all of the time until then.
    pub before: Breakdown,
    // Times of the programs that had ended when it reached the translation layer.
    pub drained: Breakdown,
}

impl Open {
    /// A request that the drive gets at `now`.
    pub fn new(tag: Tag, request: Request, copy_to: Option<u64>, now: Nanos) -> Self {
        let none = Breakdown::default();
        let (since, entered, pieces, fate) = (now, now, 1, Fate::Done);
        let (times, before, drained) = (none, none, none);
        let (ahead, memory) = (false, 0);
        Self {
            tag,
            request,
            copy_to,
            since,
            pieces,
            fate,
            times,
            ahead,
            memory,
            entered,
            before,
            drained,
        }
    }

    /// Returns the parts of the time of the request, which the translation layer finishes at `now`,
    /// and whose data crosses the link for `link` after that. `drained`: of the programs that have
    /// ended.
    pub fn parts(&self, now: Nanos, link: Nanos, drained: &Breakdown) -> Parts<Nanos> {
        let own = (now - self.entered).saturating_sub(self.before.total());
        let mut times = self.times.ending(own);
        let rest = own - times.total();
        let (mut buffer, mut buffer_gc, mut other, mut memory) = (0, 0, 0, 0);
        match self.request.operation {
            Operation::Write | Operation::WriteZeroes if times == Breakdown::default() => {
                buffer_gc = (*drained - self.drained).ending(rest).gc;
                buffer = rest - buffer_gc;
            }
            Operation::Write | Operation::WriteZeroes => buffer = rest,
            Operation::Flush => times.behind_writes += rest,
            _ => {
                memory = rest.min(self.memory);
                other = rest - memory;
            }
        }
        times += self.before;
        let Breakdown { queue, behind_reads, behind_writes, cell, register, channel, gc } = times;
        let controller = self.entered - self.since + memory + link;
        Parts {
            controller,
            queue,
            behind_reads,
            behind_writes,
            register,
            cell,
            channel,
            gc,
            buffer,
            buffer_gc,
            other,
            ..Parts::default()
        }
    }
}
