//! The host's requests: reads, writes in their order, trims.

use stasis_block::clock::Nanos;
use stasis_nand::{Op, OpDone, OpKind, Priority};

use super::plane::Write;
use super::{zeroes, Context, Hybrid, Request, HOST_READ};
use crate::ftl::RequestId;

/// An entry of the queue, which is served in order.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waiting {
    /// Bytes of a request.
    Write { id: RequestId, offset: u64, length: u64 },
    /// Completes after all earlier writes.
    Barrier,
}

impl Hybrid {
    pub(super) fn host_read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        context.reads(request.id, end - first, 0);
        for unit in first..end {
            if let Some(damage) = self.mapping.damage(unit) {
                let at = self.shape.begin(unit, context.begin_of(request.id));
                context.finish_damaged(request.id, at, damage);
            }
            let slot = self.mapping.slot(unit);
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.read(unit, None, slot);
            }
            let Some(slot) = slot else {
                context.reads(request.id, 0, 1);
                continue;
            };
            context.open(request.id);
            self.reads[self.shape.block_of(slot) as usize] += 1;
            let at = self.shape.page(slot);
            let bytes = self.shape.overlap(unit, request.offset, request.length);
            let token = HOST_READ | u64::from(request.id);
            let (kind, priority) = (OpKind::Read, Priority::Read);
            let op = Op { kind, at, source: at, bytes, priority, token, group: 0 };
            context.submit_for(now, op, |owners| owners.request(request.id));
        }
    }

    /// Returns the offset of the unit that was read in its request, if still mapped there.
    pub(super) fn begin_of(&self, request: &Request, done: &OpDone) -> u64 {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        let here = |&unit: &u32| {
            self.mapping.slot(unit).is_some_and(|slot| self.shape.page(slot) == done.op.at)
        };
        (first..end).find(here).map_or(0, |unit| self.shape.begin(unit, request.offset))
    }

    pub(super) fn host_write(&mut self, request: &Request, context: &mut Context) {
        self.wait(request.id, request.offset, request.length, context);
    }

    fn wait(&mut self, id: RequestId, offset: u64, length: u64, context: &mut Context) {
        context.open(id);
        self.waiting.push_back(Waiting::Write { id, offset, length });
    }

    /// A discard: whole units are forgotten. A write of zeroes: and parts of
    /// units are written.
    pub(super) fn host_trim(&mut self, request: &Request, context: &mut Context) {
        let (first, end) = self.shape.units_within(request.offset, request.length);
        for unit in first..end {
            self.mapping.forget(unit);
            let plane = self.plane_of(unit);
            self.planes[plane as usize].forget(unit);
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.trim(unit);
            }
        }
        if !zeroes(request) {
            return;
        }
        let (from, until) = self.shape.units_of(request.offset, request.length);
        for unit in from..until {
            if (first..end).contains(&unit) {
                continue;
            }
            if self.mapping.slot(unit).is_some() || self.mapping.damage(unit).is_some() {
                let begin = self.shape.offset(unit).max(request.offset);
                let length = self.shape.overlap(unit, request.offset, request.length);
                self.wait(request.id, begin, u64::from(length), context);
            }
        }
    }

    /// Hands writes to their planes, as far as barriers let them.
    pub(super) fn pump(&mut self, now: Nanos, context: &mut Context) {
        while let Some(&front) = self.waiting.front() {
            let Waiting::Write { id, offset, length } = front else {
                if self.writing > 0 {
                    return;
                }
                self.waiting.pop_front();
                continue;
            };
            self.waiting.pop_front();
            let (first, end) = self.shape.units_of(offset, length);
            for unit in first..end {
                let bytes = u64::from(self.shape.overlap(unit, offset, length));
                let whole = u64::from(self.shape.unit);
                let part = bytes < whole.min(self.capacity - self.shape.offset(unit));
                let plane = self.plane_of(unit);
                context.open(id);
                context.statistics.host_units += 1;
                self.writing += 1;
                self.planes[plane as usize].queue.push_back(Write { id, unit, part });
                self.drive(now, plane, context);
            }
            context.finish_ok(id);
        }
    }
}
