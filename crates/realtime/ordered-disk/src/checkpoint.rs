//! Checkpointing: writing the log's changes to the disk's own file, so that the log's first records
//! are no longer needed.
//!
//! The order makes it sound: records are durable before anything of them is written to the disk's
//! file; that is durable before the superblock that leaves them out is written; and the superblock
//! is durable before their place in the log is used again.

use std::io;

use crate::host::HostFile;
use crate::index::{Extent, Source};
use crate::injected::{has, Bug};
use crate::record::MAX_DATA;
use crate::ring::Ring;
use crate::state::CheckpointPlan;

/// Next stage of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Write extents from this one on.
    Write(usize),
    /// Make the disk's file durable.
    SyncDisk,
    /// Reads may go to the disk's file: [`State::forget`](crate::state::State::forget).
    Forget,
    /// Write the new superblock.
    WriteSuperblock,
    /// Make the log durable.
    SyncLog,
    /// Nothing: [`State::freed`](crate::state::State::freed).
    Done,
}

/// A plan that is carried out, step by step.
#[derive(Debug)]
pub struct Checkpoint {
    plan: CheckpointPlan,
    stage: Stage,
    buffer: Vec<u8>,
}

impl Checkpoint {
    /// Creates the checkpoint of `plan`, of which nothing is done.
    pub fn new(plan: CheckpointPlan) -> Self {
        Self { plan, stage: Stage::Write(0), buffer: Vec::new() }
    }

    /// The plan that is carried out.
    pub fn plan(&self) -> &CheckpointPlan {
        &self.plan
    }

    /// The next stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Does one step: at most about 1 MiB is written.
    ///
    /// # Errors
    /// The host's error. After an error the plan begins again: data that a failed sync has lost is
    /// still in the log.
    pub fn step<L: HostFile, D: HostFile>(&mut self, log: &L, disk: &D) -> io::Result<()> {
        let result = self.try_step(log, disk);
        if result.is_err() {
            self.stage = Stage::Write(0);
        }
        result
    }

    fn try_step<L: HostFile, D: HostFile>(&mut self, log: &L, disk: &D) -> io::Result<()> {
        self.stage = match self.stage {
            Stage::Write(from) if from < self.plan.extents.len() => {
                let ring = Ring { file: log, size: self.plan.superblock.ring };
                Stage::Write(from + self.write(from, &ring, disk)?)
            }
            Stage::Write(_) => Stage::SyncDisk,
            Stage::SyncDisk => {
                if !has(Bug::NoDiskSync) {
                    disk.sync()?;
                }
                Stage::Forget
            }
            Stage::Forget => Stage::WriteSuperblock,
            Stage::WriteSuperblock => {
                log.write(self.plan.superblock.place(), &[&self.plan.superblock.encode()])?;
                Stage::SyncLog
            }
            Stage::SyncLog => {
                if !has(Bug::NoSuperblockSync) {
                    log.sync()?;
                }
                Stage::Done
            }
            Stage::Done => Stage::Done,
        };
        Ok(())
    }

    /// Writes one extent, or several that lie side by side. Returns their number.
    fn write<L: HostFile, D: HostFile>(
        &mut self,
        from: usize,
        ring: &Ring<'_, L>,
        disk: &D,
    ) -> io::Result<usize> {
        let extents = &self.plan.extents[from..];
        let Extent { offset, length, source } = extents[0];
        if let Source::Zeroes(_) = source {
            disk.zero(offset, length)?;
            return Ok(1);
        }
        self.buffer.clear();
        let mut count = 0;
        for extent in extents {
            let begin = self.buffer.len();
            let Source::Log(address) = extent.source else { break };
            let beside = extent.offset == offset + begin as u64;
            if count > 0 && (!beside || begin as u64 + extent.length > MAX_DATA) {
                break;
            }
            self.buffer.resize(begin + extent.length as usize, 0);
            ring.read(address, &mut self.buffer[begin..])?;
            count += 1;
        }
        disk.write(offset, &[&self.buffer])?;
        Ok(count)
    }
}
