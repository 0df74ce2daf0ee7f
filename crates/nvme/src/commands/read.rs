//! Read (NVMe 1.4 section 6.9).

use stasis_block::Operation;

use super::{always, Registered, SUPPORTED};
use crate::io::Transfer;

pub(super) const COMMAND: Registered = Registered {
    opcode: 0x02,
    effects: SUPPORTED,
    announced: always,
    identify: 0,
    counts_as: Some(Operation::Read),
    execute: |controller, memory, queue, command| {
        controller.transfer(memory, queue, command, Transfer::Read)
    },
};
