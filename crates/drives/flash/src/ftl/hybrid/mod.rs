//! Hybrid log-block mapping: blocks are mapped, and a few more take what is
//! written (BAST: Kim, Kim, Noh, Min and Cho, IEEE Transactions on Consumer
//! Electronics 2002).
//!
//! A logical block has a data block, in which each unit lies at its own page,
//! and while it is written a log block, in which units lie in the order in which
//! they came. A write without a log block takes a free one, or merges the logical
//! block that was written longest ago.
//!
//! Writes go through: there is no write buffer, so what was acknowledged is in
//! the cells. A plane does one thing after another, besides reads and erases. The
//! mapping is kept by unit for speed; [`Ftl::check`] asserts that it is of blocks.

mod host;
mod mapping;
mod merge;
mod plane;

use std::collections::{BTreeSet, VecDeque};

use stasis_block::clock::Nanos;
use stasis_block::{CacheKind, Health, Operation, PowerLoss};
use stasis_nand::{hash::bits, OpDone, OpKind, OpStatus};

use self::host::Waiting;
use self::mapping::Mapping;
use self::merge::Merges;
use self::plane::{Log, Plane};
use super::{fate_of, Context, Dropped, Ftl, Occupancy, PowerCut, Request, Shape};
use crate::buffer::IN_FLIGHT;
use crate::narrow::{count, percentage, remainder, subject};
use crate::spec::{Blocking, Precondition, Spec, SpecError};

/// Kinds of operation, in the high byte of a token; the rest identifies the subject.
const HOST_READ: u64 = 1 << 56;
const OLD_READ: u64 = 2 << 56;
const PROGRAM: u64 = 3 << 56;
const MERGE_READ: u64 = 4 << 56;
const MERGE_PROGRAM: u64 = 5 << 56;
const PAD: u64 = 6 << 56;
const ERASE: u64 = 7 << 56;
const KIND: u64 = 0xFF << 56;

#[derive(Debug)]
struct Hybrid {
    shape: Shape,
    capacity: u64,
    mapping: Mapping,
    planes: Vec<Plane>,
    // The host's reads that are under way, by block.
    reads: Vec<u32>,
    waiting: VecDeque<Waiting>,
    // Units that are being written.
    writing: u32,
    log_blocks: usize,
    copyback: bool,
    merges: Merges,
    // Numbers writes.
    sequence: u64,
    erases: u64,
    spare: u64,
    retired: u64,
    read_only: bool,
    endurance: u32,
    seed: u64,
}

/// Builds it from a checked description.
pub(super) fn build(spec: &Spec, capacity: u64, seed: u64) -> Result<Box<dyn Ftl>, SpecError> {
    let shape = Shape::new(spec, capacity);
    let blocks = shape.units.div_ceil(shape.geometry.pages);
    let needed = blocks.div_ceil(shape.planes) + spec.log_blocks + 1;
    let spare = u64::from(shape.geometry.blocks.saturating_sub(needed)) * u64::from(shape.planes);
    let plane = |plane| {
        let first = shape.block(plane, 0);
        Plane::new(first..first + shape.geometry.blocks, spec.log_blocks)
    };
    Ok(Box::new(Hybrid {
        capacity,
        mapping: Mapping::new(shape, spec.stripe_order()?),
        planes: (0..shape.planes).map(plane).collect(),
        reads: vec![0; shape.blocks() as usize],
        waiting: VecDeque::with_capacity(IN_FLIGHT),
        writing: 0,
        log_blocks: spec.log_blocks as usize,
        copyback: spec.gc.copyback.unwrap_or(spec.gc.blocking == Blocking::Plane),
        merges: Merges::default(),
        sequence: 0,
        erases: 0,
        spare,
        retired: 0,
        read_only: false,
        endurance: spec.endurance,
        seed,
        shape,
    }))
}

impl Hybrid {
    /// The plane that a unit is written in.
    fn plane_of(&self, unit: u32) -> u32 {
        self.mapping.home(self.mapping.place(unit).0)
    }

    /// Everything was written once, in order.
    fn begin_sequential(&mut self) {
        for logical in 0..self.mapping.logical_blocks() {
            let plane = self.mapping.home(logical);
            let Some(block) = self.planes[plane as usize].free.pop_front() else { return };
            self.mapping.begin(logical, block);
        }
    }

    /// And then every log block got one write of a logical block drawn at random.
    fn begin_logs(&mut self) {
        let (rounds, planes) =
            (self.mapping.logical_blocks() / self.shape.planes, self.shape.planes);
        for draw in 0..u64::from(planes) * self.log_blocks as u64 * 4 {
            let turn = remainder(draw, planes);
            if rounds == 0 {
                return;
            }
            let round = remainder(bits(self.seed, draw), rounds);
            let logical = round * planes + turn;
            let units = self.mapping.units_of(logical);
            let unit = units.start + remainder(bits(!self.seed, draw), count(units.len()));
            let plane = &mut self.planes[self.mapping.home(turn) as usize];
            let taken = plane.logs.iter().any(|log| log.logical == logical);
            if taken || plane.logs.len() == self.log_blocks || plane.free.len() < 2 {
                continue;
            }
            if let Some(block) = plane.free.pop_front() {
                self.sequence += 1;
                let in_order = unit == units.start;
                let (next, bad, used) = (1, false, self.sequence);
                plane.logs.push(Log { logical, block, next, in_order, bad, used });
                self.mapping.write(unit, self.shape.slot(block, 0), None);
            }
        }
    }
}

impl Ftl for Hybrid {
    fn read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.host_read(now, request, context);
    }

    fn write(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.host_write(request, context);
        self.pump(now, context);
    }

    fn trim(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.host_trim(request, context);
        self.pump(now, context);
    }

    /// Acknowledged data is in the cells.
    fn flush(&mut self, _now: Nanos, _request: &Request, _context: &mut Context) {}

    fn barrier(&mut self, now: Nanos, context: &mut Context) {
        self.waiting.push_back(Waiting::Barrier);
        self.pump(now, context);
    }

    fn done(&mut self, now: Nanos, done: &OpDone, context: &mut Context) {
        let plane = done.op.at.plane.0;
        let failed = done.status == OpStatus::ProgramFailed;
        match done.token & KIND {
            HOST_READ => {
                let id = subject(done.token);
                let fate = fate_of(done.status, || self.begin_of(context.request(id), done));
                context.finish(id, fate, &done.times);
                self.reads[self.shape.block(plane, done.op.at.block) as usize] -= 1;
                return self.erase(now, plane, context);
            }
            OLD_READ => self.old_read(plane, done, context),
            PROGRAM => self.programmed(plane, done, context),
            MERGE_READ => self.merge_read(now, plane, done, context),
            MERGE_PROGRAM if done.op.kind == OpKind::Copyback => {
                self.take_damage(plane, done, context);
                self.merge_programmed(plane, failed, context);
            }
            MERGE_PROGRAM | PAD => self.merge_programmed(plane, failed, context),
            _ => self.erased(plane, done),
        }
        self.erase(now, plane, context);
        self.drive(now, plane, context);
        self.pump(now, context);
    }

    fn power_cut(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context) {
        self.waiting.clear();
        self.writing = 0;
        self.reads.fill(0);
        self.planes.iter_mut().for_each(Plane::power_cut);
        for Dropped { op, started } in cut.dropped {
            if matches!(op.kind, OpKind::Program | OpKind::Copyback) {
                let block = self.shape.block(op.at.plane.0, op.at.block);
                self.planes[op.at.plane.0 as usize].page_dropped(block, op.at.page, *started);
            }
        }
        for plane in 0..self.shape.planes {
            self.erase(now, plane, context);
        }
    }

    fn power_loss(&self) -> PowerLoss {
        PowerLoss::new(CacheKind::None, u64::from(self.shape.unit))
    }

    fn precondition(&mut self, state: Precondition, _context: &mut Context) {
        if state != Precondition::None {
            self.begin_sequential();
        }
        if state == Precondition::Steady {
            self.begin_logs();
        }
    }

    fn health(&self, context: &Context) -> Health {
        let spare = if self.read_only { 0 } else { self.spare.saturating_sub(self.retired) };
        let used = self.erases * 100 / (u64::from(self.endurance) * u64::from(self.shape.blocks()));
        Health {
            available_spare: percentage((spare * 100).checked_div(self.spare).unwrap_or(100)),
            percentage_used: percentage(used),
            media_bytes_written: context.media_bytes(),
            media_bytes_erased: context.erased_bytes(),
            read_only: self.read_only,
        }
    }

    fn free_blocks(&self) -> Option<u64> {
        Some(self.planes.iter().map(|plane| plane.free.len() as u64).sum())
    }

    fn occupancy(&self) -> Option<Occupancy> {
        let room = self.shape.room_without(self.retired);
        Some(Occupancy::new(self.shape.unit, self.mapping.held(), room))
    }

    fn report(&self, _context: &Context) -> serde_json::Value {
        let count = |size: fn(&Plane) -> usize| self.planes.iter().map(size).sum::<usize>();
        serde_json::json!({
            "units": self.shape.units,
            "blocks": self.shape.blocks(),
            "free_blocks": count(|plane| plane.free.len()),
            "log_blocks": count(|plane| plane.logs.len()),
            "retired_blocks": self.retired,
            "spare_blocks": self.spare,
            "merges": {
                "switch": self.merges.switch,
                "partial": self.merges.partial,
                "full": self.merges.full,
            },
            // Pages without data that merges programmed to get to the next.
            "padded_pages": self.merges.padded,
        })
    }

    fn check(&self) {
        self.mapping.check();
        for unit in 0..self.shape.units {
            let Some(slot) = self.mapping.slot(unit) else { continue };
            let (logical, page) = self.mapping.place(unit);
            let (block, at) = (self.shape.block_of(slot), slot % self.shape.geometry.pages);
            let logs = &self.planes[self.mapping.home(logical) as usize].logs;
            match logs.iter().find(|log| log.block == block) {
                Some(log) => assert!(log.logical == logical && at < log.next, "{unit} {log:?}"),
                None => assert_eq!((self.mapping.data(logical), page), (Some(block), at), "{unit}"),
            }
        }
        let mut used = BTreeSet::new();
        self.mapping
            .data_blocks()
            .for_each(|block| assert!(used.insert(block), "{block} has two uses"));
        for plane in &self.planes {
            assert!(plane.logs.len() <= self.log_blocks);
            for block in plane.blocks() {
                assert!(used.insert(block), "{block} has two uses");
            }
        }
        assert_eq!(used.len() as u64 + self.retired, u64::from(self.shape.blocks()));
    }
}

/// Returns whether the parts of units that a trim leaves over are to be written.
fn zeroes(request: &Request) -> bool {
    request.operation == Operation::WriteZeroes
}
