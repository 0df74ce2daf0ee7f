//! The boot of a machine for checks, kept: a fresh machine starts from it in a fraction of a second.
//!
//! The boot is saved where the guest waits for its first job, with disks of zeroes, so that it has
//! seen no state. Every machine starts from what was saved, the first one too: all are alike. Where
//! QEMU cannot save a machine (NVMe controllers), where the guest's root is read from a server, and
//! under KVM, each machine boots.

use std::sync::{Mutex, PoisonError};

use crate::checked::Device;
use crate::vm::{Booted, Saved};
use crate::{Config, Error, Vm};

/// A boot that several checkers share.
#[derive(Debug, Default)]
pub(crate) struct KeptBoot(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    boots: u64,
    /// With the devices that the machine has.
    saved: Option<(Vec<Device>, Saved)>,
    /// True if machines are known that cannot be saved or restored.
    unkept: bool,
}

impl KeptBoot {
    /// Returns the number of boots of a guest.
    pub(crate) fn boots(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).boots
    }

    /// Starts a machine with the drives `devices`, which `config` has with files of zeroes. Others
    /// that start one meanwhile wait for the boot. All configurations are alike but for these
    /// files.
    ///
    /// # Errors
    /// The guest does not boot.
    pub(crate) fn start(&self, config: &Config, devices: &[Device]) -> Result<Vm, Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lies_elsewhere = config.guest.in_place.is_some();
        if state.unkept || lies_elsewhere {
            state.boots += 1;
            drop(state);
            return Vm::start(config);
        }
        if state.saved.as_ref().is_none_or(|(own, _)| own != devices) {
            state.saved = None;
            state.boots += 1;
            match Vm::save(config)? {
                Booted::Saved(saved) => state.saved = Some((devices.to_vec(), saved)),
                Booted::Running(vm) => {
                    state.unkept = true;
                    return Ok(*vm);
                }
            }
        }
        let Some((_, saved)) = &state.saved else { return Vm::start(config) };
        match Vm::restore(config, saved) {
            // QEMU refuses what it has saved, or ends of it.
            Err(Error::Monitor(_) | Error::Ended { .. }) => {
                (state.saved, state.unkept) = (None, true);
                state.boots += 1;
                Vm::start(config)
            }
            other => other,
        }
    }
}
