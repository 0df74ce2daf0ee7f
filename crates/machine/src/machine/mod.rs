//! A machine: its making, and the loop that runs its processors in turn.

mod access;
mod agent;
mod build;
mod config;
mod interrupts;
mod slice;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvm_ioctls::VmFd;
use stasis_clock::Nanos;
use stasis_journal::{Ending, Entry, IoRecord, Journal, Outcome};

use crate::apic::Expiry;
use crate::clock::Clock;
use crate::devices::{ChannelDevice, Cmos, DriveDevice, IoApic, Serial};
use crate::error::Error;
use crate::kick::Kick;
use crate::memory::GuestMemory;
use crate::pci::Bus;
use crate::quiet::Quiet;
use crate::statistics::Statistics;
use crate::time::host_tsc;
use crate::vcpu::{Processor, State, Vcpu};

pub use config::{Config, Controller, DriveConfig, Rewind, Speed};

/// I/O records that go to the journal together.
const BATCH: usize = 512;
/// What those I/Os moved at most (bytes): a journal may want to know of it.
const BATCH_BYTES: u64 = 4 << 20;
/// How often the journal hears of progress.
const PROGRESS: Duration = Duration::from_millis(200);
/// The longest slice, in the host's time: the stop flag is looked at between.
const LONGEST_SLICE: Duration = Duration::from_millis(20);

/// Runs a machine from its making to its end.
///
/// # Errors
/// See [`Error`]; a guest that fails is an [`Outcome`], not an error.
pub fn run(config: Config<'_>, journal: &mut dyn Journal) -> Result<Outcome, Error> {
    let mut machine = Machine::new(config, journal)?;
    let ending = machine.run()?;
    machine.outcome(ending)
}

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
    drives: Vec<DriveDevice>,
    /// Whether any drive is to be polled for submissions.
    lazy: bool,
    serial: Serial,
    io_apic: IoApic,
    cmos: Cmos,
    rewind: Option<RewindState>,
    slice: u64,
    longest_slice: u64,
    current: usize,
    slice_end: u64,
    /// Whether the host has slept since the last entry.
    slept: bool,
    journal: &'j mut dyn Journal,
    records: Vec<IoRecord>,
    recorded_bytes: u64,
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
                self.journal.entry(Entry::Progress(self.clock.now_ns())).map_err(Error::Journal)?;
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
        if self.lazy {
            for drive in &mut self.drives {
                drive.poll(&self.memory, now_ns);
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
                let (records, bytes) = (&mut self.records, &mut self.recorded_bytes);
                drive.advance(&self.memory, now_ns, boot, |record| {
                    *bytes += record.bytes;
                    records.push(record);
                });
                if let Some(quiet) = &mut self.quiet {
                    // The host may have waited for the medium: its ticks went on.
                    if host_tsc() >= quiet.end() {
                        quiet.measure();
                        self.slept = true;
                    }
                }
            }
            self.interrupts(index);
        }
        if self.records.len() >= BATCH || self.recorded_bytes >= BATCH_BYTES {
            self.flush_records()?;
        }
        Ok(())
    }

    fn flush_records(&mut self) -> Result<(), Error> {
        if self.records.is_empty() {
            return Ok(());
        }
        self.recorded_bytes = 0;
        let records = std::mem::replace(&mut self.records, Vec::with_capacity(BATCH));
        self.journal.entry(Entry::Ios(records)).map_err(Error::Journal)
    }

    fn next_event(&self) -> Option<u64> {
        let scale = self.clock.scale();
        let timers =
            self.processors.iter().filter_map(|processor| match processor.apic.expiry()? {
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
                let first = self.drives.iter().filter_map(DriveDevice::next_event).min();
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
        // A limit on virtual time is reached at its own instant.
        let limit =
            self.virtual_limit.filter(|_| self.statistics.running).map_or(u64::MAX, |limit| {
                self.clock.scale().to_ticks(self.statistics.started_virtual.saturating_add(limit))
            });
        let next = next.min(limit);
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
        let now = self.clock.now_ns();
        let inside = self.drives.iter().map(|drive| drive.drive().inside(now)).collect();
        Ok(self.statistics.outcome(ending, &self.clock, frozen, inside))
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
