//! Compare (NVMe 1.4 section 6.6).

use stasis_block::Operation;

use super::{always, Registered, SUPPORTED};
use crate::io::Transfer;

pub(super) const COMMAND: Registered = Registered {
    opcode: 0x05,
    effects: SUPPORTED,
    announced: always,
    identify: 1,
    counts_as: Some(Operation::Read),
    execute: |controller, memory, queue, command| {
        controller.transfer(memory, queue, command, Transfer::Compare)
    },
};
