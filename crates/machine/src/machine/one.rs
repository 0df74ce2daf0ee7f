//! One machine: what it has, and what happens to it between entries.

use std::time::Duration;

use kvm_ioctls::VmFd;
use stasis_clock::Nanos;
use stasis_journal::Ending;

use super::line::{Line, BATCH, BATCH_BYTES};
use crate::apic::Expiry;
use crate::devices::{ChannelDevice, Cmos, DriveDevice, IoApic, Serial, Told};
use crate::error::Error;
use crate::memory::GuestMemory;
use crate::pci::Bus;
use crate::time::host_tsc;
use crate::vcpu::{Processor, State, Vcpu};

pub(super) struct Machine {
    // Dropped in this order: the vCPUs, the VM, the memory.
    pub(super) vcpus: Vec<Vcpu>,
    pub(super) _vm: VmFd,
    pub(super) processors: Vec<Processor>,
    pub(super) memory: GuestMemory,
    pub(super) bus: Bus,
    pub(super) channel: ChannelDevice,
    pub(super) drives: Vec<DriveDevice>,
    /// Whether any drive is to be polled for submissions.
    pub(super) lazy: bool,
    pub(super) serial: Serial,
    pub(super) io_apic: IoApic,
    pub(super) cmos: Cmos,
    pub(super) rewind: Option<RewindState>,
    pub(super) starting: Vec<(usize, u8)>,
    /// Its number, and its first processor's place among all.
    pub(super) number: u16,
    pub(super) first: usize,
    pub(super) name: String,
    /// Whether the run goes on until its command has ended.
    pub(super) waited: bool,
    /// Whether it has everything to begin with its command.
    pub(super) prepared: bool,
    /// When its command began (ns).
    pub(super) started: Option<Nanos>,
    pub(super) ended: Option<Nanos>,
    pub(super) ending: Option<Ending>,
    /// Where its guest says whether it needs help.
    pub(super) help_page: Option<u64>,
    // How many urgent requests that page has told of.
    pub(super) urgent: u32,
    pub(super) asks_help: bool,
    /// How often what the guest said there made no sense.
    pub(super) refused_help: u64,
    /// Whether its agent has nothing more to say: it does not run again.
    pub(super) finished: bool,
}

#[derive(Debug)]
pub(super) struct RewindState {
    pub(super) window: u64,
    /// Until when completions wait for the guest to become idle (ticks).
    pub(super) hold_until: u64,
    /// Time is never set back before this (ticks).
    pub(super) floor: u64,
}

/// What comes after an exit.
pub(super) enum After {
    /// The guest goes on.
    Continue,
    /// Its agent has told something.
    Told(Told),
    /// Its processor shut down.
    Panicked,
}

impl Machine {
    /// Lets everything happen that is due.
    pub(super) fn happen(&mut self, line: &mut Line) -> Result<(), Error> {
        self.look_for_help(line);
        let now = line.clock.now();
        let now_ns = line.clock.scale().to_ns(now);
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
        if self.holding(line) {
            return Ok(());
        }
        self.deliver(line, now_ns)
    }

    fn holding(&self, line: &Line) -> bool {
        self.rewind.as_ref().is_some_and(|rewind| line.clock.now() < rewind.hold_until)
    }

    fn deliver(&mut self, line: &mut Line, now_ns: Nanos) -> Result<(), Error> {
        let boot = self.started.is_none();
        for index in 0..self.drives.len() {
            let drive = &mut self.drives[index];
            if drive.next_event().is_some_and(|at| at <= now_ns) {
                let (records, bytes) = (&mut line.records, &mut line.recorded_bytes);
                drive.advance(&self.memory, now_ns, boot, |record| {
                    *bytes += record.bytes;
                    records.push(record);
                });
                if let Some(quiet) = &mut line.quiet {
                    // The host may have waited for the medium: its ticks went on.
                    if host_tsc() >= quiet.end() {
                        quiet.measure();
                        line.slept = true;
                    }
                }
            }
            self.interrupts(line, index);
        }
        if line.records.len() >= BATCH || line.recorded_bytes >= BATCH_BYTES {
            line.flush_records()?;
        }
        Ok(())
    }

    pub(super) fn next_event(&self, line: &Line) -> Option<u64> {
        let scale = line.clock.scale();
        let timers =
            self.processors.iter().filter_map(|processor| match processor.apic.expiry()? {
                Expiry::Tsc(at) => Some(at),
                Expiry::At(at) => Some(scale.to_ticks(at)),
            });
        let held = self.holding(line);
        let hold_until = self.rewind.as_ref().map_or(0, |rewind| rewind.hold_until);
        let drives = self.drives.iter().filter_map(|drive| {
            let at = scale.to_ticks(drive.next_event()?);
            Some(if held { at.max(hold_until) } else { at })
        });
        timers.chain(drives).min()
    }

    /// With rewind, and every processor idle: time goes back to a completion
    /// that is past, if one is. Whether completions were held back.
    pub(super) fn go_back(&mut self, line: &mut Line) -> bool {
        let now = line.clock.now();
        let Some(rewind) = self.rewind.as_mut().filter(|rewind| now < rewind.hold_until) else {
            return false;
        };
        rewind.hold_until = 0;
        let scale = line.clock.scale();
        let first = self.drives.iter().filter_map(DriveDevice::next_event).min();
        if let Some(at) = first.map(|at| scale.to_ticks(at).max(rewind.floor)) {
            if at <= now {
                line.clock.set(at);
            }
        }
        // Nothing to go back to: the usual way, on the next turn.
        true
    }

    /// Processors that have something to do run again.
    pub(super) fn wake(&mut self) {
        for processor in &mut self.processors {
            if processor.state == State::Halted && processor.apic.pending().is_some() {
                processor.state = State::Runnable;
            }
        }
    }

    pub(super) fn is_runnable(&self, index: usize) -> bool {
        !self.finished && self.processors[index].state == State::Runnable
    }

    pub(super) fn frozen(&self) -> Duration {
        self.drives.iter().map(|drive| drive.drive().frozen()).sum()
    }
}
