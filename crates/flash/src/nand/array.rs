//! The array: operations in, their ends out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stasis_clock::Nanos;

use super::usage::Usage;
use super::{ArrayOptions, Breakdown, Op, OpDone, OpKind, OpStatus, Scope};
use crate::{CellPattern, Faults, Geometry, PlaneId, Timing, Variation};

/// A NAND array; see the [module](crate::nand).
#[derive(Debug)]
pub struct Array {
    geometry: Geometry,
    cells: CellPattern,
    timing: Timing,
    planes: Vec<Nanos>,
    channels: Vec<Nanos>,
    erases: Vec<u32>,
    due: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    ops: Vec<OpDone>,
    free: Vec<usize>,
    sequence: u64,
    channel_usage: Usage,
    lun_usage: Usage,
}

impl Array {
    /// An idle array whose blocks were never erased.
    pub fn new(
        geometry: Geometry,
        cells: CellPattern,
        timing: Timing,
        _options: ArrayOptions,
        _variation: Variation,
        _faults: Faults,
        _seed: u64,
    ) -> Self {
        Self {
            geometry,
            cells,
            timing,
            planes: vec![0; geometry.total_planes() as usize],
            channels: vec![0; geometry.channels as usize],
            erases: vec![0; geometry.total_blocks() as usize],
            due: BinaryHeap::new(),
            ops: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            channel_usage: Usage::new(geometry.channels),
            lun_usage: Usage::new(geometry.total_luns()),
        }
    }

    /// An operation reaches the array at `now`, which is not before any earlier
    /// time.
    pub fn submit(&mut self, now: Nanos, op: Op) {
        debug_assert!(self.geometry.contains(op.at));
        let (plane, channel) =
            (op.at.plane.0 as usize, self.geometry.channel(op.at.plane) as usize);
        let page_type = self.cells.page_type(op.at.page);
        let transfer = self.timing.bus.time(op.bytes);
        let start = self.planes[plane].max(now);
        let (end, cell, transfer) = match op.kind {
            OpKind::Read => {
                let ready = start + self.timing.read(page_type);
                (ready.max(self.channels[channel]) + transfer, ready - start, transfer)
            }
            OpKind::Program => {
                let cell = self.timing.program(page_type);
                (start.max(self.channels[channel]) + transfer + cell, cell, transfer)
            }
            OpKind::Erase => {
                let index = self.geometry.block_index(op.at.plane, op.at.block) as usize;
                self.erases[index] = self.erases[index].saturating_add(1);
                (start + self.timing.erase, self.timing.erase, 0)
            }
            OpKind::Copyback => {
                let source = self.timing.read(self.cells.page_type(op.source.page));
                let cell = source + self.timing.program(page_type);
                (start + cell, cell, 0)
            }
        };
        if transfer > 0 {
            let until = if op.kind == OpKind::Read { end } else { end - cell };
            self.channels[channel] = until;
            self.channel_usage.add(channel as u32, until - transfer, until);
        }
        self.planes[plane] = end;
        self.lun_usage.add(self.geometry.lun(op.at.plane), start, end);
        let queue = end - now - cell - transfer;
        let times = Breakdown { queue, cell, channel: transfer, ..Breakdown::default() };
        let done = OpDone { token: op.token, op, at: end, status: OpStatus::Ok, times, retries: 0 };
        let slot = self.free.pop().unwrap_or(self.ops.len());
        if slot == self.ops.len() {
            self.ops.push(done);
        } else {
            self.ops[slot] = done;
        }
        self.due.push(Reverse((end, self.sequence, slot)));
        self.sequence += 1;
    }

    /// When something next happens; `None` while nothing is under way.
    pub fn next_event(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next operation that ends at or before `until`, in the order of time.
    /// What follows from it is submitted at its end, before the next call.
    pub fn pop(&mut self, until: Nanos) -> Option<OpDone> {
        if self.next_event()? > until {
            return None;
        }
        let Reverse((_, _, slot)) = self.due.pop()?;
        self.free.push(slot);
        Some(self.ops[slot])
    }

    /// From `now` on, only housekeeping starts in `scope`, until it is released
    /// as often as it was held.
    pub fn hold(&mut self, _now: Nanos, _scope: Scope) {}

    /// Takes back one [`Array::hold`].
    pub fn release(&mut self, _now: Nanos, _scope: Scope) {}

    /// The times of operations.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Other times for steps that begin later.
    pub fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// What the array consists of.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// How often a block was erased.
    pub fn erases(&self, plane: PlaneId, block: u32) -> u32 {
        self.erases[self.geometry.block_index(plane, block) as usize]
    }

    /// Makes a block as worn as if it had been erased so often.
    pub fn set_erases(&mut self, plane: PlaneId, block: u32, erases: u32) {
        self.erases[self.geometry.block_index(plane, block) as usize] = erases;
    }

    /// How busy each channel was.
    pub fn channel_usage(&self) -> &Usage {
        &self.channel_usage
    }

    /// How busy each LUN was, counted through the array: a LUN is busy while any
    /// of its planes is.
    pub fn lun_usage(&self) -> &Usage {
        &self.lun_usage
    }
}
