//! The Identify data structure of zones (ZNS 1.1 section 4.1.5.1).

use stasis_nvme_layout::command_sets::ZonedNamespace;

use crate::config::Namespace;
use crate::metadata::{BlockFormat, LbaFormat};
use crate::narrow::{configured16, count8, size};

use super::config::{Zones, EXTENSION_UNIT};

/// The value of a limit's field for no limit.
const UNLIMITED: u32 = u32::MAX;

/// Identify Namespace data structure of the Zoned Namespace command set.
pub fn fill_zoned_namespace(
    page: &mut ZonedNamespace,
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
    let crossing = if zones.reads_cross_zones { READS_CROSS } else { 0 };
    let random = if zones.zrwa.is_some() { ZRWA } else { 0 };
    page.ozcs.set(crossing | random);
    // Limits are 0's based.
    let limit = |most: Option<u32>| most.map_or(UNLIMITED, |most| most - 1);
    page.mar.set(limit(zones.max_active));
    page.mor.set(limit(zones.max_open()));
    if let Some(zrwa) = &zones.zrwa {
        page.numzrwa.set(zrwa.count - 1);
        page.zrwafg.set(configured16(zrwa.granularity / block));
        page.zrwasz.set(configured16(zrwa.size / block));
        page.zrwacap = EXPLICIT_FLUSH;
    }
    let extension = count8(size(zones.extension_size / EXTENSION_UNIT));
    for (entry, &LbaFormat { size, .. }) in page.lbafe.iter_mut().zip(formats) {
        let format = BlockFormat { size, metadata: None };
        if !namespace.can_have_blocks_of(format, namespace.bytes()) {
            continue;
        }
        entry.zsze.set(zones.size / u64::from(size));
        entry.zdes = extension;
    }
}
