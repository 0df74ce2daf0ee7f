//! A virtio network device on the PCI bus: a machine's port of a network.

use stasis_block::clock::Nanos;
use stasis_network::Network;
use stasis_virtio::net::{Config, Device};
use stasis_virtio::PciNetworkDevice;

use super::virtio::function;
use crate::memory::GuestMemory;
use crate::pci::Function;

/// Class of the PCI function: network controller, Ethernet (PCI Code and ID Assignment
/// Specification 1.11, 1.3).
const CLASS: u32 = 0x02_00_00;
/// Entries of each queue: as many as QEMU's device has by default.
const QUEUE: u16 = 256;

/// A port of a network, as its machine is given it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortConfig {
    /// Index of the network.
    pub network: usize,
    /// Index of the port.
    pub port: usize,
    /// Limit on a packet's bytes.
    pub mtu: u16,
}

/// The device.
pub struct NetworkDevice {
    device: PciNetworkDevice,
    /// The port that it is attached to.
    pub place: PortConfig,
}

impl NetworkDevice {
    /// The device at a port.
    pub fn new(place: PortConfig) -> Self {
        // Networks are counted in a byte: the experiment's check.
        let address = Network::address(place.network as u8, place.port);
        let config = Config { address, mtu: place.mtu, queue_size: QUEUE };
        Self { device: PciNetworkDevice::of(Device::new(config)), place }
    }

    /// Returns the device's PCI function.
    pub fn function(&self) -> Function {
        function(&self.device, CLASS)
    }

    /// Returns whether a write to `offset` announces frames.
    pub fn is_doorbell(offset: u64) -> bool {
        PciNetworkDevice::is_doorbell(offset)
    }

    /// The guest reads a register.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) {
        self.device.read_register(offset, into);
    }

    /// The guest writes a register.
    pub fn write(&mut self, memory: &GuestMemory, offset: u64, data: &[u8]) {
        self.device.write_register(memory, offset, data);
    }

    /// Sends what the guest has announced over `network` at `now`; each frame is passed to
    /// `record`, with when its first bit leaves.
    pub fn send(
        &mut self,
        memory: &GuestMemory,
        network: &mut Network,
        now: Nanos,
        mut record: impl FnMut(Nanos, &[u8]),
    ) {
        let device = self.device.device_mut();
        while let Some(sent) = device.pop_frame() {
            let mut departure = now;
            if !sent.frame.is_empty() {
                let (first, last) = network.send(self.place.port, &sent.frame, now);
                record(first, &sent.frame);
                departure = last;
            }
            device.finish(sent.head, departure);
        }
        device.advance(memory, now);
    }

    /// Gives the guest a frame. Returns whether the guest had a buffer for it.
    pub fn receive(&mut self, memory: &GuestMemory, frame: &[u8]) -> bool {
        self.device.device_mut().receive(memory, frame)
    }

    /// Returns the time at which [`NetworkDevice::advance`] is to be called next.
    pub fn next_event(&self) -> Option<Nanos> {
        self.device.device().next_event()
    }

    /// Gives back the buffers of frames that have left by `now`.
    pub fn advance(&mut self, memory: &GuestMemory, now: Nanos) {
        self.device.device_mut().advance(memory, now);
    }

    /// The next MSI-X vector to signal.
    pub fn pop_interrupt(&mut self) -> Option<u16> {
        self.device.pop_interrupt()
    }
}
