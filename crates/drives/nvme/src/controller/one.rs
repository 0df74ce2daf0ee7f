//! A subsystem with one controller: a drive on PCIe.

use stasis_block::clock::Nanos;
use stasis_block::{BlockLayout, Health, Refused, Request, Tag, VendorError};

use crate::config::{Config, ConfigError};
use crate::controller_id::ControllerId;
use crate::kept::{KeptState, StateError};
use crate::queues::QueuePair;
use crate::registers as reg;
use crate::statistics::Statistics;
use crate::subsystem::Subsystem;
use crate::transport::Transport;
use crate::vendor::VendorRequest;
use crate::Memory;

use crate::context::ControllerMut;

use super::Ended;

/// A subsystem with one controller, on PCIe.
#[derive(Debug)]
pub struct Controller(Subsystem);

impl Controller {
    /// A controller that is not enabled yet.
    ///
    /// # Errors
    /// Returns the invalid field and its allowed values.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Subsystem::new(config).map(Self::of)
    }

    /// A controller whose power was off since `state` was kept of it.
    ///
    /// # Errors
    /// As of [`Controller::new`]; or the state is of another drive, or damaged.
    pub fn with_state(config: Config, state: &KeptState) -> Result<Self, StateError> {
        Subsystem::with_state(config, state).map(Self::of)
    }

    fn of(mut subsystem: Subsystem) -> Self {
        // A new subsystem has room.
        subsystem.add_controller(Transport::Pcie);
        Self(subsystem)
    }

    /// Runs `act` with the controller, which is always there.
    fn with<R: Default>(&mut self, act: impl FnOnce(&mut ControllerMut) -> R) -> R {
        self.0
            .controller(ControllerId::PCIE)
            .map_or_else(R::default, |mut controller| act(&mut controller))
    }

    /// As [`Subsystem::kept_state`].
    pub fn kept_state(&self) -> KeptState {
        self.0.kept_state()
    }

    /// As [`Subsystem::state_changes`].
    pub fn state_changes(&self) -> u64 {
        self.0.state_changes()
    }

    /// As [`Subsystem::largest_block`].
    pub fn largest_block(&self) -> u32 {
        self.0.largest_block()
    }

    /// As [`Subsystem::layout`].
    pub fn layout(&self) -> BlockLayout {
        self.0.layout()
    }

    /// From now on completions wait for [`Controller::release`], so that the carrier can keep the
    /// state that they depend on before the host sees them.
    pub fn hold_completions(&mut self) {
        self.with(|controller| controller.host.holds = true);
    }

    /// Returns whether completions wait for [`Controller::release`]: also once more after it, where
    /// it went on with commands that it has ended.
    pub fn is_holding(&self) -> bool {
        self.0.host(ControllerId::PCIE).is_some_and(|host| host.is_holding())
    }

    /// As [`ControllerMut::release`].
    pub fn release(&mut self, memory: &dyn Memory) {
        self.with(|controller| controller.release(memory));
    }

    /// Size of the registers and doorbells in bytes, for their base address
    /// register. The MSI-X table is the carrier's.
    pub fn bar_size() -> u64 {
        reg::BAR_SIZE
    }

    /// Returns whether the register at `offset` is a doorbell.
    pub fn is_doorbell(offset: u64) -> bool {
        offset >= reg::DOORBELLS
    }

    /// Returns whether a write to the register at `offset` announces admin commands, before which
    /// the carrier is to call [`Controller::set_health`].
    pub fn is_admin_doorbell(offset: u64) -> bool {
        offset == reg::DOORBELLS
    }

    /// Returns whether the host has enabled the controller.
    pub fn is_enabled(&self) -> bool {
        self.0.is_enabled(ControllerId::PCIE)
    }

    /// Returns the number of MSI-X vectors that the carrier is to offer.
    pub fn vectors(&self) -> u16 {
        self.0.vectors()
    }

    /// As [`ControllerMut::read_register`].
    pub fn read_register(&mut self, offset: u64, into: &mut [u8]) {
        self.with(|controller| controller.read_register(offset, into));
    }

    /// As [`ControllerMut::write_register`].
    pub fn write_register(&mut self, memory: &dyn Memory, offset: u64, data: &[u8]) {
        self.with(|controller| controller.write_register(memory, offset, data));
    }

    /// As [`ControllerMut::reset_function`].
    pub fn reset_function(&mut self) {
        self.with(|controller| controller.reset_function());
    }

    /// As [`ControllerMut::poll_shadow`].
    pub fn poll_shadow(&mut self, memory: &dyn Memory) {
        self.with(|controller| controller.poll_shadow(memory));
    }

    /// As [`ControllerMut::pop_stale_doorbell`].
    pub fn pop_stale_doorbell(&mut self) -> Option<u64> {
        self.with(|controller| controller.pop_stale_doorbell())
    }

    /// As [`ControllerMut::has_shadow`].
    pub fn has_shadow(&self) -> bool {
        self.0.host(ControllerId::PCIE).is_some_and(|host| host.queues.has_shadow())
    }

    /// The pairs of queues that the guest has made.
    pub fn queue_pairs(&self) -> impl Iterator<Item = QueuePair> + '_ {
        self.0.queue_pairs(ControllerId::PCIE)
    }

    /// As [`ControllerMut::has_failed`].
    pub fn has_failed(&self) -> bool {
        self.0.host(ControllerId::PCIE).is_some_and(|host| host.has_failed())
    }

    /// As [`Subsystem::pop_request`].
    pub fn pop_request(&mut self) -> Option<Request> {
        self.0.pop_request()
    }

    /// As [`Subsystem::pop_refused`].
    pub fn pop_refused(&mut self) -> Option<Refused> {
        self.0.pop_refused()
    }

    /// As [`ControllerMut::pop_interrupt`].
    pub fn pop_interrupt(&mut self) -> Option<u16> {
        self.with(|controller| controller.pop_interrupt())
    }

    /// As [`Subsystem::set_time`].
    pub fn set_time(&mut self, now: Nanos) {
        self.0.set_time(now);
    }

    /// As [`Subsystem::next_deadline`].
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.0.next_deadline()
    }

    /// Completes the commands that have ended by themselves, by [`Controller::set_time`].
    pub fn end_work(&mut self, memory: &dyn Memory) {
        self.with(|controller| {
            if controller.io.slots.work.has_ended(controller.host.id) {
                controller.attend(memory);
            }
        });
    }

    /// Sets the drive's temperature (kelvin), and notifies the guest if it is beyond its threshold.
    pub fn set_temperature(&mut self, memory: &dyn Memory, kelvin: u16) {
        self.0.set_temperature(kelvin);
        self.with(|controller| controller.check_warnings(memory));
    }

    /// As [`Subsystem::statistics`].
    pub fn statistics(&self) -> &Statistics {
        self.0.statistics()
    }

    /// As [`Subsystem::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    /// Sets the drive's health, for the SMART log; warns the guest if it asked
    /// for that.
    pub fn set_health(&mut self, memory: &dyn Memory, health: Health) {
        if self.0.set_health(health) {
            self.with(|controller| {
                controller.check_warnings(memory);
                controller.report_changes(memory);
            });
        }
    }

    /// As [`Subsystem::set_parts_health`].
    pub fn set_parts_health(&mut self, memory: &dyn Memory, parts: &[Health]) {
        self.0.set_parts_health(parts);
        self.with(|controller| controller.report_changes(memory));
    }

    /// Attaches a namespace, or detaches it; a host that asked for it has an event.
    ///
    /// # Errors
    /// As of [`Subsystem::set_attached`].
    pub fn set_attached(
        &mut self,
        memory: &dyn Memory,
        nsid: u32,
        attached: bool,
    ) -> Result<(), u32> {
        self.0.set_attached(nsid, None, attached)?;
        self.with(|controller| controller.attend(memory));
        Ok(())
    }

    /// As [`Subsystem::resize`], and the host hears of it.
    pub fn resize(&mut self, memory: &dyn Memory, nsid: u32, bytes: Option<u64>) -> bool {
        let resized = self.0.resize(nsid, bytes);
        self.with(|controller| controller.attend(memory));
        resized
    }

    /// As [`Subsystem::complete`].
    pub fn complete(
        &mut self,
        memory: &dyn Memory,
        tag: Tag,
        ended: impl Into<Ended>,
        data: Vec<u8>,
    ) -> u16 {
        self.with(|controller| {
            let code = controller.complete(memory, tag, ended, data);
            controller.end_ended(memory);
            code
        })
    }

    /// As [`Subsystem::pop_vendor`].
    pub fn pop_vendor(&mut self) -> Option<VendorRequest> {
        self.0.pop_vendor()
    }

    /// As [`ControllerMut::complete_vendor`].
    pub fn complete_vendor(
        &mut self,
        memory: &dyn Memory,
        tag: u32,
        result: Result<u32, VendorError>,
        data: &[u8],
    ) {
        self.with(|controller| controller.complete_vendor(memory, tag, result, data));
    }
}
