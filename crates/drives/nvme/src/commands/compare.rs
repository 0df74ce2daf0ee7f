//! Compare (NVMe 1.4 section 6.6).

use stasis_block::Operation;

use crate::io::{IoCommand, Transfer};
use crate::registered::{always, SUPPORTED};

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x05,
    effects: SUPPORTED,
    announced: always,
    identify: 1,
    counts_as: Some(Operation::Read),
    during_sanitize: false,
    execute: |io, memory, command| io.transfer(memory, command, Transfer::Compare),
};
