//! A machine: its making, and the loop that runs its processors in turn.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvm_bindings::{
    kvm_enable_cap, kvm_userspace_memory_region, KVM_CAP_X86_DISABLE_EXITS,
    KVM_CAP_X86_USER_SPACE_MSR, KVM_CAP_VCPU_ATTRIBUTES, KVM_MAX_CPUID_ENTRIES, KVM_X86_DISABLE_EXITS_PAUSE,
};
use kvm_ioctls::{
    Cap, Kvm, MsrExitReason, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags,
    VcpuExit, VmFd,
};
use stasis_channel::Job;
use stasis_clock::Nanos;
use stasis_drive::Drive;
use stasis_journal::{Ending, Entry, IoRecord, Journal, Outcome, Stage};
use stasis_nvme::Controller;

use crate::apic::{Apic, Delivery, Destination, Effect, Expiry, Message};
use crate::boot::{self, Kernel};
use crate::calibrate;
use crate::clock::{Clock, Way};
use crate::cpuid;
use crate::devices::{cmos, ChannelDevice, Cmos, IoApic, NvmeDevice, Serial, Told};
use crate::error::Error;
use crate::kick::Kick;
use crate::layout;
use crate::memory::GuestMemory;
use crate::pci::{Bus, Function, Identity, SLOTS};
use crate::quiet::Quiet;
use crate::statistics::Statistics;
use crate::time::{host_tsc, Scale};
use crate::vcpu::{Processor, State, Vcpu};
use crate::{acpi, PROCESSORS_LIMIT};

/// MSR of the local APIC's TSC deadline (Intel SDM vol. 4, table 2-2).
const TSC_DEADLINE: u32 = 0x6e0;
/// First and last MSR of the x2APIC's registers.
const X2APIC: std::ops::RangeInclusive<u32> = 0x800..=0x8ff;
/// The legacy timer's ports. There is none; a counter that reads zero ends
/// Linux's early attempt to calibrate by it at once (`quick_pit_calibrate`).
const PIT: std::ops::RangeInclusive<u16> = 0x40..=0x43;
/// I/O records that go to the journal together.
const BATCH: usize = 512;
/// How often the journal hears of progress.
const PROGRESS: Duration = Duration::from_millis(200);
/// The longest slice, in the host's time: the stop flag is looked at between.
const LONGEST_SLICE: Duration = Duration::from_millis(20);

/// One drive of a machine.
pub struct DriveConfig {
    /// The drive behind it.
    pub drive: Drive,
    /// How the controller presents it.
    pub controller: stasis_nvme::Config,
}

/// How far time may be set back for a drive that is faster than the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// A completion is held back for the guest to become idle at most so long
    /// after its submission (ns).
    pub window: Nanos,
}

/// What a machine is made of.
pub struct Config<'a> {
    /// Processors, 1 to [`PROCESSORS_LIMIT`].
    pub vcpus: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Processor speed: how many times as fast as it ticks the TSC is declared.
    pub speed: Speed,
    /// The kernel (vmlinux).
    pub vmlinux: &'a [u8],
    /// The initramfs.
    pub initramfs: &'a [u8],
    /// Added to the kernel's command line.
    pub command_line: &'a str,
    /// Length of the root file system in bytes.
    pub root_length: u64,
    /// Fills the root file system's memory.
    pub fill_root: &'a mut dyn FnMut(&mut [u8]) -> std::io::Result<()>,
    /// What the guest is to do.
    pub job: Job,
    /// Files for the guest, as a tar stream.
    pub input: Box<dyn Read + Send>,
    /// The drives, in order.
    pub drives: Vec<DriveConfig>,
    /// Seed of everything random in the guest.
    pub seed: u64,
    /// Whether the host repeats itself to the instruction (`exact`).
    pub repeatable: bool,
    /// Whether RDRAND and RDSEED are visible.
    pub random: bool,
    /// Rewind, if wanted.
    pub rewind: Option<Rewind>,
    /// Length of a processor's slice while others could run too (ns of virtual time).
    pub slice: Nanos,
    /// Most virtual time for the command (ns).
    pub virtual_limit: Option<Nanos>,
    /// Most wall-clock time for everything.
    pub wall_limit: Option<Duration>,
    /// Set to end the run.
    pub stop: Arc<AtomicBool>,
}

/// The declared processor speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// The TSC runs at this frequency (kHz), as the guest is told.
    Khz(u64),
    /// As fast as the host's TSC, times this.
    Times(f64),
}

/// Runs a machine from its making to its end.
///
/// # Errors
/// See [`Error`]; a guest that fails is an [`Outcome`], not an error.
pub fn run(config: Config<'_>, journal: &mut dyn Journal) -> Result<Outcome, Error> {
    let mut machine = Machine::new(config, journal)?;
    let ending = machine.run()?;
    machine.outcome(ending)
}

/// A slice that would leave the host's quiet time within so many ticks is not
/// begun.
const SHORTEST_STAY: u64 = 40_000;
/// An event so little ahead (ticks) is not worth an entry.
const GRAIN: u64 = 400;
/// By how much a kick's handling may differ from the calibrated cost before the
/// host counts as having been away (ticks).
const KICK_TOLERANCE: u64 = 20_000;
const HOST_BRIDGE: Identity =
    Identity { vendor: stasis_channel::VENDOR_ID, device: 0, class: 0x06_00_00, revision: 1 };
// Class: system peripheral, other.
const CHANNEL: Identity = Identity {
    vendor: stasis_channel::VENDOR_ID,
    device: stasis_channel::DEVICE_ID,
    class: 0x08_80_00,
    revision: stasis_channel::REVISION,
};

struct Machine<'j> {
    // Dropped in this order: what points into the vCPUs, the vCPUs, the VM, the
    // memory.
    kick: Kick,
    vcpus: Vec<Vcpu>,
    _vm: VmFd,
    processors: Vec<Processor>,
    memory: GuestMemory,
    clock: Clock,
    quiet: Option<Quiet>,
    bus: Bus,
    channel: ChannelDevice,
    drives: Vec<NvmeDevice>,
    serial: Serial,
    io_apic: IoApic,
    cmos: Cmos,
    rewind: Option<RewindState>,
    slice: u64,
    longest_slice: u64,
    current: usize,
    slice_end: u64,
    journal: &'j mut dyn Journal,
    records: Vec<IoRecord>,
    statistics: Statistics,
    virtual_limit: Option<Nanos>,
    wall_limit: Option<Duration>,
    stop: Arc<AtomicBool>,
    starting: Vec<(usize, u8)>,
}

#[derive(Debug)]
struct RewindState {
    window: u64,
    /// Until when completions wait for the guest to become idle (ticks).
    hold_until: u64,
    /// Time is never set back before this (ticks).
    floor: u64,
}

/// What the loop does after an exit.
enum After {
    Continue,
    End(Ending),
}

impl<'j> Machine<'j> {
    fn new(config: Config<'_>, journal: &'j mut dyn Journal) -> Result<Self, Error> {
        let born = Instant::now();
        if !(1..=PROCESSORS_LIMIT).contains(&config.vcpus) {
            return Err(Error::Limit(format!(
                "{} vCPUs asked for, but a machine has 1 to {PROCESSORS_LIMIT}",
                config.vcpus
            )));
        }
        if config.drives.len() > SLOTS - 2 {
            return Err(Error::Limit(format!(
                "{} drives asked for, but a machine has at most {}",
                config.drives.len(),
                SLOTS - 2
            )));
        }
        journal.entry(Entry::Stage(Stage::Preparing)).map_err(Error::Journal)?;
        let kvm = Kvm::new().map_err(Error::kvm("open /dev/kvm"))?;
        let vm = kvm.create_vm().map_err(Error::kvm("create a virtual machine"))?;
        prepare_vm(&vm)?;
        let mut memory = GuestMemory::new(config.memory, config.root_length)
            .map_err(|error| Error::Memory(config.memory >> 20, error))?;
        if let Some(root) = memory.root_mut() {
            let bytes = root.mapping_mut().as_mut_slice();
            (config.fill_root)(&mut bytes[..config.root_length as usize])
                .map_err(Error::Journal)?;
        }
        let channel = ChannelDevice::new(config.job, config.input)
            .map_err(|error| Error::Memory(4, error))?;
        let mut bus = Bus::new();
        let mut next = layout::PCI_MEMORY.start;
        bus.add(Function::new(HOST_BRIDGE), &mut next);
        let channel_function = Function::new(CHANNEL)
            .with_bar(stasis_channel::MAILBOX_BAR, stasis_channel::MAILBOX_SIZE as u64, true)
            .with_bar(stasis_channel::REGISTERS_BAR, stasis_channel::REGISTERS_SIZE as u64, false);
        let slot = bus.add(channel_function, &mut next);
        let mailbox = bus.function(slot).bar(stasis_channel::MAILBOX_BAR).unwrap_or(0);
        let mut regions: Vec<(u64, u64, u64)> = memory
            .regions()
            .iter()
            .map(|region| (region.base, region.length, region.mapping().host_address()))
            .collect();
        regions.push((mailbox, channel.mailbox().len() as u64, channel.mailbox().host_address()));
        for (slot, (base, length, host)) in regions.into_iter().enumerate() {
            let region = kvm_userspace_memory_region {
                slot: slot as u32,
                guest_phys_addr: base,
                memory_size: length,
                userspace_addr: host,
                flags: 0,
            };
            // SAFETY: the mapping lives as long as the machine, longer than the
            // VM and its vCPUs (field order), and covers `length` bytes.
            unsafe { vm.set_user_memory_region(region) }.map_err(Error::kvm("set memory"))?;
        }
        let mut drives = Vec::new();
        for DriveConfig { drive, controller } in config.drives {
            bus.add(NvmeDevice::function(controller.queue_pairs), &mut next);
            let controller = Controller::new(controller)
                .map_err(|error| Error::Drive(drive.name().to_owned(), error))?;
            drives.push(NvmeDevice::new(controller, drive));
        }
        let supported = kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(Error::kvm("read the supported CPUID"))?;
        let mut vcpus = Vec::new();
        for index in 0..config.vcpus {
            let cpuid = cpuid::filter(&supported, index, config.vcpus, config.random);
            vcpus.push(Vcpu::new(&vm, index, &cpuid)?);
        }
        let host_khz =
            u64::from(vcpus[0].fd().get_tsc_khz().map_err(Error::kvm("read the TSC's frequency"))?);
        let scale = Scale::new(match config.speed {
            Speed::Khz(khz) => khz,
            Speed::Times(times) => (host_khz as f64 * times) as u64,
        });
        let mut kick = Kick::new(host_khz).map_err(Error::Timer)?;
        let mut quiet = if config.repeatable { Quiet::find(host_khz) } else { None };
        journal.entry(Entry::Stage(Stage::Calibrating)).map_err(Error::Journal)?;
        let mapped = boot::write_tables(&memory).map_err(|_| boot::BootError::TooSmall)?;
        calibrate::touch(&memory, &mut vcpus[0], &mapped)?;
        let costs = calibrate::measure(&memory, &mut vcpus[0], &mut kick, quiet.as_mut())?;
        let mut clock = Clock::new(scale);
        clock.costs = costs;

        acpi::write(&memory, config.vcpus as u8).map_err(|_| boot::BootError::TooSmall)?;
        let command_line =
            format!("{BASE_COMMAND_LINE} tsc_early_khz={} {}", scale.khz(), config.command_line);
        let entry = boot::load(
            &memory,
            &Kernel {
                vmlinux: config.vmlinux,
                initramfs: config.initramfs,
                command_line: command_line.trim_end(),
                seed: expand_seed(config.seed),
            },
        )?;
        let mut sregs = vcpus[0].fd().get_sregs().map_err(Error::kvm("read registers"))?;
        boot::long_mode(&mut sregs);
        vcpus[0].fd().set_sregs(&sregs).map_err(Error::kvm("set registers"))?;
        vcpus[0]
            .fd()
            .set_regs(&boot::entry_registers(entry))
            .map_err(Error::kvm("set registers"))?;
        let processors = (0..config.vcpus)
            .map(|index| Processor {
                apic: Apic::new(index),
                state: if index == 0 { State::Runnable } else { State::Waiting },
            })
            .collect();
        journal.entry(Entry::Stage(Stage::Booting)).map_err(Error::Journal)?;
        let rewind = config.rewind.map(|rewind| RewindState {
            window: scale.to_ticks(rewind.window),
            hold_until: 0,
            floor: 0,
        });
        let longest_slice = (host_khz as f64 * LONGEST_SLICE.as_secs_f64() * 1e3) as u64;
        Ok(Self {
            processors,
            _vm: vm,
            vcpus,
            memory,
            clock,
            kick,
            quiet,
            bus,
            channel,
            drives,
            serial: Serial::default(),
            io_apic: IoApic::new(config.vcpus),
            cmos: Cmos::default(),
            rewind,
            slice: scale.to_ticks(config.slice).max(1),
            longest_slice,
            current: 0,
            slice_end: 0,
            journal,
            records: Vec::with_capacity(BATCH),
            statistics: Statistics::new(born),
            starting: Vec::new(),
            virtual_limit: config.virtual_limit,
            wall_limit: config.wall_limit,
            stop: config.stop,
        })
    }

    fn run(&mut self) -> Result<Ending, Error> {
        loop {
            if let Some(ending) = self.look_around()? {
                return Ok(ending);
            }
            self.happen()?;
            let Some(index) = self.choose() else {
                let Some(next) = self.next_event() else { return Ok(Ending::Hung) };
                self.idle_until(next);
                continue;
            };
            if let After::End(ending) = self.slice(index)? {
                return Ok(ending);
            }
        }
    }

    // What is looked at between slices: the user, limits, progress.
    fn look_around(&mut self) -> Result<Option<Ending>, Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Some(Ending::Cancelled));
        }
        if let (Some(limit), true) = (self.virtual_limit, self.statistics.running) {
            if self.clock.now_ns().saturating_sub(self.statistics.started_virtual) >= limit {
                return Ok(Some(Ending::VirtualLimit));
            }
        }
        // The wall clock costs a call; every so many turns is often enough.
        self.statistics.turns = self.statistics.turns.wrapping_add(1);
        if self.statistics.turns.is_multiple_of(64) {
            let now = Instant::now();
            if self.wall_limit.is_some_and(|limit| now - self.statistics.born >= limit) {
                return Ok(Some(Ending::WallLimit));
            }
            if now - self.statistics.reported >= PROGRESS {
                self.statistics.reported = now;
                self.flush_records()?;
                self.journal
                    .entry(Entry::Progress(self.clock.now_ns()))
                    .map_err(Error::Journal)?;
            }
        }
        Ok(None)
    }

    /// Lets everything happen that is due.
    fn happen(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        let scale = self.clock.scale();
        let now_ns = scale.to_ns(now);
        for processor in &mut self.processors {
            let due = match processor.apic.expiry() {
                Some(Expiry::Tsc(at)) => at <= now,
                Some(Expiry::At(at)) => at <= now_ns,
                None => false,
            };
            if due {
                processor.apic.expire();
            }
        }
        if self.holding() {
            return Ok(());
        }
        self.deliver(now_ns)
    }

    fn holding(&self) -> bool {
        self.rewind.as_ref().is_some_and(|rewind| self.clock.now() < rewind.hold_until)
    }

    fn deliver(&mut self, now_ns: Nanos) -> Result<(), Error> {
        let boot = !self.statistics.running;
        for index in 0..self.drives.len() {
            let drive = &mut self.drives[index];
            if drive.next_event().is_some_and(|at| at <= now_ns) {
                let records = &mut self.records;
                drive.advance(&self.memory, now_ns, boot, |record| records.push(record));
                if let Some(quiet) = &mut self.quiet {
                    // The host may have waited for the medium: its ticks went on.
                    if host_tsc() >= quiet.end() {
                        quiet.measure();
                    }
                }
            }
            self.interrupts(index);
        }
        if self.records.len() >= BATCH {
            self.flush_records()?;
        }
        Ok(())
    }

    fn flush_records(&mut self) -> Result<(), Error> {
        if self.records.is_empty() {
            return Ok(());
        }
        let records = std::mem::replace(&mut self.records, Vec::with_capacity(BATCH));
        self.journal.entry(Entry::Ios(records)).map_err(Error::Journal)
    }

    // Slots: the host bridge, the channel, then the drives.
    fn interrupts(&mut self, drive: usize) {
        while let Some(vector) = self.drives[drive].pop_interrupt() {
            let message = self.bus.function(drive + 2).msix().and_then(|msix| msix.signal(vector));
            if let Some(message) = message {
                self.send(None, message);
            }
        }
    }

    fn next_event(&self) -> Option<u64> {
        let scale = self.clock.scale();
        let timers = self.processors.iter().filter_map(|processor| match processor.apic.expiry()? {
            Expiry::Tsc(at) => Some(at),
            Expiry::At(at) => Some(scale.to_ticks(at)),
        });
        let held = self.holding();
        let hold_until = self.rewind.as_ref().map_or(0, |rewind| rewind.hold_until);
        let drives = self.drives.iter().filter_map(|drive| {
            let at = scale.to_ticks(drive.next_event()?);
            Some(if held { at.max(hold_until) } else { at })
        });
        timers.chain(drives).min()
    }

    /// All processors are idle: time passes at once, or, with rewind, goes back
    /// to a completion that is past.
    fn idle_until(&mut self, next: u64) {
        let now = self.clock.now();
        if let Some(rewind) = &mut self.rewind {
            if now < rewind.hold_until {
                rewind.hold_until = 0;
                let scale = self.clock.scale();
                let first = self.drives.iter().filter_map(NvmeDevice::next_event).min();
                if let Some(at) = first.map(|at| scale.to_ticks(at).max(rewind.floor)) {
                    if at <= now {
                        self.clock.set(at);
                        return;
                    }
                }
                // Nothing to go back to: the usual way, on the next turn.
                return;
            }
        }
        if next > now {
            self.statistics.skipped += next - now;
            self.clock.set(next);
        }
    }

    /// The processor that runs next: the present one until its slice ends.
    fn choose(&mut self) -> Option<usize> {
        let count = self.processors.len();
        for processor in &mut self.processors {
            if processor.state == State::Halted && processor.apic.pending().is_some() {
                processor.state = State::Runnable;
            }
        }
        let runnable = |index: usize| self.processors[index].state == State::Runnable;
        if runnable(self.current) && self.clock.now() < self.slice_end {
            return Some(self.current);
        }
        let next = (1..=count).map(|step| (self.current + step) % count).find(|&i| runnable(i))?;
        self.current = next;
        self.slice_end = self.clock.now() + self.slice;
        Some(next)
    }

    /// Runs processor `index` until the next event, the end of its slice, or
    /// an exit of its own.
    fn slice(&mut self, index: usize) -> Result<After, Error> {
        let now = self.clock.now();
        let mut until = self.next_event().unwrap_or(u64::MAX);
        let alone = !self
            .processors
            .iter()
            .enumerate()
            .any(|(other, processor)| other != index && processor.state == State::Runnable);
        if !alone {
            until = until.min(self.slice_end);
        }
        let slack = self.clock.costs.slack as u64;
        if until <= now.saturating_add(slack + GRAIN) {
            // Too little to enter for: the clock is set forward to the event.
            self.clock.set(until.max(now));
            return Ok(After::Continue);
        }
        if let Some(quiet) = &mut self.quiet {
            if host_tsc().saturating_add(SHORTEST_STAY) >= quiet.end() {
                quiet.wait();
            }
        }
        let injecting = self.inject(index)?;
        let vcpu = &mut self.vcpus[index];
        let aim = vcpu.immediate_exit();
        self.kick.aim(aim);
        if self.kick.take_fired().is_some() {
            // It fired while the host was at work: it has nothing to end.
            // SAFETY: a byte of a vCPU that is not running.
            unsafe { aim.write_volatile(0) };
        }
        let entry = host_tsc();
        let costs = &self.clock.costs;
        let mut due = entry
            .saturating_add(until - now)
            .saturating_add_signed(costs.arm + costs.enter - costs.slack)
            .min(entry + self.longest_slice);
        if let Some(quiet) = &self.quiet {
            due = due.min(quiet.end());
        }
        // An earlier time that is still armed does no harm; it is cheaper to
        // be kicked early now and then than to set the timer for each entry.
        if self.kick.armed().is_none_or(|armed| armed > due || armed < entry) {
            self.kick.arm(due);
        }
        let entered = self.clock.now();
        let (exit, after) = vcpu.run(&mut self.clock, injecting)?;
        self.statistics.exits.total += 1;
        let exits = &mut self.statistics.exits;
        macro_rules! left {
            ($way:expr) => {{
                self.clock.leave($way, after);
                if let Some(due) = self.kick.take_fired() {
                    // SAFETY: a byte of a vCPU that is not running.
                    unsafe { aim.write_volatile(0) };
                    self.clock.cap(due);
                }
            }};
        }
        let outcome = match exit {
            VcpuExit::Intr => {
                exits.total -= 1;
                match self.kick.take_fired() {
                    Some(due) => {
                        // SAFETY: a byte of a vCPU that is not running.
                        unsafe { aim.write_volatile(0) };
                        let measured = {
                            self.clock.leave(Way::Kick, after);
                            self.clock.now()
                        };
                        self.clock.leave_at(due);
                        // Much later than due: the host was away while the
                        // guest ran on.
                        let late = measured.saturating_sub(self.clock.now());
                        if late > KICK_TOLERANCE.max(slack) || self.quiet.is_none() {
                            self.clock.set(measured.max(entered));
                        }
                        let stopped = self.clock.now();
                        if stopped + slack >= until {
                            exits.kick += 1;
                            exits.total += 1;
                            let over = stopped.saturating_sub(until);
                            self.statistics.overshoot.add(self.clock.scale().to_ns(over));
                            self.clock.set(stopped.max(until));
                        }
                    }
                    // Another signal: the stop flag, most likely.
                    None => self.clock.leave(Way::Kick, after),
                }
                return Ok(After::Continue);
            }
            VcpuExit::Hlt => {
                left!(Way::Halt);
                exits.halt += 1;
                self.processors[index].state = State::Halted;
                return Ok(After::Continue);
            }
            VcpuExit::IrqWindowOpen => {
                left!(Way::Other);
                exits.interrupt_window += 1;
                return Ok(After::Continue);
            }
            VcpuExit::X86Wrmsr(write) => {
                left!(Way::MsrWrite);
                exits.msr += 1;
                let (number, value) = (write.index, write.data);
                *write.error = 0;
                self.write_msr(index, number, value)?
            }
            VcpuExit::X86Rdmsr(read) => {
                left!(Way::MsrRead);
                exits.msr += 1;
                *read.error = 0;
                let apic = &self.processors[index].apic;
                *read.data = match read.index {
                    TSC_DEADLINE => apic.deadline(),
                    msr if X2APIC.contains(&msr) => {
                        apic.read(msr & 0xff, self.clock.now_ns()).unwrap_or(0)
                    }
                    // MSRs that KVM does not know read as zero.
                    _ => 0,
                };
                After::Continue
            }
            VcpuExit::MmioWrite(address, data) => {
                left!(Way::MmioWrite);
                exits.mmio += 1;
                let mut bytes = [0; 8];
                let length = data.len().min(8);
                bytes[..length].copy_from_slice(&data[..length]);
                self.mmio_write(index, address, &bytes[..length])?
            }
            VcpuExit::MmioRead(address, into) => {
                left!(Way::MmioRead);
                exits.mmio += 1;
                into.fill(0xff);
                if let Some(offset) = within(address, layout::LOCAL_APIC, 0x1000) {
                    let now = self.clock.now_ns();
                    let value = self.processors[index].apic.read((offset >> 4) as u32, now);
                    put(into, value.unwrap_or(0));
                } else if let Some(offset) = within(address, layout::IO_APIC, 0x1000) {
                    self.io_apic.read(offset, into);
                } else if let Some(place) = self.bus.find(address) {
                    match (place.slot, place.bar) {
                        (1, _) => put(into, u64::from(stasis_channel::VERSION)),
                        (slot, 0) if slot >= 2 => self.drives[slot - 2].read(place.offset, into),
                        (slot, 4) => {
                            if let Some(msix) = self.bus.function(slot).msix() {
                                msix.read(place.offset, into);
                            }
                        }
                        _ => {}
                    }
                }
                After::Continue
            }
            VcpuExit::IoOut(port, data) => {
                left!(Way::Port);
                exits.io += 1;
                if Serial::owns(port) {
                    for &byte in data {
                        if let Some(line) = self.serial.write(port, byte) {
                            self.journal.entry(Entry::Console(line)).map_err(Error::Journal)?;
                        }
                    }
                } else if let (true, Some(&value)) = (cmos::PORTS.contains(&port), data.first()) {
                    self.cmos.write(port, value);
                } else if (0xcf8..=0xcff).contains(&port) {
                    if let Some(slot) = self.bus.port_write(port, data) {
                        let released =
                            self.bus.function(slot.min(1 + self.drives.len())).msix().map(|msix| msix.released());
                        for message in released.into_iter().flatten() {
                            self.send(None, message);
                        }
                    }
                }
                After::Continue
            }
            VcpuExit::IoIn(port, into) => {
                left!(Way::Port);
                exits.io += 1;
                into.fill(0xff);
                if Serial::owns(port) {
                    into.fill(self.serial.read(port));
                } else if (0xcf8..=0xcff).contains(&port) {
                    self.bus.port_read(port, into);
                } else if cmos::PORTS.contains(&port) {
                    into.fill(self.cmos.read(port));
                } else if PIT.contains(&port) {
                    into.fill(0);
                }
                After::Continue
            }
            VcpuExit::Shutdown => {
                left!(Way::Other);
                After::End(Ending::Panicked)
            }
            other => {
                let what = format!("{other:?}");
                return Err(Error::Guest(what));
            }
        };
        if let Some(rewind) = &mut self.rewind {
            rewind.floor = rewind.floor.max(self.clock.now());
        }
        Ok(outcome)
    }

    /// Prepares an interrupt for the next entry; whether there is one.
    fn inject(&mut self, index: usize) -> Result<bool, Error> {
        let (vcpu, processor) = (&mut self.vcpus[index], &mut self.processors[index]);
        let Some(vector) = processor.apic.pending() else {
            vcpu.request_window(false);
            return Ok(false);
        };
        if !vcpu.interruptible() {
            vcpu.request_window(true);
            return Ok(false);
        }
        vcpu.inject(vector)?;
        processor.apic.accept(vector);
        vcpu.request_window(processor.apic.pending().is_some());
        if let Some(rewind) = &mut self.rewind {
            rewind.floor = rewind.floor.max(self.clock.now());
        }
        Ok(true)
    }

    fn write_msr(&mut self, index: usize, number: u32, value: u64) -> Result<After, Error> {
        if number == TSC_DEADLINE {
            self.processors[index].apic.set_deadline(value);
        } else if X2APIC.contains(&number) {
            self.write_apic(index, number & 0xff, value)?;
        }
        // MSRs that KVM does not know take any value.
        Ok(After::Continue)
    }

    fn write_apic(&mut self, index: usize, register: u32, value: u64) -> Result<(), Error> {
        let x2apic = self.vcpus[index].x2apic();
        let now = self.clock.now_ns();
        let apic = &mut self.processors[index].apic;
        apic.set_x2apic(x2apic);
        if let Effect::Send(message) = apic.write(register, value, now) {
            self.send(Some(index), message);
            self.startups()?;
        }
        Ok(())
    }

    /// Delivers `message` from processor `sender` or a device.
    fn send(&mut self, sender: Option<usize>, message: Message) {
        let mut yielded = false;
        for index in 0..self.processors.len() {
            let matches = match message.destination {
                Destination::Physical(id) => id as usize == index,
                Destination::Logical(id) => self.processors[index].apic.matches_logical(id),
                Destination::Oneself => sender == Some(index),
                Destination::All => true,
                Destination::Others => sender != Some(index),
            };
            if !matches {
                continue;
            }
            let processor = &mut self.processors[index];
            match message.delivery {
                Delivery::Fixed => {
                    processor.apic.raise(message.vector);
                    // A processor that others wait for goes first: what its
                    // sender would spend on waiting is its own time.
                    if sender.is_some_and(|sender| sender != index) && !yielded {
                        yielded = true;
                        self.slice_end = self.clock.now();
                        self.current =
                            (index + self.processors.len() - 1) % self.processors.len();
                    }
                }
                Delivery::Startup if processor.state == State::Waiting => {
                    self.starting.push((index, message.vector));
                }
                Delivery::Nmi => {
                    let _ = self.vcpus[index].fd().nmi();
                }
                _ => {}
            }
        }
    }

    fn startups(&mut self) -> Result<(), Error> {
        while let Some((index, page)) = self.starting.pop() {
            self.vcpus[index].start_at_page(page)?;
            self.processors[index].state = State::Runnable;
        }
        Ok(())
    }

    fn mmio_write(&mut self, index: usize, address: u64, data: &[u8]) -> Result<After, Error> {
        if let Some(offset) = within(address, layout::LOCAL_APIC, 0x1000) {
            self.write_apic(index, (offset >> 4) as u32, word(data))?;
            return Ok(After::Continue);
        }
        if let Some(offset) = within(address, layout::IO_APIC, 0x1000) {
            self.io_apic.write(offset, data);
            return Ok(After::Continue);
        }
        let Some(place) = self.bus.find(address) else { return Ok(After::Continue) };
        match (place.slot, place.bar) {
            (1, stasis_channel::REGISTERS_BAR) if place.offset == stasis_channel::DOORBELL_OFFSET => {
                return self.ring();
            }
            (slot, 0) if slot >= 2 => {
                let now = self.clock.now_ns();
                if place.offset >= 0x1000 {
                    self.statistics.exits.doorbell += 1;
                }
                let drive = slot - 2;
                self.drives[drive].write(&self.memory, now, place.offset, data);
                if let Some(rewind) = &mut self.rewind {
                    rewind.floor = self.clock.now();
                    rewind.hold_until = self.clock.now() + rewind.window;
                }
                self.interrupts(drive);
            }
            (slot, 4) => {
                let message =
                    self.bus.function(slot).msix().and_then(|msix| msix.write(place.offset, data));
                if let Some(message) = message {
                    self.send(None, message);
                }
            }
            _ => {}
        }
        Ok(After::Continue)
    }

    /// The agent rang the channel's doorbell.
    fn ring(&mut self) -> Result<After, Error> {
        self.flush_records()?;
        let told = self.channel.doorbell(self.journal).map_err(Error::Journal)?;
        match told {
            Told::Nothing => {}
            Told::Started => {
                let frozen = self.frozen();
                self.statistics.start(self.clock.now_ns(), frozen);
                self.journal.entry(Entry::Stage(Stage::Running)).map_err(Error::Journal)?;
            }
            Told::Exited(status) => self.ended(Ending::Exited(status))?,
            Told::NotStarted(status, message) => {
                self.ended(Ending::NotStarted { status, message })?;
            }
            Told::Finished => {
                let ending = self.statistics.status.take().unwrap_or(Ending::Panicked);
                return Ok(After::End(ending));
            }
        }
        Ok(After::Continue)
    }

    fn frozen(&self) -> Duration {
        self.drives.iter().map(|drive| drive.drive().frozen()).sum()
    }

    fn ended(&mut self, ending: Ending) -> Result<(), Error> {
        // What follows is the agent's own work, not the command's.
        self.statistics.finish(&self.clock, self.frozen());
        self.statistics.status = Some(ending);
        self.journal.entry(Entry::Stage(Stage::Collecting)).map_err(Error::Journal)
    }

    fn outcome(mut self, ending: Ending) -> Result<Outcome, Error> {
        let frozen = self.frozen();
        self.statistics.finish(&self.clock, frozen);
        self.flush_records()?;
        if matches!(ending, Ending::Hung | Ending::Panicked | Ending::VirtualLimit) {
            self.show_processors()?;
        }
        let rest = self.serial.rest();
        if !rest.is_empty() {
            self.journal.entry(Entry::Console(rest)).map_err(Error::Journal)?;
        }
        Ok(self.statistics.outcome(ending, &self.clock, frozen))
    }
}

impl Machine<'_> {
    // Where everyone is: for the user who asks why a guest does not go on.
    fn show_processors(&mut self) -> Result<(), Error> {
        let mut text = String::new();
        for (index, vcpu) in self.vcpus.iter_mut().enumerate() {
            let regs = vcpu.fd().get_regs().map_err(Error::kvm("read registers"))?;
            let sregs = vcpu.fd().get_sregs().map_err(Error::kvm("read registers"))?;
            let state = self.processors[index].state;
            text += &format!(
                "vCPU {index}: {state:?}, rip {:#x}, rsp {:#x}, rflags {:#x}, cr2 {:#x}\n",
                regs.rip, regs.rsp, regs.rflags, sregs.cr2
            );
        }
        self.journal.entry(Entry::Console(text.into_bytes())).map_err(Error::Journal)
    }
}

fn prepare_vm(vm: &VmFd) -> Result<(), Error> {
    for (cap, name) in [
        (Cap::X86UserSpaceMsr, "MSR exits to user space"),
        (Cap::X86MsrFilter, "MSR filters"),
        (Cap::ImmediateExit, "immediate exits"),
    ] {
        if !vm.check_extension(cap) {
            return Err(Error::Missing(name));
        }
    }
    if vm.check_extension_raw(u64::from(KVM_CAP_VCPU_ATTRIBUTES)) <= 0 {
        return Err(Error::Missing("TSC offsets"));
    }
    let reasons = MsrExitReason::Inval | MsrExitReason::Unknown | MsrExitReason::Filter;
    let cap = kvm_enable_cap {
        cap: KVM_CAP_X86_USER_SPACE_MSR,
        args: [u64::from(reasons.bits()), 0, 0, 0],
        ..Default::default()
    };
    vm.enable_cap(&cap).map_err(Error::kvm("have MSR exits"))?;
    let deny_all = [0u8; 1];
    let deadline = MsrFilterRange {
        flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
        base: TSC_DEADLINE,
        msr_count: 1,
        bitmap: &deny_all,
    };
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &[deadline])
        .map_err(Error::kvm("filter MSRs"))?;
    // A spinning processor exits at the end of its slice; exits on PAUSE would
    // only take guest time unseen. Not every host can turn them off.
    let cap = kvm_enable_cap {
        cap: KVM_CAP_X86_DISABLE_EXITS,
        args: [u64::from(KVM_X86_DISABLE_EXITS_PAUSE), 0, 0, 0],
        ..Default::default()
    };
    let _ = vm.enable_cap(&cap);
    Ok(())
}

fn within(address: u64, base: u64, length: u64) -> Option<u64> {
    address.checked_sub(base).filter(|offset| *offset < length)
}

fn put(into: &mut [u8], value: u64) {
    let length = into.len().min(8);
    into[..length].copy_from_slice(&value.to_le_bytes()[..length]);
}

fn word(data: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..data.len()].copy_from_slice(data);
    u64::from_le_bytes(bytes)
}

/// Stretches a seed to what the kernel takes: splitmix64 (Steele, Lea, Flood:
/// Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
fn expand_seed(mut seed: u64) -> [u8; 32] {
    let mut out = [0; 32];
    for chunk in out.chunks_mut(8) {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    out
}

/// What every guest's kernel is told: one clock, no firmware to look for, and
/// nothing random but its seed.
const BASE_COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=1 panic=-1 reboot=t \
     tsc=reliable clocksource=tsc no_timer_check nowatchdog nokaslr mitigations=off \
     random.trust_bootloader=on cryptomgr.notests 8250.nr_uarts=1 pci=conf1 rcupdate.rcu_expedited=1";
