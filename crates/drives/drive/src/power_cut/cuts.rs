//! A drive whose power can be cut while a run goes on.

use std::collections::{HashMap, VecDeque};

use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Command, Operation, Request, Status, Tag, ZoneLayout, SECTOR};

use super::{Sampling, Survival, VolatileCache, WritePointers};
use crate::{Control, Decorator, Done, Layer, Look};

/// Limit on the bytes of changes that a power cut can still take from a [`PowerCuts`]. A drive that
/// is given more writes its oldest changes meanwhile, as any may.
pub const MAX_UNSETTLED: u64 = 32 << 20;

/// A drive with a log of the changes that a power cut can take: of each what was there before, and
/// what it wrote. It stands on the drive itself or a tap on that.
pub struct PowerCuts {
    lower: Box<dyn Layer>,
    /// The cache as it is after a cut.
    empty: VolatileCache,
    /// Power cuts to come: after the last one nothing is followed.
    remaining: usize,
    cache: VolatileCache,
    unsettled: Unsettled,
    /// Commands in flight: the place of each, and what it is.
    places: HashMap<Tag, (usize, Operation)>,
    next: usize,
}

/// The changes that are not settled, and where zones end without them.
#[derive(Default)]
struct Unsettled {
    /// In the order of their places.
    changes: VecDeque<Change>,
    /// Bytes of those.
    held: u64,
    /// The zones, as the host has made them.
    zones: ZoneLayout,
    /// Ends of zones, with what is settled.
    pointers: WritePointers,
}

impl Unsettled {
    fn add(&mut self, change: Change) {
        self.held += change.old.len() as u64;
        self.changes.push_back(change);
    }

    /// The changes up to `place` are settled.
    fn settle(&mut self, place: usize) {
        let Self { changes, held, zones, pointers } = self;
        while changes.front().is_some_and(|change| change.place <= place) {
            let Some(change) = changes.pop_front() else { break };
            *held -= change.old.len() as u64;
            pointers.apply(zones, &change.command, &Survival::Whole);
        }
    }
}

/// A change that is not settled.
struct Change {
    place: usize,
    command: Command,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Change {
    /// Overwrites what both hold of the range at `offset`.
    fn pin(&mut self, offset: u64, data: &[u8]) {
        let own = self.command.offset;
        let (start, end) = (own.max(offset), own + self.old.len() as u64);
        let end = end.min(offset + data.len() as u64);
        if start >= end {
            return;
        }
        let from = &data[(start - offset) as usize..(end - offset) as usize];
        let place = (start - own) as usize..(end - own) as usize;
        self.old[place.clone()].copy_from_slice(from);
        self.new[place].copy_from_slice(from);
    }
}

impl PowerCuts {
    /// Follows the drive `lower`, whose logical blocks have `block_size` bytes and whose power will
    /// be cut `count` times. `strict`: see [`VolatileCache::strict`].
    pub fn new(lower: Box<dyn Layer>, block_size: u32, count: usize, strict: bool) -> Self {
        let properties = lower.properties();
        let power_loss = properties.power_loss.for_blocks(block_size.into());
        let empty = VolatileCache::new(power_loss, properties.discard_zeroes).strict(strict);
        Self {
            lower,
            remaining: count,
            cache: empty.clone(),
            empty,
            unsettled: Unsettled::default(),
            places: HashMap::new(),
            next: 0,
        }
    }

    /// Sets the write pointers of the drive's zones.
    #[must_use]
    pub fn with_pointers(self, pointers: WritePointers) -> Self {
        Self { unsettled: Unsettled { pointers, ..self.unsettled }, ..self }
    }

    /// The medium's bytes, after everything that was submitted.
    fn peek(&mut self, offset: u64, length: u64) -> Vec<u8> {
        let read = Command::new(Operation::Read, offset, length);
        let (status, data) = self.lower.instant(read, vec![0; length as usize]);
        // A medium that cannot be read has an error of its own to report.
        if status == Status::Ok {
            data
        } else {
            vec![0; length as usize]
        }
    }

    fn poke(&mut self, offset: u64, data: &[u8]) {
        if !data.is_empty() {
            let write = Command::new(Operation::Write, offset, data.len() as u64);
            self.lower.instant(write, data.to_vec());
        }
    }

    /// Notes a command that is about to be submitted.
    fn note(&mut self, request: &Request) {
        let command = request.command;
        if self.remaining == 0 || matches!(command.operation, Operation::Read | Operation::Verify) {
            return;
        }
        let place = self.next;
        self.next += 1;
        self.places.insert(request.tag, (place, command.operation));
        if command.length > MAX_UNSETTLED && self.cache.changes_disk(&command) {
            // More than is kept of all: it is on the medium at once, and everything before it.
            while !self.unsettled.changes.is_empty() {
                self.write_oldest();
            }
            let Unsettled { zones, pointers, .. } = &mut self.unsettled;
            pointers.apply(zones, &command, &Survival::Whole);
            return;
        }
        if self.cache.changes_disk(&command) {
            let Command { offset, length, source, .. } = command;
            let new = match command.operation {
                Operation::Write => request.data.clone(),
                Operation::Copy => self.peek(source, length),
                _ => vec![0; length as usize],
            };
            let old = self.peek(offset, length);
            self.unsettled.add(Change { place, command, old, new });
        }
        self.cache.submitted(place, &command);
        while self.unsettled.held > MAX_UNSETTLED {
            self.write_oldest();
        }
    }

    fn write_oldest(&mut self) {
        let Self { cache, unsettled, .. } = self;
        cache.write_oldest(|place| unsettled.settle(place));
    }

    fn ended(&mut self, done: &Done) {
        let Some((place, operation)) = self.places.remove(&done.tag) else { return };
        let Self { cache, unsettled, .. } = self;
        let well = done.status == Status::Ok;
        cache.ended(place, operation, well, |place| unsettled.settle(place));
    }
}

impl Decorator for PowerCuts {
    fn lower(&self) -> &dyn Layer {
        &*self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut *self.lower
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        self.note(&request);
        self.lower.submit(now, request);
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let before = done.len();
        self.lower.advance(now, done);
        for one in &done[before..] {
            self.ended(one);
        }
    }

    /// A change outside of time is on the medium for good.
    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        let result = self.lower.instant(command, data);
        if self.cache.changes_disk(&command) && !self.unsettled.changes.is_empty() {
            let data = self.peek(command.offset, command.length);
            let changes = self.unsettled.changes.iter_mut();
            changes.for_each(|change| change.pin(command.offset, &data));
        }
        result
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for PowerCuts {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        Some(self.lower.control())
    }

    fn look(&mut self, now: Nanos, at: Look) -> Option<String> {
        match at {
            Look::PowerCut if self.remaining > 0 => Some(self.cache.told()),
            at => self.lower.control().look(now, at),
        }
    }

    fn cut_power(&mut self, now: Nanos, sampling: Sampling) -> Option<WritePointers> {
        let survivals: HashMap<usize, Survival> = self.cache.sample(sampling).into_iter().collect();
        let durable: HashMap<usize, bool> = self.cache.unsettled().collect();
        let changes = std::mem::take(&mut self.unsettled.changes);
        for change in changes.iter().rev() {
            self.poke(change.command.offset, &change.old);
        }
        for change in &changes {
            let whole = durable.get(&change.place).copied().unwrap_or(true);
            let survival = match survivals.get(&change.place) {
                _ if whole => &Survival::Whole,
                Some(survival) => survival,
                None => &Survival::Lost,
            };
            let has = |index: usize| survival.has(index);
            for (first, data) in runs(&change.new, has) {
                self.poke(change.command.offset + first, data);
            }
            let Unsettled { zones, pointers, .. } = &mut self.unsettled;
            pointers.apply(zones, &change.command, survival);
        }
        (self.unsettled.held, self.remaining) = (0, self.remaining.saturating_sub(1));
        self.places.clear();
        self.cache = self.empty.clone();
        self.lower.control().cut_power(now, sampling);
        let Unsettled { zones, pointers, .. } = &self.unsettled;
        (!zones.is_empty()).then(|| pointers.clone())
    }

    fn set_layout(&mut self, layout: &BlockLayout) {
        let power_loss = self.lower.properties().power_loss;
        self.cache.set_layout(power_loss, layout);
        self.empty.set_layout(power_loss, layout);
        self.unsettled.zones.clone_from(layout.zones());
        self.lower.control().set_layout(layout);
    }
}

/// Returns the runs of sectors that `survives` accepts: the first byte of each, and its bytes.
fn runs(data: &[u8], survives: impl Fn(usize) -> bool) -> Vec<(u64, &[u8])> {
    let mut runs = Vec::new();
    let mut begin = None;
    let count = data.len() / SECTOR as usize;
    for sector in 0..=count {
        match (begin, sector < count && survives(sector)) {
            (None, true) => begin = Some(sector),
            (Some(first), false) => {
                let first = first * SECTOR as usize;
                runs.push((first as u64, &data[first..sector * SECTOR as usize]));
                begin = None;
            }
            _ => {}
        }
    }
    runs
}
