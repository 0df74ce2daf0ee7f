//! Makes machines: memory, devices, processors, calibration, and the kernel
//! loaded. Owns nothing: each part is handed to the machine or the run.

use std::ops::Range;
use std::time::Instant;

use stasis_block::timeline::Tracks;
use stasis_block::{splitmix, Link, MAX_DRIVES};
use stasis_drive::WritePointers;
use stasis_run_events::{EventSink, RunEvent, Stage};

use super::alike::{self, Shared};
use super::bounds::Bounds;
use super::changes::{Changes, MachineFaults};
use super::chipset::Chipset;
use super::common::Common;
use super::config::{Beginning, Config, DriveConfig, MachineConfig, Rewind, Speed, TimelineConfig};
use super::controller::Controller;
use super::dependencies::Dependencies;
use super::drives::{Drives, Plug};
use super::event_stream::EventStream;
use super::faults::Faults;
use super::first_boot::FirstBoot;
use super::help::Help;
use super::kept_boot::KeptBoot;
use super::limits::Limits;
use super::looks::Looks;
use super::networks::Networks;
use super::pace::Pace;
use super::path_faults::NATIVE_HOT_PLUG;
use super::progress::Progress;
use super::rewind::RewindState;
use super::rounds::Rounds;
use super::run::{KernelFiles, Run};
use super::sampling::view::View;
use super::shared_drives::SharedDrives;
use super::slots::Slots;
use super::sources::Sources;
use super::triggers::Triggers;
use super::typing::Typing;
use super::vm::{Boot, Machine};
use super::watch::Watch;
use crate::boot::{self, Kernel};
use crate::devices::{ChannelDevice, DriveDevice, NetworkDevice};
use crate::engine::{Engine, MachineProcessors};
use crate::engine_here;
use crate::error::Error;
use crate::freeze::{Clock, Scale};
use crate::memory::{GuestMemory, Region};
use crate::pci::{Bus, Function, Identity, SLOTS};
use crate::pvclock::{PvClock, Reads};
use crate::statistics::{Statistics, TurnsOn};
use crate::vcpu::{Processor, VcpuSlot};
use crate::{acpi, layout, MAX_PROCESSORS};

const HOST_BRIDGE: Identity =
    Identity { vendor: stasis_channel::VENDOR_ID, device: 0, class: 0x06_00_00, revision: 1 };
// Class: system peripheral, other.
const CHANNEL: Identity = Identity {
    vendor: stasis_channel::VENDOR_ID,
    device: stasis_channel::DEVICE_ID,
    class: 0x08_80_00,
    revision: stasis_channel::REVISION,
};

impl<'j> Run<'j> {
    pub(super) fn new(config: Config<'j>, events: &'j mut dyn EventSink) -> Result<Self, Error> {
        let born = Instant::now();
        let several = config.machines.len() > 1;
        for machine in &config.machines {
            check(machine).map_err(|text| {
                Error::Limit(if several { format!("{}: {text}", machine.name) } else { text })
            })?;
        }
        events.event(RunEvent::Stage(Stage::Preparing)).map_err(Error::EventSink)?;
        let mut engine = engine_here::open()?;
        let all: usize = config.machines.iter().map(|machine| machine.vcpus as usize).sum();
        let threads = config.threads.clamp(1, all.max(1));
        let reads = if threads > 1 { Reads::Own } else { Reads::Mean };
        let is_single = config.machines.iter().all(|machine| machine.vcpus == 1);
        let code = alike::code(config.vmlinux, config.machines.len());
        let (mut machines, mut processors) = (Vec::new(), Vec::new());
        let mut dependencies = Vec::new();
        for (number, mut machine) in config.machines.into_iter().enumerate() {
            processors.extend((0..machine.vcpus as usize).map(|index| (number, index)));
            let root = (config.root_length, &mut *config.fill_root);
            let rewind = machine.rewind.take();
            dependencies.push(std::mem::take(&mut machine.dependencies));
            // All machines' processors are in one pool.
            let kept_boot = match (machine.comes_back, machine.boots_again) {
                (false, _) => match machine.beginning {
                    Beginning::Boot => KeptBoot::none(),
                    Beginning::Hidden | Beginning::FirstBoot(_) => KeptBoot::hidden(),
                    Beginning::Recorded => KeptBoot::of_later_runs(),
                },
                (true, true) => KeptBoot::unwanted(),
                (true, false) if !is_single => KeptBoot::among_several(),
                (true, false) => KeptBoot::recorded(),
            };
            let reads = (reads, kept_boot);
            let made = Machine::new(&mut *engine, machine, (number as u16, &code), root, reads)?;
            machines.push((made, rewind));
        }
        let Some((one, _)) = machines.first() else {
            return Err(Error::Limit("there is no machine to run".into()));
        };
        let host_khz = engine.khz()?;
        let scale = Scale::new(match config.speed {
            Speed::Khz(khz) => khz,
            Speed::Times(times) => (host_khz as f64 * times) as u64,
        });
        events.event(RunEvent::Stage(Stage::Calibrating)).map_err(Error::EventSink)?;
        let mut clock = Clock::new(scale);
        clock.costs = engine.calibrate(&one.memory)?;
        let vcpus = engine.processors()?;
        let triggers = config.triggers;
        for trigger in &triggers {
            for (machine, _) in &mut machines {
                if trigger.listens_to(machine.number) {
                    machine.channel.listen();
                }
            }
        }
        for ((machine, _), vcpus) in machines.iter_mut().zip(vcpus) {
            machine.vcpus = vcpus.into_iter().map(VcpuSlot::new).collect();
        }

        let kernel = KernelFiles { vmlinux: config.vmlinux, initramfs: config.initramfs };
        for (machine, _) in &mut machines {
            machine.complete_command_line(scale);
            if !machine.kept_boot.is_made() {
                machine.load(&kernel)?;
            }
        }
        events.event(RunEvent::Stage(Stage::Booting)).map_err(Error::EventSink)?;
        let window = |rewind: Rewind| scale.to_ticks(rewind.window);
        let mut machines: Vec<Machine> = machines
            .into_iter()
            .map(|(machine, rewind)| Machine {
                rewind: rewind.map(window).map(RewindState::new),
                ..machine
            })
            .collect();
        let alike = Shared::begin(&mut machines, code);
        let all = machines.iter().flat_map(|machine| &machine.vcpus);
        let lateness = all.map(|vcpu| vcpu.lateness()).max().unwrap_or(0);
        let watch = match config.timeline {
            Some(timeline) => Some(Box::new(watch(&mut machines, timeline, scale, events)?)),
            None => None,
        };
        let networks = Networks::new(config.networks, config.outside);
        let is_free = several && config.shared.is_empty();
        let pace = Pace::new(config.quantum, networks.lookahead(), is_free, lateness, scale);
        let mut statistics = Statistics::new(born, processors.len());
        statistics.turns_on = TurnsOn { threads: threads as u32, quantum: pace.quantum() };
        let mut common = Common {
            clock,
            pace,
            preparing: machines.len(),
            dependencies: Dependencies::new(dependencies),
            stream: EventStream::new(events, !several, config.has_faults),
            triggers: Triggers::new(triggers)?,
            networks,
            statistics,
            watch,
            view: View::default(),
            typing: Typing::new(config.keyboard),
            is_observed: false,
        };
        for machine in machines.iter_mut().filter(|machine| machine.kept_boot.is_made()) {
            machine.begin_from_first_boot(&mut common, &kernel)?;
        }
        let rounds = Rounds::new(threads, processors.len())?;
        let Config { begin, debug, snapshots, change, profile, programs, .. } = config;
        Ok(Self {
            common,
            rounds,
            sources: Sources::new(begin, debug, snapshots, change, profile, programs),
            branching: Vec::new(),
            debug: None,
            snapshots: None,
            changes: Changes::default(),
            interleaving: None,
            sampler: None,
            limits: Limits::default(),
            slices: Vec::new(),
            machines,
            alike,
            kernel,
            shared: SharedDrives::new(config.shared),
            processors,
            current: 0,
            instant: 0,
            turn: 0,
            bounds: Bounds::new(config.virtual_limit, config.stop),
            looks: Looks::new(born),
        })
    }
}

/// Makes everything record its activity, and emits the list of tracks.
fn watch(
    machines: &mut [Machine],
    timeline: TimelineConfig,
    scale: Scale,
    events: &mut dyn EventSink,
) -> Result<Watch, Error> {
    let mut tracks = Tracks::default();
    let named: Vec<_> =
        machines.iter().map(|machine| (machine.name.clone(), machine.processors.len())).collect();
    let watch = Watch::new(&named, scale, timeline.wall_clock, &mut tracks);
    for drive in machines.iter_mut().flat_map(|machine| machine.drives.controls()) {
        drive.watch(&mut tracks);
    }
    events.event(RunEvent::Tracks(tracks.into_vec())).map_err(Error::EventSink)?;
    Ok(watch)
}

fn check(config: &MachineConfig) -> Result<(), String> {
    if !(1..=MAX_PROCESSORS).contains(&config.vcpus) {
        return Err(format!(
            "{} vCPUs asked for, but a machine has 1 to {MAX_PROCESSORS}",
            config.vcpus
        ));
    }
    const { assert!(MAX_DRIVES == SLOTS - layout::FIRST_DRIVE_SLOT) };
    let most = MAX_DRIVES - usize::from(config.root.is_some());
    let functions = |drive: &DriveConfig| match &drive.controller {
        Controller::Nvme { controllers, .. } => usize::from(*controllers).max(1),
        Controller::Virtio(_) => 1,
    };
    let drives: usize = config.drives.iter().map(functions).sum();
    let ports = config.ports.len();
    if drives + ports > most {
        return Err(format!(
            "{drives} controllers of drives and {ports} networks asked for, but a machine has at \
             most {most} of both"
        ));
    }
    Ok(())
}

/// Length of the root file system, and the function that fills its memory.
type Root<'a, 'b> = (u64, &'a mut (dyn FnMut(&mut [u8]) -> std::io::Result<()> + 'b));

impl Machine {
    fn new(
        engine: &mut dyn Engine,
        config: MachineConfig<'_>,
        (number, code): (u16, &[Range<u64>]),
        (root_length, fill_root): Root,
        (reads, kept_boot): (Reads, KeptBoot),
    ) -> Result<Self, Error> {
        let notes_writes = config.comes_back || kept_boot.ends_at_greeting();
        let fill = |root: &mut Region| {
            let bytes = root.mapping_mut().as_mut_slice();
            fill_root(&mut bytes[..root_length as usize]).map_err(Error::Input)
        };
        let failed = |error| Error::Memory(config.memory >> 20, error);
        let (mut memory, kept_boot) = match config.beginning {
            Beginning::FirstBoot(first) => {
                let FirstBoot { memory, greeting } = first;
                (memory.take(fill, failed)?, kept_boot.begun_from(greeting))
            }
            _ => {
                let mut memory = GuestMemory::new(config.memory, root_length).map_err(failed)?;
                memory.root_mut().map_or(Ok(()), fill)?;
                (memory, kept_boot)
            }
        };
        let mut channel = ChannelDevice::new(config.job, config.command)
            .map_err(|error| Error::Memory(4, error))?;
        let fails = !config.failures.is_empty();
        let (mut drives, plugs, path_faults) = Drives::new(config.drives, config.root)?;
        if fails {
            drives.make_replaceable();
            channel.make_restartable();
        }
        let ports: Vec<_> = config.ports.into_iter().map(NetworkDevice::new).collect();
        let slots = Slots::new(drives.all(), &ports);
        let mut bus = bus(&plugs, drives.all(), &ports);
        let buffers = drives.place_memory_buffers(&mut bus, &slots);
        if buffers.last().is_some_and(|(at, size)| at + size > layout::PCI_MEMORY.end) {
            return Err(Error::Limit(format!(
                "memory buffers of {} controllers do not fit below {:#x}: give fewer or smaller ones",
                buffers.len(),
                layout::PCI_MEMORY.end
            )));
        }
        for (at, size) in buffers {
            memory.add_device(at, size).map_err(|error| Error::Memory(size >> 20, error))?;
        }
        path_faults.settle(&mut bus, &slots);
        let kept_boot = if path_faults.any() { KeptBoot::with_paths() } else { kept_boot };
        if kept_boot.hides_drives() {
            bus.hide(layout::FIRST_DRIVE_SLOT);
        }
        let channel_function = bus.function(layout::CHANNEL_SLOT);
        let mailbox = channel_function.bar(stasis_channel::MAILBOX_BAR).unwrap_or(0);
        let mut regions: Vec<(u64, u64, u64)> = memory
            .regions()
            .iter()
            .map(|region| (region.base, region.length, region.mapping().host_address()))
            .collect();
        regions.push((mailbox, channel.mailbox().len() as u64, channel.mailbox().host_address()));
        let processors =
            MachineProcessors { count: config.vcpus, reads, random: config.random, notes_writes };
        // SAFETY: the mappings live as long as the machine, longer than its
        // processors (field order), and cover these lengths.
        unsafe { engine.add_machine(&regions, code, processors)? };
        let boot = Boot { command_line: config.command_line.to_owned(), seed: config.seed };
        let processors = (0..config.vcpus).map(Processor::new).collect();
        let faults = MachineFaults {
            failures: config.failures,
            pauses: config.pauses,
            orders: config.orders,
        };
        Ok(Self {
            vcpus: Vec::new(),
            processors,
            memory,
            bus,
            channel,
            drives,
            ports,
            slots,
            chipset: Chipset::new(config.vcpus),
            faults: Faults::new(faults, path_faults),
            boot,
            kept_boot,
            origin: 0,
            rewind: None,
            clock: PvClock::new(config.vcpus as usize, reads),
            number,
            name: config.name,
            progress: Progress::new(config.waited),
            help: Help::default(),
        })
    }

    /// Puts what the kernel must know of the machine before what the user gives it.
    fn complete_command_line(&mut self, scale: Scale) {
        // Each of several processors has a separate TSC: the clock that they share is KVM's (see
        // `pvclock`).
        let clock = match self.processors.len() {
            1 => "clocksource=tsc",
            _ => "clocksource=kvm-clock",
        };
        let (khz, given) = (scale.khz(), &self.boot.command_line);
        let slots = if self.faults.paths.can_leave() { NATIVE_HOT_PLUG } else { "" };
        let line = format!("{BASE_COMMAND_LINE}{slots} {clock} tsc_early_khz={khz} {given}");
        self.boot.command_line = line.trim_end().to_owned();
    }

    /// Begins with its first boot, which has been made before the run; where that cannot be, boots.
    fn begin_from_first_boot(
        &mut self,
        common: &mut Common,
        kernel: &KernelFiles<'_>,
    ) -> Result<(), Error> {
        if self.begin_made(common)? {
            return Ok(());
        }
        self.reset_devices(&[])?;
        self.lose_memory();
        self.load(kernel)
    }

    /// Puts the kernel into memory, and the first processor before it.
    pub(super) fn load(&mut self, files: &KernelFiles<'_>) -> Result<(), Error> {
        // Each boot draws the same up to the agent's greeting, and what the job's seed says afterwards.
        let Boot { command_line, seed } = &self.boot;
        let kernel = Kernel {
            vmlinux: files.vmlinux,
            initramfs: files.initramfs,
            command_line,
            seed: expand_seed(*seed),
        };
        let too_small = |_| boot::BootError::TooSmall;
        boot::write_tables(&self.memory).map_err(too_small)?;
        acpi::write(&self.memory, self.processors.len() as u8).map_err(too_small)?;
        let entry = boot::load(&self.memory, &kernel)?;
        self.vcpus[0].start_at_kernel(entry)
    }

    /// Brings all devices but the drives themselves into their state after power-on. `ends`: of each
    /// drive where its zones end, if a power cut has changed that.
    pub(super) fn reset_devices(&mut self, ends: &[Option<WritePointers>]) -> Result<(), Error> {
        let plugs = self.drives.reset(ends)?;
        self.ports = self.ports.iter().map(|port| NetworkDevice::new(port.place)).collect();
        self.bus = bus(&plugs, self.drives.all(), &self.ports);
        // The buffers are where they were: the functions are the same.
        self.drives.place_memory_buffers(&mut self.bus, &self.slots);
        self.faults.paths.settle(&mut self.bus, &self.slots);
        if self.kept_boot.hides_drives() {
            self.bus.hide(layout::FIRST_DRIVE_SLOT);
        }
        for (path, fault) in self.faults.paths.of_controllers() {
            self.befall_controller(path, fault, true);
        }
        self.chipset.reset(self.processors.len() as u32);
        self.clock = PvClock::new(self.processors.len(), self.clock.reads());
        Ok(())
    }
}

/// The bus of a machine with these functions of drives and these ports, in the order of [`Slots`].
fn bus(plugs: &[Plug], drives: &[DriveDevice], ports: &[NetworkDevice]) -> Bus {
    let mut bus = Bus::new();
    let mut next = layout::PCI_MEMORY.start;
    bus.add(Function::new(HOST_BRIDGE), &mut next);
    let channel = Function::new(CHANNEL)
        .with_bar(stasis_channel::MAILBOX_BAR, stasis_channel::MAILBOX_SIZE as u64, true)
        .with_bar(stasis_channel::REGISTERS_BAR, stasis_channel::REGISTERS_SIZE as u64, false);
    bus.add(channel, &mut next);
    let mut add = |bus: &mut Bus, function, link: Option<Link>| match link {
        Some(link) => bus.add_behind_port(function, link, &mut next),
        None => bus.add(function, &mut next),
    };
    for (function, link) in plugs {
        add(&mut bus, function.clone(), *link);
    }
    for port in ports {
        add(&mut bus, port.function(), None);
    }
    for ((function, link), drive) in plugs.iter().zip(drives) {
        for _ in 1..drive.paths() {
            add(&mut bus, function.clone(), *link);
        }
    }
    bus
}

/// Stretches a seed to the length that the kernel takes.
fn expand_seed(seed: u64) -> [u8; 32] {
    let mut out = [0; 32];
    for (word, index) in out.chunks_mut(8).zip(1..) {
        word.copy_from_slice(&splitmix::nth(seed, index).to_le_bytes());
    }
    out
}

/// Command line of every guest's kernel: one clock, no search for firmware, and nothing random
/// except its seed.
const BASE_COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=1 panic=-1 reboot=t \
     tsc=reliable no_timer_check nowatchdog nokaslr mitigations=off \
     random.trust_bootloader=on cryptomgr.notests 8250.nr_uarts=1 pci=conf1 rcupdate.rcu_expedited=1";
