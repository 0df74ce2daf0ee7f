//! Computational programs: a memory namespace, by the "NVM Express Subsystem Local Memory Command Set
//! Specification, revision 1.0" ("SLM"), and a compute namespace, by the "NVM Express Computational
//! Programs Command Set Specification, revision 1.1" ("CP"), cited with the section or figure.
//!
//! A host copies blocks into the memory namespace, runs programs on ranges of it, and reads what they
//! leave there. Programs are eBPF (the crate `ebpf`). A model of the device's processors and of its
//! memory says when commands end ([`Work`]); contents change when a command is carried out.
//!
//! Both namespaces are memory of the controller: their contents, the programs and the sets of ranges
//! outlive resets, and are lost with the power. [`programs`] has them, and the way of commands to them, in
//! a program that is built with the feature `computational`.

mod config;
#[cfg(not(feature = "computational"))]
#[path = "no_programs/mod.rs"]
mod programs;
#[cfg(feature = "computational")]
mod programs;
mod work;

pub use config::{Part, Programs, ProgramsError};
pub use programs::{
    fill_compute_namespace, Device, ADMIN_COMMANDS, COMPUTE_COMMANDS, MEMORY_COMMANDS,
};
pub use work::{Done, Work};

/// Command Set Identifiers (NVMe 2.1 figure 311).
pub const MEMORY_CSI: u8 = 3;
pub const COMPUTE_CSI: u8 = 4;
