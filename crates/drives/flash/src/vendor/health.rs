//! Opcode 0xCA, to the host: what the health log says, as JSON in UTF-8. Dword 0
//! of the completion is its length in bytes.

use stasis_block::clock::Nanos;
use stasis_block::{Model, VendorCommand, VendorError};

use crate::Ssd;

pub(super) fn read(
    ssd: &mut Ssd,
    _now: Nanos,
    command: &mut VendorCommand,
) -> Result<u32, VendorError> {
    let text = serde_json::to_string(&ssd.health()).unwrap_or_default();
    let room = command.data.get_mut(..text.len()).ok_or(VendorError::Field)?;
    room.copy_from_slice(text.as_bytes());
    Ok(text.len() as u32)
}
