//! NVMe controllers, made from the descriptions of drives.

use anyhow::{bail, Result};
use stasis_experiment::{places, DriveSpec, NamespaceSpec};
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
        programs: spec.programs,
        interrupt_coalescing: true,
        discard_zeroes,
        ..Default::default()
    }
}

/// Checks that a medium of `capacity` bytes has room for a drive's namespaces.
///
/// # Errors
/// It has none.
pub fn check_room(spec: &DriveSpec, capacity: u64) -> Result<()> {
    if capacity / u64::from(spec.namespaces) < 4096 {
        bail!(
            "its medium has {} bytes, too few for {} namespaces of 4096 at least",
            capacity,
            spec.namespaces
        );
    }
    places(&spec.namespace, capacity).map_err(anyhow::Error::msg)?;
    Ok(())
}

/// The drive's namespaces, one behind the other. A single namespace includes the remainder of a
/// capacity that is no multiple of 4096 bytes.
fn namespaces(capacity: u64, spec: &DriveSpec) -> Vec<Namespace> {
    if !spec.namespace.is_empty() {
        return listed(capacity, spec);
    }
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

/// Those of a drive whose namespaces are not all alike. Where they have no room, there are none, which
/// no controller is made with.
fn listed(capacity: u64, spec: &DriveSpec) -> Vec<Namespace> {
    let places = places(&spec.namespace, capacity).unwrap_or_default();
    let namespace = |((start, bytes), one): ((u64, u64), &NamespaceSpec)| {
        let block_size = one.block_size.unwrap_or(spec.block_size) as u32;
        Namespace {
            start,
            zoned: one.zones.clone(),
            key_value: one.key_value,
            ..Namespace::new(bytes / u64::from(block_size), block_size)
        }
    };
    places.into_iter().zip(&spec.namespace).map(namespace).collect()
}
