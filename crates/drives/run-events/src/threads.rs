//! Places of the threads of a guest's kernel, and of the mappings of their programs.

use serde::{Deserialize, Serialize};

/// Place of the name of the thread that a processor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threads {
    /// From a processor's GS base to the pointer to its thread.
    pub current: u64,
    /// Offset of `comm` in `struct task_struct`.
    pub comm: u64,
    /// Place of the files that programs are mapped from; without them a program's functions have no
    /// names.
    pub maps: Option<Maps>,
}

/// Place of the mappings of a thread's program in Linux 6.1 or newer: offsets (bytes) on the way
/// from its `struct task_struct` to the name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maps {
    /// `mm` in `struct task_struct`.
    pub space: u64,
    /// `mm_mt.ma_root` in `struct mm_struct`.
    pub root: u64,
    /// In the leaves and in inner nodes without gaps, `struct maple_range_64`.
    pub ranges: MapleNode,
    /// In `struct maple_arange_64`.
    pub gaps: MapleNode,
    /// `vm_start` in `struct vm_area_struct`.
    pub begin: u64,
    /// `vm_end` there.
    pub end: u64,
    /// `vm_flags` there.
    pub flags: u64,
    /// `vm_pgoff` there.
    pub page: u64,
    /// `vm_file` there.
    pub file: u64,
    /// `f_path.dentry` in `struct file`.
    pub entry: u64,
    /// `d_parent` in `struct dentry`.
    pub parent: u64,
    /// `d_name.hash_len` there.
    pub hash: u64,
    /// `d_name.name` there.
    pub name: u64,
}

/// Places of the fields of a node of a maple tree (Linux, Documentation/core-api/maple_tree.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapleNode {
    /// The last index of each slot but the last one: `pivot`.
    pub pivots: u64,
    /// `slot`, behind them.
    pub slots: u64,
}
