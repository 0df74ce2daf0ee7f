//! Zoned namespaces, by the "NVM Express Zoned Namespace Command Set
//! Specification, revision 1.1", cited as "ZNS 1.1" with the section.
//!
//! [`set`] knows the zones' states; the rest is the way of commands to it.
//! State changes when a command is executed, before the drive has done what it
//! asks: commands that follow in the queue see it.

mod append;
mod changes;
mod config;
mod identify;
mod receive;
mod send;
mod set;

pub use append::ZONE_APPEND;
pub use changes::ChangedZones;
pub use config::{Zones, ZonesError, Zrwa};
pub use identify::{fill_zoned_controller, fill_zoned_namespace};
pub use receive::ZONE_MANAGEMENT_RECEIVE;
pub use send::ZONE_MANAGEMENT_SEND;
pub use set::ZoneSet;

use stasis_block::{Operation, Status};

use crate::command::{location, SubmissionEntry};
use crate::config::Namespace;
use crate::controller::Controller;
use crate::io::Extent;
use crate::slots::Slot;
use crate::status::{Failure, StatusCode};
use crate::Memory;

use set::State;

/// Command Set Identifier of the Zoned Namespace command set.
pub const CSI: u8 = 2;

/// What a zoned namespace has beside its blocks.
#[derive(Debug)]
pub struct ZonedNamespace {
    /// Size of a block in bytes.
    pub block: u64,
    pub set: ZoneSet,
    pub changed: ChangedZones,
}

impl ZonedNamespace {
    /// Empty zones.
    pub fn new(namespace: &Namespace) -> Option<Self> {
        let zones = namespace.zoned.as_ref()?;
        let block = u64::from(namespace.block_size);
        let set = ZoneSet::new(zones, namespace.blocks, block);
        Some(Self { block, set, changed: ChangedZones::default() })
    }
}

impl Controller {
    /// The zones of a namespace that has some.
    pub(crate) fn zoned(&self, nsid: u32) -> Option<&ZonedNamespace> {
        self.namespaces.zones(nsid)
    }

    fn zoned_mut(&mut self, nsid: u32) -> Option<&mut ZonedNamespace> {
        self.namespaces.zones_mut(nsid)
    }

    /// The zones that a zone command is for.
    fn zoned_of(&self, command: &SubmissionEntry) -> Result<&ZonedNamespace, Failure> {
        self.io_namespace(command.nsid)?;
        self.zoned(command.nsid).ok_or(StatusCode::InvalidOpcode.at(location::OPCODE))
    }

    /// Whether the zones allow an access to blocks that lie in the namespace.
    pub(crate) fn check_zones(
        &self,
        nsid: u32,
        operation: Operation,
        extent: &Extent,
    ) -> Result<(), Failure> {
        let Some(zoned) = self.zoned(nsid).filter(|_| extent.length > 0) else { return Ok(()) };
        let (lba, blocks) = (extent.lba, extent.length / zoned.block);
        let checked = match operation {
            Operation::Read | Operation::Verify => zoned.set.check_read(lba, blocks),
            Operation::Write | Operation::WriteZeroes | Operation::Copy => {
                zoned.set.check_write(lba, blocks)
            }
            // Contents that go away leave the zone and its pointer alone.
            _ => Ok(()),
        };
        checked.map_err(|status| status.at(location::CDW10))
    }

    /// An access that the zones have allowed goes to the drive: to `length`
    /// bytes from byte `offset` of the namespace on.
    pub(crate) fn enter_zones(
        &mut self,
        nsid: u32,
        operation: Operation,
        offset: u64,
        length: u64,
    ) {
        let writes =
            matches!(operation, Operation::Write | Operation::WriteZeroes | Operation::Copy);
        if let Some(zoned) = self.zoned_mut(nsid).filter(|_| writes && length > 0) {
            zoned.set.write(offset / zoned.block, length / zoned.block);
        }
    }

    /// The drive has done a request of a zoned namespace, or failed: a zone
    /// that it could not write is read only from now on, one that it could not
    /// erase is offline.
    pub(crate) fn leave_zones(
        &mut self,
        memory: &dyn Memory,
        slot: &Slot,
        status: Status,
        data: &mut [u8],
    ) {
        let Some(zoned) = self.zoned_mut(slot.nsid) else { return };
        // A copy's LBA is its source's, its offset its destination's.
        let (lba, blocks) = (slot.offset / zoned.block, slot.length / zoned.block);
        if slot.operation == Operation::Read {
            clear_unwritten(&zoned.set, lba, zoned.block as usize, data);
        }
        if status == Status::Ok {
            return;
        }
        let state = match slot.operation {
            Operation::Write | Operation::WriteZeroes | Operation::Copy => State::ReadOnly,
            Operation::Discard if zoned.set.is_reset(lba, blocks) => State::Offline,
            _ => return,
        };
        let (first, last) = (zoned.set.index(lba), zoned.set.index(lba + blocks.max(1) - 1));
        let mut changed = false;
        for index in first..=last {
            if zoned.set.fail(index, state) {
                zoned.changed.add(zoned.set.start(index));
                changed = true;
            }
        }
        if changed {
            self.zones_changed(memory, slot.nsid);
        }
    }
}

/// What was not written since its zone's reset reads as zeroes, whatever the
/// medium does with what it may forget.
fn clear_unwritten(set: &ZoneSet, lba: u64, block: usize, data: &mut [u8]) {
    let (mut at, mut left) = (lba, data);
    while left.len() >= block {
        let (run, has_data) = set.run(at, (left.len() / block) as u64);
        let (part, rest) = left.split_at_mut(run as usize * block);
        if !has_data {
            part.fill(0);
        }
        at += run;
        left = rest;
    }
}
