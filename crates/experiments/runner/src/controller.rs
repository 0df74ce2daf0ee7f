//! NVMe controllers, made from the descriptions of drives.

use stasis_experiment::DriveSpec;
use stasis_media::MediumSpec;
use stasis_nvme::{BlockFormat, Config, Namespace};

/// The NVMe controller of a drive of `capacity` bytes, not checked yet.
pub fn config(
    spec: &DriveSpec,
    serial: String,
    queue_pairs: u16,
    capacity: u64,
    discard_zeroes: bool,
) -> Config {
    Config {
        serial,
        queue_pairs,
        shadow: spec.doorbells,
        namespaces: namespaces(capacity, spec),
        placement: spec.placement,
        // An image, or a scheduler, does not know where metadata lies.
        metadata: spec.scheduler.is_none() && !matches!(spec.medium, MediumSpec::Qcow2 { .. }),
        power_states: spec.power_states.clone(),
        interrupt_coalescing: true,
        discard_zeroes,
        ..Default::default()
    }
}

/// The drive's namespaces, one behind the other. A single namespace includes the remainder of a
/// capacity that is no multiple of 4096 bytes.
fn namespaces(capacity: u64, spec: &DriveSpec) -> Vec<Namespace> {
    let count = u64::from(spec.namespaces);
    let bytes = if count == 1 { capacity } else { capacity / count / 4096 * 4096 };
    // Small: the experiment's check.
    let block_size = spec.block_size as u32;
    let format = BlockFormat { size: block_size, metadata: spec.metadata };
    let stride = u64::from(format.stride());
    let namespace = |index| Namespace {
        start: index * bytes,
        zoned: spec.zones.clone(),
        ocssd: spec.ocssd.clone(),
        key_value: spec.key_value,
        metadata: spec.metadata,
        ..Namespace::new(bytes / stride, block_size)
    };
    (0..count).map(namespace).collect()
}
