//! NVMe controllers, made from the descriptions of drives.

use anyhow::{bail, Result};
use stasis_block::units::format_size;
use stasis_drive::{DriveFault, DriveFaultKind};
use stasis_experiment::{endurance_groups, places, DriveSpec, NamespaceSpec};
use stasis_media::MediumSpec;
use stasis_models::{seeds, BuildContext, BuildError, Model, Parted};
use stasis_nvme::{BlockFormat, Config, KeyValue, MediaPart, Namespace, Placement};

/// The NVMe controller of a drive of `capacity` bytes, not checked yet.
pub fn config(
    spec: &DriveSpec,
    serial: String,
    queue_pairs: u16,
    capacity: u64,
    discard_zeroes: bool,
) -> Config {
    // The experiment's check has seen that a group's namespaces agree.
    let endurance_groups = endurance_groups(&spec.namespace, spec.placement).unwrap_or_default();
    let of_groups = !endurance_groups.is_empty() && matches!(spec.placement, Placement::Fdp { .. });
    Config {
        serial,
        queue_pairs,
        shadow: spec.doorbells,
        namespaces: namespaces(capacity, spec),
        placement: if of_groups { Placement::None } else { spec.placement },
        endurance_groups,
        // An image, or a scheduler, does not know where metadata lies.
        metadata: spec.scheduler.is_none() && !matches!(spec.medium, MediumSpec::Qcow2 { .. }),
        power_states: spec.power_states.clone(),
        programs: spec.programs,
        memory_buffer: spec.memory_buffer,
        interrupt_coalescing: true,
        discard_zeroes,
        ..Default::default()
    }
}

/// The parts of a drive of `capacity` bytes that have flash of their own; none if it is one.
fn media_parts(spec: &DriveSpec, capacity: u64) -> Vec<MediaPart> {
    match spec.namespace.iter().any(|one| one.endurance_group.is_some()) {
        true => config(spec, String::new(), 1, capacity, false).media_parts(),
        false => Vec::new(),
    }
}

/// The model of a drive in `context`: one for each part with flash of its own, if it has such.
///
/// # Errors
/// As of [`stasis_models::ModelSpec::build`].
pub fn model(spec: &DriveSpec, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
    let parts = media_parts(spec, context.capacity);
    if parts.is_empty() {
        return spec.model.build(context);
    }
    let build = |(part, seed): (MediaPart, u64)| {
        let context = BuildContext { seed, capacity: part.bytes(), ..*context };
        Ok((part.start, spec.model.build(&context)?))
    };
    let parts: Result<Vec<_>, BuildError> =
        parts.into_iter().zip(seeds(context.seed)).map(build).collect();
    Ok(Box::new(Parted::new(parts?)))
}

/// A drive of `capacity` bytes that has pairs gets a model that knows of their log, and segments that
/// its flash erases as a whole.
pub fn fit_pairs(spec: &mut DriveSpec, capacity: u64) {
    if !spec.has_pairs() {
        return;
    }
    spec.model.for_pairs();
    let (all, parts) = (namespaces(capacity, spec), media_parts(spec, capacity));
    let model = spec.model.clone();
    let fitted = |log: KeyValue, space: &Namespace| {
        let part = parts.iter().rfind(|part| part.start <= space.start);
        let shape = model.kind().log_shape(part.map_or(capacity, MediaPart::bytes));
        shape.map_or(log, |shape| log.on_flash(space.bytes(), (shape.erased, shape.page)))
    };
    if let (Some(log), Some(first)) = (&mut spec.key_value, all.first()) {
        *log = fitted(*log, first);
    }
    for (one, space) in spec.namespace.iter_mut().zip(&all) {
        one.key_value = one.key_value.map(|log| fitted(log, space));
    }
}

/// Checks that the model of a drive can be made for a medium of `capacity` bytes.
///
/// # Errors
/// As of [`stasis_models::ModelSpec::check`].
pub fn check_model(spec: &DriveSpec, capacity: u64) -> Result<(), BuildError> {
    let parts = media_parts(spec, capacity);
    if parts.is_empty() {
        return spec.model.check(capacity);
    }
    parts.iter().try_for_each(|part| spec.model.check(part.bytes()))
}

/// Checks that a medium of `capacity` bytes has room for a drive's namespaces, and that segments of pairs
/// are zones of a model that has some.
///
/// # Errors
/// The medium has no such room, or segments are not zones.
pub fn check_room(spec: &DriveSpec, capacity: u64) -> Result<()> {
    if capacity / u64::from(spec.namespaces) < 4096 {
        bail!(
            "its medium has {}, too little for {} namespaces of 4KiB at least",
            format_size(capacity),
            spec.namespaces
        );
    }
    places(&spec.namespace, capacity).map_err(anyhow::Error::msg)?;
    if spec.namespace.iter().any(|one| one.endurance_group.is_some()) {
        // Groups and sets lie apart or not as the places of namespaces have it.
        config(spec, "S".into(), 1, capacity, false).check()?;
    }
    check_segments(spec, capacity)
}

/// Checks that faults which give namespaces other sizes find room on a medium of `capacity` bytes.
///
/// # Errors
/// One does not.
pub fn check_sizes(spec: &DriveSpec, capacity: u64, faults: &[DriveFault]) -> Result<()> {
    let all = namespaces(capacity, spec);
    for fault in faults.iter().filter(|fault| fault.kind == DriveFaultKind::NamespaceResized) {
        let Some(namespace) = all.get((fault.namespace as usize).wrapping_sub(1)) else { continue };
        let behind =
            all.iter().map(|other| other.start).filter(|start| *start > namespace.start).min();
        let most = behind.unwrap_or(capacity) - namespace.start;
        let format = BlockFormat { size: namespace.block_size, metadata: namespace.metadata };
        let least = u64::from(format.stride());
        if !(least..=most).contains(&fault.size) {
            bail!(
                "fault {}: size is {}, but namespace {} can have {} to {}: what lies behind belongs to \
                 another, or is no part of the medium",
                fault.number,
                format_size(fault.size),
                fault.namespace,
                format_size(least),
                format_size(most)
            );
        }
    }
    Ok(())
}

/// Checks that zones, and segments of pairs, are zones of a model that has some. Of namespaces in groups
/// the model says so as they are written.
fn check_segments(spec: &DriveSpec, capacity: u64) -> Result<()> {
    if spec.namespace.iter().any(|one| one.endurance_group.is_some()) {
        return Ok(());
    }
    let Some(zone) = spec.model.kind().zone(capacity) else { return Ok(()) };
    for (namespace, nsid) in namespaces(capacity, spec).iter().zip(1..) {
        let size = namespace.zoned.as_ref().map_or(zone, |zones| zones.size);
        if size != zone || namespace.zoned.is_some() && !namespace.start.is_multiple_of(zone) {
            let (zone, size) = (format_size(zone), format_size(size));
            bail!(
                "namespace {nsid} has zones of {size} from byte {} on, but the model has zones of \
                 {zone}, which are written in order and erased as a whole: give zones.size = \
                 \"{zone}\", or the model zone_size = \"{size}\"",
                namespace.start
            );
        }
        let Some(log) = namespace.key_value else { continue };
        let segment = log.segment(namespace.bytes());
        if !segment.is_multiple_of(zone) || !namespace.start.is_multiple_of(zone) {
            let (zone, segment) = (format_size(zone), format_size(segment));
            bail!(
                "namespace {nsid} has pairs in segments of {segment} from byte {} on, but the model \
                 has zones of {zone}, which are written in order and discarded as a whole: give \
                 key-value.segment = \"{zone}\", and the other namespaces sizes of whole zones",
                namespace.start
            );
        }
    }
    Ok(())
}

/// The drive's namespaces, one behind the other. A single namespace includes the remainder of a
/// capacity that is no multiple of 4096 bytes.
fn namespaces(capacity: u64, spec: &DriveSpec) -> Vec<Namespace> {
    let mut all = unfilled(capacity, spec);
    // Namespaces in groups have parts of the model each.
    let fills = spec.model.kind().zone(capacity).is_some();
    let zones = all.iter_mut().filter_map(|namespace| namespace.zoned.as_mut());
    zones.for_each(|zones| zones.fills = fills);
    all
}

/// The same, without word of what a finish of a zone does.
fn unfilled(capacity: u64, spec: &DriveSpec) -> Vec<Namespace> {
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

/// The namespaces of a drive whose namespaces are not all alike. Empty where the medium has no room
/// for them: a controller cannot be made with none.
fn listed(capacity: u64, spec: &DriveSpec) -> Vec<Namespace> {
    let places = places(&spec.namespace, capacity).unwrap_or_default();
    let namespace = |((start, bytes), one): ((u64, u64), &NamespaceSpec)| {
        let block_size = one.block_size.unwrap_or(spec.block_size) as u32;
        Namespace {
            start,
            zoned: one.zones.clone(),
            key_value: one.key_value,
            endurance_group: one.endurance_group.unwrap_or(0),
            nvm_set: one.nvm_set.unwrap_or(0),
            ..Namespace::new(bytes / u64::from(block_size), block_size)
        }
    };
    places.into_iter().zip(&spec.namespace).map(namespace).collect()
}
