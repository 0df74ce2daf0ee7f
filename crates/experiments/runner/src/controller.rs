//! Controllers for the guest, made from planned drives.

use anyhow::Result;
use stasis_experiment::{Doorbells, OcssdSpec, PlacementSpec, ZonesSpec};
use stasis_nvme::{Config, Namespace, Ocssd, Placement, ShadowPolicy, Zones, Zrwa};

use crate::plan::PlannedDrive;

/// The controller of a drive of `capacity` bytes, not checked yet.
pub fn of(drive: &PlannedDrive, capacity: u64, discard_zeroes: bool) -> Result<Config> {
    Ok(Config {
        serial: drive.serial.clone(),
        queue_pairs: drive.queues,
        shadow: match drive.spec.doorbells {
            Doorbells::Exact => ShadowPolicy::Exact,
            Doorbells::Lazy => ShadowPolicy::Lazy,
        },
        namespaces: namespaces(capacity, drive)?,
        placement: match drive.spec.placement {
            PlacementSpec::None => Placement::None,
            PlacementSpec::Streams { max } => Placement::Streams { max },
            PlacementSpec::Fdp { reclaim_groups, handles, reclaim_unit } => {
                Placement::Fdp { reclaim_groups, handles, reclaim_unit }
            }
        },
        interrupt_coalescing: true,
        discard_zeroes,
        ..Default::default()
    })
}

/// The drive's namespaces, one behind the other. A single namespace includes the remainder of a
/// capacity that is no multiple of 4096 bytes.
fn namespaces(capacity: u64, drive: &PlannedDrive) -> Result<Vec<Namespace>> {
    let count = u64::from(drive.spec.namespaces);
    let bytes = if count == 1 { capacity } else { capacity / count / 4096 * 4096 };
    let blocks = bytes / u64::from(drive.block_size());
    let zoned = drive.spec.zones.as_ref().map(zones).transpose()?;
    let ocssd = drive.spec.ocssd.as_ref().map(ocssd);
    let namespace = |index| Namespace {
        start: index * bytes,
        zoned: zoned.clone(),
        ocssd: ocssd.clone(),
        ..Namespace::new(blocks, drive.block_size())
    };
    Ok((0..count).map(namespace).collect())
}

fn zones(spec: &ZonesSpec) -> Result<Zones> {
    Ok(Zones {
        size: spec.size,
        capacity: spec.capacity.unwrap_or(spec.size),
        max_open: spec.max_open,
        max_active: spec.max_active,
        extension_size: u32::try_from(spec.extension_size)?,
        zrwa: spec.zrwa.as_ref().map(|zrwa| Zrwa {
            size: zrwa.size,
            granularity: zrwa.granularity,
            count: zrwa.count,
        }),
        reads_cross_zones: spec.reads_cross_zones,
    })
}

fn ocssd(spec: &OcssdSpec) -> Ocssd {
    Ocssd {
        write_min: spec.write_min,
        write_optimal: spec.write_optimal.unwrap_or(spec.write_min),
        cached: spec.cached,
        max_open: spec.max_open,
        max_open_per_unit: spec.max_open_per_unit,
        endurance: spec.endurance,
        ..Ocssd::new(spec.groups, spec.units, spec.chunks, spec.sectors)
    }
}
