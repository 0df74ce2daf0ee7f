//! The array: operations in, their ends out.

use stasis_block::clock::Nanos;

use super::activity::{Activity, Log};
use super::bus::Channel;
use super::event_queue::EventQueue;
use super::operation_latency::Medium;
use super::slots::{List, Slots, NONE};
use super::unit::Unit;
use super::word_lines::{Fine, Line, WordLines};
use super::{
    ArrayConfig, ArrayOptions, Op, OpDone, OpKind, OpStatus, PlaneMode, Priority, Scope, Usage,
};
use crate::{FaultRule, Geometry, PageAddress, PlaneId, Timing};

/// A NAND array; see the [crate](crate).
#[derive(Debug)]
pub struct Array {
    pub(super) medium: Medium,
    pub(super) options: ArrayOptions,
    // Planes that work as one.
    pub(super) parts: u32,
    pub(super) now: Nanos,
    pub(super) slots: Slots,
    pub(super) units: Vec<Unit>,
    pub(super) channels: Vec<Channel>,
    // Units and channels that may start a step at `now`.
    pub(super) dirty_units: Vec<u32>,
    pub(super) dirty_channels: Vec<u32>,
    // Ends of steps, with the number of the unit, or behind them of the channel.
    // An end that is not its unit's `until` was suspended.
    pub(super) due: EventQueue,
    pub(super) finished: List,
    pub(super) submitted: u64,
    // Word lines under way, where they have two passes.
    pub(super) word_lines: Option<Box<WordLines>>,
    pub(super) channel_usage: Usage,
    pub(super) lun_usage: Usage,
    // Busy planes of each LUN, and since when; not yet in `lun_usage`.
    pub(super) busy: Vec<(u32, Nanos)>,
    // The activities of the parts, while the array is watched.
    pub(super) log: Option<Box<Log>>,
}

impl Array {
    /// An idle array whose blocks were never erased.
    pub fn new(config: ArrayConfig, options: ArrayOptions) -> Self {
        let geometry = config.geometry;
        let parts = match options.planes {
            PlaneMode::Independent => 1,
            PlaneMode::Lockstep => geometry.planes,
        };
        let units = (0..geometry.total_planes())
            .step_by(parts as usize)
            .map(|plane| Unit::new(geometry.channel(PlaneId(plane)), geometry.lun(PlaneId(plane))));
        // A step's end for each unit and channel, and those that suspensions left behind: few
        // pile up, so that memory for some is enough.
        let ends = 2 + usize::from(options.suspensions.min(8));
        let total = geometry.total_planes() / parts;
        let events = total as usize * ends + geometry.channels as usize;
        Self {
            units: units.collect(),
            channels: (0..geometry.channels).map(|_| Channel::new()).collect(),
            parts,
            now: 0,
            slots: Slots::new(),
            dirty_units: Vec::with_capacity(geometry.total_planes() as usize),
            dirty_channels: Vec::with_capacity(geometry.channels as usize),
            due: EventQueue::new(events),
            finished: List::EMPTY,
            submitted: 0,
            word_lines: config.two_pass.map(|two_pass| Box::new(WordLines::new(two_pass))),
            channel_usage: Usage::new(geometry.channels),
            lun_usage: Usage::new(geometry.total_luns()),
            busy: vec![(0, 0); geometry.total_luns() as usize],
            log: None,
            medium: Medium::new(config),
            options,
        }
    }

    /// An operation reaches the array at `now`, which is not before any earlier
    /// time.
    #[inline]
    pub fn submit(&mut self, now: Nanos, op: Op) {
        debug_assert!(self.medium.geometry().contains(op.at), "{op:?}");
        debug_assert!(
            op.group == 0 || op.kind != OpKind::Copyback || { op.source.plane == op.at.plane }
        );
        self.settle(now);
        let unit = self.unit_of(op.at.plane);
        let this = &mut self.units[unit as usize];
        let mark = this.holders.at(now);
        let index = self.slots.insert(now, self.submitted, mark, op);
        self.submitted += 1;
        self.slots.push(&mut this.queues[op.priority as usize], index);
        self.touch(unit);
    }

    /// Returns the time at which something next happens; `None` while nothing is under way.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        if !self.finished.is_empty() {
            return Some(self.slots[self.finished.head].since);
        }
        if !self.dirty_units.is_empty() || !self.dirty_channels.is_empty() {
            return Some(self.now);
        }
        self.due.next_at()
    }

    /// The next operation that ends at or before `until`, in the order of time.
    /// Operations that follow from it are submitted at its end, before the next call.
    pub fn pop(&mut self, until: Nanos) -> Option<OpDone> {
        self.pop_index(until).map(|index| self.slots.remove(index))
    }

    /// [`Array::pop`] in two steps, the second of which is [`Array::take_out`]: the large result is
    /// then written once, to its destination.
    #[inline]
    pub fn pop_index(&mut self, until: Nanos) -> Option<u32> {
        if self.finished.is_empty() {
            self.advance(until, true);
        }
        let first = self.finished.head;
        if first == NONE || self.slots[first].since > until {
            return None;
        }
        Some(self.slots.pop(&mut self.finished))
    }

    /// The operation that [`Array::pop_index`] returned.
    #[inline]
    pub fn take_out(&mut self, index: u32) -> OpDone {
        self.slots.remove(index)
    }

    /// Advances to `until`, or until operations have ended.
    fn advance(&mut self, until: Nanos, stops: bool) {
        while !stops || self.finished.is_empty() {
            let at = self.due.next_at();
            // Everything that ends now has to end before anything starts.
            if at != Some(self.now) && self.now <= until && self.dispatch() {
                continue;
            }
            if at.is_none_or(|at| at > until) {
                return;
            }
            let Some((at, who)) = self.due.pop() else { return };
            if let Some(next) = self.due.next_who() {
                self.prefetch(next);
            }
            debug_assert!(at >= self.now, "time never decreases");
            self.now = at;
            match who.checked_sub(self.units.len() as u32) {
                Some(channel) => self.end_transfer(channel),
                None if self.units[who as usize].until == at => self.end_step(who),
                None => {}
            }
        }
    }

    /// Prefetches the operation that ends next while another one ends.
    fn prefetch(&self, who: u32) {
        let index = match who.checked_sub(self.units.len() as u32) {
            Some(channel) => self.channels[channel as usize].busy,
            None => self.units[who as usize].current,
        };
        self.slots.prefetch(index);
    }

    /// Lets every unit that may start something do so, or where there is none
    /// every channel; `false` if there is neither.
    fn dispatch(&mut self) -> bool {
        let mut next = 0;
        while let Some(&unit) = self.dirty_units.get(next) {
            self.dispatch_unit(unit);
            next += 1;
        }
        if next > 0 {
            self.dirty_units.clear();
            return true;
        }
        while let Some(&channel) = self.dirty_channels.get(next) {
            self.dispatch_channel(channel);
            next += 1;
        }
        self.dirty_channels.clear();
        next > 0
    }

    /// Everything before `now` happens.
    #[inline]
    pub(super) fn settle(&mut self, now: Nanos) {
        debug_assert!(now >= self.now, "time never decreases");
        if now > self.now {
            self.advance(now - 1, false);
            self.now = now;
        }
    }

    /// Something ends at `at`.
    pub(super) fn schedule(&mut self, at: Nanos, who: u32) {
        self.due.push(at, who);
    }

    /// An operation ends now.
    pub(super) fn finish(&mut self, index: u32) {
        debug_assert_eq!(self.slots[index].since, self.now);
        if self.word_lines.is_some() && self.end_in_line(index) {
            return;
        }
        self.slots.push_ready(&mut self.finished, index);
    }

    /// From `now` on, only housekeeping starts in `scope`, until it is released
    /// as often as it was held.
    pub fn hold(&mut self, now: Nanos, scope: Scope) {
        self.settle(now);
        for unit in self.units_in(scope) {
            let this = &mut self.units[unit as usize];
            this.held += 1;
            this.holders.start(Priority::Gc, now);
            // Housekeeping may now be first.
            if !this.queues[Priority::Gc as usize].is_empty() {
                self.touch(unit);
            }
        }
    }

    /// Takes back one [`Array::hold`].
    pub fn release(&mut self, now: Nanos, scope: Scope) {
        self.settle(now);
        for unit in self.units_in(scope) {
            let this = &mut self.units[unit as usize];
            if this.held == 0 {
                continue;
            }
            this.held -= 1;
            this.holders.stop(Priority::Gc, now);
            if this.held == 0 && !this.queues.iter().all(|queue| queue.is_empty()) {
                self.touch(unit);
            }
        }
    }

    /// Returns whether an operation of the host's that was submitted before the operation of the
    /// number `before` waits for a part of `scope`.
    pub fn waits(&self, scope: Scope, before: u64) -> bool {
        let waits = |list: &List| !list.is_empty() && self.slots[list.head].number < before;
        self.units_in(scope).any(|unit| {
            let [reads, writes, _] = &self.units[unit as usize].queues;
            waits(reads) || waits(writes)
        })
    }

    fn units_in(&self, scope: Scope) -> std::ops::Range<u32> {
        let per_channel = self.units.len() as u32 / self.geometry().channels;
        match scope {
            Scope::Controller => 0..self.units.len() as u32,
            Scope::Channel(channel) => channel * per_channel..(channel + 1) * per_channel,
            Scope::Plane(plane) => self.unit_of(plane)..self.unit_of(plane) + 1,
        }
    }

    /// The unit of a plane.
    #[inline]
    pub(super) fn unit_of(&self, plane: PlaneId) -> u32 {
        if self.parts == 1 {
            plane.0
        } else {
            plane.0 / self.parts
        }
    }

    /// A plane's bit among those of its unit.
    pub(super) fn plane_bit(&self, plane: PlaneId) -> u16 {
        if self.parts == 1 {
            1
        } else {
            1 << (plane.0 % self.parts)
        }
    }

    /// One more or one less of a LUN's planes is busy.
    pub(super) fn occupy(&mut self, lun: u32, more: i32) {
        let (planes, since) = &mut self.busy[lun as usize];
        if *planes == 0 {
            *since = self.now;
        }
        *planes = planes.saturating_add_signed(more);
        if *planes == 0 {
            self.lun_usage.add(lun, *since, self.now);
        }
    }

    /// The times of operations.
    pub fn timing(&self) -> &Timing {
        self.medium.timing()
    }

    /// Sets the times of steps that begin later.
    pub fn set_timing(&mut self, timing: Timing) {
        self.medium.set_timing(timing);
    }

    /// Operations draw by `seed` from now on; the cells are those that they were.
    pub fn reseed(&mut self, seed: u64) {
        self.medium.reseed(seed);
    }

    /// Adds a fault from now on.
    pub fn inject(&mut self, rule: FaultRule) {
        self.medium.inject(rule);
    }

    /// The parts of the array.
    pub fn geometry(&self) -> &Geometry {
        self.medium.geometry()
    }

    /// Returns the number of operations that have not been [popped](Array::pop).
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of times that a block was erased, up to 2^20 - 1.
    pub fn erases(&self, plane: PlaneId, block: u32) -> u32 {
        self.medium.erases(plane, block)
    }

    /// Makes a block as worn as if it had been erased so often.
    pub fn set_erases(&mut self, plane: PlaneId, block: u32, erases: u32) {
        self.medium.set_erases(plane, block, erases);
    }

    /// For how long the array is in use at `now` (ns), how many operations there were, and the wear
    /// of each block in a number: for [`Array::restore`], once nothing is under way.
    pub fn history(&self, now: Nanos) -> (Nanos, u64, &[u32]) {
        let (used, wear) = self.medium.history(now);
        (used, self.submitted, wear)
    }

    /// The array was in use before, as [`Array::history`] had it; nothing was submitted yet.
    pub fn restore(&mut self, (used, submitted, wear): (Nanos, u64, Vec<u32>)) {
        self.medium.restore(used, wear);
        self.submitted = submitted;
    }

    /// The age (ns) of a block's data at `now`, where bit errors come: since its first page was
    /// programmed.
    pub fn age(&self, now: Nanos, plane: PlaneId, block: u32) -> Option<Nanos> {
        self.medium.age(now, plane, block)
    }

    /// By block, where bit errors come: the second of the array's use in which its first page was
    /// programmed, plus one (0: never), and its reads since its erase.
    pub fn clocks(&self) -> Option<[&[u32]; 2]> {
        self.medium.clocks()
    }

    /// The array was in use before, as [`Array::clocks`] had it.
    pub fn restore_clocks(&mut self, clocks: [Vec<u32>; 2]) {
        self.medium.restore_clocks(clocks);
    }

    /// A block is in SLC mode until its next erase: [`crate::SlcTimes`] are those of its pages. Of
    /// no effect where the array has no such times.
    pub fn use_as_slc(&mut self, plane: PlaneId, block: u32) {
        self.medium.set_slc(plane, block, true);
    }

    /// Returns the use of each channel.
    pub fn channel_usage(&self) -> &Usage {
        &self.channel_usage
    }

    /// Returns the use of each LUN, counted through the array, until the last event: a LUN is busy
    /// while any of its planes has an operation at its data register.
    pub fn lun_usage(&self) -> Usage {
        let mut usage = self.lun_usage.clone();
        for (lun, &(planes, since)) in self.busy.iter().enumerate() {
            if planes > 0 {
                usage.add(lun as u32, since, self.now);
            }
        }
        usage
    }

    /// Keeps the activities for [`Array::take_activities`] from now on.
    pub fn watch(&mut self) {
        let log = || Box::new(Log::new(self.units.len(), self.now));
        self.log.get_or_insert_with(log);
    }

    /// Returns the number of parts that do one thing at a time: planes, or where planes work in
    /// lockstep LUNs.
    pub fn units(&self) -> u32 {
        self.units.len() as u32
    }

    /// Returns the number of planes of each of [`Array::units`].
    pub fn planes_of_unit(&self) -> u32 {
        self.parts
    }

    /// Hands over which operations began as a part of a multi-plane operation since this was last
    /// called, and forgets them: the number of its first one, and their own. Only of an array whose
    /// activities are kept.
    pub fn take_joined(&mut self, take: impl FnMut(u64, u64)) {
        if let Some(log) = &mut self.log {
            log.take_joined(take);
        }
    }

    /// Number of operations submitted so far: the next one's.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Hands over the activities that ended since this was last called, those of each part in the
    /// order of time, and forgets them. Returns how many more there were than it could keep.
    pub fn take_activities(&mut self, take: impl FnMut(Activity)) -> u64 {
        self.log.as_mut().map_or(0, |log| log.take(take))
    }
}

/// Word lines in two passes ([`WordLines`]).
impl Array {
    /// An operation ends now: whether it is held, or was a fine pass, which ends what it held.
    #[inline(never)]
    pub(super) fn end_in_line(&mut self, index: u32) -> bool {
        let Some(mut lines) = self.word_lines.take() else { return false };
        let held = if self.slots[index].fine {
            self.end_fine(index, &mut lines);
            true
        } else {
            self.hold_page(index, &mut lines)
        };
        self.word_lines = Some(lines);
        held
    }

    fn hold_page(&mut self, index: u32, lines: &mut WordLines) -> bool {
        let slot = &self.slots[index];
        let (at, status) = (slot.op.at, slot.status);
        let programs = matches!(slot.op.kind, OpKind::Program | OpKind::Copyback);
        if !programs || self.medium.is_slc(at.plane, at.block) {
            return false;
        }
        if lines.failed.contains(&(at.plane, at.block)) {
            self.fail_page(index, at, lines);
            return true;
        }
        if status == OpStatus::ProgramFailed {
            self.fail_line(at, lines);
            self.fail_page(index, at, lines);
            return true;
        }
        let pages = self.geometry().pages;
        let ends = lines.two_pass.ends_line(at.page, pages);
        let place = lines.line(at);
        let empty = if ends { lines.list() } else { Vec::new() };
        let line = &mut lines.open[place];
        line.filling.push(index);
        line.ended = at.page;
        if ends {
            let filled = std::mem::replace(&mut line.filling, empty);
            let before = std::mem::replace(&mut line.coarse, filled);
            let closes = line.closes.is_some_and(|page| at.page >= page);
            self.begin_fine(before, lines);
            if closes || at.page + 1 == pages {
                self.close_line(place, at.page + 1 == pages, lines);
            }
        }
        true
    }

    /// The word line of a block that is programmed coarsely has its fine pass now. `ends`: no page
    /// follows.
    fn close_line(&mut self, place: usize, ends: bool, lines: &mut WordLines) {
        let list = lines.list();
        let line = &mut lines.open[place];
        line.closes = None;
        let coarse = std::mem::replace(&mut line.coarse, list);
        self.begin_fine(coarse, lines);
        if ends {
            let Line { filling, coarse, .. } = lines.open.swap_remove(place);
            lines.give(filling);
            lines.give(coarse);
        }
    }

    /// Begins the fine pass of a word line whose pages are held, if it has any.
    fn begin_fine(&mut self, held: Vec<u32>, lines: &mut WordLines) {
        let Some(&last) = held.last() else { return lines.give(held) };
        let op = self.slots[last].op;
        let bytes = self.geometry().page_size.saturating_mul(held.len() as u32);
        let op = Op { kind: OpKind::Program, source: op.at, bytes, token: 0, group: 0, ..op };
        let unit = self.unit_of(op.at.plane);
        let this = &mut self.units[unit as usize];
        let mark = this.holders.at(self.now);
        let index = self.slots.insert(self.now, self.submitted, mark, op);
        self.submitted += 1;
        self.slots[index].fine = true;
        self.slots.push(&mut this.queues[op.priority as usize], index);
        self.touch(unit);
        let failed = lines.list();
        lines.fine.push(Fine { index, at: op.at, held, failed });
        lines.passes += 1;
    }

    /// A fine pass has ended, and with it its pages.
    fn end_fine(&mut self, index: u32, lines: &mut WordLines) {
        let fine = self.slots.remove(index);
        let place = lines.fine.iter().position(|fine| fine.index == index);
        let Some(ended) = place.map(|place| lines.fine.remove(place)) else { return };
        for &page in &ended.held {
            // It has waited for the pass, and then with it.
            let (times, gap) = self.slots.spent(page, fine.at);
            times.behind_writes += gap - fine.times.total();
            *times += fine.times;
            if fine.status == OpStatus::ProgramFailed {
                self.slots[page].status = OpStatus::ProgramFailed;
            }
            self.slots.push_ready(&mut self.finished, page);
        }
        if fine.status == OpStatus::ProgramFailed {
            self.fail_line(fine.op.at, lines);
        }
        for &page in &ended.failed {
            self.fail_page(page, ended.at, lines);
        }
        lines.give(ended.held);
        lines.give(ended.failed);
    }

    /// A program into a block has failed: pages of its unfinished word line have too; a whole one can
    /// still have its fine pass.
    fn fail_line(&mut self, at: PageAddress, lines: &mut WordLines) {
        if !lines.failed.contains(&(at.plane, at.block)) {
            lines.failed.push((at.plane, at.block));
        }
        let Some(place) = lines.place(at.plane, at.block) else { return };
        let Line { filling, coarse, .. } = lines.open.swap_remove(place);
        self.begin_fine(coarse, lines);
        for &page in &filling {
            self.fail_page(page, at, lines);
        }
        lines.give(filling);
    }

    /// A page of a block has failed: it ends behind the fine passes of the block that are under way.
    fn fail_page(&mut self, page: u32, at: PageAddress, lines: &mut WordLines) {
        self.slots[page].status = OpStatus::ProgramFailed;
        let of_block = |fine: &&mut Fine| (fine.at.plane, fine.at.block) == (at.plane, at.block);
        if let Some(fine) = lines.fine.iter_mut().rfind(of_block) {
            return fine.failed.push(page);
        }
        let (times, gap) = self.slots.spent(page, self.now);
        times.behind_writes += gap;
        self.slots.push_ready(&mut self.finished, page);
    }

    /// No page of a block follows `page`, the last of its word line, for now: its word lines up to
    /// there have their fine passes without the next one's coarse one. Of no effect where programs have
    /// one pass.
    pub fn close_lines(&mut self, now: Nanos, at: PageAddress) {
        self.settle(now);
        let Some(mut lines) = self.word_lines.take() else { return };
        if lines.failed.contains(&(at.plane, at.block)) {
            self.word_lines = Some(lines);
            return;
        }
        let place = lines.line(at);
        let line = &mut lines.open[place];
        line.closes = Some(at.page);
        let has_ended = line.ended >= at.page && at.page > 0;
        if has_ended && line.filling.is_empty() {
            self.close_line(place, false, &mut lines);
        }
        self.word_lines = Some(lines);
    }

    /// Fine passes so far.
    pub fn fine_passes(&self) -> u64 {
        self.word_lines.as_ref().map_or(0, |lines| lines.passes)
    }
}
