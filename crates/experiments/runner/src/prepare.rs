//! Preparation of an experiment's machine: media are opened and checked, models resolved, the
//! engine's needs met.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, bail, Context, Result};
use stasis_block::clock::Nanos;
use stasis_block::units::format_duration;
use stasis_channel::{Begins, Job, RootDevice};
use stasis_config::Step;
use stasis_crash::{TraceHeader, TracedDrive};
use stasis_experiment::{
    distinct_serials, host_name, CpuSpeed, DriveSpec, Engine, Experiment, Interface,
    MachineFailure, MachineFailureKind, MachineSpec, Schedule,
};
use stasis_guest_image::{FileSystemKind, Lower};
use stasis_media::{HostMedium, Medium, MediumSpec, OpenError};
use stasis_network::SharedOutside;
use stasis_run_events::{DebugJob, Moment};

use crate::changed::Changed;
use crate::changes;
use crate::container;
use crate::keep::{Before, Keep};
use crate::media::{absolute, check_order, MediumOwners, OpenMedium};
use crate::placed::{place_of_drive, placed, Keyed};
use crate::plan::{
    device_names, device_node, last_device, PlannedChange, PlannedDrive, PlannedMachine,
    PlannedRoot, RunPlan,
};
use crate::relay::Relay;
use crate::run_error::RunError;
use crate::run_setup::RunSetup;
use crate::sharing::Sharing;
use crate::trace::{self, WorkingCopy};
use crate::{input, networks, outside, software_host};

/// Instructions that Linux 6.1 and fio (psync, 4 KiB, queue depth 1) spend on a read
/// beside the drive, with one processor and with several: the mean over 5000 reads of
/// fio's completion latency less the delivered one, times the CPU speed
/// (docs/development/benchmarks.md).
const PATH_INSTRUCTIONS: [u64; 2] = [13_360, 8_810];

/// The word by which Linux lays out every program's address space alike
/// (Documentation/admin-guide/kernel-parameters.txt). QEMU 7.2 knows translated code by its virtual
/// address: otherwise each start of a program has it translate the program's code again.
const FIXED_ADDRESSES: &str = "norandmaps";

/// A machine ready to run.
pub struct Prepared<'a> {
    setup: RunSetup<'a>,
    plan: RunPlan,
    /// The plan of the run that this one is a branch of, and the moment from which it is.
    base: Option<(RunPlan, Option<Moment>)>,
    shown: Vec<stasis_results::Drive>,
    /// The reader of a root that is read in place.
    root: Option<Lower>,
    /// The world outside, if a network leads there.
    outside: Option<SharedOutside>,
    /// Holds the media's locks while a software host uses them.
    media: Vec<Box<dyn HostMedium>>,
    /// The kept state of each of the machines' drives whose medium lasts.
    keeps: Vec<Option<Keep>>,
    /// Copies of media that a traced run works on, removed at its end.
    copies: Vec<WorkingCopy>,
    /// The trace's description of each drive.
    traced: Vec<TracedDrive>,
}

impl<'a> RunSetup<'a> {
    /// Opens and checks everything that can be wrong before a machine is made.
    pub fn prepare(self) -> Result<Prepared<'a>> {
        let experiment = self.experiment;
        if self.trace.is_some() && !experiment.machine.several().is_empty() {
            bail!("power cuts are for one machine: give it a table [machine] of its own");
        }
        let fails = |machine| experiment.failures_of(machine).is_ok_and(|all| !all.is_empty());
        if experiment.machine.all().iter().any(fails) {
            for (used, reason) in [
                (self.trace.is_some(), "a crash test cuts the power of all at its end"),
                (self.terminal.is_some(), "a terminal is of a machine that stays on"),
            ] {
                if used {
                    bail!(
                        "{reason}: leave out the faults of machines (`power-cut`, `reset` and so on)"
                    );
                }
            }
        }
        if self.terminal.is_some() && !experiment.machine.several().is_empty() {
            bail!("a terminal is for one machine: give it a table [machine] of its own");
        }
        if self.engine == Engine::Exact && experiment.machine.threads.is_some_and(|count| count > 1)
        {
            bail!("threads: a run that repeats runs its processors in turn; leave it out, or take --engine softkvm");
        }
        if self.engine != Engine::Exact && experiment.machine.schedule != Schedule::InTurn {
            bail!(
                "schedule: processors run as this says under the engine exact alone, which repeats runs: \
                 --engine exact"
            );
        }
        let is_random = experiment.machine.schedule == Schedule::Random;
        if is_random && experiment.machine.all().iter().all(|machine| machine.vcpus == 1) {
            bail!("schedule: one processor has one schedule; give the machine several, for example vcpus = 2");
        }
        let base = self.changed.map(|changed| self.base(changed)).transpose()?;
        let outside = outside::connect(&experiment.networks, self.engine)?;
        let (kind, root) = self.guest.lower()?.unzip();
        let (mut media, mut copies, mut traced) = (Vec::new(), Vec::new(), Vec::new());
        let (mut top, mut owners) = (Vec::new(), MediumOwners::new(self.base));
        let (mut kept, mut keeps) = (Vec::new(), Vec::new());
        for (index, spec) in experiment.drives.iter().enumerate() {
            let vcpus = experiment.machine.vcpus;
            let (drive, held, keep) = self.drive(index, spec, vcpus, &mut owners)?;
            let (drive, traced_drive) = self
                .traced_drive(index, drive, held.capacity, &mut copies)
                .with_context(|| format!("drive {}", spec.name.as_deref().unwrap_or_default()))?;
            top.push((drive, held.capacity));
            media.push(held.medium);
            traced.push(traced_drive);
            kept.push(keep);
        }
        let sharing = Sharing::new(experiment, self.base, top);
        let workloads = sharing.workloads()?;
        let (mut machines, mut shown) = (Vec::new(), Vec::new());
        if experiment.machine.several().is_empty() {
            let drives = sharing.of_the_one_machine();
            shown.extend(
                drives.iter().zip(&experiment.drives).map(|(drive, spec)| show(drive, spec)),
            );
            machines.push(self.machine(&experiment.machine, drives, kind)?);
            keeps = kept;
        }
        let mut number = experiment.drives.len();
        for (at, machine) in experiment.machine.several().iter().enumerate() {
            let mut drives = Vec::new();
            for spec in &machine.drives {
                let (mut drive, held, keep) =
                    self.drive(number, spec, machine.vcpus, &mut owners)?;
                number += 1;
                drive.serial = spec.serial_number(experiment.drives.len() + shown.len());
                keeps.push(keep);
                media.push(held.medium);
                shown.push(show(&drive, spec));
                drives.push(drive);
            }
            for (disk_at, disk) in machine.disks.iter().enumerate() {
                let serial = disk.serial_number(experiment.drives.len() + shown.len());
                let name = disk.name.as_deref().unwrap_or_default();
                let image = OpenMedium::image(disk, self.keeps_media(), self.base, &mut owners);
                let subject = || format!("disk {name}");
                let disk_error = |key: Option<&'static str>, error: anyhow::Error| {
                    let steps = ["machine".into(), at.into(), "disk".into(), disk_at.into()];
                    let place = steps.into_iter().chain(key.map(Step::from)).collect();
                    placed(experiment, place, error.context(subject()))
                };
                let image = image.map_err(|error| disk_error(Some("image"), error))?;
                let drive = sharing
                    .disk(machine, disk, serial, image.as_ref())
                    .map_err(|error| disk_error(None, error))?;
                let overlay = match image {
                    Some(_) => self.keeps_media(),
                    None => drive.overlay,
                };
                let drive = PlannedDrive { overlay, ..drive };
                if drive.overlay && image.is_some() {
                    self.tell_kept(&subject(), &drive.spec.medium)?;
                }
                keeps.push(None);
                shown.push(sharing.show(&drive, disk));
                drives.push(drive);
                for warning in image.iter().flat_map(|image| &image.warnings) {
                    self.observer.warning(warning)?;
                }
                media.extend(image.map(|image| image.medium));
            }
            machines.push(self.machine(machine, drives, kind)?);
        }
        for machine in &machines {
            let nvme = |drive: &&PlannedDrive| drive.spec.interface == Interface::Nvme;
            let serials = machine.drives.iter().filter(nvme).map(|drive| drive.serial.clone());
            distinct_serials(serials).map_err(|message| match machine.name.as_str() {
                "" => anyhow!(message),
                name => anyhow!("machine {name}: {message}"),
            })?;
        }
        sharing.check_overlaps(&machines, &workloads)?;
        for load in &workloads {
            for warning in &load.jobs()?.warnings {
                self.observer.warning(&format!("workload {}: {warning}", load.name))?;
            }
        }
        let debug = self.debugged.map(|debugged| debugged.job(self.engine, &shown));
        let branch = self.branched.map(|branched| branched.plan(self.engine, &shown, &machines));
        let (debug, branch) = match branch.transpose()? {
            Some((moment, branch)) => (
                Some(DebugJob {
                    moment,
                    tasks: None,
                    modules: None,
                    writes: Vec::new(),
                    again: None,
                }),
                Some(branch),
            ),
            None => (debug.transpose()?, None),
        };
        let profile = self.profiled.map(|profiled| profiled.job(self.engine));
        let snapshots = self.snapshots.map(|snapshots| snapshots.job(self.engine, &shown));
        let plan = RunPlan {
            machines,
            cpu_speed: self.cpu_speed(),
            repeatable: self.engine == Engine::Exact,
            seed: experiment.seed,
            interleaving: (experiment.machine.schedule == Schedule::Random)
                .then_some(experiment.seed),
            strict: experiment.strict,
            virtual_limit: experiment.virtual_limit,
            trace: self.trace.is_some(),
            timeline: self.timeline,
            debug,
            branch,
            profile: profile.transpose()?,
            snapshots: snapshots.transpose()?.flatten(),
            change: None,
            fault: self.trace.and_then(|trace| trace.fault),
            root: root.as_ref().map(|root| PlannedRoot {
                identity: self.guest.digest.clone(),
                length: root.length(),
            }),
            shared: sharing.into_drives(),
            workloads,
            // The experiment's check has seen them.
            triggers: experiment.triggers().unwrap_or_default(),
            networks: experiment.networks.clone(),
            // The experiment's check has seen them.
            network_faults: experiment
                .networks
                .iter()
                .map(|network| experiment.network_faults_of(network).unwrap_or_default())
                .collect(),
        };
        if let Some(snapshots) = self.snapshots {
            snapshots.check(self.engine, &plan, self.terminal.is_some())?;
        }
        let base = match (self.changed, base) {
            (Some(changed), Some(base)) => {
                changes::check(&base, &plan)?;
                Some((base, changed.moment(self.engine, &shown)?))
            }
            _ => None,
        };
        let files = |drive: &PlannedDrive| drive.spec.model.kind().state_file().map(Path::to_owned);
        if plan.shared.iter().any(|drive| files(drive).is_some()) {
            bail!("a shared drive's model keeps no `state`: leave it out, or give a machine the whole drive");
        }
        let mut kept: Vec<_> =
            plan.machines.iter().flat_map(|machine| &machine.drives).filter_map(files).collect();
        kept.sort_unstable();
        if let Some(pair) = kept.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("two drives' models have one `state`, {}: give each its own", pair[0].display());
        }
        Ok(Prepared { setup: self, plan, base, shown, root, outside, media, keeps, copies, traced })
    }

    /// Returns whether media stay as they are: what is written is a part of snapshots.
    fn keeps_media(&self) -> bool {
        self.snapshots.is_some() && self.engine == Engine::Exact
    }

    fn tell_kept(&self, owner: &str, medium: &MediumSpec) -> Result<()> {
        self.observer.warning(&format!(
            "{owner}: {} stays as it is: what the run writes is kept in memory, for its snapshots",
            medium.label()
        ))?;
        Ok(())
    }

    /// The plan of the run that this one is a branch of.
    fn base(&self, changed: &'a Changed<'a>) -> Result<RunPlan> {
        let base = RunSetup {
            experiment: changed.run,
            base: changed.base,
            changed: None,
            debugged: None,
            branched: None,
            profiled: None,
            ..*self
        };
        Ok(base.prepare()?.plan)
    }

    /// Returns `drive`, on a copy of its medium where it is traced.
    fn traced_drive(
        &self,
        index: usize,
        mut drive: PlannedDrive,
        capacity: u64,
        copies: &mut Vec<WorkingCopy>,
    ) -> Result<(PlannedDrive, TracedDrive)> {
        let mut traced = TracedDrive { name: drive.name.clone(), ..TracedDrive::default() };
        let Some(trace) = self.trace else { return Ok((drive, traced)) };
        let interfaces = self.experiment.drives[..=index].iter().map(|spec| spec.interface);
        let name = device_names(interfaces).pop().unwrap_or_default();
        traced.device = trace::device(&drive, &name, capacity)?;
        if let MediumSpec::Qcow2 { settings, .. } = &drive.spec.medium {
            traced.image = Some(*settings);
        }
        copies.extend(trace.copy(index, &mut drive, &mut traced)?);
        Ok((drive, traced))
    }

    /// A machine of the plan; `root`: the file system of its root, if the root is on a device.
    fn machine(
        &self,
        spec: &MachineSpec,
        mut drives: Vec<PlannedDrive>,
        root: Option<FileSystemKind>,
    ) -> Result<PlannedMachine> {
        let experiment = self.experiment;
        // The experiment's check has seen it.
        let mut job = Job::new(experiment.command_of(spec).unwrap_or_default());
        job.has_input = !self.input.bytes.is_empty();
        job.stdin = experiment.guest.stdin.as_ref().map(|_| input::STDIN.to_owned());
        job.seed = experiment.seed;
        // A line of output that something waits for is to be there when it was written.
        job.prompt_output = self.trace.is_some()
            || experiment.history
            || experiment.numbered().any(|(_, fault)| fault.at_output.is_some());
        job.asks = experiment.is_asked_for_faults();
        if let Some(terminal) = self.terminal {
            terminal.apply(&mut job);
        }
        job.vcpus = spec.vcpus;
        let names = device_names(drives.iter().map(|drive| drive.spec.interface));
        let nodes = drives.iter().zip(names);
        job.drives = nodes.map(|(drive, name)| device_node(&drive.spec, name)).collect();
        if let Some(image) = container::image(experiment, spec, self.guest)? {
            let nodes = drives.iter().zip(&job.drives);
            let nodes = nodes.map(|(drive, node)| (drive.name.clone(), node.clone())).collect();
            let of_machine =
                || spec.name.as_ref().map_or(String::new(), |name| format!("machine {name}: "));
            container::apply(&mut job, experiment, spec, image, &nodes)
                .map_err(|error| anyhow!("{}{error}", of_machine()))?;
            for note in container::notes(spec, &image.1.config, !drives.is_empty()) {
                self.observer.warning(&format!("{}{note}", of_machine()))?;
            }
        }
        job.root = root.map(|kind| RootDevice {
            device: last_device(drives.iter().map(|drive| drive.spec.interface)),
            file_system: kind.name().into(),
        });
        job.together = !experiment.machine.several().is_empty();
        job.coordinate = spec.coordinate;
        job.idles = spec.disks.iter().any(|disk| {
            let seeks = |at: usize| experiment.drives[at].model.kind().seeks();
            experiment.drive_named(&disk.on).is_ok_and(seeks)
        });
        job.scheduler = spec.guest_scheduler.clone().unwrap_or_default();
        job.log_level = spec.log_level.unwrap_or_default();
        if let (true, Some(name)) = (job.together, &spec.name) {
            job.hostname = host_name(name);
        }
        // A run that must repeat starts at the guest's own date, others today.
        let date = Duration::from_secs(self.guest.date);
        let date = if self.engine == Engine::Exact {
            date
        } else {
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().max(date)
        };
        job.realtime_ns = u64::try_from(date.as_nanos()).unwrap_or(u64::MAX);
        let name = spec.name.clone().unwrap_or_default();
        let mut spec = spec.clone();
        job.interfaces = networks::interfaces(experiment, &spec);
        job.hosts = experiment.hosts_of(&spec);
        job.environment.extend(networks::variables(experiment, &spec));
        let is_exact = self.engine == Engine::Exact;
        if is_exact && !spec.randomize {
            // Before the user's words, which end with what the user likes.
            let line = format!("{FIXED_ADDRESSES} {}", spec.kernel_command_line);
            spec.kernel_command_line = line.trim_end().into();
        }
        // Under `exact` all machines have the same words, so that one first boot serves them.
        if is_exact || !job.interfaces.is_empty() {
            // Interfaces are eth0, eth1 and so on, in the order of the networks.
            spec.kernel_command_line.push_str(" net.ifnames=0");
        }
        // The experiment's check has seen them.
        let pauses = experiment.pauses_of(&spec).unwrap_or_default();
        let failures = experiment.failures_of(&spec).unwrap_or_default();
        let guest_faults = experiment.guest_faults_of(&spec).unwrap_or_default();
        job.ordered = !guest_faults.is_empty();
        job.called = guest_faults.iter().any(|fault| fault.begins == Begins::Elsewhere);
        let cut = |failure: &&MachineFailure| failure.kind == MachineFailureKind::PowerCut;
        let cuts = failures.iter().filter(cut);
        // The number of times that a trigger comes is known at the end only.
        let cuts = match cuts.clone().any(|failure| failure.triggered) {
            true => usize::MAX,
            false => cuts.count(),
        };
        drives.iter_mut().filter(|drive| drive.on.is_none()).for_each(|drive| drive.cuts = cuts);
        let panics = |failure: &MachineFailure| failure.kind == MachineFailureKind::Panic;
        if is_exact || failures.iter().any(panics) {
            // Linux, Documentation/admin-guide/kernel-parameters.txt.
            spec.kernel_command_line.push_str(" unknown_nmi_panic");
        }
        let comes_back = failures.iter().any(|failure| failure.restart.is_some());
        let dependencies = container::dependencies(experiment, &spec);
        Ok(PlannedMachine {
            name,
            spec,
            job,
            drives,
            pauses,
            failures,
            comes_back,
            dependencies,
            guest_faults,
        })
    }

    /// Time that the software of a guest with `vcpus` processors adds to a read as fio measures it
    /// (ns).
    fn path(&self, vcpus: u32) -> Nanos {
        let instructions = PATH_INSTRUCTIONS[usize::from(vcpus > 1)];
        match (self.engine, self.cpu_speed()) {
            // An instruction is a tick.
            (Engine::Exact, CpuSpeed::Khz(khz)) => instructions * 1_000_000 / khz,
            // The software host's TSC has 1 GHz.
            (Engine::Exact, CpuSpeed::Times(times)) => (instructions as f64 / times) as Nanos,
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
        vcpus: u32,
        owners: &mut MediumOwners,
    ) -> Result<(PlannedDrive, OpenMedium, Option<Keep>)> {
        let name = spec.name.clone().unwrap_or_else(|| format!("drive{index}"));
        let subject = || format!("drive {name}");
        owners
            .add(&spec.medium, subject())
            .map_err(Keyed::at("medium"))
            .and_then(|()| self.plan_drive(index, spec, &name, vcpus))
            .map_err(|error| {
                let place = place_of_drive(self.experiment, index);
                error.within(self.experiment, place, subject())
            })
    }

    fn plan_drive(
        &self,
        index: usize,
        spec: &DriveSpec,
        name: &str,
        vcpus: u32,
    ) -> Result<(PlannedDrive, OpenMedium, Option<Keep>), Keyed> {
        let mut resolved = spec.clone();
        resolved.model.resolve(self.base).map_err(Keyed::at("model"))?;
        let place = spec.medium.or_size(resolved.model.capacity(), self.base);
        let before = Before::look(&place, self.base)?;
        let overlay = self.keeps_media() && is_kept(&place);
        let opened = match overlay {
            true => OpenMedium::below(&place, self.base),
            false => OpenMedium::open(&place, self.trace.is_none(), self.base),
        };
        let held = opened.map_err(Keyed::at("medium"))?;
        if overlay {
            self.tell_kept(&format!("drive {name}"), &place)?;
        }
        let OpenMedium { medium, capacity, links, warnings } = &held;
        let capacity = *capacity;
        for warning in warnings {
            self.observer.warning(warning)?;
        }
        held.check_blocks(spec.block_size)?;
        crate::controller::fit_pairs(&mut resolved, medium.capacity());
        crate::controller::check_model(&resolved, medium.capacity()).map_err(Keyed::at("model"))?;
        crate::controller::check_room(spec, capacity)?;
        resolved.medium = absolute(&place, self.base)?;
        let mut drive = PlannedDrive {
            spec: resolved,
            name: name.to_owned(),
            number: u16::try_from(index)?,
            serial: spec.serial_number(index),
            capacity,
            overlay,
            links: links.clone(),
            path: spec.path.unwrap_or_else(|| self.path(vcpus)),
            queues: spec.queues.unwrap_or(vcpus.min(64) as u16),
            faults: self.experiment.faults_of(name).map_err(anyhow::Error::msg)?,
            faulty: false,
            cuts: 0,
            state: None,
            on: None,
        };
        crate::controller::check_sizes(&drive.spec, capacity, &drive.faults)?;
        if let MediumSpec::Qcow2 { settings, .. } = &spec.medium {
            check_order(settings, &drive, medium.capacity())?;
        }
        let config = drive.controller(capacity, medium.discard_zeroes());
        if spec.interface == Interface::Nvme {
            config.check()?;
        }
        let keep = match before {
            Some(before) => Keep::of(before, &drive.spec, &config)?,
            None => None,
        };
        if let Some(keep) = &keep {
            for note in &keep.notes {
                self.observer.warning(&format!("drive {name}: {note}"))?;
            }
            if spec.interface == Interface::Nvme {
                drive.state = Some(Box::new(keep.state.clone()));
            }
        }
        // A medium that is not written needs no record of its state.
        Ok((drive, held, keep.filter(|_| !overlay)))
    }
}

/// Returns whether a medium can be kept: its file or device is only read, and what is written stays
/// in memory.
fn is_kept(medium: &MediumSpec) -> bool {
    use MediumSpec::{Device, File, Qcow2};
    matches!(medium, File { .. } | Qcow2 { .. } | Device { .. })
}

/// Opens the existing raw media and closes them again, so that their errors are reported before a
/// guest is made, which takes time.
pub fn check_drives(experiment: &Experiment, base: &Path) -> Result<()> {
    look_at_drives(experiment, base, false)
}

/// Like [`check_drives`], but with `read` the files are opened for reading only: opening them for
/// writing changes their times.
pub fn look_at_drives(experiment: &Experiment, base: &Path, read: bool) -> Result<()> {
    let machines = experiment.machine.several();
    let drives = experiment.drives.iter().chain(machines.iter().flat_map(|one| &one.drives));
    for (index, spec) in drives.enumerate() {
        let name = spec.name.clone().unwrap_or_else(|| format!("drive{index}"));
        let check = || {
            let mut model = spec.model.clone();
            model.resolve(base).map_err(Keyed::at("model"))?;
            let medium = spec.medium.or_size(model.capacity(), base);
            let made_later = match &medium {
                MediumSpec::File { path, size, .. } => size.is_some() && !base.join(path).exists(),
                MediumSpec::Qcow2 { .. } => true,
                _ => false,
            };
            if let (MediumSpec::File { path, .. }, true) = (&medium, made_later) {
                let folder = base.join(path).parent().map(Path::to_owned).unwrap_or_default();
                if !folder.as_os_str().is_empty() && !folder.exists() {
                    return Err(Keyed::at("medium")(OpenError::MissingFolder(folder)));
                }
            }
            if !made_later {
                let opened = match read && is_kept(&medium) {
                    true => OpenMedium::below(&medium, base),
                    false => OpenMedium::open(&medium, false, base),
                };
                let held = opened.map_err(Keyed::at("medium"))?;
                let mut resolved = DriveSpec { model, ..spec.clone() };
                crate::controller::fit_pairs(&mut resolved, held.capacity);
                crate::controller::check_model(&resolved, held.capacity)
                    .map_err(Keyed::at("model"))?;
            }
            Ok(())
        };
        check().map_err(|error: Keyed| {
            error.within(experiment, place_of_drive(experiment, index), format!("drive {name}"))
        })?;
    }
    Ok(())
}

/// A drive with its own medium, in the form used in results; `written`: as the user wrote it.
fn show(drive: &PlannedDrive, written: &DriveSpec) -> stasis_results::Drive {
    let medium = written.medium.label();
    drive.described(match written.delay {
        0 => medium,
        delay => format!("{medium} + {}", format_duration(delay)),
    })
}

impl Prepared<'_> {
    /// The drives in the form used in results.
    pub fn drives(&self) -> Vec<stasis_results::Drive> {
        self.shown.clone()
    }

    /// The files of the drives' media on this host, where they have one.
    pub fn paths(&self) -> Vec<Option<PathBuf>> {
        let drives = self.plan.machines.iter().flat_map(|machine| &machine.drives);
        drives.map(|drive| drive.spec.medium.path().map(Path::to_owned)).collect()
    }

    /// The file in which the state of each drive's model is kept, if it is.
    pub fn model_files(&self) -> Vec<Option<PathBuf>> {
        let drives = self.plan.machines.iter().flat_map(|machine| &machine.drives);
        let file = |drive: &PlannedDrive| {
            let file = drive.spec.model.kind().state_file().filter(|_| !drive.overlay);
            file.map(Path::to_owned)
        };
        drives.map(file).collect()
    }

    /// Takes the kept state of each of the machines' drives whose medium lasts; empty for a traced
    /// run.
    pub fn take_keeps(&mut self) -> Vec<Option<Keep>> {
        let keeps = std::mem::take(&mut self.keeps);
        // A trace leaves the media as they were.
        if self.setup.trace.is_some() {
            return Vec::new();
        }
        keeps
    }

    /// Returns the names of several machines; empty where there is only one.
    pub fn machines(&self) -> Vec<String> {
        let several = self.plan.machines.iter().filter(|machine| machine.spec.name.is_some());
        several.map(|machine| machine.name.clone()).collect()
    }

    /// The names of all machines' processors.
    pub fn processors(&self) -> Vec<String> {
        let several = self.plan.machines.len() > 1;
        let names_of = |machine: &PlannedMachine| {
            let name = if several { format!("{} ", machine.name) } else { String::new() };
            (0..machine.spec.vcpus).map(move |number| format!("{name}vCPU {number}"))
        };
        self.plan.machines.iter().flat_map(names_of).collect()
    }

    /// The machine that each of the drives belongs to, by its index among [`Self::machines`].
    pub fn owners(&self) -> Vec<Option<usize>> {
        let owners_of =
            |(place, machine): (usize, &PlannedMachine)| vec![Some(place); machine.drives.len()];
        let mut owners: Vec<_> =
            self.plan.machines.iter().enumerate().flat_map(owners_of).collect();
        owners.resize(self.shown.len(), None);
        owners
    }

    /// Returns whether the kernel of some machine lays out programs' address spaces at random.
    pub fn randomizes(&self) -> bool {
        let mut lines = self.plan.machines.iter().map(|machine| &machine.spec.kernel_command_line);
        lines.any(|line| line.split_whitespace().all(|word| word != FIXED_ADDRESSES))
    }

    /// The header of the trace: all that describes the run beside the requests to its drives.
    pub fn trace_header(&self) -> TraceHeader {
        let experiment = self.setup.experiment;
        trace::header(&experiment.command, experiment.seed, self.traced.clone(), self.plan.fault)
    }

    /// Runs the machine to its end, or until `deadline`.
    pub fn run(
        self,
        relay: &mut Relay<'_>,
        stop: &Arc<AtomicBool>,
        deadline: Option<Instant>,
    ) -> Result<(), RunError> {
        let Self { setup, mut plan, base, root, outside, media, copies, .. } = self;
        let mut change = None;
        if let Some((mut base, moment)) = base {
            (base.profile, base.snapshots) = (plan.profile.take(), plan.snapshots.take());
            let known = setup.changed.map_or(0, |changed| changed.run.faults.len());
            let call = setup.changed.and_then(|changed| changed.call);
            let commands = changes::commands(&base, &plan, call);
            let to = std::mem::replace(&mut plan, base);
            change = Some(Box::new(PlannedChange { moment, known, commands, plan: to }));
        }
        plan.change = change;
        let outcome = match setup.engine {
            Engine::Kvm => {
                drop(media); // opened again, by the machine
                on_kvm(&setup, plan, (root, outside), deadline, relay, stop)
            }
            _ => software_host::run(&setup, plan, (root, outside), deadline, relay, stop),
        };
        drop(copies);
        outcome
    }
}

/// Runs the machine in this process.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn on_kvm(
    setup: &RunSetup<'_>,
    mut plan: RunPlan,
    (root, outside): (Option<Lower>, Option<SharedOutside>),
    deadline: Option<Instant>,
    relay: &mut Relay<'_>,
    stop: &Arc<AtomicBool>,
) -> Result<(), RunError> {
    use crate::begins::Begins;
    use crate::local;
    use crate::machine_inputs::Commands;
    use stasis_network::Outside;
    use stasis_run_events::{EventSink, RunEvent};

    let jobs = plan.machines.iter().map(|machine| machine.job.clone()).collect();
    let begins = Begins::take(&mut plan);
    let commands = Commands { jobs, files: setup.input.clone(), begins, ..Default::default() };
    let keyboard = setup.terminal.map(|terminal| terminal.local());
    let source = root.map(|root| -> crate::root::Source {
        Arc::new(move |into: &mut [u8], at: u64| root.read_at(into, at))
    });
    let mut files = local::Files::new(setup.guest, commands, keyboard, source);
    files.outside = outside.map(|outside| -> Box<dyn Outside> { Box::new(outside) });
    let stop = stasis_machine::Stop { flag: Arc::clone(stop), poll: None, deadline };
    let outcome = local::run(plan, None, &mut files, relay, stop)?;
    relay.event(RunEvent::Outcome(Box::new(outcome)))?;
    Ok(())
}

/// `choose` does not choose KVM here.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn on_kvm(
    _: &RunSetup<'_>,
    _: RunPlan,
    _: (Option<Lower>, Option<SharedOutside>),
    _: Option<Instant>,
    _: &mut Relay<'_>,
    _: &Arc<AtomicBool>,
) -> Result<(), RunError> {
    Err(RunError::Failed(anyhow::anyhow!("this computer has no KVM for x86-64 guests")))
}

#[cfg(test)]
mod tests;
