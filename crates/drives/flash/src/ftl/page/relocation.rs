//! Moving units: pages of a block that is emptied are read or copied, and what
//! is valid of them is programmed elsewhere in the plane.

use stasis_clock::Nanos;
use stasis_nand::{Op, OpDone, OpKind, OpStatus, PageAddress, Priority};

use super::collect::WINDOW;
use super::{Context, Event, PageFtl, GC_COPY, GC_PROGRAM, GC_READ};
use crate::buffer::NONE;

/// Slots by which the map is read ahead of the units that move: a line of the caches.
const AHEAD: u32 = 16;

impl PageFtl {
    /// Moves as many pages as the window allows; erases once all are moved.
    pub(super) fn go_on(&mut self, now: Nanos, plane: u32, context: &mut Context) {
        let pages = self.shape.geometry.pages;
        while let Some(job) = self.collectors[plane as usize].job {
            if job.abandoned {
                return self.abandon(now, plane, context);
            }
            if job.page == pages || job.reads + job.programs >= WINDOW {
                break;
            }
            if let Some(job) = &mut self.collectors[plane as usize].job {
                job.page += 1;
            }
            if !self.move_page(now, plane, job.victim, job.page, context) {
                return;
            }
        }
        let Some(job) = self.collectors[plane as usize].job else { return };
        if job.page < pages || job.reads > 0 {
            return;
        }
        if !self.write_gathered(now, plane, 1, context) {
            return;
        }
        let Some(job) = self.collectors[plane as usize].job else { return };
        if job.programs == 0 && self.collectors[plane as usize].gathered.is_empty() {
            self.emptied(now, plane, context);
        }
    }

    /// Reads, or copies, the valid units of a page; false if the job was given up.
    fn move_page(
        &mut self,
        now: Nanos,
        plane: u32,
        victim: u32,
        page: u32,
        context: &mut Context,
    ) -> bool {
        let first = self.shape.slot(victim, page);
        let slots = first..first + self.shape.slots;
        self.map.prefetch_slot(slots.end + AHEAD);
        let mut valid = 0;
        for unit in slots.clone().filter_map(|slot| self.map.unit(slot)) {
            valid += 1;
            // It is mapped anew when the page was programmed.
            self.map.prefetch_unit(unit);
        }
        if valid == 0 {
            return true;
        }
        let source = self.shape.address(victim, page);
        if self.copyback && valid == self.shape.slots {
            let page = self.programs.begin();
            slots.for_each(|slot| self.programs.push(page, slot));
            return self.move_to(now, plane, OpKind::Copyback, source, page, context);
        }
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.reads += 1;
        }
        let op = Op {
            kind: OpKind::Read,
            at: source,
            source,
            bytes: valid * self.shape.unit,
            priority: Priority::Gc,
            token: GC_READ | u64::from(plane),
            group: 0,
        };
        context.submit(now, op);
        true
    }

    /// Programs pages of the gathered units, each of at least `least` units; false
    /// if the job was given up.
    fn write_gathered(
        &mut self,
        now: Nanos,
        plane: u32,
        least: usize,
        context: &mut Context,
    ) -> bool {
        let collector = &mut self.collectors[plane as usize];
        // Units that the host wrote or trimmed meanwhile are not moved.
        collector.gathered.retain(|&slot| self.map.unit(slot).is_some());
        while self.collectors[plane as usize].gathered.len() >= least.max(1) {
            let page = self.programs.begin();
            let gathered = &mut self.collectors[plane as usize].gathered;
            let count = gathered.len().min(self.shape.slots as usize);
            gathered.drain(..count).for_each(|slot| self.programs.push(page, slot));
            let nowhere = PageAddress::default();
            if !self.move_to(now, plane, OpKind::Program, nowhere, page, context) {
                return false;
            }
        }
        true
    }

    /// Submits a page of moved units; false if there is no room and the job was
    /// given up.
    fn move_to(
        &mut self,
        now: Nanos,
        plane: u32,
        kind: OpKind,
        source: PageAddress,
        page: u32,
        context: &mut Context,
    ) -> bool {
        if self.collectors[plane as usize].open == NONE {
            self.collectors[plane as usize].open = self.blocks.open(plane).unwrap_or(NONE);
        }
        let block = self.collectors[plane as usize].open;
        if block == NONE {
            self.programs.end(page);
            self.abandon(now, plane, context);
            return false;
        }
        let next = self.next_page(block);
        let at = self.shape.address(block, next);
        if at.page + 1 == self.shape.geometry.pages {
            self.collectors[plane as usize].open = NONE;
        }
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            shadow.moved(at, self.programs.contents(page));
        }
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.programs += 1;
        }
        let copies = kind == OpKind::Copyback;
        let op = Op {
            kind,
            at,
            source: if copies { source } else { at },
            bytes: if copies { 0 } else { self.shape.geometry.page_size },
            priority: Priority::Gc,
            token: if copies { GC_COPY } else { GC_PROGRAM } | u64::from(page),
            group: 0,
        };
        context.submit(now, op);
        true
    }

    pub(super) fn gc_read_done(
        &mut self,
        now: Nanos,
        plane: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.take_in(now, plane, done, context);
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.reads -= 1;
        }
        let least = self.shape.slots as usize;
        if self.is_abandoned(plane) || self.write_gathered(now, plane, least, context) {
            self.go_on(now, plane, context);
        }
    }

    /// Gathers the valid units of a page that was read.
    fn take_in(&mut self, now: Nanos, plane: u32, done: &OpDone, context: &mut Context) {
        let first = self.shape.slot_at(done.op.at);
        for slot in first..first + self.shape.slots {
            let Some(unit) = self.map.unit(slot) else { continue };
            match done.status {
                OpStatus::Uncorrectable => {
                    self.damaged.insert(unit, None);
                    self.map.clear(unit);
                    self.push_event(unit, Event::Lost);
                    self.invalidate(now, slot, context);
                    #[cfg(test)]
                    if let Some(shadow) = &mut context.shadow {
                        shadow.damage(unit, slot);
                    }
                    continue;
                }
                OpStatus::Corrupted { seed } => {
                    self.damaged.insert(unit, Some(seed));
                }
                _ => {}
            }
            self.collectors[plane as usize].gathered.push(slot);
        }
    }

    pub(super) fn gc_program_done(
        &mut self,
        now: Nanos,
        page: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.moved(now, page, done, context);
    }

    pub(super) fn gc_copy_done(
        &mut self,
        now: Nanos,
        page: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        if done.status == OpStatus::Uncorrectable {
            // There was nothing to copy. The page it was to go to stays empty.
            let plane = done.op.at.plane.0;
            let mut read = *done;
            read.op.at = done.op.source;
            self.take_in(now, plane, &read, context);
        }
        self.moved(now, page, done, context);
    }

    /// A page of moved units was programmed, or not.
    fn moved(&mut self, now: Nanos, page: u32, done: &OpDone, context: &mut Context) {
        let plane = done.op.at.plane.0;
        let first = self.shape.slot_at(done.op.at);
        let block = self.shape.block(plane, done.op.at.block);
        let failed = done.status == OpStatus::ProgramFailed;
        let used = self.programs.contents(page).len();
        for index in 0..used {
            let old = self.programs.contents(page)[index];
            // The host wrote it meanwhile, or it was lost.
            let Some(unit) = self.map.unit(old) else { continue };
            if failed {
                self.collectors[plane as usize].gathered.push(old);
                continue;
            }
            if let OpStatus::Corrupted { seed } = done.status {
                self.damaged.insert(unit, Some(seed));
            }
            self.blocks.add_valid(block, 1);
            self.map.set(unit, first + index as u32);
            self.push_event(unit, Event::Moved);
            self.blocks.drop_valid(self.shape.block_of(old));
            context.statistics.moved_units += 1;
        }
        self.programs.end(page);
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.programs -= 1;
        }
        self.page_ended(now, block, failed, context);
        self.go_on(now, plane, context);
    }
}
