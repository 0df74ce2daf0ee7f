//! Features that a device offers.

use crate::block::config::Config;
use crate::features;

/// Numbers of feature bits (virtio 1.2 sections 5.2.3 and 6).
pub mod feature {
    /// `size_max` is valid.
    pub const SIZE_MAX: u32 = 1;
    /// `seg_max` is valid.
    pub const SEG_MAX: u32 = 2;
    /// The device is read-only.
    pub const RO: u32 = 5;
    /// `blk_size` is valid.
    pub const BLK_SIZE: u32 = 6;
    /// There is a flush.
    pub const FLUSH: u32 = 9;
    /// `topology` is valid.
    pub const TOPOLOGY: u32 = 10;
    /// The driver can switch the write cache.
    pub const CONFIG_WCE: u32 = 11;
    /// Several queues.
    pub const MQ: u32 = 12;
    /// There is a discard.
    pub const DISCARD: u32 = 13;
    /// There is a write zeroes.
    pub const WRITE_ZEROES: u32 = 14;
    pub use crate::features::{EVENT_IDX, INDIRECT_DESC, VERSION_1};
}

/// Features that a device of `config` offers.
pub fn offered(config: &Config) -> u64 {
    use feature::*;
    let always = [SIZE_MAX, SEG_MAX, BLK_SIZE, TOPOLOGY, MQ, VERSION_1];
    let some = [
        (RO, config.read_only),
        (FLUSH, config.volatile_write_cache),
        (CONFIG_WCE, config.volatile_write_cache),
        (DISCARD, !config.read_only),
        (WRITE_ZEROES, !config.read_only),
        (INDIRECT_DESC, config.indirect),
        (EVENT_IDX, config.event_index),
    ];
    features::set(always.map(|bit| (bit, true)).into_iter().chain(some))
}
