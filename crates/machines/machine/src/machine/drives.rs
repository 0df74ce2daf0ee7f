//! The drives of a machine. Owns their devices, which are the experiment's and which the root's, and how
//! each controller was made, so that it can be made again.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use stasis_block::clock::Nanos;
use stasis_block::{Doorbells, Link, SECTOR};
use stasis_drive::{Control, WritePointers};
use stasis_nvme::KeptState;
use stasis_virtio::PciDevice;

use super::config::DriveConfig;
use super::controller::Controller;
use super::path_faults::PathFaults;
use super::slots::Slots;
use crate::devices::{DriveController, DriveDevice, NvmeController, VirtioController};
use crate::error::Error;
use crate::memory::GuestMemory;
use crate::pci::{Bus, Function};

/// A drive's function on the bus, and the link to it, if it has one.
pub(super) type Plug = (Function, Option<Link>);

/// The drives: the experiment's, and behind them the one that the root is on, if there is one.
pub(super) struct Drives {
    devices: Vec<DriveDevice>,
    /// Number of those that are the experiment's.
    own: usize,
    /// True if any drive is to be polled for submissions.
    is_lazy: bool,
    /// The controller of each.
    controllers: Vec<Controller>,
}

impl Index<usize> for Drives {
    type Output = DriveDevice;

    fn index(&self, index: usize) -> &DriveDevice {
        &self.devices[index]
    }
}

impl IndexMut<usize> for Drives {
    fn index_mut(&mut self, index: usize) -> &mut DriveDevice {
        &mut self.devices[index]
    }
}

impl Drives {
    /// Makes the devices of `own` drives, and of the root's. Returns their places on the bus, and the
    /// faults of the paths to them.
    ///
    /// # Errors
    /// A controller cannot be made as it is described.
    pub(super) fn new(
        own: Vec<DriveConfig>,
        root: Option<DriveConfig>,
    ) -> Result<(Self, Vec<Plug>, PathFaults), Error> {
        let count = own.len();
        let (mut devices, mut plugs, mut controllers) = (Vec::new(), Vec::new(), Vec::new());
        let mut path_faults = PathFaults::default();
        for DriveConfig { drive, tenant, controller, paths } in own.into_iter().chain(root) {
            for (path, faults) in paths.into_iter().enumerate() {
                path_faults.add((devices.len(), path), faults);
            }
            let (device, plug) = made(&controller, &drive.properties().name)?;
            devices.push(DriveDevice::new(device, drive, tenant, is_lazy(&controller)));
            plugs.push(plug);
            controllers.push(controller);
        }
        let is_lazy = devices.iter().any(DriveDevice::is_lazy);
        Ok((Self { devices, own: count, is_lazy, controllers }, plugs, path_faults))
    }

    /// Brings the controllers into their state after power-on; returns their places on the bus. `ends`:
    /// of each drive where its zones end, if a power cut has changed that.
    ///
    /// # Errors
    /// As of [`Drives::new`].
    pub(super) fn reset(&mut self, ends: &[Option<WritePointers>]) -> Result<Vec<Plug>, Error> {
        let mut plugs = Vec::new();
        let ends = ends.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        for ((drive, controller), ends) in
            self.devices.iter_mut().zip(&mut self.controllers).zip(ends)
        {
            if let Controller::Nvme { state, .. } = controller {
                let mut kept = drive.kept_state();
                if let (Some(kept), Some(ends)) = (&mut kept, ends) {
                    kept.cut_zones(&ends.bytes().collect::<Vec<_>>());
                }
                *state = kept.map(Box::new);
            }
            let (device, plug) = made(controller, drive.name())?;
            drive.replace(device);
            plugs.push(plug);
        }
        Ok(plugs)
    }

    /// Tells each controller with a memory buffer where that is; returns addresses and sizes, in order.
    pub(super) fn place_memory_buffers(&mut self, bus: &mut Bus, slots: &Slots) -> Vec<(u64, u64)> {
        let mut placed = Vec::new();
        let drives = self.controllers.iter().zip(&mut self.devices);
        for (number, (controller, drive)) in drives.enumerate() {
            let Controller::Nvme { config, .. } = controller else { continue };
            let Some(size) = config.memory_buffer else { continue };
            for path in 0..drive.paths() {
                let function = bus.function(slots.of_path(number, path));
                let address = function.bar(stasis_nvme::MEMORY_BUFFER_BAR);
                if let (Some(address), Some(nvme)) = (address, drive.nvme()) {
                    nvme.place_memory_buffer(path, address);
                    placed.push((address, size));
                }
            }
        }
        placed.sort_unstable();
        placed
    }

    /// The blocks of a drive as its guest sees them now: of its first namespace where the first lies
    /// (byte), the distance to the next (bytes), and how many there are.
    pub(super) fn blocks_of(&mut self, drive: usize) -> (u64, u64, u64) {
        let device = &mut self.devices[drive];
        let state = device.kept_state().and_then(|state| state.namespaces.into_iter().next());
        let capacity = device.capacity();
        match (state, &self.controllers[drive]) {
            (Some(one), _) => {
                let sector = u64::from(one.metadata.is_some()) * SECTOR;
                let size = (u64::from(one.block_size) + sector).max(1);
                (one.made.start, size, one.made.bytes() / size)
            }
            (None, Controller::Virtio(config)) => {
                let size = u64::from(config.block_size).max(1);
                (0, size, capacity / size)
            }
            (None, Controller::Nvme { .. }) => (0, SECTOR, capacity / SECTOR),
        }
    }

    /// All drives.
    pub(super) fn all(&self) -> &[DriveDevice] {
        &self.devices
    }

    /// All drives.
    pub(super) fn all_mut(&mut self) -> &mut [DriveDevice] {
        &mut self.devices
    }

    /// The experiment's drives.
    pub(super) fn own(&self) -> &[DriveDevice] {
        &self.devices[..self.own]
    }

    /// The experiment's drives.
    pub(super) fn own_mut(&mut self) -> &mut [DriveDevice] {
        &mut self.devices[..self.own]
    }

    /// The drive that the root is on, if there is one.
    pub(super) fn root_mut(&mut self) -> Option<&mut DriveDevice> {
        self.devices.get_mut(self.own)
    }

    /// Returns whether a drive is the experiment's.
    pub(super) fn is_own(&self, drive: usize) -> bool {
        drive < self.own
    }

    /// Returns whether any drive is to be polled for submissions.
    pub(super) fn is_lazy(&self) -> bool {
        self.is_lazy
    }

    /// The management of each drive.
    pub(super) fn controls(&mut self) -> impl Iterator<Item = &mut dyn Control> {
        self.devices.iter_mut().map(DriveDevice::control)
    }

    /// Numbers of commands that the experiment's drives have been given.
    pub(super) fn submitted(&self) -> impl Iterator<Item = u64> + '_ {
        self.own().iter().map(DriveDevice::submitted)
    }

    /// Looks for submissions, where a driver does not ring for them.
    pub(super) fn poll(&mut self, memory: &GuestMemory, now: Nanos) {
        if self.is_lazy {
            self.devices.iter_mut().for_each(|drive| drive.poll(memory, now));
        }
    }

    /// Returns the time of the next event of any drive (ns).
    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.devices.iter().filter_map(DriveDevice::next_event).min()
    }

    /// The guest begins or ends to need help from those it shares drives with.
    pub(super) fn help(&mut self, now: Nanos, is_wanted: bool) {
        self.devices.iter_mut().for_each(|drive| drive.help(now, is_wanted));
    }

    /// The controllers can be made anew from now on.
    pub(super) fn make_replaceable(&mut self) {
        self.devices.iter_mut().for_each(DriveDevice::make_replaceable);
    }

    /// Returns the time for which the machine has stood still for its drives so far.
    pub(super) fn frozen(&mut self) -> Duration {
        self.controls().map(|drive| drive.frozen()).sum()
    }
}

/// The controller of the drive `name`, and its place on the bus.
fn made(controller: &Controller, name: &str) -> Result<(Box<dyn DriveController>, Plug), Error> {
    Ok(match controller {
        Controller::Nvme { config, state, link, controllers } => {
            let function = NvmeController::function(config);
            let state = match state {
                Some(state) => (**state).clone(),
                None => KeptState::as_made(config),
            };
            let subsystem = stasis_nvme::Subsystem::with_state((**config).clone(), &state)
                .map_err(|error| Error::Drive(name.to_owned(), error.into()))?;
            (Box::new(NvmeController::new(subsystem, *controllers)), (function, Some(*link)))
        }
        Controller::Virtio(config) => {
            let device = PciDevice::new(config.clone())
                .map_err(|error| Error::Drive(name.to_owned(), error.into()))?;
            let device = VirtioController::new(device);
            let function = device.function();
            (Box::new(device), (function, None))
        }
    })
}

/// Returns whether the driver of a controller does not ring for a submission.
fn is_lazy(controller: &Controller) -> bool {
    let doorbells = match controller {
        Controller::Nvme { config, .. } => config.shadow,
        Controller::Virtio(config) => config.notify,
    };
    doorbells == Doorbells::Lazy
}
