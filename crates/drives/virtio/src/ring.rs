//! A split virtqueue: the available and the used ring (virtio 1.2 section 2.7).

use std::sync::atomic::{fence, Ordering};

use stasis_block::Doorbells;

use crate::{Memory, OutOfMemoryRange};

/// `VIRTQ_AVAIL_F_NO_INTERRUPT` (section 2.7.6).
const NO_INTERRUPT: u16 = 1;
/// `VIRTQ_USED_F_NO_NOTIFY` (section 2.7.8).
const NO_NOTIFY: u16 = 1;
/// Size of an entry of the descriptor table in bytes (section 2.7.5).
pub const DESCRIPTOR: usize = 16;
/// Size of an entry of the used ring in bytes.
const USED: u64 = 8;
/// Offset of either ring's entries, after its flags and index.
const ENTRIES: u64 = 4;
/// Offset of either ring's index.
const INDEX: u64 = 2;

/// Places of a queue in guest memory, as the driver has set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSetup {
    /// Entries.
    pub size: u16,
    /// The descriptor table.
    pub descriptors: u64,
    /// The available ring ("driver area").
    pub available: u64,
    /// The used ring ("device area").
    pub used: u64,
    /// Number of requests that it has gone through before, modulo 2^16: 0 for a new queue, else the
    /// value that [`Device::stop_queue`](crate::Device::stop_queue) returned.
    pub next: u16,
}

/// An action of the driver that cannot be answered: the device does nothing more before it is
/// reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A queue of an impossible size.
    #[error("the guest's driver gave a queue {0} entries; it must be a power of two that the device offers")]
    QueueSize(u16),
    /// A part of a queue at an address that is not aligned.
    #[error("the guest's driver put a part of a queue at {0:#x}, which is not aligned")]
    Alignment(u64),
    /// A queue, a descriptor or a status outside guest memory.
    #[error(transparent)]
    Memory(#[from] OutOfMemoryRange),
    /// More entries made available than the queue has.
    #[error("the guest's driver made {0} requests available, more than its queue has room for")]
    Available(u16),
    /// The number of a missing descriptor.
    #[error("the guest's driver named descriptor {0}, which its table does not have")]
    Descriptor(u16),
    /// A chain that loops, or has too many descriptors.
    #[error("the guest's driver made a chain of descriptors that loops or is too long")]
    Endless,
    /// An indirect descriptor in a wrong place, or of a wrong length.
    #[error("the guest's driver made an indirect descriptor that cannot be")]
    Indirect,
    /// A part to read behind one to write.
    #[error("the guest's driver put data to read behind data to write")]
    Order,
    /// A request without room for its header or status.
    #[error("the guest's driver made a request that has no header or no status")]
    Request,
    /// A buffer for frames that has no room for a frame's header.
    #[error("the guest's driver gave a buffer of {0} bytes for frames")]
    Buffer(usize),
}

/// Notes which requests of a queue are under way, for a carrier that brings them through its own
/// end. Each call comes before the driver can see its consequence, but for [`Track::given`].
pub trait Track: std::fmt::Debug + Send {
    /// The request whose chain begins at `head` is taken.
    fn taken(&mut self, head: u16);
    /// The request is about to be given back.
    fn giving(&mut self, head: u16);
    /// The request was given back; the used ring's index is `used` now.
    fn given(&mut self, head: u16, used: u16);
}

/// A split virtqueue.
#[derive(Debug)]
pub struct Ring {
    size: u16,
    pub descriptors: u64,
    available: u64,
    used: u64,
    /// Counts of entries taken and given back, modulo 2^16.
    pub next_available: u16,
    next_used: u16,
    /// Entries taken and not given back.
    in_flight: u16,
    event_index: bool,
    notify: Doorbells,
    /// True if nothing more is taken.
    pub paused: bool,
    track: Option<Box<dyn Track>>,
}

impl Ring {
    /// A queue as the driver has set it up. All its memory is probed now
    /// rather than at the first request.
    pub fn new(
        memory: &dyn Memory,
        setup: &QueueSetup,
        most: u16,
        event_index: bool,
        notify: Doorbells,
    ) -> Result<Self, Fault> {
        let QueueSetup { size, descriptors, available, used, next } = *setup;
        if !size.is_power_of_two() || size > most {
            return Err(Fault::QueueSize(size));
        }
        let entries = usize::from(size);
        // Alignments and sizes: section 2.7, the events included.
        for (address, alignment, length) in [
            (descriptors, 16, DESCRIPTOR * entries),
            (available, 2, 6 + 2 * entries),
            (used, 4, 6 + 8 * entries),
        ] {
            if !address.is_multiple_of(alignment) {
                return Err(Fault::Alignment(address));
            }
            if !memory.contains(address, length) {
                return Err(OutOfMemoryRange { address, length }.into());
            }
        }
        let ring = Self {
            size,
            descriptors,
            available,
            used,
            next_available: next,
            next_used: next,
            in_flight: 0,
            event_index,
            notify,
            paused: false,
            track: None,
        };
        ring.announce(memory)?;
        Ok(ring)
    }

    /// Goes on with requests that were taken before: as many as `count`.
    pub fn resume(&mut self, count: u16, track: Option<Box<dyn Track>>) -> Result<(), Fault> {
        if count > self.size {
            return Err(Fault::Available(count));
        }
        self.next_available = self.next_available.wrapping_add(count);
        self.in_flight = count;
        self.track = track;
        Ok(())
    }

    /// Requests taken and not given back.
    pub fn in_flight(&self) -> u16 {
        self.in_flight
    }

    /// Sets the way in which the driver announces requests from now on.
    pub fn set_notify(
        &mut self,
        memory: &dyn Memory,
        notify: Doorbells,
    ) -> Result<(), OutOfMemoryRange> {
        self.notify = notify;
        self.announce(memory)
    }

    /// Tells the driver how it is to announce requests.
    fn announce(&self, memory: &dyn Memory) -> Result<(), OutOfMemoryRange> {
        // With the event index the flags stay 0 (section 2.7.10.1).
        let quiet = !self.event_index && self.notify == Doorbells::Lazy;
        memory.store(self.used, if quiet { NO_NOTIFY } else { 0 })?;
        fence(Ordering::SeqCst);
        self.arm(memory)
    }

    pub fn size(&self) -> u16 {
        self.size
    }

    /// Number of requests that wait to be taken.
    pub fn waiting(&self, memory: &dyn Memory) -> Result<u16, Fault> {
        let count = memory.load(self.available + INDEX)?.wrapping_sub(self.next_available);
        // Each has a descriptor at least.
        if count > self.size - self.in_flight {
            return Err(Fault::Available(count));
        }
        Ok(count)
    }

    /// Takes a request that waits: its first descriptor.
    pub fn take(&mut self, memory: &dyn Memory) -> Result<u16, Fault> {
        let entry = u64::from(self.next_available % self.size);
        let head = memory.load(self.available + ENTRIES + 2 * entry)?;
        if head >= self.size {
            return Err(Fault::Descriptor(head));
        }
        self.next_available = self.next_available.wrapping_add(1);
        self.in_flight += 1;
        if let Some(track) = &mut self.track {
            track.taken(head);
        }
        Ok(head)
    }

    /// Puts back the last `count` requests that were taken: they wait again.
    pub fn put_back(&mut self, count: u16) {
        self.next_available = self.next_available.wrapping_sub(count);
        self.in_flight = self.in_flight.saturating_sub(count);
    }

    /// Gives a request back, with `length` bytes written to it; whether the
    /// driver wants to be interrupted for it.
    pub fn give(
        &mut self,
        memory: &dyn Memory,
        head: u16,
        length: u32,
    ) -> Result<bool, OutOfMemoryRange> {
        let mut entry = [0; USED as usize];
        entry[..2].copy_from_slice(&head.to_le_bytes());
        entry[4..].copy_from_slice(&length.to_le_bytes());
        let place = u64::from(self.next_used % self.size);
        memory.write(self.used + ENTRIES + USED * place, &entry)?;
        if let Some(track) = &mut self.track {
            track.giving(head);
        }
        // The driver sees the entry before the index that announces it.
        fence(Ordering::Release);
        let old = self.next_used;
        self.next_used = old.wrapping_add(1);
        memory.store(self.used + INDEX, self.next_used)?;
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(track) = &mut self.track {
            track.given(head, self.next_used);
        }
        // And the index before its wish is read, or both sides could wait.
        fence(Ordering::SeqCst);
        if self.event_index {
            let event = memory.load(self.available + ENTRIES + 2 * u64::from(self.size))?;
            return Ok(event == old);
        }
        Ok(memory.load(self.available)? & NO_INTERRUPT == 0)
    }

    /// Sets the request with which the driver is to notify: the next, or none. An index just behind
    /// the present one comes up after 65536 requests more, and a queue holds fewer before it is
    /// looked at again.
    pub fn arm(&self, memory: &dyn Memory) -> Result<(), OutOfMemoryRange> {
        if !self.event_index {
            return Ok(());
        }
        let event = match self.notify {
            Doorbells::Exact => self.next_available,
            Doorbells::Lazy => self.next_available.wrapping_sub(1),
        };
        memory.store(self.used + ENTRIES + USED * u64::from(self.size), event)?;
        // Requests made available from now on are notified; earlier ones are seen.
        fence(Ordering::SeqCst);
        Ok(())
    }
}
