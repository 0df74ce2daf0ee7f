//! Writes of the host and of the layer above: through the buffer into the cells.

use stasis_block::{Fate, Status};
use stasis_clock::Nanos;
use stasis_nand::{Breakdown, OpDone, OpStatus};

use super::{Change, Context, Event, PageFtl, Request, PARTIAL_READ};
use crate::buffer::NONE;
use crate::ftl::RequestId;

/// A write that covers a part of units only, while those are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partial {
    request: Request,
    reads: u32,
    // Barriers that there were before it.
    barriers: u32,
}

/// A write that is not all in the buffer yet; with no request a barrier, whose
/// number is `next`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    id: RequestId,
    stream: u16,
    fua: bool,
    next: u32,
    end: u32,
}

impl PageFtl {
    /// A write. Units that it covers in part are read first.
    pub(super) fn host_write(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        if self.read_only {
            context.open(request.id);
            let fate = Fate::failed(Status::WriteError);
            return context.finish(request.id, fate, &Breakdown::default());
        }
        let (first, end) = self.shape.units_of(request.offset, request.length);
        if first == end {
            return;
        }
        context.open(request.id);
        let number = self.partial_free.pop().unwrap_or(self.partial.len() as u32);
        let partial = Partial { request: *request, reads: 0, barriers: self.barriers };
        if number as usize == self.partial.len() {
            self.partial.push(partial);
        } else {
            self.partial[number as usize] = partial;
        }
        let mut reads = 0;
        for unit in [Some(first), (end - 1 > first).then(|| end - 1)].into_iter().flatten() {
            if !self.is_partial(unit, request) || self.buffer.holds(unit) {
                continue;
            }
            if let Some(slot) = self.map.slot(unit) {
                reads += 1;
                self.partial[number as usize].reads = reads;
                let token = PARTIAL_READ | u64::from(number);
                self.submit_read(now, self.shape.page_of(slot), self.shape.unit, token, context);
            }
        }
        if reads == 0 {
            self.partial_free.push(number);
            self.enqueue(request, self.barriers);
        }
    }

    fn is_partial(&self, unit: u32, request: &Request) -> bool {
        let start = self.shape.offset(unit);
        // The drive's last unit may be a part only.
        let whole = u64::from(self.shape.unit).min(self.capacity - start);
        u64::from(self.shape.overlap(unit, request.offset, request.length)) < whole
    }

    pub(super) fn partial_read_done(
        &mut self,
        now: Nanos,
        number: u32,
        done: &OpDone,
        context: &mut Context,
    ) {
        self.partial[number as usize].reads -= 1;
        let Partial { request, reads, barriers } = self.partial[number as usize];
        if done.status == OpStatus::Uncorrectable {
            // The part of the unit that is not written is lost.
            context.open(request.id);
            context.finish(request.id, Fate::failed(Status::WriteError), &done.times);
        }
        if reads == 0 {
            self.partial_free.push(number);
            self.enqueue(&request, barriers);
        }
        self.read_ended(now, done, context);
    }

    /// A write waits for the buffer, before the barriers that came after it.
    fn enqueue(&mut self, request: &Request, barriers: u32) {
        let (next, end) = self.shape.units_of(request.offset, request.length);
        let &Request { id, stream, fua, .. } = request;
        let later = |cursor: &Cursor| cursor.id == NONE && cursor.next >= barriers;
        let at = if barriers == self.barriers {
            self.waiting.len()
        } else {
            self.waiting.iter().position(later).unwrap_or(self.waiting.len())
        };
        self.waiting.insert(at, Cursor { id, stream, fua, next, end });
    }

    /// Later writes wait until all earlier ones are durable.
    pub(super) fn host_barrier(&mut self) {
        let next = self.barriers;
        self.waiting.push_back(Cursor { id: NONE, stream: 0, fua: false, next, end: next });
        self.barriers += 1;
    }

    /// Whether everything before a barrier is durable.
    fn passes(&mut self, barrier: u32) -> bool {
        self.buffer.force();
        let before = |partial: &Partial| partial.reads > 0 && partial.barriers <= barrier;
        self.buffer.used() == 0 && !self.partial.iter().any(before)
    }

    /// Lets waiting writes into the buffer and the buffer into the cells.
    pub(super) fn pump(&mut self, now: Nanos, context: &mut Context) {
        self.admit(context);
        self.dispatch(now, context);
        if !self.flushes.is_empty() {
            self.finish_flushes(context);
        }
        self.make_room(now, context);
        self.read_only |= self.stalled && self.programming == 0 && self.collecting == 0;
        if self.read_only {
            self.refuse(context);
        }
    }

    /// Where writes wait and nothing is under way that lets them in when it ends, what the
    /// buffer holds goes to the cells. Again and again: if the host trimmed all of it, no
    /// program comes of it.
    fn make_room(&mut self, now: Nanos, context: &mut Context) {
        while !self.waiting.is_empty() && self.programming == 0 && !self.stalled {
            self.buffer.force();
            self.dispatch(now, context);
            self.admit(context);
            self.dispatch(now, context);
            // With an empty buffer, the writes that still wait are behind a barrier, and the
            // barrier waits for reads.
            if self.buffer.used() == 0 || self.read_only {
                return;
            }
        }
    }

    fn admit(&mut self, context: &mut Context) {
        while let Some(cursor) = self.waiting.front_mut() {
            let Cursor { id, stream, fua, next, end } = *cursor;
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
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.admit(next, _version);
            }
            context.statistics.host_units += 1;
            if durable && next + 1 == end {
                self.buffer.force();
            }
        }
    }

    /// The stream of open blocks that a unit goes to.
    fn stream_of(&mut self, unit: u32, stream: u16) -> u16 {
        match &mut self.heat {
            Some(heat) => {
                let host = stream % (self.host_streams / 2) as u16;
                2 * host + u16::from(heat.write(unit))
            }
            None => stream % self.host_streams as u16,
        }
    }

    /// The drive has become read-only: waiting writes fail.
    fn refuse(&mut self, context: &mut Context) {
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

    /// Records an event for the layer above.
    pub(super) fn push_event(&mut self, unit: u32, event: Event) {
        if let Some(changes) = &mut self.changes {
            changes.push(Change { unit, event });
        }
    }

    /// A unit of the layer's map has new contents.
    pub(in crate::ftl) fn write_map_unit(&mut self, now: Nanos, unit: u32, context: &mut Context) {
        if self.buffer.merge(unit).is_none() {
            let stream = self.host_streams as u16;
            self.buffer.admit(unit, stream, NONE, self.protected);
        }
        #[cfg(test)]
        if let (Some(shadow), Some(version)) = (&mut context.shadow, self.buffer.version(unit)) {
            shadow.admit(unit, version);
        }
        if !self.stalled {
            self.dispatch(now, context);
        }
    }
}
