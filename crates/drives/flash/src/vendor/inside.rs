//! Opcode 0xC6, to the host: what the drive did inside, as JSON in UTF-8.
//!
//! CDW12 is the byte of the text that the data begins with, so that a text that
//! is longer than a transfer can be read piece by piece; what is behind its end
//! is zero. Dword 0 of the completion is the length of the whole text in bytes.

use stasis_block::clock::Nanos;
use stasis_block::{VendorCommand, VendorError};

use super::CDW12;
use crate::Ssd;

pub(super) fn read(
    ssd: &mut Ssd,
    now: Nanos,
    command: &mut VendorCommand,
) -> Result<u32, VendorError> {
    let text = serde_json::to_string(&ssd.report(now)).unwrap_or_default();
    let from = command.dwords[CDW12] as usize;
    let rest = text.as_bytes().get(from..).ok_or(VendorError::Field)?;
    let length = rest.len().min(command.data.len());
    command.data.fill(0);
    command.data[..length].copy_from_slice(&rest[..length]);
    Ok(u32::try_from(text.len()).unwrap_or(u32::MAX))
}
