//! A device behind a transport, whatever it does.

use crate::ring::{Fault, QueueSetup};
use crate::Memory;

/// Target of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// The driver, about a queue.
    Queue(u16),
    /// The driver, about the configuration or the device's state.
    Configuration,
}

/// The interrupts that a device has still to send.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// A bit for each queue.
    queues: u64,
    changed: bool,
}

impl Interrupts {
    /// One about a queue.
    pub fn of_queue(&mut self, queue: u16) {
        self.queues |= 1 << queue;
    }

    /// Forgets the interrupt of a queue that is no longer served.
    pub fn not_of_queue(&mut self, queue: u16) {
        self.queues &= !(1 << queue);
    }

    /// One about the configuration or the device's state.
    pub fn of_change(&mut self) {
        self.changed = true;
    }

    /// The next.
    pub fn pop(&mut self) -> Option<Interrupt> {
        if std::mem::take(&mut self.changed) {
            return Some(Interrupt::Configuration);
        }
        if self.queues == 0 {
            return None;
        }
        let queue = self.queues.trailing_zeros();
        self.queues &= self.queues - 1;
        Some(Interrupt::Queue(queue as u16))
    }
}

/// Access of a transport to its device.
pub trait VirtioDevice {
    /// The number of its type (section 5).
    const TYPE: u16;
    /// Length of its configuration space in bytes.
    const SPACE: usize;

    /// Number of its queues, 1 to 64.
    fn queues(&self) -> u16;

    /// Limit on the entries of a queue.
    fn queue_size(&self) -> u16;

    /// The features it offers, one bit each.
    fn features(&self) -> u64;

    /// Accepts `features` for the driver. Returns whether they are valid.
    fn accept(&mut self, features: u64) -> bool;

    /// The driver reads its configuration space. Beyond its end it is 0.
    fn read_config(&self, offset: u64, into: &mut [u8]);

    /// The driver writes its configuration space.
    fn write_config(&mut self, _offset: u64, _data: &[u8]) {}

    /// Begins to serve a queue.
    ///
    /// # Errors
    /// If the queue cannot be; the device needs a reset then.
    fn start_queue(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        setup: &QueueSetup,
    ) -> Result<(), Fault>;

    /// Forgets the driver, and the notifications still due to it.
    fn reset(&mut self);

    /// The driver notifies of `queue`.
    fn notify(&mut self, memory: &dyn Memory, queue: u16);

    /// Reason why the device needs a reset, if it does.
    fn fault(&self) -> Option<Fault>;

    /// The next interrupt to send.
    fn pop_interrupt(&mut self) -> Option<Interrupt>;
}

/// Reads from `space` at `offset`; beyond its end it is 0.
pub(crate) fn read_space(space: &[u8], offset: u64, into: &mut [u8]) {
    into.fill(0);
    let Some(rest) = usize::try_from(offset).ok().and_then(|at| space.get(at..)) else {
        return;
    };
    let length = rest.len().min(into.len());
    into[..length].copy_from_slice(&rest[..length]);
}
