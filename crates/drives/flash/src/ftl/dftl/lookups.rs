//! Requests that wait until the entries of their units are in memory.

use stasis_block::clock::Nanos;
use stasis_block::timeline::Purpose;
use stasis_block::Operation;
use stasis_nand::{Breakdown, OpDone, OpStatus};

use super::{Dftl, FETCH};
use crate::buffer::NONE;
use crate::ftl::{Context, Ftl, Request, RequestId};
use crate::narrow::count;
use crate::owners::{Owner, Owners};

/// A request whose entries are looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup {
    request: Request,
    // Units of the map that are still to be read.
    missing: u32,
}

/// A lookup that waits for a unit of the map, and the lines of it that it needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    lookup: u32,
    first: u32,
    last: u32,
    next: u32,
}

impl Dftl {
    /// A request that reads or writes units whose entries may be in flash.
    pub(super) fn look_up(
        &mut self,
        now: Nanos,
        request: &Request,
        writes: bool,
        context: &mut Context,
    ) {
        let number = self.lookups_free.pop().unwrap_or(count(self.lookups.len()));
        let lookup = Lookup { request: *request, missing: 0 };
        if number as usize == self.lookups.len() {
            self.lookups.push(lookup);
        } else {
            self.lookups[number as usize] = lookup;
        }
        let (first, end) = self.shape.units_of(request.offset, request.length);
        let mut unit = first;
        while unit < end {
            let line = unit / self.line;
            let stop = ((line + 1) * self.line).min(end);
            // Units that wait to be programmed are read without the map.
            let held = !writes && (unit..stop).all(|unit| self.page.holds(unit));
            unit = stop;
            if held {
                continue;
            }
            if self.cache.touch(line) {
                self.counts.hits += 1;
            } else {
                self.counts.misses += 1;
                self.miss(now, number, line, context);
            }
        }
        let waits = self.lookups[number as usize].missing > 0;
        if waits || (writes && !self.writes.is_empty()) {
            context.open(request.id);
            if writes {
                self.writes.push_back(number);
            }
            return;
        }
        self.lookups_free.push(number);
        if writes {
            self.page.write(now, request, context);
        } else {
            self.page.read(now, request, context);
        }
    }

    /// A line is not in memory.
    fn miss(&mut self, now: Nanos, lookup: u32, line: u32, context: &mut Context) {
        let home = self.home(line);
        let waiting = self.fetches[home as usize];
        // The last one that came is the first of the list.
        if let Some(waiter) = self.waiters.get_mut(waiting as usize) {
            if waiter.lookup == lookup {
                waiter.last = line;
                return;
            }
        }
        let unit = self.unit(home);
        let in_flash = !self.page.holds(unit) && self.page.slot(unit).is_some();
        if waiting == NONE && !in_flash {
            // It was never written, or it is in the buffer.
            return self.take_in(line, false);
        }
        let waiter = Waiter { lookup, first: line, last: line, next: waiting };
        let index = self.waiters_free.pop().unwrap_or(count(self.waiters.len()));
        if index as usize == self.waiters.len() {
            self.waiters.push(waiter);
        } else {
            self.waiters[index as usize] = waiter;
        }
        self.fetches[home as usize] = index;
        self.lookups[lookup as usize].missing += 1;
        if waiting == NONE {
            if self.updates.is_behind() {
                self.delayed.push_back(home);
            } else {
                self.fetch(now, home, context);
            }
        }
    }

    /// Reads a unit of the map, or finds it in the buffer.
    fn fetch(&mut self, now: Nanos, home: u32, context: &mut Context) {
        let waiter = self.waiters.get(self.fetches[home as usize] as usize).copied();
        let by = waiter.map(|waiter| self.lookups[waiter.lookup as usize].request.id);
        if !self.read_map(now, home, (FETCH, by), context) {
            self.arrived(now, home, &Breakdown::default(), context);
        }
    }

    /// Reads a unit of the map, for which the request `by` waits, if one does; false if it is in no
    /// page.
    pub(super) fn read_map(
        &mut self,
        now: Nanos,
        home: u32,
        (kind, by): (u64, Option<RequestId>),
        context: &mut Context,
    ) -> bool {
        let unit = self.unit(home);
        let held = self.page.holds(unit);
        let Some(slot) = self.page.slot(unit).filter(|_| !held) else { return false };
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            shadow.read(unit, None, Some(slot));
        }
        self.counts.reads += 1;
        let owner = |owners: &mut Owners| match by {
            Some(id) => Owner::awaited(Purpose::Map, &owners.request(id)),
            None => Owner::of(Purpose::Map),
        };
        self.page.read_map_unit(now, slot, kind | u64::from(home), owner, context);
        true
    }

    pub(super) fn fetched(&mut self, now: Nanos, home: u32, done: &OpDone, context: &mut Context) {
        if done.status == OpStatus::Uncorrectable {
            self.rebuild(home);
        }
        self.page.read_ended(now, done, context);
        self.arrived(now, home, &done.times, context);
    }

    /// A unit of the map is in memory: the requests that waited for it continue. `times`: the
    /// breakdown of its read.
    fn arrived(&mut self, now: Nanos, home: u32, times: &Breakdown, context: &mut Context) {
        let mut index = std::mem::replace(&mut self.fetches[home as usize], NONE);
        while index != NONE {
            let Waiter { lookup, first, last, next } = self.waiters[index as usize];
            self.waiters_free.push(index);
            index = next;
            for line in first..=last {
                self.take_in(line, false);
            }
            self.lookups[lookup as usize].missing -= 1;
            let Lookup { request, missing } = self.lookups[lookup as usize];
            if missing == 0 {
                context.passed(request.id, now, times);
            }
            let reads = !matches!(request.operation, Operation::Write | Operation::WriteZeroes);
            if missing == 0 && reads && !self.writes.contains(&lookup) {
                self.lookups_free.push(lookup);
                self.page.read(now, &request, context);
                context.finish_ok(request.id);
            }
        }
        self.write_on(now, context);
    }

    /// Continues the writes whose entries are in memory, in their order of arrival.
    fn write_on(&mut self, now: Nanos, context: &mut Context) {
        while let Some(&number) = self.writes.front() {
            if number == NONE {
                self.writes.pop_front();
                self.page.barrier(now, context);
                continue;
            }
            let Lookup { request, missing } = self.lookups[number as usize];
            if missing > 0 {
                return;
            }
            self.writes.pop_front();
            self.lookups_free.push(number);
            // It may have waited for earlier ones.
            context.passed(request.id, now, &Breakdown::default());
            self.page.write(now, &request, context);
            context.finish_ok(request.id);
        }
    }

    /// Takes a line into memory; a changed line that it evicts is written back.
    pub(super) fn take_in(&mut self, line: u32, dirty: bool) {
        if let Some(evicted) = self.cache.insert(line, dirty) {
            let home = self.home(evicted);
            self.updates.evicted(home);
        }
    }

    /// Reads of the map that had to wait for write-backs.
    pub(super) fn fetch_delayed(&mut self, now: Nanos, context: &mut Context) {
        while !self.updates.is_behind() {
            let Some(home) = self.delayed.pop_front() else { return };
            self.fetch(now, home, context);
        }
    }

    /// Forgets all waiters.
    pub(super) fn forget_lookups(&mut self) {
        self.lookups.clear();
        self.lookups_free.clear();
        self.writes.clear();
        self.waiters.clear();
        self.waiters_free.clear();
        self.delayed.clear();
        self.fetches.fill(NONE);
    }
}
