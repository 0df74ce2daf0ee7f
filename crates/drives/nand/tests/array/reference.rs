//! The array, nanosecond by nanosecond: slow, and with nothing to get wrong but
//! the rules themselves. Every operation has a current step, and each nanosecond is booked to that
//! step.

use stasis_nand::{ArrayOptions, Breakdown, ChannelOrder, Op, OpKind, PlaneMode, Priority};
use stasis_nand::{CellPattern, Geometry, Scheduling, Scope, Timing, MAX_PASSED};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    Command,
    DataIn,
    DataOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Queued,
    WaitingForChannel(Wants),
    OnChannel(Wants, u64),
    WaitingForOthers,
    Loaded,
    WaitingForCacheRegister,
    Copying,
    Cells,
    Suspended,
    Done,
}

#[derive(Debug, Clone)]
pub struct Run {
    pub op: Op,
    submitted: u64,
    ready: u64,
    doing: Doing,
    pub ended: u64,
    pub times: Breakdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Command,
    Cells,
    SecondHalf,
    CacheWait,
    CopyOut,
    CopyIn,
    DataOut,
}

#[derive(Debug, Clone)]
struct Group {
    members: Vec<usize>,
    stage: Stage,
    end: u64,
    gave_way: u32,
}

#[derive(Debug, Default)]
struct Part {
    queue: Vec<usize>,
    held: u32,
    passed: u32,
    cells: Option<Group>,
    suspended: Option<(Group, u64)>,
    suspending: Option<u64>,
    resuming: Option<u64>,
    loading: Option<Vec<usize>>,
}

/// The part of an operation's time in which it waits for one of `holder`'s priority.
fn behind(times: &mut Breakdown, holder: Priority) -> &mut u64 {
    match holder {
        Priority::Read => &mut times.behind_reads,
        Priority::Write => &mut times.behind_writes,
        Priority::Gc => &mut times.gc,
    }
}

pub struct Reference {
    geometry: Geometry,
    cells: CellPattern,
    timing: Timing,
    options: ArrayOptions,
    pub now: u64,
    pub runs: Vec<Run>,
    parts: Vec<Part>,
    // By channel.
    passed: Vec<u32>,
}

impl Reference {
    pub fn new(g: Geometry, cells: CellPattern, timing: Timing, options: ArrayOptions) -> Self {
        let lockstep = options.planes == PlaneMode::Lockstep;
        let parts = if lockstep { g.total_luns() } else { g.total_planes() };
        let parts = (0..parts).map(|_| Part::default()).collect();
        Self {
            geometry: g,
            cells,
            timing,
            options,
            now: 0,
            runs: Vec::new(),
            parts,
            passed: vec![0; g.channels as usize],
        }
    }

    fn part_of(&self, op: &Op) -> usize {
        let lockstep = self.options.planes == PlaneMode::Lockstep;
        (if lockstep { self.geometry.lun(op.at.plane) } else { op.at.plane.0 }) as usize
    }

    fn channel_of(&self, part: usize) -> u32 {
        (part * self.geometry.channels as usize / self.parts.len()) as u32
    }

    pub fn submit(&mut self, op: Op) {
        let part = self.part_of(&op);
        self.parts[part].queue.push(self.runs.len());
        let (submitted, doing) = (self.now, Doing::Queued);
        let times = Breakdown::default();
        self.runs.push(Run { op, submitted, ready: 0, doing, ended: 0, times });
    }

    pub fn hold(&mut self, scope: Scope, held: bool) {
        for part in 0..self.parts.len() {
            let inside = match scope {
                Scope::Controller => true,
                Scope::Channel(channel) => self.channel_of(part) == channel,
                Scope::Plane(at) if self.options.planes == PlaneMode::Lockstep => {
                    self.geometry.lun(at) as usize == part
                }
                Scope::Plane(at) => at.0 as usize == part,
            };
            if inside {
                let held_before = self.parts[part].held;
                self.parts[part].held =
                    if held { held_before + 1 } else { held_before.saturating_sub(1) };
            }
        }
    }

    pub fn is_done(&self) -> bool {
        self.runs.iter().all(|run| run.doing == Doing::Done)
    }

    /// Everything at this instant, then one nanosecond.
    pub fn tick(&mut self) {
        for index in 0..self.runs.len() {
            if let Doing::OnChannel(wants, end) = self.runs[index].doing {
                if end == self.now {
                    self.left_channel(index, wants);
                }
            }
        }
        for part in 0..self.parts.len() {
            while self.end_one(part) || self.start_one(part) {}
        }
        for channel in 0..self.geometry.channels {
            self.grant(channel);
        }
        self.book();
        self.now += 1;
    }

    fn finish(&mut self, index: usize) {
        self.runs[index].doing = Doing::Done;
        self.runs[index].ended = self.now;
    }

    fn ask(&mut self, index: usize, wants: Wants) -> bool {
        let time = self.channel_time(index, wants);
        if time > 0 {
            self.runs[index].doing = Doing::WaitingForChannel(wants);
            self.runs[index].ready = self.now;
        }
        time > 0
    }

    fn channel_time(&self, index: usize, wants: Wants) -> u64 {
        let data = self.timing.bus.time(self.runs[index].op.bytes);
        match wants {
            Wants::Command => self.timing.command,
            Wants::DataIn => self.timing.command + data,
            Wants::DataOut => data,
        }
    }

    fn left_channel(&mut self, index: usize, wants: Wants) {
        match wants {
            Wants::DataOut => self.finish(index),
            Wants::DataIn if self.options.cache_register => self.runs[index].doing = Doing::Loaded,
            _ => self.runs[index].doing = Doing::WaitingForOthers,
        }
    }

    fn longest(&self, members: &[usize], second: bool) -> u64 {
        let time = |&index: &usize| {
            let op = &self.runs[index].op;
            let program = self.timing.program(self.cells.page_type(op.at.page));
            match op.kind {
                OpKind::Read => self.timing.read(self.cells.page_type(op.at.page)),
                OpKind::Program => program,
                OpKind::Erase => self.timing.erase,
                OpKind::Copyback if second => program,
                OpKind::Copyback => self.timing.read(self.cells.page_type(op.source.page)),
            }
        };
        members.iter().map(time).max().unwrap()
    }

    fn all(&mut self, members: &[usize], doing: Doing) {
        members.iter().for_each(|&index| self.runs[index].doing = doing);
    }

    /// Ends or moves on one thing whose time has come.
    fn end_one(&mut self, part: usize) -> bool {
        let now = self.now;
        let this = &mut self.parts[part];
        if this.suspending == Some(now) {
            this.suspending = None;
            return true;
        }
        if this.resuming == Some(now) {
            this.resuming = None;
            let (mut group, remaining) = this.suspended.take().unwrap();
            group.end = now + remaining;
            self.all(&group.members, Doing::Cells);
            self.parts[part].cells = Some(group);
            return true;
        }
        let Some(group) = this.cells.clone() else { return false };
        let group_at = |stage| Group { stage, end: u64::MAX, ..group.clone() };
        let kind = self.runs[group.members[0]].op.kind;
        let suspended = this.suspended.is_some();
        let next = match group.stage {
            Stage::Command => {
                let waits = |&index: &usize| self.runs[index].doing == Doing::WaitingForOthers;
                if !group.members.iter().all(waits) {
                    return false;
                }
                self.all(&group.members, Doing::Cells);
                let end = now + self.longest(&group.members, false);
                Some(Group { end, gave_way: 0, ..group_at(Stage::Cells) })
            }
            Stage::Cells if group.end > now => return false,
            Stage::Cells if kind == OpKind::Copyback => {
                let end = now + self.longest(&group.members, true);
                Some(Group { end, gave_way: 0, ..group_at(Stage::SecondHalf) })
            }
            Stage::Cells if kind == OpKind::Read => {
                if self.options.cache_register && !suspended {
                    self.all(&group.members, Doing::WaitingForCacheRegister);
                    Some(group_at(Stage::CacheWait))
                } else {
                    for &index in &group.members {
                        if !self.ask(index, Wants::DataOut) {
                            self.finish(index);
                        }
                    }
                    Some(group_at(Stage::DataOut))
                }
            }
            Stage::SecondHalf if group.end > now => return false,
            Stage::Cells | Stage::SecondHalf => {
                group.members.iter().for_each(|&index| self.finish(index));
                None
            }
            Stage::CacheWait => {
                // The cache registers are taken by data that still leaves from them.
                let planes: Vec<_> =
                    group.members.iter().map(|&index| self.runs[index].op.at.plane).collect();
                let taken = self.runs.iter().any(|run| {
                    let leaves = matches!(
                        run.doing,
                        Doing::WaitingForChannel(Wants::DataOut)
                            | Doing::OnChannel(Wants::DataOut, _)
                    );
                    leaves && planes.contains(&run.op.at.plane)
                });
                if taken {
                    return false;
                }
                self.all(&group.members, Doing::Copying);
                Some(Group { end: now + self.timing.register_copy, ..group_at(Stage::CopyOut) })
            }
            Stage::CopyOut if group.end > now => return false,
            Stage::CopyOut => {
                for &index in &group.members {
                    if !self.ask(index, Wants::DataOut) {
                        self.finish(index);
                    }
                }
                None
            }
            Stage::CopyIn if group.end > now => return false,
            Stage::CopyIn => {
                self.all(&group.members, Doing::Cells);
                let end = now + self.longest(&group.members, false);
                Some(Group { end, gave_way: 0, ..group_at(Stage::Cells) })
            }
            Stage::DataOut => {
                let unfinished = group.members.iter().any(|&i| self.runs[i].doing != Doing::Done);
                if unfinished {
                    return false;
                }
                None
            }
        };
        self.parts[part].cells = next;
        true
    }

    /// The queued operation that is first in order, if it may start.
    fn first(&self, part: usize) -> Option<usize> {
        let this = &self.parts[part];
        let priority = |index: usize| self.runs[index].op.priority;
        let mut may = this.queue.iter().copied();
        if this.held > 0 {
            return may.find(|&index| priority(index) == Priority::Gc);
        }
        match self.options.scheduling {
            Scheduling::Fifo => may.next(),
            Scheduling::ReadFirst if this.passed >= u32::from(MAX_PASSED) => {
                may.find(|&index| priority(index) == Priority::Gc)
            }
            Scheduling::ReadFirst => may.min_by_key(|&index| (priority(index), index)),
        }
    }

    /// The host read for which a program or erase gives way.
    fn urgent(&self, part: usize, gave_way: u32) -> Option<usize> {
        let this = &self.parts[part];
        let mut reads = this.queue.iter().copied();
        let first = reads.find(|&index| self.runs[index].op.priority == Priority::Read)?;
        let may = self.runs[first].op.kind == OpKind::Read
            && this.held == 0
            && gave_way < u32::from(self.options.suspensions);
        may.then_some(first)
    }

    /// Takes an operation, with its multi-plane mates, out of the queue.
    fn take(&mut self, part: usize, first: usize) -> Vec<usize> {
        let op = self.runs[first].op;
        let mut members = vec![first];
        let lockstep = self.options.planes == PlaneMode::Lockstep && self.geometry.planes > 1;
        if lockstep && op.group != 0 {
            let behind = self.parts[part].queue.iter().copied();
            for index in behind.filter(|&index| index > first) {
                let mate = &self.runs[index];
                if mate.op.priority != op.priority {
                    continue;
                }
                let planes: Vec<_> = members.iter().map(|&m| self.runs[m].op.at.plane).collect();
                if mate.op.group != op.group
                    || mate.op.kind != op.kind
                    || mate.submitted != self.runs[first].submitted
                    || planes.contains(&mate.op.at.plane)
                {
                    break;
                }
                members.push(index);
            }
        }
        self.parts[part].queue.retain(|index| !members.contains(index));
        let house = |index: &usize| self.runs[*index].op.priority == Priority::Gc;
        let passes = !house(&first) && self.parts[part].queue.iter().any(house);
        let passed = &mut self.parts[part].passed;
        *passed = if passes { *passed + 1 } else { 0 };
        members
    }

    fn start(&mut self, part: usize, first: usize) {
        let members = self.take(part, first);
        if let Some((group, _)) = &mut self.parts[part].suspended {
            group.gave_way += members.len() as u32;
        }
        let program = self.runs[first].op.kind == OpKind::Program;
        for &index in &members {
            if !self.ask(index, if program { Wants::DataIn } else { Wants::Command }) {
                self.runs[index].doing = Doing::WaitingForOthers;
            }
        }
        self.parts[part].cells =
            Some(Group { members, stage: Stage::Command, end: u64::MAX, gave_way: 0 });
    }

    fn load(&mut self, part: usize, first: usize) {
        let members = self.take(part, first);
        for &index in &members {
            if !self.ask(index, Wants::DataIn) {
                self.runs[index].doing = Doing::Loaded;
            }
        }
        self.parts[part].loading = Some(members);
    }

    /// Returns whether data leaves any cache register of the part.
    fn leaving(&self, part: usize) -> bool {
        self.runs.iter().any(|run| {
            let wants = matches!(
                run.doing,
                Doing::WaitingForChannel(Wants::DataOut) | Doing::OnChannel(Wants::DataOut, _)
            );
            wants && self.part_of(&run.op) == part
        })
    }

    /// Starts one thing, if anything may start.
    fn start_one(&mut self, part: usize) -> bool {
        let now = self.now;
        let cached = |index: usize| {
            self.options.cache_register && self.runs[index].op.kind == OpKind::Program
        };
        let this = &self.parts[part];
        if this.suspending.is_some() || this.resuming.is_some() {
            return false;
        }
        if let Some(group) = &this.cells {
            let kind = self.runs[group.members[0]].op.kind;
            let written = match group.stage {
                Stage::Cells => matches!(kind, OpKind::Program | OpKind::Erase),
                stage => stage == Stage::SecondHalf,
            };
            if !written {
                return false;
            }
            let remaining = group.end - now;
            if remaining > self.timing.suspend && self.urgent(part, group.gave_way).is_some() {
                let group = self.parts[part].cells.take().unwrap();
                self.all(&group.members, Doing::Suspended);
                self.parts[part].suspended = Some((group, remaining));
                self.parts[part].suspending = Some(now + self.timing.suspend);
                return true;
            }
            let Some(first) = self.first(part).filter(|&index| cached(index)) else { return false };
            let may = this.loading.is_none() && !self.leaving(part);
            if may {
                self.load(part, first);
            }
            return may;
        }
        if let Some((group, _)) = &this.suspended {
            match self.urgent(part, group.gave_way) {
                Some(first) => self.start(part, first),
                None => self.parts[part].resuming = Some(now + self.timing.resume),
            }
            return true;
        }
        if let Some(members) = this.loading.clone() {
            let loaded = |&index: &usize| self.runs[index].doing == Doing::Loaded;
            if !members.iter().all(loaded) {
                return false;
            }
            self.all(&members, Doing::Copying);
            let end = now + self.timing.register_copy;
            let group = Group { members, stage: Stage::CopyIn, end, gave_way: 0 };
            self.parts[part].cells = Some(group);
            self.parts[part].loading = None;
            return true;
        }
        let Some(first) = self.first(part) else { return false };
        if !cached(first) {
            self.start(part, first);
            return true;
        }
        let may = !self.leaving(part);
        if may {
            self.load(part, first);
        }
        may
    }

    fn user(&self, channel: u32) -> Option<&Run> {
        self.runs.iter().find(|run| {
            let on = matches!(run.doing, Doing::OnChannel(_, end) if end > self.now);
            on && self.geometry.channel(run.op.at.plane) == channel
        })
    }

    fn grant(&mut self, channel: u32) {
        if self.user(channel).is_some() {
            return;
        }
        let waits = |index: &usize| {
            let run = &self.runs[*index];
            matches!(run.doing, Doing::WaitingForChannel(_))
                && self.geometry.channel(run.op.at.plane) == channel
        };
        let house = |index: &usize| self.runs[*index].op.priority == Priority::Gc;
        let by_class = self.options.scheduling == Scheduling::ReadFirst;
        let owed = by_class && self.passed[channel as usize] >= u32::from(MAX_PASSED);
        let order = |index: &usize| {
            let run = &self.runs[*index];
            let class = match self.options.scheduling {
                Scheduling::Fifo => Priority::Read,
                Scheduling::ReadFirst => run.op.priority,
            };
            let data_first = self.options.channel_order == ChannelOrder::DataFirst;
            let data = run.doing == Doing::WaitingForChannel(Wants::DataOut);
            (owed && !house(index), data_first && !data, class, run.ready, *index)
        };
        let next = (0..self.runs.len()).filter(waits).min_by_key(order);
        if let Some(index) = next {
            let others = (0..self.runs.len()).filter(waits).any(|other| house(&other));
            let passed = self.passed[channel as usize];
            self.passed[channel as usize] =
                if by_class && !house(&index) && others { passed + 1 } else { 0 };
            let Doing::WaitingForChannel(wants) = self.runs[index].doing else { unreachable!() };
            let end = self.now + self.channel_time(index, wants);
            self.runs[index].doing = Doing::OnChannel(wants, end);
        }
    }

    /// Books this nanosecond.
    fn book(&mut self) {
        let priority = |index: &usize| self.runs[*index].op.priority;
        // Housekeeping outranks the host's writes, and these its reads.
        let held: Vec<Priority> = (self.parts.iter())
            .map(|part| {
                let at = part.cells.iter().chain(part.suspended.iter().map(|(group, _)| group));
                let at = at.flat_map(|group| &group.members);
                let hold = (part.held > 0).then_some(Priority::Gc);
                let all = at.chain(part.loading.iter().flatten()).map(priority).chain(hold);
                all.max().unwrap_or(Priority::Read)
            })
            .collect();
        let channels: Vec<Priority> = (0..self.geometry.channels)
            .map(|channel| self.user(channel).map_or(Priority::Read, |run| run.op.priority))
            .collect();
        for index in 0..self.runs.len() {
            let part = self.part_of(&self.runs[index].op);
            let channel = self.channel_of(part) as usize;
            let run = &mut self.runs[index];
            let times = &mut run.times;
            let place = match run.doing {
                Doing::Done => continue,
                Doing::Queued | Doing::WaitingForOthers | Doing::Loaded => {
                    behind(times, held[part])
                }
                Doing::WaitingForChannel(_) => behind(times, channels[channel]),
                Doing::Suspended => &mut times.behind_reads,
                Doing::OnChannel(..) => &mut times.channel,
                Doing::WaitingForCacheRegister | Doing::Copying => &mut times.register,
                Doing::Cells => &mut times.cell,
            };
            *place += 1;
        }
    }
}
