//! Writes: into memory, and from there page by page into the blocks.

use stasis_block::clock::Nanos;
use stasis_block::{Fate, Status};
use stasis_nand::{Breakdown, OpDone, OpKind, OpStatus};

use super::state::{Cursor, Page, Stage, Zones, PROGRAM};
use super::{Context, Request, RequestId};
use crate::buffer::NONE;
use crate::narrow::{count, place};

impl Zones {
    pub(super) fn queue(&mut self, request: &Request, context: &mut Context) {
        let &Request { id, fua, offset, length, .. } = request;
        let (next, end) = self.shape.units_of(offset, length);
        context.open(id);
        self.waiting.push_back(Cursor { id, fua, offset, length, next, end });
    }

    /// Takes in the waiting writes, as far as there is room.
    pub(super) fn pump(&mut self, now: Nanos, context: &mut Context) {
        while let Some(&cursor) = self.waiting.front() {
            if cursor.id == NONE {
                if self.flying > 0 {
                    return;
                }
                self.waiting.pop_front();
                continue;
            }
            if cursor.next == cursor.end {
                self.waiting.pop_front();
                context.finish_ok(cursor.id);
                continue;
            }
            let page = cursor.next / self.shape.slots;
            let full = self.room > 0 && self.flying >= self.room;
            let (zone, block, at) = self.layout.place(page);
            let Some(target) = self.zones.get(zone as usize) else {
                self.waiting.pop_front();
                self.fail(cursor.id, context);
                continue;
            };
            if full || target.resetting {
                return;
            }
            if target.failed || at < self.blocks[block as usize].next {
                self.waiting.pop_front();
                self.fail(cursor.id, context);
                continue;
            }
            if let Some(front) = self.waiting.front_mut() {
                front.next += 1;
            }
            self.take_in(now, &cursor, context);
        }
    }

    fn fail(&self, id: RequestId, context: &mut Context) {
        context.finish(id, Fate::failed(Status::WriteError), &Breakdown::default());
    }

    /// A unit comes into memory; its page is programmed if it can be.
    fn take_in(&mut self, now: Nanos, cursor: &Cursor, context: &mut Context) {
        let (unit, slots) = (cursor.next, self.shape.slots);
        let start = self.shape.offset(unit);
        if cursor.offset + cursor.length < start + u64::from(self.shape.unit) {
            // The rest of the unit is still to come.
            return;
        }
        let page = unit / slots;
        let index = self.table.get(page).unwrap_or_else(|| {
            let index = self.begin(page);
            context.note(|owners| owners.begin_page(index));
            index
        });
        context.note(|owners| owners.fill_page(index, cursor.id));
        self.pages[index as usize].filled |= 1 << (unit % slots);
        #[cfg(test)]
        {
            self.version += 1;
            self.pages[index as usize].versions[(unit % slots) as usize] = self.version;
            if let Some(shadow) = &mut context.shadow {
                shadow.admit(unit, self.version);
            }
        }
        context.statistics.host_units += 1;
        let (_, block, _) = self.layout.place(page);
        if !self.is_full(index) || !self.is_next(page) {
            return;
        }
        if self.room == 0 || (cursor.fua && !self.protected) {
            context.open(cursor.id);
            self.pages[index as usize].waiter = cursor.id;
        }
        let mut ready = Some(page);
        while let Some(page) = ready {
            let Some(index) = self.table.get(page).filter(|&index| self.is_full(index)) else {
                return;
            };
            self.program(now, block, index, context);
            ready = self.layout.next(page);
        }
    }

    fn begin(&mut self, page: u32) -> u32 {
        let index = self.pages_free.pop().unwrap_or(count(self.pages.len()));
        if index as usize == self.pages.len() {
            self.pages.push(Page {
                page,
                filled: 0,
                state: Stage::Filling,
                waiter: NONE,
                flight: 0,
                #[cfg(test)]
                versions: vec![0; self.shape.slots as usize],
            });
        }
        let entry = &mut self.pages[index as usize];
        (entry.page, entry.filled, entry.state, entry.waiter) = (page, 0, Stage::Filling, NONE);
        self.table.insert(page, index);
        index
    }

    fn is_full(&self, index: u32) -> bool {
        self.pages[index as usize].filled.count_ones() == self.shape.slots
    }

    fn is_next(&self, page: u32) -> bool {
        let (_, block, at) = self.layout.place(page);
        self.blocks[block as usize].next == at
    }

    /// Returns whether a unit is in memory.
    pub(super) fn in_memory(&self, unit: u32) -> bool {
        let found = self.table.get(unit / self.shape.slots);
        found.is_some_and(|index| {
            self.pages[index as usize].filled >> (unit % self.shape.slots) & 1 == 1
        })
    }

    #[cfg(test)]
    pub(super) fn version(&self, unit: u32) -> Option<u64> {
        let index = self.table.get(unit / self.shape.slots)?;
        Some(self.pages[index as usize].versions[(unit % self.shape.slots) as usize])
    }

    /// The units of a page in memory, and their versions.
    #[cfg(test)]
    pub(super) fn contents(&self, index: u32) -> Vec<(u32, u64)> {
        let page = &self.pages[index as usize];
        let first = page.page * self.shape.slots;
        let units = (first..).zip(&page.versions);
        let held = units.filter(|(unit, _)| page.filled >> (unit - first) & 1 == 1);
        held.map(|(unit, &version)| (unit, version)).collect()
    }

    /// Programs a page in memory as its block's next.
    pub(super) fn program(&mut self, now: Nanos, block: u32, index: u32, context: &mut Context) {
        let at = self.blocks[block as usize].next;
        debug_assert_eq!(self.layout.place(self.pages[index as usize].page).2, at);
        self.blocks[block as usize].next += 1;
        self.send(now, block, at, index, context);
    }

    /// Sends a page that was counted to the array.
    pub(super) fn send(
        &mut self,
        now: Nanos,
        block: u32,
        at: u32,
        index: u32,
        context: &mut Context,
    ) {
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            let number = self.blocks[block as usize].number;
            shadow.program(self.shape.address(number, at), self.contents(index));
        }
        self.sequence += 1;
        self.flights.push_back((self.sequence, false));
        self.flying += 1;
        let entry = &mut self.pages[index as usize];
        (entry.state, entry.flight) = (Stage::Flying, self.sequence);
        let (bytes, token) = (self.shape.geometry.page_size, PROGRAM | u64::from(index));
        let operation = (OpKind::Program, bytes);
        self.submit(now, operation, (block, at), token, |owners| owners.page(index), context);
    }

    /// A program of a page in memory has ended.
    pub(super) fn programmed(
        &mut self,
        _now: Nanos,
        index: u32,
        block: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.blocks[block as usize].ended += 1;
        let Page { flight, state, waiter, .. } = self.pages[index as usize];
        if state == Stage::Flying {
            self.flying -= 1;
        }
        let first = self.flights.front().map_or(0, |flight| flight.0);
        self.flights[place(flight - first)].1 = true;
        while self.flights.front().is_some_and(|flight| flight.1) {
            self.flights.pop_front();
        }
        let failed = done.status == OpStatus::ProgramFailed;
        if failed {
            self.blocks[block as usize].bad = true;
            let zone = self.zone_of(block);
            self.zones[zone as usize].failed = true;
        } else {
            context.statistics.programmed_units += u64::from(self.shape.slots);
        }
        if waiter != NONE {
            let status = if failed { Status::WriteError } else { Status::Ok };
            let fate = if failed { Fate::failed(status) } else { Fate::Done };
            context.finish(waiter, fate, &done.times);
        }
        self.pages[index as usize].waiter = NONE;
        if failed && state == Stage::Flying {
            self.pages[index as usize].state = Stage::Stranded;
        } else {
            if state == Stage::Flying {
                self.table.remove(self.pages[index as usize].page);
            }
            self.give_back(index);
        }
        self.finish_flushes(context);
    }

    pub(super) fn give_back(&mut self, index: u32) {
        self.pages[index as usize].state = Stage::Unused;
        self.pages_free.push(index);
    }

    pub(super) fn finish_flushes(&mut self, context: &mut Context) {
        while let Some(&(id, until)) = self.flushes.front() {
            if self.flights.front().is_some_and(|flight| flight.0 <= until) {
                return;
            }
            self.flushes.pop_front();
            context.finish_ok(id);
        }
    }
}
