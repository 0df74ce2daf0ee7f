//! The planes: which operation starts where, and when.

use stasis_block::clock::Nanos;

use super::slots::{Phase, NONE};
use super::unit::UnitState;
use super::{Array, OpKind, Priority, Scheduling, MAX_PASSED};

impl Array {
    /// Lets a unit decide once everything that ends now has ended.
    #[inline]
    pub(super) fn touch(&mut self, unit: u32) {
        let this = &mut self.units[unit as usize];
        if !this.dirty {
            this.dirty = true;
            self.dirty_units.push(unit);
        }
    }

    /// Like [`Self::touch`], but only if the unit has anything to decide on.
    pub(super) fn touch_if_waiting(&mut self, unit: u32) {
        let this = &self.units[unit as usize];
        let queued = this.queues.iter().any(|queue| !queue.is_empty());
        if queued
            || this.state == UnitState::ReadDone
            || this.next != NONE
            || this.suspended != NONE
        {
            self.touch(unit);
        }
    }

    /// Starts whatever a unit can start.
    pub(super) fn dispatch_unit(&mut self, unit: u32) {
        self.units[unit as usize].dirty = false;
        // Each turn changes the state, or is the last.
        loop {
            let this = &self.units[unit as usize];
            match this.state {
                UnitState::ReadDone => {
                    if !self.begin_read_copy(unit) {
                        return;
                    }
                }
                UnitState::Idle if this.next != NONE => {
                    if this.loading == 0 {
                        self.begin_cached_program(unit);
                    }
                    return;
                }
                UnitState::Idle => {
                    let Some(class) = self.candidate(unit) else { return };
                    if self.is_cached_program(unit, class) {
                        if this.cache == 0 {
                            self.load(unit, class);
                            continue;
                        }
                        return;
                    }
                    return self.start(unit, class);
                }
                UnitState::Suspended if self.gives_way(unit) => {
                    return self.start(unit, Priority::Read as usize);
                }
                UnitState::Suspended => {
                    self.units[unit as usize].state = UnitState::Resuming;
                    self.begin_step(unit, self.medium.timing().resume);
                    return;
                }
                UnitState::Program | UnitState::Erase => {
                    if this.until - self.now > self.medium.timing().suspend && self.gives_way(unit)
                    {
                        self.suspend(unit);
                        return;
                    }
                    if this.next != NONE || this.cache != 0 {
                        return;
                    }
                    let class = self.candidate(unit);
                    let Some(class) = class.filter(|&class| self.is_cached_program(unit, class))
                    else {
                        return;
                    };
                    self.load(unit, class);
                }
                _ => return,
            }
        }
    }

    /// The class of the waiting operation that is first in order.
    fn candidate(&self, unit: u32) -> Option<usize> {
        let this = &self.units[unit as usize];
        let heads = this.queues.map(|queue| queue.head);
        let [read, write, gc] = heads;
        if this.held > 0 {
            return (gc != NONE).then_some(Priority::Gc as usize);
        }
        // Mostly one class.
        match (read != NONE, write != NONE, gc != NONE) {
            (false, false, false) => return None,
            (true, false, false) => return Some(Priority::Read as usize),
            (false, true, false) => return Some(Priority::Write as usize),
            (false, false, true) => return Some(Priority::Gc as usize),
            _ => {}
        }
        let mut classes = (0..3usize).filter(|&class| heads[class] != NONE);
        match self.options.scheduling {
            Scheduling::ReadFirst if gc != NONE && this.passed >= MAX_PASSED => {
                Some(Priority::Gc as usize)
            }
            Scheduling::ReadFirst => classes.next(),
            Scheduling::Fifo => classes.min_by_key(|&class| self.slots[heads[class]].number),
        }
    }

    /// Returns whether the first of a class goes through the cache register to the cells.
    fn is_cached_program(&self, unit: u32, class: usize) -> bool {
        let head = self.units[unit as usize].queues[class].head;
        self.options.cache_register && self.slots[head].op.kind == OpKind::Program
    }

    /// Returns whether a host read waits that a program or erase gives way to.
    fn gives_way(&self, unit: u32) -> bool {
        let this = &self.units[unit as usize];
        let head = this.queues[Priority::Read as usize].head;
        this.given_way < self.options.suspensions
            && this.held == 0
            && head != NONE
            && self.slots[head].op.kind == OpKind::Read
    }

    /// Takes the first operation of a class out of the queue, with the others of its multi-plane
    /// operation. Returns the first and their number.
    fn take(&mut self, unit: u32, class: usize) -> (u32, u8) {
        let this = &mut self.units[unit as usize];
        let queue = &mut this.queues[class];
        let leader = self.slots.pop(queue);
        let (first, since) = (self.slots[leader].op, self.slots[leader].submitted);
        let (mut last, mut count) = (leader, 1);
        if self.parts > 1 && first.group != 0 {
            let bit = |op: super::Op| 1u16 << (op.at.plane.0 % self.parts);
            let mut planes = bit(first);
            while queue.head != NONE {
                let mate = &self.slots[queue.head];
                let joins = mate.op.group == first.group
                    && mate.op.kind == first.kind
                    && mate.submitted == since
                    && planes & bit(mate.op) == 0;
                if !joins {
                    break;
                }
                planes |= bit(mate.op);
                let mate = self.slots.pop(queue);
                self.slots[last].mate = mate;
                if let Some(log) = &mut self.log {
                    log.join(self.slots[leader].number, self.slots[mate].number);
                }
                (last, count) = (mate, count + 1);
            }
        }
        let passes =
            class != Priority::Gc as usize && !this.queues[Priority::Gc as usize].is_empty();
        this.passed = if passes { this.passed.saturating_add(1) } else { 0 };
        let held = this.holders.at(self.now);
        let mut index = leader;
        while index != NONE {
            self.slots.waited(index, self.now, held);
            self.slots[index].mark = held;
            index = self.slots[index].mate;
        }
        this.holders.start(first.priority, self.now);
        (leader, count)
    }

    /// Asks for the channel for each part of a multi-plane operation. Returns the number of parts
    /// that need it.
    fn request_all(&mut self, unit: u32, leader: u32, phase: Phase) -> u8 {
        let (mut index, mut pending) = (leader, 0);
        let channel = self.units[unit as usize].channel;
        while index != NONE {
            pending += u8::from(self.request(channel, index, phase));
            index = self.slots[index].mate;
        }
        pending
    }

    /// Starts an operation at the data register.
    fn start(&mut self, unit: u32, class: usize) {
        let (leader, count) = self.take(unit, class);
        let this = &mut self.units[unit as usize];
        debug_assert_eq!(this.current, NONE, "a plane is used once at a time");
        debug_assert_eq!(this.until, Nanos::MAX);
        if this.suspended == NONE {
            let lun = this.lun;
            self.occupy(lun, 1);
        } else {
            this.given_way = this.given_way.saturating_add(count);
        }
        let this = &mut self.units[unit as usize];
        (this.current, this.state) = (leader, UnitState::Command);
        let program = self.slots[leader].op.kind == OpKind::Program;
        let phase = if program { Phase::DataIn } else { Phase::Command };
        let pending = self.request_all(unit, leader, phase);
        self.units[unit as usize].pending = pending;
        if pending == 0 {
            self.begin_cells(unit);
        }
    }

    /// Starts a program by loading the cache register.
    fn load(&mut self, unit: u32, class: usize) {
        let (leader, _) = self.take(unit, class);
        let planes = self.planes_of(leader);
        let loading = self.request_all(unit, leader, Phase::DataIn);
        let this = &mut self.units[unit as usize];
        debug_assert!(this.next == NONE && this.cache == 0);
        (this.next, this.loading) = (leader, loading);
        this.cache |= planes;
    }

    /// The program in the cache register goes to the idle cells.
    fn begin_cached_program(&mut self, unit: u32) {
        let this = &mut self.units[unit as usize];
        debug_assert!(this.current == NONE && this.suspended == NONE);
        (this.current, this.next) = (this.next, NONE);
        let (lun, held) = (this.lun, this.holders.at(self.now));
        let mut index = this.current;
        while index != NONE {
            self.slots.waited(index, self.now, held);
            index = self.slots[index].mate;
        }
        self.occupy(lun, 1);
        if self.begin_copy(unit, UnitState::ProgramCopy) {
            self.end_program_copy(unit);
        }
    }

    /// Read data goes to the cache register, if that is free; `true` if it is
    /// there at once.
    pub(super) fn begin_read_copy(&mut self, unit: u32) -> bool {
        let planes = self.planes_of(self.units[unit as usize].current);
        let this = &mut self.units[unit as usize];
        if this.cache & planes != 0 {
            return false;
        }
        this.cache |= planes;
        let over = self.begin_copy(unit, UnitState::ReadCopy);
        if over {
            self.end_read_copy(unit);
        }
        over
    }

    /// Begins a copy between registers; `true` if it is over at once. The wait
    /// for it counts as the registers'.
    fn begin_copy(&mut self, unit: u32, state: UnitState) -> bool {
        self.units[unit as usize].state = state;
        if self.medium.timing().register_copy == 0 {
            return true;
        }
        self.begin_step(unit, self.medium.timing().register_copy);
        false
    }

    /// The step that now begins takes `time`.
    pub(super) fn begin_step(&mut self, unit: u32, time: Nanos) {
        let end = self.now.saturating_add(time);
        if let Some(log) = &mut self.log {
            log.begin(unit, self.now);
        }
        self.units[unit as usize].until = end;
        self.schedule(end, unit);
    }

    /// Does something with each of a multi-plane operation; it may end there.
    pub(super) fn each(&mut self, leader: u32, mut with: impl FnMut(&mut Self, u32)) {
        let mut index = leader;
        while index != NONE {
            let mate = self.slots[index].mate;
            with(self, index);
            index = mate;
        }
    }

    /// The planes of a multi-plane operation, as bits.
    pub(super) fn planes_of(&self, leader: u32) -> u16 {
        let (mut index, mut planes) = (leader, 0);
        while index != NONE {
            planes |= self.plane_bit(self.slots[index].op.at.plane);
            index = self.slots[index].mate;
        }
        planes
    }
}
