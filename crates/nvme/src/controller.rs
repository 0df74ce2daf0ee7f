//! The controller: its state, its registers, and the way of a command through
//! it from a doorbell to a completion.

use stasis_block::{Command, Operation, Refused, Status, Tag};
use stasis_clock::Nanos;

use crate::admin::{ErrorLog, Events, Features, Formatting};
use crate::buffers::Buffers;
use crate::condition::Condition;
use crate::config::{Config, ConfigError};
use crate::interrupts::Interrupts;
use crate::namespaces::Namespaces;
use crate::ocssd::Notifications;
use crate::outgoing::Outgoing;
use crate::placement::PlacementState;
use crate::queues::Queues;
use crate::registers::{self as reg, Registers};
use crate::slots::{Purpose, Slots};
use crate::statistics::Statistics;
use crate::vendor::Vendor;
use crate::{Memory, OutOfMemoryRange};

/// A block request that the controller hands to the drive below.
#[derive(Debug)]
pub struct Request {
    /// Its name, for [`Controller::complete`].
    pub tag: Tag,
    /// Namespace, from 1.
    pub namespace: u32,
    /// The I/O submission queue it came by; 0 if the controller made it itself,
    /// to flush the drive at a shutdown.
    pub queue: u16,
    /// What is asked. Offset and source are places on the drive, where the
    /// namespace begins at [`crate::Namespace::start`].
    pub command: Command,
    /// A write's data, or as many zeroes as a read has bytes; empty for all
    /// else. It comes back with [`Controller::complete`], to be used again.
    pub data: Vec<u8>,
}

/// An NVMe controller.
#[derive(Debug)]
pub struct Controller {
    pub(crate) config: Config,
    pub(crate) namespaces: Namespaces,
    pub(crate) formatting: Option<Formatting>,
    pub(crate) vendor: Vendor,
    pub(crate) placement: PlacementState,
    pub(crate) condition: Condition,
    pub(crate) registers: Registers,
    pub(crate) queues: Queues,
    pub(crate) slots: Slots,
    pub(crate) outgoing: Outgoing,
    pub(crate) buffers: Buffers,
    pub(crate) interrupts: Interrupts,
    pub(crate) features: Features,
    pub(crate) events: Events,
    pub(crate) errors: ErrorLog,
    pub(crate) chunk_notifications: Notifications,
    pub(crate) statistics: Statistics,
    /// Virtual time as last told (ns).
    pub(crate) now: Nanos,
    pub(crate) shut_down: bool,
}

/// Refused commands that are kept for [`Controller::pop_refused`]; more are forgotten.
pub const MOST_REFUSED: usize = 1 << 16;

impl Controller {
    /// A controller that is not enabled yet.
    ///
    /// # Errors
    /// Says which field of `config` cannot be, and what it can.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            namespaces: Namespaces::new(&config),
            formatting: None,
            vendor: Vendor::default(),
            placement: PlacementState::new(&config),
            condition: Condition::default(),
            registers: Registers::default(),
            queues: Queues::new(config.queue_pairs),
            slots: Slots::default(),
            outgoing: Outgoing::default(),
            buffers: Buffers::default(),
            interrupts: Interrupts::new(config.vectors(), config.interrupt_coalescing),
            features: Features::new(&config),
            events: Events::default(),
            errors: ErrorLog::default(),
            chunk_notifications: Notifications::default(),
            statistics: Statistics::default(),
            now: 0,
            shut_down: true,
            config,
        })
    }

    /// Size of the registers and doorbells in bytes, for their base address
    /// register. The MSI-X table is the carrier's.
    pub fn bar_size() -> u64 {
        reg::BAR_SIZE
    }

    /// Whether a write to the register at `offset` tells of admin commands,
    /// before which the carrier is to call [`Controller::set_health`].
    pub fn is_admin_doorbell(offset: u64) -> bool {
        offset == reg::DOORBELLS
    }

    /// How many MSI-X vectors the carrier is to offer.
    pub fn vectors(&self) -> u16 {
        self.config.vectors()
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
            part.copy_from_slice(&self.registers.read(at, &self.config).to_le_bytes());
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
            match reg::doorbell(at) {
                Some(_) if data.len() != 4 => {}
                Some(doorbell) => self.ring(memory, doorbell, value),
                None if at == reg::CC => self.configure(memory, value),
                None => self.registers.write_admin_queue(at, value),
            }
        }
    }

    /// Looks at the shadow doorbells of all I/O queues, and fetches what they
    /// tell of.
    pub fn poll_shadow(&mut self, memory: &dyn Memory) {
        if !self.is_running() || !self.queues.has_shadow() {
            return;
        }
        let moved = self.queues.moved(memory);
        let Some(mut moved) = self.or_fatal(moved) else { return };
        while moved != 0 {
            let queue = moved.trailing_zeros() as u16;
            moved &= moved - 1;
            self.fetch_by_shadow(memory, queue);
        }
        self.resume_if_waiting(memory);
    }

    /// The next I/O request for the drive.
    pub fn pop_request(&mut self) -> Option<Request> {
        let mut request = self.outgoing.next_request()?;
        // Inside the controller all offsets are the namespace's.
        let start = self.config.namespace(request.namespace).map_or(0, |of| of.start);
        let command = &mut request.command;
        if command.operation != Operation::Flush {
            command.offset += start;
        }
        if command.operation == Operation::Copy {
            command.source += start;
        }
        Some(request)
    }

    /// The next I/O command that has ended without a request for the drive, with an error.
    /// At most [`MOST_REFUSED`] are kept.
    pub fn pop_refused(&mut self) -> Option<Refused> {
        self.outgoing.next_refused()
    }

    /// The drive has done the request `tag`: gives a read's data to the guest
    /// and posts the completion. A tag that is not in flight is ignored. Returns the
    /// request's status: code type in bits 10:8, code in bits 7:0, 0 where it ended well.
    pub fn complete(
        &mut self,
        memory: &dyn Memory,
        tag: Tag,
        status: Status,
        mut data: Vec<u8>,
    ) -> u16 {
        let mut ended = 0;
        if let Some(slot) = self.slots.requests.remove(tag) {
            if slot.purpose != Purpose::Format {
                self.leave_zones(memory, &slot, status, &mut data);
                self.leave_chunks(memory, &slot, status, &mut data);
            }
            ended = self.finish(memory, slot, status, &data);
        }
        self.buffers.give(data);
        self.go_on_formatting(memory);
        self.resume_if_waiting(memory);
        ended
    }

    /// The next MSI-X vector to signal.
    pub fn pop_interrupt(&mut self) -> Option<u16> {
        self.interrupts.pop()
    }

    /// Tells the virtual time (ns), for what a guest sees of it: Timestamp,
    /// power-on hours, interrupt coalescing.
    pub fn set_time(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        self.statistics.powered_on += passed;
        if !self.slots.requests.is_empty() {
            self.statistics.busy += passed;
        }
        if self.condition.temperature() >= crate::admin::WARNING_TEMPERATURE {
            self.statistics.too_warm += passed;
        }
        self.interrupts.release(now);
    }

    /// When [`Controller::set_time`] is to be called at the latest, and the
    /// interrupts to be looked at; `None` unless interrupts are held back.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.interrupts.next_deadline()
    }

    /// Sets the drive's temperature (kelvin), and tells the guest if that is
    /// beyond its threshold.
    pub fn set_temperature(&mut self, memory: &dyn Memory, kelvin: u16) {
        self.condition.set_temperature(kelvin);
        self.check_warnings(memory);
    }

    /// What has been done so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Requests that the drive holds, those not popped yet included.
    pub fn in_flight(&self) -> usize {
        self.slots.requests.len()
    }

    /// Whether the driver has configured shadow doorbells, so that
    /// [`Controller::poll_shadow`] does something.
    pub fn has_shadow(&self) -> bool {
        self.queues.has_shadow()
    }

    /// Whether the controller has failed (`CSTS.CFS`): only a reset helps.
    pub fn has_failed(&self) -> bool {
        self.registers.csts & reg::CSTS_CFS != 0
    }

    /// Whether commands are executed.
    pub(crate) fn is_running(&self) -> bool {
        self.registers.csts & (reg::CSTS_RDY | reg::CSTS_CFS | reg::CSTS_SHST) == reg::CSTS_RDY
    }

    /// An access to a queue or a shadow doorbell outside guest memory leaves
    /// nowhere to report it but `CSTS.CFS`.
    pub(crate) fn or_fatal<T>(&mut self, result: Result<T, OutOfMemoryRange>) -> Option<T> {
        if result.is_err() {
            self.registers.csts |= reg::CSTS_CFS;
        }
        result.ok()
    }
}
