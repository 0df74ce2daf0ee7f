//! Changes of the map on their way into flash.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_nand::{OpDone, OpStatus};

use super::{Dftl, UPDATE};
use crate::ftl::page::Event;
use crate::ftl::Context;
use crate::narrow::count;

/// Write-backs that are read for at a time.
const WINDOW: u32 = 8;
/// Write-backs that wait before misses wait for them.
const BEHIND: usize = 16;

/// A unit of the map waits to be written back.
const DUE: u8 = 1;
/// The unit is being read for that.
const READ: u8 = 2;
/// The unit waits among those that are not urgent.
const LAZY: u8 = 4;

/// Units of the map that are to be written back.
#[derive(Debug)]
pub(super) struct Updates {
    state: Vec<u8>,
    // Because a line left the cache; because of units that moved.
    urgent: VecDeque<u32>,
    lazy: VecDeque<u32>,
    // So many at a time, unless nothing is collected.
    batch: usize,
    reading: u32,
}

impl Updates {
    pub fn new(units: u32, batch: u32) -> Self {
        Self {
            state: vec![0; units as usize],
            urgent: VecDeque::new(),
            lazy: VecDeque::new(),
            batch: batch as usize,
            reading: 0,
        }
    }

    /// A line of the unit left the cache.
    pub fn evicted(&mut self, home: u32) {
        let state = &mut self.state[home as usize];
        if *state & DUE == 0 {
            *state |= DUE;
            self.urgent.push_back(home);
        }
    }

    /// An entry of the unit changed that is not in the cache.
    pub fn moved(&mut self, home: u32) {
        let state = &mut self.state[home as usize];
        if *state & (DUE | LAZY) == 0 {
            *state |= LAZY;
            self.lazy.push_back(home);
        }
    }

    /// Returns whether the unit is still to be written back.
    #[cfg(test)]
    pub fn is_due(&self, home: u32) -> bool {
        self.state[home as usize] != 0
    }

    /// Returns whether misses have to wait.
    pub fn is_behind(&self) -> bool {
        self.urgent.len() > BEHIND
    }

    /// The next unit to write back.
    fn next(&mut self, collecting: bool) -> Option<u32> {
        if self.reading >= WINDOW {
            return None;
        }
        let home = match self.urgent.pop_front() {
            Some(home) => home,
            None if !collecting || self.lazy.len() >= self.batch => self.lazy.pop_front()?,
            None => return None,
        };
        Some(home)
    }
}

impl Dftl {
    /// After each event: changes of the map are put where they belong, and
    /// write-backs begin.
    pub(super) fn settle(&mut self, now: Nanos, context: &mut Context) {
        loop {
            self.absorb();
            let collecting = self.page.is_collecting();
            let Some(home) = self.updates.next(collecting) else { break };
            let state = &mut self.updates.state[home as usize];
            if *state & READ != 0 {
                // Once more, when the one under way is done.
                self.updates.urgent.push_back(home);
                *state = DUE | READ;
                break;
            }
            if *state == 0 {
                // It went the other way meanwhile.
                continue;
            }
            *state = READ;
            self.updates.reading += 1;
            if !self.read_map(now, home, (UPDATE, None), context) {
                self.write_back(now, home, context);
            }
        }
        self.fetch_delayed(now, context);
    }

    /// Records the changes that page mapping made.
    fn absorb(&mut self) {
        let Some(mut changes) = self.page.take_changes() else { return };
        for change in changes.drain(..) {
            if change.unit >= self.shape.units {
                if change.event == Event::Lost {
                    self.rebuild(change.unit - self.shape.units);
                }
                continue;
            }
            let line = change.unit / self.line;
            if self.cache.dirty(line) {
                continue;
            }
            if change.event == Event::Written {
                self.take_in(line, true);
            } else {
                let home = self.home(line);
                self.updates.moved(home);
            }
        }
        self.page.restore_changes(changes);
    }

    /// A unit of the map cannot be read: its entries are found beside the units,
    /// and is written back.
    pub(super) fn rebuild(&mut self, home: u32) {
        self.counts.rebuilt += 1;
        self.updates.evicted(home);
    }

    pub(super) fn update_read(
        &mut self,
        now: Nanos,
        home: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.page.read_ended(now, done, context);
        if done.status == OpStatus::Uncorrectable {
            self.counts.rebuilt += 1;
        }
        self.write_back(now, home, context);
    }

    /// A unit of the map gets every change of its entries, and is programmed.
    fn write_back(&mut self, now: Nanos, home: u32, context: &mut Context) {
        // Changes made during the read are included.
        self.absorb();
        self.updates.reading -= 1;
        self.updates.state[home as usize] &= !READ;
        let lines = self.entries / self.line;
        for line in home * lines..(home + 1) * lines {
            self.cache.clean(line);
        }
        #[cfg(test)]
        {
            let end = ((home + 1) * self.entries).min(self.shape.units);
            for unit in home * self.entries..end {
                self.stored[unit as usize] = self.page.slot(unit);
            }
        }
        self.counts.written_back += 1;
        let unit = self.unit(home);
        self.page.write_map_unit(now, unit, context);
    }

    /// The cache is lost; entries that were newer in it than in flash are found beside the units,
    /// and written back.
    pub(super) fn forget_cache(&mut self) {
        self.updates.reading = 0;
        self.updates.urgent.clear();
        self.updates.lazy.clear();
        let (lines, updates) = (self.entries / self.line, &mut self.updates);
        self.cache.lose(|line| updates.state[(line / lines) as usize] |= LAZY);
        for home in 0..count(updates.state.len()) {
            let held = self.page.holds(self.shape.units + home);
            let due = std::mem::take(&mut updates.state[home as usize]) != 0;
            if due || held {
                updates.moved(home);
            }
        }
    }
}
