//! Geometry (OCSSD 2.0 section 2.1): the admin command by which a host learns of the drive's
//! parts.

use stasis_nvme_layout::open_channel::Geometry;
use stasis_nvme_layout::IntoBytes;

use crate::command::SubmissionEntry;
use crate::config::Config;
use crate::context::AdminCommand;
use crate::context::ControllerMut;
use crate::registered::{OF_NAMESPACE, SUPPORTED};
use crate::status::{Failure, Outcome};
use crate::Memory;

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
    controller.io.send(memory, command, page.as_bytes())?;
    Ok(Outcome::Done(0))
}

/// Geometry data structure.
fn geometry_page(set: &ChunkSet) -> Geometry {
    // Media and Controller Capabilities: Vector Chunk Copy.
    const VECTOR_COPY: u32 = 1;
    let config = &set.config;
    let bits = config.bits();
    Geometry {
        major: 2,
        minor: 0,
        group_bits: bits.group,
        unit_bits: bits.unit,
        chunk_bits: bits.chunk,
        sector_bits: bits.sector,
        mccap: VECTOR_COPY.into(),
        num_grp: config.groups.into(),
        num_pu: config.units.into(),
        num_chk: config.chunks.into(),
        clba: config.sectors.into(),
        ws_min: config.write_min.into(),
        ws_opt: config.write_optimal().into(),
        mw_cunits: config.cached.into(),
        maxoc: config.max_open.unwrap_or(0).into(),
        maxocpu: config.max_open_per_unit.unwrap_or(0).into(),
        ..Default::default()
    }
}
