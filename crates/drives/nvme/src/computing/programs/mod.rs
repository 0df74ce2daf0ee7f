//! Computational programs as a controller has them.

mod admin;
mod commands;
mod copy;
mod device;
mod identify;
mod running;

use crate::context::AdminCommand;
use crate::io::IoCommand;

pub use device::Device;
pub use identify::fill_compute_namespace;

/// Every admin command of compute namespaces (CP section 4.1).
pub const ADMIN_COMMANDS: [AdminCommand; 3] =
    [admin::LOAD_PROGRAM, admin::PROGRAM_ACTIVATION_MANAGEMENT, admin::MEMORY_RANGE_SET_MANAGEMENT];

/// Every I/O command of memory namespaces (SLM section 3).
pub const MEMORY_COMMANDS: [IoCommand; 4] =
    [copy::MEMORY_COPY, commands::MEMORY_READ, commands::MEMORY_FILL, commands::MEMORY_WRITE];

/// Every I/O command of compute namespaces (CP section 3).
pub const COMPUTE_COMMANDS: [IoCommand; 1] = [commands::EXECUTE_PROGRAM];
