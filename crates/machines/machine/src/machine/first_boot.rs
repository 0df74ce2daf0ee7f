//! A machine's first boot, made before its drives are known: up to the moment at which the guest's agent
//! greets, it depends on nothing but the machine ([`super::kept_boot`]). Runs with any drives and networks go
//! on from there, and each machine of a run.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use stasis_channel::Job;
use stasis_run_events::{EventSink, RunEvent};

use super::config::{Beginning, Config, MachineConfig, Speed, Stop};
use super::kept_boot::Greeting;
use super::run::Run;
use crate::error::Error;
use crate::memory::{GuestMemory, Region};

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

/// A machine as its guest's agent greets for the first time.
pub struct FirstBoot {
    pub(super) memory: FirstMemory,
    pub(super) greeting: Arc<Greeting>,
}

impl FirstBoot {
    /// The same for each of `count` machines.
    pub fn each(self, count: usize) -> impl Iterator<Item = Self> {
        let Self { memory: FirstMemory { memory, .. }, greeting } = self;
        (1..=count).map(move |number| Self {
            memory: FirstMemory { memory: Arc::clone(&memory), is_last: number == count },
            greeting: Arc::clone(&greeting),
        })
    }
}

/// Memory of a first boot: the last machine takes it, and those before it have copies.
pub(super) struct FirstMemory {
    memory: Arc<Mutex<GuestMemory>>,
    is_last: bool,
}

impl FirstMemory {
    /// The memory, or a copy of it, in which `fill` fills the root file system's range.
    ///
    /// # Errors
    /// `fill`'s; and that there is too little memory, as `failed` makes it.
    pub(super) fn take(
        self,
        fill: impl FnOnce(&mut Region) -> Result<(), Error>,
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<GuestMemory, Error> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        match self.is_last {
            true => Ok(std::mem::take(&mut memory)),
            false => memory.copy(fill, failed),
        }
    }
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
    let memory = std::mem::take(&mut machine.memory);
    let memory = FirstMemory { memory: Arc::new(Mutex::new(memory)), is_last: true };
    Ok(FirstBoot { memory, greeting })
}

/// A sink that drops all: the run that goes on from the boot has these events itself.
struct Unheard;

impl EventSink for Unheard {
    fn event(&mut self, _: RunEvent) -> std::io::Result<()> {
        Ok(())
    }
}
