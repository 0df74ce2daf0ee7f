//! A drive on the PCI bus, with any interface.

use stasis_block::clock::Nanos;
use stasis_drive::Control;
use stasis_run_events::IoRecord;

use super::attached::{Attached, DriveController};
use super::{NvmeController, VirtioController};
use crate::memory::GuestMemory;

/// A drive with its controller.
pub enum DriveDevice {
    /// Behind an NVMe controller.
    Nvme(Box<Attached<NvmeController>>),
    /// As a virtio block device.
    Virtio(Box<Attached<VirtioController>>),
}

/// The same of either.
macro_rules! either {
    ($self:expr, $device:ident => $call:expr) => {
        match $self {
            DriveDevice::Nvme($device) => $call,
            DriveDevice::Virtio($device) => $call,
        }
    };
}

impl DriveDevice {
    /// The management of the drive.
    pub fn control(&mut self) -> &mut dyn Control {
        either!(self, device => device.control())
    }

    /// The state that the drive keeps beside its bytes if its power is off from now on; `None` for
    /// a virtio drive.
    pub fn kept_state(&mut self) -> Option<stasis_nvme::KeptState> {
        match self {
            Self::Nvme(device) => {
                // The counters of the medium in it are of this instant.
                let health = device.control().health();
                Some(device.controller.kept_state_with(health))
            }
            Self::Virtio(_) => None,
        }
    }

    /// Whether a write to `offset` announces commands.
    pub fn is_doorbell(&self, offset: u64) -> bool {
        match self {
            Self::Nvme(_) => stasis_nvme::Controller::is_doorbell(offset),
            Self::Virtio(_) => VirtioController::is_doorbell(offset),
        }
    }

    /// The guest reads a register.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) {
        either!(self, device => device.read(offset, into));
    }

    /// The guest writes a register at virtual time `now`.
    pub fn write(&mut self, memory: &GuestMemory, now: Nanos, offset: u64, data: &[u8]) {
        either!(self, device => device.write(memory, now, offset, data));
    }

    /// Whether commands are found by polling only.
    pub fn is_lazy(&self) -> bool {
        either!(self, device => device.is_lazy())
    }

    /// Looks for commands, where that is the only way to find them.
    pub fn poll(&mut self, memory: &GuestMemory, now: Nanos) {
        either!(self, device => device.poll(memory, now));
    }

    /// Its function has been reset.
    pub fn reset(&mut self) {
        match self {
            Self::Nvme(device) => device.controller.reset(),
            // A virtio drive has no function-level reset, and no root port to reset it.
            Self::Virtio(_) => {}
        }
    }

    /// When [`DriveDevice::advance`] is to be called next.
    pub fn next_event(&self) -> Option<Nanos> {
        either!(self, device => device.next_event())
    }

    /// Delivers what is due at `now`; each I/O is passed to `record`.
    pub fn advance(
        &mut self,
        memory: &GuestMemory,
        now: Nanos,
        boot: bool,
        record: impl FnMut(IoRecord),
    ) {
        either!(self, device => device.advance(memory, now, boot, record));
    }

    /// The guest begins or ends to need help at its drives.
    pub fn help(&mut self, now: Nanos, on: bool) {
        either!(self, device => device.help(now, on));
    }

    /// The guest's scheduler prefers the requests that it sends next for these sectors of 512
    /// bytes.
    pub fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        either!(self, device => device.urge(sectors));
    }

    /// The next MSI-X vector to signal.
    pub fn pop_interrupt(&mut self) -> Option<u16> {
        either!(self, device => device.controller.pop_interrupt())
    }
}
