//! Machines on one timeline: the loop that runs all their processors in turn, and what is due
//! between turns: timers, completions, and what follows from them.

mod agent;
mod alike;
mod attend;
mod branch;
mod build;
mod calls;
mod changes;
mod config;
mod controller;
mod debug;
mod due_faults;
mod exits;
mod failures;
mod guest_io;
mod interrupts;
mod kept_boot;
mod limits;
mod networks;
mod order;
mod orders;
mod outcome;
mod path_faults;
mod pauses;
mod ports;
mod program_source;
mod recovery;
mod replayed_slice;
mod rewind;
mod round;
mod run;
mod sampling;
mod slice;
mod slots;
mod snapshots;
mod stages;
mod stops;
mod timeline;
mod triggers;
mod typing;
mod vm;
mod watch;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stasis_block::clock::Nanos;
use stasis_run_events::{Ending, EventSink, Outcome, RunEvent};

use crate::apic::Expiry;
use crate::devices::DriveDevice;
use crate::error::Error;
use order::Turn;
use run::Run;
use timeline::{Timeline, BATCH, BATCH_BYTES};
use vm::Machine;

pub use changes::{
    BeginSource, Change, ChangeConfig, ChangeSource, DriveChange, MachineChange, MachineFaults,
    ModelChange,
};
pub use config::{
    Config, DriveConfig, MachineConfig, ProfileSource, Rewind, Speed, Stop, TimelineConfig,
};
pub use controller::Controller;
pub use debug::{DebugConfig, DebugSource};
pub use failures::{Failure, FailureKind};
pub use networks::NetworkConfig;
pub use path_faults::PathFault;
pub use pauses::Pause;
pub use program_source::ProgramSource;
pub use snapshots::{Resumed, SnapshotConfig, SnapshotSource, TakeSnapshot};
pub use triggers::{Trigger, TriggerConfig};

/// After so many ticks of virtual time the user and the limits are looked at, in any sequence of
/// turns.
const LOOKED_AFTER: u64 = 10_000_000;
/// At each multiple of so many ticks of virtual time what was recorded is sent, however few records
/// there are: the order of events must not follow from the wall clock.
const SENT_AFTER: u64 = 100_000_000;
/// Interval of progress events (wall clock).
const PROGRESS: Duration = Duration::from_millis(200);

/// Runs machines from their making to their end.
///
/// # Errors
/// See [`Error`]; a guest that fails is an [`Outcome`], not an error.
pub fn run<'a>(config: Config<'a>, events: &'a mut dyn EventSink) -> Result<Outcome, Error> {
    let mut run = Run::new(config, events)?;
    let ending = run.run()?;
    let ending = run.debug_end(ending)?;
    run.sampling_ends(run.timeline.clock.now())?;
    run.outcome(ending)
}

impl Run<'_> {
    fn run(&mut self) -> Result<Ending, Error> {
        loop {
            if let Some(ending) = self.check_limits()? {
                return Ok(ending);
            }
            self.pull_triggers();
            if let Some(Resumed { debug, profile, change, .. }) = self.take_snapshot()? {
                self.change_source = Some(Box::new(|| change));
                self.debug_source = Some(Box::new(|| debug));
                self.debug_begins()?;
                self.profile_source = Some(Box::new(|| profile));
                self.sampling_begins()?;
            }
            self.turn += u64::from(self.has_begun());
            if let Some(ending) = self.debug_turn()? {
                return Ok(ending);
            }
            self.timeline.is_observed =
                self.debug.is_some() || self.sampler.is_some() || self.snapshots.is_some();
            self.advance();
            self.cross()?;
            self.change_if_due()?;
            let deaf = |machine: &&Machine| machine.finished || machine.failures.is_off();
            for machine in self.machines.iter().filter(deaf) {
                machine.discard_frames(&mut self.timeline);
            }
            for machine in self.machines.iter_mut().filter(|machine| !machine.finished) {
                machine.run_due_failures(&mut self.timeline, &self.kernel)?;
                machine.run_due_pauses(&mut self.timeline);
                machine.run_due_path_faults(&mut self.timeline)?;
                machine.run_due_events(&mut self.timeline)?;
                machine.wake(self.instant);
            }
            let ending = match self.turn() {
                Turn::Exit(place) => self.act(place)?,
                Turn::Slice(place, slice) if self.debug.is_some() => {
                    self.debugged_slice(place, slice)?
                }
                Turn::Slice(place, slice) if self.sampler.is_some() => {
                    self.sampled_slice(place, slice)?
                }
                Turn::Slice(place, slice) => {
                    let machine = self.processors[place].0;
                    let after = self.machines[machine].slice(&mut self.timeline, slice)?;
                    self.follow(machine, after)?
                }
                Turn::Round => self.round()?,
                Turn::Later => None,
                Turn::Idle => {
                    let Some(next) = self.idle_to_changes(self.next_event()) else {
                        self.check_branch(true)?;
                        return Ok(Ending::Hung);
                    };
                    let branches = self.branching.len();
                    if let Some(ending) = self.debug_idle(next)? {
                        return Ok(ending);
                    }
                    // A call ends the idle time.
                    if self.branching.len() == branches && !self.attend(next)? {
                        self.idle_until(next);
                    }
                    None
                }
            };
            if let Some(ending) = ending {
                return Ok(ending);
            }
        }
    }

    /// Faults whose trigger has come begin.
    fn pull_triggers(&mut self) {
        for (number, at) in self.timeline.triggers.take_pulled() {
            self.timeline.networks.trigger(number, at);
            if let (debug::MOMENT, Some(debug)) = (number, &mut self.debug) {
                debug.come();
            }
            if let (snapshots::SNAPSHOT, Some(snapshots)) = (number, &mut self.snapshots) {
                snapshots.come();
            }
            if let (changes::CHANGE, Some(changes)) = (number, &mut self.changes) {
                changes.come();
            }
            for machine in &mut self.machines {
                machine.failures.trigger(number, at);
                machine.pauses.trigger(number, at);
                machine.path_faults.trigger(number, at);
                if machine.orders.trigger(number, at) && !machine.failures.is_off() {
                    machine.raise_call();
                }
                for drive in &mut machine.drives {
                    drive.control().begin_fault(number, at);
                }
            }
        }
    }

    /// Does what the exit asks for for which the processor at `place` waits.
    fn act(&mut self, place: usize) -> Result<Option<Ending>, Error> {
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        let Some(exit) = machine.processors[index].waiting.take() else { return Ok(None) };
        let after = machine.act(&mut self.timeline, index, exit)?;
        self.follow(number, after)
    }

    // Checks between slices: the user, limits, progress.
    fn check_limits(&mut self) -> Result<Option<Ending>, Error> {
        if self.stop.flag.load(Ordering::Relaxed) {
            return Ok(Some(Ending::Cancelled));
        }
        self.check_branch(false)?;
        let timeline = &mut self.timeline;
        if let (Some(limit), true) = (self.virtual_limit, timeline.statistics.running) {
            let since = timeline.statistics.started_virtual;
            if timeline.clock.now_ns().saturating_sub(since) >= limit {
                return Ok(Some(Ending::VirtualLimit));
            }
        }
        // The wall clock costs a call: every so many turns is often enough, or after so much of
        // virtual time, as a turn of a guest that only computes takes long.
        timeline.statistics.turns = timeline.statistics.turns.wrapping_add(1);
        let now = timeline.clock.now();
        if now / SENT_AFTER != timeline.statistics.sent {
            timeline.statistics.sent = now / SENT_AFTER;
            timeline.flush_records()?;
        }
        let long = now.saturating_sub(timeline.statistics.looked) >= LOOKED_AFTER;
        if long || timeline.statistics.turns.is_multiple_of(64) {
            timeline.statistics.looked = now;
            if let Some(poll) = &self.stop.poll {
                poll();
            }
            let now = Instant::now();
            if self.stop.deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Some(Ending::WallLimit));
            }
            if now - timeline.statistics.reported >= PROGRESS {
                timeline.statistics.reported = now;
                timeline.emit(RunEvent::Progress(timeline.clock.now_ns()))?;
                self.debug_poll();
            }
        }
        Ok(None)
    }

    /// A guest that is called answers in time, even where all is `idle`.
    fn check_branch(&self, idle: bool) -> Result<(), Error> {
        let now = self.timeline.clock.now_ns();
        self.branching.iter().try_for_each(|branching| branching.check(now, idle))
    }

    /// All processors are idle: time passes at once, or, with rewind, goes back
    /// to a completion that is past.
    fn idle_until(&mut self, next: u64) {
        let timeline = &mut self.timeline;
        if self.machines.iter_mut().any(|machine| machine.go_back(timeline)) {
            self.instant = timeline.clock.now();
            return;
        }
        let idle = self.instant.max(self.last_idle());
        let timeline = &mut self.timeline;
        // A limit on virtual time is reached at its own instant.
        let limit =
            self.virtual_limit.filter(|_| timeline.statistics.running).map_or(u64::MAX, |limit| {
                timeline
                    .clock
                    .scale()
                    .to_ticks(timeline.statistics.started_virtual.saturating_add(limit))
            });
        let next = next.min(limit);
        timeline.statistics.skipped += next.saturating_sub(idle);
        self.instant = self.instant.max(next);
    }
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

    fn deliver(&mut self, timeline: &mut Timeline, now_ns: Nanos) -> Result<(), Error> {
        let boot = self.started.is_none();
        for index in 0..self.drives.len() {
            let drive = &mut self.drives[index];
            if drive.next_event().is_some_and(|at| at <= now_ns) {
                let before = timeline.records.len();
                let (records, bytes) = (&mut timeline.records, &mut timeline.recorded_bytes);
                // The root's I/Os are no part of the experiment.
                let is_recorded = index < self.own;
                drive.advance(&self.memory, now_ns, boot, |record| {
                    if is_recorded {
                        *bytes += record.bytes;
                        records.push(record);
                    }
                });
                timeline.triggers.delivered(&timeline.records[before..], now_ns);
                self.guest_ios_delivered(timeline, index, before, now_ns);
            }
            self.interrupts(timeline, index)?;
        }
        let submitted = self.drives[..self.own].iter().map(DriveDevice::submitted);
        timeline.triggers.count(self.number, submitted, now_ns);
        self.advance_ports(timeline)?;
        if timeline.has_faults {
            for drive in &mut self.drives {
                drive.control().take_faults(&mut timeline.faults);
            }
        }
        if let Some(watch) = &mut timeline.watch {
            self.drives.iter_mut().for_each(|drive| drive.control().take_spans(&mut watch.spans));
        }
        let is_full = timeline.watch.as_ref().is_some_and(|watch| watch.is_full());
        if is_full || timeline.records.len() >= BATCH || timeline.recorded_bytes >= BATCH_BYTES {
            timeline.flush_records()?;
        }
        Ok(())
    }
}
