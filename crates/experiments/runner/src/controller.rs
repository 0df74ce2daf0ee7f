//! Controllers for the guest, made from planned drives.

use stasis_nvme::{Config, Namespace};

use crate::plan::PlannedDrive;

/// The controller of a drive of `capacity` bytes, not checked yet.
pub fn of(drive: &PlannedDrive, capacity: u64, discard_zeroes: bool) -> Config {
    Config {
        serial: drive.serial.clone(),
        queue_pairs: drive.queues,
        shadow: drive.spec.doorbells,
        namespaces: namespaces(capacity, drive),
        placement: drive.spec.placement,
        interrupt_coalescing: true,
        discard_zeroes,
        ..Default::default()
    }
}

/// The drive's namespaces, one behind the other. A single namespace includes the remainder of a
/// capacity that is no multiple of 4096 bytes.
fn namespaces(capacity: u64, drive: &PlannedDrive) -> Vec<Namespace> {
    let count = u64::from(drive.spec.namespaces);
    let bytes = if count == 1 { capacity } else { capacity / count / 4096 * 4096 };
    let blocks = bytes / u64::from(drive.block_size());
    let namespace = |index| Namespace {
        start: index * bytes,
        zoned: drive.spec.zones.clone(),
        ocssd: drive.spec.ocssd.clone(),
        ..Namespace::new(blocks, drive.block_size())
    };
    (0..count).map(namespace).collect()
}
