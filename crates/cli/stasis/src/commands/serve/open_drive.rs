//! From a drive's description to a served drive.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use stasis_block::Doorbells;
use stasis_config::Mistake;
use stasis_drive::{FlushBarriers, Layer};
use stasis_experiment::DriveSpec;
use stasis_media::{
    Durability, Execution, HostMedium, ImageSettings, Medium, MediumSpec, OpenError, OpenOptions,
};
use stasis_models::{BuildContext, Model, ModelSpec, NullSpec};
use stasis_ordered_disk::{OrderedDisk, OrderedMedium};
use stasis_runner::{failure, keep};
use stasis_serve::{Description, Made, NewDrive, RealTime, SharedRealTime, Store};
use stasis_virtio::Config;

/// Entries of a queue at most.
const QUEUE_SIZE: u16 = 1024;
/// Limit on the pieces of a request: they fit the queues of 128 entries that VMMs make by default.
const SEGMENTS: u16 = 126;
/// Limit on the bytes of a piece.
const SEGMENT: u32 = 64 << 10;

/// A drive to be served, and the same drive as results describe it.
pub struct Planned {
    pub new: NewDrive,
    pub shown: stasis_results::Drive,
    /// The drive's description, with the files of its model read.
    pub spec: DriveSpec,
    /// The medium before it is opened, if the drive keeps a state beside it.
    pub before: Option<keep::Before>,
}

/// Interface of a served drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A plain block device.
    Plain,
    /// An NVMe subsystem.
    Nvme,
}

impl How {
    /// Refuses the keys of a drive that have no effect where it is served.
    fn check(self, spec: &DriveSpec) -> Result<(), Mistake> {
        let plain = [
            (spec.doorbells == Doorbells::default(), "doorbells"),
            (spec.scheduler.is_none(), "scheduler"),
            (spec.limits.is_none(), "limits"),
            (!spec.power_states.is_choice(), "power-states"),
            (spec.memory_buffer.is_none(), "memory-buffer"),
            (spec.namespace.iter().all(|one| one.endurance_group.is_none()), "endurance-group"),
            (spec.model.kind().state_file().is_none(), "model.state"),
        ];
        if let Some((_, key)) = plain.iter().find(|(is_plain, _)| !is_plain) {
            let message = format!(
                "`{key}` is of `stasis run`, and has no effect on a served drive: leave `{key}` out"
            );
            return Err(match key.split_once('.') {
                Some((table, key)) => Mistake::at(key, message).inside(table),
                None => Mistake::at(*key, message),
            });
        }
        let nvme = [
            (spec.zones.is_some(), "zones"),
            (spec.ocssd.is_some(), "ocssd"),
            (spec.key_value.is_some(), "key-value"),
            (spec.programs.is_some(), "programs"),
            (spec.namespaces != 1, "namespaces"),
            (!spec.namespace.is_empty(), "namespace"),
            (spec.placement != Default::default(), "placement"),
            (spec.metadata.is_some(), "metadata"),
            (spec.block_size > 4096, "block-size"),
        ];
        match nvme.iter().find(|(is_set, _)| *is_set) {
            Some((_, key)) if self == Self::Plain => {
                let setting = if *key == "block-size" { "block-size = 16384" } else { key };
                let message = format!(
                    "`{setting}` is NVMe's, and this drive is served as a plain block device: say --vfio-user or --nvme-tcp, or leave `{setting}` out"
                );
                Err(Mistake::at(*key, message))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses what a drive that is served cannot be.
pub fn check(spec: &DriveSpec, how: How) -> Result<(), Mistake> {
    if spec.delay > 0 {
        let message = "`delay` plays a slow medium where time stands still; in real time take a model, such as model=fixed:5ms";
        return Err(Mistake::at("delay", message));
    }
    if spec.controllers != 1 {
        let message = "`controllers` is of a machine's drive; a served drive has one for each place: say --vfio-user one.sock,two.sock, or --nvme-tcp with several addresses, and leave `controllers` out";
        return Err(Mistake::at("controllers", message));
    }
    how.check(spec)
}

/// A drive to be served in `folder`. `patience`: how long to wait for a medium that is locked or a
/// device in use.
pub fn new(
    spec: &DriveSpec,
    how: How,
    index: usize,
    seed: u64,
    base: &Path,
    folder: &Path,
    patience: Duration,
) -> Result<Planned> {
    let name = spec.name.clone().unwrap_or_else(|| format!("drive{index}"));
    let context = format!("drive {name}");
    checked(spec, how, index, seed, [base, folder], name, patience).context(context)
}

fn checked(
    spec: &DriveSpec,
    how: How,
    index: usize,
    seed: u64,
    [base, folder]: [&Path; 2],
    name: String,
    patience: Duration,
) -> Result<Planned> {
    check(spec, how)?;
    let model = resolved(spec.model.clone(), base, spec.has_pairs())?;
    let medium = spec.medium.or_size(model.capacity(), base);
    let (discard, before) = match how {
        How::Plain => (keep::check_plain(&medium, base, spec.state)?, None),
        How::Nvme => (None, keep::Before::look(&medium, base)?),
    };
    let resolved = DriveSpec { model: model.clone(), medium: medium.clone(), ..spec.clone() };
    let described = Described {
        index: u16::try_from(index)?,
        seed: stasis_runner::drive_seed(seed, u16::try_from(index)?),
        path: spec.path.unwrap_or(0),
        lasting: !matches!(medium, MediumSpec::Ram { .. }),
        pairs: spec.has_pairs(),
        base: base.to_owned(),
        model,
    };
    let interface = "vhost-user-blk";
    let label = spec.medium.label();
    let shown = stasis_runner::describe(name.clone(), &described.model, interface, label.clone());
    let description = Arc::new(described);
    let described = Arc::clone(&description);
    let opening = Opening { name: name.clone(), description: described, medium, patience, discard };
    let config = Config {
        capacity: 0,
        block_size: u32::try_from(spec.block_size)?,
        identifier: spec.serial_number(index),
        queues: queues(spec),
        queue_size: QUEUE_SIZE,
        max_segments: SEGMENTS,
        max_segment_bytes: SEGMENT,
        notify: Doorbells::Lazy,
        ..Config::default()
    };
    let new = NewDrive {
        ublk: false,
        nvme_tcp: None,
        vfio_user: None,
        path: folder.join(format!("{name}.sock")),
        listener: None,
        own: true,
        config,
        description,
        made: Made::default(),
        medium: label,
        record: None,
        open: Box::new(move || opening.open().map_err(|error| failure::told(&error))),
        name,
    };
    Ok(Planned { new, shown, spec: resolved, before })
}

/// Limit on the queues that a client can ask for: 16, unless the drive sets another number.
pub fn queues(spec: &DriveSpec) -> u16 {
    spec.queues.unwrap_or(16).clamp(1, 64)
}

/// Makes the drive a block device of this host's, with a link to it in `folder`.
pub fn as_ublk(planned: &mut Planned, spec: &DriveSpec, folder: &Path) {
    planned.shown.interface = "ublk".into();
    let drive = &mut planned.new;
    drive.ublk = true;
    drive.path = folder.join(format!("{}.ublk", drive.name));
    // One thread serves all of them; more only spare the host's locks.
    drive.config.queues = spec.queues.unwrap_or(1).clamp(1, 64);
}

/// A drive as it was described.
#[derive(Clone)]
struct Described {
    index: u16,
    model: ModelSpec,
    base: PathBuf,
    seed: u64,
    /// Which of a shared drive's paths it is.
    path: u64,
    lasting: bool,
    /// True if it has pairs of keys and values.
    pairs: bool,
}

/// A model whose files are read, which start at `base`; with `pairs` it knows of their log.
fn resolved(mut model: ModelSpec, base: &Path, pairs: bool) -> Result<ModelSpec> {
    model.resolve(base)?;
    if pairs {
        model.for_pairs();
    }
    Ok(model)
}

impl Description for Described {
    fn index(&self) -> usize {
        self.index.into()
    }

    fn label(&self) -> String {
        self.model.label()
    }

    fn model(&self, capacity: u64) -> Result<Option<Box<dyn Model>>, String> {
        self.model.check(capacity).map_err(|error| failure::told(&error.into()))?;
        build(&self.model, self.seed, capacity, self.path).map_err(|error| failure::told(&error))
    }

    fn with_model(&self, model: serde_json::Value) -> Result<Arc<dyn Description>, String> {
        let read = || -> Result<ModelSpec> {
            let model = stasis_config::read_table(model).context("the model")?;
            resolved(model, &self.base, self.pairs)
        };
        let model = read().map_err(|error| failure::told(&error))?;
        Ok(Arc::new(Self { model, ..self.clone() }))
    }

    fn is_lasting(&self) -> bool {
        self.lasting
    }
}

/// Parameters with which the thread that serves a drive opens it.
struct Opening {
    name: String,
    description: Arc<Described>,
    medium: MediumSpec,
    patience: Duration,
    /// The state file of another kind of drive, which goes once the medium is this one's.
    discard: Option<PathBuf>,
}

/// Time that a server which starts waits for a medium: one that was killed or replaced has it until
/// the kernel has ended its I/Os.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Opens what another may have for a moment yet.
fn patiently<T>(patience: Duration, mut open: impl FnMut() -> Result<T>) -> Result<T> {
    let start = std::time::Instant::now();
    loop {
        match open() {
            Err(error) if start.elapsed() < patience && is_taken(&error) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

fn is_taken(error: &anyhow::Error) -> bool {
    use stasis_qcow2::ImageError;
    error.chain().any(|cause| {
        // An image's error speaks for the medium's, which is not in the chain then.
        matches!(cause.downcast_ref(), Some(OpenError::Locked(_) | OpenError::Busy(_)))
            || matches!(
                cause.downcast_ref(),
                Some(ImageError::Open(OpenError::Locked(_) | OpenError::Busy(_)))
            )
            || matches!(cause.downcast_ref(), Some(stasis_ordered_disk::OpenError::Locked(_)))
    })
}

impl Opening {
    fn open(self) -> Result<Store> {
        let Self { name, description, medium, patience, discard } = self;
        let Described { index, model, base, seed, path, .. } = &*description;
        let options = OpenOptions { execution: Execution::Polled, delay: Duration::ZERO, base };
        let (image, medium) = match &medium {
            MediumSpec::Qcow2 { path, settings } => {
                let path = base.join(path);
                let (opening, medium) =
                    patiently(patience, || Ok(stasis_qcow2::open_files(&path, true, &options)?))?;
                (Some((opening, *settings)), medium)
            }
            MediumSpec::Ordered { path, size, settings } => {
                let path = base.join(path);
                let medium = patiently(patience, || open_ordered(&path, *size, settings))?;
                (None, Box::new(medium) as Box<dyn HostMedium>)
            }
            medium => (None, patiently(patience, || Ok(medium.open(&options)?))?),
        };
        let model = build(model, *seed, medium.capacity(), *path)?;
        if let Some(file) = discard {
            keep::discard(&file)?;
        }
        let drive = SharedRealTime::new(RealTime::new(*index, name, model, medium));
        let store = match image {
            None => Store::new(drive),
            Some((opening, settings)) => {
                Store::with_image(drive, |below| -> Result<Box<dyn Layer>> {
                    let below = match settings.durability {
                        Durability::Flush => below,
                        // A file of this host has no barriers.
                        Durability::Barrier | Durability::Ordered => {
                            Box::new(FlushBarriers::new(below))
                        }
                    };
                    Ok(Box::new(opening.kill_safe().open(below, settings)?))
                })?
            }
        };
        Ok(store.with_seed(stasis_runner::fault_seed(*seed)))
    }
}

/// A disk in a host's file whose flushes may be orders.
fn open_ordered(path: &Path, size: Option<u64>, settings: &ImageSettings) -> Result<OrderedMedium> {
    if let (Some(size), false) = (size, path.exists()) {
        OrderedDisk::create(path, size)?;
    }
    let ImageSettings { durability, max_lag, max_lag_bytes } = *settings;
    let usual = stasis_ordered_disk::Options::default();
    let options = stasis_ordered_disk::Options { durability, max_lag, max_lag_bytes, ..usual };
    let (disk, recovered) = OrderedDisk::open(path, options)?;
    if recovered.replayed > 0 || recovered.cut > 0 {
        let stasis_ordered_disk::Recovered { replayed, cut } = recovered;
        let message = format!("recovered: {replayed} bytes of the log carried, {cut} cut off");
        stasis_serve::log::warn(&path.display().to_string(), &message);
    }
    Ok(OrderedMedium::new(Arc::new(disk), durability)?)
}

/// The model that times a drive; `None` where the drive takes no time.
fn build(model: &ModelSpec, seed: u64, capacity: u64, path: u64) -> Result<Option<Box<dyn Model>>> {
    if model.kind().is::<NullSpec>() {
        return Ok(None);
    }
    Ok(Some(model.build(&BuildContext { seed, capacity, path })?))
}
