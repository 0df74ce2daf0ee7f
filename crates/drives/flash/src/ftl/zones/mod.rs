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
mod write;

use std::collections::{BTreeSet, VecDeque};

use stasis_block::clock::Nanos;
use stasis_block::{CacheKind, Health, Operation, PowerLoss, SECTOR};
use stasis_nand::{Op, OpDone, OpKind, Priority};

use self::layout::Layout;
use self::write::{Cursor, Page, Stage};
use super::{
    fate_of, Context, Dropped, Ftl, PageRead, PageRun, PowerCut, Request, RequestId, Shape,
};
use crate::buffer::{table::Table, NONE};
use crate::narrow::{count, percentage, subject};
use crate::owners::{Owner, Owners};
use crate::spec::{Spec, SpecError};

const READ: u64 = 1 << 56;
const PROGRAM: u64 = 2 << 56;
const ERASE: u64 = 3 << 56;
const PAD: u64 = 4 << 56;
const KIND: u64 = 0xFF << 56;

/// A block of a zone.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    // Counted through the array.
    number: u32,
    // The next page to program, and pages whose program has ended.
    next: u32,
    ended: u32,
    bad: bool,
    // Operations under way.
    busy: u32,
}

#[derive(Debug, Clone, Default)]
struct Zone {
    // It is erased as soon as nothing of it is under way.
    resetting: bool,
    // It takes no writes.
    failed: bool,
    // Requests that wait until it is erased.
    waiters: Vec<RequestId>,
}

#[derive(Debug)]
struct Zones {
    shape: Shape,
    layout: Layout,
    blocks: Vec<Block>,
    // By block of the array: whose it is.
    owners: Vec<u32>,
    zones: Vec<Zone>,
    // Free blocks, by plane.
    spare: Vec<Vec<u32>>,
    spares: u64,
    retired: u64,
    // Pages in memory, and where they are by their number in the drive.
    pages: Vec<Page>,
    pages_free: Vec<u32>,
    table: Table,
    // Pages that are being programmed, and how many may be; 0 to write through.
    flying: u32,
    room: u32,
    protected: bool,
    waiting: VecDeque<Cursor>,
    flushes: VecDeque<(RequestId, u64)>,
    sequence: u64,
    // Their numbers, and whether they are done.
    flights: VecDeque<(u64, bool)>,
    // Pages whose contents a power cut took.
    lost: BTreeSet<u32>,
    erases: u64,
    endurance: u32,
    #[cfg(test)]
    version: u64,
}

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
    fn new(spec: &Spec, shape: Shape, layout: Layout, numbers: Vec<u32>, spares: bool) -> Self {
        let mut spare = vec![Vec::new(); shape.planes as usize];
        if spares {
            let used: BTreeSet<u32> = numbers.iter().copied().collect();
            for block in (0..shape.blocks()).filter(|block| !used.contains(block)) {
                spare[shape.plane_of(block) as usize].push(block);
            }
        }
        let mut owners = vec![NONE; shape.blocks() as usize];
        (0..).zip(&numbers).for_each(|(index, &number)| owners[number as usize] = index);
        let room = count((spec.buffer / spec.page_size.max(1)).min(u64::from(NONE)));
        Self {
            blocks: numbers.iter().map(|&number| Block { number, ..Block::default() }).collect(),
            owners,
            zones: vec![Zone::default(); layout.zones as usize],
            spares: spare.iter().map(|plane| plane.len() as u64).sum(),
            spare,
            retired: 0,
            pages: Vec::new(),
            pages_free: Vec::new(),
            table: Table::new(),
            flying: 0,
            room: if spec.buffer == 0 { 0 } else { room.max(1) },
            protected: spec.plp && spec.buffer > 0,
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
            sequence: 0,
            flights: VecDeque::new(),
            lost: BTreeSet::new(),
            erases: 0,
            endurance: spec.endurance,
            layout,
            shape,
            #[cfg(test)]
            version: 0,
        }
    }

    /// Returns whether the drive has such a page, and where: its zone, block and page.
    fn place(&self, page: u32) -> Option<(u32, u32, u32)> {
        let place = self.layout.place(page);
        (place.0 < self.layout.zones).then_some(place)
    }

    /// Submits an operation for a page of a block.
    fn submit(
        &mut self,
        now: Nanos,
        (kind, bytes): (OpKind, u32),
        (block, page): (u32, u32),
        token: u64,
        owner: impl FnOnce(&mut Owners) -> Owner,
        context: &mut Context,
    ) {
        self.blocks[block as usize].busy += 1;
        let at = self.shape.address(self.blocks[block as usize].number, page);
        let priority = if kind == OpKind::Read { Priority::Read } else { Priority::Write };
        let op = Op { kind, at, source: at, bytes, priority, token, group: 0 };
        context.submit_for(now, op, owner);
    }

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

    /// The block of a zone that an operation was for.
    fn block_of(&self, op: &Op) -> u32 {
        self.owners[self.shape.block(op.at.plane.0, op.at.block) as usize]
    }

    fn zone_of(&self, block: u32) -> u32 {
        block / self.layout.width
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
