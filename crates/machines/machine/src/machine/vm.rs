//! A virtual machine: its parts, and their work between entries.

use std::time::Duration;

use stasis_block::clock::Nanos;
use stasis_run_events::Ending;

use super::rewind::RewindState;
use super::timeline::{Timeline, BATCH, BATCH_BYTES};
use crate::apic::Expiry;
use crate::devices::{AgentEvent, ChannelDevice, Cmos, DriveDevice, IoApic, Serial};
use crate::error::Error;
use crate::memory::GuestMemory;
use crate::pci::Bus;
use crate::pvclock::{Busy, PvClock};
use crate::vcpu::{Processor, State, VcpuSlot};

pub(super) struct Machine {
    // Dropped in this order: the processors, the memory.
    pub(super) vcpus: Vec<VcpuSlot>,
    pub(super) processors: Vec<Processor>,
    pub(super) memory: GuestMemory,
    pub(super) bus: Bus,
    pub(super) channel: ChannelDevice,
    /// The experiment's drives, and behind them the one that its root is on, if there is one.
    pub(super) drives: Vec<DriveDevice>,
    /// How many of those are the experiment's.
    pub(super) own: usize,
    /// Whether any drive is to be polled for submissions.
    pub(super) lazy: bool,
    pub(super) serial: Serial,
    pub(super) io_apic: IoApic,
    pub(super) cmos: Cmos,
    pub(super) rewind: Option<RewindState>,
    /// The guest's clock, where it has several processors.
    pub(super) clock: PvClock,
    /// Its number.
    pub(super) number: u16,
    pub(super) name: String,
    /// Whether the run lasts until its command has ended.
    pub(super) waited: bool,
    /// Whether it has everything to begin with its command.
    pub(super) prepared: bool,
    /// When its command began (ns).
    pub(super) started: Option<Nanos>,
    pub(super) ended: Option<Nanos>,
    pub(super) ending: Option<Ending>,
    /// The page that shows whether its guest needs help.
    pub(super) help_page: Option<u64>,
    // How many urgent requests that page has announced.
    pub(super) urgent: u32,
    pub(super) wants_help: bool,
    /// How often the content of that page was invalid.
    pub(super) refused_help: u64,
    /// Whether its agent has no more messages: it does not run again.
    pub(super) finished: bool,
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
    /// Runs all events that are due.
    pub(super) fn run_due_events(&mut self, timeline: &mut Timeline) -> Result<(), Error> {
        self.read_help_page(timeline);
        let now = timeline.clock.now();
        let scale = timeline.clock.scale();
        let now_ns = scale.to_ns(now);
        let clock = self.clock.is_used().then(|| self.clock.with(self.busy()));
        for processor in &mut self.processors {
            let busy = processor.is_busy();
            let due = match (processor.apic.expiry(), clock) {
                (None, _) => false,
                (Some(Expiry::Tsc(at)), Some(clock)) if busy => at <= clock,
                // Without a clock that all share, its own time counts.
                (Some(Expiry::Tsc(at)), _) => at <= if busy { processor.time } else { now },
                (Some(Expiry::At(at)), _) => {
                    at <= scale.to_ns(if busy { processor.time } else { now })
                }
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
        if self.held_until(timeline).is_some() {
            return Ok(());
        }
        self.deliver(timeline, now_ns)
    }

    /// Until when completions are held back, if they are (ticks).
    fn held_until(&self, timeline: &Timeline) -> Option<u64> {
        self.rewind.as_ref().and_then(|rewind| rewind.holds(timeline.clock.now()))
    }

    fn deliver(&mut self, timeline: &mut Timeline, now_ns: Nanos) -> Result<(), Error> {
        let boot = self.started.is_none();
        for index in 0..self.drives.len() {
            let drive = &mut self.drives[index];
            if drive.next_event().is_some_and(|at| at <= now_ns) {
                let (records, bytes) = (&mut timeline.records, &mut timeline.recorded_bytes);
                // The root's I/Os are no part of the experiment.
                let told = index < self.own;
                drive.advance(&self.memory, now_ns, boot, |record| {
                    if told {
                        *bytes += record.bytes;
                        records.push(record);
                    }
                });
            }
            self.interrupts(timeline, index)?;
        }
        if let Some(watch) = &mut timeline.watch {
            self.drives.iter_mut().for_each(|drive| drive.control().take_spans(&mut watch.spans));
        }
        let told = timeline.watch.as_ref().is_some_and(|watch| watch.is_full());
        if told || timeline.records.len() >= BATCH || timeline.recorded_bytes >= BATCH_BYTES {
            timeline.flush_records()?;
        }
        Ok(())
    }

    /// The next event of its devices, and of the timers of processors that are
    /// not busy (ticks).
    pub(super) fn next_event(&self, timeline: &Timeline) -> Option<u64> {
        let scale = timeline.clock.scale();
        let idle = (0..self.processors.len()).filter(|&index| !self.processors[index].is_busy());
        let timers = idle.filter_map(|index| self.timer(timeline, index));
        let held_until = self.held_until(timeline).unwrap_or(0);
        let drives = self
            .drives
            .iter()
            .filter_map(|drive| Some(scale.to_ticks(drive.next_event()?).max(held_until)));
        timers.chain(drives).min()
    }

    /// When a processor's timer expires (ticks): of a busy one, on its own time.
    pub(super) fn timer(&self, timeline: &Timeline, index: usize) -> Option<u64> {
        let processor = &self.processors[index];
        Some(match processor.apic.expiry()? {
            Expiry::Tsc(at) if processor.is_busy() && self.clock.is_used() => {
                // How far it has to go for the clock of all to come there.
                let (count, mean) = self.busy().mean();
                processor.time.saturating_add(at.saturating_sub(mean).saturating_mul(count))
            }
            Expiry::Tsc(at) => at,
            Expiry::At(at) => timeline.clock.scale().to_ticks(at),
        })
    }

    /// Where its busy processors are.
    fn busy(&self) -> Busy {
        let times = self.processors.iter().filter(|processor| processor.is_busy());
        times.fold(Busy::default(), |busy, processor| Busy {
            count: busy.count + 1,
            sum: busy.sum + u128::from(processor.time),
        })
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
        for processor in &mut self.processors {
            if processor.state == State::Halted && processor.apic.pending().is_some() {
                processor.state = State::Runnable;
                processor.time = processor.time.max(now);
            }
        }
    }

    pub(super) fn is_busy(&self, index: usize) -> bool {
        !self.finished && self.processors[index].is_busy()
    }

    pub(super) fn frozen(&mut self) -> Duration {
        self.drives.iter_mut().map(|drive| drive.control().frozen()).sum()
    }
}
