//! DFTL: page mapping whose map lies in flash, and of which a part is in memory
//! (Gupta, Kim and Urgaonkar, ASPLOS 2009).
//!
//! The map is an array of 4-byte entries in units behind the host's, which page
//! mapping places, buffers and collects as any other, in blocks of their own;
//! where *these* lie (the global translation directory) is in memory. The cache
//! holds lines of entries. A request waits until each of its entries is there,
//! which costs a read of the unit that holds it. A line that was changed and has
//! to leave is written back: its unit is read, every change of the unit is put
//! in (those of other lines, too), and it is programmed, while the host continues.
//! Entries of units that collection moves change in the cache, or else many at a
//! time in flash.
//!
//! A power cut loses the cache. Where units lie is then found as page mapping
//! does, from the metadata beside them in their pages, and the units of the map that
//! are out of date are written back.

mod cache;
mod lookups;
mod updates;

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::{Health, PowerLoss};
use stasis_nand::OpDone;

use self::cache::Cache;
use self::lookups::{Lookup, Waiter};
use self::updates::Updates;
use super::page::{Above, PageFtl};
use super::{Context, Ftl, Occupancy, PowerCut, Request, Shape, SlcState};
use crate::buffer::NONE;
use crate::narrow::{count, subject};
use crate::spec::geometry::{map_units, MAP_ENTRY};
use crate::spec::{GcSpec, Precondition, Spec, SpecError};

/// Kinds of operation in a token, beside those of page mapping.
const FETCH: u64 = 0x10 << 56;
const UPDATE: u64 = 0x11 << 56;
const KIND: u64 = 0xFF << 56;

/// Counts of the map's cache.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    reads: u64,
    written_back: u64,
    rebuilt: u64,
}

#[derive(Debug)]
struct Dftl {
    page: PageFtl,
    shape: Shape,
    // Entries of a line, and of a unit of the map.
    line: u32,
    entries: u32,
    cache: Cache,
    lookups: Vec<Lookup>,
    lookups_free: Vec<u32>,
    // Writes in the order in which they came; `NONE` for a barrier.
    writes: VecDeque<u32>,
    waiters: Vec<Waiter>,
    waiters_free: Vec<u32>,
    // By unit of the map: who waits for it.
    fetches: Vec<u32>,
    // Units of the map that are read once write-backs have made room.
    delayed: VecDeque<u32>,
    updates: Updates,
    counts: Counts,
    // By unit: its entry as it was last written back.
    #[cfg(test)]
    stored: Vec<Option<u32>>,
}

/// Builds it from a checked description.
pub(super) fn build(spec: &Spec, capacity: u64, seed: u64) -> Result<Box<dyn Ftl>, SpecError> {
    let shape = Shape::new(spec, capacity);
    let units = count(map_units(u64::from(shape.units), u64::from(shape.unit)));
    let entries = shape.unit / count(MAP_ENTRY);
    let line = spec.mapping_line.min(entries);
    let lines = spec.mapping_cache / (u64::from(line) * MAP_ENTRY);
    let all = shape.units.div_ceil(line);
    Ok(Box::new(Dftl {
        page: PageFtl::new(spec, capacity, seed, Above::Map { units })?,
        shape,
        line,
        entries,
        cache: Cache::new(count(lines.min(u64::from(all)))),
        lookups: Vec::new(),
        lookups_free: Vec::new(),
        writes: VecDeque::new(),
        waiters: Vec::new(),
        waiters_free: Vec::new(),
        fetches: vec![NONE; units as usize],
        delayed: VecDeque::new(),
        updates: Updates::new(units, shape.block_slots),
        counts: Counts::default(),
        #[cfg(test)]
        stored: vec![None; shape.units as usize],
    }))
}

impl Dftl {
    /// The unit of the map that holds a line.
    fn home(&self, line: u32) -> u32 {
        line / (self.entries / self.line)
    }

    /// A unit of the map, as page mapping numbers it.
    fn unit(&self, home: u32) -> u32 {
        self.shape.units + home
    }

    fn is_idle(&self) -> bool {
        self.lookups.len() == self.lookups_free.len()
    }
}

impl Ftl for Dftl {
    fn entry(&self, offset: u64, context: &Context) -> Option<String> {
        self.page.entry(offset, context)
    }

    fn waiting(&self) -> Option<String> {
        self.page.waiting()
    }

    fn reseed(&mut self, seed: u64) {
        self.page.reseed(seed);
    }

    fn set_policy(&mut self, gc: &GcSpec) -> bool {
        self.page.set_policy(gc)
    }

    fn expect(&self, request: &Request) {
        self.page.expect(request);
    }

    fn read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.look_up(now, request, false, context);
        self.settle(now, context);
    }

    fn write(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.look_up(now, request, true, context);
        self.settle(now, context);
    }

    fn trim(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.page.trim(now, request, context);
        self.settle(now, context);
    }

    fn flush(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.page.flush(now, request, context);
        self.settle(now, context);
    }

    fn barrier(&mut self, now: Nanos, context: &mut Context) {
        if self.writes.is_empty() {
            self.page.barrier(now, context);
        } else {
            self.writes.push_back(NONE);
        }
        self.settle(now, context);
    }

    fn done(&mut self, now: Nanos, done: &OpDone, context: &mut Context) {
        let home = subject(done.token);
        match done.token & KIND {
            FETCH => self.fetched(now, home, done, context),
            UPDATE => self.update_read(now, home, done, context),
            _ => self.page.done(now, done, context),
        }
        self.settle(now, context);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.page.next_event()
    }

    fn wake(&mut self, now: Nanos, context: &mut Context) {
        self.page.wake(now, context);
        self.settle(now, context);
    }

    fn next_visit(&self) -> Option<Nanos> {
        self.page.next_visit()
    }

    fn visit(&mut self, now: Nanos, context: &mut Context) {
        self.page.visit(now, context);
        self.settle(now, context);
    }

    fn host_active(&mut self, now: Nanos, active: bool, context: &mut Context) {
        self.page.host_active(now, active, context);
    }

    fn power_cut(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context) {
        self.forget_lookups();
        self.forget_cache();
        self.page.power_cut(now, cut, context);
        self.settle(now, context);
    }

    fn power_loss(&self) -> PowerLoss {
        self.page.power_loss()
    }

    fn precondition(&mut self, state: Precondition, context: &mut Context) {
        self.page.precondition(state, context);
        #[cfg(test)]
        for unit in 0..self.shape.units {
            self.stored[unit as usize] = self.page.slot(unit);
        }
    }

    fn health(&self, context: &Context) -> Health {
        self.page.health(context)
    }

    fn free_blocks(&self) -> Option<u64> {
        self.page.free_blocks()
    }

    fn occupancy(&self) -> Option<Occupancy> {
        self.page.occupancy()
    }

    fn slc_cache(&self) -> Option<SlcState> {
        self.page.slc_cache()
    }

    fn report(&self, context: &Context) -> serde_json::Value {
        let mut report = self.page.report(context);
        let Counts { hits, misses, reads, written_back, rebuilt } = self.counts;
        report["mapping"] = serde_json::json!({
            "hits": hits,
            "misses": misses,
            "lines": self.cache.used(),
            // Operations for the map: reads, and units that were programmed.
            "reads": reads,
            "written_back": written_back,
            "programmed_units": context.statistics.map_units,
            "rebuilt": rebuilt,
        });
        report
    }

    fn check(&self) {
        self.page.check();
        self.cache.check();
        assert!(!self.is_idle() || self.writes.is_empty());
        #[cfg(test)]
        for unit in 0..self.shape.units {
            let line = unit / self.line;
            let current = self.stored[unit as usize] == self.page.slot(unit);
            let known = self.cache.is_dirty(line) || self.updates.is_due(self.home(line));
            assert!(current || known, "unit {unit}: a change of the map is lost");
        }
    }
}
