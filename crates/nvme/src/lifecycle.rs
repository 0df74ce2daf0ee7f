//! Enabling, resetting and shutting down (NVMe 1.4 sections 3.1.5, 7.3.2 and
//! 7.6).

use crate::admin::{Events, Features};
use crate::command::{CQE_SIZE, SQE_SIZE};
use crate::controller::Controller;
use crate::queue::{CompletionQueue, SubmissionQueue};
use crate::registers::{self as reg, Registers};
use crate::slots::Owner;
use crate::Memory;

/// The admin queues' identifier, and their interrupt vector.
const ADMIN: u16 = 0;

impl Controller {
    /// CC was written (NVMe 1.4 sections 3.1.5, 7.3.2 and 7.6.2).
    pub(crate) fn configure(&mut self, memory: &dyn Memory, value: u32) {
        let before = self.registers.write_configuration(value);
        let now = self.registers.cc;
        if before & reg::CC_EN != 0 && now & reg::CC_EN == 0 {
            self.reset();
        }
        if before & reg::CC_EN == 0 && now & reg::CC_EN != 0 {
            self.enable(memory);
        }
        match (Registers::asks_for_shutdown(before), Registers::asks_for_shutdown(now)) {
            (false, true) => self.shut_down(),
            (true, false) => self.registers.csts &= !reg::CSTS_SHST,
            _ => {}
        }
    }

    /// The carrier's own reset, by which every register gets its first value:
    /// what is under way is forgotten (NVMe 1.4 section 7.3.2).
    pub fn reset_function(&mut self) {
        self.reset();
        self.registers = Registers::default();
    }

    fn enable(&mut self, memory: &dyn Memory) {
        let (sq_size, cq_size) = self.registers.admin_queue_sizes();
        let (asq, acq) = (self.registers.asq, self.registers.acq);
        self.registers.csts = 0;
        // Section 3.1.8: a queue has at least 2 entries. Memory is probed now
        // rather than at the first command.
        let usable = self.registers.configuration_is_supported(&self.config)
            && sq_size >= 2
            && cq_size >= 2
            && memory.contains(asq, usize::from(sq_size) * SQE_SIZE)
            && memory.contains(acq, usize::from(cq_size) * CQE_SIZE);
        if !usable {
            self.registers.csts |= reg::CSTS_CFS;
            return;
        }
        self.queues.create_completion(ADMIN, CompletionQueue::new(acq, cq_size, Some(ADMIN)));
        self.queues.create_submission(ADMIN, SubmissionQueue::new(asq, sq_size, ADMIN));
        self.registers.csts |= reg::CSTS_RDY;
        self.statistics.power_cycles += u64::from(self.shut_down);
        self.shut_down = false;
    }

    /// Drops everything but the admin queue registers (section 7.3.2).
    fn reset(&mut self) {
        if !self.shut_down && self.registers.csts & reg::CSTS_RDY != 0 {
            self.statistics.unsafe_shutdowns += 1;
        }
        self.registers.csts = 0;
        self.queues.reset();
        self.slots.abandon_all();
        // What it has erased is gone; the blocks stay as they were.
        self.formatting = None;
        self.vendor.reset();
        self.placement.reset();
        self.drop_unsent_requests();
        self.interrupts.reset();
        self.features = Features::new(&self.config);
        self.events = Events::default();
    }

    /// The requests that the drive has not got yet need not reach it.
    fn drop_unsent_requests(&mut self) {
        while let Some(request) = self.outgoing.next_request() {
            if let Some(slot) = self.slots.requests.remove(request.tag) {
                self.buffers.give_segments(slot.segments);
            }
            self.buffers.give(request.data);
        }
    }

    /// Begins the shutdown: it is complete when the drive's cache is durable.
    fn shut_down(&mut self) {
        self.registers.csts = self.registers.csts & !reg::CSTS_SHST | reg::CSTS_SHST_OCCURRING;
        self.shut_down = true;
        let cached = self.config.volatile_write_cache && self.registers.csts & reg::CSTS_RDY != 0;
        // A host that asks again and again still makes one flush of each.
        if cached && !self.slots.shutdown_waits() {
            for nsid in 1..=self.config.namespaces.len() as u32 {
                if self.slots.requests.has_room(1) {
                    self.request_flush(0, nsid, Owner::Shutdown);
                }
            }
        }
        self.end_shutdown();
    }

    pub(crate) fn end_shutdown(&mut self) {
        let occurring = self.registers.csts & reg::CSTS_SHST == reg::CSTS_SHST_OCCURRING;
        if occurring && !self.slots.shutdown_waits() {
            self.registers.csts = self.registers.csts & !reg::CSTS_SHST | reg::CSTS_SHST_COMPLETE;
        }
    }
}
