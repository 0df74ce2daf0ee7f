//! The slots of a machine's bus behind the channel's: its drives, its ports of networks, and then the
//! further controllers of drives that have several. So a drive's place does not depend on how many
//! another one has. Owns the numbers of all of them.

use crate::devices::{DriveDevice, NetworkDevice};
use crate::layout::FIRST_DRIVE_SLOT;

/// The device in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Device {
    /// A drive, by one of its paths.
    Drive(usize, usize),
    /// A port of a network.
    Port(usize),
}

/// The slots of a machine.
#[derive(Debug, Default, Clone)]
pub(super) struct Slots {
    drives: usize,
    ports: usize,
    /// The further paths: their drives and numbers.
    further: Vec<(usize, usize)>,
}

impl Slots {
    /// Returns the slots of a machine with these devices.
    pub(super) fn new(drives: &[DriveDevice], ports: &[NetworkDevice]) -> Self {
        let paths = |(drive, device): (usize, &DriveDevice)| {
            (1..device.paths()).map(move |path| (drive, path))
        };
        let further = drives.iter().enumerate().flat_map(paths).collect();
        Self { drives: drives.len(), ports: ports.len(), further }
    }

    /// The device in `slot`.
    pub(super) fn device(&self, slot: usize) -> Option<Device> {
        let index = slot.checked_sub(FIRST_DRIVE_SLOT)?;
        let Some(index) = index.checked_sub(self.drives) else {
            return Some(Device::Drive(index, 0));
        };
        let Some(index) = index.checked_sub(self.ports) else { return Some(Device::Port(index)) };
        self.further.get(index).map(|&(drive, path)| Device::Drive(drive, path))
    }

    /// The slot of a drive's path.
    pub(super) fn of_path(&self, drive: usize, path: usize) -> usize {
        let first = FIRST_DRIVE_SLOT + self.drives + self.ports;
        let further = self.further.iter().position(|&owner| owner == (drive, path));
        further.map_or(FIRST_DRIVE_SLOT + drive, |index| first + index)
    }

    /// The slot of a port.
    pub(super) fn of_port(&self, port: usize) -> usize {
        FIRST_DRIVE_SLOT + self.drives + port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_a_slot_of_its_own() {
        let slots = Slots { drives: 3, ports: 2, further: vec![(1, 1), (1, 2), (2, 1)] };
        let device = |slot| slots.device(slot);
        assert_eq!((device(1), device(9)), (None, Some(Device::Drive(2, 1))));
        assert_eq!(device(10), None);
        for slot in FIRST_DRIVE_SLOT..=9 {
            let place = match slots.device(slot).unwrap() {
                Device::Drive(drive, path) => slots.of_path(drive, path),
                Device::Port(port) => slots.of_port(port),
            };
            assert_eq!(place, slot);
        }
    }
}
