//! Places of the tasks of a guest's kernel, for a debugger.

use serde::{Deserialize, Serialize};

use crate::Threads;

/// Places of the tasks of a kernel: offsets (bytes), in `struct task_struct` where nothing else is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// The task that a processor runs, the names of tasks, and the mappings of their programs.
    pub threads: Threads,
    /// Linear address of the first one, `init_task`.
    pub first: u64,
    /// `tasks`: the list of processes.
    pub list: u64,
    /// `signal`, which a process's threads share.
    pub signal: u64,
    /// `thread_head` in `struct signal_struct`: the list of these threads.
    pub head: u64,
    /// `thread_node`: a thread's place in that.
    pub node: u64,
    /// `pid`, of 32 bits.
    pub pid: u64,
    /// `tgid`, of 32 bits.
    pub group: u64,
    /// `__state`, of 32 bits.
    pub state: u64,
    /// `exit_state`, of 32 bits.
    pub exit_state: u64,
    /// `on_cpu`, of 32 bits.
    pub runs: u64,
    /// `thread.sp`: the kernel's stack of one that does not run.
    pub stack: u64,
    /// `mm`: 0 for a thread of the kernel.
    pub space: u64,
    /// `pgd` in `struct mm_struct`: the process's top page table.
    pub table: u64,
}
