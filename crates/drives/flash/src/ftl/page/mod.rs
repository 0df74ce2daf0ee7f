//! Page mapping: each unit may lie in any slot, and the whole map is in memory.

mod above;
mod begin;
pub(super) mod blocks;
mod collect;
mod heat;
mod host;
mod map;
mod programs;
mod recover;
mod relocation;
mod retire;
mod writes;

use std::collections::{BTreeMap, VecDeque};

use stasis_block::{CacheKind, Health, PowerLoss};
use stasis_clock::Nanos;
use stasis_nand::OpDone;

pub(super) use self::above::{Above, Change, Event};
use self::blocks::Blocks;
use self::collect::Collector;
use self::heat::Heat;
use self::map::Map;
use self::programs::Programs;
use self::writes::{Cursor, Partial};
use super::{Context, Dropped, Ftl, PageRead, PageRun, PowerCut, Request, RequestId, Shape};
use crate::buffer::{Buffer, IN_FLIGHT, NONE};
use crate::gc::{self, VictimPolicy};
use crate::spec::{GcSpec, Precondition, Spec, SpecError, WearLevelling};

/// Kinds of operation, in the high byte of a token; the rest identifies the subject.
const HOST_READ: u64 = 1 << 56;
const PARTIAL_READ: u64 = 2 << 56;
const PROGRAM: u64 = 3 << 56;
const GC_READ: u64 = 4 << 56;
const GC_PROGRAM: u64 = 5 << 56;
const GC_COPY: u64 = 6 << 56;
const ERASE: u64 = 7 << 56;
const KIND: u64 = 0xFF << 56;

/// Free blocks of a plane that are kept for collection: one to move into, and
/// one in case that fails.
const RESERVE: u32 = 2;

/// The page-mapped translation layer.
#[derive(Debug)]
pub(crate) struct PageFtl {
    pub(super) shape: Shape,
    capacity: u64,
    pub(super) map: Map,
    pub(super) blocks: Blocks,
    pub(super) buffer: Buffer,
    // Units that the buffer has room for; 0 to write through.
    room: u32,
    pub(super) protected: bool,
    waiting: VecDeque<Cursor>,
    flushes: VecDeque<(RequestId, u64)>,
    // How many there were.
    barriers: u32,
    // Writes of parts of units, by number: what they wait for.
    partial: Vec<Partial>,
    partial_free: Vec<u32>,
    streams: u32,
    // Those that the host's units go to: all, or all but the last.
    host_streams: u32,
    // Units behind the host's, which hold a layer's map.
    map_units: u32,
    // Changes of the map for the layer above, if there is one.
    pub(super) changes: Option<Vec<Change>>,
    // Where hot units are kept apart.
    heat: Option<Heat>,
    // Open blocks, by plane and stream.
    open: Vec<u32>,
    // Planes in the order of writing, and where it is.
    pub(super) order: Vec<u32>,
    turn: usize,
    // No plane takes a page until one changes.
    pub(super) stalled: bool,
    pub(super) programs: Programs,
    // Pages that are being programmed for the host.
    pub(super) programming: u32,
    // Multi-plane operations: the last one's number, LUN, planes and time.
    group: u32,
    lockstep: Option<(Nanos, u32, u32)>,
    multi_plane: bool,
    // The host's reads that are under way, by block.
    pub(super) reads: Vec<u32>,
    collectors: Vec<Collector>,
    pub(super) collecting: u32,
    policy: Box<dyn VictimPolicy>,
    gc: GcSpec,
    pub(super) copyback: bool,
    levelling: WearLevelling,
    // When the host fell silent.
    idle_since: Option<Nanos>,
    background_at: Option<Nanos>,
    // Units whose data was lost (or corrupted, with the seed) inside.
    pub(super) damaged: BTreeMap<u32, Option<u64>>,
    endurance: u32,
    seed: u64,
    pub(super) erases: u64,
    spare: u64,
    retired: u64,
    pub(super) read_only: bool,
}

/// Builds it from a checked description.
pub(super) fn build(spec: &Spec, capacity: u64, seed: u64) -> Result<Box<dyn Ftl>, SpecError> {
    Ok(Box::new(PageFtl::new(spec, capacity, seed, Above::Nothing)?))
}

impl PageFtl {
    /// With a layer above, or none.
    pub(super) fn new(
        spec: &Spec,
        capacity: u64,
        seed: u64,
        above: Above,
    ) -> Result<Self, SpecError> {
        let shape = Shape::new(spec, capacity);
        let host_streams = spec.open_streams();
        let map_units = if let Above::Map { units } = above { units } else { 0 };
        let streams = host_streams + u32::from(map_units > 0);
        let room = (spec.buffer / spec.mapping_unit.max(1)).min(u64::from(NONE - 1)) as u32;
        // A buffer that cannot fill a page of each stream would never be full.
        let room = if spec.buffer == 0 { 0 } else { room.max(1) };
        let data = u64::from((shape.units + map_units).div_ceil(shape.block_slots));
        let working = u64::from(shape.planes) * u64::from(streams + 1 + RESERVE);
        Ok(Self {
            capacity,
            map: Map::new(shape.units + map_units, shape.total_slots()),
            blocks: Blocks::new(shape, spec.wear_levelling),
            buffer: Buffer::new(streams),
            room,
            protected: spec.plp && room > 0,
            waiting: VecDeque::with_capacity(IN_FLIGHT),
            flushes: VecDeque::with_capacity(IN_FLIGHT),
            barriers: 0,
            partial: Vec::with_capacity(IN_FLIGHT),
            partial_free: Vec::with_capacity(IN_FLIGHT),
            streams,
            host_streams,
            map_units,
            changes: (above != Above::Nothing).then(Vec::new),
            heat: spec.hot_cold.then(Heat::new),
            open: vec![NONE; (shape.planes * streams) as usize],
            order: spec.stripe_order()?,
            turn: 0,
            stalled: false,
            programs: Programs::new(shape.slots),
            programming: 0,
            group: 0,
            lockstep: None,
            multi_plane: spec.plane_mode == crate::spec::Planes::Lockstep,
            reads: vec![0; shape.blocks() as usize],
            collectors: (0..shape.planes).map(|_| Collector::new(shape.slots)).collect(),
            collecting: 0,
            policy: gc::build(&spec.gc, seed),
            copyback: spec.gc.copyback.unwrap_or(spec.gc.blocking == crate::spec::Blocking::Plane),
            gc: spec.gc.clone(),
            levelling: spec.wear_levelling,
            idle_since: Some(0),
            background_at: None,
            damaged: BTreeMap::new(),
            endurance: spec.endurance,
            seed,
            erases: 0,
            spare: u64::from(shape.blocks()).saturating_sub(data + working),
            retired: 0,
            read_only: false,
            shape,
        })
    }

    /// The host has no command in flight any more.
    fn host_went_silent(&mut self, now: Nanos) {
        self.idle_since = Some(now);
        self.background_at = (self.gc.background > 0).then(|| now.saturating_add(self.gc.idle));
    }

    /// A slot no longer holds a unit.
    fn invalidate(&mut self, now: Nanos, slot: u32, context: &mut Context) {
        let block = self.shape.block_of(slot);
        self.blocks.drop_valid(block);
        let plane = self.shape.plane_of(block);
        if self.collectors[plane as usize].starved {
            // There was nothing to gain; now there may be.
            self.start_if_needed(now, plane, context);
        }
    }
}

impl Ftl for PageFtl {
    fn expect(&self, request: &Request) {
        self.map.prefetch_unit(self.shape.units_of(request.offset, request.length).0);
    }

    fn read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.host_read(now, request, context);
    }

    fn write(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.host_write(now, request, context);
        self.pump(now, context);
    }

    fn trim(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.host_trim(now, request, context);
        self.pump(now, context);
    }

    fn flush(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        self.host_flush(request, context);
        self.pump(now, context);
    }

    fn barrier(&mut self, now: Nanos, context: &mut Context) {
        if !self.protected {
            self.host_barrier();
        }
        self.pump(now, context);
    }

    fn done(&mut self, now: Nanos, done: &OpDone, context: &mut Context) {
        let whom = (done.token & !KIND) as u32;
        match done.token & KIND {
            HOST_READ => return self.read_done(now, whom, done, context),
            PARTIAL_READ => self.partial_read_done(now, whom, done, context),
            PROGRAM => self.program_done(now, whom, done, context),
            GC_READ => self.gc_read_done(now, whom, done, context),
            GC_PROGRAM => self.gc_program_done(now, whom, done, context),
            GC_COPY => self.gc_copy_done(now, whom, done, context),
            ERASE => self.erase_done(now, whom, done, context),
            _ => {}
        }
        self.pump(now, context);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.background_at
    }

    fn wake(&mut self, now: Nanos, context: &mut Context) {
        self.background_at = None;
        for plane in 0..self.shape.planes {
            self.start_if_needed(now, plane, context);
        }
    }

    fn host_active(&mut self, now: Nanos, active: bool, _context: &mut Context) {
        if active {
            (self.idle_since, self.background_at) = (None, None);
        } else {
            self.host_went_silent(now);
        }
    }

    fn power_cut(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context) {
        self.recover(now, cut, context);
    }

    fn power_loss(&self) -> PowerLoss {
        let unit = u64::from(self.shape.unit);
        let cache = match self.room {
            0 => CacheKind::None,
            _ if self.protected => CacheKind::Protected,
            room => CacheKind::Volatile(u64::from(room) * unit),
        };
        // A unit is mapped when all of it is programmed.
        PowerLoss::new(cache, unit)
    }

    fn precondition(&mut self, state: Precondition, _context: &mut Context) {
        match state {
            Precondition::None => {}
            Precondition::Sequential => self.begin_sequential(),
            Precondition::Steady => self.begin_steady(),
        }
        if state != Precondition::None {
            self.begin_map();
        }
    }

    fn health(&self, context: &Context) -> Health {
        self.state_of_health(context)
    }

    fn report(&self, _context: &Context) -> serde_json::Value {
        let free: u64 = self.blocks.planes.iter().map(|plane| u64::from(plane.free)).sum();
        serde_json::json!({
            "units": self.shape.units,
            "blocks": self.shape.blocks(),
            "free_blocks": free,
            "retired_blocks": self.retired,
            "spare_blocks": self.spare,
            // Full blocks, by how many sixteenths of them are valid.
            "valid": self.blocks.validity(),
            "buffered_units": self.buffer.used(),
        })
    }

    fn check(&self) {
        self.map.check();
        self.blocks.check(&self.map);
    }
}
