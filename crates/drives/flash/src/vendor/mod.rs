//! A vendor's own admin commands (NVMe opcodes 0xC0 to 0xFF).
//!
//! A new one is a file here with a function, and a line in [`COMMANDS`]. CDW10
//! and CDW11 are left to the transport, which counts dwords of data in them
//! (NVM Express Base, Vendor Specific Commands); a command's own fields begin
//! with CDW12. Numbers in data are little-endian.

#[expect(clippy::cast_possible_truncation, reason = "a log is short")]
mod health;
mod inside;
mod timings;

use stasis_block::clock::Nanos;
use stasis_block::{VendorCommand, VendorError};

use crate::Ssd;

/// Place of CDW12 in [`VendorCommand::dwords`].
pub const CDW12: usize = 2;
/// Place of CDW13.
pub const CDW13: usize = 3;
/// Place of CDW14.
pub const CDW14: usize = 4;

/// Carries a command out at a time; Dword 0 of its completion.
pub type Run = fn(&mut Ssd, Nanos, &mut VendorCommand) -> Result<u32, VendorError>;

/// A command that drives support.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    /// Its opcode; its two lowest bits give the direction of the data to the transport (01: to the
    /// drive, 10: to the host).
    pub opcode: u8,
    /// Its name.
    pub name: &'static str,
    /// Its description, in a line.
    pub about: &'static str,
    /// Carries it out.
    pub run: Run,
}

/// Every command.
pub const COMMANDS: &[Registered] = &[
    Registered {
        opcode: 0xC6,
        name: "inside",
        about: "what the drive did inside, as JSON",
        run: inside::read,
    },
    Registered {
        opcode: 0xCA,
        name: "health",
        about: "what the health log says, as JSON",
        run: health::read,
    },
    Registered {
        opcode: 0xC2,
        name: "get-timings",
        about: "the times of the array, as a table",
        run: timings::get,
    },
    Registered {
        opcode: 0xC0,
        name: "set-timing",
        about: "sets one of the times of the array",
        run: timings::set,
    },
];

/// Carries out a vendor's command.
pub(crate) fn carry_out(
    ssd: &mut Ssd,
    now: Nanos,
    command: &mut VendorCommand,
) -> Result<u32, VendorError> {
    let known = COMMANDS.iter().find(|known| known.opcode == command.opcode);
    (known.ok_or(VendorError::Opcode)?.run)(ssd, now, command)
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;
