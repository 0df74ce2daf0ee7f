//! Flush (NVMe 1.4 section 6.8), of one namespace or of all. Without a volatile write cache, or with
//! one that is off, it has no effect and asks the drive nothing.

use stasis_block::Operation;

use crate::command::{SubmissionEntry, ALL_NAMESPACES};
use crate::io::{Io, IoCommand};
use crate::registered::{always, SUPPORTED};
use crate::slots::Owner;
use crate::status::{Failure, Outcome};
use crate::Memory;

pub const COMMAND: IoCommand = IoCommand {
    opcode: 0x00,
    effects: SUPPORTED,
    announced: always,
    identify: 0,
    counts_as: Some(Operation::Flush),
    during_sanitize: true,
    execute: flush,
};

fn flush(io: &mut Io, _memory: &dyn Memory, command: &SubmissionEntry) -> Result<Outcome, Failure> {
    let id = command.id();
    if command.nsid == ALL_NAMESPACES {
        let mut count = 0;
        let attached = |io: &Io| io.access.attachments.namespaces(command.controller);
        for nsid in attached(io) {
            if io.namespace(nsid)?.computing.is_none() {
                count += 1;
            }
        }
        if count == 0 || io.flushes_nothing(command.controller) {
            return Ok(Outcome::Done(0));
        }
        let group = io.commands.slots.insert_group(id, count, false);
        let mut part = 0;
        for nsid in attached(io) {
            if io.namespaces.is_on_drive(nsid) {
                io.request_flush(command.sq, nsid, Owner::Part { group, part });
                part += 1;
            }
        }
    } else {
        io.namespace(command.nsid)?;
        if io.flushes_nothing(command.controller) {
            return Ok(Outcome::Done(0));
        }
        io.request_flush(command.sq, command.nsid, Owner::Command(id));
    }
    Ok(Outcome::Pending)
}
