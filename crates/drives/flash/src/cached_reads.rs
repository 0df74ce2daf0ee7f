//! The host's reads through the read cache, which stands before the translation layer: data that is
//! there needs neither the map nor the cells.
//!
//! Invariant: once a write, discard or write of zeroes is complete, no entry has what was there
//! before: units leave as the command reaches the drive, and again as it ends.

use stasis_block::clock::Nanos;
use stasis_block::{Fate, Operation};

use crate::ftl::request::Open;
use crate::ftl::{Request, RequestId};
use crate::narrow::count;
use crate::read_cache::{Lookup, ReadCache, Waiter};
use crate::spec::CachedWrites;
use crate::Ssd;

impl Ssd {
    /// Reads for the host: units in the cache come from memory, the request waits for those on
    /// their way, and the translation layer reads the others.
    #[inline(never)]
    pub(crate) fn read_through(&mut self, now: Nanos, request: &Request) {
        let Some(mut cache) = self.cache.take() else {
            return self.ftl.read(now, request, &mut self.context);
        };
        let end = request.offset + request.length;
        let (mut hit, mut missing) = (0, request.offset..request.offset);
        for unit in self.units(request) {
            let bytes = self.bytes_of(unit);
            let wanted = bytes.start.max(request.offset)..bytes.end.min(end);
            let found = cache.look_up(unit);
            if found == Lookup::Miss {
                cache.counts.misses += 1;
                // A part of a unit is not kept.
                if wanted == bytes {
                    cache.insert(unit, request.id);
                }
                missing.end = wanted.end;
                continue;
            }
            self.context.statistics.read_units += 1;
            self.read_missing(now, request, missing);
            missing = wanted.end..wanted.end;
            if let Lookup::Coming(filler) = found {
                cache.counts.waited += 1;
                self.context.open(request.id);
                cache.waiters.push(Waiter { filler, id: request.id, unit });
            } else {
                cache.counts.hits += 1;
                hit += wanted.end - wanted.start;
            }
        }
        self.read_missing(now, request, missing);
        self.send(now, request.id, hit, &mut cache);
        if let Some(ahead) = cache.read_ahead(request.offset..end, self.capacity) {
            self.read_ahead(now, &ahead, &mut cache);
        }
        self.cache = Some(cache);
    }

    /// The translation layer reads a part of a request.
    fn read_missing(&mut self, now: Nanos, request: &Request, bytes: std::ops::Range<u64>) {
        if !bytes.is_empty() {
            let (offset, length) = (bytes.start, bytes.end - bytes.start);
            self.ftl.read(now, &Request { offset, length, ..*request }, &mut self.context);
        }
    }

    /// Data of a request leaves the cache's memory.
    fn send(&mut self, now: Nanos, id: RequestId, bytes: u64, cache: &mut ReadCache) {
        if bytes == 0 {
            return;
        }
        let at = cache.memory.send(now, bytes);
        if at > now {
            self.context.open(id);
            self.context.requests[id as usize].memory += at - now;
            cache.leaving.push_back((at, id));
        }
    }

    /// Reads whole units that are not there, for no request of the host's.
    fn read_ahead(&mut self, now: Nanos, bytes: &std::ops::Range<u64>, cache: &mut ReadCache) {
        let unit = u64::from(self.unit);
        let units = count(bytes.start.div_ceil(unit))..count(bytes.end.div_ceil(unit));
        let mut next = units.start;
        while next < units.end {
            let first = next;
            while next < units.end && !cache.has(next) {
                next += 1;
            }
            if first == next {
                next += 1;
                continue;
            }
            let offset = u64::from(first) * unit;
            let length = self.bytes_of(next - 1).end - offset;
            let operation = Operation::Read;
            let request = Request { id: 0, operation, offset, length, stream: 0, fua: false };
            let id = self.context.begin(Open { ahead: true, ..Open::new(0, request, None, now) });
            self.context.note(|owners| owners.begin_ahead(id));
            (first..next).for_each(|unit| cache.insert(unit, id));
            cache.counts.ahead += u64::from(next - first);
            self.ftl.read(now, &Request { id, ..request }, &mut self.context);
            self.context.finish_ok(id);
        }
    }

    /// The translation layer has ended a request, which it did not copy on: what it read is there,
    /// and what it wrote is not, or is.
    #[inline(never)]
    pub(crate) fn pass_cache(&mut self, now: Nanos, id: RequestId) {
        let Some(mut cache) = self.cache.take() else { return };
        let Open { request, fate, .. } = self.context.requests[id as usize];
        let done = fate == Fate::Done;
        match request.operation {
            Operation::Read => self.fetched(now, &request, done, &mut cache),
            Operation::Write | Operation::Discard | Operation::WriteZeroes => {
                let units = self.units(&request);
                cache.remove(units.clone());
                let keeps = request.operation == Operation::Write && done;
                if keeps && cache.writes == CachedWrites::Update {
                    let end = request.offset + request.length;
                    let whole = |unit: &u32| {
                        let bytes = self.bytes_of(*unit);
                        bytes.start >= request.offset && bytes.end <= end
                    };
                    units.filter(whole).for_each(|unit| cache.update(unit));
                }
            }
            _ => {}
        }
        self.cache = Some(cache);
    }

    /// The data that a request read is there, and goes to those that waited for it; if it could not be read,
    /// each of them reads it itself.
    fn fetched(&mut self, now: Nanos, request: &Request, there: bool, cache: &mut ReadCache) {
        let times = self.context.requests[request.id as usize].times;
        cache.arrived(self.units(request), request.id, there);
        let mut next = 0;
        while let Some(&Waiter { filler, id, unit }) = cache.waiters.get(next) {
            if filler != request.id {
                next += 1;
                continue;
            }
            cache.waiters.remove(next);
            let waiting = self.context.requests[id as usize].request;
            let bytes = self.bytes_of(unit);
            let end = waiting.offset + waiting.length;
            let wanted = bytes.start.max(waiting.offset)..bytes.end.min(end);
            if there {
                self.send(now, id, wanted.end - wanted.start, cache);
            } else {
                // It is counted already.
                let counted = self.context.statistics.read_units;
                self.read_missing(now, &waiting, wanted);
                self.context.statistics.read_units = counted;
            }
            self.context.finish(id, Fate::Done, &times);
        }
    }

    /// Returns the request whose data left the cache's memory at `at`, if it is the next.
    #[inline(never)]
    pub(crate) fn left_cache(&mut self, at: Nanos) -> Option<RequestId> {
        let leaving = &mut self.cache.as_mut()?.leaving;
        leaving.front().filter(|(end, _)| *end == at)?;
        leaving.pop_front().map(|(_, id)| id)
    }

    /// The host is about to change the data of a request's bytes.
    pub(crate) fn leave_cache(&mut self, request: &Request) {
        let units = self.units(request);
        if let Some(cache) = &mut self.cache {
            cache.remove(units);
        }
    }

    /// The units that a request's bytes lie in.
    fn units(&self, request: &Request) -> std::ops::Range<u32> {
        let unit = u64::from(self.unit);
        let end = request.offset + request.length;
        let first = request.offset / unit;
        count(first)..count(end.div_ceil(unit).max(first))
    }

    /// The bytes of a unit; the drive's last one may be a part only.
    fn bytes_of(&self, unit: u32) -> std::ops::Range<u64> {
        let start = u64::from(unit) * u64::from(self.unit);
        start..(start + u64::from(self.unit)).min(self.capacity)
    }
}
