//! The host's requests: reads, writes through the buffer, trims, flushes.

use stasis_block::Operation;
use stasis_clock::Nanos;
use stasis_nand::{Op, OpDone, OpKind, Priority};

use super::{Context, Event, PageFtl, PageRead, PageRun, Request, HOST_READ};
use crate::ftl::{fate_of, RequestId};

impl PageFtl {
    pub(super) fn host_read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        context.statistics.read_units += u64::from(end - first);
        let mut run = PageRun::default();
        for unit in first..end {
            if !self.damaged.is_empty() && !self.buffer.holds(unit) {
                self.report_damage(unit, request, context);
            }
            let slot = if self.buffer.holds(unit) { None } else { self.map.slot(unit) };
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.read(unit, self.buffer.version(unit), slot);
            }
            let Some(slot) = slot else {
                context.statistics.unwritten_units += u64::from(!self.buffer.holds(unit));
                continue;
            };
            let (page, bytes) = (
                self.shape.page_of(slot),
                self.shape.overlap(unit, request.offset, request.length),
            );
            run.add(page, bytes, |read| self.read_page(now, request.id, read, context));
        }
        run.end(|read| self.read_page(now, request.id, read, context));
    }

    fn read_page(&mut self, now: Nanos, id: RequestId, read: PageRead, context: &mut Context) {
        context.open(id);
        self.submit_read(now, read.page, read.bytes, HOST_READ | u64::from(id), context);
    }

    pub(in crate::ftl) fn submit_read(
        &mut self,
        now: Nanos,
        page: u32,
        bytes: u32,
        token: u64,
        context: &mut Context,
    ) {
        let block = self.shape.block_of_page(page);
        self.reads[block as usize] += 1;
        let at = self.shape.address(block, page - block * self.shape.geometry.pages);
        let (kind, priority) = (OpKind::Read, Priority::Read);
        let group = self.group(now, at.plane.0);
        context.submit(now, Op { kind, at, source: at, bytes, priority, token, group });
    }

    fn report_damage(&self, unit: u32, request: &Request, context: &mut Context) {
        if let Some(damage) = self.damaged.get(&unit) {
            let at = self.shape.begin(unit, request.offset);
            context.finish_damaged(request.id, at, *damage);
        }
    }

    pub(super) fn read_done(
        &mut self,
        now: Nanos,
        id: RequestId,
        done: &OpDone,
        context: &mut Context,
    ) {
        let fate = fate_of(done.status, || self.begin_of(context.request(id), done));
        context.finish(id, fate, &done.times);
        self.read_ended(now, done, context);
    }

    /// Where what was read of a page begins in its request, as far as it still lies there.
    fn begin_of(&self, request: &Request, done: &OpDone) -> u64 {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        let here = |&unit: &u32| {
            self.map.slot(unit).is_some_and(|slot| self.shape.page(slot) == done.op.at)
        };
        (first..end).find(here).map_or(0, |unit| self.shape.begin(unit, request.offset))
    }

    /// A read of the host's no longer needs its block.
    pub(in crate::ftl) fn read_ended(&mut self, now: Nanos, done: &OpDone, context: &mut Context) {
        let block = self.shape.block(done.op.at.plane.0, done.op.at.block);
        self.reads[block as usize] -= 1;
        if self.reads[block as usize] == 0 {
            self.drained(now, done.op.at.plane.0, block, context);
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
                self.push_event(unit, Event::Moved);
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

    /// A flush waits for all writes before it.
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
}
