//! Runs a planned machine in this process.

use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{anyhow, Context, Result};
use stasis_channel::Keyboard;
use stasis_crash::TraceStream;
use stasis_drive::Schedule;
use stasis_experiment::{
    Condition, FaultTrigger, MachineFailure, MachineFailureKind, MachinePause, Trigger,
};
use stasis_guest_image::Guest;
use stasis_machine::{
    Beginning, Change, ChangeConfig, Command, Config, DebugConfig, Dependency, DependencyState,
    DriveChange, Failure, FailureKind, FirstBoot, MachineChange, MachineConfig, MachineFaults,
    Pause, ProgramSource, Resumed, Rewind, SnapshotConfig, Stop, TimelineConfig, TriggerConfig,
};
use stasis_models::{BuildContext, ModelChange};
use stasis_network::Outside;
use stasis_run_events::{Debugger, EventSink, Instant, Outcome};

use crate::begins::{Begins, BOOT_SEED};
use crate::first_boot;
use crate::machine_inputs::{whole, Commands, Inputs, Take};
use crate::networks;
use crate::opened_drives::{fault_seed, paths, Drives};
use crate::plan::{
    drive_seed, input, PlannedChange, PlannedDependency, PlannedDrive, PlannedMachine,
    PlannedWorkload, RunPlan, SharedRegion,
};
use crate::root::{self, Source};
use crate::trace::Drained;

/// Time that a completion waits for the guest to become idle, with rewind (ns): the guest's path
/// from a doorbell to idle takes less (measured: see docs/development/benchmarks.md), and anything
/// longer is other work.
const REWIND_WINDOW_NS: u64 = 5_000;

/// The machines' commands, got once.
struct Jobs {
    source: Option<Box<dyn FnOnce() -> Result<Commands> + Send>>,
    commands: Commands,
}

impl Jobs {
    /// The part of the run that begins with the commands.
    fn begins(&mut self) -> std::io::Result<Begins> {
        if let Some(source) = self.source.take() {
            self.commands = source().map_err(std::io::Error::other)?;
        }
        Ok(std::mem::take(&mut self.commands.begins))
    }

    /// The command of machine `number`.
    fn command(&mut self, number: usize) -> std::io::Result<Command> {
        let job = self.commands.jobs.get(number).cloned();
        let job = job.ok_or_else(|| std::io::Error::other("a machine has no command"))?;
        Ok(Command { job, input: Box::new(Cursor::new(self.commands.files.of(number))) })
    }
}

/// Inputs in this machine's files.
pub struct Files {
    vmlinux: PathBuf,
    initramfs: PathBuf,
    root: PathBuf,
    keyboard: Option<Box<dyn Keyboard>>,
    source: Option<Source>,
    /// The world outside, if a network leads there.
    pub outside: Option<Box<dyn Outside>>,
    commands: Commands,
}

impl Files {
    /// The guest's files, and the commands that run in the guests.
    pub fn new(
        guest: &Guest,
        commands: Commands,
        keyboard: Option<Box<dyn Keyboard>>,
        source: Option<Source>,
    ) -> Self {
        Self {
            source,
            vmlinux: guest.vmlinux.clone(),
            initramfs: guest.initramfs.clone(),
            root: guest.root.clone(),
            keyboard,
            outside: None,
            commands,
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

impl Inputs for Files {
    fn length(&self, name: &str) -> Option<u64> {
        std::fs::metadata(self.path(name)?).ok().map(|metadata| metadata.len())
    }

    fn read(&mut self, name: &str, into: &mut [u8]) -> Result<()> {
        let path = self.path(name).with_context(|| format!("there is no input {name}"))?;
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        file.read_exact_at(into, 0).with_context(|| format!("cannot read {}", path.display()))
    }

    fn source(&mut self) -> Option<Source> {
        self.source.clone()
    }

    fn keyboard(&mut self) -> Option<Box<dyn Keyboard>> {
        self.keyboard.take()
    }

    fn outside(&mut self) -> Option<Box<dyn Outside>> {
        self.outside.take()
    }

    /// KVM has no samples: the run is refused before.
    fn programs(&mut self) -> Option<ProgramSource> {
        None
    }

    /// KVM has none: the run is refused before.
    fn snapshots(&mut self) -> Option<Take> {
        None
    }

    /// KVM has none: the run is refused before.
    fn debugger(&mut self) -> Option<Box<dyn Debugger>> {
        None
    }

    fn commands(&mut self) -> Box<dyn FnOnce() -> Result<Commands> + Send> {
        let commands = std::mem::take(&mut self.commands);
        Box::new(|| Ok(commands))
    }
}

fn pause(&MachinePause { number, begin, end, triggered }: &MachinePause) -> Pause {
    Pause { number, begin, end, triggered }
}

fn failure(failure: &MachineFailure) -> Failure {
    let &MachineFailure { number, kind, at, within, restart, leaves, seed, triggered } = failure;
    let kind = match kind {
        MachineFailureKind::PowerCut => FailureKind::PowerCut,
        MachineFailureKind::Reset => FailureKind::Reset,
        MachineFailureKind::Hang => FailureKind::Hang,
        MachineFailureKind::Panic => FailureKind::Panic,
    };
    Failure { number, kind, at, within, restart, leaves, seed, triggered }
}

fn dependency(planned: &PlannedDependency) -> Dependency {
    let state = match planned.state {
        Condition::Started => DependencyState::Started,
        Condition::Healthy => DependencyState::Healthy,
        Condition::Completed => DependencyState::Completed,
    };
    Dependency { machine: planned.machine, name: planned.name.clone(), state }
}

/// A trigger with the places of the machine and drive that it names.
fn trigger(plan: &RunPlan, trigger: &FaultTrigger) -> Result<TriggerConfig> {
    let place = |name: &str| -> Result<u16> {
        let place = plan.machines.iter().position(|machine| machine.name == name);
        let place = place.with_context(|| format!("there is no machine {name}"))?;
        Ok(u16::try_from(place)?)
    };
    let on = match &trigger.trigger {
        Trigger::Io { drive, order } => {
            let places = plan.machines.iter().zip(0u16..).flat_map(|(machine, number)| {
                machine.drives.iter().enumerate().map(move |(place, drive)| (number, place, drive))
            });
            let mut own = places.filter(|(_, _, planned)| planned.on.is_none());
            let found = own.find(|(_, _, planned)| planned.name == *drive);
            let (machine, drive, _) =
                found.with_context(|| format!("no machine has a drive {drive}"))?;
            stasis_machine::Trigger::Io { machine, drive, order: *order }
        }
        Trigger::Packet { network, number } => {
            let mut names = plan.networks.iter().map(|network| network.name.as_deref());
            let place = names.position(|name| name == Some(network));
            let network = place.with_context(|| format!("there is no network {network}"))?;
            stasis_machine::Trigger::Packet { network, number: *number }
        }
        Trigger::Output { machine, pattern } => {
            let machine = machine.as_deref().map(place).transpose()?;
            stasis_machine::Trigger::Output { machine, pattern: pattern.clone() }
        }
        Trigger::Asked { words } => stasis_machine::Trigger::Asked { words: words.clone() },
    };
    Ok(TriggerConfig { number: trigger.number, on, times: trigger.times })
}

/// The changes by which a run of `base` becomes another, whose plan has been checked.
fn change_config(base: &RunPlan, planned: PlannedChange) -> ChangeConfig {
    let PlannedChange { moment, known, commands, plan: to } = planned;
    let known = (0..known).filter_map(|number| u16::try_from(number).ok()).collect();
    ChangeConfig { moment, change: Change { commands, known, ..change(base, &to) } }
}

/// The differences between a run of `base` and one of `to`.
fn change(base: &RunPlan, to: &RunPlan) -> Change {
    let is_other = base.seed != to.seed;
    let seed = is_other.then_some(to.seed);
    let of_drive = |drive: &PlannedDrive, other: &PlannedDrive| {
        let own = other.on.is_none() || drive.is_image();
        let draws = drive_seed(to.seed, other.number);
        let model = drive.spec.model.change(&other.spec.model, drive.capacity);
        let faults = drive.faults != other.faults || is_other && !other.faults.is_empty();
        let (before, after) = (paths(drive), paths(other));
        DriveChange {
            seed: seed.filter(|_| own).map(|_| draws),
            model: model.ok().flatten().filter(|_| own).and_then(|change| match change {
                ModelChange::Adapts(kind) => {
                    Some(stasis_machine::ModelChange::Adapts(kind.parameters()))
                }
                ModelChange::Replaces => {
                    let context =
                        BuildContext { seed: draws, capacity: drive.capacity, path: other.path };
                    let model = crate::controller::model(&other.spec, &context).ok()?;
                    Some(stasis_machine::ModelChange::Replaces(model))
                }
            }),
            faults: (own && faults).then(|| (other.faults.clone(), fault_seed(draws))),
            paths: (before != after).then_some(after),
        }
    };
    let of_machine = |(machine, other): (&PlannedMachine, &PlannedMachine)| {
        let faults = |machine: &PlannedMachine| MachineFaults {
            failures: machine.failures.iter().map(failure).collect(),
            pauses: machine.pauses.iter().map(pause).collect(),
            orders: machine.guest_faults.clone(),
        };
        let drives = machine.drives.iter().zip(&other.drives);
        MachineChange {
            faults: Some(faults(other)).filter(|other| faults(machine) != *other),
            drives: drives.map(|(drive, other)| of_drive(drive, other)).collect(),
        }
    };
    let schedules = (0..base.shared.len()).map(|number| {
        // The plans' check has seen them.
        let (was, is) = schedule(base, number).zip(schedule(to, number))?;
        (was != is).then_some((was, is))
    });
    let schedules = schedules.collect();
    let shared = base.shared.iter().zip(&to.shared);
    let triggers = (base.triggers != to.triggers)
        .then(|| to.triggers.iter().map(|each| trigger(to, each)).collect::<Result<Vec<_>>>());
    Change {
        seed,
        interleaving: (base.interleaving != to.interleaving).then_some(to.interleaving),
        virtual_limit: (base.virtual_limit != to.virtual_limit).then_some(to.virtual_limit),
        machines: base.machines.iter().zip(&to.machines).map(of_machine).collect(),
        shared: shared.map(|(drive, other)| of_drive(drive, other)).collect(),
        schedules,
        triggers: triggers.and_then(Result::ok),
        network_faults: (base.network_faults != to.network_faults)
            .then(|| to.network_faults.clone()),
        ..Change::default()
    }
}

/// The scheduling of a shared drive of the plan.
fn schedule(plan: &RunPlan, number: usize) -> Option<Schedule> {
    let own = |place: &&SharedRegion| place.drive == number;
    let disks = plan.machines.iter().flat_map(|machine| &machine.drives);
    let disks = disks.filter_map(|drive| drive.on.as_ref()).filter(own);
    let loads = plan.workloads.iter().filter(|load| own(&&load.place));
    let load = |load: &PlannedWorkload| Some((load.place.tenant.queue().ok()?, load.group_weight));
    Some(Schedule {
        scheduler: plan.shared.get(number)?.spec.scheduler.clone()?,
        disks: disks.map(|place| place.tenant.queue().ok()).collect::<Option<_>>()?,
        loads: loads.map(load).collect::<Option<_>>()?,
    })
}

/// Runs `plan`, of which the rest begins with the commands, to its end: from `first`, which its
/// [`first_boot::job`] has made, if it is there.
pub fn run(
    plan: RunPlan,
    first: Option<FirstBoot>,
    inputs: &mut dyn Inputs,
    events: &mut dyn EventSink,
    stop: Stop,
) -> Result<Outcome> {
    let vmlinux = whole(inputs, input::VMLINUX)?;
    let initramfs = whole(inputs, input::INITRAMFS)?;
    let jobs = Jobs { source: Some(inputs.commands()), commands: Commands::default() };
    let jobs = Arc::new(Mutex::new(jobs));
    // One machine that goes on from its first boot has its root.
    let has_root = first.is_some() && plan.machines.len() == 1;
    let root_length = match inputs.length(input::ROOT) {
        None if has_root => 0,
        length => length.ok_or_else(|| anyhow!("the root file system is missing"))?,
    };
    let mut firsts = first.into_iter().flat_map(|first| first.each(plan.machines.len()));
    let is_hidden = first_boot::job(&plan).is_some();
    let mut beginning = || match firsts.next() {
        Some(first) => Beginning::FirstBoot(first),
        None if is_hidden => Beginning::Hidden,
        None => Beginning::Boot,
    };
    let (keyboard, of_root, programs) = (inputs.keyboard(), inputs.source(), inputs.programs());
    let debug = inputs.debugger().map(|wire| {
        let jobs = Arc::clone(&jobs);
        Box::new(move || {
            let commands = &mut jobs.lock().unwrap_or_else(PoisonError::into_inner).commands;
            let (job, branch) = (commands.debug.take()?, commands.branch.take());
            Some(DebugConfig { job, branch, wire })
        }) as stasis_machine::DebugSource
    });
    let profile = Box::new({
        let jobs = Arc::clone(&jobs);
        move || jobs.lock().unwrap_or_else(PoisonError::into_inner).commands.profile.take()
    });
    // As the run is: it boots as this, and is another where its commands begin.
    let base = Arc::new(Mutex::new(plan.clone()));
    let begin = Box::new({
        let (jobs, base) = (Arc::clone(&jobs), Arc::clone(&base));
        move || {
            let begins = jobs.lock().unwrap_or_else(PoisonError::into_inner).begins()?;
            let mut base = base.lock().unwrap_or_else(PoisonError::into_inner);
            let to = begins.complete(&base);
            let known = to.triggers.iter().try_for_each(|each| trigger(&to, each).map(drop));
            known.map_err(std::io::Error::other)?;
            let change = change(&base, &to);
            *base = to;
            Ok(change)
        }
    });
    let becomes = Box::new({
        let (jobs, base) = (Arc::clone(&jobs), Arc::clone(&base));
        move || {
            let commands = &mut jobs.lock().unwrap_or_else(PoisonError::into_inner).commands;
            let to = commands.change.take()?;
            Some(change_config(&base.lock().unwrap_or_else(PoisonError::into_inner), *to))
        }
    });
    let snapshots = inputs.snapshots().zip(inputs.debugger()).map(|(mut take, wire)| {
        let (jobs, mut wire) = (Arc::clone(&jobs), Some(wire));
        Box::new(move || {
            let commands = &mut jobs.lock().unwrap_or_else(PoisonError::into_inner).commands;
            let take = Box::new(move |instant: &Instant| {
                let commands = take(instant).map_err(std::io::Error::other)?;
                let base = &base;
                Ok(commands.map(|commands| {
                    let Commands { debug, branch, snapshots, profile, change: to, .. } = commands;
                    Resumed {
                        snapshots,
                        profile,
                        change: to.map(|to| {
                            let base = base.lock().unwrap_or_else(PoisonError::into_inner);
                            change_config(&base, *to)
                        }),
                        debug: debug.zip(wire.take()).map(|(job, wire)| DebugConfig {
                            job,
                            branch,
                            wire,
                        }),
                    }
                }))
            });
            Some(SnapshotConfig { job: commands.snapshots.take()?, take })
        }) as stasis_machine::SnapshotSource
    });
    let stream = plan.trace.then(TraceStream::default);
    let mut opened = Drives::open(&plan, stream.as_ref())?;
    let rewind = Rewind { window: REWIND_WINDOW_NS };
    let mut index = 0;
    let mut machines = Vec::new();
    for (number, machine) in plan.machines.iter().enumerate() {
        let mut drives = Vec::new();
        for drive in &machine.drives {
            let config = opened.config(index, drive);
            drives.push(config.with_context(|| format!("drive {}", drive.name))?);
            index += 1;
        }
        let on = plan.root.as_ref().zip(of_root.as_ref());
        let root = on.map(|(root, source)| root::drive(root, source, machine.spec.vcpus));
        machines.push(MachineConfig {
            name: machine.name.clone(),
            vcpus: machine.spec.vcpus,
            memory: machine.spec.memory,
            command_line: &machine.spec.kernel_command_line,
            job: machine.job.without_command(),
            command: Box::new({
                let jobs = Arc::clone(&jobs);
                move || jobs.lock().unwrap_or_else(PoisonError::into_inner).command(number)
            }),
            drives,
            ports: networks::ports(&plan.networks, &machine.name),
            root: root.transpose()?,
            seed: if is_hidden { BOOT_SEED } else { plan.seed },
            random: machine.spec.random,
            comes_back: machine.comes_back,
            boots_again: machine.spec.boots_again,
            beginning: beginning(),
            rewind: machine.spec.rewind.then_some(rewind),
            waited: machine.spec.wait,
            pauses: machine.pauses.iter().map(pause).collect(),
            failures: machine.failures.iter().map(failure).collect(),
            dependencies: machine.dependencies.iter().map(dependency).collect(),
            orders: machine.guest_faults.clone(),
        });
    }
    let first = &plan.machines.first().context("there is no machine")?.spec;
    let quantum = first.quantum;
    let threads = match (plan.repeatable, first.threads) {
        (true, _) => 1,
        // In turn: only then do the processors read one clock.
        (false, threads) => threads.unwrap_or(1) as usize,
    };
    let leads_outside = plan.networks.iter().any(|network| !network.outside.is_empty());
    let mut events = Drained { stream: stream.clone().unwrap_or_default(), events };
    let triggers = plan.triggers.iter().map(|each| trigger(&plan, each)).collect::<Result<_>>()?;
    let outcome = stasis_machine::run(
        Config {
            machines,
            triggers,
            shared: opened.into_shared(),
            has_faults: plan.media().any(PlannedDrive::is_faulty),
            networks: networks::networks(&plan.networks, &plan.network_faults, plan.seed),
            outside: inputs.outside().filter(|_| leads_outside),
            speed: first_boot::speed(plan.cpu_speed),
            vmlinux: &vmlinux,
            initramfs: &initramfs,
            root_length,
            fill_root: &mut |into| inputs.read(input::ROOT, into).map_err(std::io::Error::other),
            quantum,
            threads,
            keyboard,
            begin: Some(begin),
            debug,
            profile: Some(profile),
            programs,
            snapshots,
            change: Some(becomes),
            virtual_limit: plan.virtual_limit,
            // The results of a repeatable run do not depend on the wall clock.
            timeline: plan.timeline.then_some(TimelineConfig { wall_clock: !plan.repeatable }),
            stop,
        },
        &mut events,
    )?;
    Ok(outcome)
}
