//! Page mapping: each unit may lie in any slot, and the whole map is in memory.
//!
//! The layer is composed of parts that own their state: writes wait in [`WriteQueue`], which has
//! the buffer; [`Frontier`] programs what is in it; [`Placement`] holds where units lie, with the
//! blocks, their wear and their spares; [`Cleaner`] makes space. A part reaches another only
//! through its methods, and is given it for a call.

mod above;
mod begin;
mod blocks;
mod cleaner;
mod due;
mod frontier;
mod gate;
mod heat;
mod lockstep;
mod map;
mod patrol;
mod placement;
mod programs;
mod queue;
mod recover;
mod remains;
mod spares;
#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod testing;
mod token;
mod victims;

use stasis_block::clock::Nanos;
use stasis_block::{Fate, Health, Operation, PowerLoss, Status};
use stasis_nand::hash::bits;
use stasis_nand::{Breakdown, Op, OpDone, OpKind, OpStatus, PageAddress, Priority};

pub(super) use self::above::{Above, Change, Event};
use self::begin::Beginning;
use self::blocks::{BlockState, Blocks};
use self::cleaner::{Cleaner, Moment};
use self::frontier::{Choice, Frontier};
use self::lockstep::Lockstep;
use self::placement::Placement;
use self::queue::WriteQueue;
use self::token::{
    ERASE, GC_COPY, GC_PROGRAM, GC_READ, HOST_READ, KIND, PARTIAL_READ, PATROL_READ, PROGRAM,
};
use super::{
    fate_of, Context, Ftl, Occupancy, PageRead, PageRun, PowerCut, Request, RequestId, Shape,
    SlcState,
};
use crate::buffer::NONE;
use crate::kept::{KeptError, Reader, Writer};
use crate::narrow::{self, count, remainder, subject};
use crate::owners::{Owner, Owners};
use crate::spec::{GcSpec, Planes, Precondition, Spec, SpecError, RESERVE};

/// The page-mapped translation layer.
#[derive(Debug)]
pub(crate) struct PageFtl {
    shape: Shape,
    capacity: u64,
    placement: Placement,
    queue: WriteQueue,
    frontier: Frontier,
    cleaner: Cleaner,
    lockstep: Lockstep,
    beginning: Beginning,
    // No space was left, and none could be made.
    full: bool,
    // There is a layer above.
    above: bool,
}

/// Builds it from a checked description.
pub(super) fn build(spec: &Spec, capacity: u64, seed: u64) -> Result<Box<dyn Ftl>, SpecError> {
    Ok(Box::new(PageFtl::new(spec, capacity, seed, Above::Nothing)?))
}

/// Blocks of each plane that are bad from the factory: each of a LUN's is in any of its planes.
fn bad_blocks(spec: &Spec, shape: &Shape, seed: u64) -> Vec<u32> {
    /// Stream of the seed.
    const FACTORY: u64 = 0x6661_6374_6f72_7900;
    let mut bad = vec![0; shape.planes as usize];
    let planes = shape.geometry.planes;
    for lun in 0..shape.planes / planes {
        for number in 0..spec.bad_blocks {
            let draw = bits(seed ^ FACTORY, u64::from(lun) << 32 | u64::from(number));
            bad[(lun * planes) as usize + remainder(draw, planes) as usize] += 1;
        }
    }
    bad
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
        let map_units = if let Above::Map { units } = above { units } else { 0 };
        let streams = spec.open_streams() + u32::from(map_units > 0);
        let units = shape.units + map_units;
        let data = u64::from(units.div_ceil(shape.block_slots));
        let cache = shape.cache.map_or(0, |cache| cache.fixed + cache.open());
        let working = u64::from(shape.planes) * u64::from(streams + 1 + RESERVE + cache);
        let bad = bad_blocks(spec, &shape, seed);
        let lost: u64 = bad.iter().map(|&bad| u64::from(bad)).sum();
        let spare = u64::from(shape.blocks()).saturating_sub(data + working + lost);
        let blocks = Blocks::new(shape, spec.wear_levelling, spare, spec.endurance).with_bad(&bad);
        Ok(Self {
            shape,
            capacity,
            placement: Placement::new(shape, units, blocks, above != Above::Nothing),
            queue: WriteQueue::new(spec, shape, capacity, streams),
            frontier: Frontier::new(shape, streams, spec.stripe_order()?)
                .with_own_turns(spec.host_streams()..spec.open_streams()),
            cleaner: Cleaner::new(spec, shape, seed),
            lockstep: Lockstep::new(spec.plane_mode == Planes::Lockstep, shape.geometry.planes),
            beginning: Beginning::new(spec, shape, map_units, seed),
            full: false,
            above: above != Above::Nothing,
        })
    }

    /// Returns whether it takes no more writes: too many blocks failed, or no space can be made.
    fn is_read_only(&self) -> bool {
        self.full || self.placement.blocks().spares().overdrawn()
    }

    fn host_read(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        let (mut run, mut unwritten) = (PageRun::default(), 0);
        for unit in first..end {
            let held = self.queue.buffer().holds(unit);
            let damage = if held { None } else { self.placement.damage(unit) };
            if let Some(damage) = damage {
                let at = self.shape.begin(unit, context.begin_of(request.id));
                context.finish_damaged(request.id, at, damage);
            }
            let slot = if held { None } else { self.placement.slot(unit) };
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.read(unit, self.queue.buffer().version(unit), slot);
            }
            let Some(slot) = slot else {
                unwritten += u32::from(!held);
                continue;
            };
            let (page, bytes) = (
                self.shape.page_of(slot),
                self.shape.overlap(unit, request.offset, request.length),
            );
            run.add(page, bytes, |read| self.read_page(now, request.id, read, context));
        }
        run.end(|read| self.read_page(now, request.id, read, context));
        context.reads(request.id, end - first, unwritten);
    }

    fn read_page(&mut self, now: Nanos, id: RequestId, read: PageRead, context: &mut Context) {
        context.open(id);
        let place = (read.page, read.bytes);
        self.submit_read(
            now,
            place,
            HOST_READ | u64::from(id),
            |owners| owners.request(id),
            context,
        );
    }

    fn submit_read(
        &mut self,
        now: Nanos,
        (page, bytes): (u32, u32),
        token: u64,
        owner: impl FnOnce(&mut Owners) -> Owner,
        context: &mut Context,
    ) {
        let block = self.shape.block_of_page(page);
        self.cleaner.read_began(block);
        let at = self.shape.address(block, page - block * self.shape.geometry.pages);
        let (kind, priority) = (OpKind::Read, Priority::Read);
        let group = self.lockstep.group(now, at.plane.0);
        let op = Op { kind, at, source: at, bytes, priority, token, group };
        context.submit_for(now, op, owner);
    }

    fn read_done(&mut self, now: Nanos, id: RequestId, done: &OpDone, context: &mut Context) {
        let fate = fate_of(done.status, || self.begin_of(context.request(id), done));
        context.finish(id, fate, &done.times);
        self.read_ended(now, done, context);
    }

    /// Returns the offset in the request of the data read from this page, if still mapped there.
    fn begin_of(&self, request: &Request, done: &OpDone) -> u64 {
        let (first, end) = self.shape.units_of(request.offset, request.length);
        let here = |&unit: &u32| {
            self.placement.slot(unit).is_some_and(|slot| self.shape.page(slot) == done.op.at)
        };
        (first..end).find(here).map_or(0, |unit| self.shape.begin(unit, request.offset))
    }

    /// A write. Units that it covers in part are read first.
    fn host_write(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        if self.is_read_only() {
            context.open(request.id);
            let fate = Fate::failed(Status::WriteError);
            return context.finish(request.id, fate, &Breakdown::default());
        }
        let (first, end) = self.shape.units_of(request.offset, request.length);
        if first == end {
            return;
        }
        context.open(request.id);
        let Some(completing) = self.queue.write(request, &self.placement) else { return };
        let token = PARTIAL_READ | u64::from(completing.number);
        for slot in completing.slots.into_iter().flatten() {
            let place = (self.shape.page_of(slot), self.shape.unit);
            self.submit_read(now, place, token, |owners| owners.request(request.id), context);
        }
    }

    /// A discard: whole units are forgotten. A write of zeroes: and parts of
    /// units are written.
    fn host_trim(&mut self, now: Nanos, request: &Request, context: &mut Context) {
        let (first, end) = self.shape.units_within(request.offset, request.length);
        for unit in first..end {
            self.queue.buffer_mut().trim(unit);
            #[cfg(test)]
            if let Some(shadow) = &mut context.shadow {
                shadow.trim(unit);
            }
            if let Some(plane) = self.placement.trim(unit) {
                let moment = &mut Moment { now, placement: &mut self.placement, context };
                self.cleaner.gained(plane, moment);
            }
        }
        self.queue.finish_flushes(context);
        if request.operation != Operation::WriteZeroes {
            return;
        }
        let (from, until) = self.shape.units_of(request.offset, request.length);
        for (start, stop) in [(from, first.min(until)), (end.max(from), until)] {
            for unit in start..stop {
                if self.placement.slot(unit).is_none() && !self.queue.buffer().holds(unit) {
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

    /// Lets waiting writes into the buffer and the buffer into the cells.
    fn pump(&mut self, now: Nanos, context: &mut Context) {
        self.queue.admit(context);
        self.dispatch(now, context);
        self.queue.finish_flushes(context);
        self.make_room(now, context);
        self.retry_past_cache(now, context);
        if self.shape.line > 1 {
            self.close_lines(now, context);
        }
        // With word lines to fill up, packing takes more pages than it gives back.
        if self.is_stuck() && self.shape.line == 1 {
            self.cleaner.pack_all(&mut Moment { now, placement: &mut self.placement, context });
        }
        self.full |= self.is_stuck();
        if self.is_read_only() {
            self.queue.refuse(context);
        }
    }

    /// Fills up word lines with empty pages, so that they have their fine passes: where a flush
    /// waits for pages between their two passes, or nothing else is under way and writes wait or no
    /// more can come.
    fn close_lines(&mut self, now: Nanos, context: &mut Context) {
        let waits =
            self.queue.waits() || self.placement.blocks().exhausted() || self.is_read_only();
        if waits && self.frontier.is_waiting() {
            self.queue.buffer_mut().force();
            self.dispatch(now, context);
        }
        let forced = match waits && self.frontier.is_waiting() {
            true => u64::MAX,
            false => self.queue.buffer().forced(),
        };
        while let Some(open) = self.frontier.waiting_for(forced) {
            while let Some(page) = self.frontier.pad(open, &mut self.placement) {
                #[cfg(test)]
                if let Some(shadow) = &mut context.shadow {
                    shadow.program(page.at, Vec::new());
                }
                context.statistics.line_padding += 1;
                context.submit(now, Op { token: PROGRAM | page.token, ..page });
            }
            if let Some(at) = self.frontier.close(open, self.placement.blocks()) {
                context.array.close_lines(now, at);
            }
        }
    }

    /// Returns whether no plane takes a page, and nothing is under way that changes that.
    fn is_stuck(&self) -> bool {
        self.placement.blocks().exhausted()
            && !self.frontier.is_programming()
            && !self.cleaner.is_collecting()
    }

    /// Writes waited for blocks of the SLC cache that could not be folded: they pass it by, if that
    /// is possible.
    fn retry_past_cache(&mut self, now: Nanos, context: &mut Context) {
        if self.shape.cache.is_some() && self.is_stuck() {
            self.placement.blocks_mut().set_exhausted(false);
            self.dispatch(now, context);
        }
    }

    /// Programs what the buffer holds where writes wait and nothing is under way that lets them in
    /// when it ends. Again and again: if the host trimmed all of it, no program comes of it.
    fn make_room(&mut self, now: Nanos, context: &mut Context) {
        while self.queue.waits()
            && !self.frontier.is_programming()
            && !self.placement.blocks().exhausted()
        {
            self.queue.buffer_mut().force();
            self.dispatch(now, context);
            self.queue.admit(context);
            self.dispatch(now, context);
            // With an empty buffer, the writes that still wait are behind a barrier, and the
            // barrier waits for reads.
            if self.queue.buffer().used() == 0 || self.is_read_only() {
                return;
            }
        }
    }

    /// Programs the pages that are ready, as far as planes take them.
    fn dispatch(&mut self, now: Nanos, context: &mut Context) {
        if self.placement.blocks().exhausted() || self.is_read_only() {
            return;
        }
        for stream in 0..self.frontier.streams() {
            while self.queue.buffer_mut().wants_page(narrow::stream(stream), self.shape.slots) {
                let choice = self.frontier.choose(stream, self.placement.blocks_mut());
                let choice = choice.or_else(|| self.choose_past_cache(now, stream, context));
                let Some(choice) = choice else {
                    self.placement.blocks_mut().set_exhausted(true);
                    context.starve();
                    return;
                };
                let plane = choice.plane;
                if choice.opened {
                    self.use_as_slc(&choice, context);
                    let moment = &mut Moment { now, placement: &mut self.placement, context };
                    self.cleaner.look_at(plane, moment);
                }
                let buffer = self.queue.buffer_mut();
                let page = self.frontier.program(choice, stream, buffer, &mut self.placement);
                #[cfg(test)]
                if let Some(shadow) = &mut context.shadow {
                    let entries = self.frontier.contents(subject(page.token)).iter();
                    let contents = entries.map(|&entry| self.queue.buffer().unit(entry));
                    shadow.program(page.at, contents.collect());
                }
                let group = self.lockstep.group(now, plane);
                let contents = self.frontier.contents(subject(page.token));
                let op = Op { token: PROGRAM | page.token, group, ..page };
                context.submit_for(now, op, |owners| owners.gathered(contents));
            }
        }
    }

    /// Returns the place of a page if nothing is folded that a write could wait for. The planes are
    /// looked at first: they may fold.
    fn choose_past_cache(
        &mut self,
        now: Nanos,
        stream: u32,
        context: &mut Context,
    ) -> Option<Choice> {
        self.shape.cache?;
        self.cleaner.look_at_all(&mut Moment { now, placement: &mut self.placement, context });
        if self.frontier.is_programming() || self.cleaner.is_collecting() {
            return None;
        }
        self.frontier.choose_regular(stream, self.placement.blocks_mut())
    }

    /// The array learns that a block that was opened is in SLC mode, if it is.
    fn use_as_slc(&self, choice: &Choice, context: &mut Context) {
        let block = self.frontier.open_block(choice);
        if self.placement.blocks().is_slc(block) {
            let PageAddress { plane, block, .. } = self.shape.address(block, 0);
            context.array.use_as_slc(plane, block);
        }
    }

    fn program_done(&mut self, now: Nanos, page: u32, done: &OpDone, context: &mut Context) {
        let first = self.shape.slot_at(done.op.at);
        let block = self.shape.block(done.op.at.plane.0, done.op.at.block);
        let failed = done.status == OpStatus::ProgramFailed;
        let used = self.frontier.contents(page).len();
        let mut maps = 0;
        for index in 0..used {
            let entry = self.frontier.contents(page)[index];
            if failed {
                self.queue.buffer_mut().retry(entry);
                continue;
            }
            let landed = self.queue.buffer_mut().land(entry);
            maps += u64::from(landed.unit >= self.shape.units);
            if landed.alive {
                if let Some(plane) = self.placement.write(landed.unit, first + count(index)) {
                    let moment = &mut Moment { now, placement: &mut self.placement, context };
                    self.cleaner.gained(plane, moment);
                }
            }
            if landed.waiter != NONE {
                context.finish(landed.waiter, Fate::Done, &done.times);
            }
        }
        if !failed {
            context.statistics.programmed_units += used as u64 - maps;
            context.statistics.map_units += maps;
            if self.placement.blocks().is_slc(block) {
                context.statistics.cached_units += used as u64 - maps;
            }
        }
        let end = self.frontier.ended(page, block, failed, self.placement.blocks_mut());
        let moment = &mut Moment { now, placement: &mut self.placement, context };
        self.cleaner.block_ended((block, end), moment);
        self.queue.finish_flushes(context);
    }
}

/// Functions for a layer above that keeps its map in units behind the host's.
impl PageFtl {
    /// Returns whether a unit is in the buffer.
    pub(super) fn holds(&self, unit: u32) -> bool {
        self.queue.buffer().holds(unit)
    }

    /// The slot in which a unit lies.
    pub(super) fn slot(&self, unit: u32) -> Option<u32> {
        self.placement.slot(unit)
    }

    /// Returns whether a block is being emptied.
    pub(super) fn is_collecting(&self) -> bool {
        self.cleaner.is_collecting()
    }

    /// Takes the changes of the map.
    pub(super) fn take_changes(&mut self) -> Option<Vec<Change>> {
        self.placement.take_changes()
    }

    /// Gives back the memory of [`PageFtl::take_changes`].
    pub(super) fn restore_changes(&mut self, changes: Vec<Change>) {
        self.placement.restore_changes(changes);
    }

    /// Reads a unit of the layer's map from its slot; [`PageFtl::read_ended`] has to follow.
    pub(super) fn read_map_unit(
        &mut self,
        now: Nanos,
        slot: u32,
        token: u64,
        owner: impl FnOnce(&mut Owners) -> Owner,
        context: &mut Context,
    ) {
        let place = (self.shape.page_of(slot), self.shape.unit);
        self.submit_read(now, place, token, owner, context);
    }

    /// A read no longer needs its block.
    pub(super) fn read_ended(&mut self, now: Nanos, done: &OpDone, context: &mut Context) {
        let moment = &mut Moment { now, placement: &mut self.placement, context };
        self.cleaner.read_ended(done.op.at, moment);
    }

    /// A unit of the layer's map has new contents.
    pub(super) fn write_map_unit(&mut self, now: Nanos, unit: u32, context: &mut Context) {
        self.queue.write_map_unit(unit, context);
        self.dispatch(now, context);
    }
}

impl Ftl for PageFtl {
    fn entry(&self, offset: u64, context: &Context) -> Option<String> {
        let unit = self.shape.units_of(offset, 1).0;
        let buffered = match self.queue.buffer().holds(unit) {
            true => "; a newer version waits in the write buffer",
            false => "",
        };
        let begin = self.shape.offset(unit);
        let which = format!("unit {unit}, {} bytes from {begin}", self.shape.unit);
        let Some(slot) = self.placement.slot(unit) else {
            return Some(format!("{which}: in no page{buffered}"));
        };
        let (at, block) = (self.shape.page(slot), self.shape.block_of(slot));
        let blocks = self.placement.blocks();
        let cells = if blocks.is_slc(block) { ", in SLC mode" } else { "" };
        Some(format!(
            "{which}: plane {}, block {}, page {}, part {} of {}{buffered}; the block is {}{cells}, \
             {} of its {} units are valid, and it was erased {} times",
            at.plane.0,
            at.block,
            at.page,
            slot % self.shape.slots + 1,
            self.shape.slots,
            blocks.state(block).name(),
            blocks.valid_in(block),
            self.shape.block_slots,
            context.array.erases(at.plane, at.block)
        ))
    }

    fn waiting(&self) -> Option<String> {
        Some(self.queue.buffer().told(|unit| self.shape.offset(unit), self.shape.unit))
    }

    fn reseed(&mut self, seed: u64) {
        self.cleaner.victims().reseed(seed);
    }

    fn set_policy(&mut self, gc: &GcSpec) -> bool {
        self.cleaner.victims().set_policy(gc);
        true
    }

    fn expect(&self, request: &Request) {
        self.placement.prefetch_unit(self.shape.units_of(request.offset, request.length).0);
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
        self.queue.flush(request.id, context);
        self.pump(now, context);
    }

    fn barrier(&mut self, now: Nanos, context: &mut Context) {
        self.queue.barrier();
        self.pump(now, context);
    }

    fn done(&mut self, now: Nanos, done: &OpDone, context: &mut Context) {
        let whom = subject(done.token);
        let cleaner = &mut self.cleaner;
        let moment = &mut Moment { now, placement: &mut self.placement, context };
        match done.token & KIND {
            HOST_READ => {
                self.read_done(now, whom, done, context);
                let moment = &mut Moment { now, placement: &mut self.placement, context };
                return self.cleaner.let_in(moment);
            }
            PARTIAL_READ => {
                self.queue.completed(whom, done, context);
                self.read_ended(now, done, context);
            }
            PROGRAM => self.program_done(now, whom, done, context),
            GC_READ => cleaner.read_done(done, moment),
            GC_PROGRAM => cleaner.program_done(whom, done, moment),
            GC_COPY => cleaner.copy_done(whom, done, moment),
            PATROL_READ => cleaner.visited(done, moment),
            ERASE => cleaner.erase_done(done, moment),
            _ => {}
        }
        let moment = &mut Moment { now, placement: &mut self.placement, context };
        self.cleaner.let_in(moment);
        self.pump(now, context);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.cleaner.next_event()
    }

    fn wake(&mut self, now: Nanos, context: &mut Context) {
        let moment = &mut Moment { now, placement: &mut self.placement, context };
        self.cleaner.wake(moment);
    }

    fn next_visit(&self) -> Option<Nanos> {
        self.cleaner.next_visit()
    }

    fn visit(&mut self, now: Nanos, context: &mut Context) {
        let moment = &mut Moment { now, placement: &mut self.placement, context };
        self.cleaner.visit(moment);
        self.pump(now, context);
    }

    fn resume_visits(&mut self, now: Nanos, next: Option<u64>) {
        self.cleaner.resume_visits(now, next);
    }

    fn visits(&self) -> Option<u64> {
        self.cleaner.visits()
    }

    fn host_active(&mut self, now: Nanos, active: bool, _context: &mut Context) {
        self.cleaner.host_active(now, active);
    }

    fn power_cut(&mut self, now: Nanos, cut: &mut PowerCut<'_>, context: &mut Context) {
        let (shape, capacity) = (self.shape, self.capacity);
        self.lockstep.power_cut();
        self.frontier.power_cut();
        self.placement.blocks_mut().set_exhausted(false);
        let (frontier, cleaner, placement) =
            (&mut self.frontier, &mut self.cleaner, &mut self.placement);
        let _skipped = recover::give_back_pages(&shape, cut.dropped, frontier, cleaner, placement);
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            _skipped.into_iter().for_each(|(block, page)| shadow.skip(block, page));
        }
        cleaner.power_cut(placement);
        let first = cut.lost.len();
        let lost = &mut cut.lost;
        let _kept = self.queue.power_cut(|unit| {
            let start = shape.offset(unit);
            lost.push(start..(start + u64::from(shape.unit)).min(capacity));
        });
        #[cfg(test)]
        if let Some(shadow) = &mut context.shadow {
            _kept.into_iter().for_each(|(unit, version)| shadow.admit(unit, version));
        }
        recover::merge(&mut cut.lost, first);
        cleaner.host_active(now, false);
        cleaner.look_at_all(&mut Moment { now, placement, context });
        self.pump(now, context);
    }

    fn power_loss(&self) -> PowerLoss {
        self.queue.power_loss()
    }

    fn precondition(&mut self, state: Precondition, _context: &mut Context) {
        let (frontier, placement) = (&mut self.frontier, &mut self.placement);
        match state {
            Precondition::None => return,
            Precondition::Sequential => self.beginning.sequential(frontier, placement),
            Precondition::Steady => {
                self.beginning.steady(frontier, &mut self.cleaner, placement);
            }
        }
        self.beginning.map(frontier, placement);
    }

    fn shut_down(&mut self, now: Nanos, context: &mut Context) {
        self.queue.buffer_mut().force();
        self.pump(now, context);
    }

    fn power_on(&mut self) {
        self.queue.power_on();
        self.lockstep.power_cut();
        self.cleaner.power_on(self.placement.blocks_mut());
        self.placement.blocks_mut().set_exhausted(false);
    }

    fn keep(&self, out: &mut Writer) -> bool {
        // A layer above would have a map of its own to keep.
        if self.above || self.cleaner.is_collecting() || self.frontier.is_programming() {
            return false;
        }
        out.put(self.full);
        self.placement.keep(out);
        self.frontier.keep(out);
        self.cleaner.keep(out);
        true
    }

    fn restore(&mut self, from: &mut Reader, context: &mut Context) -> Result<(), KeptError> {
        self.full = from.take()? != 0;
        self.placement.restore(from)?;
        let (blocks, mut opened) = (self.placement.blocks(), Vec::new());
        self.frontier.restore(from, blocks, &mut opened)?;
        self.cleaner.restore(from, blocks, &mut opened)?;
        opened.sort_unstable();
        let open =
            (0..self.shape.blocks()).filter(|&block| blocks.state(block) == BlockState::Open);
        if !open.eq(opened) {
            return Err(KeptError::Damaged("an open block is nobody's, or several ones'"));
        }
        for block in (0..self.shape.blocks()).filter(|&block| blocks.is_slc(block)) {
            let PageAddress { plane, block, .. } = self.shape.address(block, 0);
            context.array.use_as_slc(plane, block);
        }
        self.power_on();
        Ok(())
    }

    fn health(&self, context: &Context) -> Health {
        let spares = self.placement.blocks().spares();
        spares.health(self.shape.blocks(), self.is_read_only(), context)
    }

    fn free_blocks(&self) -> Option<u64> {
        Some(self.placement.blocks().free_in_all())
    }

    fn occupancy(&self) -> Option<Occupancy> {
        let blocks = self.placement.blocks();
        let room = self.shape.room_without(blocks.spares().given_up() + blocks.bad_in_all());
        Some(Occupancy::new(self.shape.unit, blocks.valid_in_all(), room))
    }

    fn slc_cache(&self) -> Option<SlcState> {
        self.shape.cache?;
        let (blocks, units) = self.placement.blocks().cached_in_all();
        Some(SlcState { blocks, valid_bytes: units * u64::from(self.shape.unit) })
    }

    fn report(&self, _context: &Context) -> serde_json::Value {
        let blocks = self.placement.blocks();
        let mut report = serde_json::json!({
            "units": self.shape.units,
            "blocks": self.shape.blocks(),
            "free_blocks": blocks.free_in_all(),
            "retired_blocks": blocks.spares().given_up(),
            "spare_blocks": blocks.spares().spare(),
            // Full blocks, by how many sixteenths of them are valid.
            "valid": blocks.validity(),
            "buffered_units": self.queue.buffer().used(),
        });
        if blocks.bad_in_all() > 0 {
            report["factory_bad_blocks"] = blocks.bad_in_all().into();
        }
        report
    }

    fn check(&self) {
        self.placement.check();
    }

    #[cfg(test)]
    fn page_of_unit(&self, unit: u32) -> Option<PageAddress> {
        self.placement.slot(unit).map(|slot| self.shape.page(slot))
    }
}
