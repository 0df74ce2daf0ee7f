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
use stasis_bare::svm::{self, Debug, DebugRegisters, Watch, Watches, WATCHES};
use stasis_block::clock::Nanos;

use super::super::common::Common;
use super::super::vm::Machine;
use super::arch::{Registers, X86};
use super::monitor;
use super::plan::{Back, Breakpoint, Plan, WatchedBy, Watchpoint};
use crate::exit::Exit;
use crate::vcpu::DebugVcpu;

/// Linear addresses from here on are the kernel's, which all processes have.
const KERNEL: u64 = 1 << 63;
/// The part of CR3 that is the address of the top page table.
const TABLE: u64 = 0x000f_ffff_ffff_f000;
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
    /// The breakpoints by linear address, each with the process whose it is; None: any.
    breakpoints: BTreeMap<u64, Option<u64>>,
    /// The processes of breakpoints that gdb has taken away for a stop.
    known: BTreeMap<u64, Option<u64>>,
    watches: Watches,
    /// Address and kind of each watchpoint, as they were asked for.
    kinds: [Option<(u64, WatchKind)>; WATCHES],
    /// The watchpoints of which the user was told that the guest leaves them without effect.
    unwatched: u8,
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
            self.breakpoints.remove(&address);
        }
    }

    /// A line for the user where the guest's own debug registers have come to leave watchpoints without
    /// effect.
    pub(in super::super) fn note_unwatched(&mut self) -> Option<String> {
        let mut unwatched = 0;
        for place in 0..self.processors.len() {
            unwatched |= self.vcpu(thread(place)).map_or(0, |vcpu| vcpu.unwatched());
        }
        let before = std::mem::replace(&mut self.unwatched, unwatched);
        let more = (unwatched & !before).count_ones();
        (more > 0).then(|| {
            format!("the guest uses debug registers itself: {more} of the watchpoints were without effect")
        })
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
        // gdb takes a breakpoint away at each stop, and steps over it.
        if self.step.is_none() {
            self.known.clear();
        }
        self.known.extend(&self.breakpoints);
        self.arm();
        *machines = std::mem::take(&mut self.machines);
    }

    /// Removes everything that can stop the run.
    pub(in super::super) fn release(&mut self) {
        self.breakpoints.clear();
        (self.watches, self.step, self.stepped) = ([None; WATCHES], None, None);
        self.kinds = [None; WATCHES];
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
        let breakpoint = |(&linear, &process): (&u64, &Option<u64>)| Breakpoint { linear, process };
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

    /// Sets what gdb had set in the repeated run.
    pub(in super::super) fn set_as(&mut self, plan: &Plan) {
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
        let breakpoints = plan.breakpoints.iter().take(MAX_BREAKPOINTS);
        self.breakpoints.extend(breakpoints.map(|one| (one.linear, one.process)));
        self.known.clone_from(&self.breakpoints);
    }

    /// Waits for the instruction at `linear` besides.
    pub(in super::super) fn set_own(&mut self, linear: u64) {
        self.breakpoints.entry(linear).or_insert(None);
    }

    /// The breakpoints, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |(linear, process): (&u64, &Option<u64>)| match process {
            _ if *linear >= KERNEL => format!("{linear:#x}  the kernel's"),
            Some(table) => {
                format!("{linear:#x}  of the process with the page tables at {table:#x}")
            }
            None => format!("{linear:#x}  of any process"),
        };
        self.known.iter().map(line).collect()
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
        if self.breakpoints.insert(address, None).is_none() {
            self.own = Some(address);
        }
        self.end(machines);
    }

    /// Returns whether the processor at `place` is to run one instruction.
    pub(in super::super) fn steps(&self, place: usize) -> bool {
        self.step.as_ref().is_some_and(|(stepping, _)| *stepping == place)
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
        let breakpoint =
            |(&linear, &process): (&u64, &Option<u64>)| svm::Breakpoint { linear, process };
        let breakpoints = self.breakpoints.iter().map(breakpoint).collect();
        let debug = Debug { breakpoints, watches: self.watches };
        for &(machine, index) in &self.processors {
            let Some(machine) = self.machines.get_mut(machine) else { continue };
            if let Some(vcpu) = machine.vcpus[index].debug() {
                vcpu.set(&debug);
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

    fn add(&mut self, linear: u64) -> bool {
        if self.breakpoints.contains_key(&linear) {
            return true;
        }
        if self.breakpoints.len() >= MAX_BREAKPOINTS {
            return false;
        }
        let process = match self.known.get(&linear) {
            Some(process) => *process,
            None => self.process_of(linear),
        };
        self.breakpoints.insert(linear, process);
        true
    }

    /// The process that has the instruction at `linear`, if that is the one in which the run has stopped.
    fn process_of(&mut self, linear: u64) -> Option<u64> {
        if linear >= KERNEL {
            return None;
        }
        let vcpu = self.vcpu(thread(self.current))?;
        vcpu.translate(linear)?;
        Some(vcpu.registers().cr3 & TABLE)
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
            let memory = &self.machines[machine].memory;
            memory.write(address, &data[part]).map_err(|_| TargetError::NonFatal)?;
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
        Ok(self.breakpoints.remove(&address).is_some())
    }
}

/// Hardware breakpoints are like the others: none is written to the guest's memory.
impl HwBreakpoint for Debuggee {
    fn add_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.add(address))
    }

    fn remove_hw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(&address).is_some())
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
