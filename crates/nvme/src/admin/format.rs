//! Format NVM (NVMe 1.4 section 5.23): a namespace's contents go, and its
//! blocks may get another size.

use stasis_block::{Command, Operation, Status};

use crate::command::{location, SubmissionEntry};
use crate::commands::{
    always, Registered, ALONE, CHANGES_CAPABILITIES, CHANGES_CONTENTS, SUPPORTED,
};
use crate::controller::Controller;
use crate::io::ALL_NAMESPACES;
use crate::slots::{CommandId, Owner, Purpose, Slot};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

/// Sizes of a block, by the number of their LBA format. None has metadata.
pub const LBA_FORMATS: [u32; 2] = [512, 4096];
/// Most bytes of a request to the drive.
const PIECE: u64 = 1 << 30;

/// A command under way. The namespaces' commands are refused meanwhile.
#[derive(Debug)]
pub struct Formatting {
    cid: u16,
    /// The namespaces concerned.
    first: u32,
    last: u32,
    /// Which of them is being erased.
    at: u32,
    block_size: u32,
    /// Where its contents are gone, in bytes.
    erased: u64,
    erase: Operation,
    /// Whether the drive has a request.
    asked: bool,
}

impl Formatting {
    /// Whether namespace `nsid` is concerned.
    pub fn concerns(&self, nsid: u32) -> bool {
        (self.first..=self.last).contains(&nsid)
    }
}

pub const FORMAT_NVM: Registered = Registered {
    opcode: 0x80,
    effects: SUPPORTED | CHANGES_CONTENTS | CHANGES_CAPABILITIES | ALONE,
    announced: always,
    identify: 1 << 1,
    counts_as: None,
    execute: |controller, memory, _, command| controller.format(memory, command),
};

impl Controller {
    pub(super) fn format(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let (first, last) = match command.nsid {
            ALL_NAMESPACES => (1, self.config.namespaces.len() as u32),
            nsid => (nsid, nsid),
        };
        let invalid_format = StatusCode::InvalidFormat.at(location::CDW10);
        let format = (command.cdw10 & 0xf) as usize;
        let block_size = *LBA_FORMATS.get(format).ok_or(invalid_format)?;
        // Protection information needs metadata.
        if command.cdw10 >> 5 & 7 != 0 {
            return Err(invalid_format);
        }
        let erase = match command.cdw10 >> 9 & 7 {
            0 => Operation::Discard,
            // User data erase, and cryptographic erase, which has no key here:
            // either way nothing can be read any more.
            1 | 2 if self.config.discard_zeroes => Operation::Discard,
            1 | 2 => Operation::WriteZeroes,
            _ => return Err(StatusCode::InvalidField.at(location::CDW10 + 1)),
        };
        if self.formatting.is_some() {
            return Err(StatusCode::FormatInProgress.into());
        }
        for nsid in first..=last {
            self.writable_namespace(nsid)?;
            let bytes = self.namespaces.capacity(nsid);
            let namespace = &self.config.namespaces[nsid as usize - 1];
            if bytes < block_size.into() || !namespace.can_have_blocks_of(block_size, bytes) {
                return Err(invalid_format);
            }
        }
        self.formatting = Some(Formatting {
            cid: command.cid,
            first,
            last,
            at: first,
            block_size,
            erased: 0,
            erase,
            asked: false,
        });
        self.go_on_formatting(memory);
        Ok(Outcome::Pending)
    }

    /// Asks the drive for the next piece, once all commands that were begun
    /// before are done.
    pub(crate) fn go_on_formatting(&mut self, memory: &dyn Memory) {
        let Some(formatting) = &mut self.formatting else { return };
        if formatting.asked || !self.slots.requests.has_room(1) {
            return;
        }
        if self.slots.any(|slot| slot.is_awaited() && formatting.concerns(slot.nsid)) {
            return;
        }
        let nsid = formatting.at;
        let left = self.namespaces.capacity(nsid) - formatting.erased;
        if left > 0 {
            formatting.asked = true;
            let erase = Command::new(formatting.erase, formatting.erased, left.min(PIECE));
            let slot =
                Slot { purpose: Purpose::Format, ..Slot::new(Owner::Format, &erase, nsid, 0) };
            return self.request(0, slot, erase);
        }
        if nsid < formatting.last {
            (formatting.at, formatting.erased) = (nsid + 1, 0);
            return self.go_on_formatting(memory);
        }
        self.end_formatting(memory);
    }

    /// The drive has done a piece.
    pub(crate) fn piece_formatted(&mut self, memory: &dyn Memory, slot: &Slot, status: Status) {
        let Some(formatting) = &mut self.formatting else { return };
        formatting.asked = false;
        formatting.erased += slot.length;
        if status != Status::Ok {
            let id = CommandId { sq: 0, cid: formatting.cid };
            self.formatting = None;
            self.post_failure(memory, id, StatusCode::WriteFault.into(), slot.nsid, 0);
        }
    }

    fn end_formatting(&mut self, memory: &dyn Memory) {
        let Some(Formatting { cid, first, last, block_size, .. }) = self.formatting.take() else {
            return;
        };
        for nsid in first..=last {
            let namespace = &mut self.config.namespaces[nsid as usize - 1];
            let before = namespace.block_size;
            namespace.block_size = block_size;
            namespace.blocks = self.namespaces.capacity(nsid) / u64::from(block_size);
            self.namespaces.format(nsid, namespace);
            if before != block_size {
                self.namespace_changed(memory, nsid);
            }
        }
        self.post(memory, CommandId { sq: 0, cid }, 0, 0);
    }
}
