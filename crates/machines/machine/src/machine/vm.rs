//! A virtual machine: its parts, and their work between entries.

use std::time::Duration;

use stasis_block::clock::Nanos;
use stasis_run_events::Ending;

use super::controller::Controller;
use super::failures::Failures;
use super::kept_boot::KeptBoot;
use super::orders::Orders;
use super::path_faults::PathFaults;
use super::pauses::Pauses;
use super::rewind::RewindState;
use super::slots::Slots;
use super::timeline::Timeline;
use crate::apic::Expiry;
use crate::devices::{AgentEvent, ChannelDevice, Cmos, DriveDevice, IoApic, NetworkDevice, Serial};
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
    /// The experiment's drives, and behind them the one that its root is on, if there is one.
    pub(super) drives: Vec<DriveDevice>,
    /// Number of those that are the experiment's.
    pub(super) own: usize,
    /// Its ports of networks, in the slots behind the drives.
    pub(super) ports: Vec<NetworkDevice>,
    /// True if any drive is to be polled for submissions.
    pub(super) lazy: bool,
    pub(super) pauses: Pauses,
    pub(super) path_faults: PathFaults,
    pub(super) slots: Slots,
    pub(super) failures: Failures,
    pub(super) orders: Orders,
    /// Its boot.
    pub(super) boot: Boot,
    /// Its first boot, for later ones.
    pub(super) kept_boot: KeptBoot,
    /// Time (ticks) at which its guest's TSC is zero: the beginning of its boot, or of the run where the
    /// engine cannot do so.
    pub(super) origin: u64,
    /// Controller of each of its drives.
    pub(super) controllers: Vec<Controller>,
    pub(super) serial: Serial,
    pub(super) io_apic: IoApic,
    pub(super) cmos: Cmos,
    pub(super) rewind: Option<RewindState>,
    /// The guest's clock, where it has several processors.
    pub(super) clock: PvClock,
    /// Its number.
    pub(super) number: u16,
    pub(super) name: String,
    /// True if the run lasts until its command has ended.
    pub(super) waited: bool,
    /// True if its guest has been given its command.
    pub(super) commanded: bool,
    /// The processor on which its guest waits for that.
    pub(super) wanting: Option<usize>,
    /// True if it has everything to begin with its command.
    pub(super) prepared: bool,
    /// Time at which its command began (ns).
    pub(super) started: Option<Nanos>,
    pub(super) ended: Option<Nanos>,
    pub(super) ending: Option<Ending>,
    /// The page that shows whether its guest needs help.
    pub(super) help_page: Option<u64>,
    // Number of urgent requests that page has announced.
    pub(super) urgent: u32,
    pub(super) wants_help: bool,
    /// Number of times that the content of that page was invalid.
    pub(super) refused_help: u64,
    /// True if its agent has no more messages: it does not run again.
    pub(super) finished: bool,
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
    /// Its processor shut down.
    Panicked,
}

impl Machine {
    /// Until when completions are held back, if they are (ticks).
    pub(super) fn held_until(&self, timeline: &Timeline) -> Option<u64> {
        self.rewind.as_ref().and_then(|rewind| rewind.holds(timeline.clock.now()))
    }

    /// The next event of its devices, and of the timers of processors that are
    /// not busy (ticks).
    pub(super) fn next_event(&self, timeline: &Timeline) -> Option<u64> {
        let scale = timeline.clock.scale();
        let idle = (0..self.processors.len()).filter(|&index| !self.processors[index].is_busy());
        let timers = idle.filter_map(|index| self.timer(timeline, index));
        let replay = self.replay_goes_on();
        let held_until = self.held_until(timeline).unwrap_or(0);
        let drives = self
            .drives
            .iter()
            .filter_map(|drive| Some(scale.to_ticks(drive.next_event()?).max(held_until)));
        // Frames for a machine that is off are thrown away whenever it is looked at.
        let ports = self.next_port_event(timeline).filter(|_| !self.failures.is_off()).into_iter();
        let pause = self.pauses.next_event(scale);
        let failure = self.failures.next_event().map(|at| scale.to_ticks(at));
        let ports = ports.map(|at| scale.to_ticks(at));
        let pause = pause.into_iter().chain(self.path_faults.next_event(scale));
        timers.chain(replay).chain(drives).chain(ports).chain(pause).chain(failure).min()
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
    pub(super) fn timer(&self, timeline: &Timeline, index: usize) -> Option<u64> {
        let processor = &self.processors[index];
        Some(match processor.apic.expiry()? {
            Expiry::Tsc(at) if processor.is_busy() && self.clock.is_used() => {
                // The distance that it has to go for the clock of all to come there.
                let (count, mean) = self.busy().mean();
                processor.time.saturating_add(at.saturating_sub(mean).saturating_mul(count))
            }
            Expiry::Tsc(at) => at,
            Expiry::At(at) => timeline.clock.scale().to_ticks(at),
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
        timeline: &Timeline,
        index: usize,
        ticks: u64,
        injecting: bool,
    ) {
        self.clock.begin(ticks, timeline.clock.unsure_entry(injecting), self.busy());
        for (address, page) in self.clock.pages(index, timeline.clock.now(), timeline.clock.scale())
        {
            // Not in memory: the guest has no clock there.
            let _ = self.memory.write(address, &page);
        }
    }

    /// With rewind, and every processor idle: time goes back to a completion
    /// that is past, if one is. Whether completions were held back.
    pub(super) fn go_back(&mut self, timeline: &mut Timeline) -> bool {
        let now = timeline.clock.now();
        let Some(rewind) = self.rewind.as_mut().filter(|rewind| rewind.holds(now).is_some()) else {
            return false;
        };
        let scale = timeline.clock.scale();
        let first = self.drives.iter().filter_map(DriveDevice::next_event).min();
        if let Some(at) = rewind.release(now, first.map(|at| scale.to_ticks(at))) {
            timeline.clock.set(at);
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
        if self.pauses.is_paused() {
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

    pub(super) fn is_busy(&self, index: usize) -> bool {
        !self.finished && self.processors[index].is_busy()
    }

    pub(super) fn frozen(&mut self) -> Duration {
        self.drives.iter_mut().map(|drive| drive.control().frozen()).sum()
    }

    /// Returns whether one of its drives is at work.
    pub(super) fn is_at_a_drive(&self) -> bool {
        self.drives.iter().any(|drive| drive.next_event().is_some())
    }
}
