//! Merges: a logical block's data and log block become one block.
//!
//! The mapping changes as a whole once the last page is programmed: a merge that
//! a failed program or a power cut puts an end to has changed nothing.

use stasis_block::clock::Nanos;
use stasis_nand::{Op, OpDone, OpKind, OpStatus, Priority};

use super::{Context, Hybrid, MERGE_PROGRAM, MERGE_READ, PAD};
use crate::buffer::NONE;

/// Numbers of merges.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Merges {
    pub switch: u64,
    pub partial: u64,
    pub full: u64,
    pub padded: u64,
}

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merge {
    pub logical: u32,
    // Into a fresh block, or into the log block.
    pub full: bool,
    // NONE as long as there is no fresh one.
    pub target: u32,
    // The next page.
    next: u32,
    first: u32,
    since: Nanos,
    copied: bool,
    // Units whose copies are wrong, and how.
    wrong: Vec<(u32, u64)>,
}

impl Merge {
    /// Returns whether a page was taken.
    pub fn began(&self) -> bool {
        self.next != self.first
    }
}

impl Hybrid {
    /// Begins to merge the logical block of a log block.
    pub(super) fn begin_merge(&mut self, now: Nanos, number: u32, log: usize) {
        let plane = &mut self.planes[number as usize];
        let log = plane.logs[log];
        let (target, next) = if log.in_order { (log.block, log.next) } else { (NONE, 0) };
        plane.merge = Some(Merge {
            logical: log.logical,
            full: !log.in_order,
            target,
            next,
            first: next,
            since: now,
            copied: false,
            wrong: Vec::new(),
        });
    }

    /// The next step of a plane's merge; `false` if it waits for a block.
    pub(super) fn merge(&mut self, now: Nanos, number: u32, context: &mut Context) -> bool {
        let Some(mut merge) = self.planes[number as usize].merge.take() else { return true };
        if merge.next >= self.mapping.end_of(merge.logical) {
            self.end_merge(now, number, merge, context);
            return true;
        }
        let plane = &mut self.planes[number as usize];
        if merge.target == NONE {
            let Some(block) = plane.free.pop_front() else {
                let waits = plane.erases();
                if waits {
                    plane.merge = Some(merge);
                } else {
                    // The logical block stays as it is.
                    self.read_only = true;
                }
                return !waits;
            };
            merge.target = block;
        }
        plane.busy = true;
        let unit = self.mapping.units_of(merge.logical).start + merge.next;
        let page = self.shape.address(merge.target, merge.next);
        let Some(slot) = self.mapping.slot(unit) else {
            plane.merge = Some(merge);
            self.advance_target(number);
            self.merges.padded += 1;
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.program(page, Vec::new());
            }
            return self.send(now, OpKind::Program, page, page, PAD, context);
        };
        merge.copied = true;
        plane.merge = Some(merge);
        let from = self.shape.page(slot);
        if !self.copyback {
            return self.send(now, OpKind::Read, from, from, MERGE_READ, context);
        }
        self.advance_target(number);
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            shadow.moved(page, &[slot]);
        }
        self.send(now, OpKind::Copyback, page, from, MERGE_PROGRAM, context)
    }

    fn send(
        &mut self,
        now: Nanos,
        kind: OpKind,
        at: stasis_nand::PageAddress,
        source: stasis_nand::PageAddress,
        token: u64,
        context: &mut Context,
    ) -> bool {
        let bytes = if kind == OpKind::Copyback { 0 } else { self.shape.geometry.page_size };
        let priority = Priority::Gc;
        let op = Op { kind, at, source, bytes, priority, token, group: 0 };
        context.submit_for(now, op, |owners| owners.collection(at.plane.0));
        true
    }

    /// A page of the block that is merged into is taken.
    fn advance_target(&mut self, number: u32) {
        let plane = &mut self.planes[number as usize];
        let Some(merge) = &mut plane.merge else { return };
        merge.next += 1;
        if !merge.full {
            let next = merge.next;
            let logical = merge.logical;
            if let Some(log) = plane.log(logical) {
                plane.logs[log].next = next;
            }
        }
    }

    /// Records the damage of a page that was read to be copied.
    pub(super) fn take_damage(&mut self, number: u32, done: &OpDone, context: &mut Context) {
        let from = if done.op.kind == OpKind::Copyback { done.op.source } else { done.op.at };
        let slot = self.shape.slot_at(from);
        let Some(merge) = &mut self.planes[number as usize].merge else { return };
        // A copyback's page is taken already.
        let back = u32::from(done.op.kind == OpKind::Copyback);
        let unit = merge.logical * self.shape.geometry.pages + merge.next - back;
        match done.status {
            OpStatus::Corrupted { seed } => merge.wrong.push((unit, seed)),
            OpStatus::Uncorrectable if self.mapping.slot(unit) == Some(slot) => {
                self.mapping.lose(unit);
                #[cfg(test)]
                if let Some(shadow) = &mut context.shadow {
                    shadow.damage(unit, slot);
                }
                let _ = context;
            }
            _ => {}
        }
    }

    /// Programs the page that was read.
    pub(super) fn merge_read(
        &mut self,
        now: Nanos,
        number: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.take_damage(number, done, context);
        if done.status == OpStatus::Uncorrectable {
            // There is nothing to program; the page is padded if others follow.
            self.planes[number as usize].busy = false;
            return;
        }
        let Some(merge) = &self.planes[number as usize].merge else { return };
        let page = self.shape.address(merge.target, merge.next);
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            shadow.moved(page, &[self.shape.slot_at(done.op.at)]);
        }
        self.advance_target(number);
        self.send(now, OpKind::Program, page, page, MERGE_PROGRAM, context);
    }

    /// A program of a merge has ended.
    pub(super) fn merge_programmed(&mut self, number: u32, failed: bool, context: &mut Context) {
        let plane = &mut self.planes[number as usize];
        plane.busy = false;
        if !failed {
            context.statistics.moved_units += 1;
            return;
        }
        // All over again, into another block.
        let Some(merge) = &mut plane.merge else { return };
        let logical = merge.logical;
        if merge.full {
            self.retired += 1;
        }
        (merge.full, merge.target, merge.next) = (true, NONE, 0);
        merge.wrong.clear();
        if let Some(log) = plane.log(logical).map(|log| &mut plane.logs[log]) {
            let partial = log.in_order;
            log.bad |= partial;
            log.in_order = false;
        }
    }

    fn end_merge(&mut self, now: Nanos, number: u32, merge: Merge, context: &mut Context) {
        let Merge { logical, full, target, .. } = merge;
        let target = (target != NONE).then_some(target);
        let old = self.mapping.merge(logical, target, merge.wrong);
        let plane = &mut self.planes[number as usize];
        if let Some(log) = plane.log(logical) {
            let log = plane.logs.swap_remove(log);
            if full && log.bad {
                self.retired += 1;
            } else if full {
                plane.dirty.push_back(log.block);
                context.note(|owners| owners.leave(number, log.block));
            }
        }
        if let Some(old) = old {
            context.note(|owners| owners.leave(number, old));
        }
        plane.dirty.extend(old);
        match (full, merge.copied) {
            (true, _) => self.merges.full += 1,
            (false, true) => self.merges.partial += 1,
            (false, false) => self.merges.switch += 1,
        }
        let block = target.map_or(0, |target| self.shape.address(target, 0).block);
        context.collected(number, block, (merge.since, now));
        self.erase(now, number, context);
    }
}
