//! A vendor's own admin commands.

use stasis_block::{VendorCommand, VendorError};
use stasis_clock::Nanos;

use crate::Ssd;

/// Carries out a vendor's command.
pub(crate) fn carry_out(
    _ssd: &mut Ssd,
    _now: Nanos,
    _command: &mut VendorCommand,
) -> Result<u32, VendorError> {
    Err(VendorError::Opcode)
}
