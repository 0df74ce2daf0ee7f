//! The device: its state, and what its driver has set.

use std::collections::VecDeque;

use stasis_block::memory::Pool;
use stasis_block::{Refused, Request};

use crate::block::config::{Config, ConfigError};
use crate::block::features::{self, feature};
use crate::block::slots::{Owner, Slots};
use crate::block::space;
use crate::chain::Chain;
use crate::ring::{Fault, Ring};
use crate::virtio_device::{read_space, Interrupt, Interrupts};

/// Refused requests that are kept for [`Device::pop_refused`]; more are forgotten.
pub const MAX_REFUSED: usize = 1 << 16;

/// Counts since the device was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests taken from the queues.
    pub requests: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Notifications by the driver.
    pub notifications: u64,
    /// Interrupts of queues.
    pub interrupts: u64,
    /// Faults of the driver.
    pub faults: u64,
}

/// A virtio block device, apart from its transport.
///
/// Queues are independent: several devices of one configuration can share the
/// queues of one guest's device, each with those that its thread serves.
#[derive(Debug)]
pub struct Device {
    pub(crate) config: Config,
    /// Features that the driver has accepted.
    pub(crate) features: u64,
    /// The driver's switch of the write cache.
    pub(crate) writeback: bool,
    pub(crate) rings: Vec<Option<Ring>>,
    pub(crate) fault: Option<Fault>,
    /// True if requests wait for room.
    pub(crate) waiting: bool,
    pub(crate) slots: Slots,
    pub(crate) outbox: VecDeque<Request>,
    pub(crate) refused: VecDeque<Refused>,
    pub(crate) pool: Pool,
    pub(crate) chain: Chain,
    pub(crate) interrupts: Interrupts,
    pub(crate) statistics: Statistics,
}

impl Device {
    /// A device without a driver yet.
    ///
    /// # Errors
    /// Returns the invalid field of `config` and its allowed values.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            features: 0,
            writeback: true,
            rings: (0..config.queues).map(|_| None).collect(),
            fault: None,
            waiting: false,
            slots: Slots::default(),
            outbox: VecDeque::new(),
            refused: VecDeque::new(),
            pool: Pool::default(),
            chain: Chain::default(),
            interrupts: Interrupts::default(),
            statistics: Statistics::default(),
            config,
        })
    }

    /// Returns the device's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The features it offers, one bit each.
    pub fn features(&self) -> u64 {
        features::offered(&self.config)
    }

    /// Accepts `features` for the driver. Returns whether they are valid.
    pub fn accept(&mut self, features: u64) -> bool {
        let good = features & !self.features() == 0 && features & 1 << feature::VERSION_1 != 0;
        if good {
            self.features = features;
        }
        good
    }

    pub(crate) fn has(&self, bit: u32) -> bool {
        self.features & 1 << bit != 0
    }

    /// The driver reads its configuration space. Beyond its end it is 0.
    pub fn read_config(&self, offset: u64, into: &mut [u8]) {
        read_space(&space::contents(&self.config, self.writeback), offset, into);
    }

    /// The driver writes its configuration space: only the switch of the write
    /// cache takes a value.
    pub fn write_config(&mut self, offset: u64, data: &[u8]) {
        if let (space::WRITEBACK, &[value], true) = (offset, data, self.has(feature::CONFIG_WCE)) {
            self.writeback = value != 0;
        }
    }

    /// Sets the device's size to `capacity` bytes, a multiple of the block size, and notifies the
    /// driver of the change.
    ///
    /// # Errors
    /// The disk cannot be so large.
    pub fn resize(&mut self, capacity: u64) -> Result<(), ConfigError> {
        let config = Config { capacity, ..self.config.clone() };
        config.check()?;
        self.config = config;
        self.interrupts.of_change();
        Ok(())
    }

    /// Takes nothing more from a queue; requests that were taken are still completed.
    pub fn pause_queue(&mut self, queue: u16) {
        if let Some(Some(ring)) = self.rings.get_mut(usize::from(queue)) {
            ring.paused = true;
        }
    }

    /// Requests taken from a queue and not given back.
    pub fn queue_in_flight(&self, queue: u16) -> u16 {
        match self.rings.get(usize::from(queue)) {
            Some(Some(ring)) => ring.in_flight(),
            _ => 0,
        }
    }

    /// Ends the service of a queue, and forgets its requests at the drive; returns the number of
    /// requests it has gone through, modulo 2^16.
    pub fn stop_queue(&mut self, queue: u16) -> Option<u16> {
        let ring = self.rings.get_mut(usize::from(queue))?.take()?;
        self.slots.abandon(Some(queue));
        self.interrupts.not_of_queue(queue);
        Some(ring.next_available)
    }

    /// Forgets the driver, and the notifications still due to it.
    pub fn reset(&mut self) {
        self.slots.abandon(None);
        self.drop_unsent_requests();
        self.rings.fill_with(|| None);
        self.features = 0;
        self.writeback = true;
        self.fault = None;
        self.waiting = false;
        self.interrupts = Interrupts::default();
    }

    /// The requests that the drive has not got yet need not reach it.
    fn drop_unsent_requests(&mut self) {
        while let Some(request) = self.outbox.pop_front() {
            if let Some(slot) = self.slots.requests.remove(request.tag) {
                self.pool.give_segments(slot.segments);
                if let Owner::Part(group) = slot.owner {
                    self.slots.part_done(group, true);
                }
            }
            self.pool.give(request.data);
        }
    }

    /// The next I/O request for the drive, on bytes of the device; its queue is numbered from 0.
    pub fn pop_request(&mut self) -> Option<Request> {
        self.outbox.pop_front()
    }

    /// The next request that has ended without the drive, with an error. At most
    /// [`MAX_REFUSED`] are kept.
    pub fn pop_refused(&mut self) -> Option<Refused> {
        self.refused.pop_front()
    }

    /// The next interrupt to send.
    pub fn pop_interrupt(&mut self) -> Option<Interrupt> {
        self.interrupts.pop()
    }

    /// Handles an action of the driver that cannot be answered: reports to it that the device needs
    /// a reset (virtio 1.2 section 2.1.2).
    pub(crate) fn fail(&mut self, fault: Fault) {
        if self.fault.is_none() {
            self.fault = Some(fault);
            self.interrupts.of_change();
            self.statistics.faults += 1;
            self.slots.abandon(None);
            self.drop_unsent_requests();
        }
    }

    /// Reason why the device needs a reset, if it does.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Requests that the drive holds, those not popped yet included.
    pub fn in_flight(&self) -> usize {
        self.slots.requests.len()
    }

    /// Counters of the device so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
