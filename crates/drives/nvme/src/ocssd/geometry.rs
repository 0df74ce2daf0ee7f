//! Geometry (OCSSD 2.0 section 2.1): the admin command by which a host learns of the drive's
//! parts.

use crate::command::SubmissionEntry;
use crate::config::Config;
use crate::context::AdminCommand;
use crate::context::ControllerMut;
use crate::registered::{OF_NAMESPACE, SUPPORTED};
use crate::status::{Failure, Outcome};
use crate::{Memory, PAGE_SIZE};

use super::set::ChunkSet;

pub const GEOMETRY: AdminCommand = AdminCommand {
    opcode: 0xe2,
    effects: SUPPORTED | OF_NAMESPACE,
    announced: Config::has_chunk_commands,
    identify: 0,
    counts_as: None,
    during_sanitize: false,
    execute: geometry,
};

/// On namespaces without chunks the opcode is the drive's.
fn geometry(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let Some(set) = controller.io.namespaces.chunks(command.nsid) else {
        return controller.vendor.execute(controller.io, memory, command);
    };
    let page = geometry_page(set);
    controller.io.send(memory, command, &page)?;
    Ok(Outcome::Done(0))
}

/// Geometry data structure, by its byte offsets.
fn geometry_page(set: &ChunkSet) -> [u8; PAGE_SIZE] {
    // Media and Controller Capabilities: Vector Chunk Copy.
    const VECTOR_COPY: u32 = 1;
    let config = &set.config;
    let bits = config.bits();
    let mut page = [0; PAGE_SIZE];
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    // Version 2.0; bits of group, unit, chunk and sector in an address.
    put(0, &[2, 0]);
    put(8, &[bits.group, bits.unit, bits.chunk, bits.sector]);
    put(16, &VECTOR_COPY.to_le_bytes());
    put(64, &config.groups.to_le_bytes());
    put(66, &config.units.to_le_bytes());
    put(68, &config.chunks.to_le_bytes());
    put(72, &config.sectors.to_le_bytes());
    put(128, &config.write_min.to_le_bytes());
    put(132, &config.write_optimal().to_le_bytes());
    put(136, &config.cached.to_le_bytes());
    // 0: no limit.
    put(140, &config.max_open.unwrap_or(0).to_le_bytes());
    put(144, &config.max_open_per_unit.unwrap_or(0).to_le_bytes());
    page
}
