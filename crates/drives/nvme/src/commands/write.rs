//! Write (NVMe 1.4 section 6.15).

use stasis_block::Operation;

use crate::io::{IoCommand, Transfer};
use crate::registered::{always, CHANGES_CONTENTS, SUPPORTED};

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x01,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: always,
    identify: 0,
    counts_as: Some(Operation::Write),
    during_sanitize: false,
    execute: |io, memory, command| io.transfer(memory, command, Transfer::Write),
};
