//! Runs a planned machine in this process.

use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use stasis_crash::{Level, Planted, Stream};
use stasis_drive::{Drive, Layer, LoadSpec, Region, Shared};
use stasis_experiment::{CpuSpeed, Doorbells, Interface};
use stasis_guest::build::Guest;
use stasis_journal::{Journal, Outcome};
use stasis_machine::{Config, Controller, DriveConfig, MachineConfig, Rewind, Speed};
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_models::BuildContext;
use stasis_virtio::NotifyPolicy;
use stasis_workload::JobFile;

use super::plan::{drive_seed, input, Plan, PlannedDrive};
use super::recording::Drained;

/// How long a completion waits for the guest to become idle, with rewind: the
/// guest's own way from a doorbell to idle takes less (measured: see
/// docs/benchmarks.md), and anything longer is other work.
const REWIND_WINDOW_NS: u64 = 5_000;

/// The files that a machine reads, by name.
pub trait Inputs {
    /// Length in bytes; `None` if there is none of that name.
    fn length(&self, name: &str) -> Option<u64>;
    /// Fills `into` from the file's start.
    fn read(&mut self, name: &str, into: &mut [u8]) -> Result<()>;
}

/// Inputs in this machine's files.
pub struct Files<'a> {
    vmlinux: PathBuf,
    initramfs: PathBuf,
    root: PathBuf,
    files: &'a [u8],
}

impl<'a> Files<'a> {
    /// The guest's files and the archive of files for it.
    pub fn new(guest: &Guest, files: &'a [u8]) -> Self {
        Self {
            vmlinux: guest.vmlinux.clone(),
            initramfs: guest.initramfs.clone(),
            root: guest.root.clone(),
            files,
        }
    }

    fn path(&self, name: &str) -> Option<&Path> {
        match name {
            input::VMLINUX => Some(&self.vmlinux),
            input::INITRAMFS => Some(&self.initramfs),
            input::ROOT => Some(&self.root),
            _ => None,
        }
    }
}

impl Inputs for Files<'_> {
    fn length(&self, name: &str) -> Option<u64> {
        match self.path(name) {
            Some(path) => std::fs::metadata(path).ok().map(|metadata| metadata.len()),
            None => Some(self.files.len() as u64),
        }
    }

    fn read(&mut self, name: &str, into: &mut [u8]) -> Result<()> {
        match self.path(name) {
            Some(path) => {
                let file =
                    File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
                file.read_exact_at(into, 0)
                    .with_context(|| format!("cannot read {}", path.display()))
            }
            None => {
                into.copy_from_slice(self.files.get(..into.len()).context("too short")?);
                Ok(())
            }
        }
    }
}

fn whole(inputs: &mut dyn Inputs, name: &str) -> Result<Vec<u8>> {
    let length = inputs.length(name).ok_or_else(|| anyhow!("the input {name} is missing"))?;
    let mut bytes = vec![0; usize::try_from(length)?];
    inputs.read(name, &mut bytes)?;
    Ok(bytes)
}

/// Runs `plan` to its end.
pub fn run(
    plan: Plan,
    inputs: &mut dyn Inputs,
    journal: &mut dyn Journal,
    stop: Arc<AtomicBool>,
    wall_limit: Option<Duration>,
) -> Result<Outcome> {
    let vmlinux = whole(inputs, input::VMLINUX)?;
    let initramfs = whole(inputs, input::INITRAMFS)?;
    let files = if plan.machines.iter().any(|machine| machine.job.has_input) {
        whole(inputs, input::FILES)?
    } else {
        Vec::new()
    };
    let root_length =
        inputs.length(input::ROOT).ok_or_else(|| anyhow!("the root file system is missing"))?;
    let stream = plan.record.then(Stream::default);
    let shared = shared(&plan, stream.as_ref())?;
    let rewind = Rewind { window: REWIND_WINDOW_NS };
    let mut index = 0;
    let mut machines = Vec::new();
    for machine in &plan.machines {
        let mut drives = Vec::new();
        for drive in &machine.drives {
            let config = config(index, drive, &plan, &shared, stream.as_ref());
            drives.push(config.with_context(|| format!("drive {}", drive.name))?);
            index += 1;
        }
        machines.push(MachineConfig {
            name: machine.name.clone(),
            vcpus: machine.spec.vcpus,
            memory: machine.spec.memory,
            command_line: &machine.spec.kernel_command_line,
            job: machine.job.clone(),
            input: Box::new(Cursor::new(files.clone())),
            drives,
            seed: plan.seed,
            random: machine.spec.random,
            rewind: machine.spec.rewind.then_some(rewind),
            waited: machine.spec.wait,
        });
    }
    let slice = plan.machines.first().context("there is no machine")?.spec.slice;
    let mut journal = Drained { stream: stream.clone().unwrap_or_default(), journal };
    let outcome = stasis_machine::run(
        Config {
            machines,
            shared,
            speed: match plan.cpu_speed {
                CpuSpeed::Khz(khz) => Speed::Khz(khz),
                CpuSpeed::Times(times) => Speed::Times(times),
            },
            vmlinux: &vmlinux,
            initramfs: &initramfs,
            root_length,
            fill_root: &mut |into| inputs.read(input::ROOT, into).map_err(std::io::Error::other),
            repeatable: plan.repeatable,
            slice,
            virtual_limit: plan.virtual_limit,
            wall_limit,
            stop,
        },
        &mut journal,
    )?;
    Ok(outcome)
}

/// The shared drives with their host workloads.
fn shared(plan: &Plan, stream: Option<&Stream>) -> Result<Vec<Shared>> {
    let mut shared = Vec::new();
    for drive in &plan.shared {
        let layer = build(drive, plan, stream).with_context(|| format!("drive {}", drive.name))?;
        let scheduler = drive.scheduler.context("a shared drive has a scheduler")?;
        shared.push(Shared::new(&scheduler, layer));
    }
    for (index, load) in plan.workloads.iter().enumerate() {
        let place = &load.place;
        let spec = LoadSpec {
            name: load.name.clone(),
            jobs: JobFile::parse(&load.job, &|_| None)?,
            region: Region { offset: place.offset, length: place.length },
            queue: place.tenant.queue().map_err(|error| anyhow!(error))?,
            group: load.group_weight,
            seed: drive_seed(plan.seed ^ WORKLOADS, u16::try_from(index)?),
        };
        let on = shared.get(place.drive).context("there is no such shared drive")?;
        on.add_load(&spec).with_context(|| format!("workload {}", load.name))?;
    }
    Ok(shared)
}

/// Workloads draw other numbers than drives.
const WORKLOADS: u64 = 0x6c6f_6164;

/// A drive as its machine gets it.
fn config(
    index: usize,
    drive: &PlannedDrive,
    plan: &Plan,
    shared: &[Shared],
    stream: Option<&Stream>,
) -> Result<DriveConfig> {
    let mut layer: Box<dyn Layer> = match &drive.on {
        Some(place) => {
            let on = shared.get(place.drive).context("there is no such shared drive")?;
            let region = Region { offset: place.offset, length: place.length };
            let queue = place.tenant.queue().map_err(|error| anyhow!(error))?;
            Box::new(on.disk(u16::try_from(index)?, drive.name.clone(), region, &queue))
        }
        None => build(drive, plan, stream)?,
    };
    if let Some(stream) = stream {
        layer = Box::new(stream.record(layer, Level::Guest));
    }
    let controller = controller(drive, &*layer)?;
    Ok(DriveConfig { drive: layer, controller })
}

/// A drive on its medium.
fn build(drive: &PlannedDrive, plan: &Plan, stream: Option<&Stream>) -> Result<Box<dyn Layer>> {
    let execution = if plan.repeatable { Execution::Synchronous } else { Execution::Asynchronous };
    let delay = Duration::from_nanos(drive.delay);
    let options = OpenOptions { execution, delay, base: Path::new("/") };
    let (image, medium) = match &drive.medium {
        MediumSpec::Qcow2 { settings, .. } => {
            let (opening, medium) = stasis_image::open_links(drive.links.clone(), true, &options)?;
            (Some((opening, *settings)), medium)
        }
        medium => (None, medium.open(&options)?),
    };
    let capacity = medium.capacity();
    let drive_index = drive.number;
    let seed = drive_seed(plan.seed, drive_index);
    let model = drive.model.build(&BuildContext { seed, capacity, path: drive.path })?;
    let mut layer = Drive::new(drive_index, drive.name.clone(), model, medium);
    if let Some(cost) = drive.barrier {
        layer = layer.with_barrier(cost);
    }
    let mut layer: Box<dyn Layer> = Box::new(layer);
    // Without anything between them both ends are one.
    let between = image.is_some() || plan.plant.is_some() || drive.scheduler.is_some();
    if let Some(stream) = stream.filter(|_| between) {
        layer = Box::new(stream.record(layer, Level::Drive));
    }
    if let Some(plant) = plan.plant {
        layer = Box::new(Planted::new(layer, plant));
    }
    if let Some((opening, settings)) = image {
        layer = Box::new(opening.open(layer, settings)?);
    }
    Ok(layer)
}

/// What the guest sees `drive` as.
fn controller(drive: &PlannedDrive, layer: &dyn Layer) -> Result<Controller> {
    Ok(match drive.interface {
        Interface::Nvme => Controller::Nvme(super::controller::of(
            drive,
            layer.capacity(),
            layer.discard_zeroes(),
        )?),
        Interface::VirtioBlk => Controller::Virtio(stasis_virtio::Config {
            capacity: layer.capacity(),
            block_size: drive.block_size,
            identifier: drive.serial.clone(),
            queues: drive.queues,
            discard_zeroes: layer.discard_zeroes(),
            notify: match drive.doorbells {
                Doorbells::Exact => NotifyPolicy::Exact,
                Doorbells::Lazy => NotifyPolicy::Lazy,
            },
            ..Default::default()
        }),
    })
}
