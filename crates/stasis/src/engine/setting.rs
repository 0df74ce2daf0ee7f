//! From an experiment to a machine that can be run: media opened and checked,
//! models resolved, the engine's needs met.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{bail, Context, Result};
use stasis_channel::Job;
use stasis_clock::Nanos;
use stasis_crash::{Head, HeadDrive};
use stasis_experiment::{CpuSpeed, DriveSpec, Engine, Experiment, Interface};
use stasis_guest::build::Guest;
use stasis_media::{Execution, Medium, MediumSpec, OpenOptions};

use super::plan::{device_names, Plan, PlannedDrive};
use super::recording::{self, Recording, WorkingCopy};
use super::{local, soft, RunError};
use crate::commands::image::newer_below;
use crate::commands::run::relay::Relay;

/// The guest's date at the start where a run must repeat: 2026-01-01 UTC.
const FIXED_DATE_NS: u64 = 1_767_225_600_000_000_000;

/// Instructions that Linux 6.1 and fio (psync, 4 KiB, queue depth 1, several
/// processors) spend on a read beside the drive: the median over 1000 reads
/// of fio's completion latency less the delivered one, times the CPU speed
/// (docs/benchmarks.md).
const PATH_INSTRUCTIONS: u64 = 9_900;

/// Everything a run is made from.
pub struct Setting<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Where its relative paths start.
    pub base: &'a Path,
    /// The guest's files.
    pub guest: &'a Guest,
    /// Files for the guest, as a tar archive.
    pub input: &'a [u8],
    /// Where it runs; not `auto`.
    pub engine: Engine,
    /// Whether and where the drives are recorded.
    pub recording: Option<&'a Recording>,
}

/// A machine ready to run.
pub struct Prepared<'a> {
    setting: Setting<'a>,
    plan: Plan,
    /// Holds the media's locks while a software host uses them.
    media: Vec<Box<dyn Medium>>,
    /// What a recorded run works on, gone at its end.
    copies: Vec<WorkingCopy>,
    /// What is recorded of each drive beside its commands.
    heads: Vec<HeadDrive>,
    wall_limit: Option<Duration>,
}

impl<'a> Setting<'a> {
    /// Opens and checks everything that can be wrong before a machine is made.
    pub fn prepare(self) -> Result<Prepared<'a>> {
        let experiment = self.experiment;
        let mut drives = Vec::new();
        let (mut media, mut copies, mut heads) = (Vec::new(), Vec::new(), Vec::new());
        for (index, spec) in experiment.drives.iter().enumerate() {
            let name = spec.name.clone().unwrap_or_else(|| format!("drive{index}"));
            let (drive, medium) =
                self.drive(index, spec, &name).with_context(|| format!("drive {name}"))?;
            let (drive, head) =
                self.record(index, drive, &mut copies).with_context(|| format!("drive {name}"))?;
            drives.push(drive);
            media.push(medium);
            heads.push(head);
        }
        let exact = self.engine == Engine::Exact;
        let cpu_speed = self.cpu_speed();
        let mut job = Job::new(experiment.command.clone());
        job.has_input = !self.input.is_empty();
        job.seed = experiment.seed;
        job.drives = device_names(drives.iter().map(|drive| drive.interface));
        job.realtime_ns = if exact {
            FIXED_DATE_NS
        } else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(now.as_nanos()).unwrap_or(FIXED_DATE_NS)
        };
        let plan = Plan {
            machine: experiment.machine.clone(),
            cpu_speed,
            repeatable: exact,
            seed: experiment.seed,
            job,
            virtual_limit: experiment.virtual_limit,
            record: self.recording.is_some(),
            plant: self.recording.and_then(|recording| recording.plant),
            drives,
        };
        let wall_limit = experiment.wall_limit.map(Duration::from_nanos);
        Ok(Prepared { setting: self, plan, media, copies, heads, wall_limit })
    }

    /// The same drive, on a copy of its medium where it is recorded.
    fn record(
        &self,
        index: usize,
        mut drive: PlannedDrive,
        copies: &mut Vec<WorkingCopy>,
    ) -> Result<(PlannedDrive, HeadDrive)> {
        let mut head = HeadDrive { name: drive.name.clone(), ..HeadDrive::default() };
        let Some(recording) = self.recording else { return Ok((drive, head)) };
        if let MediumSpec::Qcow2 { settings, .. } = &drive.medium {
            head.image = Some(*settings);
        }
        copies.extend(recording.copy(index, &mut drive, &mut head)?);
        Ok((drive, head))
    }

    /// What the guest's own software adds to a read as fio sees it (ns).
    fn path(&self) -> Nanos {
        match (self.engine, self.cpu_speed()) {
            // An instruction is a tick.
            (Engine::Exact, CpuSpeed::Khz(khz)) => PATH_INSTRUCTIONS * 1_000_000 / khz,
            // The software host's TSC has 1 GHz.
            (Engine::Exact, CpuSpeed::Times(times)) => (PATH_INSTRUCTIONS as f64 / times) as Nanos,
            _ => 0,
        }
    }

    fn cpu_speed(&self) -> CpuSpeed {
        self.experiment.machine.cpu_speed.unwrap_or(match self.engine {
            Engine::Exact => CpuSpeed::EXACT_DEFAULT,
            _ => CpuSpeed::Times(1.0),
        })
    }

    fn drive(
        &self,
        index: usize,
        spec: &DriveSpec,
        name: &str,
    ) -> Result<(PlannedDrive, Box<dyn Medium>)> {
        let mut model = spec.model.clone();
        model.resolve(self.base)?;
        let options = OpenOptions {
            execution: Execution::Synchronous,
            delay: Duration::ZERO,
            base: self.base,
        };
        let written = self.recording.is_none();
        let Held { medium, capacity, links } = hold(&spec.medium, written, &options)?;
        if capacity % spec.block_size != 0 {
            bail!(
                "its medium has {} bytes, which is no multiple of its block size {}",
                capacity,
                spec.block_size
            );
        }
        model.check(medium.capacity())?;
        if capacity / u64::from(spec.namespaces) < 4096 {
            bail!(
                "its medium has {} bytes, too few for {} namespaces of 4096 at least",
                capacity,
                spec.namespaces
            );
        }
        let queues = spec.queues.unwrap_or(self.experiment.machine.vcpus.min(64) as u16);
        let drive = PlannedDrive {
            name: name.to_owned(),
            serial: spec.serial.clone().unwrap_or_else(|| format!("STASIS{index}")),
            model,
            medium: absolute(&spec.medium, self.base)?,
            links,
            barrier: spec.barrier,
            delay: spec.delay,
            path: spec.path.unwrap_or_else(|| self.path()),
            interface: spec.interface,
            queues,
            doorbells: spec.doorbells,
            block_size: spec.block_size as u32,
            namespaces: spec.namespaces,
            placement: spec.placement,
            zones: spec.zones.clone(),
            physical: spec.physical.clone(),
        };
        if spec.interface == Interface::Nvme {
            super::controller::of(&drive, medium.capacity(), medium.discard_zeroes())?.check()?;
        }
        Ok((drive, medium))
    }
}

/// A medium that is open, so that nobody else opens it.
struct Held {
    medium: Box<dyn Medium>,
    /// What the guest sees (bytes).
    capacity: u64,
    links: Vec<stasis_image::Link>,
}

fn hold(medium: &MediumSpec, written: bool, options: &OpenOptions) -> Result<Held> {
    if let MediumSpec::Qcow2 { path, .. } = medium {
        let (opening, medium) = stasis_image::open_files(path, written, options)?;
        for newer in opening.found().newer_below()? {
            eprintln!("stasis: {}", newer_below(&newer));
        }
        let mut links = opening.found().links.clone();
        for link in &mut links {
            link.path = std::fs::canonicalize(&link.path)
                .with_context(|| format!("cannot find {}", link.path.display()))?;
        }
        return Ok(Held { medium, capacity: opening.size(), links });
    }
    let medium = medium.open(options)?;
    Ok(Held { capacity: medium.capacity(), medium, links: Vec::new() })
}

/// The same medium, wherever the process that opens it stands.
fn absolute(medium: &MediumSpec, base: &Path) -> Result<MediumSpec> {
    let whole = |path: &Path| {
        let path = base.join(path);
        std::fs::canonicalize(&path).with_context(|| format!("cannot find {}", path.display()))
    };
    Ok(match medium {
        MediumSpec::Ram { size } => MediumSpec::Ram { size: *size },
        MediumSpec::File { path, size, direct } => {
            MediumSpec::File { path: whole(path)?, size: *size, direct: *direct }
        }
        MediumSpec::Qcow2 { path, settings } => {
            MediumSpec::Qcow2 { path: whole(path)?, settings: *settings }
        }
        MediumSpec::Device { path, direct } => {
            MediumSpec::Device { path: whole(path)?, direct: *direct }
        }
    })
}

impl Prepared<'_> {
    /// The drives as results name them.
    pub fn drives(&self) -> Vec<stasis_report::Drive> {
        let specs = &self.setting.experiment.drives;
        self.plan
            .drives
            .iter()
            .zip(specs)
            .map(|(drive, spec)| stasis_report::Drive {
                name: drive.name.clone(),
                model: drive.model.label(),
                interface: spec.interface.name().into(),
                medium: match spec.delay {
                    0 => spec.medium.label(),
                    delay => format!(
                        "{} + {}",
                        spec.medium.label(),
                        stasis_block::units::format_duration(delay)
                    ),
                },
            })
            .collect()
    }

    /// What has to be known of the run beside what its drives are asked.
    pub fn head(&self) -> Head {
        let experiment = self.setting.experiment;
        recording::head(&experiment.command, experiment.seed, self.heads.clone(), self.plan.plant)
    }

    /// Runs it to its end.
    pub fn run(self, relay: &mut Relay, stop: &Arc<AtomicBool>) -> Result<(), RunError> {
        let Self { setting, plan, media, wall_limit, copies, .. } = self;
        let outcome = match setting.engine {
            Engine::Kvm => {
                drop(media); // opened again, by the machine
                let mut files = local::Files::new(setting.guest, setting.input);
                let outcome = local::run(plan, &mut files, relay, Arc::clone(stop), wall_limit)?;
                stasis_journal::Journal::entry(
                    relay,
                    stasis_journal::Entry::Outcome(Box::new(outcome)),
                )?;
                Ok(())
            }
            _ => soft::run(&setting, plan, wall_limit, relay, stop),
        };
        drop(copies);
        outcome
    }
}
