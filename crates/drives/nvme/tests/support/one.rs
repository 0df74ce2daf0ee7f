//! A subsystem with one controller, on PCIe, and the part of its carrier: the controller is attended to
//! where it is to be.

use std::ops::{Deref, DerefMut};

use stasis_block::{Health, Tag, VendorError};
use stasis_nvme::{
    Config, ConfigError, ControllerId, ControllerMut, Ended, KeptState, Memory, StateError,
    Subsystem, Transport,
};

/// The subsystem.
#[derive(Debug)]
pub struct Controller(Subsystem);

impl Deref for Controller {
    type Target = Subsystem;

    fn deref(&self) -> &Subsystem {
        &self.0
    }
}

impl DerefMut for Controller {
    fn deref_mut(&mut self) -> &mut Subsystem {
        &mut self.0
    }
}

impl Controller {
    /// A controller that is not enabled yet.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Subsystem::new(config).map(Self::of)
    }

    /// A controller whose power was off since `state` was kept of it.
    pub fn with_state(config: Config, state: &KeptState) -> Result<Self, StateError> {
        Subsystem::with_state(config, state).map(Self::of)
    }

    fn of(mut subsystem: Subsystem) -> Self {
        assert_eq!(subsystem.add_controller(Transport::Pcie), Some(ControllerId::PCIE));
        Self(subsystem)
    }

    /// The controller itself.
    pub fn pcie(&mut self) -> ControllerMut<'_> {
        self.0.controller(ControllerId::PCIE).expect("it is always there")
    }

    /// Attends to the controller, if it is to be.
    fn attend(&mut self, memory: &dyn Memory) {
        if self.0.waiting(None).is_some() {
            self.pcie().attend(memory);
        }
    }

    pub fn read_register(&mut self, offset: u64, into: &mut [u8]) {
        self.pcie().read_register(offset, into);
    }

    pub fn write_register(&mut self, memory: &dyn Memory, offset: u64, data: &[u8]) {
        self.pcie().write_register(memory, offset, data);
    }

    pub fn pop_interrupt(&mut self) -> Option<u16> {
        self.pcie().pop_interrupt()
    }

    /// Completes the commands that have ended by themselves.
    pub fn end_work(&mut self, memory: &dyn Memory) {
        if self.0.has_ended_work() {
            self.attend(memory);
        }
    }

    /// Sets the drive's temperature (kelvin), and notifies the guest if it is beyond its threshold.
    pub fn set_temperature(&mut self, memory: &dyn Memory, kelvin: u16) {
        self.0.set_temperature(kelvin);
        self.pcie().attend(memory);
    }

    /// Sets the drive's health, and warns the guest if it asked for that.
    pub fn set_health(&mut self, memory: &dyn Memory, health: Health) {
        if self.0.set_health(health) {
            self.attend(memory);
        }
    }

    /// Sets the health of the drive's parts, likewise.
    pub fn set_parts_health(&mut self, memory: &dyn Memory, parts: &[Health]) {
        self.0.set_parts_health(parts);
        self.attend(memory);
    }

    /// Attaches a namespace, or detaches it; a host that asked for it has an event.
    pub fn set_attached(
        &mut self,
        memory: &dyn Memory,
        nsid: u32,
        attached: bool,
    ) -> Result<(), u32> {
        self.0.set_attached(nsid, None, attached)?;
        self.attend(memory);
        Ok(())
    }

    /// Gives a namespace another size, and the host hears of it.
    pub fn resize(&mut self, memory: &dyn Memory, nsid: u32, bytes: Option<u64>) -> bool {
        let resized = self.0.resize(nsid, bytes);
        self.attend(memory);
        resized
    }

    /// The drive has done a request.
    pub fn complete(
        &mut self,
        memory: &dyn Memory,
        tag: Tag,
        ended: impl Into<Ended>,
        data: Vec<u8>,
    ) -> u16 {
        let code = self.0.complete(memory, tag, ended, data);
        self.attend(memory);
        code
    }

    /// The drive has done a vendor specific command.
    pub fn complete_vendor(
        &mut self,
        memory: &dyn Memory,
        tag: u32,
        result: Result<u32, VendorError>,
        data: &[u8],
    ) {
        self.pcie().complete_vendor(memory, tag, result, data);
    }
}
