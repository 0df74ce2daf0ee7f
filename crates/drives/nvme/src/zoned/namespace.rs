//! The zone state of a namespace, and the effects of accesses on it.

use stasis_block::{Operation, Status};

use crate::command::location;
use crate::config::Namespace;
use crate::extent::Extent;
use crate::narrow::size;
use crate::slots::Slot;
use crate::status::Failure;

use super::changes::ChangedZones;
use super::set::{ZoneSet, ZoneState};

/// The zone state of a namespace.
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

    /// Returns whether the zones allow an access to blocks that lie in the namespace.
    pub fn check(&self, operation: Operation, extent: &Extent) -> Result<(), Failure> {
        if extent.length == 0 {
            return Ok(());
        }
        let (lba, blocks) = (extent.lba, extent.length / self.block);
        let checked = match operation {
            Operation::Read | Operation::Verify => self.set.check_read(lba, blocks),
            Operation::Write | Operation::WriteZeroes | Operation::Copy => {
                self.set.check_write(lba, blocks)
            }
            // Contents that go away leave the zone and its pointer alone.
            _ => Ok(()),
        };
        checked.map_err(|status| status.at(location::CDW10).of_block(lba))
    }

    /// An access that the zones have allowed goes to the drive: to `length`
    /// bytes from byte `offset` of the namespace on.
    pub fn enter(&mut self, operation: Operation, offset: u64, length: u64) {
        let writes =
            matches!(operation, Operation::Write | Operation::WriteZeroes | Operation::Copy);
        if writes && length > 0 {
            self.set.write(offset / self.block, length / self.block);
        }
    }

    /// Takes the drive's completion of a request: a zone that could not be written is read only
    /// from now on, one that could not be erased is offline. Returns whether zones have changed.
    pub fn leave(&mut self, slot: &Slot, status: Status, data: &mut [u8]) -> bool {
        // A copy's LBA is its source's, its offset its destination's.
        let (lba, blocks) = (slot.offset / self.block, slot.length / self.block);
        if slot.operation == Operation::Read {
            clear_unwritten(&self.set, lba, size(self.block), data);
        }
        if status == Status::Ok {
            return false;
        }
        let state = match slot.operation {
            Operation::Write | Operation::WriteZeroes | Operation::Copy => ZoneState::ReadOnly,
            Operation::Discard if is_reset(&self.set, lba, blocks) => ZoneState::Offline,
            _ => return false,
        };
        let (first, last) = (self.set.index(lba), self.set.index(lba + blocks.max(1) - 1));
        let mut changed = false;
        for index in first..=last {
            if self.set.fail(index, state) {
                self.changed.add(self.set.start(index));
                changed = true;
            }
        }
        changed
    }
}

/// Clears blocks not written since their zone's reset: they read as zeroes, whatever the medium
/// does with data that it may forget.
fn clear_unwritten(set: &ZoneSet, lba: u64, block: usize, data: &mut [u8]) {
    let (mut at, mut unchecked) = (lba, data);
    while unchecked.len() >= block {
        let (run, has_data) = set.run(at, (unchecked.len() / block) as u64);
        let (part, rest) = unchecked.split_at_mut(size(run) * block);
        if !has_data {
            part.fill(0);
        }
        at += run;
        unchecked = rest;
    }
}

/// Returns whether these blocks are whole zones without data, as those that a reset has asked the
/// drive to forget.
fn is_reset(set: &ZoneSet, lba: u64, blocks: u64) -> bool {
    let whole = lba.is_multiple_of(set.size) && blocks.is_multiple_of(set.size);
    let first = set.index(lba);
    let count = size(blocks / set.size);
    let zones = set.zones().get(first..first + count);
    whole
        && count > 0
        && zones.is_some_and(|zones| zones.iter().all(|zone| zone.state == ZoneState::Empty))
}
