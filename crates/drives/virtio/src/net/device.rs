//! The device: a queue of frames to the machine, and one from it.

use std::collections::VecDeque;

use stasis_block::clock::Nanos;
use stasis_block::memory::{gather, scatter, Segment};
use stasis_layout::{layout, IntoBytes, U16};

use super::checksum;
use super::config::{feature, Config, SPACE};
use crate::chain::{total, Chain};
use crate::features::{EVENT_IDX, INDIRECT_DESC, VERSION_1};
use crate::ring::{Fault, QueueSetup, Ring};
use crate::virtio_device::{read_space, Interrupt, Interrupts, VirtioDevice};
use crate::Memory;

/// Queue of the frames to the machine (section 5.1.2).
const RECEIVE: u16 = 0;
/// Queue of the frames from the machine.
const TRANSMIT: u16 = 1;
/// Length of the header before each frame in bytes.
const HEADER: usize = size_of::<Header>();
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the driver has begun a sum.
const NEEDS_CSUM: u8 = 1;
/// Bytes of an Ethernet header, with a tag of a virtual LAN (IEEE 802.1Q-2018, clause 9.6).
const ETHERNET: usize = 18;

layout! {
    /// `struct virtio_net_hdr` (section 5.1.6).
    struct Header: 12 {
        [0] flags: u8,
        [1] gso_type: u8,
        [2] hdr_len: U16,
        [4] gso_size: U16,
        [6] csum_start: U16,
        [8] csum_offset: U16,
        [10] num_buffers: U16,
    }
}

/// Time for which buffers of sent frames are gathered before they are given back (ns), as adapters
/// do it to interrupt less often (ethtool(8), `tx-usecs`).
const GATHERED: Nanos = 8_000;

/// A frame that the machine sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The frame's number in its queue, for [`Device::finish`].
    pub head: u16,
    /// The frame.
    pub frame: Vec<u8>,
}

/// Counts since the device was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames from the machine.
    pub sent: u64,
    /// Frames from the machine that were none: too short, too long, a sum in no place of theirs.
    pub refused: u64,
    /// Frames to the machine.
    pub received: u64,
    /// Frames for which the machine had no buffer.
    pub missed: u64,
    /// Interrupts of queues.
    pub interrupts: u64,
}

/// A network device, apart from its transport.
#[derive(Debug)]
pub struct Device {
    config: Config,
    features: u64,
    rings: [Option<Ring>; 2],
    fault: Option<Fault>,
    interrupts: Interrupts,
    chain: Chain,
    outbox: VecDeque<Sent>,
    /// Frames on their way out of the port, with when the last bit leaves (ns).
    leaving: VecDeque<(Nanos, u16)>,
    /// Buffers of a frame that is being received: the chain, and its room.
    buffers: Vec<(u16, usize)>,
    segments: Vec<Segment>,
    statistics: Statistics,
}

impl Device {
    /// A device without a driver yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            features: 0,
            rings: [None, None],
            fault: None,
            interrupts: Interrupts::default(),
            chain: Chain::default(),
            outbox: VecDeque::new(),
            leaving: VecDeque::new(),
            buffers: Vec::new(),
            segments: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// The next frame that the machine sends. Its buffer is the device's until
    /// [`Device::finish`].
    pub fn pop_frame(&mut self) -> Option<Sent> {
        self.outbox.pop_front()
    }

    /// The last bit of the frame with number `head` leaves at `at`; its buffer is given back after
    /// those of earlier frames.
    pub fn finish(&mut self, head: u16, at: Nanos) {
        let before = self.leaving.back().map_or(0, |(before, _)| *before);
        self.leaving.push_back((at.max(before), head));
    }

    /// Returns the time at which [`Device::advance`] is to be called next (ns): all buffers are
    /// given back together that are free for a while after the first.
    pub fn next_event(&self) -> Option<Nanos> {
        let first = self.leaving.front()?.0;
        let last = self.leaving.back()?.0;
        // The last frame of all is not waited behind.
        Some(last.min(first.saturating_add(GATHERED)))
    }

    /// Gives back the buffers of frames that have left by `now`.
    pub fn advance(&mut self, memory: &dyn Memory, now: Nanos) {
        while let Some(&(_, head)) = self.leaving.front().filter(|(at, _)| *at <= now) {
            self.leaving.pop_front();
            if let Err(fault) = self.give(memory, TRANSMIT, head, 0) {
                self.fail(fault);
            }
        }
    }

    /// Gives `frame` to the machine. Returns whether the machine had buffers for it.
    pub fn receive(&mut self, memory: &dyn Memory, frame: &[u8]) -> bool {
        match self.try_receive(memory, frame) {
            Ok(true) => {
                self.statistics.received += 1;
                true
            }
            Ok(false) => {
                self.statistics.missed += 1;
                false
            }
            Err(fault) => {
                self.fail(fault);
                false
            }
        }
    }

    fn try_receive(&mut self, memory: &dyn Memory, frame: &[u8]) -> Result<bool, Fault> {
        let spread = self.has(feature::MRG_RXBUF);
        let indirect = self.has(INDIRECT_DESC);
        let most = usize::from(self.config.queue_size);
        let Some(ring) = &mut self.rings[usize::from(RECEIVE)] else { return Ok(false) };
        if self.fault.is_some() {
            return Ok(false);
        }
        self.buffers.clear();
        self.segments.clear();
        let (needed, mut room) = (HEADER + frame.len(), 0);
        while room < needed {
            // One buffer holds the whole frame where frames are not spread.
            let full = !spread && !self.buffers.is_empty();
            if full || ring.waiting(memory)? == 0 {
                ring.put_back(self.buffers.len() as u16);
                ring.arm(memory)?;
                return Ok(false);
            }
            let head = ring.take(memory)?;
            self.chain.walk(memory, ring, head, most, indirect)?;
            let bytes = total(&self.chain.writable);
            if self.buffers.is_empty() && bytes < HEADER {
                return Err(Fault::Buffer(bytes));
            }
            self.segments.extend_from_slice(&self.chain.writable);
            self.buffers.push((head, bytes));
            room += bytes;
        }
        let num_buffers = (self.buffers.len() as u16).into();
        let data = [Header { num_buffers, ..Default::default() }.as_bytes(), frame].concat();
        scatter(memory, &self.segments, &data)?;
        let mut rest = needed;
        for index in 0..self.buffers.len() {
            let (head, bytes) = self.buffers[index];
            let length = bytes.min(rest);
            rest -= length;
            self.give(memory, RECEIVE, head, length as u32)?;
        }
        Ok(true)
    }

    fn try_fetch(&mut self, memory: &dyn Memory) -> Result<(), Fault> {
        let indirect = self.has(INDIRECT_DESC);
        let most = usize::from(self.config.queue_size);
        let Some(ring) = &mut self.rings[usize::from(TRANSMIT)] else { return Ok(()) };
        if self.fault.is_some() {
            return Ok(());
        }
        loop {
            if ring.waiting(memory)? == 0 {
                ring.arm(memory)?;
                // Frames made available before the driver saw the change are not notified.
                if ring.waiting(memory)? == 0 {
                    return Ok(());
                }
            }
            let head = ring.take(memory)?;
            self.chain.walk(memory, ring, head, most, indirect)?;
            let length = total(&self.chain.readable);
            let allowed = HEADER + ETHERNET - 4..=HEADER + ETHERNET + usize::from(self.config.mtu);
            let mut sent = Sent { head, frame: Vec::new() };
            let mut header = Header::default();
            if allowed.contains(&length) {
                let mut data = vec![0; length];
                gather(memory, &self.chain.readable, &mut data)?;
                sent.frame = data.split_off(HEADER);
                header.as_mut_bytes().copy_from_slice(&data);
            }
            let (start, offset) = (header.csum_start.get(), header.csum_offset.get());
            if header.flags & NEEDS_CSUM != 0
                && !checksum::complete(&mut sent.frame, start.into(), offset.into())
            {
                sent.frame.clear();
            }
            if sent.frame.is_empty() {
                self.statistics.refused += 1;
            } else {
                self.statistics.sent += 1;
            }
            // A frame that is none takes its turn, and goes nowhere.
            self.outbox.push_back(sent);
        }
    }

    fn give(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        head: u16,
        length: u32,
    ) -> Result<(), Fault> {
        let Some(ring) = &mut self.rings[usize::from(queue)] else { return Ok(()) };
        if ring.give(memory, head, length)? {
            self.interrupts.of_queue(queue);
            self.statistics.interrupts += 1;
        }
        Ok(())
    }

    fn has(&self, bit: u32) -> bool {
        self.features & 1 << bit != 0
    }

    fn fail(&mut self, fault: Fault) {
        if self.fault.is_none() {
            self.fault = Some(fault);
            self.interrupts.of_change();
            self.outbox.clear();
            self.leaving.clear();
        }
    }

    /// Counters of the device so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}

impl VirtioDevice for Device {
    const TYPE: u16 = 1;
    const SPACE: usize = SPACE;

    fn queues(&self) -> u16 {
        self.rings.len() as u16
    }

    fn queue_size(&self) -> u16 {
        self.config.queue_size
    }

    fn features(&self) -> u64 {
        self.config.features()
    }

    fn accept(&mut self, features: u64) -> bool {
        let good = features & !self.config.features() == 0 && features & 1 << VERSION_1 != 0;
        if good {
            self.features = features;
        }
        good
    }

    fn read_config(&self, offset: u64, into: &mut [u8]) {
        read_space(&self.config.space(), offset, into);
    }

    fn start_queue(
        &mut self,
        memory: &dyn Memory,
        queue: u16,
        setup: &QueueSetup,
    ) -> Result<(), Fault> {
        let (size, events) = (self.config.queue_size, self.has(EVENT_IDX));
        let Some(place) = self.rings.get_mut(usize::from(queue)) else { return Ok(()) };
        match Ring::new(memory, setup, size, events, stasis_block::Doorbells::Exact) {
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

    fn reset(&mut self) {
        self.rings = [None, None];
        self.outbox.clear();
        self.leaving.clear();
        self.features = 0;
        self.fault = None;
        self.interrupts = Interrupts::default();
    }

    fn notify(&mut self, memory: &dyn Memory, queue: u16) {
        if queue == TRANSMIT {
            if let Err(fault) = self.try_fetch(memory) {
                self.fail(fault);
            }
        }
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn pop_interrupt(&mut self) -> Option<Interrupt> {
        self.interrupts.pop()
    }
}
