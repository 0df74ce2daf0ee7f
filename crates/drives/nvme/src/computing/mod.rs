//! Computational programs: a memory namespace, by the "NVM Express Subsystem Local Memory Command Set
//! Specification, revision 1.0" ("SLM"), and a compute namespace, by the "NVM Express Computational
//! Programs Command Set Specification, revision 1.1" ("CP"), cited with the section or figure.
//!
//! A host copies blocks into the memory namespace, runs programs on ranges of it, and reads what they
//! leave there. Programs are eBPF ([`stasis_ebpf`]). A model of the device's processors and of its
//! memory says when commands end ([`Work`]); contents change when a command is carried out.
//!
//! Both namespaces are memory of the controller: their contents, the programs and the sets of ranges
//! outlive resets, and are lost with the power.

mod admin;
mod commands;
mod config;
mod copy;
mod device;
mod identify;
mod running;
mod work;

pub use admin::{LOAD_PROGRAM, MEMORY_RANGE_SET_MANAGEMENT, PROGRAM_ACTIVATION_MANAGEMENT};
pub use commands::{EXECUTE_PROGRAM, MEMORY_FILL, MEMORY_READ, MEMORY_WRITE};
pub use config::{Part, Programs, ProgramsError};
pub use copy::MEMORY_COPY;
pub use device::Device;
pub use identify::fill_compute_namespace;
pub use work::{Done, Work};

/// Command Set Identifiers (NVMe 2.1 figure 311).
pub const MEMORY_CSI: u8 = 3;
pub const COMPUTE_CSI: u8 = 4;
