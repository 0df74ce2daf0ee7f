//! The driver's view: features and configuration space (virtio 1.2 sections 5.1.3 and 5.1.4).

use crate::features::{self, EVENT_IDX, INDIRECT_DESC, VERSION_1};

/// Configuration of a network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Address of its port.
    pub address: [u8; 6],
    /// Limit on a packet's bytes, without the Ethernet header.
    pub mtu: u16,
    /// Entries of each queue: a power of two.
    pub queue_size: u16,
}

/// Numbers of feature bits (section 5.1.3).
pub mod feature {
    /// The device completes sums that the driver has begun.
    pub const CSUM: u32 = 0;
    /// `mtu` is valid.
    pub const MTU: u32 = 3;
    /// `mac` is valid.
    pub const MAC: u32 = 5;
    /// A frame can lie in several buffers.
    pub const MRG_RXBUF: u32 = 15;
    /// `status` is valid.
    pub const STATUS: u32 = 16;
}

/// Length of the configuration space in bytes, up to `mtu`.
pub const SPACE: usize = 12;
/// `VIRTIO_NET_S_LINK_UP` (section 5.1.4).
const LINK_UP: u16 = 1;

impl Config {
    /// Features that the device offers.
    pub fn features(&self) -> u64 {
        use feature::*;
        let all = [CSUM, MTU, MAC, MRG_RXBUF, STATUS, INDIRECT_DESC, EVENT_IDX, VERSION_1];
        features::set(all.map(|bit| (bit, true)))
    }

    /// Configuration space as a driver reads it.
    pub fn space(&self) -> [u8; SPACE] {
        let mut space = [0; SPACE];
        space[..6].copy_from_slice(&self.address);
        space[6..8].copy_from_slice(&LINK_UP.to_le_bytes());
        // 8: pairs of queues, which the feature MQ would make valid.
        space[8..10].copy_from_slice(&1u16.to_le_bytes());
        space[10..].copy_from_slice(&self.mtu.to_le_bytes());
        space
    }
}
