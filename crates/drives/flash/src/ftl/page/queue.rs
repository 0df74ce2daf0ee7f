//! Writes on their way from the host into the buffer: in order, between barriers, parts of units
//! completed first; and the flushes that wait for them.
//!
//! Invariants: a write enters the buffer after every earlier write that is not still being
//! completed, and never passes a barrier; a barrier passes when all before it is durable; a flush
//! ends when no entry of the buffer is as old as the flush.

use std::collections::VecDeque;

use stasis_block::{CacheKind, Fate, PowerLoss, Status, LOG_STREAM};
use stasis_nand::{Breakdown, OpDone, OpStatus};

use super::heat::Heat;
use super::placement::Placement;
use crate::buffer::{Buffer, IN_FLIGHT, NONE};
use crate::ftl::{Context, Request, RequestId, Shape};
use crate::narrow::{count, stream};
use crate::spec::Spec;

/// A write that covers a part of units only, while those are read.
#[derive(Debug, Clone, Copy)]
struct Partial {
    request: Request,
    reads: u32,
    // Barriers that there were before it.
    barriers: u32,
}

/// A write that is not all in the buffer yet; with no request a barrier, whose
/// number is `next`.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    id: RequestId,
    stream: u16,
    fua: bool,
    /// Units of which it has a part wait for the rest.
    gathers: bool,
    next: u32,
    end: u32,
}

/// Slots to read before a write can enter the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Completing {
    /// The write's number, for [`WriteQueue::completed`].
    pub number: u32,
    /// The slots of its first and its last unit, as far as they are read.
    pub slots: [Option<u32>; 2],
}

/// The waiting writes and flushes, and the buffer; see the [module](self).
#[derive(Debug)]
pub(super) struct WriteQueue {
    shape: Shape,
    capacity: u64,
    buffer: Buffer,
    // Units that the buffer has room for; 0 to write through.
    room: u32,
    protected: bool,
    waiting: VecDeque<Cursor>,
    flushes: VecDeque<(RequestId, u64)>,
    // Numbers of merges.
    barriers: u32,
    partial: Vec<Partial>,
    partial_free: Vec<u32>,
    // Streams that the host's units go to, and behind them those of the ends of a log of pairs.
    host_streams: u16,
    log_ends: u16,
    // Temperature of units, where hot ones are kept apart.
    heat: Option<Heat>,
}

impl WriteQueue {
    /// An empty queue of a checked description, with a buffer of `streams` streams.
    pub fn new(spec: &Spec, shape: Shape, capacity: u64, streams: u32) -> Self {
        let room = count((spec.buffer / spec.mapping_unit.max(1)).min(u64::from(NONE - 1)));
        // A buffer that cannot fill a page of each stream would never be full.
        let room = if spec.buffer == 0 { 0 } else { room.max(1) };
        Self {
            shape,
            capacity,
            buffer: Buffer::new(streams),
            room,
            protected: spec.plp && room > 0,
            waiting: VecDeque::with_capacity(IN_FLIGHT),
            flushes: VecDeque::with_capacity(IN_FLIGHT),
            barriers: 0,
            partial: Vec::with_capacity(IN_FLIGHT),
            partial_free: Vec::with_capacity(IN_FLIGHT),
            host_streams: stream(spec.host_streams()),
            log_ends: stream(spec.open_streams() - spec.host_streams()),
            heat: spec.hot_cold.then(Heat::new),
        }
    }

    /// The power comes back: what was counted in memory begins anew.
    pub fn power_on(&mut self) {
        self.heat = self.heat.as_ref().map(|_| Heat::new());
    }

    /// The buffer.
    #[inline]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The buffer, for the pages that take its entries.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// The loss of a power cut.
    pub fn power_loss(&self) -> PowerLoss {
        let unit = u64::from(self.shape.unit);
        let cache = match self.room {
            0 => CacheKind::None,
            _ if self.protected => CacheKind::Protected,
            room => CacheKind::Volatile(u64::from(room) * unit),
        };
        // A unit is mapped when all of it is programmed.
        PowerLoss::new(cache, unit)
    }

    /// Takes up a write of at least one unit, whose request has a piece for it. Units that it
    /// covers in part have to be read first: then it is queued by [`WriteQueue::completed`].
    pub fn write(&mut self, request: &Request, placement: &Placement) -> Option<Completing> {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        let read = |unit: u32| {
            let reads = self.is_partial(unit, request) && !self.buffer.holds(unit);
            reads.then(|| placement.slot(unit)).flatten()
        };
        let last = if end - 1 > first { read(end - 1) } else { None };
        let slots = [read(first), last];
        let reads = count(slots.iter().flatten().count());
        if reads == 0 {
            let gathers = self.log_end(request.stream).is_some();
            self.enqueue(request, self.barriers, gathers);
            return None;
        }
        let partial = Partial { request: *request, reads, barriers: self.barriers };
        let number = self.partial_free.pop().unwrap_or(count(self.partial.len()));
        if number as usize == self.partial.len() {
            self.partial.push(partial);
        } else {
            self.partial[number as usize] = partial;
        }
        Some(Completing { number, slots })
    }

    #[inline]
    fn is_partial(&self, unit: u32, request: &Request) -> bool {
        let start = self.shape.offset(unit);
        // The drive's last unit may be a part only.
        let whole = u64::from(self.shape.unit).min(self.capacity - start);
        u64::from(self.shape.overlap(unit, request.offset, request.length)) < whole
    }

    /// A read of [`WriteQueue::write`] has ended.
    pub fn completed(&mut self, number: u32, done: &OpDone, context: &mut Context) {
        self.partial[number as usize].reads -= 1;
        let Partial { request, reads, barriers } = self.partial[number as usize];
        if done.status == OpStatus::Uncorrectable {
            // The part of the unit that is not written is lost.
            context.open(request.id);
            context.finish(request.id, Fate::failed(Status::WriteError), &done.times);
        }
        if reads == 0 {
            self.partial_free.push(number);
            context.passed(request.id, done.at, &done.times);
            self.enqueue(&request, barriers, false);
        }
    }

    /// A write waits for the buffer, before the barriers that came after it.
    fn enqueue(&mut self, request: &Request, barriers: u32, gathers: bool) {
        let (next, end) = self.shape.units_of(request.offset, request.length);
        let &Request { id, stream, fua, .. } = request;
        let later = |cursor: &Cursor| cursor.id == NONE && cursor.next >= barriers;
        let at = if barriers == self.barriers {
            self.waiting.len()
        } else {
            self.waiting.iter().position(later).unwrap_or(self.waiting.len())
        };
        self.waiting.insert(at, Cursor { id, stream, fua, gathers, next, end });
    }

    /// Later writes wait until all earlier ones are durable.
    pub fn barrier(&mut self) {
        if self.protected {
            return;
        }
        let next = self.barriers;
        let (stream, fua, gathers) = (0, false, false);
        self.waiting.push_back(Cursor { id: NONE, stream, fua, gathers, next, end: next });
        self.barriers += 1;
    }

    /// Returns whether everything before a barrier is durable.
    fn passes(&mut self, barrier: u32) -> bool {
        self.buffer.force();
        let before = |partial: &Partial| partial.reads > 0 && partial.barriers <= barrier;
        self.buffer.used() == 0 && !self.partial.iter().any(before)
    }

    /// Returns whether a write waits for the buffer.
    #[inline]
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lets waiting writes into the buffer, as far as it has room.
    pub fn admit(&mut self, context: &mut Context) {
        while let Some(cursor) = self.waiting.front_mut() {
            let Cursor { id, stream, fua, gathers, next, end } = *cursor;
            if id == NONE {
                if !self.passes(next) {
                    return;
                }
                self.waiting.pop_front();
                continue;
            }
            if next == end {
                self.waiting.pop_front();
                context.finish_ok(id);
                continue;
            }
            let durable = self.room == 0 || (fua && !self.protected);
            if !durable && self.buffer.merge(next).is_some() {
                #[cfg(test)]
                if let (Some(shadow), Some(version)) =
                    (&mut context.shadow, self.buffer.version(next))
                {
                    shadow.admit(next, version);
                }
                cursor.next += 1;
                if self.log_ends > 0 {
                    let bytes = self.bytes_of(next, context.request(id));
                    self.buffer.complete(next, bytes);
                }
                context.note(|owners| self.buffer.tell_owner(next, Some(id), owners));
                continue;
            }
            if self.room > 0 && self.buffer.used() >= self.room {
                return;
            }
            cursor.next += 1;
            let waiter = if durable { id } else { NONE };
            if durable {
                context.open(id);
            }
            let stream = self.stream_of(next, stream);
            let _version = self.buffer.admit(next, stream, waiter, !durable);
            if gathers && !durable {
                let lacks = self.shape.unit - self.bytes_of(next, context.request(id));
                if lacks > 0 {
                    self.buffer.hold(next, lacks);
                }
            }
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.admit(next, _version);
            }
            context.note(|owners| self.buffer.tell_owner(next, Some(id), owners));
            context.statistics.host_units += 1;
            if durable && next + 1 == end {
                self.buffer.force();
            }
        }
    }

    /// The stream of open blocks that a unit goes to.
    #[inline]
    fn stream_of(&mut self, unit: u32, stream: u16) -> u16 {
        if let Some(end) = self.log_end(stream) {
            return self.host_streams + end;
        }
        match &mut self.heat {
            Some(heat) => {
                let host = stream % (self.host_streams / 2);
                2 * host + u16::from(heat.write(unit))
            }
            None => stream % self.host_streams,
        }
    }

    /// The end of a log of pairs whose writes have a stream, where there is such a log.
    #[inline]
    fn log_end(&self, stream: u16) -> Option<u16> {
        (self.log_ends > 0).then(|| stream.checked_sub(LOG_STREAM)).flatten()
    }

    /// Bytes of a unit that a request writes.
    fn bytes_of(&self, unit: u32, request: &Request) -> u32 {
        self.shape.overlap(unit, request.offset, request.length)
    }

    /// A unit of the map of a layer above has new contents: it enters the buffer at once, in the
    /// stream behind the others.
    pub fn write_map_unit(&mut self, unit: u32, context: &mut Context) {
        if self.buffer.merge(unit).is_none() {
            self.buffer.admit(unit, self.host_streams + self.log_ends, NONE, self.protected);
        }
        context.note(|owners| self.buffer.tell_owner(unit, None, owners));
        #[cfg(test)]
        if let (Some(shadow), Some(version)) = (&mut context.shadow, self.buffer.version(unit)) {
            shadow.admit(unit, version);
        }
    }

    /// A flush waits for all writes before it.
    pub fn flush(&mut self, id: RequestId, context: &mut Context) {
        if self.protected {
            return;
        }
        context.open(id);
        self.buffer.force();
        self.flushes.push_back((id, self.buffer.sequence()));
        self.finish_flushes(context);
    }

    /// Ends the flushes before which everything is durable.
    #[inline]
    pub fn finish_flushes(&mut self, context: &mut Context) {
        while let Some(&(id, barrier)) = self.flushes.front() {
            if self.buffer.oldest().is_some_and(|oldest| oldest <= barrier) {
                return;
            }
            self.flushes.pop_front();
            context.finish_ok(id);
        }
    }

    /// The drive has become read-only: waiting writes fail, and flushes of what cannot become
    /// durable.
    pub fn refuse(&mut self, context: &mut Context) {
        let failed = Fate::failed(Status::WriteError);
        let none = Breakdown::default();
        for cursor in self.waiting.drain(..).filter(|cursor| cursor.id != NONE) {
            context.finish(cursor.id, failed, &none);
        }
        if !self.flushes.is_empty() {
            let fate = if self.buffer.owes() { failed } else { Fate::Done };
            self.flushes.drain(..).for_each(|(id, _)| context.finish(id, fate, &none));
        }
        self.buffer.give_up(|id| context.finish(id, failed, &none));
    }

    /// The power failed: nothing waits any more, and an unprotected buffer is empty. Calls `lost`
    /// with each acknowledged unit that is gone; returns the units that wait again, with the
    /// numbers of their writes.
    pub fn power_cut(&mut self, lost: impl FnMut(u32)) -> Vec<(u32, u64)> {
        self.waiting.clear();
        self.flushes.clear();
        self.partial.clear();
        self.partial_free.clear();
        self.buffer.power_cut(self.protected, lost)
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use stasis_block::Operation;
    use stasis_nand::{Op, OpKind, PageAddress, Priority};

    use super::super::blocks::Blocks;
    use super::super::testing::{context, drive, UNIT};
    use super::*;
    use crate::ftl::request::Open;
    use crate::spec::WearLevelling;

    /// A queue whose buffer has room for `room` units, and a placement with unit 0 in a slot.
    fn parts(room: u64) -> (WriteQueue, Placement, Context) {
        let (spec, shape) = drive(Spec { buffer: room * UNIT, ..Spec::default() }, 1, 4, 64);
        let mut blocks = Blocks::new(shape, WearLevelling::None, 8, 1);
        let block = blocks.open(0).unwrap();
        let mut placement = Placement::new(shape, shape.units, blocks, false);
        placement.write(0, shape.slot(block, 0));
        let context = context(&spec, &shape);
        (WriteQueue::new(&spec, shape, 64 * UNIT, 1), placement, context)
    }

    /// A read that succeeded.
    fn done() -> OpDone {
        let (at, bytes) = (PageAddress::default(), UNIT as u32);
        let (kind, priority) = (OpKind::Read, Priority::Read);
        let op = Op { kind, at, source: at, bytes, priority, token: 0, group: 0 };
        let (status, times) = (OpStatus::Ok, Breakdown::default());
        OpDone { number: 0, token: 0, op, at: 0, status, times, retries: 0 }
    }

    /// A request under way, with one piece for its write.
    fn request(context: &mut Context, offset: u64, length: u64, fua: bool) -> Request {
        let operation = Operation::Write;
        let request = Request { id: 0, operation, offset, length, stream: 0, fua };
        let id = context.begin(Open::new(0, request, None, 0));
        Request { id, ..request }
    }

    #[test]
    fn writes_enter_as_far_as_there_is_room_and_then_in_order() {
        let (mut queue, placement, mut context) = parts(2);
        let first = request(&mut context, 8 * UNIT, 3 * UNIT, false);
        assert_eq!(queue.write(&first, &placement), None);
        queue.admit(&mut context);
        assert!(queue.waits() && context.finished.is_empty());
        assert_eq!(queue.buffer().used(), 2);
        let entry = queue.buffer_mut().take(0).unwrap();
        queue.buffer_mut().land(entry);
        queue.admit(&mut context);
        assert_eq!(context.finished, [first.id]);
        assert!(!queue.waits() && queue.buffer().holds(10) && !queue.buffer().holds(8));
    }

    #[test]
    fn a_part_of_a_mapped_unit_is_read_first_and_keeps_its_place_before_a_barrier() {
        let (mut queue, placement, mut context) = parts(8);
        let part = request(&mut context, 512, 512, false);
        let completing = queue.write(&part, &placement).unwrap();
        assert_eq!(completing.slots, [placement.slot(0), None]);
        queue.barrier();
        let later = request(&mut context, 8 * UNIT, UNIT, false);
        assert_eq!(queue.write(&later, &placement), None);
        queue.admit(&mut context);
        assert_eq!((queue.buffer().used(), context.finished.len()), (0, 0), "behind the barrier");
        queue.completed(completing.number, &done(), &mut context);
        queue.admit(&mut context);
        assert_eq!(context.finished, [part.id], "before the barrier");
        let entry = queue.buffer_mut().take(0).unwrap();
        queue.buffer_mut().land(entry);
        queue.admit(&mut context);
        assert_eq!(context.finished, [part.id, later.id]);
    }

    #[test]
    fn flushes_and_forced_writes_wait_for_the_cells_and_fail_where_there_are_none_left() {
        let (mut queue, placement, mut context) = parts(8);
        let fua = request(&mut context, 8 * UNIT, UNIT, true);
        queue.write(&fua, &placement);
        queue.admit(&mut context);
        let flush = request(&mut context, 0, 0, false);
        queue.flush(flush.id, &mut context);
        // The piece that the drive holds during a call.
        context.finish_ok(flush.id);
        assert!(context.finished.is_empty());
        assert!(queue.buffer_mut().wants_page(0, 8), "a page of one unit is forced");
        queue.refuse(&mut context);
        context.finished.sort_unstable();
        assert_eq!(context.finished, [fua.id, flush.id]);
        assert!(matches!(context.requests[fua.id as usize].fate, Fate::Failed { .. }));
        // Data that were not acknowledged are not owed.
        assert_eq!(context.requests[flush.id as usize].fate, Fate::Done);
    }

    #[test]
    fn a_power_cut_loses_what_was_acknowledged_and_is_not_protected() {
        for plp in [false, true] {
            let (mut queue, placement, mut context) = parts(8);
            queue.protected = plp;
            let write = request(&mut context, 8 * UNIT, 2 * UNIT, false);
            queue.write(&write, &placement);
            queue.admit(&mut context);
            let mut lost = Vec::new();
            let kept: Vec<u32> =
                queue.power_cut(|unit| lost.push(unit)).iter().map(|(unit, _)| *unit).collect();
            assert_eq!(if plp { &kept } else { &lost }, &[8, 9]);
            assert_eq!((kept.len() + lost.len(), queue.buffer().used()), (2, 2 * u32::from(plp)));
        }
    }
}
