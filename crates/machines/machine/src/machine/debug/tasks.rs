//! The tasks of guests' kernels, which a debugger shows as threads: which there are, and where each stands
//! in the kernel while it does not run.
//!
//! Source: Linux, include/linux/sched.h (`task_struct`), arch/x86/include/asm/switch_to.h
//! (`inactive_task_frame`). Promise: whatever a guest has in its memory, a walk ends.

use stasis_bare::svm::DebugRegisters;
use stasis_layout::u64_at;
use stasis_run_events::{Tasks, THREAD_NAME};

use super::super::sampling::Words;

/// Limit on the tasks of a machine that are shown.
const MAX_TASKS: usize = 4096;
/// The kernel's segments of code and data (arch/x86/include/asm/segment.h).
const KERNEL_SEGMENTS: [u16; 6] = [0x10, 0x18, 0, 0, 0, 0];
/// Linear addresses from here on are the kernel's, which all processes have.
pub(super) const KERNEL: u64 = 1 << 63;

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    /// The place of its machine.
    pub machine: usize,
    /// Linear address of its `struct task_struct`.
    pub address: u64,
    /// Its own number, and its process's.
    pub pid: u32,
    pub group: u32,
    pub name: String,
    /// Its state in one word.
    pub state: &'static str,
    /// True if a processor runs it.
    pub runs: bool,
    /// Linear address of its process's top page table; None for a thread of the kernel.
    pub table: Option<u64>,
}

/// The tasks of machine `machine`: processes in the order of the kernel's list, each with its threads.
pub(super) fn list(places: &Tasks, machine: usize, memory: &mut impl Words) -> Vec<Task> {
    let mut tasks = Vec::new();
    let mut leader = places.first;
    while tasks.len() < MAX_TASKS {
        let before = tasks.len();
        let head = memory.quad(leader.wrapping_add(places.signal));
        let head = head.map(|signal| signal.wrapping_add(places.head));
        let mut node = head.and_then(|head| memory.quad(head));
        while let Some(at) = node.filter(|at| tasks.len() < MAX_TASKS && Some(*at) != head) {
            let Some(task) = read(places, machine, at.wrapping_sub(places.node), memory) else {
                break;
            };
            tasks.push(task);
            node = memory.quad(at);
        }
        if tasks.len() == before {
            break;
        }
        let Some(next) = memory.quad(leader.wrapping_add(places.list)) else { break };
        leader = next.wrapping_sub(places.list);
        if leader == places.first {
            break;
        }
    }
    // The idle task of the first processor, which has no number.
    tasks.retain(|task| task.pid > 0);
    tasks
}

fn read(places: &Tasks, machine: usize, address: u64, memory: &mut impl Words) -> Option<Task> {
    let mut long = |offset: u64| memory.long(address.wrapping_add(offset));
    let (pid, group) = (long(places.pid)?, long(places.group)?);
    let (state, exit_state) = (long(places.state)?, long(places.exit_state)?);
    let runs = long(places.runs)? != 0;
    let mut name = [0; THREAD_NAME];
    if !memory.read(address.wrapping_add(places.threads.comm), &mut name) {
        return None;
    }
    let space = memory.quad(address.wrapping_add(places.space))?;
    let table = match space {
        0 => None,
        space => memory.quad(space.wrapping_add(places.table)),
    };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let name = String::from_utf8_lossy(&name[..end]).into_owned();
    let state = if runs { "runs" } else { word(state, exit_state) };
    Some(Task { machine, address, pid, group, name, state, runs, table })
}

/// A state (include/linux/sched.h) in a word; those of ps(1) have a letter each.
fn word(state: u32, exit_state: u32) -> &'static str {
    const INTERRUPTIBLE: u32 = 1;
    const UNINTERRUPTIBLE: u32 = 2;
    const STOPPED: u32 = 4;
    const TRACED: u32 = 8;
    const NO_LOAD: u32 = 0x400;
    match state {
        _ if exit_state != 0 => "ended",
        0 => "ready",
        state if state & INTERRUPTIBLE != 0 => "sleeps",
        state if state & STOPPED != 0 => "stopped",
        state if state & TRACED != 0 => "traced",
        state if state & UNINTERRUPTIBLE != 0 && state & NO_LOAD != 0 => "idle",
        state if state & UNINTERRUPTIBLE != 0 => "waits",
        _ => "other",
    }
}

impl Task {
    /// Returns the registers with which the task goes on in the kernel; those that its stack does not have
    /// are zero. `process`: the address of its process's top page table.
    pub(super) fn registers(
        &self,
        places: &Tasks,
        process: Option<u64>,
        memory: &mut impl Words,
    ) -> Option<DebugRegisters> {
        /// R15, R14, R13, R12, RBX, RBP, and the address of the next instruction.
        const FRAME: usize = 7 * 8;
        const ORDER: [usize; 6] = [15, 14, 13, 12, 3, 5];
        const RSP: usize = 4;
        const INTERRUPTS: u64 = 2;
        let stack = memory.quad(self.address.wrapping_add(places.stack))?;
        let mut frame = [0; FRAME];
        if !memory.read(stack, &mut frame) {
            return None;
        }
        let mut general = [0; 16];
        for (slot, register) in ORDER.into_iter().enumerate() {
            general[register] = u64_at(&frame, 8 * slot)?;
        }
        general[RSP] = stack.wrapping_add(FRAME as u64);
        Some(DebugRegisters {
            general,
            rip: u64_at(&frame, FRAME - 8)?,
            rflags: INTERRUPTS,
            segments: KERNEL_SEGMENTS,
            cr3: process.unwrap_or(0),
            fs_base: 0,
            gs_base: 0,
            kernel_gs_base: 0,
            cr0: 0,
            cr2: 0,
            cr4: 0,
            efer: 0,
            vectors: [0; 512],
        })
    }

    /// The task in a few words.
    pub(super) fn text(&self) -> String {
        let Self { pid, group, name, state, .. } = self;
        let process = if pid == group { String::new() } else { format!(" of {group}") };
        let is_kernels = if self.table.is_none() { ", the kernel's" } else { "" };
        format!("{name}, {pid}{process}, {state}{is_kernels}")
    }
}

/// Linear address of the task that runs on a processor with these registers.
pub(super) fn current(
    places: &Tasks,
    registers: &DebugRegisters,
    memory: &mut impl Words,
) -> Option<u64> {
    let bases = [registers.gs_base, registers.kernel_gs_base];
    let base = bases.into_iter().find(|base| base & KERNEL != 0)?;
    memory.quad(base.wrapping_add(places.threads.current))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stasis_run_events::Threads;

    use super::*;

    const PLACES: Tasks = Tasks {
        threads: Threads { current: 8, comm: 0x100, maps: None },
        first: BASE,
        list: 0x10,
        signal: 0x20,
        head: 0x8,
        node: 0x30,
        pid: 0x40,
        group: 0x44,
        state: 0x48,
        exit_state: 0x4c,
        runs: 0x50,
        stack: 0x58,
        space: 0x60,
        table: 0x18,
    };
    const BASE: u64 = 0xffff_8880_0000_0000;
    /// Bytes from a task to the next, with what belongs to it.
    const STEP: u64 = 0x1000;

    #[derive(Default)]
    struct Memory(BTreeMap<u64, u8>);

    impl Memory {
        fn put(&mut self, at: u64, bytes: &[u8]) {
            self.0.extend((at..).zip(bytes.iter().copied()));
        }

        fn put_quad(&mut self, at: u64, value: u64) {
            self.put(at, &value.to_le_bytes());
        }

        /// Task `number` in process `group`, which is followed by `next` in the list of its threads.
        fn put_task(&mut self, number: u64, group: u64, next: u64) {
            let at = BASE + number * STEP;
            self.put(at + PLACES.pid, &(number as u32).to_le_bytes());
            self.put(at + PLACES.group, &(group as u32).to_le_bytes());
            self.put(at + PLACES.state, &[0; 12]);
            self.put(at + PLACES.threads.comm, b"a task\0\0\0\0\0\0\0\0\0\0");
            self.put_quad(at + PLACES.space, 0);
            self.put_quad(at + PLACES.signal, BASE + group * STEP + 0x800);
            self.put_quad(at + PLACES.node, next);
        }

        /// The head of the threads of process `number`.
        fn put_process(&mut self, number: u64, next: u64) {
            let node = BASE + number * STEP + PLACES.node;
            self.put_quad(BASE + number * STEP + 0x800 + PLACES.head, node);
            self.put_quad(BASE + number * STEP + PLACES.list, BASE + next * STEP + PLACES.list);
        }
    }

    impl Words for Memory {
        fn read(&mut self, start: u64, into: &mut [u8]) -> bool {
            (start..)
                .zip(into)
                .all(|(at, byte)| self.0.get(&at).map(|found| *byte = *found).is_some())
        }
    }

    fn head(process: u64) -> u64 {
        BASE + process * STEP + 0x800 + PLACES.head
    }

    #[test]
    fn processes_have_their_threads() {
        let mut memory = Memory::default();
        memory.put_task(0, 0, head(0));
        memory.put_process(0, 1);
        memory.put_task(1, 1, BASE + 2 * STEP + PLACES.node);
        memory.put_task(2, 1, head(1));
        memory.put_process(1, 0);
        let (space, stack) = (BASE + 0x10_0000, BASE + 0x20_0000);
        memory.put_quad(BASE + STEP + PLACES.space, space);
        memory.put_quad(space + PLACES.table, 0x1234_5000);
        memory.put(BASE + 2 * STEP + PLACES.state, &2u32.to_le_bytes());
        memory.put_quad(BASE + 2 * STEP + PLACES.stack, stack);
        for (slot, value) in (15..22).enumerate() {
            memory.put_quad(stack + 8 * slot as u64, value);
        }
        let tasks = list(&PLACES, 3, &mut memory);
        let texts: Vec<String> = tasks.iter().map(Task::text).collect();
        assert_eq!(texts, ["a task, 1, ready", "a task, 2 of 1, waits, the kernel's"]);
        assert_eq!((tasks[0].table, tasks[0].machine), (Some(0x1234_5000), 3));
        let registers = tasks[1].registers(&PLACES, None, &mut memory).unwrap();
        assert_eq!((registers.rip, registers.general[4]), (21, stack + 56));
        assert_eq!([15, 12, 3, 5].map(|one| registers.general[one]), [15, 18, 19, 20]);
        // A stack that is not there.
        assert_eq!(tasks[0].registers(&PLACES, None, &mut memory), None);
        // A list without an end has one.
        memory.put_quad(BASE + 2 * STEP + PLACES.node, BASE + 2 * STEP + PLACES.node);
        assert_eq!(list(&PLACES, 0, &mut memory).len(), MAX_TASKS - 1);
        memory.put_quad(BASE + STEP + PLACES.list, BASE + STEP + PLACES.list);
        memory.put_quad(BASE + 2 * STEP + PLACES.node, head(1));
        assert_eq!(list(&PLACES, 0, &mut memory).len(), MAX_TASKS - 1);
    }

    #[test]
    fn states_have_words() {
        let all = [(0, 0), (1, 0), (2, 0), (0x402, 0), (0x102, 0), (4, 0), (8, 0), (0, 0x10)];
        let words = all.map(|(state, exit_state)| word(state, exit_state));
        let expected = ["ready", "sleeps", "waits", "idle", "waits", "stopped", "traced", "ended"];
        assert_eq!(words, expected);
    }
}
