//! From the drive's completions to the entry in the used ring.

use stasis_block::memory::scatter;
use stasis_block::{Operation, Status};

use crate::block::device::Device;
use crate::block::slots::{ChainId, Owner, Slot};
use crate::ring::Fault;
use crate::{Memory, OutOfMemoryRange};

/// A request's status byte (virtio 1.2 section 5.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestStatus {
    Ok = 0,
    IoError = 1,
    Unsupported = 2,
}

/// Data outside guest memory: the request fails, the device stays usable.
impl From<OutOfMemoryRange> for RequestStatus {
    fn from(_: OutOfMemoryRange) -> Self {
        Self::IoError
    }
}

impl Device {
    pub(crate) fn finish(
        &mut self,
        memory: &dyn Memory,
        slot: Slot,
        status: Status,
        data: &[u8],
    ) -> Result<(), Fault> {
        let Slot { owner, operation, bytes, segments } = slot;
        let alive = owner != Owner::Orphan;
        let mut failed = status != Status::Ok;
        let mut written = 0;
        if operation == Operation::Read && alive && !failed {
            // A drive that gives back less than was asked of it has failed.
            failed = data.len() != bytes || scatter(memory, &segments, data).is_err();
            written = bytes;
        }
        self.pool.give_segments(segments);
        let done = match owner {
            Owner::Chain(id) => Some((id, failed)),
            Owner::Part(group) => self.slots.part_done(group, failed),
            Owner::Orphan => None,
        };
        match done {
            Some((id, false)) => self.end(memory, id, RequestStatus::Ok, written),
            Some((id, true)) => self.end(memory, id, RequestStatus::IoError, 0),
            None => Ok(()),
        }
    }

    /// Gives a chain back, with `written` bytes of data in it.
    pub(crate) fn end(
        &mut self,
        memory: &dyn Memory,
        id: ChainId,
        status: RequestStatus,
        written: usize,
    ) -> Result<(), Fault> {
        self.statistics.failed += u64::from(status != RequestStatus::Ok);
        memory.write(id.status, &[status as u8])?;
        // The length counts from the first byte on, without a gap (section
        // 2.7.8.2): the status only behind all of the data.
        let length = written + usize::from(written == id.writable);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let Some(Some(ring)) = self.rings.get_mut(usize::from(id.queue)) else { return Ok(()) };
        if ring.give(memory, id.head, length)? {
            self.interrupts.of_queue(id.queue);
            self.statistics.interrupts += 1;
        }
        Ok(())
    }
}
