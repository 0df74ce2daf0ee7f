//! The making of a [`FirstBoot`]: a run of a machine without drives that ends as its guest's agent greets.
//! Owns nothing but that run.

use stasis_channel::Job;
use stasis_run_events::{EventSink, RunEvent};

use super::config::{Beginning, Config, MachineConfig, Speed, Stop};
use super::first_boot::FirstBoot;
use super::run::Run;
use crate::error::Error;

/// Distance of processors (ns), of which there is one: where its slices end, it does not notice.
const QUANTUM: u64 = 20_000;

/// Configuration of a first boot: everything that it depends on.
pub struct FirstBootConfig<'a> {
    /// Memory in bytes.
    pub memory: u64,
    /// Added to the kernel's command line.
    pub command_line: &'a str,
    /// Seed of the guest's random numbers while it boots.
    pub seed: u64,
    /// Processor speed.
    pub speed: Speed,
    /// The kernel (vmlinux).
    pub vmlinux: &'a [u8],
    /// The initramfs.
    pub initramfs: &'a [u8],
    /// Length of the root file system in bytes.
    pub root_length: u64,
    /// Fills the root file system's memory.
    pub fill_root: &'a mut dyn FnMut(&mut [u8]) -> std::io::Result<()>,
}

/// Boots a machine up to its agent's greeting.
///
/// # Errors
/// See [`Error`]. A boot from which no run can go on is one as well.
pub fn first_boot(config: FirstBootConfig<'_>) -> Result<FirstBoot, Error> {
    let FirstBootConfig { memory, command_line, seed, speed, .. } = config;
    let FirstBootConfig { vmlinux, initramfs, root_length, fill_root, .. } = config;
    let machine = MachineConfig {
        name: String::new(),
        vcpus: 1,
        memory,
        command_line,
        job: Job::new(Vec::new()),
        command: Box::new(|| Err(std::io::ErrorKind::Unsupported.into())),
        drives: Vec::new(),
        root: None,
        ports: Vec::new(),
        seed,
        random: false,
        comes_back: false,
        boots_again: false,
        beginning: Beginning::Recorded,
        rewind: None,
        waited: true,
        pauses: Vec::new(),
        failures: Vec::new(),
        dependencies: Vec::new(),
        orders: Vec::new(),
    };
    let mut events = Unheard;
    let config = Config {
        machines: vec![machine],
        shared: Vec::new(),
        has_faults: false,
        triggers: Vec::new(),
        networks: Vec::new(),
        outside: None,
        speed,
        vmlinux,
        initramfs,
        root_length,
        fill_root,
        quantum: QUANTUM,
        threads: 1,
        virtual_limit: None,
        keyboard: None,
        begin: None,
        debug: None,
        profile: None,
        programs: None,
        snapshots: None,
        change: None,
        timeline: None,
        stop: Stop::default(),
    };
    let mut run = Run::new(config, &mut events)?;
    run.run()?;
    let machine = run.machines.first_mut().ok_or(Error::Internal("there is no machine"))?;
    let greeting = machine.kept_boot.take_greeting().map_err(Error::Unfit)?;
    Ok(FirstBoot::new(std::mem::take(&mut machine.memory), greeting))
}

/// A sink that drops all: the run that goes on from the boot has these events itself.
struct Unheard;

impl EventSink for Unheard {
    fn event(&mut self, _: RunEvent) -> std::io::Result<()> {
        Ok(())
    }
}
