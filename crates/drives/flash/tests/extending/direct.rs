//! Each unit has one place for ever, as on a memory that can be overwritten:
//! what a translation layer must do, and nothing else.

use stasis_block::clock::Nanos;
use stasis_block::{Fate, Health};
use stasis_flash::ftl::{Context, Ftl, PowerCut, Request, Shape};
use stasis_flash::{Spec, SpecError};
use stasis_nand::{Op, OpDone, OpKind, Priority};

#[derive(Debug)]
struct Direct {
    shape: Shape,
}

pub fn build(spec: &Spec, capacity: u64, _seed: u64) -> Result<Box<dyn Ftl>, SpecError> {
    Ok(Box::new(Direct { shape: Shape::new(spec, capacity) }))
}

impl Direct {
    /// An operation for each unit of a request, which waits for all of them.
    fn each(&self, now: Nanos, kind: OpKind, request: &Request, context: &mut Context) {
        let priority = if kind == OpKind::Read { Priority::Read } else { Priority::Write };
        let (first, end) = self.shape.units_of(request.offset, request.length);
        for unit in first..end {
            let (plane, row) = (unit % self.shape.planes, unit / self.shape.planes);
            let (block, slot) = (row / self.shape.block_slots, row % self.shape.block_slots);
            let at = self.shape.page(self.shape.slot(self.shape.block(plane, block), 0) + slot);
            let (bytes, token) = (self.shape.unit, u64::from(request.id));
            context.open(request.id);
            context.submit(now, Op { kind, at, source: at, bytes, priority, token, group: 0 });
        }
    }
}

impl Ftl for Direct {
    fn read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.each(now, OpKind::Read, request, context);
    }

    fn write(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.each(now, OpKind::Program, request, context);
    }

    fn trim(&mut self, _now: Nanos, _request: &Request, _context: &mut Context) {}

    // What is acknowledged is in the cells.
    fn flush(&mut self, _now: Nanos, _request: &Request, _context: &mut Context) {}

    fn barrier(&mut self, _now: Nanos, _context: &mut Context) {}

    fn done(&mut self, _now: Nanos, done: &OpDone, context: &mut Context) {
        context.finish(done.token as u32, Fate::Done, &done.times);
    }

    fn power_cut(&mut self, _now: Nanos, _cut: &mut PowerCut<'_>, _context: &mut Context) {}

    fn health(&self, _context: &Context) -> Health {
        Health::default()
    }
}
