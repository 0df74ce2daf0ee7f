//! The drives of a plan, opened: models on media, images on those, schedulers
//! and host workloads, as machines get them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{anyhow, Context, Result};
use stasis_crash::{FaultInjector, Level, TraceStream};
use stasis_drive::{
    Drive, DriveFault, DriveFaultKind, Faults, Layer, LoadSpec, PowerCuts, Properties, Region,
    SharedDrive, WritePointers,
};
use stasis_experiment::Interface;
use stasis_machine::{Controller, DriveConfig, PathFault, Pause};
use stasis_media::{Execution, HostMedium, Medium, MediumSpec, OpenOptions, Pieces};
use stasis_models::BuildContext;
use stasis_nvme::AnaState;
use stasis_qcow2::{Opening, Settings};

use crate::plan::{drive_seed, PlannedDrive, RunPlan, SharedRegion};

/// Workloads draw other numbers than drives.
const WORKLOADS: u64 = 0x6c6f_6164;

/// Faults draw other numbers than the drives that they befall.
pub const FAULTS: u64 = 0x6661_756c_7473;

/// Seed of what the faults of a drive draw that has the seed `seed` ([`drive_seed`]).
pub fn fault_seed(seed: u64) -> u64 {
    seed ^ FAULTS
}

/// The drives of a plan.
pub struct Drives<'a> {
    plan: &'a RunPlan,
    stream: Option<&'a TraceStream>,
    shared: Vec<SharedDrive>,
    /// By the number of the machines' drive: an image whose files lie on a
    /// shared one.
    images: BTreeMap<usize, (Opening, Settings)>,
}

impl<'a> Drives<'a> {
    /// Opens the shared drives, with the images on them and their host
    /// workloads.
    pub fn open(plan: &'a RunPlan, stream: Option<&'a TraceStream>) -> Result<Self> {
        let mut drives = Self { plan, stream, shared: Vec::new(), images: BTreeMap::new() };
        for (number, drive) in plan.shared.iter().enumerate() {
            let subject = || format!("drive {}", drive.name);
            let pieces = drives.pieces(number, drive).with_context(subject)?;
            let layer = drives.build(drive, pieces).with_context(subject)?;
            let scheduler =
                drive.spec.scheduler.as_ref().context("a shared drive has a scheduler")?;
            drives.shared.push(SharedDrive::new(scheduler, layer));
        }
        for (index, load) in plan.workloads.iter().enumerate() {
            let place = &load.place;
            let spec = LoadSpec {
                name: load.name.clone(),
                jobs: load.jobs()?,
                region: Region { offset: place.offset, length: place.length },
                queue: place.tenant.queue().map_err(|error| anyhow!(error))?,
                group: load.group_weight,
                seed: drive_seed(plan.seed ^ WORKLOADS, u16::try_from(index)?),
            };
            let on = drives.on(place)?;
            on.add_load(&spec).with_context(|| format!("workload {}", load.name))?;
        }
        Ok(drives)
    }

    /// The shared drives.
    pub fn into_shared(self) -> Vec<SharedDrive> {
        self.shared
    }

    fn on(&self, place: &SharedRegion) -> Result<&SharedDrive> {
        self.shared.get(place.drive).context("there is no such shared drive")
    }

    /// Options to open the media of `drive`.
    fn options(&self, drive: &PlannedDrive) -> OpenOptions<'static> {
        let execution = match self.plan.repeatable {
            true => Execution::Synchronous,
            false => Execution::Asynchronous,
        };
        let delay = Duration::from_nanos(drive.spec.delay);
        OpenOptions { execution, delay, base: Path::new("/") }
    }

    /// The files of the images that lie on shared drive `number`, with their
    /// places.
    fn pieces(
        &mut self,
        number: usize,
        drive: &PlannedDrive,
    ) -> Result<Vec<(u64, Box<dyn HostMedium>)>> {
        let options = self.options(drive);
        let all = self.plan.machines.iter().flat_map(|machine| &machine.drives);
        let mut pieces = Vec::new();
        for (index, disk) in all.enumerate().filter(|(_, disk)| disk.is_image()) {
            let (Some(place), MediumSpec::Qcow2 { settings, .. }) = (&disk.on, &disk.spec.medium)
            else {
                continue;
            };
            if place.drive != number {
                continue;
            }
            let (opening, medium) =
                image(disk, &options).with_context(|| format!("disk {}", disk.name))?;
            pieces.push((place.offset, medium));
            self.images.insert(index, (opening, *settings));
        }
        Ok(pieces)
    }

    /// The machines' drive number `index` as its machine gets it.
    pub fn config(&mut self, index: usize, drive: &PlannedDrive) -> Result<DriveConfig> {
        let mut tenant = None;
        let mut layer: Box<dyn Layer> = match &drive.on {
            Some(place) => {
                let region = Region { offset: place.offset, length: place.length };
                let queue = place.tenant.queue().map_err(|error| anyhow!(error))?;
                let name = drive.name.clone();
                let disk = self.on(place)?.disk(u16::try_from(index)?, name, region, &queue);
                tenant = Some(disk.tenant());
                match self.images.remove(&index) {
                    Some((opening, settings)) => {
                        Box::new(opening.open(Box::new(disk.covering()), settings)?)
                    }
                    None => Box::new(disk),
                }
            }
            None => self.build(drive, Vec::new())?,
        };
        if let Some(stream) = self.stream {
            layer = Box::new(stream.tap(layer, Level::Guest, drive.block_size()));
        }
        let controller = controller(drive, &*layer)?;
        let paths = paths(drive);
        Ok(DriveConfig { drive: layer, tenant, controller, paths })
    }

    /// A drive on its medium, in which `pieces` lie.
    fn build(
        &self,
        drive: &PlannedDrive,
        pieces: Vec<(u64, Box<dyn HostMedium>)>,
    ) -> Result<Box<dyn Layer>> {
        let options = self.options(drive);
        let (image, mut medium) = match &drive.spec.medium {
            MediumSpec::Qcow2 { settings, .. } => {
                let (opening, medium) = image(drive, &options)?;
                (Some((opening, *settings)), medium)
            }
            medium if drive.overlay => (None, medium.open_below(&options)?),
            medium => (None, medium.open(&options)?),
        };
        if !pieces.is_empty() {
            medium = Box::new(Pieces::new(medium, pieces)?);
        }
        let capacity = medium.capacity();
        let drive_index = drive.number;
        let seed = drive_seed(self.plan.seed, drive_index);
        let context = BuildContext { seed, capacity, path: drive.path };
        let model = crate::controller::model(&drive.spec, &context)?;
        let mut layer = Drive::new(drive_index, drive.name.clone(), model, medium)
            .with_host_clock(Instant::now);
        if let Some(cost) = drive.spec.barrier {
            layer = layer.with_barrier(cost);
        }
        let mut layer: Box<dyn Layer> = Box::new(layer);
        // Without anything between them both ends are one.
        let between = image.is_some()
            || self.plan.fault.is_some()
            || drive.is_faulty()
            || drive.spec.scheduler.is_some();
        if let Some(stream) = self.stream.filter(|_| between) {
            layer = Box::new(stream.tap(layer, Level::Drive, drive.block_size()));
        }
        if drive.cuts > 0 {
            let strict = self.plan.strict;
            let ends = drive.state.iter().flat_map(|state| state.zone_ends());
            let cuts = PowerCuts::new(layer, drive.block_size(), drive.cuts, strict);
            layer = Box::new(cuts.with_pointers(WritePointers::new(ends)));
        }
        if drive.is_faulty() {
            let seed = fault_seed(seed);
            layer = Box::new(Faults::new(layer, drive.faults.clone(), seed));
        }
        if let Some(fault) = self.plan.fault {
            layer = Box::new(FaultInjector::new(layer, fault, drive.block_size().into()));
        }
        if let Some((opening, settings)) = image {
            layer = Box::new(opening.open(layer, settings)?);
        }
        Ok(layer)
    }
}

/// Opens the files of an image.
fn image(drive: &PlannedDrive, options: &OpenOptions) -> Result<(Opening, Box<dyn HostMedium>)> {
    let links = drive.links.clone();
    Ok(match drive.overlay {
        true => stasis_qcow2::open_kept(links, options)?,
        false => stasis_qcow2::open_links(links, true, options)?,
    })
}

/// The faults of each path to a drive.
pub fn paths(drive: &PlannedDrive) -> Vec<Vec<(PathFault, Pause)>> {
    let faults_of = |controller| {
        // A namespace has one size for all.
        let once = move |fault: &&DriveFault| {
            controller == 1 || fault.kind != DriveFaultKind::NamespaceResized
        };
        let faults = drive.faults.iter().filter(move |fault| fault.is_of(controller)).filter(once);
        faults.filter_map(path_fault).collect()
    };
    (1..=drive.spec.controllers).map(faults_of).collect()
}

/// The fault of a path that `fault` is, if it is one.
pub fn path_fault(fault: &DriveFault) -> Option<(PathFault, Pause)> {
    let &DriveFault { number, begin, end, triggered, .. } = fault;
    let kind = match fault.kind {
        DriveFaultKind::Gone => PathFault::Gone,
        DriveFaultKind::PathInaccessible => PathFault::Access(AnaState::Inaccessible),
        DriveFaultKind::PathNonOptimized => PathFault::Access(AnaState::NonOptimized),
        DriveFaultKind::NamespaceDetached => PathFault::Detached(fault.namespace),
        DriveFaultKind::NamespaceResized => {
            PathFault::Resized { nsid: fault.namespace, bytes: fault.size }
        }
        _ => return None,
    };
    Some((kind, Pause { number, begin, end, triggered }))
}

/// Returns the controller through which the guest sees `drive`.
fn controller(drive: &PlannedDrive, layer: &dyn Layer) -> Result<Controller> {
    let &Properties { capacity, discard_zeroes, power_loss, .. } = layer.properties();
    let mut nvme = drive.controller(capacity, discard_zeroes);
    // An image moves blocks, and a shared drive's disk need not begin where a unit does.
    if drive.links.is_empty() && drive.on.is_none() {
        nvme.atomic_unit = power_loss.atomic_unit;
    }
    Ok(match drive.spec.interface {
        Interface::Nvme => {
            let (state, link) = (drive.state.clone(), drive.spec.model.link().unwrap_or_default());
            Controller::Nvme {
                config: Box::new(nvme),
                state,
                link,
                controllers: drive.spec.controllers,
            }
        }
        Interface::VirtioBlk => Controller::Virtio(stasis_virtio::Config {
            capacity,
            block_size: drive.block_size(),
            identifier: drive.serial.clone(),
            queues: drive.queues,
            discard_zeroes,
            notify: drive.spec.doorbells,
            ..Default::default()
        }),
    })
}
