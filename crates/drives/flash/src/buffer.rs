//! Units between the host and the cells: the write buffer, and the units being programmed.
//!
//! A unit stays here until its program has ended, so reads find it, and a power
//! cut loses what is here and nothing else. Of several writes of one unit the
//! newest counts: an older one whose program ends later is dead.

pub(crate) mod table;

use std::collections::VecDeque;

use self::table::Table;
pub(crate) use crate::ftl::context::IN_FLIGHT;
use crate::ftl::RequestId;
use crate::narrow::count;
use crate::owners::Owners;

/// No entry, no request.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    unit: u32,
    // Other writes of the unit that are under way.
    older: u32,
    newer: u32,
    // In the order of writing.
    before: u32,
    after: u32,
    // The request that waits until it is durable.
    waiter: RequestId,
    stream: u16,
    // Being programmed; else it waits for that.
    flying: bool,
    // A newer write is durable, or the unit was trimmed.
    dead: bool,
    // True if the write was acknowledged to the host.
    acknowledged: bool,
    sequence: u64,
    // Bytes of the unit that have not come: it waits for them, in no queue.
    lacks: u32,
}

/// End of a unit's program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Landed {
    pub unit: u32,
    /// True if it is now the unit's content.
    pub alive: bool,
    /// The request that waited for it, or [`NONE`].
    pub waiter: RequestId,
}

/// Units that are not yet in the cells; see the [module](self).
#[derive(Debug)]
pub(crate) struct Buffer {
    entries: Vec<Entry>,
    free: Vec<u32>,
    // Each unit's newest entry.
    table: Table,
    oldest: u32,
    newest: u32,
    used: u32,
    // By stream.
    ready: Vec<VecDeque<u32>>,
    sequence: u64,
    // Entries up to this sequence number are programmed even if they do not fill a page.
    force: u64,
    // Entries that wait for the rest of their unit, and are in no queue.
    held: u32,
}

impl Buffer {
    /// An empty buffer.
    pub fn new(streams: u32) -> Self {
        Self {
            entries: Vec::with_capacity(IN_FLIGHT),
            free: Vec::with_capacity(IN_FLIGHT),
            table: Table::new(),
            oldest: NONE,
            newest: NONE,
            used: 0,
            ready: (0..streams).map(|_| VecDeque::with_capacity(IN_FLIGHT)).collect(),
            sequence: 0,
            force: 0,
            held: 0,
        }
    }

    /// Entries in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// The number of the newest write.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The number of the oldest write that is not durable.
    pub fn oldest(&self) -> Option<u64> {
        (self.oldest != NONE).then(|| self.entries[self.oldest as usize].sequence)
    }

    /// Returns whether a read of the unit is served from here.
    pub fn holds(&self, unit: u32) -> bool {
        self.used > 0 && self.table.get(unit).is_some()
    }

    /// The number of the write that a read of the unit sees.
    #[cfg(test)]
    pub fn version(&self, unit: u32) -> Option<u64> {
        self.table.get(unit).map(|entry| self.entries[entry as usize].sequence)
    }

    /// Takes over a unit in the place of a write that still waits, if there is
    /// one; `None` if the unit needs a new entry.
    pub fn merge(&mut self, unit: u32) -> Option<u64> {
        let entry = self.table.get(unit)?;
        let entry = &mut self.entries[entry as usize];
        let merges = !entry.flying && entry.waiter == NONE;
        merges.then_some(entry.sequence)
    }

    /// Holds a unit that was just admitted: it waits for `lacks` bytes, unless it is forced.
    pub fn hold(&mut self, unit: u32, lacks: u32) {
        let Some(index) = self.table.get(unit) else { return };
        let entry = &mut self.entries[index as usize];
        let queue = &mut self.ready[usize::from(entry.stream)];
        if queue.back() == Some(&index) {
            queue.pop_back();
            entry.lacks = lacks;
            self.held += 1;
        }
    }

    /// Takes `bytes` more bytes of a unit, which may wait for them.
    pub fn complete(&mut self, unit: u32, bytes: u32) {
        let Some(index) = self.table.get(unit).filter(|_| self.held > 0) else { return };
        let entry = &mut self.entries[index as usize];
        if entry.lacks > 0 {
            entry.lacks = entry.lacks.saturating_sub(bytes);
            if entry.lacks == 0 {
                self.release_held(index);
            }
        }
    }

    /// An entry waits no longer: it is ready, among the others by its number.
    fn release_held(&mut self, index: u32) {
        let Entry { stream, sequence, .. } = self.entries[index as usize];
        self.entries[index as usize].lacks = 0;
        self.held -= 1;
        let entries = &self.entries;
        let queue = &mut self.ready[usize::from(stream)];
        let at = queue.partition_point(|&other| entries[other as usize].sequence < sequence);
        queue.insert(at, index);
    }

    /// Takes over a unit that a request writes; `waiter` waits until it is
    /// durable. Its number.
    pub fn admit(&mut self, unit: u32, stream: u16, waiter: RequestId, acknowledged: bool) -> u64 {
        self.sequence += 1;
        let older = self.table.get(unit).unwrap_or(NONE);
        let entry = Entry {
            unit,
            older,
            newer: NONE,
            before: self.newest,
            after: NONE,
            waiter,
            stream,
            flying: false,
            dead: false,
            acknowledged,
            sequence: self.sequence,
            lacks: 0,
        };
        let index = self.free.pop().unwrap_or(count(self.entries.len()));
        if index as usize == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[index as usize] = entry;
        }
        if older != NONE {
            self.entries[older as usize].newer = index;
        }
        if self.newest == NONE {
            self.oldest = index;
        } else {
            self.entries[self.newest as usize].after = index;
        }
        self.newest = index;
        self.used += 1;
        self.table.insert(unit, index);
        self.ready[usize::from(stream)].push_back(index);
        self.sequence
    }

    /// A request has written a unit, or with none a layer its map: whose its entry now is.
    pub fn tell_owner(&self, unit: u32, id: Option<RequestId>, owners: &mut Owners) {
        if let Some(entry) = self.table.get(unit) {
            owners.fill_entry(entry, id);
        }
    }

    /// Everything up to the newest write goes to the cells now.
    pub fn force(&mut self) {
        self.force = self.sequence;
        let mut index = self.oldest;
        while self.held > 0 && index != NONE {
            if self.entries[index as usize].lacks > 0 {
                self.release_held(index);
            }
            index = self.entries[index as usize].after;
        }
    }

    /// The number of the newest write that goes to the cells now.
    pub fn forced(&self) -> u64 {
        self.force
    }

    /// The number of an entry's write.
    pub fn sequence_of(&self, index: u32) -> u64 {
        self.entries[index as usize].sequence
    }

    /// Returns whether a page of `slots` units of a stream goes to the cells now.
    pub fn wants_page(&mut self, stream: u16, slots: u32) -> bool {
        loop {
            let ready = &self.ready[usize::from(stream)];
            let Some(&first) = ready.front() else { return false };
            let first_entry = self.entries[first as usize];
            // A trimmed entry needs no page, unless a request waits for it.
            if first_entry.dead && first_entry.waiter == NONE {
                self.ready[usize::from(stream)].pop_front();
                self.release(first);
                continue;
            }
            return ready.len() >= slots as usize || first_entry.sequence <= self.force;
        }
    }

    /// The next unit of a stream for a page.
    pub fn take(&mut self, stream: u16) -> Option<u32> {
        while let Some(index) = self.ready[usize::from(stream)].pop_front() {
            let entry = &mut self.entries[index as usize];
            if entry.dead && entry.waiter == NONE {
                self.release(index);
                continue;
            }
            entry.flying = true;
            return Some(index);
        }
        None
    }

    /// The unit of an entry.
    pub fn unit_of(&self, index: u32) -> u32 {
        self.entries[index as usize].unit
    }

    /// The unit of an entry, and the number of its write.
    #[cfg(test)]
    pub fn unit(&self, index: u32) -> (u32, u64) {
        let entry = &self.entries[index as usize];
        (entry.unit, entry.sequence)
    }

    /// The program of an entry succeeded.
    pub fn land(&mut self, index: u32) -> Landed {
        let Entry { unit, dead, waiter, older, .. } = self.entries[index as usize];
        if !dead {
            // Older entries can no longer become the unit's content.
            self.kill(older);
            self.entries[index as usize].older = NONE;
        }
        self.release(index);
        Landed { unit, alive: !dead, waiter }
    }

    /// The program of an entry failed: it waits for another, before all others.
    pub fn retry(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.flying = false;
        let stream = usize::from(entry.stream);
        self.ready[stream].push_front(index);
        self.force = self.force.max(self.entries[index as usize].sequence);
    }

    /// The unit's content is no longer needed.
    pub fn trim(&mut self, unit: u32) {
        if self.used == 0 {
            return;
        }
        if let Some(newest) = self.table.get(unit) {
            self.table.remove(unit);
            self.kill(newest);
        }
    }

    /// Marks an entry and those that are older as dead, out of their chain.
    fn kill(&mut self, mut index: u32) {
        while index != NONE {
            let entry = &mut self.entries[index as usize];
            let (older, held) = (entry.older, entry.lacks > 0);
            (entry.dead, entry.older, entry.newer) = (true, NONE, NONE);
            if held {
                self.release_held(index);
            }
            index = older;
        }
    }

    /// Returns a human-readable list of the buffer's contents: units of `unit` bytes, by their
    /// first byte.
    pub fn told(&self, offset: impl Fn(u32) -> u64, unit: u32) -> String {
        /// Limit on the units that are named.
        const NAMED: usize = 64;
        if self.used == 0 {
            return "the write buffer is empty".to_owned();
        }
        let (mut named, mut next) = (Vec::new(), self.oldest);
        while next != NONE && named.len() < NAMED {
            let entry = &self.entries[next as usize];
            let flying = if entry.flying { " (being programmed)" } else { "" };
            let dead = if entry.dead { " (of no use any more)" } else { "" };
            named.push(format!("{}{flying}{dead}", offset(entry.unit)));
            next = entry.after;
        }
        let more = if next == NONE { "" } else { ", and more" };
        let (used, named) = (self.used, named.join(", "));
        format!("{used} units of {unit} bytes, the oldest first: at {named}{more}")
    }

    /// An entry is done with.
    fn release(&mut self, index: u32) {
        let Entry { unit, older, newer, before, after, dead, .. } = self.entries[index as usize];
        if !dead {
            match (newer, older) {
                (NONE, NONE) => self.table.remove(unit),
                (NONE, older) => self.table.insert(unit, older),
                (newer, older) => self.entries[newer as usize].older = older,
            }
            if older != NONE {
                self.entries[older as usize].newer = newer;
            }
        }
        match before {
            NONE => self.oldest = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.newest = before,
            after => self.entries[after as usize].before = before,
        }
        self.free.push(index);
        self.used -= 1;
    }

    /// Returns whether something that was acknowledged is not in the cells.
    pub fn owes(&self) -> bool {
        let mut index = self.oldest;
        while index != NONE {
            let entry = &self.entries[index as usize];
            if entry.acknowledged && !entry.dead {
                return true;
            }
            index = entry.after;
        }
        false
    }

    /// Takes the waiter off every entry that waits for the cells, because it will
    /// not get there.
    pub fn give_up(&mut self, mut failed: impl FnMut(RequestId)) {
        let mut index = self.oldest;
        while index != NONE {
            let entry = &mut self.entries[index as usize];
            if entry.waiter != NONE && !entry.flying {
                failed(std::mem::replace(&mut entry.waiter, NONE));
            }
            index = entry.after;
        }
    }

    /// The power failed. With `protected` the acknowledged units wait for the cells again, as new
    /// writes, which are returned; else everything is gone, and `lost` is called with each unit
    /// that was acknowledged.
    pub fn power_cut(&mut self, protected: bool, mut lost: impl FnMut(u32)) -> Vec<(u32, u64)> {
        let mut kept = Vec::new();
        let mut index = self.oldest;
        while index != NONE {
            let entry = self.entries[index as usize];
            if entry.acknowledged && !entry.dead {
                if protected {
                    kept.push((entry.unit, entry.stream));
                } else {
                    lost(entry.unit);
                }
            }
            index = entry.after;
        }
        self.entries.clear();
        self.free.clear();
        self.table.clear();
        (self.oldest, self.newest, self.used) = (NONE, NONE, 0);
        self.ready.iter_mut().for_each(VecDeque::clear);
        self.held = 0;
        let admit = |(unit, stream)| (unit, self.admit(unit, stream, NONE, true));
        kept.into_iter().map(admit).collect()
    }
}
