//! The cleaner: in each plane one block at a time is emptied, by moving its valid units to another
//! block of the plane, and erased.
//!
//! Units that do not fill a page at the end of a block that is emptied for its space wait for those of
//! the next one, and their block with them ([`Remains`]).
//!
//! Invariants: a plane has one job at most; a slot is in one place at most: gathered, or in a
//! page under way; a block is erased when nothing of it is valid, no page under way has a slot of it,
//! and no read of the host's needs it; a hold of the array is released when its job ends.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::timeline::Purpose;
use stasis_nand::{Op, OpDone, OpKind, OpStatus, PageAddress, PlaneId, Priority};

use super::blocks::{BlockState, Blocks, PageEnd};
use super::due::{Due, Reason};
use super::gate::Gate;
use super::patrol::Patrol;
use super::placement::Placement;
use super::programs::Programs;
use super::remains::Remains;
use super::token::{ERASE, GC_COPY, GC_PROGRAM, GC_READ, PATROL_READ};
use super::victims::{Need, Victims, Why};
use crate::buffer::NONE;
use crate::ftl::{Context, Shape};
use crate::kept::{KeptError, Reader, Writer};
use crate::narrow::count;
use crate::owners::Owner;
use crate::spec::{Blocking, Spec, RESERVE};

/// Operations that one collection has under way at a time: enough that the
/// plane never waits for it, and few enough that the host's get their turn.
const WINDOW: u32 = 4;
/// Slots by which the map is read ahead of the units that move: a line of the caches.
const AHEAD: u32 = 16;

/// A block that is being emptied.
#[derive(Debug, Clone, Copy)]
struct Job {
    victim: u32,
    why: Why,
    // The next page to look at.
    page: u32,
    // Operations under way.
    reads: u32,
    programs: u32,
    held: bool,
    // All is moved; it waits for the host's reads of the block.
    draining: bool,
    // There is nowhere to move to.
    abandoned: bool,
    // Its last units do not wait for those of another block.
    last: bool,
    // The block that is open beside that for the data of a little worn one.
    aside: u32,
    // The block whose units fill the last page of moved ones, and its next page to look at.
    filler: Option<(u32, u32)>,
    since: Nanos,
}

/// A block that is emptied next.
#[derive(Debug, Clone, Copy)]
struct Next {
    victim: u32,
    why: Why,
    // Its last units do not wait for those of another block.
    last: bool,
}

/// A plane's collection.
#[derive(Debug, Clone)]
struct Collector {
    job: Option<Job>,
    // Slots that were read and move next.
    gathered: Vec<u32>,
    // The block that units move to, and whether pages of it wait for their fine pass.
    open: u32,
    waits: bool,
    // Blocks that are to be emptied because a program failed.
    bad: VecDeque<u32>,
    // Blocks whose data has to move for other reasons.
    due: Due,
    // Blocks whose last units are gathered.
    remains: Remains,
    // It should collect, and no block would gain anything.
    starved: bool,
}

impl Collector {
    /// Makes the cleaner of a plane with pages of so many slots.
    fn new(slots: u32) -> Self {
        Self {
            job: None,
            // Slots read are added to a remainder that does not fill a page.
            gathered: Vec::with_capacity((slots * (WINDOW + 2)) as usize),
            open: NONE,
            waits: false,
            bad: VecDeque::new(),
            due: Due::default(),
            remains: Remains::default(),
            starved: false,
        }
    }
}

impl Collector {
    /// The block that was open before a job is so again; the one that was open for it counts as
    /// full.
    fn take_back(&mut self, aside: u32, blocks: &mut Blocks) {
        if aside == NONE {
            return;
        }
        let worn = std::mem::replace(&mut self.open, aside);
        if worn != NONE && blocks.state(worn) == BlockState::Open {
            blocks.close(worn);
        }
    }
}

/// The time at which the cleaner acts, and the parts of the drive on which it acts.
pub(super) struct Moment<'a> {
    /// Virtual time (ns).
    pub now: Nanos,
    /// Mapping and blocks.
    pub placement: &'a mut Placement,
    /// The array and the host's requests.
    pub context: &'a mut Context,
}

/// Every plane's collection; see the [module](self).
#[derive(Debug)]
pub(super) struct Cleaner {
    shape: Shape,
    victims: Victims,
    collectors: Vec<Collector>,
    jobs: u32,
    // Erases of blocks that are no job's.
    erasing: u32,
    blocking: Blocking,
    gate: Gate,
    copyback: bool,
    // Operations that a collection has under way: more where pages wait for others.
    window: u32,
    // Pages of moved units that are under way.
    programs: Programs,
    // The host's reads that are under way, by block.
    reads: Vec<u32>,
    background_at: Option<Nanos>,
    // The host's reads of each block since its last erase, where they count, and how many are too
    // many.
    disturbs: Vec<u32>,
    most_disturbs: u32,
    // Visits of blocks, if there are any.
    patrol: Option<Patrol>,
}

impl Cleaner {
    /// Creates a cleaner that empties nothing yet.
    pub fn new(spec: &Spec, shape: Shape, seed: u64) -> Self {
        Self {
            shape,
            victims: Victims::new(spec, shape.planes, shape.geometry.blocks, seed),
            collectors: (0..shape.planes).map(|_| Collector::new(shape.slots)).collect(),
            jobs: 0,
            erasing: 0,
            blocking: spec.gc.blocking,
            gate: Gate::new(spec.gc.blocking, shape.geometry),
            copyback: spec.gc.copyback.unwrap_or(spec.gc.blocking == Blocking::Plane),
            window: if shape.line > 1 { WINDOW + 2 * shape.line } else { WINDOW },
            programs: Programs::new(shape.slots),
            reads: vec![0; shape.blocks() as usize],
            background_at: None,
            disturbs: match spec.read_reclaim {
                Some(_) => vec![0; shape.blocks() as usize],
                None => Vec::new(),
            },
            most_disturbs: spec.read_reclaim.unwrap_or(u32::MAX),
            patrol: spec.scrub.as_ref().map(|scrub| Patrol::new(scrub, &shape)),
        }
    }

    /// Writes the blocks that units move to.
    pub fn keep(&self, out: &mut Writer) {
        Blocks::keep_open(self.collectors.iter().map(|collector| collector.open), out);
        out.put_all(self.disturbs.iter().copied());
    }

    /// Reads them; they are added to `opened`. Blocks in which a program failed are to be emptied.
    pub fn restore(
        &mut self,
        from: &mut Reader,
        blocks: &Blocks,
        opened: &mut Vec<u32>,
    ) -> Result<(), KeptError> {
        const WRONG: &str = "a block that units move to is not open";
        let kind = |plane: u32| (plane, false);
        let open = blocks.restore_open(from, self.collectors.len(), kind, WRONG, opened)?;
        for (collector, block) in self.collectors.iter_mut().zip(open) {
            collector.open = block;
        }
        let count = from.within(0..u64::from(self.shape.blocks()) + 1, "reads of blocks")?;
        for block in 0..count {
            let read = from.within(0..1 << 32, "reads of blocks")?;
            if let Some(disturbs) = self.disturbs.get_mut(block as usize) {
                *disturbs = read;
                if read >= self.most_disturbs {
                    let plane = self.shape.plane_of(block);
                    self.collectors[plane as usize].due.add(Reason::Reads, block);
                }
            }
        }
        for block in
            (0..self.shape.blocks()).filter(|&block| blocks.state(block) == BlockState::Bad)
        {
            self.collectors[self.shape.plane_of(block) as usize].bad.push_back(block);
        }
        Ok(())
    }

    /// The choice of blocks.
    pub fn victims(&mut self) -> &mut Victims {
        &mut self.victims
    }

    /// The power comes back: what is drawn, and what is counted in memory, begins anew.
    pub fn power_on(&mut self, blocks: &mut Blocks) {
        self.victims.power_on(blocks.spares().erases());
        self.background_at = None;
        self.gate.power_cut();
        for collector in &mut self.collectors {
            collector.starved = false;
            collector.due.power_on();
            collector.gathered.clear();
            collector.remains.take_all().into_iter().for_each(|block| blocks.put_back(block));
        }
    }

    /// Returns the time of the next visit.
    pub fn next_visit(&self) -> Option<Nanos> {
        self.patrol.as_ref().map(Patrol::at)
    }

    /// Visits so far.
    pub fn visits(&self) -> Option<u64> {
        self.patrol.as_ref().map(Patrol::visits)
    }

    /// The power comes: visits go on, after so many, or where they are.
    pub fn resume_visits(&mut self, now: Nanos, visits: Option<u64>) {
        if let Some(patrol) = &mut self.patrol {
            patrol.resume(now, visits.unwrap_or(patrol.visits()));
        }
    }

    /// The time of [`Cleaner::next_visit`] has come: a block that is full is moved if it is old, and
    /// else a page of it is read, if visits read.
    pub fn visit(&mut self, moment: &mut Moment) {
        let Some(patrol) = &mut self.patrol else { return };
        let (plane, place) = patrol.visit();
        let block = self.shape.block(plane, place);
        let blocks = moment.placement.blocks();
        let waits = self.collectors[plane as usize].remains.contains(block);
        let is_full = blocks.state(block) == BlockState::Full || waits;
        if !is_full || blocks.valid_in(block) == 0 {
            return;
        }
        let at = self.shape.address(block, patrol.page(blocks.pages_of(block)));
        let age = moment.context.array.age(moment.now, at.plane, at.block);
        if age.is_some_and(|age| patrol.is_old(age)) {
            return self.move_aged(plane, block, moment);
        }
        if !patrol.reads() {
            return;
        }
        self.reads[block as usize] += 1;
        moment.context.statistics.scrub_reads += 1;
        let op = Op {
            kind: OpKind::Read,
            at,
            source: at,
            bytes: self.shape.geometry.page_size,
            priority: Priority::Gc,
            token: PATROL_READ | u64::from(plane),
            group: 0,
        };
        moment.context.submit_for(moment.now, op, |_| Owner::of(Purpose::Visit));
    }

    /// The read of a visit has ended: a block whose errors are many is moved.
    pub fn visited(&mut self, done: &OpDone, moment: &mut Moment) {
        let late = done.status == OpStatus::Uncorrectable
            || self.patrol.as_ref().is_some_and(|patrol| patrol.is_late(done.retries));
        if late {
            let block = self.shape.block(done.op.at.plane.0, done.op.at.block);
            self.move_aged(done.op.at.plane.0, block, moment);
        }
        self.read_ended(done.op.at, moment);
    }

    fn move_aged(&mut self, plane: u32, block: u32, moment: &mut Moment) {
        self.collectors[plane as usize].due.add(Reason::Age, block);
        self.look_at(plane, moment);
    }

    /// Returns whether a block is being emptied, or will be.
    #[inline]
    pub fn is_collecting(&self) -> bool {
        self.jobs + self.erasing > 0 || self.gate.has_turned_away()
    }

    /// Returns the time at which background collection begins.
    pub fn next_event(&self) -> Option<Nanos> {
        self.background_at
    }

    /// The host has a command in flight, or has none since `now`.
    pub fn host_active(&mut self, now: Nanos, active: bool) {
        self.background_at = self.victims.host_active(now, active);
    }

    /// The time of [`Cleaner::next_event`] has come.
    pub fn wake(&mut self, moment: &mut Moment) {
        self.background_at = None;
        moment.placement.blocks_mut().reopen_cache();
        self.look_at_all(moment);
    }

    /// Begins to empty a block of each plane that needs it.
    pub fn look_at_all(&mut self, moment: &mut Moment) {
        for plane in 0..self.shape.planes {
            self.look_at(plane, moment);
        }
    }

    /// Begins to empty a block of a plane, if one should be.
    pub fn look_at(&mut self, plane: u32, moment: &mut Moment) {
        let idle = self.collectors[plane as usize].job.is_none();
        if idle && self.gate.lets_in(plane, &moment.context.array) {
            self.enter(plane, moment);
        }
    }

    fn enter(&mut self, plane: u32, moment: &mut Moment) {
        if let Some(next) = self.next_victim(plane, moment) {
            self.begin(plane, next, None, moment);
        }
    }

    /// An operation has ended: planes that waited for others of the host's to start are looked at.
    #[inline]
    pub fn let_in(&mut self, moment: &mut Moment) {
        if !self.gate.has_turned_away() {
            return;
        }
        while let Some(plane) = self.gate.reopened(&moment.context.array) {
            if self.collectors[plane as usize].job.is_none() {
                self.enter(plane, moment);
            }
        }
    }

    /// In each plane where no block alone gains a page, the least valid one is emptied together
    /// with a part of the next: what is invalid gathers in one block, until that one gains. Each
    /// takes as many pages as it gives back.
    pub fn pack_all(&mut self, moment: &mut Moment) {
        for plane in 0..self.shape.planes {
            let collector = &self.collectors[plane as usize];
            let blocks = moment.placement.blocks_mut();
            debug_assert_eq!(collector.remains.waiting(), 0, "a plane that is stuck is starved");
            let has_room = blocks.free_in(plane) > 0 || collector.open != NONE;
            if collector.job.is_some() || !has_room {
                continue;
            }
            if let Some((victim, filler)) = blocks.two_least_valid(plane) {
                let next = Next { victim, why: Why::Space, last: true };
                self.begin(plane, next, Some((filler, 0)), moment);
            }
        }
    }

    fn begin(
        &mut self,
        plane: u32,
        Next { victim, why, last }: Next,
        filler: Option<(u32, u32)>,
        moment: &mut Moment,
    ) {
        let blocks = moment.placement.blocks_mut();
        let spare = blocks.free_in(plane) >= RESERVE;
        debug_assert!(self.collectors[plane as usize].job.is_none(), "one job at a time");
        debug_assert_eq!(self.shape.plane_of(victim), plane);
        debug_assert!(why != Why::Bad || blocks.state(victim) == BlockState::Bad);
        if why != Why::Bad {
            blocks.collect(victim);
        }
        let held = self.blocking != Blocking::None;
        if held {
            moment.context.array.hold(moment.now, self.gate.scope(plane));
        }
        self.jobs += 1;
        let worn = (why == Why::Wear).then(|| moment.placement.blocks_mut().open_worn(plane));
        // Data that stays goes to a block that is worn, and so rests.
        let aside = match worn.flatten() {
            Some(worn) => std::mem::replace(&mut self.collectors[plane as usize].open, worn),
            None => NONE,
        };
        self.collectors[plane as usize].starved = false;
        let counts = why != Why::Bad && spare;
        let space = matches!(why, Why::Space | Why::Fold);
        self.collectors[plane as usize].due.begin(space, counts);
        self.collectors[plane as usize].job = Some(Job {
            victim,
            why,
            page: 0,
            reads: 0,
            programs: 0,
            held,
            draining: false,
            abandoned: false,
            last,
            aside,
            filler,
            since: moment.now,
        });
        self.erase_remains(plane, moment);
        self.go_on(plane, moment);
    }

    /// A plane has something to gain that it had not: where nothing was to be gained, it is looked
    /// at again.
    #[inline]
    pub fn gained(&mut self, plane: u32, moment: &mut Moment) {
        if self.collectors[plane as usize].starved {
            self.look_at(plane, moment);
        }
    }

    /// A program into a block has ended, of the host's or of moved units.
    pub fn block_ended(&mut self, (block, end): (u32, PageEnd), moment: &mut Moment) {
        let plane = self.shape.plane_of(block);
        match end {
            PageEnd::Going => {}
            PageEnd::Full if self.is_disturbed(block) => {
                self.collectors[plane as usize].due.add(Reason::Reads, block);
                self.look_at(plane, moment);
            }
            // It may be folded at once.
            PageEnd::Full if moment.placement.blocks().is_slc(block) => self.look_at(plane, moment),
            PageEnd::Full => self.gained(plane, moment),
            PageEnd::Bad => {
                self.collectors[plane as usize].bad.push_back(block);
                self.look_at(plane, moment);
            }
        }
    }

    /// A read of the host's needs a block.
    #[inline]
    pub fn read_began(&mut self, block: u32) {
        self.reads[block as usize] += 1;
        if let Some(disturbs) = self.disturbs.get_mut(block as usize) {
            *disturbs = disturbs.saturating_add(1);
            if *disturbs == self.most_disturbs {
                let plane = self.shape.plane_of(block);
                self.collectors[plane as usize].due.add(Reason::Reads, block);
            }
        }
    }

    /// Returns whether a block was read too often since its last erase.
    fn is_disturbed(&self, block: u32) -> bool {
        self.disturbs.get(block as usize).is_some_and(|&disturbs| disturbs >= self.most_disturbs)
    }

    /// A read of the host's no longer needs its block.
    #[inline]
    pub fn read_ended(&mut self, at: PageAddress, moment: &mut Moment) {
        let block = self.shape.block(at.plane.0, at.block);
        self.reads[block as usize] -= 1;
        if self.reads[block as usize] == 0 {
            self.drained(at.plane.0, block, moment);
        }
        if self.collectors[at.plane.0 as usize].due.is_disturbed() {
            self.look_at(at.plane.0, moment);
        }
    }

    /// The block of a plane that is emptied next, if one is.
    fn next_victim(&mut self, plane: u32, moment: &mut Moment) -> Option<Next> {
        let collector = &mut self.collectors[plane as usize];
        if let Some(victim) = collector.bad.pop_front() {
            return Some(Next { victim, why: Why::Bad, last: true });
        }
        let free = moment.placement.blocks().free_in(plane);
        if free == 0 {
            // Without a block to move into nothing can be collected.
            if collector.open == NONE {
                return None;
            }
            // With pages of one only, blocks that are nearly empty are erased first.
            if !collector.remains.is_empty() {
                return self.finish_one(plane, moment);
            }
        }
        let owed = collector.due.is_owed() && free >= RESERVE;
        if let Some(next) = owed.then(|| self.next_due(plane, moment)).flatten() {
            return Some(next);
        }
        let collector = &mut self.collectors[plane as usize];
        let emptied = collector.remains.waiting();
        let blocks = moment.placement.blocks_mut();
        let need = self.victims.choose(moment.now, plane, emptied, blocks);
        collector.starved = need == Need::Starved;
        match need {
            Need::Empty(victim, why) => Some(Next { victim, why, last: why != Why::Space }),
            Need::Starved => match self.finish_one(plane, moment) {
                Some(next) => Some(next),
                None if free == 0 => None,
                None => self.next_due(plane, moment),
            },
            Need::Nothing => self.next_due(plane, moment),
        }
    }

    /// No other block gains anything: the last units of one that waits are moved without it.
    fn finish_one(&mut self, plane: u32, moment: &mut Moment) -> Option<Next> {
        self.erase_remains(plane, moment);
        let victim = self.collectors[plane as usize].remains.take_any()?;
        self.put_back(victim, moment.placement.blocks_mut());
        Some(Next { victim, why: Why::Space, last: true })
    }

    /// A block that waits for another one does so no longer: it is as full as before.
    fn put_back(&mut self, block: u32, blocks: &mut Blocks) {
        let plane = self.shape.plane_of(block);
        let gathered = &mut self.collectors[plane as usize].gathered;
        gathered.retain(|&slot| self.shape.block_of(slot) != block);
        blocks.put_back(block);
    }

    /// The block of a plane that moves for another reason than its space, if one does.
    fn next_due(&mut self, plane: u32, moment: &mut Moment) -> Option<Next> {
        for reason in self.collectors[plane as usize].due.order() {
            let blocks = moment.placement.blocks();
            let found = match reason {
                Reason::Wear => self.victims.little_worn(plane, blocks),
                Reason::Reads | Reason::Age => self.take_due(plane, reason, blocks),
            };
            let Some(victim) = found else { continue };
            let collector = &mut self.collectors[plane as usize];
            collector.due.served(reason);
            if collector.remains.remove(victim) {
                self.put_back(victim, moment.placement.blocks_mut());
            }
            let statistics = &mut moment.context.statistics;
            let why = match reason {
                Reason::Wear => Why::Wear,
                Reason::Reads => Why::Disturb,
                Reason::Age => Why::Age,
            };
            match why {
                Why::Age => statistics.refreshes += 1,
                Why::Disturb => statistics.reclaims += 1,
                _ => {}
            }
            let slc = moment.placement.blocks().is_slc(victim);
            return Some(Next { victim, why: if slc { Why::Fold } else { why }, last: true });
        }
        None
    }

    /// The next block of a plane whose data has to move for a reason. One that is still being filled
    /// waits until it is full.
    fn take_due(&mut self, plane: u32, reason: Reason, blocks: &Blocks) -> Option<u32> {
        let (disturbs, most) = (&self.disturbs, self.most_disturbs);
        let Collector { due, remains, .. } = &mut self.collectors[plane as usize];
        due.take(reason, |block| {
            let many = disturbs.get(block as usize).is_some_and(|&disturbs| disturbs >= most);
            if reason == Reason::Reads && !many {
                return None;
            }
            match blocks.state(block) {
                BlockState::Full => Some(true),
                _ => remains.contains(block).then(|| remains.is_idle(block)),
            }
        })
    }

    /// Moves as many pages as the window allows; erases once all are moved.
    fn go_on(&mut self, plane: u32, moment: &mut Moment) {
        let Some(job) = &self.collectors[plane as usize].job else { return };
        let pages = moment.placement.blocks().pages_of(job.victim);
        while let Some(job) = &mut self.collectors[plane as usize].job {
            if job.abandoned {
                return self.abandon(plane, moment);
            }
            if job.page == pages || job.reads + job.programs >= self.window {
                break;
            }
            let page = (job.victim, job.page);
            job.page += 1;
            if !self.move_page(page, moment) {
                return;
            }
        }
        let Some(job) = self.collectors[plane as usize].job else { return };
        if job.page < pages || job.reads > 0 || self.fill_up(plane, moment) {
            return;
        }
        // Word lines are filled up at the end, and then nothing is left to wait.
        let last = job.last || self.shape.line > 1;
        let least = if last { 1 } else { self.shape.slots as usize };
        if !self.write_gathered(plane, least, moment) {
            return;
        }
        if self.collectors[plane as usize].waits && !self.close_line(plane, moment) {
            return;
        }
        let collector = &self.collectors[plane as usize];
        let Some(job) = collector.job.filter(|job| job.programs == 0) else { return };
        if collector.gathered.is_empty() {
            self.emptied(plane, moment);
        } else if !last {
            // Those that are gathered may all be of blocks before it.
            match moment.placement.blocks().valid_in(job.victim) {
                0 => self.emptied(plane, moment),
                _ => self.set_aside(plane, moment),
            }
        }
    }

    /// Reads, or copies, the valid units of a page; false if the job was given up.
    fn move_page(&mut self, (victim, page): (u32, u32), moment: &mut Moment) -> bool {
        let first = self.shape.slot(victim, page);
        let slots = first..first + self.shape.slots;
        moment.placement.prefetch_slot(slots.end + AHEAD);
        let mut valid = 0;
        for unit in slots.clone().filter_map(|slot| moment.placement.unit(slot)) {
            valid += 1;
            // It is mapped anew when the page was programmed.
            moment.placement.prefetch_unit(unit);
        }
        if valid == 0 {
            return true;
        }
        let source = self.shape.address(victim, page);
        if self.copyback && valid == self.shape.slots {
            let page = self.programs.begin();
            slots.for_each(|slot| self.programs.push(page, slot));
            return self.move_to((OpKind::Copyback, source), page, moment);
        }
        self.read_page(source, valid, moment);
        true
    }

    /// Reads a page of the job's filler, if the last units do not fill a page. Returns whether a
    /// page is read.
    fn fill_up(&mut self, plane: u32, moment: &mut Moment) -> bool {
        let Collector { job: Some(Job { filler: Some((block, page)), .. }), gathered, .. } =
            &mut self.collectors[plane as usize]
        else {
            return false;
        };
        // Units that the host wrote or trimmed meanwhile are not moved.
        gathered.retain(|&slot| moment.placement.unit(slot).is_some());
        while (1..self.shape.slots as usize).contains(&gathered.len())
            && *page < self.shape.geometry.pages
        {
            let first = self.shape.slot(*block, *page);
            let source = self.shape.address(*block, *page);
            *page += 1;
            let slots = first..first + self.shape.slots;
            let valid = count(slots.filter(|&slot| moment.placement.unit(slot).is_some()).count());
            if valid > 0 {
                self.read_page(source, valid, moment);
                return true;
            }
        }
        false
    }

    /// Reads the valid units of a page.
    fn read_page(&mut self, source: PageAddress, valid: u32, moment: &mut Moment) {
        let plane = source.plane.0;
        if let Some(job) = &mut self.collectors[plane as usize].job {
            job.reads += 1;
        }
        let op = Op {
            kind: OpKind::Read,
            at: source,
            source,
            bytes: valid * self.shape.unit,
            priority: Priority::Gc,
            token: GC_READ | u64::from(plane),
            group: 0,
        };
        moment.context.submit_for(moment.now, op, |owners| owners.collection(plane));
    }

    /// Programs pages of the gathered units, each of at least `least` units; false
    /// if the job was given up.
    fn write_gathered(&mut self, plane: u32, least: usize, moment: &mut Moment) -> bool {
        let collector = &mut self.collectors[plane as usize];
        // Units that the host wrote or trimmed meanwhile are not moved.
        collector.gathered.retain(|&slot| moment.placement.unit(slot).is_some());
        while self.collectors[plane as usize].gathered.len() >= least.max(1) {
            let page = self.programs.begin();
            let gathered = &self.collectors[plane as usize].gathered;
            let count = gathered.len().min(self.shape.slots as usize);
            let collector = &mut self.collectors[plane as usize];
            for slot in collector.gathered.drain(..count) {
                self.programs.push(page, slot);
                if !collector.remains.is_empty() {
                    collector.remains.take_off(self.shape.block_of(slot));
                }
            }
            let nowhere = PageAddress { plane: PlaneId(plane), ..PageAddress::default() };
            if !self.move_to((OpKind::Program, nowhere), page, moment) {
                return false;
            }
        }
        true
    }

    /// Ends the moves for now: the word line of the last pages is filled up with empty ones and has
    /// its fine pass. Returns false if the job was given up.
    fn close_line(&mut self, plane: u32, moment: &mut Moment) -> bool {
        loop {
            let block = self.collectors[plane as usize].open;
            if block == NONE {
                break;
            }
            let begun = moment.placement.blocks().begun(block);
            if begun.is_multiple_of(self.shape.line) {
                moment.context.array.close_lines(moment.now, self.shape.address(block, begun - 1));
                break;
            }
            let page = self.programs.begin();
            let nowhere = PageAddress { plane: PlaneId(plane), ..PageAddress::default() };
            moment.context.statistics.line_padding += 1;
            if !self.move_to((OpKind::Program, nowhere), page, moment) {
                return false;
            }
        }
        self.collectors[plane as usize].waits = false;
        true
    }

    /// Submits a page of moved units of the plane of `source`. Returns false if there is no room
    /// and the job was given up.
    fn move_to(
        &mut self,
        (kind, source): (OpKind, PageAddress),
        page: u32,
        moment: &mut Moment,
    ) -> bool {
        let plane = source.plane.0;
        let blocks = moment.placement.blocks_mut();
        let collector = &mut self.collectors[plane as usize];
        if collector.open == NONE {
            let aside = collector.job.as_mut().map(|job| std::mem::replace(&mut job.aside, NONE));
            let aside = aside.filter(|&aside| aside != NONE);
            collector.open = aside.or_else(|| blocks.open(plane)).unwrap_or(NONE);
        }
        let block = collector.open;
        if block == NONE {
            self.programs.end(page);
            self.abandon(plane, moment);
            return false;
        }
        let at = self.shape.address(block, blocks.next_page(block));
        if at.page + 1 == self.shape.geometry.pages {
            collector.open = NONE;
        }
        collector.waits = self.shape.line > 1 && collector.open != NONE;
        #[cfg(test)]
        if let Some(shadow) = &mut moment.context.shadow {
            shadow.moved(at, self.programs.contents(page));
        }
        if let Some(job) = &mut collector.job {
            job.programs += 1;
        }
        let copies = kind == OpKind::Copyback;
        let op = Op {
            kind,
            at,
            source: if copies { source } else { at },
            bytes: if copies { 0 } else { self.shape.geometry.page_size },
            priority: Priority::Gc,
            token: if copies { GC_COPY } else { GC_PROGRAM } | u64::from(page),
            group: 0,
        };
        moment.context.submit_for(moment.now, op, |owners| owners.collection(plane));
        true
    }

    /// A page was read whose units move.
    pub fn read_done(&mut self, done: &OpDone, moment: &mut Moment) {
        let plane = done.op.at.plane.0;
        self.take_in((done.op.at, done.status), moment);
        let collector = &mut self.collectors[plane as usize];
        if let Some(job) = &mut collector.job {
            job.reads -= 1;
        }
        let least = self.shape.slots as usize;
        let abandoned = collector.job.is_some_and(|job| job.abandoned);
        if abandoned || self.write_gathered(plane, least, moment) {
            self.go_on(plane, moment);
        }
    }

    /// Gathers the valid units of a page that was read.
    fn take_in(&mut self, (at, status): (PageAddress, OpStatus), moment: &mut Moment) {
        let first = self.shape.slot_at(at);
        let collector = &self.collectors[at.plane.0 as usize];
        let filler = collector.job.and_then(|job| job.filler);
        let fills = filler.is_some_and(|(block, _)| block == self.shape.block_of(first));
        for slot in first..first + self.shape.slots {
            let gathered = self.collectors[at.plane.0 as usize].gathered.len();
            if fills && gathered >= self.shape.slots as usize {
                break;
            }
            let Some(unit) = moment.placement.unit(slot) else { continue };
            match status {
                OpStatus::Uncorrectable => {
                    if let Some(plane) = moment.placement.lose(unit) {
                        self.gained(plane, moment);
                    }
                    #[cfg(test)]
                    if let Some(shadow) = &mut moment.context.shadow {
                        shadow.damage(unit, slot);
                    }
                    continue;
                }
                OpStatus::Corrupted { seed } => moment.placement.corrupt(unit, seed),
                _ => {}
            }
            let gathered = &mut self.collectors[at.plane.0 as usize].gathered;
            debug_assert!(!gathered.contains(&slot), "a slot is gathered once");
            gathered.push(slot);
        }
    }

    /// A page of moved units was copied within the plane, or not.
    pub fn copy_done(&mut self, page: u32, done: &OpDone, moment: &mut Moment) {
        if done.status == OpStatus::Uncorrectable {
            // There was nothing to copy. The page it was to go to stays empty.
            self.take_in((done.op.source, done.status), moment);
        }
        self.program_done(page, done, moment);
    }

    /// A page of moved units was programmed, or not.
    pub fn program_done(&mut self, page: u32, done: &OpDone, moment: &mut Moment) {
        let plane = done.op.at.plane.0;
        let first = self.shape.slot_at(done.op.at);
        let block = self.shape.block(plane, done.op.at.block);
        let failed = done.status == OpStatus::ProgramFailed;
        let collector = &mut self.collectors[plane as usize];
        let folds = collector.job.is_some_and(|job| job.why == Why::Fold);
        for (index, &old) in (0..).zip(self.programs.contents(page)) {
            if !collector.remains.is_empty() {
                collector.remains.land(self.shape.block_of(old));
            }
            // The host wrote it meanwhile, or it was lost.
            let Some(unit) = moment.placement.unit(old) else { continue };
            if failed {
                collector.gathered.push(old);
                continue;
            }
            if let OpStatus::Corrupted { seed } = done.status {
                moment.placement.corrupt(unit, seed);
            }
            moment.placement.relocate(unit, old, first + index);
            moment.context.statistics.moved_units += 1;
            moment.context.statistics.folded_units += u64::from(folds);
        }
        self.programs.end(page);
        if let Some(job) = &mut collector.job {
            job.programs -= 1;
        }
        if failed && collector.open == block {
            (collector.open, collector.waits) = (NONE, false);
        }
        let end = moment.placement.blocks_mut().page_ended(block, failed);
        self.block_ended((block, end), moment);
        self.erase_remains(plane, moment);
        self.go_on(plane, moment);
    }

    /// The job ends with units that do not fill a page: its block waits with them.
    fn set_aside(&mut self, plane: u32, moment: &mut Moment) {
        let Some(job) = self.collectors[plane as usize].job else { return };
        self.collectors[plane as usize].remains.add(job.victim);
        moment.context.note(|owners| owners.leave(plane, job.victim));
        self.end_job(plane, moment);
    }

    /// Erases the blocks that waited and are empty now.
    fn erase_remains(&mut self, plane: u32, moment: &mut Moment) {
        let Collector { remains, gathered, .. } = &mut self.collectors[plane as usize];
        if remains.is_empty() {
            return;
        }
        let (reads, blocks) = (&self.reads, moment.placement.blocks());
        let empty = |block: u32| blocks.valid_in(block) == 0 && reads[block as usize] == 0;
        while let Some(block) = remains.begin_erase(empty) {
            // Other units may soon lie in its slots.
            gathered.retain(|&slot| self.shape.block_of(slot) != block);
            self.erasing += 1;
            let at = self.shape.address(block, 0);
            let op = Op {
                kind: OpKind::Erase,
                at,
                source: at,
                bytes: 0,
                priority: Priority::Gc,
                token: ERASE | u64::from(plane),
                group: 0,
            };
            moment.context.submit_for(moment.now, op, |owners| owners.erase_left(block));
        }
    }

    /// All is moved: the block is erased, once no read of the host's needs it.
    fn emptied(&mut self, plane: u32, moment: &mut Moment) {
        let scope = self.gate.scope(plane);
        let Some(job) = &mut self.collectors[plane as usize].job else { return };
        if job.why == Why::Bad {
            moment.placement.blocks_mut().retire(job.victim);
            return self.end_job(plane, moment);
        }
        let drains = self.reads[job.victim as usize] > 0;
        job.draining = drains;
        if drains {
            if std::mem::take(&mut job.held) {
                // Reads that came before the hold could not finish under it.
                moment.context.array.release(moment.now, scope);
            }
            return;
        }
        let at = self.shape.address(job.victim, 0);
        let op = Op {
            kind: OpKind::Erase,
            at,
            source: at,
            bytes: 0,
            priority: Priority::Gc,
            token: ERASE | u64::from(plane),
            group: 0,
        };
        moment.context.submit_for(moment.now, op, |owners| owners.collection(plane));
    }

    /// The host's last read of a block has ended.
    fn drained(&mut self, plane: u32, block: u32, moment: &mut Moment) {
        self.erase_remains(plane, moment);
        let Some(job) = &mut self.collectors[plane as usize].job else { return };
        if !job.draining || job.victim != block {
            return;
        }
        job.draining = false;
        if self.blocking != Blocking::None {
            job.held = true;
            moment.context.array.hold(moment.now, self.gate.scope(plane));
        }
        self.emptied(plane, moment);
    }

    /// A block was erased, or is given up because it could not be.
    pub fn erase_done(&mut self, done: &OpDone, moment: &mut Moment) {
        let plane = done.op.at.plane.0;
        let block = self.shape.block(plane, done.op.at.block);
        if done.status == OpStatus::EraseFailed {
            moment.placement.blocks_mut().retire(block);
        } else {
            self.victims.erased(plane);
            moment.placement.blocks_mut().erased(block);
            if let Some(disturbs) = self.disturbs.get_mut(block as usize) {
                *disturbs = 0;
            }
            self.collectors[plane as usize].due.erased(block);
        }
        if self.collectors[plane as usize].remains.remove(block) {
            self.erasing -= 1;
            return self.look_at(plane, moment);
        }
        self.end_job(plane, moment);
    }

    fn end_job(&mut self, plane: u32, moment: &mut Moment) {
        let Some(job) = self.collectors[plane as usize].job.take() else { return };
        self.collectors[plane as usize].take_back(job.aside, moment.placement.blocks_mut());
        if self.blocking != Blocking::None {
            self.gate.ended(plane, &moment.context.array);
        }
        if job.held {
            moment.context.array.release(moment.now, self.gate.scope(plane));
        }
        self.jobs -= 1;
        let block = self.shape.address(job.victim, 0).block;
        let times = (job.since, moment.now);
        if job.why == Why::Fold {
            moment.context.folded(plane, block, times);
        } else {
            moment.context.collected(plane, block, times);
        }
        self.look_at(plane, moment);
    }

    /// Gives the job up, as there is nowhere to move to: the block stays as it is.
    fn abandon(&mut self, plane: u32, moment: &mut Moment) {
        let collector = &mut self.collectors[plane as usize];
        collector.gathered.clear();
        let Some(mut job) = collector.job.take() else { return };
        if job.reads + job.programs > 0 {
            // The end of each operation under way calls this again.
            job.abandoned = true;
            collector.job = Some(job);
            return;
        }
        let blocks = moment.placement.blocks_mut();
        collector.take_back(job.aside, blocks);
        if job.why == Why::Bad {
            collector.bad.push_back(job.victim);
        } else {
            blocks.put_back(job.victim);
        }
        collector.starved = true;
        if job.why == Why::Age {
            collector.due.add(Reason::Age, job.victim);
        }
        // Units of others that were gathered are where they were, too.
        let mut back = vec![job.victim];
        while let Some(block) = collector.remains.take_any() {
            blocks.put_back(block);
            back.push(block);
        }
        let most = self.most_disturbs;
        let many = |&block: &u32| self.disturbs.get(block as usize).is_some_and(|&d| d >= most);
        back.into_iter().filter(many).for_each(|block| collector.due.add(Reason::Reads, block));
        if job.held {
            moment.context.array.release(moment.now, self.gate.scope(plane));
        }
        moment.context.note(|owners| owners.abandon_collection(plane));
        self.jobs -= 1;
    }

    /// The power failed: nothing is under way any more. Moved units stay moved; an erase begins
    /// again when the plane is looked at.
    pub fn power_cut(&mut self, placement: &mut Placement) {
        self.reads.fill(0);
        self.programs.clear();
        (self.jobs, self.erasing) = (0, 0);
        self.gate.power_cut();
        let blocks = placement.blocks_mut();
        for collector in &mut self.collectors {
            collector.gathered.clear();
            collector.remains.take_all().into_iter().for_each(|block| blocks.put_back(block));
            (collector.starved, collector.waits) = (false, false);
            if let Some(job) = collector.job.take() {
                collector.take_back(job.aside, blocks);
                if blocks.state(job.victim) == BlockState::Bad {
                    collector.bad.push_front(job.victim);
                } else {
                    blocks.put_back(job.victim);
                }
            }
        }
    }

    /// A bad block whose last program a power cut dropped is to be emptied.
    pub fn found_bad(&mut self, plane: u32, block: u32) {
        let bad = &mut self.collectors[plane as usize].bad;
        if !bad.contains(&block) {
            bad.push_back(block);
        }
    }

    /// A block takes no more pages.
    pub fn forget(&mut self, plane: u32, block: u32) {
        let open = &mut self.collectors[plane as usize].open;
        if *open == block {
            *open = NONE;
        }
    }

    /// A block of moved units has pages left after a power cut, or from the beginning of the run
    /// on: it is open again; false if it would need the place of another.
    pub fn reopen(&mut self, plane: u32, block: u32) -> bool {
        let open = &mut self.collectors[plane as usize].open;
        if *open == NONE {
            *open = block;
        }
        *open == block
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;
