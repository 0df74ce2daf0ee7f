//! From a drive's description to what a server serves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use stasis_drive::Layer;
use stasis_experiment::DriveSpec;
use stasis_media::{Execution, ImageSettings, Medium, MediumSpec, OpenError, OpenOptions};
use stasis_models::{BuildContext, Model, ModelSpec, NullSpec};
use stasis_ordered_disk::{OrderedDisk, OrderedMedium};
use stasis_runner::failure;
use stasis_serve::{NewDrive, RealTime, Shared, SharedLayer, Store};
use stasis_virtio::{Config, NotifyPolicy};

/// Most queues that a client can ask for, unless the drive says otherwise.
const QUEUES: u16 = 16;
/// Entries of a queue at most.
const QUEUE_SIZE: u16 = 1024;
/// Most pieces of a request: what fits the queues of 128 entries that VMMs make
/// if nothing else is said.
const SEGMENTS: u16 = 126;
/// Most bytes of a piece.
const SEGMENT: u32 = 64 << 10;

/// A drive to be served in `folder`.
pub fn new(
    spec: &DriveSpec,
    index: usize,
    seed: u64,
    base: &Path,
    folder: &Path,
) -> Result<NewDrive> {
    let name = spec.name.clone().unwrap_or_else(|| format!("drive{index}"));
    let context = format!("drive {name}");
    checked(spec, index, seed, base, folder, name).context(context)
}

fn checked(
    spec: &DriveSpec,
    index: usize,
    seed: u64,
    base: &Path,
    folder: &Path,
    name: String,
) -> Result<NewDrive> {
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        bail!(
            "its name is part of its socket's and may have letters, digits, `-`, `_` and `.` only"
        );
    }
    if spec.delay > 0 {
        bail!("`delay` plays a slow medium where time stands still; in real time take a model, such as model=fixed:5ms");
    }
    if spec.zones.is_some() || spec.ocssd.is_some() {
        bail!("zones and Open-Channel are NVMe's; a served drive is a virtio block device");
    }
    let mut model = spec.model.clone();
    model.resolve(base)?;
    let seed = stasis_runner::drive_seed(seed, u16::try_from(index)?);
    let opening = Opening {
        index: u16::try_from(index)?,
        name: name.clone(),
        model: model.clone(),
        medium: spec.medium.or_size(model.capacity(), base),
        base: base.to_owned(),
        seed,
        path: spec.path.unwrap_or(0),
    };
    let config = Config {
        capacity: 0,
        block_size: u32::try_from(spec.block_size)?,
        identifier: spec.serial.clone().unwrap_or_else(|| format!("STASIS{index}")),
        queues: spec.queues.unwrap_or(QUEUES).clamp(1, 64),
        queue_size: QUEUE_SIZE,
        max_segments: SEGMENTS,
        max_segment_bytes: SEGMENT,
        notify: NotifyPolicy::Lazy,
        ..Config::default()
    };
    Ok(NewDrive {
        ublk: false,
        path: folder.join(format!("{name}.sock")),
        listener: None,
        own: true,
        config,
        model: model.label(),
        parameters: stasis_runner::parameters(&model),
        medium: spec.medium.label(),
        record: None,
        open: Box::new(move || opening.open().map_err(|error| failure::told(&error))),
        name,
    })
}

/// Makes the drive a block device of this host's, with a link to it in `folder`.
pub fn as_ublk(drive: &mut NewDrive, spec: &DriveSpec, folder: &Path) {
    drive.ublk = true;
    drive.path = folder.join(format!("{}.ublk", drive.name));
    // One thread serves all of them; more only spare the host's locks.
    drive.config.queues = spec.queues.unwrap_or(1).clamp(1, 64);
}

/// What the thread that serves a drive needs to open it.
struct Opening {
    index: u16,
    name: String,
    model: ModelSpec,
    medium: MediumSpec,
    base: std::path::PathBuf,
    seed: u64,
    path: u64,
}

/// How long to wait for a medium that is locked or a device in use: a server that
/// was killed or replaced has it until the kernel has ended its I/Os.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Opens what another may have for a moment yet.
fn patiently<T>(mut open: impl FnMut() -> Result<T>) -> Result<T> {
    let start = std::time::Instant::now();
    loop {
        match open() {
            Err(error) if start.elapsed() < TIMEOUT && is_taken(&error) => {
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
        let Self { index, name, model, medium, base, seed, path } = self;
        let options =
            OpenOptions { execution: Execution::Polled, delay: Duration::ZERO, base: &base };
        let (image, medium) = match &medium {
            MediumSpec::Qcow2 { path, settings } => {
                let path = base.join(path);
                let (opening, medium) =
                    patiently(|| Ok(stasis_qcow2::open_files(&path, true, &options)?))?;
                (Some((opening, *settings)), medium)
            }
            MediumSpec::Ordered { path, size, settings } => {
                let path = base.join(path);
                let medium = patiently(|| open_ordered(&path, *size, settings))?;
                (None, Box::new(medium) as Box<dyn Medium>)
            }
            medium => (None, patiently(|| Ok(medium.open(&options)?))?),
        };
        let model = build(&model, seed, medium.capacity(), path)?;
        let drive = Shared::new(RealTime::new(index, name, model, medium, false));
        let mut store = Store::new(drive.clone());
        if let Some((opening, settings)) = image {
            let below: Box<dyn Layer> = Box::new(SharedLayer::new(&drive));
            store.top = Some(Box::new(opening.kill_safe().open(below, settings)?));
        }
        Ok(store)
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
        let told = format!("recovered: {replayed} bytes of the log carried, {cut} cut off");
        stasis_serve::log::warn(&path.display().to_string(), &told);
    }
    Ok(OrderedMedium::new(Arc::new(disk), durability)?)
}

/// What times a drive; nothing does where it takes no time.
pub fn build(
    model: &ModelSpec,
    seed: u64,
    capacity: u64,
    path: u64,
) -> Result<Option<Box<dyn Model>>> {
    if model.kind().is::<NullSpec>() {
        return Ok(None);
    }
    Ok(Some(model.build(&BuildContext { seed, capacity, path })?))
}
