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
use stasis_bare::svm::{self, Debug, DebugRegisters, Watch, WATCHES};
use stasis_block::clock::Nanos;
use stasis_run_events::{Modules, Tasks, WriteEntry};

use super::super::common::Common;
use super::super::sampling::{is_mapped, mapped_files, modules, Linear, MappedFile, Module, Words};
use super::super::vm::Machine;
use super::arch::{Registers, X86};
use super::asked::Asked;
use super::monitor;
use super::plan::{Back, Breakpoint, Plan, Process, WatchedBy, Watchpoint, Watchpoints};
use super::tasks::{self, Task, KERNEL};
use super::written::{Call, File};
use crate::exit::{DebugEvent, Exit};
use crate::memory::GuestMemory;
use crate::vcpu::DebugVcpu;

/// The part of CR3 that is the address of the top page table.
const TABLE: u64 = 0x000f_ffff_ffff_f000;
/// gdb's numbers of tasks are their own in the guest, and for each machine so many more: a kernel has no
/// task beyond 4,194,304 (include/linux/threads.h).
const TASKS: usize = 10_000_000;
/// RDI among the general registers of `DebugRegisters`.
const RDI: usize = 7;
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
    /// Places of the tasks of the guests' kernels, where they are known.
    places: Option<Tasks>,
    /// Places of their modules likewise.
    module_places: Option<Modules>,
    /// True if gdb is not to see tasks as threads.
    pub(super) hides_tasks: bool,
    /// The tasks, and the one that each processor runs by its address, once they have been looked at.
    tasks: Option<(Vec<Task>, Vec<Option<u64>>)>,
    /// The breakpoints by linear address, each with the process whose it is; None: any.
    breakpoints: BTreeMap<u64, Option<Process>>,
    /// The processes of breakpoints that gdb has taken away for a stop.
    known: BTreeMap<u64, Option<Process>>,
    watchpoints: Watchpoints,
    /// The processes of watchpoints likewise.
    known_watchpoints: Vec<Watchpoint>,
    /// The watchpoints of which the user was told that the guest leaves them without effect.
    unwatched: u8,
    /// True if gdb has asked for a signal.
    is_signalled: bool,
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

/// gdb's number of a task.
pub(super) fn task_thread(task: &Task) -> Tid {
    Tid::MIN.saturating_add(TASKS * (task.machine + 1) + task.pid as usize - 1)
}

/// A machine's first processor, and its memory.
fn first(machine: &mut Machine) -> Option<(&mut dyn DebugVcpu, &GuestMemory)> {
    let Machine { vcpus, memory, .. } = machine;
    Some((vcpus.first_mut()?.debug()?, memory))
}

/// Linear address of the task that processor `index` of a machine runs.
fn current(places: &Tasks, machine: &mut Machine, index: usize) -> Option<u64> {
    let Machine { vcpus, memory, .. } = machine;
    let vcpu = vcpus.get_mut(index)?.debug()?;
    let registers = vcpu.registers();
    tasks::current(places, &registers, &mut Linear::new(vcpu, memory))
}

impl Debuggee {
    /// Makes one of machines whose kernels have their tasks and modules at these places.
    pub(super) fn new(places: Option<Tasks>, module_places: Option<Modules>) -> Self {
        Self { places, module_places, ..Self::default() }
    }

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
        (self.current, self.stepped, self.tasks) = (place, None, None);
        if let Some(address) = self.own.take() {
            self.breakpoints.remove(&address);
        }
    }

    /// Lines for the user: where the guest's own debug registers have come to leave watchpoints without
    /// effect, and of what gdb has asked for in vain.
    pub(in super::super) fn take_notes(&mut self) -> Vec<String> {
        let mut unwatched = 0;
        for place in 0..self.processors.len() {
            unwatched |= self.vcpu(thread(place)).map_or(0, |vcpu| vcpu.unwatched());
        }
        let before = std::mem::replace(&mut self.unwatched, unwatched);
        let more = (unwatched & !before).count_ones();
        let mut notes = Vec::new();
        if more > 0 {
            notes.push(format!(
                "the guest uses debug registers itself: {more} of the watchpoints were without effect"
            ));
        }
        if std::mem::take(&mut self.is_signalled) {
            notes.push(NO_SIGNALS.to_owned());
        }
        notes
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
            self.known_watchpoints.clear();
        }
        self.known.extend(&self.breakpoints);
        for one in self.watchpoints.iter().flatten() {
            if !self.known_watchpoints.contains(one) {
                self.known_watchpoints.push(*one);
            }
        }
        self.arm();
        *machines = std::mem::take(&mut self.machines);
    }

    /// Removes everything that can stop the run.
    pub(in super::super) fn release(&mut self) {
        self.breakpoints.clear();
        (self.watchpoints, self.step, self.stepped) = ([None; WATCHES], None, None);
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
    pub(in super::super) fn set_by_gdb(&self) -> (Vec<Breakpoint>, Watchpoints) {
        let breakpoint =
            |(&linear, &process): (&u64, &Option<Process>)| Breakpoint { linear, process };
        (self.breakpoints.iter().map(breakpoint).collect(), self.watchpoints)
    }

    /// Sets what gdb had set in the repeated run.
    pub(in super::super) fn set_as(&mut self, plan: &Plan) {
        self.watchpoints = plan.watchpoints;
        self.known_watchpoints = self.watchpoints.iter().flatten().copied().collect();
        let breakpoints = plan.breakpoints.iter().take(MAX_BREAKPOINTS);
        self.breakpoints.extend(breakpoints.map(|one| (one.linear, one.process)));
        self.known.clone_from(&self.breakpoints);
    }

    /// Waits for the instruction at `linear` besides.
    pub(in super::super) fn set_own(&mut self, linear: u64) {
        self.breakpoints.entry(linear).or_insert(None);
    }

    /// The breakpoints and watchpoints, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let owner = |linear: u64, process: Option<Process>| match process {
            _ if linear >= KERNEL => "the kernel's".to_owned(),
            Some(Process { group: Some(group), .. }) => format!("of process {group}"),
            Some(Process { table, group: None }) => {
                format!("of the process with the page tables at {table:#x}")
            }
            None => "of any process".to_owned(),
        };
        let breakpoints = self.known.iter();
        let breakpoints = breakpoints
            .map(|(linear, process)| format!("{linear:#x}  {}", owner(*linear, *process)));
        let watchpoint = |one: &Watchpoint| {
            let accesses = match one.kind {
                WatchedBy::Write => "stores",
                WatchedBy::Read => "loads",
                WatchedBy::Access => "accesses",
            };
            let Watchpoint { linear, length, process, .. } = *one;
            format!("{linear:#x}  {accesses} of {length} bytes, {}", owner(linear, process))
        };
        breakpoints.chain(self.known_watchpoints.iter().map(watchpoint)).collect()
    }

    /// The watched bytes in a machine's memory, as their process sees them; of any, as the processor at
    /// `place` does.
    pub(super) fn value(
        &self,
        machine: &mut Machine,
        place: usize,
        watched: &Watchpoint,
    ) -> Option<u64> {
        let &(_, index) = self.processors.get(place)?;
        let vcpu = machine.vcpus[index].debug()?;
        let table = watched.process.map(|process| process.table);
        let (address, _) = vcpu.translate(table, watched.linear)?;
        let mut bytes = [0; 8];
        let part = bytes.get_mut(..usize::from(watched.length))?;
        machine.memory.read(address, part).ok()?;
        Some(stasis_layout::number(part))
    }

    /// The call of one of these entries at which the processor at `place` stands, of `machine`, the file
    /// that it writes to, and its process.
    pub(super) fn call(
        &self,
        machine: &mut Machine,
        place: usize,
        entries: &[WriteEntry],
    ) -> Option<((File, Process), Call)> {
        let &(number, index) = self.processors.get(place)?;
        let Machine { vcpus, memory, .. } = machine;
        let vcpu = vcpus.get_mut(index)?.debug()?;
        let registers = vcpu.registers();
        let entry = entries.iter().find(|entry| entry.address == registers.rip)?;
        let call = Call::read(*entry, registers.general[RDI], &mut Linear::new(vcpu, memory))?;
        let table = registers.cr3 & TABLE;
        Some((((number, table, call.file), Process { table, group: None }), call))
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

    /// The place of the processor of gdb's number; for a task that does not run, of the one at which the run
    /// has stopped.
    fn place_of(&self, tid: Tid) -> usize {
        Some(tid.get() - 1).filter(|place| *place < self.processors.len()).unwrap_or(self.current)
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
        let one = (*self.watchpoints.get(number)?)?;
        Some((one.linear, one.kind.into()))
    }

    /// Sets in each processor what it is to stop for. A step is the slice's own.
    fn arm(&mut self) {
        let table = |process: Process| process.table;
        let breakpoint = |(&linear, process): (&u64, &Option<Process>)| svm::Breakpoint {
            linear,
            process: process.map(table),
        };
        let breakpoints = self.breakpoints.iter().map(breakpoint).collect();
        let watches = self.watchpoints.map(|one| {
            let Watchpoint { linear, kind, length, process } = one?;
            let kind = match kind {
                WatchedBy::Write => Watch::Write,
                // A processor has none for loads alone.
                WatchedBy::Read | WatchedBy::Access => Watch::Access,
            };
            Some(svm::Watchpoint { linear, kind, length, process: process.map(table) })
        });
        let debug = Debug { breakpoints, watches };
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

    /// The machine and guest-physical address of `linear` at the processor or task `tid`, and how many
    /// bytes follow it in its page.
    fn translate(&mut self, tid: Tid, linear: u64) -> Option<(usize, u64, usize)> {
        let (machine, address, room) = match self.task(tid) {
            Some(task) => {
                let process = self.process_table(&task);
                if linear < KERNEL && process.is_none() {
                    return None;
                }
                let vcpu = first(self.machines.get_mut(task.machine)?)?.0;
                let (address, room) = vcpu.translate(process, linear)?;
                (task.machine, address, room)
            }
            None => {
                let machine = self.processors.get(tid.get() - 1)?.0;
                let (address, room) = self.vcpu(tid)?.translate(None, linear)?;
                (machine, address, room)
            }
        };
        Some((machine, address, room as usize))
    }

    /// The address of the top page table of a task's process.
    fn process_table(&mut self, task: &Task) -> Option<u64> {
        let vcpu = first(self.machines.get_mut(task.machine)?)?.0;
        vcpu.translate(None, task.table?).map(|(address, _)| address & TABLE)
    }

    /// Looks at the guests' tasks.
    pub(super) fn look_at_tasks(&mut self) -> &[Task] {
        if self.tasks.is_none() {
            let (mut all, mut running) = (Vec::new(), Vec::new());
            if let Some(places) = self.places {
                for (number, machine) in self.machines.iter_mut().enumerate() {
                    if let Some((vcpu, memory)) = first(machine) {
                        all.extend(tasks::list(&places, number, &mut Linear::new(vcpu, memory)));
                    }
                }
                for &(machine, index) in &self.processors {
                    let machine = self.machines.get_mut(machine);
                    running.push(machine.and_then(|machine| current(&places, machine, index)));
                }
            }
            self.tasks = Some((all, running));
        }
        self.tasks.as_ref().map_or(&[], |(all, _)| all)
    }

    /// The task that gdb knows by `tid`.
    fn task(&mut self, tid: Tid) -> Option<Task> {
        if tid.get() < TASKS {
            return None;
        }
        self.look_at_tasks().iter().find(|task| task_thread(task) == tid).cloned()
    }

    /// Appends the memory of a machine to `out`, behind its length in four bytes.
    pub(super) fn read_memory(&self, asked: Asked, out: &mut Vec<u8>) {
        let mut bytes = vec![0; asked.length];
        let machine = self.machines.get(asked.machine);
        let found = machine.map(|machine| machine.memory.read(asked.address, &mut bytes));
        if !matches!(found, Some(Ok(()))) {
            bytes.clear();
        }
        out.extend((bytes.len() as u32).to_le_bytes());
        out.append(&mut bytes);
    }

    /// Looks at the modules of the kernel that a processor or task is of, by gdb's number.
    pub(super) fn look_at_modules<R>(
        &mut self,
        number: usize,
        look: impl FnOnce(&[Module], &mut Linear<'_>) -> R,
    ) -> Option<R> {
        let machine = match number.checked_sub(1).and_then(|place| self.processors.get(place)) {
            Some(&(machine, _)) => machine,
            None => self.task(Tid::new(number)?)?.machine,
        };
        let places = self.module_places?;
        let (vcpu, memory) = first(self.machines.get_mut(machine)?)?;
        let mut memory = Linear::new(vcpu, memory);
        let all = modules(&places, &mut memory)?;
        Some(look(&all, &mut memory))
    }

    /// The files that the program is mapped from which a processor or task runs, by gdb's number.
    pub(super) fn mapped_files(&mut self, number: usize) -> Option<Vec<MappedFile>> {
        self.look_at_tasks();
        let task = match number.checked_sub(1).filter(|place| *place < self.processors.len()) {
            Some(place) => self.running(place).cloned(),
            None => self.task(Tid::new(number)?),
        }?;
        let maps = self.places?.threads.maps?;
        let (vcpu, memory) = first(self.machines.get_mut(task.machine)?)?;
        Some(mapped_files(&maps, task.address, &mut Linear::new(vcpu, memory)))
    }

    /// The task that the processor at `place` runs, as far as tasks have been looked at; none while the
    /// processor is idle.
    pub(super) fn running(&self, place: usize) -> Option<&Task> {
        let (all, running) = self.tasks.as_ref()?;
        let address = (*running.get(place)?)?;
        let machine = self.processors.get(place)?.0;
        all.iter().find(|task| (task.machine, task.address) == (machine, address))
    }

    /// The rest of an event of the processor at `place`, of `machine`: a process that has ended leaves its
    /// top page table to another, whose breakpoints and watchpoints these are not.
    pub(in super::super) fn of_its_process(
        &self,
        machine: &mut Machine,
        place: usize,
        event: DebugEvent,
    ) -> Option<DebugEvent> {
        let (Some(places), Some(&(number, index))) = (self.places, self.processors.get(place))
        else {
            return Some(event);
        };
        let rip = machine.vcpus[index].debug()?.registers().rip;
        let mut is_its = |process: Option<Process>| {
            let Some(Process { table, group: Some(group) }) = process else { return true };
            let Some(running) = current(&places, machine, index) else { return true };
            let Some(vcpu) = machine.vcpus[index].debug() else { return true };
            let mut memory = Linear::new(vcpu, &machine.memory);
            if memory.long(running.wrapping_add(places.group)) == Some(group) {
                return true;
            }
            // A child of vfork(2) has its parent's memory.
            let all = tasks::list(&places, number, &mut memory);
            let own = all.iter().find(|task| task.pid == group).and_then(|task| task.table);
            let own = own.and_then(|own| vcpu.translate(None, own));
            own.is_some_and(|(address, _)| address & TABLE == table)
        };
        match event {
            DebugEvent::Breakpoint => {
                let process = self.breakpoints.get(&rip).copied().flatten();
                is_its(process).then_some(event)
            }
            DebugEvent::Watch(slots) => {
                let own = |slot: &usize| {
                    let one = self.watchpoints.get(*slot).copied().flatten();
                    is_its(one.and_then(|one| one.process))
                };
                let all = (0..WATCHES).filter(|slot| slots >> slot & 1 != 0).filter(own);
                let slots = all.fold(0, |slots, slot| slots | 1 << slot);
                (slots != 0).then_some(DebugEvent::Watch(slots))
            }
        }
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

    /// The process that has `linear` in memory, if that is the one in which the run has stopped.
    fn process_of(&mut self, linear: u64) -> Option<Process> {
        if linear >= KERNEL {
            return None;
        }
        self.look_at_tasks();
        let group = self.running(self.current).map(|task| task.group);
        let (places, running) = (self.places, self.running(self.current).map(|task| task.address));
        let &(machine, index) = self.processors.get(self.current)?;
        let machine = self.machines.get_mut(machine)?;
        let vcpu = machine.vcpus[index].debug()?;
        let is_in_memory = vcpu.translate(None, linear).is_some();
        let table = vcpu.registers().cr3 & TABLE;
        // A page that the process has, and has not touched.
        let mut is_mapped = || {
            let maps = places.and_then(|places| places.threads.maps);
            let mut memory = Linear::new(vcpu, &machine.memory);
            maps.zip(running)
                .is_some_and(|(maps, task)| is_mapped(&maps, task, linear, &mut memory))
        };
        (is_in_memory || is_mapped()).then_some(Process { table, group })
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
        if let (Some(task), Some(places)) = (self.task(tid), self.places) {
            let process = self.process_table(&task);
            let machine = self.machines.get_mut(task.machine).and_then(first);
            let (vcpu, memory) = machine.ok_or(TargetError::NonFatal)?;
            let found = task.registers(&places, process, &mut Linear::new(vcpu, memory));
            registers.0 = found.ok_or(TargetError::NonFatal)?;
            return Ok(());
        }
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
        std::iter::once(self.current).chain(others).map(thread).for_each(&mut *register);
        if !self.hides_tasks {
            let asleep = self.look_at_tasks().iter().filter(|task| !task.runs);
            asleep.map(task_thread).for_each(register);
        }
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
        let tasks = self.tasks.iter().flat_map(|(all, _)| all);
        let text = match tasks.into_iter().find(|task| task_thread(task) == tid) {
            Some(task) => task.text(),
            None => monitor::processor(self, tid.get() - 1),
        };
        let length = text.len().min(buffer.len());
        buffer[..length].copy_from_slice(&text.as_bytes()[..length]);
        Ok(length)
    }
}

const NO_SIGNALS: &str =
    "a processor takes no signals: the run went on without (`kill` in a shell of the guest sends \
                          one: stasis shell --at)";

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
        self.is_signalled |= signal.is_some();
        Ok(())
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
        self.step = Some((self.place_of(tid), 0..0));
        self.is_signalled |= signal.is_some();
        Ok(())
    }
}

impl MultiThreadRangeStepping for Debuggee {
    fn set_resume_action_range_step(
        &mut self,
        tid: Tid,
        start: u64,
        end: u64,
    ) -> Result<(), Self::Error> {
        self.step = Some((self.place_of(tid), start..end));
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
        self.back = Some(Back::Step(self.place_of(tid)));
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
        if !matches!(length, 1 | 2 | 4 | 8) || !address.is_multiple_of(length) {
            return Ok(false);
        }
        let Some(free) = self.watchpoints.iter().position(Option::is_none) else {
            return Ok(false);
        };
        let (kind, length) = (kind.into(), length as u8);
        let is_same =
            |one: &&Watchpoint| (one.linear, one.kind, one.length) == (address, kind, length);
        let process = match self.known_watchpoints.iter().find(is_same) {
            Some(known) => known.process,
            None => self.process_of(address),
        };
        self.watchpoints[free] = Some(Watchpoint { linear: address, kind, length, process });
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        length: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let asked = (address, WatchedBy::from(kind), length);
        let is_it = |one: &Option<Watchpoint>| {
            one.is_some_and(|one| (one.linear, one.kind, u64::from(one.length)) == asked)
        };
        let Some(at) = self.watchpoints.iter().position(is_it) else { return Ok(false) };
        self.watchpoints[at] = None;
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
