//! Enabling, resetting and shutting down (NVMe 1.4 sections 3.1.5, 7.3.2 and
//! 7.6).

use stasis_block::clock::MILLISECOND;
use stasis_nvme_layout::IntoBytes;

use crate::command::{CQE_SIZE, SQE_SIZE};
use crate::event_log::{HardwareError, Occurrence};
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::registers::{self as reg, Registers};
use crate::slots::Owner;
use crate::smart::health_page;
use crate::statistics::POWER_CYCLES;
use crate::transport::Transport;
use crate::Memory;

use crate::context::ControllerMut;

/// The admin queues' identifier, and their interrupt vector.
const ADMIN: u16 = 0;

impl ControllerMut<'_> {
    /// CC was written (NVMe 1.4 sections 3.1.5, 7.3.2 and 7.6.2).
    pub(crate) fn configure(&mut self, memory: &dyn Memory, value: u32) {
        let before = self.host.registers.write_configuration(value);
        let now = self.host.registers.cc;
        if before & reg::CC_EN != 0 && now & reg::CC_EN == 0 {
            self.reset();
        }
        if before & reg::CC_EN == 0 && now & reg::CC_EN != 0 {
            self.enable(memory);
        }
        match (Registers::asks_for_shutdown(before), Registers::asks_for_shutdown(now)) {
            (false, true) => self.shut_down(),
            (true, false) => self.host.registers.csts &= !reg::CSTS_SHST,
            _ => {}
        }
    }

    /// The carrier's own reset, by which every register gets its first value:
    /// commands under way are dropped (NVMe 1.4 section 7.3.2).
    pub fn reset_function(&mut self) {
        self.reset();
        self.host.registers.reset();
    }

    /// A reset of the bus, or of the link: of the function, and of what outlasts that.
    pub fn reset_bus(&mut self) {
        self.reset_function();
        self.host.registers.memory_buffer.reset();
    }

    fn enable(&mut self, memory: &dyn Memory) {
        let (sq_size, cq_size) = self.host.registers.admin_queue_sizes();
        let (asq, acq) = (self.host.registers.asq, self.host.registers.acq);
        self.host.registers.csts = 0;
        // Section 3.1.8: a queue has at least 2 entries. Memory is probed now
        // rather than at the first command.
        let supported = self.host.registers.configuration_is_supported(&self.io.config);
        if supported && self.host.transport.has_capsules() {
            // Connect has made the admin queues.
            self.host.registers.csts |= reg::CSTS_RDY;
            self.note_enabled();
            return;
        }
        let usable = supported
            && sq_size >= 2
            && cq_size >= 2
            && memory.contains(asq, usize::from(sq_size) * SQE_SIZE)
            && memory.contains(acq, usize::from(cq_size) * CQE_SIZE);
        if !usable {
            self.host.registers.csts |= reg::CSTS_CFS;
            return;
        }
        self.host.queues.create_completion(ADMIN, CompletionQueue::new(acq, cq_size, Some(ADMIN)));
        self.host.queues.create_submission(ADMIN, SubmissionQueue::new(asq, sq_size, ADMIN));
        self.host.registers.csts |= reg::CSTS_RDY;
        self.note_enabled();
    }

    /// Logs that the controller was enabled; after a power-on also the counters as they are.
    fn note_enabled(&mut self) {
        const FORMATS: u8 = 1;
        const SANITIZES: u8 = 1 << 1;
        self.host.enabled_at = self.host.now;
        if self.io.reports.event_log.wants_counters() {
            let log = health_page(self.io, self.host);
            self.io.log_event(self.host.id, &Occurrence::Smart(log.as_bytes()));
        }
        let is = |is: bool, bit: u8| if is { bit } else { 0 };
        let under_way = is(self.formatting.is_under_way(), FORMATS)
            | is(self.io.background.sanitize.is_under_way(), SANITIZES);
        let event = Occurrence::PowerOnOrReset {
            firmware: self.io.background.firmware.active(),
            activated: self.io.background.firmware.was_activated(),
            under_way,
            power_cycles: POWER_CYCLES,
            powered_on: self.io.reports.statistics.powered_on / MILLISECOND,
        };
        self.io.log_event(self.host.id, &event);
    }

    /// Drops everything but the admin queue registers (section 7.3.2).
    fn reset(&mut self) {
        let id = self.host.id;
        if self.host.has_failed() {
            let error = HardwareError::ControllerFatal;
            self.io.log_event(id, &Occurrence::Hardware(error));
        }
        self.host.reset();
        self.io.reset(id, self.alone);
        if self.host.transport == Transport::SharedPcie {
            self.io.forget_host(id);
        }
        self.formatting.reset(self.io, id);
        self.vendor.reset(id);
    }

    /// Begins the shutdown: it is complete when the drive's cache is durable.
    fn shut_down(&mut self) {
        self.host.registers.csts =
            self.host.registers.csts & !reg::CSTS_SHST | reg::CSTS_SHST_OCCURRING;
        let cached =
            self.io.config.volatile_write_cache && self.host.registers.csts & reg::CSTS_RDY != 0;
        // A host that asks again and again still makes one flush of each.
        if cached && !self.io.commands.slots.shutdown_waits(self.host.id) {
            let nsids: Vec<u32> = self.io.namespaces.nsids_on_drive().collect();
            for nsid in nsids {
                if self.io.commands.slots.requests.has_room(1) {
                    self.io.request_flush(0, nsid, Owner::Shutdown(self.host.id));
                }
            }
        }
        self.end_shutdown();
    }

    pub(super) fn end_shutdown(&mut self) {
        let occurring = self.host.registers.csts & reg::CSTS_SHST == reg::CSTS_SHST_OCCURRING;
        if occurring && !self.io.commands.slots.shutdown_waits(self.host.id) {
            self.host.registers.csts =
                self.host.registers.csts & !reg::CSTS_SHST | reg::CSTS_SHST_COMPLETE;
        }
    }
}
