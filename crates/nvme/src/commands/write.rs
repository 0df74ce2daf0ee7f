//! Write (NVMe 1.4 section 6.15).

use stasis_block::Operation;

use super::{always, Registered, CHANGES_CONTENTS, SUPPORTED};
use crate::io::Transfer;

pub(super) const COMMAND: Registered = Registered {
    opcode: 0x01,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: always,
    identify: 0,
    counts_as: Some(Operation::Write),
    execute: |controller, memory, queue, command| {
        controller.transfer(memory, queue, command, Transfer::Write)
    },
};
