//! The Identify data structures of zones (ZNS 1.1 sections 4.1.5.1 and 4.1.5.2).

use crate::config::{Config, Namespace};
use crate::metadata::{BlockFormat, LbaFormat};
use crate::PAGE_SIZE;

use super::config::{Zones, EXTENSION_UNIT};

/// The value of a limit's field for no limit.
const UNLIMITED: u32 = u32::MAX;

/// Identify Namespace data structure of the Zoned Namespace command set, by
/// its byte offsets.
pub fn fill_zoned_namespace(
    page: &mut [u8; PAGE_SIZE],
    namespace: &Namespace,
    zones: &Zones,
    formats: &[LbaFormat],
) {
    // Optional Zoned Command Support.
    const READS_CROSS: u16 = 1;
    const ZRWA: u16 = 1 << 1;
    // Zone Random Write Area Capabilities: explicit flush.
    const EXPLICIT_FLUSH: u8 = 1;
    let block = u64::from(namespace.block_size);
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    let crossing = if zones.reads_cross_zones { READS_CROSS } else { 0 };
    let random = if zones.zrwa.is_some() { ZRWA } else { 0 };
    put(2, &(crossing | random).to_le_bytes());
    // Limits are 0's based.
    let limit = |most: Option<u32>| most.map_or(UNLIMITED, |most| most - 1).to_le_bytes();
    put(4, &limit(zones.max_active));
    put(8, &limit(zones.max_open()));
    if let Some(zrwa) = &zones.zrwa {
        put(44, &(zrwa.count - 1).to_le_bytes());
        put(48, &((zrwa.granularity / block) as u16).to_le_bytes());
        put(50, &((zrwa.size / block) as u16).to_le_bytes());
        put(52, &[EXPLICIT_FLUSH]);
    }
    // LBA formats' extensions: the zone size, and its descriptor extension's.
    for (index, &LbaFormat { size, .. }) in formats.iter().enumerate() {
        let format = BlockFormat { size, metadata: None };
        if !namespace.can_have_blocks_of(format, namespace.bytes()) {
            continue;
        }
        put(2816 + 16 * index, &(zones.size / u64::from(size)).to_le_bytes());
        put(2824 + 16 * index, &[(zones.extension_size / EXTENSION_UNIT) as u8]);
    }
}

/// Identify Controller data structure of the Zoned Namespace command set: Zone
/// Append Size Limit, which is that of all transfers, in the same unit.
pub fn fill_zoned_controller(page: &mut [u8; PAGE_SIZE], config: &Config) {
    page[0] = (config.max_transfer / PAGE_SIZE as u32).trailing_zeros() as u8;
}
