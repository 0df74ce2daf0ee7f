//! Sharing of drives: virtual disks and host workloads, checked against the drives that hold them.

use std::path::Path;

use anyhow::{anyhow, bail, Context, Result};
use stasis_block::units::format_size;
use stasis_experiment::{
    jobs_of_pattern, DiskSpec, Experiment, MachineSpec, TenantSpec, WorkloadSpec,
};
use stasis_media::MediumSpec;
use stasis_scheduler::{NoneSpec, SchedulerKind, SchedulerSpec};
use stasis_workload::{Direction, JobError, JobFile, Load};

use crate::job_file;
use crate::media::{absolute, check_order, OpenMedium};
use crate::placed::Keyed;
use crate::plan::{PlannedDrive, PlannedMachine, PlannedWorkload, SharedRegion};

/// Alignment of a virtual disk's begin and end (bytes): whole blocks of any drive.
const BLOCK: u64 = 4096;

/// The experiment's drives, and which of them are shared.
pub struct Sharing<'a> {
    experiment: &'a Experiment,
    base: &'a Path,
    drives: Vec<Drive>,
}

struct Drive {
    planned: PlannedDrive,
    capacity: u64,
    /// Number among the shared drives.
    shared: Option<usize>,
}

impl<'a> Sharing<'a> {
    /// `drives` with their capacities, as the experiment names them; `base` is
    /// where its relative paths start.
    pub fn new(
        experiment: &'a Experiment,
        base: &'a Path,
        drives: Vec<(PlannedDrive, u64)>,
    ) -> Self {
        let mut count = 0;
        let drives = drives.into_iter().enumerate().map(|(index, (planned, capacity))| {
            let loads = experiment.workloads.iter();
            let used = loads.filter_map(|load| experiment.drive_of(load).ok()).any(|d| d == index);
            let shares = used
                || planned.spec.scheduler.is_some()
                || !planned.spec.limits.is_none()
                || !experiment.machine.several().is_empty();
            let shared = shares.then_some(count);
            count += usize::from(shares);
            Drive { planned, capacity, shared }
        });
        Self { experiment, base, drives: drives.collect() }
    }

    /// The drives of a machine that is alone: all, each whole.
    pub fn of_the_one_machine(&self) -> Vec<PlannedDrive> {
        let whole = |drive: &Drive| {
            let mut planned = drive.planned.clone();
            if let Some(number) = drive.shared {
                // The files of an image are the shared drive's.
                planned.links.clear();
                planned.on = Some(SharedRegion {
                    drive: number,
                    offset: 0,
                    length: drive.capacity,
                    tenant: TenantSpec {
                        limits: drive.planned.spec.limits,
                        ..TenantSpec::default()
                    },
                });
            }
            planned
        };
        self.drives.iter().map(whole).collect()
    }

    /// A machine's virtual disk: a region, or the place of `image` if it is given.
    pub fn disk(
        &self,
        machine: &MachineSpec,
        spec: &DiskSpec,
        serial: String,
        image: Option<&OpenMedium>,
    ) -> Result<PlannedDrive> {
        let drive = self.drive(self.experiment.drive_named(&spec.on).map_err(|e| anyhow!(e))?)?;
        let tenant = spec.tenant();
        let on = match image {
            Some(image) => drive.place_of_image(spec, image, tenant)?,
            None => drive.place(spec.offset, spec.size, tenant)?,
        };
        let mut disk = spec.drive(&drive.planned.spec);
        if image.is_some() {
            disk.medium = absolute(&disk.medium, self.base)?;
        }
        Ok(PlannedDrive {
            name: spec.name.clone().unwrap_or_default(),
            serial,
            queues: spec.queues.unwrap_or(machine.vcpus.min(64) as u16),
            links: image.map(|image| image.links.clone()).unwrap_or_default(),
            faults: Vec::new(),
            faulty: false,
            cuts: 0,
            state: None,
            on: Some(on),
            spec: disk,
            ..drive.planned.clone()
        })
    }

    /// A virtual disk as results name it.
    pub fn show(&self, drive: &PlannedDrive, spec: &DiskSpec) -> stasis_results::Drive {
        let place = drive.on.as_ref().and_then(|place| {
            let drive = self.drives.iter().find(|drive| drive.shared == Some(place.drive))?;
            Some(format!("{} from {} on", drive.planned.name, format_size(place.offset)))
        });
        let place = place.unwrap_or_default();
        drive.described(match spec.medium() {
            Some(image) => format!("{} on {place}", image.label()),
            None => place,
        })
    }

    fn drive(&self, index: usize) -> Result<&Drive> {
        self.drives.get(index).context("there is no such drive")
    }

    /// The host workloads.
    pub fn workloads(&self) -> Result<Vec<PlannedWorkload>> {
        let workloads = self.experiment.workloads.iter().enumerate().map(|(at, spec)| {
            let name = spec.name.clone().unwrap_or_default();
            let place = vec!["workload".into(), at.into()];
            let subject = format!("workload {name}");
            self.workload(spec).map_err(|error| error.within(self.experiment, place, subject))
        });
        workloads.collect()
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<PlannedWorkload, Keyed> {
        let drive = self.drive(self.experiment.drive_of(spec).map_err(|e| anyhow!(e))?)?;
        let tenant = spec.tenant();
        let place = drive.place(spec.offset, spec.size, tenant)?;
        let job = match (&spec.pattern, &spec.job, &spec.job_file) {
            (Some(pattern), ..) => {
                jobs_of_pattern(pattern, place.length).map_err(|e| anyhow!(e))?
            }
            (None, Some(job), _) => job.clone(),
            (None, None, Some(path)) => {
                let path = self.base.join(path);
                let text = job_file::read(&path).map_err(Keyed::at("job-file"))?;
                job_file::of(&text)
                    .with_context(|| path.display().to_string())
                    .map_err(Keyed::at("job-file"))?;
                text.to_string()
            }
            (None, None, None) => return Err(anyhow!("it does not say what it does").into()),
        };
        let jobs = jobs_of(&job)?;
        Load::new(&jobs, place.length, 0, 0)?;
        let name = spec.name.clone().unwrap_or_default();
        Ok(PlannedWorkload { name, job, place, group_weight: spec.group_weight })
    }

    /// Refuses other writers to a region that holds a machine's disk.
    pub fn check_overlaps(
        &self,
        machines: &[PlannedMachine],
        workloads: &[PlannedWorkload],
    ) -> Result<()> {
        let drives = machines.iter().flat_map(|machine| &machine.drives);
        let disks: Vec<(&PlannedDrive, &SharedRegion)> =
            drives.filter_map(|drive| Some((drive, drive.on.as_ref()?))).collect();
        for (index, (disk, place)) in disks.iter().enumerate() {
            let met = disks[..index].iter().find(|(_, beside)| place.meets(beside));
            if let Some((other, beside)) = met {
                bail!(
                    "the disks {} and {} overlap: {} and {}; give them places of their own",
                    other.name,
                    disk.name,
                    beside.describe(),
                    place.describe()
                );
            }
        }
        for load in workloads {
            let jobs = load.jobs()?;
            let writes = jobs.jobs.iter().any(|job| job.direction != Direction::Read);
            // The files of an image are no place that the host reads, either.
            let refused = |disk: &PlannedDrive| writes || disk.is_image();
            let met = disks.iter().find(|(disk, place)| refused(disk) && place.meets(&load.place));
            if let Some((disk, place)) = met {
                bail!(
                    "workload {} {} where the disk {} is, {}: give it an offset and a size of its \
                     own",
                    load.name,
                    if writes { "writes" } else { "reads" },
                    disk.name,
                    place.describe()
                );
            }
        }
        Ok(())
    }

    /// The drives that are shared.
    pub fn into_drives(self) -> Vec<PlannedDrive> {
        let shared = self.drives.into_iter().filter(|drive| drive.shared.is_some());
        shared
            .map(|Drive { mut planned, .. }| {
                // Without a scheduler each request goes to the drive as it comes.
                planned.spec.scheduler.get_or_insert_with(|| {
                    let kind = SchedulerKind::of(NoneSpec {});
                    SchedulerSpec { kind, depth: u32::from(u16::MAX) }
                });
                planned
            })
            .collect()
    }
}

impl Drive {
    fn place(&self, offset: u64, size: Option<u64>, tenant: TenantSpec) -> Result<SharedRegion> {
        let name = &self.planned.name;
        let Some(room) = self.capacity.checked_sub(offset).filter(|room| *room > 0) else {
            bail!(
                "it begins at {}, but the drive {name} has {}",
                format_size(offset),
                format_size(self.capacity)
            );
        };
        let length = size.unwrap_or(room / BLOCK * BLOCK);
        if length > room {
            bail!(
                "{} from {} on end past the drive {name}, which has {}",
                format_size(length),
                format_size(offset),
                format_size(self.capacity)
            );
        }
        if [offset, length].iter().any(|bytes| !bytes.is_multiple_of(BLOCK)) || length == 0 {
            bail!("offset and size must be multiples of {BLOCK} bytes, and size not 0");
        }
        let drive = self.shared.context("the drive is not shared")?;
        Ok(SharedRegion { drive, offset, length, tenant })
    }

    /// Region of an image's files, up to the size to which they can grow.
    fn place_of_image(
        &self,
        spec: &DiskSpec,
        image: &OpenMedium,
        tenant: TenantSpec,
    ) -> Result<SharedRegion> {
        let PlannedDrive { name, spec: on, .. } = &self.planned;
        if let MediumSpec::Qcow2 { .. } = on.medium {
            bail!("the drive {name} is an image itself: images lie on one of ram, file or device");
        }
        image.check_blocks(on.block_size)?;
        if let Some(MediumSpec::Qcow2 { settings, .. }) = spec.medium() {
            check_order(&settings, &self.planned, self.capacity)?;
        }
        let length = image.medium.capacity();
        let room = self.capacity.saturating_sub(spec.offset);
        if length > room {
            bail!(
                "its image can grow to {}, but the drive {name} has only {} from {} on: give the \
                 disk a lower offset, or the drive a larger medium",
                format_size(length),
                format_size(room),
                format_size(spec.offset)
            );
        }
        self.place(spec.offset, Some(length), tenant)
    }
}

impl SharedRegion {
    fn describe(&self) -> String {
        format!("{} from {} on", format_size(self.length), format_size(self.offset))
    }

    fn meets(&self, other: &Self) -> bool {
        let overlap = self.offset < other.offset.saturating_add(other.length)
            && other.offset < self.offset.saturating_add(self.length);
        self.drive == other.drive && overlap
    }
}

impl PlannedWorkload {
    /// Jobs of the workload.
    ///
    /// # Errors
    /// [`JobError`] if they are not right, which a plan's are.
    pub fn jobs(&self) -> Result<JobFile, JobError> {
        jobs_of(&self.job)
    }
}

/// The jobs of a plan's text.
fn jobs_of(text: &str) -> Result<JobFile, JobError> {
    JobFile::parse(text, &|name| std::env::var(name).ok())
}
