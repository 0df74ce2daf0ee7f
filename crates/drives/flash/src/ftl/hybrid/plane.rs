//! A plane: one write after another, and the erases behind.

use std::collections::VecDeque;
use std::ops::Range;

use stasis_block::clock::Nanos;
use stasis_block::{Fate, Status};
use stasis_nand::{Breakdown, Op, OpDone, OpKind, OpStatus, Priority};

use super::merge::Merge;
use super::{Context, Hybrid, ERASE, OLD_READ, PROGRAM};
use crate::buffer::{IN_FLIGHT, NONE};
use crate::ftl::RequestId;

/// A unit that is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub id: RequestId,
    pub unit: u32,
    // Only a part of it is: the rest is read before.
    pub part: bool,
}

/// A log block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    pub logical: u32,
    pub block: u32,
    // The next page to program.
    pub next: u32,
    // Each page so far is of the unit that lies there in a data block.
    pub in_order: bool,
    // A program failed: it takes no more.
    pub bad: bool,
    // The last write.
    pub used: u64,
}

/// A plane's blocks, and its current work.
#[derive(Debug)]
pub(super) struct Plane {
    pub free: VecDeque<u32>,
    pub logs: Vec<Log>,
    // Blocks to erase, and the one that is being erased.
    pub dirty: VecDeque<u32>,
    pub erasing: Option<u32>,
    pub queue: VecDeque<Write>,
    pub current: Option<Write>,
    // Its number, once it is being programmed.
    pub version: u64,
    // The seed of what is wrong with the part that was read before.
    pub wrong: Option<u64>,
    // The host forgot it while it was programmed.
    pub forgotten: bool,
    pub merge: Option<Merge>,
    // An operation other than the host's reads and an erase is under way.
    pub busy: bool,
}

impl Plane {
    pub fn new(blocks: Range<u32>, logs: u32) -> Self {
        Self {
            free: blocks.collect(),
            logs: Vec::with_capacity(logs as usize),
            dirty: VecDeque::new(),
            erasing: None,
            queue: VecDeque::with_capacity(IN_FLIGHT),
            current: None,
            version: 0,
            wrong: None,
            forgotten: false,
            merge: None,
            busy: false,
        }
    }

    /// The plane's blocks that are neither data blocks nor retired.
    pub fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let merge = self.merge.as_ref().filter(|merge| merge.full && merge.target != NONE);
        let lists = self.free.iter().chain(&self.dirty).copied();
        lists
            .chain(self.logs.iter().map(|log| log.block))
            .chain(self.erasing)
            .chain(merge.map(|merge| merge.target))
    }

    pub fn log(&self, logical: u32) -> Option<usize> {
        self.logs.iter().position(|log| log.logical == logical)
    }

    /// The host no longer needs a unit.
    pub fn forget(&mut self, unit: u32) {
        let programs = self.busy && self.merge.is_none() && self.version > 0;
        self.forgotten |= programs && self.current.is_some_and(|write| write.unit == unit);
    }

    /// The power failed: nothing is under way, erases begin again, and merges are as if they had
    /// not begun.
    pub fn power_cut(&mut self) {
        self.queue.clear();
        (self.current, self.wrong, self.version) = (None, None, 0);
        (self.forgotten, self.busy) = (false, false);
        self.dirty.extend(self.erasing.take());
        let Some(merge) = self.merge.take() else { return };
        if merge.full && merge.target != NONE {
            self.dirty.push_back(merge.target);
        } else if let Some(log) = self.log(merge.logical).filter(|_| !merge.full) {
            // Copies that nothing is mapped to may lie in it.
            self.logs[log].in_order &= !merge.began();
        }
    }

    /// A power cut dropped the program of a page of a block. If it had started, the page holds
    /// nothing; else it is free to be programmed again.
    pub fn page_dropped(&mut self, block: u32, page: u32, started: bool) {
        let Some(log) = self.logs.iter_mut().find(|log| log.block == block) else { return };
        if started {
            log.in_order = false;
        } else {
            log.next = log.next.min(page);
        }
    }

    /// Returns whether blocks will come free without a merge.
    pub fn erases(&self) -> bool {
        self.erasing.is_some() || !self.dirty.is_empty()
    }
}

impl Hybrid {
    /// The fate of a request of which a unit cannot be written.
    fn failed(&self, write: Write, status: Status, context: &Context) -> Fate {
        Fate::Failed { status, at: self.shape.begin(write.unit, context.request(write.id).offset) }
    }

    /// Starts the work that a plane can do.
    pub(super) fn drive(&mut self, now: Nanos, number: u32, context: &mut Context) {
        while !self.planes[number as usize].busy {
            if self.planes[number as usize].merge.is_some() {
                if !self.merge(now, number, context) {
                    return;
                }
                continue;
            }
            let plane = &mut self.planes[number as usize];
            if plane.current.is_none() {
                plane.current = plane.queue.pop_front();
            }
            let Some(write) = plane.current else { return };
            if self.read_only {
                self.end_write(number, self.failed(write, Status::WriteError, context), context);
                continue;
            }
            if write.part && self.read_old(now, number, write, context) {
                continue;
            }
            let (logical, _) = self.mapping.place(write.unit);
            let plane = &mut self.planes[number as usize];
            match plane.log(logical) {
                Some(log) => {
                    let Log { next, bad, .. } = plane.logs[log];
                    if bad || next == self.shape.geometry.pages {
                        self.begin_merge(now, number, log);
                    } else {
                        self.program(now, number, log, write, context);
                    }
                }
                None if plane.logs.len() < self.log_blocks && plane.free.len() >= 2 => {
                    let Some(block) = plane.free.pop_front() else { return };
                    let (next, in_order, bad, used) = (0, true, false, self.sequence);
                    plane.logs.push(Log { logical, block, next, in_order, bad, used });
                }
                None if plane.logs.len() < self.log_blocks && plane.erases() => return,
                None => {
                    let oldest = (0..plane.logs.len()).min_by_key(|&log| plane.logs[log].used);
                    match oldest {
                        Some(log) => self.begin_merge(now, number, log),
                        None => self.read_only = true,
                    }
                }
            }
        }
    }

    /// Reads the part of a unit that a write leaves as it is, if there is any. Returns true if the
    /// plane reads now, or the write has ended.
    fn read_old(&mut self, now: Nanos, number: u32, write: Write, context: &mut Context) -> bool {
        if self.mapping.damage(write.unit) == Some(None) {
            self.end_write(number, self.failed(write, Status::ReadError, context), context);
            return true;
        }
        let Some(slot) = self.mapping.slot(write.unit) else { return false };
        let at = self.shape.page(slot);
        let (kind, bytes, priority) = (OpKind::Read, self.shape.unit, Priority::Write);
        let token = OLD_READ;
        self.planes[number as usize].busy = true;
        let op = Op { kind, at, source: at, bytes, priority, token, group: 0 };
        context.submit_for(now, op, |owners| owners.request(write.id));
        true
    }

    pub(super) fn old_read(&mut self, number: u32, done: &OpDone, context: &mut Context) {
        let plane = &mut self.planes[number as usize];
        plane.busy = false;
        match (done.status, &mut plane.current) {
            (OpStatus::Uncorrectable, Some(write)) => {
                let write = *write;
                self.end_write(number, self.failed(write, Status::ReadError, context), context);
            }
            (status, Some(write)) => {
                // From here on it is a write of the whole.
                write.part = false;
                plane.wrong = self.mapping.damage(write.unit).flatten();
                if let OpStatus::Corrupted { seed } = status {
                    plane.wrong = Some(seed);
                }
            }
            _ => {}
        }
    }

    fn program(
        &mut self,
        now: Nanos,
        number: u32,
        log: usize,
        write: Write,
        context: &mut Context,
    ) {
        self.sequence += 1;
        let plane = &mut self.planes[number as usize];
        let log = &mut plane.logs[log];
        let at = self.shape.address(log.block, log.next);
        log.next += 1;
        log.used = self.sequence;
        (plane.busy, plane.forgotten, plane.version) = (true, false, self.sequence);
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            shadow.program(at, vec![(write.unit, self.sequence)]);
        }
        let (kind, bytes, priority) =
            (OpKind::Program, self.shape.geometry.page_size, Priority::Write);
        let op = Op { kind, at, source: at, bytes, priority, token: PROGRAM, group: 0 };
        context.submit_for(now, op, |owners| owners.request(write.id));
    }

    pub(super) fn programmed(&mut self, number: u32, done: &OpDone, context: &mut Context) {
        let plane = &mut self.planes[number as usize];
        plane.busy = false;
        let version = std::mem::take(&mut plane.version);
        let (forgotten, wrong) = (plane.forgotten, plane.wrong);
        let Some(write) = plane.current else { return };
        let (logical, page) = self.mapping.place(write.unit);
        let plane = &mut self.planes[number as usize];
        let Some(log) = plane.log(logical) else { return };
        let log = &mut plane.logs[log];
        log.in_order &= page == done.op.at.page;
        if done.status == OpStatus::ProgramFailed {
            // The write stays, and the block is merged before the write continues.
            (log.bad, log.in_order) = (true, false);
            return;
        }
        let _ = version;
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            shadow.admit(write.unit, version);
            if forgotten {
                shadow.trim(write.unit);
            }
        }
        if !forgotten {
            self.mapping.write(write.unit, self.shape.slot_at(done.op.at), wrong);
        }
        context.statistics.programmed_units += 1;
        let (block, next, in_order) = (log.block, log.next, log.in_order);
        debug_assert_eq!(block, self.shape.block(number, done.op.at.block));
        context.finish(write.id, Fate::Done, &done.times);
        self.write_ended(number);
        if in_order && next as usize == self.mapping.units_of(logical).len() {
            self.begin_merge(
                done.at,
                number,
                self.planes[number as usize].log(logical).unwrap_or(0),
            );
        }
    }

    fn end_write(&mut self, number: u32, fate: Fate, context: &mut Context) {
        if let Some(write) = self.planes[number as usize].current {
            context.finish(write.id, fate, &Breakdown::default());
            self.write_ended(number);
        }
    }

    fn write_ended(&mut self, number: u32) {
        let plane = &mut self.planes[number as usize];
        (plane.current, plane.wrong, plane.version) = (None, None, 0);
        self.writing -= 1;
    }

    /// Erases the next block that no read needs any more.
    pub(super) fn erase(&mut self, now: Nanos, number: u32, context: &mut Context) {
        let plane = &mut self.planes[number as usize];
        if plane.erasing.is_some() {
            return;
        }
        let quiet = |block: &u32| self.reads[*block as usize] == 0;
        let Some(index) = plane.dirty.iter().position(quiet) else { return };
        plane.erasing = plane.dirty.remove(index);
        let Some(block) = plane.erasing else { return };
        let at = self.shape.address(block, 0);
        let (kind, priority) = (OpKind::Erase, Priority::Gc);
        let op = Op { kind, at, source: at, bytes: 0, priority, token: ERASE, group: 0 };
        context.submit_for(now, op, |owners| owners.erase_left(block));
    }

    pub(super) fn erased(&mut self, number: u32, done: &OpDone) {
        let plane = &mut self.planes[number as usize];
        let Some(block) = plane.erasing.take() else { return };
        self.erases += 1;
        if done.status == OpStatus::Ok {
            plane.free.push_back(block);
        } else {
            self.retired += 1;
        }
    }
}
