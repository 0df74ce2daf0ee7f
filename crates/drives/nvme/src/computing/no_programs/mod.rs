//! In place of computational programs in a program that is built without them: no drive has any, as a
//! configuration with some is refused.

mod device;

use stasis_block::clock::Nanos;
use stasis_nvme_layout::command_sets::ComputeNamespace;

use crate::context::AdminCommand;
use crate::io::{Io, IoCommand};
use crate::slots::Purpose;

pub use device::Device;

pub const ADMIN_COMMANDS: [AdminCommand; 0] = [];
pub const MEMORY_COMMANDS: [IoCommand; 0] = [];
pub const COMPUTE_COMMANDS: [IoCommand; 0] = [];

impl Io {
    pub fn go_on_computing(&mut self, _now: Nanos) {}

    pub fn clear_memory(&mut self) {}

    pub fn transfer_time(&mut self, _purpose: Purpose, _bytes: u64) -> Option<Nanos> {
        None
    }
}

pub fn fill_compute_namespace(_page: &mut ComputeNamespace) {}
