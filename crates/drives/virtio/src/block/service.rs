//! Service of the queues: from a notification to the drive, and from the drive's completion back.

use stasis_block::{Doorbells, Status, Tag};

use crate::block::device::Device;
use crate::block::features::feature;
use crate::block::space;
use crate::ring::{Fault, QueueSetup, Ring, Track};
use crate::virtio_device::{Interrupt, VirtioDevice};
use crate::Memory;

impl Device {
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
