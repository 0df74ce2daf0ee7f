//! The layer that brings faults about.

use std::collections::{BTreeMap, HashMap};

use stasis_block::clock::Nanos;
use stasis_block::timeline::{Numbers, Spans, Tracks};
use stasis_block::{splitmix, Command, Delivery, Operation, Random, Request, Status, Tag, SECTOR};
use stasis_run_events::FaultRecord;

use super::old_versions::{OldVersions, StaleSectors};
use super::room::Room;
use super::{changes, DriveFault, DriveFaultKind, FaultChange};
use crate::join::flip;
use crate::{Control, Decorator, Done, Layer, LayerTimes, Sampling, WritePointers};

/// Limit on the sectors with a wrong bit.
pub const MAX_ROTTEN: u64 = 4096;

/// A drive with faults.
pub struct Faults {
    lower: Box<dyn Layer>,
    control: Reports,
    faults: Vec<Fault>,
    seed: u64,
    /// Commands so far, those before the guests' commands' start too.
    submitted: u64,
    /// Commands in flight since the start, with their faults.
    marks: HashMap<Tag, Mark>,
    /// Completed by the layer below, and not yet due here: by time, then in the order below.
    held: BTreeMap<(Nanos, u64), Held>,
    passed: u64,
    /// Sectors with a wrong bit: the bit of each.
    rotten: BTreeMap<u64, u64>,
    /// The sectors written, where a fault asks for the room that they take.
    room: Option<Room>,
    /// The contents overwritten since the start, where a fault brings them back.
    old: Option<OldVersions>,
    from_lower: Vec<Done>,
    /// While the drive is watched: the numbers of the commands that it gets.
    numbers: Option<Box<Numbers>>,
}

/// A fault and its progress.
struct Fault {
    spec: DriveFault,
    /// Time from which its own times count (ns): the commands' start, or its trigger, once that
    /// was.
    since: Option<Nanos>,
    random: Random,
    happened: u64,
    /// True if its sectors have been chosen.
    rotted: bool,
    /// Sectors that a full drive has room for, once the fault has begun.
    room: Option<u64>,
}

/// A command's number, and the faults that have befallen it.
#[derive(Default)]
struct Mark {
    order: u64,
    fails: Option<Status>,
    corrupts: Option<u64>,
    stale: StaleSectors,
    factor: f64,
    delay: Nanos,
    delivery: Delivery,
}

/// A command that is done below, and not yet due here.
struct Held {
    done: Done,
    /// Time at which it would have been due without stalls (ns), and what faults had added to its
    /// time then.
    due: Nanos,
    added: Nanos,
    /// The stalls that hold it.
    stalls: Vec<u16>,
}

/// The records, and the start of the commands, before which no fault happens.
#[derive(Default)]
struct Reports {
    begun: Option<Nanos>,
    records: Vec<FaultRecord>,
}

impl Reports {
    /// Records that a fault has befallen a command.
    fn befell(&mut self, fault: u16, at: Nanos, order: u64, command: &Command) {
        let &Command { offset, length, .. } = command;
        self.records.push(FaultRecord { fault, at, order: Some(order), offset, length });
    }
}

impl Fault {
    fn new(spec: DriveFault, seed: u64) -> Self {
        let random = Self::draws(&spec, seed);
        Self { spec, since: None, random, happened: 0, rotted: false, room: None }
    }

    /// The numbers that the fault of `spec` draws: no fault moves what another draws.
    fn draws(spec: &DriveFault, seed: u64) -> Random {
        Random::new(splitmix::nth(seed, u64::from(spec.number) + 1))
    }

    /// Returns whether the fault is there at `now` (ns).
    fn holds(&self, now: Nanos) -> bool {
        let at = self.since.and_then(|since| now.checked_sub(since));
        at.is_some_and(|at| self.spec.holds(at))
    }

    /// Returns whether the fault befalls `command`, number `order`, at `now` (ns).
    fn befalls(&mut self, now: Nanos, command: &Command, order: u64) -> bool {
        let spec = &self.spec;
        let may = self.holds(now)
            && order >= spec.first
            && spec.times.is_none_or(|times| self.happened < times)
            && spec.concerns(command)
            && (spec.rate >= 1.0 || self.random.unit() < spec.rate);
        self.happened += u64::from(may);
        may
    }
}

impl Faults {
    /// Brings `faults` about on `lower`, at random by `seed`.
    pub fn new(lower: Box<dyn Layer>, faults: Vec<DriveFault>, seed: u64) -> Self {
        let has = |kind| faults.iter().any(|fault| fault.kind == kind);
        Self {
            room: has(DriveFaultKind::Full).then(Room::default),
            old: has(DriveFaultKind::StaleRead).then(OldVersions::default),
            lower,
            control: Reports::default(),
            faults: faults.into_iter().map(|spec| Fault::new(spec, seed)).collect(),
            seed,
            submitted: 0,
            marks: HashMap::new(),
            held: BTreeMap::new(),
            passed: 0,
            rotten: BTreeMap::new(),
            from_lower: Vec::new(),
            numbers: None,
        }
    }

    /// A layer without faults on a working drive that was given `submitted` commands, whose guests'
    /// commands began at `begun` (ns), if they have; else they begin with [`FaultChange::begun`]. It
    /// brings about those of [`Control::set_faults`].
    pub fn joining(lower: Box<dyn Layer>, submitted: u64, begun: Option<Nanos>) -> Self {
        let mut faults = Self::new(lower, Vec::new(), 0);
        faults.submitted = submitted;
        // The drive may be watched.
        faults.numbers = Some(Box::new(Numbers::after(submitted)));
        faults.control.begun = begun;
        faults
    }

    /// Has these faults from now on. One that stays goes on as it is, but for what it draws.
    fn change(&mut self, FaultChange { faults, seed, begun }: FaultChange) {
        let mut old = std::mem::take(&mut self.faults);
        let is_other = seed != self.seed;
        self.seed = seed;
        let begun = self.control.begun.or(begun);
        self.control.begun = begun;
        if self.old.is_none() && faults.iter().any(|one| one.kind == DriveFaultKind::StaleRead) {
            self.old = Some(OldVersions::default());
        }
        for spec in faults {
            let same = old.iter().position(|fault| fault.spec == spec);
            let mut fault = match same {
                Some(place) => old.swap_remove(place),
                None => {
                    Fault { since: begun.filter(|_| !spec.triggered), ..Fault::new(spec, seed) }
                }
            };
            if is_other {
                fault.random = Fault::draws(&fault.spec, seed);
            }
            self.faults.push(fault);
        }
    }

    /// The bytes of the medium in a range, after everything that was submitted.
    fn peek(&mut self, offset: u64, length: u64) -> Vec<u8> {
        let read = Command::new(Operation::Read, offset, length);
        let (status, data) = self.lower.instant(read, vec![0; length as usize]);
        // A medium that cannot be read has an error of its own to report.
        if status == Status::Ok {
            data
        } else {
            vec![0; length as usize]
        }
    }

    fn poke(&mut self, offset: u64, data: Vec<u8>) {
        let write = Command::new(Operation::Write, offset, data.len() as u64);
        self.lower.instant(write, data);
    }

    /// Chooses the sectors of faults that have begun.
    fn rot(&mut self, now: Nanos) {
        let capacity = self.lower.properties().capacity;
        for fault in &mut self.faults {
            let spec = &fault.spec;
            if spec.kind != DriveFaultKind::BitRot || fault.rotted || !fault.holds(now) {
                continue;
            }
            fault.rotted = true;
            let length = spec.length.unwrap_or(u64::MAX).min(capacity.saturating_sub(spec.offset));
            // Whole sectors of the region only.
            let first = spec.offset.div_ceil(SECTOR);
            let count = ((spec.offset + length) / SECTOR).saturating_sub(first);
            for _ in 0..spec.times.unwrap_or(1).min(MAX_ROTTEN).min(count) {
                let sector = first + fault.random.below(count);
                self.rotten.insert(sector, fault.random.below(8 * SECTOR));
                fault.happened += 1;
                self.control.records.push(FaultRecord {
                    fault: spec.number,
                    at: now,
                    order: None,
                    offset: sector * SECTOR,
                    length: SECTOR,
                });
            }
        }
    }

    /// Notes what drives that are now full have room for.
    fn fill(&mut self, now: Nanos) {
        let Some(room) = &self.room else { return };
        for fault in &mut self.faults {
            if fault.spec.kind == DriveFaultKind::Full && fault.room.is_none() && fault.holds(now) {
                let space = fault.spec.space.map(|space| space / SECTOR);
                fault.room = Some(space.unwrap_or(room.taken()));
            }
        }
    }

    /// Returns whether a fault that depends on what was written before can befall `command`.
    fn has_cause(&self, fault: &Fault, command: &Command) -> bool {
        match (fault.spec.kind, &self.room, &self.old) {
            (DriveFaultKind::Full, Some(room), _) => {
                // A sector that is rewritten needs no room.
                let needed = room.needed(command);
                needed > 0 && fault.room.is_some_and(|most| room.taken() + needed > most)
            }
            (DriveFaultKind::StaleRead, _, Some(old)) => old.has(command),
            _ => true,
        }
    }

    /// Written sectors are right again.
    fn heal(&mut self, command: &Command) {
        if changes(command.operation) {
            self.heal_between(command.offset, command.offset + command.length);
        }
    }

    /// Keeps what a command that goes below overwrites.
    fn keep_old(&mut self, command: &Command) {
        if self.old.is_none() || !changes(command.operation) || command.length == 0 {
            return;
        }
        let data = self.peek(command.offset, command.length);
        if let Some(old) = &mut self.old {
            old.keep(command.offset / SECTOR, &data);
        }
    }

    fn heal_between(&mut self, begin: u64, end: u64) {
        let sectors = begin / SECTOR..end / SECTOR;
        self.rotten.retain(|sector, _| !sectors.contains(sector));
    }

    /// Returns the writes by which faults take back or move a command on its way down: each a place
    /// and its bytes, in order.
    fn writes(
        &mut self,
        kind: DriveFaultKind,
        fault: usize,
        request: &Request,
    ) -> Vec<(u64, Vec<u8>)> {
        let Command { offset, length, .. } = request.command;
        let mut old = self.peek(offset, length);
        let capacity = self.lower.properties().capacity;
        let random = &mut self.faults[fault].random;
        match kind {
            DriveFaultKind::TornWrite => {
                let sectors = length / SECTOR;
                let kept = SECTOR * (1 + random.below(sectors - 1));
                vec![(offset + kept, old.split_off(kept as usize))]
            }
            DriveFaultKind::MisdirectedWrite => {
                let places = capacity.saturating_sub(length) / length.max(1);
                let other = length * random.up_to(places);
                // The write is lost where there is no other place.
                let moved = (other != offset).then(|| (other, request.data.clone()));
                [(offset, old)].into_iter().chain(moved).collect()
            }
            _ => vec![(offset, old)],
        }
    }

    /// Ends a command that does not go below.
    fn end(
        &mut self,
        now: Nanos,
        (order, delivery): (u64, Delivery),
        request: Request,
        status: Status,
    ) {
        let done = Done {
            tag: request.tag,
            queue: request.queue,
            command: request.command,
            status,
            failed_at: 0,
            data: request.data,
            submit: now,
            order,
            at: now,
            layers: LayerTimes::default(),
            delivery,
        };
        self.hold(done);
    }

    /// The drive gets a command.
    fn pass(&mut self, now: Nanos, order: u64, request: Request) {
        if let Some(numbers) = &mut self.numbers {
            numbers.pass(order);
        }
        self.lower.submit(now, request);
    }

    /// Holds a command until it is due, behind the stalls of that time.
    fn hold(&mut self, done: Done) {
        let (due, added) = (done.at, done.layers.fault);
        let (done, stalls) = self.stall(done);
        self.held.insert((done.at, self.passed), Held { done, due, added, stalls });
        self.passed += 1;
    }

    /// Lets commands go that the stall `number` holds, at `now` (ns), as far as no other holds them.
    fn release(&mut self, number: u16, now: Nanos) {
        for (key, held) in std::mem::take(&mut self.held) {
            if !held.stalls.contains(&number) {
                self.held.insert(key, held);
                continue;
            }
            let Held { mut done, due, added, .. } = held;
            (done.at, done.layers.fault) = (due, added);
            done.delay_until(due.max(now));
            self.hold(done);
        }
    }

    /// A command as it leaves: its faults have acted.
    fn act(&mut self, mut done: Done) -> Done {
        if let Some(mark) = self.marks.remove(&done.tag) {
            (done.order, done.delivery) = (mark.order, mark.delivery);
            if mark.factor > 0.0 {
                let more = (done.at - done.submit) as f64 * (mark.factor - 1.0);
                let more = (more.max(0.0) as u64).saturating_add(mark.delay);
                done.delay_until(done.at.saturating_add(more));
            }
            if let Some(status) = mark.fails.filter(|_| done.status == Status::Ok) {
                (done.status, done.failed_at) = (status, 0);
            }
            self.return_rotten(&mut done);
            if done.status == Status::Ok {
                mark.stale.put(&mut done.data);
                if let Some(seed) = mark.corrupts {
                    flip(&mut done.data, seed);
                }
            }
        } else {
            self.return_rotten(&mut done);
        }
        done
    }

    /// A read of sectors with a wrong bit has it.
    fn return_rotten(&self, done: &mut Done) {
        let reads = matches!(done.command.operation, Operation::Read | Operation::Verify);
        if reads && done.status == Status::Ok {
            let first = done.command.offset / SECTOR;
            let sectors = first..first + done.command.length / SECTOR;
            for (sector, bit) in self.rotten.range(sectors) {
                let start = ((sector - first) * SECTOR) as usize;
                if let Some(bytes) = done.data.get_mut(start..start + SECTOR as usize) {
                    flip(bytes, *bit);
                }
            }
        }
    }

    /// A command that ends during a stall ends with it. Returns the stalls as well.
    fn stall(&mut self, mut done: Done) -> (Done, Vec<u16>) {
        let mut stalls = Vec::new();
        loop {
            let before = done.at;
            for fault in &mut self.faults {
                let (spec, since) = (&fault.spec, fault.since.unwrap_or(Nanos::MAX));
                if spec.kind == DriveFaultKind::Stall
                    && fault.holds(done.at)
                    && spec.concerns(&done.command)
                    && done.order >= spec.first
                {
                    fault.happened += 1;
                    stalls.push(spec.number);
                    self.control.befell(spec.number, done.at, done.order, &done.command);
                    done.delay_until(spec.end.map_or(Nanos::MAX, |end| since.saturating_add(end)));
                    break;
                }
            }
            // Another stall may follow at once.
            if done.at == before || done.at == Nanos::MAX {
                return (done, stalls);
            }
        }
    }
}

impl Decorator for Faults {
    fn lower(&self) -> &dyn Layer {
        &*self.lower
    }

    fn lower_mut(&mut self) -> &mut dyn Layer {
        &mut *self.lower
    }

    fn submit(&mut self, now: Nanos, mut request: Request) {
        let order = self.submitted;
        self.submitted += 1;
        let command = request.command;
        if self.control.begun.is_none() {
            if let Some(room) = &mut self.room {
                room.note(&command);
            }
            return self.pass(now, order, request);
        }
        self.rot(now);
        self.fill(now);
        let (mut mark, mut writes, mut ends) =
            (Mark { order, ..Mark::default() }, Vec::new(), None);
        for index in 0..self.faults.len() {
            let kind = self.faults[index].spec.kind;
            let acts = kind != DriveFaultKind::Stall
                && self.has_cause(&self.faults[index], &command)
                && self.faults[index].befalls(now, &command, order);
            if !acts {
                continue;
            }
            let spec = &self.faults[index].spec;
            self.control.befell(spec.number, now, order, &command);
            match kind {
                DriveFaultKind::Slow => {
                    mark.factor = mark.factor.max(1.0) * spec.factor;
                    mark.delay = mark.delay.saturating_add(spec.delay);
                }
                DriveFaultKind::ReadError => mark.fails = Some(Status::ReadError),
                DriveFaultKind::StaleRead => {
                    mark.stale = self.old.as_ref().map(|old| old.of(&command)).unwrap_or_default();
                }
                DriveFaultKind::FlushError => ends = Some(Status::WriteError),
                DriveFaultKind::LostFlush if command.operation == Operation::Flush => {
                    ends = ends.or(Some(Status::Ok));
                }
                DriveFaultKind::LostFlush => request.command.fua = false,
                DriveFaultKind::CorruptRead => {
                    mark.corrupts = Some(self.faults[index].random.below(u64::MAX));
                }
                DriveFaultKind::WriteError
                | DriveFaultKind::Full
                | DriveFaultKind::LostWrite
                | DriveFaultKind::TornWrite
                | DriveFaultKind::MisdirectedWrite => {
                    mark.fails = mark.fails.or(match kind {
                        DriveFaultKind::WriteError => Some(Status::WriteError),
                        DriveFaultKind::Full => Some(Status::NoSpace),
                        _ => None,
                    });
                    if writes.is_empty() {
                        writes = self.writes(kind, index, &request);
                    }
                }
                DriveFaultKind::LostCompletion
                | DriveFaultKind::DoubledCompletion
                | DriveFaultKind::LostInterrupt
                | DriveFaultKind::StuckQueue
                | DriveFaultKind::ControllerFailure => {
                    mark.delivery = kind.delivery().unwrap_or_default();
                }
                DriveFaultKind::Stall
                | DriveFaultKind::BitRot
                | DriveFaultKind::Gone
                | DriveFaultKind::PathInaccessible
                | DriveFaultKind::PathNonOptimized
                | DriveFaultKind::NamespaceDetached
                | DriveFaultKind::NamespaceResized => {}
            }
        }
        if let Some(status) = ends {
            return self.end(now, (order, mark.delivery), request, status);
        }
        if let Some(room) = self.room.as_mut().filter(|_| mark.fails.is_none()) {
            room.note(&command);
        }
        self.marks.insert(request.tag, mark);
        match &writes[..] {
            [] => {
                self.keep_old(&command);
                self.heal(&command);
            }
            // The part that is taken back begins behind the written one; the moved part follows.
            [(taken_back, _), moved @ ..] => {
                let written = (command.offset, *taken_back);
                let moved =
                    moved.iter().map(|(offset, data)| (*offset, offset + data.len() as u64));
                let healed: Vec<_> = std::iter::once(written).chain(moved).collect();
                for (begin, end) in healed {
                    self.heal_between(begin, end);
                    if let Some(old) = &mut self.old {
                        old.forget(begin / SECTOR..end / SECTOR);
                    }
                }
            }
        }
        self.pass(now, order, request);
        for (offset, data) in writes {
            self.poke(offset, data);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let held = self.held.keys().next().map(|(at, _)| *at).filter(|at| *at != Nanos::MAX);
        self.lower.next_event().into_iter().chain(held).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let mut below = std::mem::take(&mut self.from_lower);
        self.lower.advance(now, &mut below);
        // Before the start nothing is marked, and nothing held.
        if self.control.begun.is_none() {
            done.append(&mut below);
        }
        for one in below.drain(..) {
            let one = self.act(one);
            self.hold(one);
        }
        self.from_lower = below;
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= now) {
            done.push(entry.remove().done);
        }
    }

    fn in_flight(&self) -> usize {
        self.lower.in_flight() + self.held.len()
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.heal(&command);
        if let Some(room) = &mut self.room {
            room.note(&command);
        }
        self.lower.instant(command, data)
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for Faults {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        Some(self.lower.control())
    }

    fn start(&mut self, now: Nanos) {
        // A machine that boots again begins its command again.
        let begun = *self.control.begun.get_or_insert(now);
        for fault in self.faults.iter_mut().filter(|fault| !fault.spec.triggered) {
            fault.since.get_or_insert(begun);
        }
        self.lower.control().start(now);
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        self.numbers.get_or_insert_default();
        self.lower.control().watch(tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        let from = spans.kept().len();
        self.lower.control().take_spans(spans);
        if let Some(numbers) = &self.numbers {
            spans.renumber(from, numbers);
        }
    }

    fn set_faults(&mut self, change: FaultChange) -> Result<(), FaultChange> {
        self.change(change);
        Ok(())
    }

    fn begin_fault(&mut self, number: u16, now: Nanos) {
        let begun = self.control.begun.is_some();
        let its = |fault: &&mut Fault| begun && fault.spec.triggered && fault.spec.number == number;
        if let Some(fault) = self.faults.iter_mut().find(its) {
            (fault.since, fault.rotted, fault.room) = (Some(now), false, None);
        }
        self.lower.control().begin_fault(number, now);
    }

    fn end_fault(&mut self, number: u16, now: Nanos) -> Option<u64> {
        let place = self.faults.iter().position(|fault| fault.spec.number == number)?;
        let ended = self.faults.remove(place);
        if ended.spec.kind == DriveFaultKind::Stall {
            self.release(number, now);
        }
        Some(ended.happened)
    }

    fn cut_power(&mut self, now: Nanos, sampling: Sampling) -> Option<WritePointers> {
        // Overwritten contents may be there again: older versions are none.
        if let Some(old) = &mut self.old {
            old.forget(0..u64::MAX);
        }
        self.lower.control().cut_power(now, sampling)
    }

    fn take_faults(&mut self, faults: &mut Vec<FaultRecord>) {
        faults.append(&mut self.control.records);
        self.lower.control().take_faults(faults);
    }
}
