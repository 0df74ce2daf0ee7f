//! Counts of a drive's work, for the results.

mod course;
mod inside;
mod temperature;

use stasis_block::clock::Nanos;
use stasis_block::command_log::CommandTimes;
use stasis_block::inside::{Parts, SlowCommand};
use stasis_nand::{Op, OpDone, OpKind, OpStatus, MAX_ECC_STEPS};

pub(crate) use self::course::{Course, Level};
pub(crate) use self::inside::Sizes;
pub(crate) use self::temperature::Temperature;
use crate::ftl::Request;

/// Kinds of operation, as [`OpKind`] counts them.
const KINDS: usize = 4;
/// On whose behalf.
const PRIORITIES: usize = 3;

/// Counts of a drive at work.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    ops: [[u64; PRIORITIES]; KINDS],
    pub(crate) commands: CommandTimes,
    /// Units that the host read.
    pub read_units: u64,
    /// Units of `read_units` that were never written, so that no cell was read.
    pub unwritten_units: u64,
    /// Pages whose program has ended, copybacks included.
    pub pages: u64,
    /// Bytes that the host wrote.
    pub host_bytes: u64,
    /// Units that the host wrote, whole or in part, and the drive took over.
    pub host_units: u64,
    /// Units that were programmed for the host.
    pub programmed_units: u64,
    /// Units of a map in flash that were programmed.
    pub map_units: u64,
    /// Units that housekeeping moved.
    pub moved_units: u64,
    /// Units of `programmed_units` that were programmed in SLC mode.
    pub cached_units: u64,
    /// Units of `moved_units` that were moved out of blocks in SLC mode.
    pub folded_units: u64,
    /// Blocks in SLC mode that were emptied.
    pub folds: u64,
    /// The time (ns) that this took, from the choice of each block on.
    pub folding: Nanos,
    /// Other blocks that were emptied.
    pub collections: u64,
    /// The time (ns) that this took, from the choice of each block on.
    pub collecting: Nanos,
    /// Blocks of `collections` and `folds` that had been read too often.
    pub reclaims: u64,
    /// Blocks of `collections` and `folds` that a visit found old, or with many errors.
    pub refreshes: u64,
    /// Pages that visits read.
    pub scrub_reads: u64,
    /// Empty pages that filled up word lines.
    pub line_padding: u64,
    /// Reads of pages, copybacks included, by the step of the correction that ended them.
    pub decoded: [u64; MAX_ECC_STEPS],
    /// Reads that gave no data.
    pub uncorrectable: u64,
    /// Erases of the block that was erased most often.
    pub most_erased: u32,
}

impl Statistics {
    /// The counts made after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (ops, before) in since.ops.iter_mut().flatten().zip(before.ops.iter().flatten()) {
            *ops -= before;
        }
        since.commands = since.commands.since(&before.commands);
        since.read_units -= before.read_units;
        since.unwritten_units -= before.unwritten_units;
        since.pages -= before.pages;
        since.host_bytes -= before.host_bytes;
        since.host_units -= before.host_units;
        since.programmed_units -= before.programmed_units;
        since.map_units -= before.map_units;
        since.moved_units -= before.moved_units;
        since.cached_units -= before.cached_units;
        since.folded_units -= before.folded_units;
        since.folds -= before.folds;
        since.folding -= before.folding;
        since.collections -= before.collections;
        since.collecting -= before.collecting;
        since.reclaims -= before.reclaims;
        since.refreshes -= before.refreshes;
        since.scrub_reads -= before.scrub_reads;
        since.line_padding -= before.line_padding;
        for (count, before) in since.decoded.iter_mut().zip(before.decoded) {
            *count -= before;
        }
        since.uncorrectable -= before.uncorrectable;
        since
    }

    pub(crate) fn count(&mut self, op: &Op) {
        self.ops[op.kind as usize][op.priority as usize] += 1;
    }

    /// An operation has ended.
    pub(crate) fn ended(&mut self, op: &Op) {
        self.pages += u64::from(matches!(op.kind, OpKind::Program | OpKind::Copyback));
    }

    /// Counts an operation that has ended, where bit errors are corrected in steps.
    pub(crate) fn decoded(&mut self, done: &OpDone) {
        if matches!(done.op.kind, OpKind::Read | OpKind::Copyback) {
            if done.status == OpStatus::Uncorrectable {
                self.uncorrectable += 1;
            } else {
                self.decoded[usize::from(done.retries).min(MAX_ECC_STEPS - 1)] += 1;
            }
        }
    }

    /// A request of the host's is complete at `now`, with its first and its last instant, to which its
    /// data crosses the link; its time went where `parts` has it.
    pub(crate) fn complete(
        &mut self,
        now: Nanos,
        request: &Request,
        (begin, end): (Nanos, Nanos),
        parts: &Parts<Nanos>,
    ) {
        let &Request { operation, offset, length: bytes, .. } = request;
        let describe = || SlowCommand { operation, offset, bytes, begin, end, parts: *parts };
        match end > now {
            true => self.commands.record(now, describe()),
            false => self.commands.record_ended(operation, end - begin, parts, describe),
        }
    }

    /// A block was emptied, which took so long.
    pub(crate) fn collected(&mut self, took: Nanos) {
        self.collections += 1;
        self.collecting += took;
    }

    /// Operations of a kind.
    pub fn ops(&self, kind: OpKind) -> u64 {
        self.ops[kind as usize].iter().sum()
    }
}
