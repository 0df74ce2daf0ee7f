//! Drives that map nothing: zones, and the chunks of Open-Channel drives.
//!
//! Byte ranges of equal size have blocks of their own, whose pages are written
//! in order and once; a Discard of a whole zone erases its blocks, and is
//! complete when they are erased. What waits until its page is full, or until
//! the pages before it are, is in the drive's own memory, which survives power
//! cuts, so it may come in any order (a zone's random write area). Discards of
//! parts do nothing.
//!
//! A zone in which a program fails takes no more writes until it is erased; a
//! zone's block is then replaced by a spare one. What should have been
//! programmed stays in memory.

mod layout;
mod reset;
mod state;
mod write;

use std::collections::BTreeSet;

use stasis_block::clock::Nanos;
use stasis_block::{CacheKind, Health, Operation, PowerLoss, SECTOR};
use stasis_nand::{OpDone, OpKind};

use self::layout::Layout;
use self::state::{Cursor, Stage, Zones, ERASE, KIND, PROGRAM, READ};
use super::{fate_of, Context, Ftl, PageRead, PageRun, PowerCut, Request, RequestId, Shape};
use crate::narrow::{percentage, subject};
use crate::spec::{Spec, SpecError};

/// Builds a zoned drive.
pub(super) fn zoned(spec: &Spec, capacity: u64, seed: u64) -> Result<Box<dyn Ftl>, SpecError> {
    let _ = seed;
    let shape = Shape::new(spec, capacity);
    let zone = spec.zone(capacity);
    let pages = u32::try_from(zone / spec.page_size).unwrap_or(u32::MAX);
    let layout = Layout::new(&shape, pages, shape.planes / spec.zone_groups());
    let count = layout.zones * layout.width;
    let blocks = layout::zone_blocks(spec, &shape, (count, layout.width.max(1)))?;
    Ok(Box::new(Zones::new(spec, shape, layout, blocks, true)))
}

/// Builds an Open-Channel drive.
pub(super) fn ocssd(spec: &Spec, capacity: u64, seed: u64) -> Result<Box<dyn Ftl>, SpecError> {
    let _ = seed;
    let shape = Shape::new(spec, capacity);
    let geometry = shape.geometry;
    let layout = Layout::new(&shape, geometry.pages * geometry.planes, geometry.planes);
    let blocks = layout::chunk_blocks(&shape);
    Ok(Box::new(Zones::new(spec, shape, layout, blocks, false)))
}

impl Zones {
    fn read_units(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        context.reads(request.id, end - first, 0);
        let mut run = PageRun::default();
        for unit in first..end {
            let page = unit / self.shape.slots;
            let Some((zone, block, at)) = self.place(page) else { continue };
            let held = self.in_memory(unit);
            let there = at < self.blocks[block as usize].ended
                && !held
                && !self.zones[zone as usize].resetting
                && !self.lost.contains(&page)
                && self.table.get(page).is_none();
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                let number = self.blocks[block as usize].number;
                let slot = self.shape.slot(number, at) + unit % self.shape.slots;
                let version = if held { self.version(unit) } else { None };
                shadow.read(unit, version, there.then_some(slot));
            }
            if !there {
                context.reads(request.id, 0, u32::from(!held));
                continue;
            }
            let bytes = self.shape.overlap(unit, request.offset, request.length);
            run.add(page, bytes, |read| self.read_page(now, request.id, read, context));
        }
        run.end(|read| self.read_page(now, request.id, read, context));
    }

    fn read_page(&mut self, now: Nanos, id: RequestId, read: PageRead, context: &mut Context) {
        let (_, block, at) = self.layout.place(read.page);
        context.open(id);
        let (operation, token) = ((OpKind::Read, read.bytes), READ | u64::from(id));
        self.submit(now, operation, (block, at), token, |owners| owners.request(id), context);
    }

    /// An operation of a block has ended.
    fn ended(&mut self, now: Nanos, block: u32, context: &mut Context) {
        self.blocks[block as usize].busy -= 1;
        let zone = self.zone_of(block);
        if self.zones[zone as usize].resetting {
            self.erase(now, zone, context);
        }
    }
}

impl Ftl for Zones {
    fn read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.read_units(now, request, context);
    }

    fn write(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.queue(request, context);
        self.pump(now, context);
    }

    fn trim(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        if request.operation == Operation::WriteZeroes {
            context.statistics.host_bytes += request.length;
            self.queue(request, context);
        } else {
            self.discard(now, request, context);
        }
        self.pump(now, context);
    }

    fn flush(&mut self, _now: Nanos, request: &Request, context: &mut Context) {
        if !self.protected {
            context.open(request.id);
            self.flushes.push_back((request.id, self.sequence));
            self.finish_flushes(context);
        }
    }

    fn barrier(&mut self, now: Nanos, context: &mut Context) {
        if !self.protected {
            self.waiting.push_back(Cursor::BARRIER);
            self.pump(now, context);
        }
    }

    fn done(&mut self, now: Nanos, done: &OpDone, context: &mut Context) {
        let whom = subject(done.token);
        let block = self.block_of(&done.op);
        match done.token & KIND {
            READ => {
                let unit = self.layout.page(block, done.op.at.page) * self.shape.slots;
                let begin = || self.shape.begin(unit, context.request(whom).offset);
                let fate = fate_of(done.status, begin);
                context.finish(whom, fate, &done.times);
            }
            PROGRAM => self.programmed(now, whom, block, done, context),
            ERASE => self.erased(block, done),
            _ => self.blocks[block as usize].ended += 1,
        }
        self.ended(now, block, context);
        self.pump(now, context);
    }

    fn power_cut(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context) {
        self.recover(now, cut, context);
    }

    // A page that a cut ends the program of takes with it what was acknowledged
    // of it, and pages in memory follow one another without a bound.
    fn power_loss(&self) -> PowerLoss {
        let protected = PowerLoss::new(CacheKind::Protected, SECTOR);
        if self.protected {
            protected
        } else {
            PowerLoss::default()
        }
    }

    fn health(&self, context: &Context) -> Health {
        let spare = self.spare.iter().map(|plane| plane.len() as u64).sum::<u64>() * 100;
        let used = self.erases * 100 / (u64::from(self.endurance) * u64::from(self.shape.blocks()));
        Health {
            available_spare: percentage(spare.checked_div(self.spares).unwrap_or(100)),
            percentage_used: percentage(used),
            media_bytes_written: context.media_bytes(),
            media_bytes_erased: context.erased_bytes(),
            read_only: self.zones.iter().all(|zone| zone.failed),
        }
    }

    fn report(&self, _context: &Context) -> serde_json::Value {
        serde_json::json!({
            "regions": self.layout.zones,
            "zone_bytes": u64::from(self.layout.pages) * u64::from(self.shape.geometry.page_size),
            "zone_blocks": self.layout.width,
            "failed_zones": self.zones.iter().filter(|zone| zone.failed).count(),
            "retired_blocks": self.retired,
            "erases": self.erases,
            "pages_in_memory": self.pages.len() - self.pages_free.len(),
        })
    }

    fn check(&self) {
        let mut owned = BTreeSet::new();
        for (index, block) in (0..).zip(&self.blocks) {
            assert!(block.ended <= block.next && block.next <= self.shape.geometry.pages);
            assert_eq!(self.owners[block.number as usize], index);
            assert!(owned.insert(block.number), "{block:?} belongs to two");
        }
        for number in self.spare.iter().flatten() {
            assert!(owned.insert(*number), "spare {number} is in use");
        }
        assert!(owned.len() as u64 + self.retired <= u64::from(self.shape.blocks()));
        let flying = self.pages.iter().filter(|page| page.state == Stage::Flying).count();
        assert_eq!(flying, self.flying as usize);
    }
}
