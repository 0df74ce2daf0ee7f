//! A virtual machine: its parts, and their work between entries. Each part owns its own and says so in its
//! file; the machine itself owns its processors' places in virtual time.

use super::chipset::Chipset;
use super::common::Common;
use super::drives::Drives;
use super::faults::Faults;
use super::help::Help;
use super::kept_boot::KeptBoot;
use super::progress::Progress;
use super::rewind::RewindState;
use super::slots::Slots;
use crate::apic::{Destination, Expiry};
use crate::devices::{AgentEvent, ChannelDevice, NetworkDevice};
use crate::memory::GuestMemory;
use crate::pci::Bus;
use crate::pvclock::{Busy, PvClock};
use crate::vcpu::{Processor, ProcessorState, VcpuSlot};

pub(super) struct Machine {
    // Dropped in this order: the processors, the memory.
    pub(super) vcpus: Vec<VcpuSlot>,
    pub(super) processors: Vec<Processor>,
    pub(super) memory: GuestMemory,
    pub(super) bus: Bus,
    pub(super) channel: ChannelDevice,
    pub(super) drives: Drives,
    /// Its ports of networks, in the slots behind the drives.
    pub(super) ports: Vec<NetworkDevice>,
    pub(super) slots: Slots,
    pub(super) chipset: Chipset,
    pub(super) faults: Faults,
    /// Its boot.
    pub(super) boot: Boot,
    /// Its first boot, for later ones.
    pub(super) kept_boot: KeptBoot,
    /// Time (ticks) at which its guest's TSC is zero: the beginning of its boot, or of the run where the
    /// engine cannot do so.
    pub(super) origin: u64,
    pub(super) rewind: Option<RewindState>,
    /// The guest's clock, where it has several processors.
    pub(super) clock: PvClock,
    /// Its number.
    pub(super) number: u16,
    pub(super) name: String,
    pub(super) progress: Progress,
    pub(super) help: Help,
}

/// A machine's boot, beside the files that all boot.
pub(super) struct Boot {
    pub(super) command_line: String,
    pub(super) seed: u64,
}

/// The step that follows an exit.
pub(super) enum After {
    /// The guest continues.
    Continue,
    /// Its agent has sent a message.
    Agent(AgentEvent),
    /// Its first boot is over, and the machine was to come no further.
    Greeted,
    /// Its processor shut down.
    Panicked,
}

impl Machine {
    /// Until when completions are held back, if they are (ticks).
    pub(super) fn held_until(&self, common: &Common) -> Option<u64> {
        self.rewind.as_ref().and_then(|rewind| rewind.holds(common.clock.now()))
    }

    /// The next event of its devices, and of the timers of processors that are
    /// not busy (ticks).
    pub(super) fn next_event(&self, common: &Common) -> Option<u64> {
        let scale = common.clock.scale();
        let idle = (0..self.processors.len()).filter(|&index| !self.processors[index].is_busy());
        let timers = idle.filter_map(|index| self.timer(common, index));
        let replay = self.replay_goes_on();
        let held_until = self.held_until(common).unwrap_or(0);
        let drives = self.drives.next_event().map(|at| scale.to_ticks(at).max(held_until));
        // Frames for a machine that is off are thrown away whenever it is looked at.
        let ports =
            self.next_port_event(common).filter(|_| !self.faults.failures.is_off()).into_iter();
        let ports = ports.map(|at| scale.to_ticks(at));
        let faults = self.faults.next_event(scale);
        timers.chain(replay).chain(drives).chain(ports).chain(faults).min()
    }

    /// The next event of its ports (ns).
    fn next_port_event(&self, common: &Common) -> Option<u64> {
        let next = |device: &NetworkDevice| {
            let arrival = common.networks.next_arrival(device.place);
            device.next_event().into_iter().chain(arrival).min()
        };
        self.ports.iter().filter_map(next).min()
    }

    /// Returns the time at which the processor, which has halted in a replayed boot, goes on (ticks).
    #[inline]
    pub(super) fn replay_goes_on(&self) -> Option<u64> {
        let is_halted =
            self.kept_boot.is_replayed() && self.processors[0].state == ProcessorState::Halted;
        Some(self.origin + is_halted.then(|| self.kept_boot.goes_on()).flatten()?)
    }

    /// Returns the time at which a processor's timer expires (ticks): of a busy one, on its own
    /// time.
    pub(super) fn timer(&self, common: &Common, index: usize) -> Option<u64> {
        let processor = &self.processors[index];
        Some(match processor.apic.expiry()? {
            Expiry::Tsc(at) if processor.is_busy() && self.clock.is_used() => {
                // The distance that it has to go for the clock of all to come there.
                let (count, mean) = self.busy().mean();
                processor.time.saturating_add(at.saturating_sub(mean).saturating_mul(count))
            }
            Expiry::Tsc(at) => at,
            Expiry::At(at) => common.clock.scale().to_ticks(at),
        })
    }

    /// Returns the places of its busy processors.
    pub(super) fn busy(&self) -> Busy {
        let times = self.processors.iter().filter(|processor| processor.is_busy());
        times.fold(Busy::default(), |busy, processor| Busy {
            count: busy.count + 1,
            sum: busy.sum + u128::from(processor.time),
        })
    }

    /// The time of its busy processor that is furthest behind, of all but `but` (ticks).
    pub(super) fn furthest_behind(&self, but: Option<usize>) -> Option<u64> {
        let processors = self.processors.iter().enumerate();
        let others = processors.filter(|(index, _)| Some(*index) != but);
        let busy = others.filter(|(_, processor)| processor.is_busy());
        busy.map(|(_, processor)| processor.time).min()
    }

    /// Writes what processor `index` reads as the time in a slice of at most
    /// `ticks`, which begins now.
    pub(super) fn show_clock(
        &mut self,
        common: &Common,
        index: usize,
        ticks: u64,
        injecting: bool,
    ) {
        self.clock.begin(ticks, common.clock.unsure_entry(injecting), self.busy());
        for (address, page) in self.clock.pages(index, common.clock.now(), common.clock.scale()) {
            // Not in memory: the guest has no clock there.
            let _ = self.memory.write(address, &page);
        }
    }

    /// With rewind, and every processor idle: goes back in time to a past completion, if there is
    /// one. Returns whether completions were held back.
    pub(super) fn go_back(&mut self, common: &mut Common) -> bool {
        let now = common.clock.now();
        let Some(rewind) = self.rewind.as_mut().filter(|rewind| rewind.holds(now).is_some()) else {
            return false;
        };
        let scale = common.clock.scale();
        let first = self.drives.next_event();
        if let Some(at) = rewind.release(now, first.map(|at| scale.to_ticks(at))) {
            common.clock.set(at);
            self.clock.rewind(at);
            for processor in &mut self.processors {
                processor.time = processor.time.min(at);
            }
        }
        // Nothing to go back to: the usual way, on the next turn.
        true
    }

    /// Processors that have something to do run again, from `now` on.
    pub(super) fn wake(&mut self, now: u64) {
        if self.faults.pauses.is_paused() {
            return;
        }
        let replay = self.replay_goes_on().is_some_and(|at| at <= now);
        for processor in &mut self.processors {
            let is_called = processor.apic.pending().is_some() || replay;
            if processor.state == ProcessorState::Halted && is_called {
                processor.state = ProcessorState::Runnable;
                processor.time = processor.time.max(now);
                self.kept_boot.went_on(processor.time - self.origin);
            }
        }
    }

    /// Returns whether a message from processor `sender` or a device is for processor `index`.
    pub(super) fn is_for(
        &self,
        index: usize,
        sender: Option<usize>,
        destination: Destination,
    ) -> bool {
        match destination {
            Destination::Physical(id) => id as usize == index,
            Destination::Logical(id) => self.processors[index].apic.matches_logical(id),
            Destination::Oneself => sender == Some(index),
            Destination::All => true,
            Destination::Others => sender != Some(index),
        }
    }

    pub(super) fn is_busy(&self, index: usize) -> bool {
        !self.progress.is_finished() && self.processors[index].is_busy()
    }

    /// Returns whether one of its drives is at work.
    pub(super) fn is_at_a_drive(&self) -> bool {
        self.drives.next_event().is_some()
    }
}
