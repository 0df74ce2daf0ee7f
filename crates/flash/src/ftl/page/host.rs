//! The host's requests: reads, writes through the buffer, trims, flushes.

use stasis_block::{Fate, Operation, Status};
use stasis_clock::Nanos;

use super::{Context, PageFtl, Request, HOST_READ, PARTIAL_READ};
use crate::buffer::NONE;
use crate::ftl::RequestId;
use crate::nand::{Breakdown, Op, OpDone, OpKind, OpStatus, Priority};

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
    pub(super) fn host_read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        // Units of one page that follow one another are one operation.
        let mut run: Option<(u32, u32)> = None;
        for unit in first..end {
            if !self.damaged.is_empty() && !self.buffer.holds(unit) {
                self.report_damage(unit, request, context);
            }
            let slot = if self.buffer.holds(unit) { None } else { self.map.slot(unit) };
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.read(unit, self.buffer.version(unit), slot);
            }
            let Some(slot) = slot else { continue };
            let (page, bytes) =
                (slot / self.shape.slots, self.shape.overlap(unit, request.offset, request.length));
            match &mut run {
                Some((last, sum)) if *last == page => *sum += bytes,
                _ => {
                    if let Some((last, sum)) = run.replace((page, bytes)) {
                        self.read_page(now, request.id, last, sum, context);
                    }
                }
            }
        }
        if let Some((last, sum)) = run {
            self.read_page(now, request.id, last, sum, context);
        }
    }

    fn read_page(
        &mut self,
        now: Nanos,
        id: RequestId,
        page: u32,
        bytes: u32,
        context: &mut Context,
    ) {
        context.open(id);
        self.submit_read(now, page, bytes, HOST_READ | u64::from(id), context);
    }

    fn submit_read(
        &mut self,
        now: Nanos,
        page: u32,
        bytes: u32,
        token: u64,
        context: &mut Context,
    ) {
        let block = page / self.shape.geometry.pages;
        self.reads[block as usize] += 1;
        let at = self.shape.address(block, page - block * self.shape.geometry.pages);
        let (kind, priority) = (OpKind::Read, Priority::Read);
        let group = self.group(now, at.plane.0);
        context.submit(now, Op { kind, at, source: at, bytes, priority, token, group });
    }

    fn report_damage(&self, unit: u32, request: &Request, context: &mut Context) {
        if let Some(damage) = self.damaged.get(&unit) {
            let fate = match damage {
                None => Fate::Failed(Status::ReadError),
                Some(seed) => Fate::Corrupted { seed: *seed },
            };
            context.open(request.id);
            context.finish(request.id, fate, &Breakdown::default());
        }
    }

    pub(super) fn read_done(
        &mut self,
        now: Nanos,
        id: RequestId,
        done: &OpDone,
        context: &mut Context,
    ) {
        context.finish(id, fate(done.status), &done.times);
        self.read_ended(now, done, context);
    }

    /// A read of the host's no longer needs its block.
    fn read_ended(&mut self, now: Nanos, done: &OpDone, context: &mut Context) {
        let block = self.shape.block(done.op.at.plane.0, done.op.at.block);
        self.reads[block as usize] -= 1;
        if self.reads[block as usize] == 0 {
            self.drained(now, done.op.at.plane.0, block, context);
        }
    }

    /// A write. What it covers a part of is read first.
    pub(super) fn host_write(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        if self.read_only {
            context.open(request.id);
            let fate = Fate::Failed(Status::WriteError);
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
                self.submit_read(now, slot / self.shape.slots, self.shape.unit, token, context);
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
            // What is not written of the unit cannot be kept.
            context.open(request.id);
            context.finish(request.id, Fate::Failed(Status::WriteError), &done.times);
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

    /// What is written from now on waits until everything before is durable.
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
        // Nothing would make room by itself.
        if !self.waiting.is_empty() && self.programming == 0 && !self.stalled {
            self.buffer.force();
            self.dispatch(now, context);
            self.admit(context);
            self.dispatch(now, context);
        }
        self.read_only |= self.stalled && self.programming == 0 && self.collecting == 0;
        if self.read_only {
            self.refuse(context);
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
                let host = stream % (self.streams / 2) as u16;
                2 * host + u16::from(heat.write(unit))
            }
            None => stream % self.streams as u16,
        }
    }

    /// A discard: whole units are forgotten. A write of zeroes: and parts of
    /// units are written.
    pub(super) fn host_trim(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        let (first, end) = self.shape.units_within(request.offset, request.length);
        for unit in first..end {
            self.buffer.trim(unit);
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.trim(unit);
            }
            if !self.damaged.is_empty() {
                self.damaged.remove(&unit);
            }
            if let Some(old) = self.map.clear(unit) {
                self.invalidate(now, old, context);
            }
        }
        self.finish_flushes(context);
        if request.operation != Operation::WriteZeroes {
            return;
        }
        let (from, until) = self.shape.units_of(request.offset, request.length);
        for (start, stop) in [(from, first.min(until)), (end.max(from), until)] {
            for unit in start..stop {
                if self.map.slot(unit).is_none() && !self.buffer.holds(unit) {
                    continue;
                }
                let begin = self.shape.offset(unit).max(request.offset);
                let length = u64::from(self.shape.overlap(unit, request.offset, request.length));
                self.host_write(now, &Request { offset: begin, length, ..*request }, context);
            }
            // A range inside one unit is both its first and its last.
            if first >= end && start < stop {
                break;
            }
        }
    }

    /// A flush waits for what was written before it.
    pub(super) fn host_flush(&mut self, request: &Request, context: &mut Context) {
        if self.protected {
            return;
        }
        context.open(request.id);
        self.buffer.force();
        self.flushes.push_back((request.id, self.buffer.sequence()));
        self.finish_flushes(context);
    }

    pub(super) fn finish_flushes(&mut self, context: &mut Context) {
        while let Some(&(id, barrier)) = self.flushes.front() {
            if self.buffer.oldest().is_some_and(|oldest| oldest <= barrier) {
                return;
            }
            self.flushes.pop_front();
            context.finish_ok(id);
        }
    }

    /// The drive can only be read any more: what waits to be written fails.
    fn refuse(&mut self, context: &mut Context) {
        let failed = Fate::Failed(Status::WriteError);
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
}

/// What the host is told.
fn fate(status: OpStatus) -> Fate {
    match status {
        OpStatus::Ok | OpStatus::ProgramFailed | OpStatus::EraseFailed => Fate::Done,
        OpStatus::Uncorrectable => Fate::Failed(Status::ReadError),
        OpStatus::Corrupted { seed } => Fate::Corrupted { seed },
    }
}
