//! The device: its queues, and the way of a request through it from a
//! notification to the drive.

use std::collections::VecDeque;

use stasis_block::memory::Pool;
use stasis_block::{Doorbells, Refused, Request, Status, Tag};

use crate::block::config::{Config, ConfigError};
use crate::block::features::{self, feature};
use crate::block::slots::{Owner, Slots};
use crate::block::space;
use crate::chain::Chain;
use crate::ring::{Fault, QueueSetup, Ring, Track};
use crate::virtio_device::{read_space, Interrupt, Interrupts, VirtioDevice};
use crate::Memory;

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

    /// Begins to serve a queue.
    ///
    /// # Errors
    /// If the queue cannot be; the device needs a reset then, as it does after
    /// any other [`Fault`].
    pub fn start_queue(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        setup: &QueueSetup,
    ) -> Result<(), Fault> {
        let (events, notify) = (self.has(feature::EVENT_IDX), self.config.notify);
        let Some(place) = self.rings.get_mut(usize::from(queue)) else { return Ok(()) };
        match Ring::new(memory, setup, self.config.queue_size, events, notify) {
            Ok(ring) => {
                *place = Some(ring);
                Ok(())
            }
            Err(fault) => {
                self.fail(fault);
                Err(fault)
            }
        }
    }

    /// Begins to serve a queue that another served before: `heads` are the requests that it took
    /// and did not give back, in order, and [`QueueSetup::next`] is the used ring's index. They are
    /// carried out anew; `track` notes the requests under way from now on.
    ///
    /// # Errors
    /// As [`Device::start_queue`], and if one of `heads` is no request.
    pub fn resume_queue(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        setup: &QueueSetup,
        heads: &[u16],
        track: Option<Box<dyn Track>>,
    ) -> Result<(), Fault> {
        self.start_queue(memory, queue, setup)?;
        let result = self.carry_on(memory, queue, heads, track);
        if let Err(fault) = result {
            self.fail(fault);
        }
        result
    }

    fn carry_on(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        heads: &[u16],
        track: Option<Box<dyn Track>>,
    ) -> Result<(), Fault> {
        let Some(Some(ring)) = self.rings.get_mut(usize::from(queue)) else { return Ok(()) };
        let count = u16::try_from(heads.len()).unwrap_or(u16::MAX);
        ring.resume(count, track)?;
        for &head in heads {
            self.statistics.requests += 1;
            self.execute(memory, queue, head)?;
        }
        Ok(())
    }

    /// Sets the way in which the driver announces requests from now on, in every queue. Requests
    /// made available before the driver could see the change are not announced: the caller then
    /// calls [`Device::poll`].
    pub fn set_notify(&mut self, memory: &dyn Memory, notify: Doorbells) {
        self.config.notify = notify;
        let rings = self.rings.iter_mut().flatten();
        let result = rings.map(|ring| ring.set_notify(memory, notify)).find(Result::is_err);
        if let Some(Err(fault)) = result {
            self.fail(fault.into());
        }
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

    /// The driver notifies: takes the waiting requests of `queue`.
    pub fn notify(&mut self, memory: &dyn Memory, queue: u16) {
        self.statistics.notifications += 1;
        self.fetch(memory, queue);
    }

    /// Looks for requests in every queue.
    pub fn poll(&mut self, memory: &dyn Memory) {
        self.waiting = false;
        for queue in 0..self.rings.len() as u16 {
            self.fetch(memory, queue);
        }
    }

    /// Returns whether requests wait that nothing will notify of: where none is in flight whose
    /// completion would take them, [`Device::poll`] is to.
    pub fn is_behind(&self) -> bool {
        self.waiting
    }

    fn fetch(&mut self, memory: &dyn Memory, queue: u16) {
        if let Err(fault) = self.try_fetch(memory, queue) {
            self.fail(fault);
        }
    }

    fn try_fetch(&mut self, memory: &dyn Memory, queue: u16) -> Result<(), Fault> {
        // A guest that runs meanwhile may submit requests without end that complete at once.
        let mut budget = 2 * u32::from(self.config.queue_size);
        let mut taken = false;
        loop {
            let Some(Some(ring)) = self.rings.get(usize::from(queue)) else { return Ok(()) };
            if self.fault.is_some() || ring.paused {
                return Ok(());
            }
            let mut waiting = ring.waiting(memory)?;
            if waiting == 0 {
                if self.config.notify == Doorbells::Lazy && !taken {
                    return Ok(());
                }
                ring.arm(memory)?;
                // Requests made available before the driver saw the change are not notified.
                waiting = ring.waiting(memory)?;
                if waiting == 0 || self.config.notify == Doorbells::Lazy {
                    return Ok(());
                }
            }
            for _ in 0..waiting {
                if budget == 0 || !self.has_room() {
                    self.waiting = true;
                    return Ok(());
                }
                budget -= 1;
                taken = true;
                let Some(Some(ring)) = self.rings.get_mut(usize::from(queue)) else {
                    return Ok(());
                };
                let head = ring.take(memory)?;
                self.statistics.requests += 1;
                self.execute(memory, queue, head)?;
            }
        }
    }

    /// Returns whether the largest request of all would find room.
    fn has_room(&self) -> bool {
        let bytes = self.slots.requests.bytes() + self.config.max_transfer();
        self.slots.requests.has_room(space::MAX_RANGES) && bytes <= self.config.max_in_flight_bytes
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

    /// The drive has done the request `tag`: gives a read's data to the guest
    /// and the chain back. A tag that is not in flight is ignored.
    pub fn complete(&mut self, memory: &dyn Memory, tag: Tag, status: Status, data: Vec<u8>) {
        if let Some(slot) = self.slots.requests.remove(tag) {
            if let Err(fault) = self.finish(memory, slot, status, &data) {
                self.fail(fault);
            }
        }
        self.pool.give(data);
        if self.waiting {
            self.poll(memory);
        }
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

impl VirtioDevice for Device {
    const TYPE: u16 = 2;
    const SPACE: usize = space::LENGTH;

    fn queues(&self) -> u16 {
        self.config.queues
    }

    fn queue_size(&self) -> u16 {
        self.config.queue_size
    }

    fn features(&self) -> u64 {
        Device::features(self)
    }

    fn accept(&mut self, features: u64) -> bool {
        Device::accept(self, features)
    }

    fn read_config(&self, offset: u64, into: &mut [u8]) {
        Device::read_config(self, offset, into);
    }

    fn write_config(&mut self, offset: u64, data: &[u8]) {
        Device::write_config(self, offset, data);
    }

    fn start_queue(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        setup: &QueueSetup,
    ) -> Result<(), Fault> {
        Device::start_queue(self, memory, queue, setup)
    }

    fn reset(&mut self) {
        Device::reset(self);
    }

    fn notify(&mut self, memory: &dyn Memory, queue: u16) {
        Device::notify(self, memory, queue);
    }

    fn fault(&self) -> Option<Fault> {
        Device::fault(self)
    }

    fn pop_interrupt(&mut self) -> Option<Interrupt> {
        Device::pop_interrupt(self)
    }
}
