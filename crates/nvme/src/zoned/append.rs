//! Zone Append (ZNS 1.1 section 3.4.1): a write whose place the controller
//! chooses.

use stasis_block::Operation;

use crate::command::{location, SubmissionEntry};
use crate::commands::{Registered, CHANGES_CONTENTS, SUPPORTED};
use crate::controller::Controller;
use crate::io::{starting_lba, Extent, Transfer};
use crate::slots::{CommandId, Owner};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

use super::CSI;

/// Protection Information Remap, in Dword 12: there is no protection
/// information.
const REMAP: u32 = 1 << 25;

pub const ZONE_APPEND: Registered = Registered {
    opcode: 0x7d,
    effects: SUPPORTED | CHANGES_CONTENTS,
    announced: |_, set| set == CSI,
    identify: 0,
    counts_as: Some(Operation::Write),
    execute: Controller::zone_append,
};

impl Controller {
    fn zone_append(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let blocks = u64::from(command.cdw12 & 0xffff) + 1;
        let namespace = self.writable_namespace(command.nsid)?;
        let first = Extent::new(namespace, starting_lba(command), 1, location::CDW10)?.lba;
        let set = &self.zoned_of(command)?.set;
        if !first.is_multiple_of(set.size) {
            return Err(StatusCode::InvalidField.at(location::CDW10));
        }
        if command.cdw12 & REMAP != 0 {
            return Err(StatusCode::InvalidField.at(location::CDW12 + 3));
        }
        let lba = set.check_append(set.index(first), blocks);
        let lba = lba.map_err(|status| status.at(location::CDW10))?;
        let extent = Extent::new(namespace, lba, blocks, location::CDW10)?;
        self.check_length(&extent)?;
        self.check_clearing(command.nsid, &extent)?;
        let owner = Owner::Append(CommandId { sq: queue, cid: command.cid });
        self.transfer_extent(memory, queue, command, Transfer::Write, &extent, owner)
    }
}
