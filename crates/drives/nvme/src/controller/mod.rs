//! The controller: its parts, its registers, and the way of a command through
//! it from a doorbell to a completion.

mod completions;
mod dispatch;
mod doorbells;
mod lifecycle;

pub use completions::Ended;

use stasis_block::clock::Nanos;
use stasis_block::{Health, Refused, Request, VendorError};

use crate::condition::{CRITICAL_TEMPERATURE, WARNING_TEMPERATURE};
use crate::config::{Config, ConfigError};
use crate::formatting::Formatting;
use crate::host::Host;
use crate::io::Io;
use crate::kept::{KeptState, StateError};
use crate::ocssd::Notifications;
use crate::placement::{kept_fdp, PlacementState};
use crate::registers as reg;
use crate::statistics::Statistics;
use crate::vendor::{Vendor, VendorRequest};
use crate::Memory;

/// An NVMe controller.
#[derive(Debug)]
pub struct Controller {
    /// The drive's side.
    io: Io,
    /// The host's side.
    host: Host,
    formatting: Formatting,
    vendor: Vendor,
    chunk_notifications: Notifications,
}

impl Controller {
    /// A controller that is not enabled yet.
    ///
    /// # Errors
    /// Returns the invalid field and its allowed values.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            host: Host::new(&config),
            io: Io::new(config),
            formatting: Formatting::default(),
            vendor: Vendor::default(),
            chunk_notifications: Notifications::default(),
        })
    }

    /// A controller whose power was off since `state` was kept of it.
    ///
    /// # Errors
    /// As of [`Controller::new`]; or the state is of another drive, or damaged.
    pub fn with_state(config: Config, state: &KeptState) -> Result<Self, StateError> {
        let mut controller = Self::new(config)?;
        let io = &mut controller.io;
        state.check(&io.config)?;
        let damaged = |nsid, reason| StateError::Damaged { nsid, reason };
        for (nsid, kept) in (1..).zip(&state.namespaces) {
            let restored = io.namespaces.restore(nsid, kept);
            restored.map_err(|reason| damaged(nsid as usize, reason))?;
        }
        if let (PlacementState::Fdp(fdp), Some(kept)) = (&mut io.placement, &state.fdp) {
            if state.placement == io.config.placement {
                fdp.restore(kept).map_err(|reason| damaged(1, reason))?;
            }
        }
        Ok(controller)
    }

    /// The state that survives if the power fails now: for [`Controller::with_state`].
    /// Zones are as they are now; a write in flight has moved its zone's pointer.
    pub fn kept_state(&self) -> KeptState {
        let config = &self.io.config;
        KeptState {
            namespaces: self.io.namespaces.kept(&config.namespaces),
            fdp: kept_fdp(&self.io),
            ..KeptState::as_made(config)
        }
    }

    /// Size of the registers and doorbells in bytes, for their base address
    /// register. The MSI-X table is the carrier's.
    pub fn bar_size() -> u64 {
        reg::BAR_SIZE
    }

    /// Whether the register at `offset` is a doorbell.
    pub fn is_doorbell(offset: u64) -> bool {
        offset >= reg::DOORBELLS
    }

    /// Whether a write to the register at `offset` announces admin commands, before which the
    /// carrier is to call [`Controller::set_health`].
    pub fn is_admin_doorbell(offset: u64) -> bool {
        offset == reg::DOORBELLS
    }

    /// How many MSI-X vectors the carrier is to offer.
    pub fn vectors(&self) -> u16 {
        self.io.config.vectors()
    }

    /// Reads the register at `offset`: aligned, 4 or 8 bytes. Anything else
    /// reads zero.
    pub fn read_register(&mut self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        if !matches!(into.len(), 4 | 8) || !offset.is_multiple_of(4) {
            return;
        }
        for (index, part) in into.chunks_exact_mut(4).enumerate() {
            let at = offset.saturating_add(4 * index as u64);
            part.copy_from_slice(&self.host.registers.read(at, &self.io.config).to_le_bytes());
        }
    }

    /// Writes the register at `offset`: aligned, 4 or 8 bytes (a doorbell only
    /// 4). Anything else is ignored. Admin commands are executed at once, I/O
    /// commands become requests.
    pub fn write_register(&mut self, memory: &dyn Memory, offset: u64, data: &[u8]) {
        if !matches!(data.len(), 4 | 8) || !offset.is_multiple_of(4) {
            return;
        }
        for (index, part) in data.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([part[0], part[1], part[2], part[3]]);
            let at = offset.saturating_add(4 * index as u64);
            match doorbells::doorbell(at) {
                Some(_) if data.len() != 4 => {}
                Some(doorbell) => self.ring(memory, doorbell, value),
                None if at == reg::CC => self.configure(memory, value),
                None => self.host.registers.write_admin_queue(at, value),
            }
        }
    }

    /// Looks at the shadow doorbells of all I/O queues, and fetches the commands that they
    /// announce.
    pub fn poll_shadow(&mut self, memory: &dyn Memory) {
        if !self.host.is_running() || !self.host.queues.has_shadow() {
            return;
        }
        let moved = self.host.queues.moved(memory);
        let Some(mut moved) = self.host.or_fatal(moved) else { return };
        while moved != 0 {
            let queue = moved.trailing_zeros() as u16;
            moved &= moved - 1;
            self.fetch_by_shadow(memory, queue);
        }
        self.resume_if_waiting(memory);
    }

    /// The next I/O request for the drive, on bytes of the drive, where a namespace begins at
    /// [`crate::Namespace::start`]. Its queue is the submission queue it came by; 0 if the
    /// controller made it itself, to flush the drive at a shutdown.
    pub fn pop_request(&mut self) -> Option<Request> {
        self.io.outgoing.next_request()
    }

    /// The next I/O command that has ended without a request for the drive, with an error.
    /// At most [`crate::MAX_REFUSED`] are kept.
    pub fn pop_refused(&mut self) -> Option<Refused> {
        self.io.outgoing.next_refused()
    }

    /// The next MSI-X vector to signal.
    pub fn pop_interrupt(&mut self) -> Option<u16> {
        self.host.interrupts.pop()
    }

    /// Sets the virtual time (ns), which a guest sees in Timestamp,
    /// power-on hours, interrupt coalescing.
    pub fn set_time(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.host.now);
        self.host.now = self.host.now.max(now);
        self.io.now = self.host.now;
        self.host.statistics.powered_on += passed;
        if !self.io.slots.requests.is_empty() {
            self.host.statistics.busy += passed;
        }
        match self.io.condition.temperature() {
            CRITICAL_TEMPERATURE.. => self.host.statistics.too_hot += passed,
            WARNING_TEMPERATURE.. => self.host.statistics.too_warm += passed,
            _ => {}
        }
        self.host.interrupts.release(now);
    }

    /// When [`Controller::set_time`] is to be called at the latest, and the
    /// interrupts to be looked at; `None` unless interrupts are held back.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.host.interrupts.next_deadline()
    }

    /// Sets the drive's temperature (kelvin), and notifies the guest if it is beyond its threshold.
    pub fn set_temperature(&mut self, memory: &dyn Memory, kelvin: u16) {
        self.io.condition.set_temperature(kelvin);
        self.admin().check_warnings(memory);
    }

    /// Counts since the controller was made.
    pub fn statistics(&self) -> &Statistics {
        &self.host.statistics
    }

    /// Requests that the drive holds, those not popped yet included.
    pub fn in_flight(&self) -> usize {
        self.io.slots.requests.len()
    }

    /// Whether the driver has configured shadow doorbells, so that
    /// [`Controller::poll_shadow`] does something.
    pub fn has_shadow(&self) -> bool {
        self.host.queues.has_shadow()
    }

    /// Whether the controller has failed (`CSTS.CFS`): only a reset helps.
    pub fn has_failed(&self) -> bool {
        self.host.has_failed()
    }

    /// Sets the drive's health, for the SMART log; warns the guest if it asked
    /// for that.
    pub fn set_health(&mut self, memory: &dyn Memory, health: Health) {
        if self.io.condition.set_health(health) {
            self.admin().check_warnings(memory);
        }
    }

    /// Sets the drive's health, when there is no longer a guest to warn.
    pub fn note_health(&mut self, health: Health) {
        self.io.condition.set_health(health);
    }

    /// The next vendor specific command for the drive.
    pub fn pop_vendor(&mut self) -> Option<VendorRequest> {
        self.vendor.pop()
    }

    /// The drive has carried out the vendor specific command `tag`, or refused
    /// it: gives `data` to the guest if that is its direction, and posts the
    /// completion with Dword 0. A tag that does not wait is ignored.
    pub fn complete_vendor(
        &mut self,
        memory: &dyn Memory,
        tag: u32,
        result: Result<u32, VendorError>,
        data: &[u8],
    ) {
        match self.vendor.complete(memory, tag, result, data) {
            None => {}
            Some((id, Ok(result))) => self.host.post(memory, id, 0, result.into()),
            Some((id, Err(failure))) => self.host.post_failure(memory, id, failure, 0, 0),
        }
    }
}
