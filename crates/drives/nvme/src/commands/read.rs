//! Read (NVMe 1.4 section 6.9).

use stasis_block::Operation;

use crate::io::{IoCommand, Transfer};
use crate::registered::{always, SUPPORTED};

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x02,
    effects: SUPPORTED,
    announced: always,
    identify: 0,
    counts_as: Some(Operation::Read),
    during_sanitize: false,
    execute: |io, memory, command| io.transfer(memory, command, Transfer::Read),
};
