//! Configuration of machines and runs: values that a caller owns until a run takes them.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Instant;

use stasis_block::clock::Nanos;
use stasis_channel::{Job, ScheduledGuestFault};
use stasis_drive::{Layer, SharedDrive, TenantHandle};
use stasis_network::Outside;
use stasis_run_events::ProfileJob;

use super::changes::{BeginSource, ChangeSource};
use super::controller::Controller;
use super::debug::DebugSource;
use super::dependencies::Dependency;
use super::failures::Failure;
use super::first_boot::FirstBoot;
use super::networks::NetworkConfig;
use super::path_faults::PathFault;
use super::pauses::Pause;
use super::program_source::ProgramSource;
use super::snapshots::SnapshotSource;
use super::triggers::TriggerConfig;
use crate::devices::{CommandSource, PortConfig};

/// One drive of a machine.
pub struct DriveConfig {
    /// The drive behind it.
    pub drive: Box<dyn Layer>,
    /// The machine's hold on the drive, if others share it.
    pub tenant: Option<TenantHandle>,
    /// Controller that presents it.
    pub controller: Controller,
    /// The faults of each path to an NVMe drive, with when they hold; those of one path do not
    /// overlap.
    pub paths: Vec<Vec<(PathFault, Pause)>>,
}

/// Distance by which time may be set back for a drive that is faster than the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// A completion is held back for the guest to become idle at most so long
    /// after its submission (ns).
    pub window: Nanos,
}

/// Configuration of a machine.
pub struct MachineConfig<'a> {
    /// Its name.
    pub name: String,
    /// Processors, 1 to [`crate::MAX_PROCESSORS`].
    pub vcpus: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Added to the kernel's command line.
    pub command_line: &'a str,
    /// The set-up of the guest.
    pub job: Job,
    /// Called when the guest is set up: returns the command to run in it.
    pub command: CommandSource,
    /// The drives, in order.
    pub drives: Vec<DriveConfig>,
    /// The drive that its root is on, behind all others: no part of the experiment.
    pub root: Option<DriveConfig>,
    /// Its ports of the run's networks, in order.
    pub ports: Vec<PortConfig>,
    /// Seed of everything random in the guest.
    pub seed: u64,
    /// True if RDRAND and RDSEED are visible.
    pub random: bool,
    /// True if it can come back after a failure.
    pub comes_back: bool,
    /// True if its guest boots then; else it goes on from its first boot where it can.
    pub boots_again: bool,
    /// Its beginning.
    pub beginning: Beginning,
    /// Rewind, if wanted; only where the machine is alone.
    pub rewind: Option<Rewind>,
    /// True if the run lasts until its command has ended.
    pub waited: bool,
    /// Times at which its processors stand still; these do not overlap.
    pub pauses: Vec<Pause>,
    /// Its failures.
    pub failures: Vec<Failure>,
    /// Machines whose commands are to be in some state before its own begins.
    pub dependencies: Vec<Dependency>,
    /// Faults that its agent brings about.
    pub orders: Vec<ScheduledGuestFault>,
}

/// The beginning of a machine.
pub enum Beginning {
    /// A boot from power-on.
    Boot,
    /// A boot from power-on with drives hidden until the agent greets, so that its first part can
    /// be kept.
    Hidden,
    /// Its first boot has been made: it goes on from there.
    FirstBoot(FirstBoot),
    /// A boot up to the agent's greeting, which is recorded for later runs.
    Recorded,
}

/// Configuration of a run.
pub struct Config<'a> {
    /// The machines, at least one.
    pub machines: Vec<MachineConfig<'a>>,
    /// Drives that they share.
    pub shared: Vec<SharedDrive>,
    /// True if any of the drives has faults.
    pub has_faults: bool,
    /// Triggers of faults.
    pub triggers: Vec<TriggerConfig>,
    /// Networks between them. Every port of each belongs to one machine, or leads outside.
    pub networks: Vec<NetworkConfig>,
    /// The world outside, if a network leads there.
    pub outside: Option<Box<dyn Outside>>,
    /// Processor speed: how many times as fast as it ticks the TSC is declared.
    pub speed: Speed,
    /// The kernel (vmlinux).
    pub vmlinux: &'a [u8],
    /// The initramfs.
    pub initramfs: &'a [u8],
    /// Length of the root file system in bytes.
    pub root_length: u64,
    /// Fills a machine's root file system's memory.
    pub fill_root: &'a mut dyn FnMut(&mut [u8]) -> std::io::Result<()>,
    /// Largest distance of busy processors in virtual time (ns).
    pub quantum: Nanos,
    /// On how many of the host's threads processors are in guest mode at once; 1: in turn.
    pub threads: usize,
    /// Limit on the commands' virtual time (ns).
    pub virtual_limit: Option<Nanos>,
    /// The input of a command that runs on a terminal.
    pub keyboard: Option<Box<dyn stasis_channel::Keyboard>>,
    /// The parts of the run that begin with the commands, if any do.
    pub begin: Option<BeginSource>,
    /// A debugger, if one takes hold of the run.
    pub debug: Option<DebugSource>,
    /// The samples to take of the run, if any are.
    pub profile: Option<ProfileSource>,
    /// Tells of the files of guests' programs, for the stacks of those samples.
    pub programs: Option<ProgramSource>,
    /// The snapshots to take of the run, if any are.
    pub snapshots: Option<SnapshotSource>,
    /// The changes by which the run becomes another, if it does.
    pub change: Option<ChangeSource>,
    /// Recording of events inside the run, if there is any.
    pub timeline: Option<TimelineConfig>,
    /// Condition under which the run is to end before its end.
    pub stop: Stop,
}

/// Called when the commands begin: the samples to take of the run, if any are.
pub type ProfileSource = Box<dyn FnOnce() -> Option<ProfileJob>>;

/// Options of the events inside a run ([`stasis_run_events::RunEvent::Spans`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineConfig {
    /// True if a freeze records its length by the wall clock, which no run repeats.
    pub wall_clock: bool,
}

/// Ways to end a run from outside.
#[derive(Default)]
pub struct Stop {
    /// Set to end it.
    pub flag: Arc<AtomicBool>,
    /// Called now and then where no other thread can set the flag: the bare
    /// machine.
    pub poll: Option<Box<dyn Fn()>>,
    /// Time at which the wall-clock time for everything is over.
    pub deadline: Option<Instant>,
}

/// The declared processor speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// The TSC runs at this frequency (kHz), as announced to the guest.
    Khz(u64),
    /// As fast as the host's TSC, times this.
    Times(f64),
}
