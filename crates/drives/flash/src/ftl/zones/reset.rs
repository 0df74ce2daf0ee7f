//! Zones that are erased, and the state after a power cut.

use std::ops::Range;

use stasis_block::clock::Nanos;
use stasis_block::timeline::Purpose;
use stasis_block::{Fate, Status};
use stasis_nand::{Breakdown, OpDone, OpKind, OpStatus};

use super::state::{Block, Stage, Zones, ERASE, KIND, PAD, PROGRAM};
use super::{Context, PowerCut, Request};
use crate::buffer::NONE;
use crate::ftl::Dropped;
use crate::narrow::{count, subject};
use crate::owners::{Owner, Owners};

impl Zones {
    /// Erases every zone that lies in a range.
    pub(super) fn discard(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        let size = u64::from(self.layout.pages) * u64::from(self.shape.geometry.page_size);
        let first = request.offset.div_ceil(size);
        let end = ((request.offset + request.length) / size).min(self.layout.zones.into());
        for zone in first..end {
            self.reset(now, count(zone), request, context);
        }
    }

    fn reset(&mut self, now: Nanos, zone: u32, request: &Request, context: &mut Context) {
        let first = zone * self.layout.pages;
        for page in first..first + self.layout.pages {
            self.lost.remove(&page);
            let Some(index) = self.table.get(page) else { continue };
            self.table.remove(page);
            if self.pages[index as usize].state == Stage::Flying {
                self.pages[index as usize].state = Stage::Dead;
                self.flying -= 1;
            } else {
                self.give_back(index);
            }
        }
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            let slots = self.shape.slots;
            let units = first * slots..(first + self.layout.pages) * slots;
            units.for_each(|unit| shadow.trim(unit));
        }
        context.open(request.id);
        self.zones[zone as usize].resetting = true;
        self.zones[zone as usize].waiters.push(request.id);
        self.erase(now, zone, context);
    }

    /// Erases a zone's blocks, once nothing of them is under way.
    pub(super) fn erase(&mut self, now: Nanos, zone: u32, context: &mut Context) {
        let width = self.layout.width;
        let blocks = zone * width..(zone + 1) * width;
        if blocks.clone().any(|block| self.blocks[block as usize].busy > 0) {
            return;
        }
        for block in blocks.clone() {
            if self.blocks[block as usize].bad {
                self.replace(block);
            }
        }
        let mut erasing = false;
        for block in blocks.clone() {
            let entry = &self.blocks[block as usize];
            if entry.next > 0 && !entry.bad {
                erasing = true;
                let (operation, token) = ((OpKind::Erase, 0), ERASE | u64::from(block));
                let by = self.zones[zone as usize].waiters.first().copied();
                let owner = |owners: &mut Owners| match by {
                    Some(id) => owners.request(id),
                    None => Owner::of(Purpose::Recovery),
                };
                self.submit(now, operation, (block, 0), token, owner, context);
            }
        }
        if erasing {
            return;
        }
        let failed = blocks.into_iter().any(|block| self.blocks[block as usize].bad);
        let target = &mut self.zones[zone as usize];
        (target.resetting, target.failed) = (false, failed);
        let fate = if failed { Fate::failed(Status::WriteError) } else { Fate::Done };
        for id in target.waiters.drain(..) {
            context.finish(id, fate, &Breakdown::default());
        }
    }

    /// Replaces a bad block by another one, if there is one.
    fn replace(&mut self, block: u32) {
        let old = self.blocks[block as usize].number;
        let plane = self.shape.plane_of(old) as usize;
        let Some(number) = self.spare[plane].pop() else {
            // Nothing can be read or written there any more.
            let entry = &mut self.blocks[block as usize];
            (entry.next, entry.ended) = (self.shape.geometry.pages, 0);
            return;
        };
        self.owners[old as usize] = NONE;
        self.owners[number as usize] = block;
        self.blocks[block as usize] = Block { number, ..Block::default() };
        self.retired += 1;
    }

    pub(super) fn erased(&mut self, block: u32, done: &OpDone) {
        let entry = &mut self.blocks[block as usize];
        (entry.next, entry.ended) = (0, 0);
        if done.status == OpStatus::EraseFailed {
            entry.bad = true;
        } else {
            self.erases += 1;
        }
    }

    /// After a power cut. Pages whose program had begun hold nothing; those whose
    /// had not are programmed after all, if only to keep the order.
    pub(super) fn recover(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context) {
        let (dropped, lost) = (cut.dropped, &mut cut.lost);
        self.waiting.clear();
        self.flushes.clear();
        self.flights.clear();
        self.flying = 0;
        self.blocks.iter_mut().for_each(|block| block.busy = 0);
        self.zones.iter_mut().for_each(|zone| zone.waiters.clear());
        self.pages.iter_mut().for_each(|page| page.waiter = NONE);
        let first = lost.len();
        let mut programs: Vec<&Dropped> =
            dropped.iter().filter(|dropped| dropped.op.kind == OpKind::Program).collect();
        programs.sort_by_key(|dropped| {
            (dropped.op.at.plane.0, dropped.op.at.block, dropped.op.at.page)
        });
        for Dropped { op, started } in programs {
            let (block, index) = (self.block_of(op), subject(op.token));
            let zone = self.zone_of(block);
            let page = (op.token & KIND == PROGRAM).then(|| self.pages[index as usize].clone());
            let alive = page.filter(|page| page.state == Stage::Flying);
            if op.token & KIND == PROGRAM && alive.is_none() {
                self.give_back(index);
            }
            if *started {
                self.blocks[block as usize].ended += 1;
            }
            if self.zones[zone as usize].resetting {
                continue;
            }
            match alive {
                Some(_) if self.protected && *started => {
                    self.pages[index as usize].state = Stage::Stranded;
                    self.zones[zone as usize].failed = true;
                }
                Some(_) if self.protected => self.send(now, block, op.at.page, index, context),
                alive => {
                    if let Some(page) = alive {
                        self.lose(page.page, lost);
                        self.table.remove(page.page);
                        self.give_back(index);
                    }
                    if !*started {
                        self.pad(now, block, op.at.page, context);
                    }
                }
            }
        }
        #[cfg(test)]
        if context.shadow.is_some() {
            for index in 0..count(self.pages.len()) {
                if !matches!(self.pages[index as usize].state, Stage::Unused | Stage::Dead) {
                    for (unit, version) in self.contents(index) {
                        context.shadow.iter_mut().for_each(|shadow| shadow.admit(unit, version));
                    }
                }
            }
        }
        lost[first..].sort_by_key(|range| range.start);
        for zone in 0..self.layout.zones {
            if self.zones[zone as usize].resetting {
                self.erase(now, zone, context);
            }
        }
    }

    fn lose(&mut self, page: u32, lost: &mut Vec<Range<u64>>) {
        self.lost.insert(page);
        let size = u64::from(self.shape.geometry.page_size);
        lost.push(u64::from(page) * size..(u64::from(page) + 1) * size);
    }

    /// Programs a page of padding.
    fn pad(&mut self, now: Nanos, block: u32, at: u32, context: &mut Context) {
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            let number = self.blocks[block as usize].number;
            shadow.program(self.shape.address(number, at), Vec::new());
        }
        let bytes = self.shape.geometry.page_size;
        let operation = (OpKind::Program, bytes);
        let owner = |_: &mut Owners| Owner::of(Purpose::Recovery);
        self.submit(now, operation, (block, at), PAD, owner, context);
    }
}
