//! The machines as gdb sees them while the run stands still.

use std::collections::BTreeMap;
use std::ops::Range;

use gdbstub::common::{Signal, Tid};
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps,
    MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use stasis_bare::svm::{Debug, DebugRegisters, Watch, Watches, WATCHES};
use stasis_block::clock::Nanos;

use super::super::common::Common;
use super::super::vm::Machine;
use super::arch::{Registers, X86};
use super::monitor;
use super::plan::{Back, Breakpoint, Plan, WatchedBy, Watchpoint};
use crate::exit::Exit;
use crate::vcpu::DebugVcpu;

const INT3: u8 = 0xcc;
/// Limit on the breakpoints of a session.
const MAX_BREAKPOINTS: usize = 4096;

/// The machines while the run stands still, and what gdb has set in them.
#[derive(Default)]
pub(in super::super) struct Debuggee {
    /// None while the run goes on.
    pub(in super::super) machines: Vec<Machine>,
    /// Every processor: its machine, and its number there.
    pub(in super::super) processors: Vec<(usize, usize)>,
    /// The place of the processor at which the run has stopped.
    pub(in super::super) current: usize,
    /// Virtual time, and when the commands have begun (ns).
    pub(in super::super) now: Nanos,
    pub(in super::super) began: Nanos,
    /// The next events, as a text.
    pub(in super::super) events: String,
    /// The byte of the guest under each breakpoint's INT3, by machine and guest-physical
    /// address.
    replaced: BTreeMap<(usize, u64), u8>,
    /// The places of each breakpoint, by its linear address.
    breakpoints: BTreeMap<u64, Vec<(usize, u64)>>,
    watches: Watches,
    /// Address and kind of each watchpoint, as they were asked for.
    kinds: [Option<(u64, WatchKind)>; WATCHES],
    /// The breakpoints that a debug register is for: a run that repeats one waits for instructions
    /// that are not in memory yet.
    executed: [Option<Breakpoint>; WATCHES],
    /// Position to which gdb wants to go back.
    pub(super) back: Option<Back>,
    /// The breakpoint of the moment, which gdb has not set.
    own: Option<u64>,
    /// The processor that is to run one instruction, and the addresses within which it runs on.
    pub(in super::super) step: Option<(usize, Range<u64>)>,
    /// The processor whose instruction has left the guest, which ends its step.
    pub(in super::super) stepped: Option<usize>,
}

/// gdb's number of the processor at `place`.
pub(in super::super) fn thread(place: usize) -> Tid {
    Tid::MIN.saturating_add(place)
}

impl Debuggee {
    /// The run stands still at the processor at `place`.
    pub(in super::super) fn begin(
        &mut self,
        machines: &mut Vec<Machine>,
        processors: &[(usize, usize)],
        place: usize,
    ) {
        self.machines = std::mem::take(machines);
        self.processors.clear();
        self.processors.extend_from_slice(processors);
        (self.current, self.stepped) = (place, None);
        if let Some(address) = self.own.take() {
            self.remove(address);
        }
    }

    /// Sets what monitor commands show.
    pub(in super::super) fn times(&mut self, now: Nanos, began: Nanos) {
        (self.now, self.began) = (now, began);
    }

    /// Writes down what comes next.
    pub(in super::super) fn lay_out_events(&mut self, common: &Common) {
        self.events = monitor::events(&self.machines, common);
    }

    /// The run goes on.
    pub(in super::super) fn end(&mut self, machines: &mut Vec<Machine>) {
        self.arm();
        *machines = std::mem::take(&mut self.machines);
    }

    /// Nothing is to stop the run any more.
    pub(in super::super) fn release(&mut self) {
        let addresses: Vec<u64> = self.breakpoints.keys().copied().collect();
        for address in addresses {
            self.remove(address);
        }
        (self.watches, self.step, self.stepped) = ([None; WATCHES], None, None);
        (self.kinds, self.executed) = ([None; WATCHES], Default::default());
    }

    /// Does something to the machines of the run.
    pub(in super::super) fn with<T>(
        &mut self,
        machines: &mut Vec<Machine>,
        processors: &[(usize, usize)],
        change: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.machines = std::mem::take(machines);
        self.processors.clear();
        self.processors.extend_from_slice(processors);
        let changed = change(self);
        self.end(machines);
        changed
    }

    /// Breakpoints and watchpoints of gdb's, for a run that repeats this one.
    pub(in super::super) fn set_by_gdb(&self) -> (Vec<Breakpoint>, Vec<Watchpoint>) {
        let breakpoint = |(&linear, places): (&u64, &Vec<(usize, u64)>)| {
            let byte = |&(machine, address): &(usize, u64)| {
                Some((machine, address, *self.replaced.get(&(machine, address))?))
            };
            Breakpoint { linear, places: places.iter().filter_map(byte).collect() }
        };
        let watchpoint = |(slot, kind): (usize, &Option<(u64, WatchKind)>)| {
            let ((address, kind), (_, _, length)) = ((*kind)?, self.watches[slot]?);
            let kind = match kind {
                WatchKind::Write => WatchedBy::Write,
                WatchKind::Read => WatchedBy::Read,
                WatchKind::ReadWrite => WatchedBy::Access,
            };
            Some(Watchpoint { slot, address, kind, length })
        };
        let watchpoints = self.kinds.iter().enumerate().filter_map(watchpoint);
        (self.breakpoints.iter().map(breakpoint).collect(), watchpoints.collect())
    }

    /// Sets what gdb had set in the repeated run; `waits`: also for instructions that are not in
    /// memory yet. Whether there was a place for all.
    pub(in super::super) fn set_as(&mut self, plan: &Plan, waits: bool) -> bool {
        for watched in &plan.watchpoints {
            let (watch, kind) = match watched.kind {
                WatchedBy::Write => (Watch::Write, WatchKind::Write),
                WatchedBy::Read => (Watch::Access, WatchKind::Read),
                WatchedBy::Access => (Watch::Access, WatchKind::ReadWrite),
            };
            if let Some(slot) = self.watches.get_mut(watched.slot) {
                *slot = Some((watched.address, watch, watched.length));
                self.kinds[watched.slot] = Some((watched.address, kind));
            }
        }
        let mut had_place = true;
        for breakpoint in &plan.breakpoints {
            if self.is_there(breakpoint) && self.add(breakpoint.linear) {
                continue;
            }
            if !waits {
                // gdb knows of it, and takes it away.
                self.breakpoints.entry(breakpoint.linear).or_default();
                continue;
            }
            match self.watches.iter().position(Option::is_none) {
                Some(slot) => {
                    self.watches[slot] = Some((breakpoint.linear, Watch::Execute, 1));
                    self.executed[slot] = Some(breakpoint.clone());
                }
                None => had_place = false,
            }
        }
        had_place
    }

    /// Returns whether the instruction of a breakpoint is in memory, where it will be: that of the
    /// kernel, which all processes have.
    fn is_there(&mut self, breakpoint: &Breakpoint) -> bool {
        const KERNEL: u64 = 1 << 63;
        if breakpoint.linear & KERNEL == 0 || breakpoint.places.is_empty() {
            return false;
        }
        let now = self.places(breakpoint.linear);
        let byte = |machine: usize, address: u64| {
            let mut byte = [0];
            let read = self.machines.get(machine)?.memory.read(address, &mut byte);
            read.is_ok().then_some(byte[0])
        };
        breakpoint.places.iter().all(|&(machine, address, first)| {
            now.contains(&(machine, address))
                && (byte(machine, address) == Some(first)
                    || self.replaced.contains_key(&(machine, address)))
        })
    }

    /// Waits for the instruction at `linear` besides.
    pub(in super::super) fn set_own(&mut self, linear: u64) {
        self.add(linear);
    }

    /// Takes the breakpoint at `linear` away for one instruction, or brings it back.
    pub(in super::super) fn lift(&mut self, linear: u64, away: bool) {
        for (machine, address) in self.breakpoints.get(&linear).into_iter().flatten() {
            let Some(&byte) = self.replaced.get(&(*machine, *address)) else { continue };
            let byte = if away { byte } else { INT3 };
            if let Some(machine) = self.machines.get(*machine) {
                // It was memory when the breakpoint was set.
                let _ = machine.memory.write(*address, &[byte]);
            }
        }
        for (slot, executed) in self.executed.iter().enumerate() {
            if executed.as_ref().is_some_and(|one| one.linear == linear) {
                self.watches[slot] = (!away).then_some((linear, Watch::Execute, 1));
            }
        }
    }

    /// The address by which the breakpoint at RIP was set, if there is one.
    pub(super) fn breakpoint_at(
        &self,
        machine: &mut Machine,
        place: usize,
        rip: u64,
    ) -> Option<u64> {
        let &(number, index) = self.processors.get(place)?;
        let (address, _) = machine.vcpus[index].debug()?.translate(rip)?;
        let here = |places: &Vec<(usize, u64)>| places.contains(&(number, address));
        self.breakpoints.iter().find(|(_, places)| here(places)).map(|(linear, _)| *linear)
    }

    /// The breakpoint for which a debug register is set, and whether the processor is at it: another
    /// program may have other code at its address.
    pub(super) fn executed(
        &self,
        machine: &mut Machine,
        place: usize,
        slot: usize,
    ) -> Option<(u64, bool)> {
        let breakpoint = self.executed.get(slot)?.as_ref()?;
        let &(number, index) = self.processors.get(place)?;
        let at = machine.vcpus[index].debug()?.translate(breakpoint.linear);
        let here = |&(machine, address, _): &(usize, u64, u8)| {
            machine == number && at.is_some_and(|(at, _)| at == address)
        };
        let its = breakpoint.places.is_empty() || breakpoint.places.iter().any(here);
        Some((breakpoint.linear, its))
    }

    /// Up to eight bytes of a machine's memory, as its processor sees them.
    pub(super) fn value(
        &self,
        machine: &mut Machine,
        place: usize,
        linear: u64,
        length: u8,
    ) -> Option<u64> {
        let &(_, index) = self.processors.get(place)?;
        let (address, _) = machine.vcpus[index].debug()?.translate(linear)?;
        let mut bytes = [0; 8];
        let part = bytes.get_mut(..usize::from(length))?;
        machine.memory.read(address, part).ok()?;
        Some(stasis_layout::number(part))
    }

    /// Waits for the instruction at `address` in place of gdb.
    pub(in super::super) fn wait_for(
        &mut self,
        machines: &mut Vec<Machine>,
        processors: &[(usize, usize)],
        address: u64,
    ) {
        self.begin(machines, processors, self.current);
        if self.add(address) {
            self.own = Some(address);
        }
        self.end(machines);
    }

    /// Returns whether the processor at `place` is to run one instruction.
    pub(in super::super) fn steps(&self, place: usize) -> bool {
        self.step.as_ref().is_some_and(|(stepping, _)| *stepping == place)
    }

    /// Returns whether the instruction at RIP of the processor at `place` is a breakpoint of gdb's;
    /// `machines` are the run's.
    pub(in super::super) fn is_at_breakpoint(
        &self,
        machine: &mut Machine,
        number: usize,
        index: usize,
    ) -> bool {
        let Ok(shown) = machine.vcpus[index].registers() else { return false };
        let Some(debug) = machine.vcpus[index].debug() else { return false };
        debug
            .translate(shown.rip)
            .is_some_and(|(address, _)| self.replaced.contains_key(&(number, address)))
    }

    /// The processor at `place` has left the guest by `exit`.
    pub(in super::super) fn left(&mut self, place: usize, exit: &Exit) {
        if self.steps(place) && !matches!(exit, Exit::Interrupted | Exit::Window) {
            self.stepped = Some(place);
        }
    }

    /// The instruction at which the processor at `place` stands, while the run does.
    pub(in super::super) fn rip(&mut self, place: usize) -> Option<u64> {
        self.vcpu(thread(place)).map(|vcpu| vcpu.registers().rip)
    }

    /// The accessed address and kind of a watchpoint.
    pub(in super::super) fn watch(&self, number: usize) -> Option<(u64, WatchKind)> {
        *self.kinds.get(number)?
    }

    /// Sets in each processor what it is to stop for. A step is the slice's own.
    fn arm(&mut self) {
        for &(machine, index) in &self.processors {
            let Some(machine) = self.machines.get_mut(machine) else { continue };
            let debug = Debug { breakpoints: !self.breakpoints.is_empty(), watches: self.watches };
            if let Some(vcpu) = machine.vcpus[index].debug() {
                vcpu.set(debug);
            }
        }
    }

    fn vcpu(&mut self, tid: Tid) -> Option<&mut (dyn DebugVcpu + '_)> {
        let &(machine, index) = self.processors.get(tid.get() - 1)?;
        self.machines.get_mut(machine)?.vcpus[index].debug()
    }

    /// The guest-physical address of `linear` at the processor `tid`, and how many bytes follow it
    /// in its page.
    fn translate(&mut self, tid: Tid, linear: u64) -> Option<(usize, u64, usize)> {
        let machine = self.processors.get(tid.get() - 1)?.0;
        let (address, room) = self.vcpu(tid)?.translate(linear)?;
        Some((machine, address, room as usize))
    }

    /// Returns the places of `linear` in each machine: by the tables of the processor at which the
    /// run has stopped, or else of the machine's first that has it.
    fn places(&mut self, linear: u64) -> Vec<(usize, u64)> {
        let mut order: Vec<usize> = (0..self.processors.len()).collect();
        order.sort_by_key(|&place| place != self.current);
        let mut found: Vec<(usize, u64)> = Vec::new();
        for place in order {
            if let Some((machine, address, _)) = self.translate(thread(place), linear) {
                if !found.iter().any(|(other, _)| *other == machine) {
                    found.push((machine, address));
                }
            }
        }
        found
    }

    fn add(&mut self, linear: u64) -> bool {
        if self.breakpoints.contains_key(&linear) {
            return true;
        }
        if self.breakpoints.len() >= MAX_BREAKPOINTS {
            return false;
        }
        let mut set = Vec::new();
        for (machine, address) in self.places(linear) {
            let memory = &self.machines[machine].memory;
            let mut byte = [0];
            if memory.read(address, &mut byte).is_ok() && memory.write(address, &[INT3]).is_ok() {
                // Another linear address of the same byte may have been there before.
                self.replaced.entry((machine, address)).or_insert(byte[0]);
                set.push((machine, address));
            }
        }
        let is_set = !set.is_empty();
        if is_set {
            self.breakpoints.insert(linear, set);
        }
        is_set
    }

    fn remove(&mut self, linear: u64) -> bool {
        let Some(places) = self.breakpoints.remove(&linear) else { return false };
        for place in places {
            let others = self.breakpoints.values().any(|others| others.contains(&place));
            if others {
                continue;
            }
            if let Some(byte) = self.replaced.remove(&place) {
                if let Some(machine) = self.machines.get(place.0) {
                    // It was memory when the breakpoint was set.
                    let _ = machine.memory.write(place.1, &[byte]);
                }
            }
        }
        true
    }
}

impl Target for Debuggee {
    type Arch = X86;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, X86, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debuggee {
    fn read_registers(&mut self, registers: &mut Registers, tid: Tid) -> TargetResult<(), Self> {
        let vcpu = self.vcpu(tid).ok_or(TargetError::NonFatal)?;
        registers.0 = vcpu.registers();
        Ok(())
    }

    fn write_registers(&mut self, registers: &Registers, tid: Tid) -> TargetResult<(), Self> {
        let vcpu = self.vcpu(tid).ok_or(TargetError::NonFatal)?;
        // gdb does not write those that have no place in its order.
        let mut all: DebugRegisters = vcpu.registers();
        (all.general, all.rip) = (registers.0.general, registers.0.rip);
        (all.rflags, all.vectors) = (registers.0.rflags, registers.0.vectors);
        vcpu.set_registers(&all);
        Ok(())
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let mut done = 0;
        while done < data.len() {
            let at = start.wrapping_add(done as u64);
            let Some((machine, address, room)) = self.translate(tid, at) else { break };
            let length = room.min(data.len() - done);
            let piece = &mut data[done..done + length];
            if self.machines[machine].memory.read(address, piece).is_err() {
                break;
            }
            let hidden = (machine, address)..(machine, address + length as u64);
            for ((_, at), byte) in self.replaced.range(hidden) {
                piece[(at - address) as usize] = *byte;
            }
            done += length;
        }
        match done {
            0 if !data.is_empty() => Err(TargetError::NonFatal),
            done => Ok(done),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        // Whole, or not at all.
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let at = start.wrapping_add(done as u64);
            let (machine, address, room) = self.translate(tid, at).ok_or(TargetError::NonFatal)?;
            let length = room.min(data.len() - done);
            let mut before = vec![0; length];
            let memory = &self.machines[machine].memory;
            memory.read(address, &mut before).map_err(|_| TargetError::NonFatal)?;
            pieces.push((machine, address, done..done + length));
            done += length;
        }
        for (machine, address, part) in pieces {
            let mut bytes = data[part].to_vec();
            let hidden = (machine, address)..(machine, address + bytes.len() as u64);
            for ((_, at), byte) in self.replaced.range_mut(hidden) {
                *byte = std::mem::replace(&mut bytes[(at - address) as usize], INT3);
            }
            let memory = &self.machines[machine].memory;
            memory.write(address, &bytes).map_err(|_| TargetError::NonFatal)?;
        }
        Ok(())
    }

    fn list_active_threads(&mut self, register: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        // The first is the one that gdb takes as the stopped one when it connects.
        let others = (0..self.processors.len()).filter(|&place| place != self.current);
        std::iter::once(self.current).chain(others).map(thread).for_each(register);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for Debuggee {
    fn thread_extra_info(&self, tid: Tid, buffer: &mut [u8]) -> Result<usize, Self::Error> {
        let text = monitor::processor(self, tid.get() - 1);
        let length = text.len().min(buffer.len());
        buffer[..length].copy_from_slice(&text.as_bytes()[..length]);
        Ok(length)
    }
}

const NO_SIGNALS: &str = "a processor takes no signals";

impl MultiThreadResume for Debuggee {
    fn resume(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.step = None;
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        _: Tid,
        signal: Option<Signal>,
    ) -> Result<(), Self::Error> {
        signal.map_or(Ok(()), |_| Err(NO_SIGNALS))
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Debuggee {
    fn set_resume_action_step(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), Self::Error> {
        self.step = Some((tid.get() - 1, 0..0));
        signal.map_or(Ok(()), |_| Err(NO_SIGNALS))
    }
}

impl MultiThreadRangeStepping for Debuggee {
    fn set_resume_action_range_step(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), Self::Error> {
        self.step = Some((tid.get() - 1, start..end));
        Ok(())
    }
}

impl ReverseCont<Tid> for Debuggee {
    fn reverse_cont(&mut self) -> Result<(), Self::Error> {
        self.back = Some(Back::Continue);
        Ok(())
    }
}

impl ReverseStep<Tid> for Debuggee {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), Self::Error> {
        self.back = Some(Back::Step(tid.get() - 1));
        Ok(())
    }
}

/// The order of the processors is the run's, whatever gdb asks for: another order would be another
/// run. The processor that is stopped within its slice goes on first.
impl MultiThreadSchedulerLocking for Debuggee {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl Breakpoints for Debuggee {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debuggee {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.add(address))
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.remove(address))
    }
}

/// The same as the others: the debug registers are for watchpoints.
impl HwBreakpoint for Debuggee {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.add(address))
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.remove(address))
    }
}

impl HwWatchpoint for Debuggee {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let watch = match kind {
            WatchKind::Write => Watch::Write,
            // A processor has none for loads alone.
            WatchKind::Read | WatchKind::ReadWrite => Watch::Access,
        };
        if !matches!(length, 1 | 2 | 4 | 8) || !address.is_multiple_of(length) {
            return Ok(false);
        }
        let Some(free) = self.watches.iter().position(Option::is_none) else { return Ok(false) };
        self.watches[free] = Some((address, watch, length as u8));
        self.kinds[free] = Some((address, kind));
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        _: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let Some(at) = self.kinds.iter().position(|known| *known == Some((address, kind))) else {
            return Ok(false);
        };
        (self.watches[at], self.kinds[at]) = (None, None);
        Ok(true)
    }
}

impl MonitorCmd for Debuggee {
    fn handle_monitor_cmd(
        &mut self,
        command: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Self::Error> {
        let text = monitor::answer(self, &String::from_utf8_lossy(command));
        out.write_raw(text.as_bytes());
        Ok(())
    }
}
