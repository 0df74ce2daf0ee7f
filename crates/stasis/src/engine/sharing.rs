//! Who shares which drive: virtual disks and host workloads, checked against
//! the drives they lie on.

use std::path::Path;

use anyhow::{anyhow, bail, Context, Result};
use stasis_block::units::format_size;
use stasis_experiment::{
    jobs_of_pattern, DiskSpec, Experiment, MachineSpec, PlacementSpec, TenantSpec, WorkloadSpec,
};
use stasis_scheduler::{Kind, SchedulerSpec};
use stasis_workload::{Direction, JobFile, Load};

use super::plan::{Place, PlannedDrive, PlannedMachine, PlannedWorkload};

/// Where a virtual disk may begin and end: whole blocks of any drive.
const BLOCK: u64 = 4096;

/// The experiment's drives, and which of them are shared.
pub struct Sharing<'a> {
    experiment: &'a Experiment,
    drives: Vec<Drive>,
}

struct Drive {
    planned: PlannedDrive,
    capacity: u64,
    /// Its number among those that are shared.
    shared: Option<usize>,
}

impl<'a> Sharing<'a> {
    /// `drives` with their capacities, as the experiment names them.
    pub fn new(experiment: &'a Experiment, drives: Vec<(PlannedDrive, u64)>) -> Self {
        let mut count = 0;
        let drives = drives.into_iter().enumerate().map(|(index, (planned, capacity))| {
            let loads = experiment.workloads.iter();
            let used = loads.filter_map(|load| experiment.drive_of(load).ok()).any(|d| d == index);
            let shares =
                used || planned.scheduler.is_some() || !experiment.machine.several().is_empty();
            let shared = shares.then_some(count);
            count += usize::from(shares);
            Drive { planned, capacity, shared }
        });
        Self { experiment, drives: drives.collect() }
    }

    /// The drives of a machine that is alone: all, each whole.
    pub fn of_the_one_machine(&self) -> Vec<PlannedDrive> {
        let whole = |drive: &Drive| {
            let mut planned = drive.planned.clone();
            planned.on = drive.shared.map(|number| Place {
                drive: number,
                offset: 0,
                length: drive.capacity,
                tenant: TenantSpec::default(),
            });
            planned
        };
        self.drives.iter().map(whole).collect()
    }

    /// A machine's virtual disk.
    pub fn disk(
        &self,
        machine: &MachineSpec,
        spec: &DiskSpec,
        serial: String,
    ) -> Result<PlannedDrive> {
        let drive = self.drive(self.experiment.drive_named(&spec.on).map_err(|e| anyhow!(e))?)?;
        let tenant = TenantSpec { weight: spec.weight, ioprio: spec.ioprio.clone() };
        let on = Some(drive.place(spec.offset, spec.size, tenant)?);
        Ok(PlannedDrive {
            name: spec.name.clone().unwrap_or_default(),
            serial: spec.serial.clone().unwrap_or(serial),
            interface: spec.interface,
            queues: spec.queues.unwrap_or(machine.vcpus.min(64) as u16),
            doorbells: spec.doorbells,
            namespaces: 1,
            placement: PlacementSpec::None,
            zones: None,
            physical: None,
            on,
            ..drive.planned.clone()
        })
    }

    /// A virtual disk as results name it.
    pub fn show(&self, drive: &PlannedDrive) -> stasis_report::Drive {
        let place = drive.on.as_ref().and_then(|place| {
            let drive = self.drives.iter().find(|drive| drive.shared == Some(place.drive))?;
            Some(format!("{} from {} on", drive.planned.name, format_size(place.offset)))
        });
        stasis_report::Drive {
            name: drive.name.clone(),
            model: drive.model.label(),
            interface: drive.interface.name().into(),
            medium: place.unwrap_or_default(),
        }
    }

    fn drive(&self, index: usize) -> Result<&Drive> {
        self.drives.get(index).context("there is no such drive")
    }

    /// The host workloads; `base` is where their job files' paths start.
    pub fn workloads(&self, base: &Path) -> Result<Vec<PlannedWorkload>> {
        let workloads = self.experiment.workloads.iter().map(|spec| {
            let name = spec.name.clone().unwrap_or_default();
            self.workload(spec, base).with_context(|| format!("workload {name}"))
        });
        workloads.collect()
    }

    fn workload(&self, spec: &WorkloadSpec, base: &Path) -> Result<PlannedWorkload> {
        let drive = self.drive(self.experiment.drive_of(spec).map_err(|e| anyhow!(e))?)?;
        let tenant = TenantSpec { weight: spec.weight, ioprio: spec.ioprio.clone() };
        let place = drive.place(spec.offset, spec.size, tenant)?;
        let job = match (&spec.pattern, &spec.job, &spec.job_file) {
            (Some(pattern), ..) => {
                jobs_of_pattern(pattern, place.length).map_err(|e| anyhow!(e))?
            }
            (None, Some(job), _) => job.clone(),
            (None, None, Some(path)) => {
                let path = base.join(path);
                std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?
            }
            (None, None, None) => bail!("it does not say what it does"),
        };
        let jobs = JobFile::parse(&job, &|name| std::env::var(name).ok())?;
        Load::new(&jobs, place.length, 0, 0)?;
        let name = spec.name.clone().unwrap_or_default();
        Ok(PlannedWorkload { name, job, place, group_weight: spec.group_weight })
    }

    /// Refuses that somebody writes where a machine has its disk.
    pub fn check_overlaps(
        &self,
        machines: &[PlannedMachine],
        workloads: &[PlannedWorkload],
    ) -> Result<()> {
        let drives = machines.iter().flat_map(|machine| &machine.drives);
        let disks: Vec<(&str, &Place)> =
            drives.filter_map(|drive| Some((&*drive.name, drive.on.as_ref()?))).collect();
        for (index, (name, place)) in disks.iter().enumerate() {
            for (other, beside) in &disks[..index] {
                if place.meets(beside) {
                    bail!("the disks {other} and {name} overlap: give them places of their own");
                }
            }
        }
        for load in workloads {
            let jobs = JobFile::parse(&load.job, &|name| std::env::var(name).ok())?;
            let writes = jobs.jobs.iter().any(|job| job.direction != Direction::Read);
            let met = disks.iter().find(|(_, place)| writes && place.meets(&load.place));
            if let Some((disk, _)) = met {
                bail!(
                    "workload {} writes where the disk {disk} is: give it an offset and a size of \
                     its own",
                    load.name
                );
            }
        }
        Ok(())
    }

    /// The drives that are shared.
    pub fn into_drives(self) -> Vec<PlannedDrive> {
        let shared = self.drives.into_iter().filter(|drive| drive.shared.is_some());
        shared
            .map(|Drive { planned, .. }| {
                // Without a scheduler each request goes to the drive as it comes.
                let all = SchedulerSpec { kind: Kind::None, depth: u32::from(u16::MAX) };
                let scheduler = Some(planned.scheduler.unwrap_or(all));
                PlannedDrive { scheduler, ..planned }
            })
            .collect()
    }
}

impl Drive {
    fn place(&self, offset: u64, size: Option<u64>, tenant: TenantSpec) -> Result<Place> {
        let name = &self.planned.name;
        let Some(left) = self.capacity.checked_sub(offset).filter(|left| *left > 0) else {
            bail!(
                "it begins at {}, but the drive {name} has {}",
                format_size(offset),
                format_size(self.capacity)
            );
        };
        let length = size.unwrap_or(left / BLOCK * BLOCK);
        if length > left {
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
        Ok(Place { drive, offset, length, tenant })
    }
}

impl Place {
    fn meets(&self, other: &Self) -> bool {
        let overlap = self.offset < other.offset.saturating_add(other.length)
            && other.offset < self.offset.saturating_add(self.length);
        self.drive == other.drive && overlap
    }
}
