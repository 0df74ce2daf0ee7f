//! Machines on one timeline: the loop that runs all their processors in turn, and what is due
//! between turns: timers, completions, and what follows from them. Steps of the run and of the machine,
//! whose parts own the state (`run.rs`, `vm.rs`).

mod agent;
mod alike;
mod attend;
mod boot_first;
mod bounds;
mod branch;
mod branches;
mod build;
mod calls;
mod changes;
mod chipset;
mod common;
mod config;
mod controller;
mod debug;
mod dependencies;
mod drives;
mod due_faults;
mod event_stream;
mod exits;
mod failures;
mod faults;
mod first_boot;
mod guest_io;
mod guest_waits;
mod help;
mod interleaving;
mod interrupts;
mod kept_boot;
mod limits;
mod looks;
mod networks;
mod order;
mod orders;
mod outcome;
mod pace;
mod path_faults;
mod pauses;
mod ports;
mod program_source;
mod progress;
mod recovery;
mod replayed_slice;
mod rewind;
mod round;
mod rounds;
mod run;
mod sampling;
mod shared_drives;
mod slice;
mod slots;
mod snapshots;
mod sources;
mod stages;
mod stops;
mod triggers;
mod typing;
mod vm;
mod watch;

use std::ops::ControlFlow;

use stasis_block::clock::Nanos;
use stasis_run_events::{Ending, EventSink, Outcome, RunEvent};

use crate::apic::Expiry;
use crate::error::Error;
use common::Common;
use order::Turn;
use run::Run;
use vm::Machine;

pub use boot_first::{first_boot, FirstBootConfig};
pub use changes::{
    BeginSource, Change, ChangeConfig, ChangeSource, DriveChange, MachineChange, MachineFaults,
    ModelChange,
};
pub use config::{
    Beginning, Config, DriveConfig, MachineConfig, ProfileSource, Rewind, Speed, Stop,
    TimelineConfig,
};
pub use controller::Controller;
pub use debug::{DebugConfig, DebugSource};
pub use dependencies::{Dependency, DependencyState};
pub use failures::{Failure, FailureKind};
pub use first_boot::FirstBoot;
pub use interleaving::MAX_WINDOW;
pub use networks::NetworkConfig;
pub use path_faults::PathFault;
pub use pauses::Pause;
pub use program_source::ProgramSource;
pub use snapshots::{Resumed, SnapshotConfig, SnapshotSource, TakeSnapshot};
pub use triggers::{Trigger, TriggerConfig};

/// Runs machines from their making to their end.
///
/// # Errors
/// See [`Error`]; a guest that fails is an [`Outcome`], not an error.
pub fn run<'a>(config: Config<'a>, events: &'a mut dyn EventSink) -> Result<Outcome, Error> {
    let mut run = Run::new(config, events)?;
    let ending = run.run()?;
    let ending = run.debug_end(ending)?;
    run.sampling_ends(run.common.clock.now())?;
    run.outcome(ending)
}

impl Run<'_> {
    fn run(&mut self) -> Result<Ending, Error> {
        loop {
            if let Some(ending) = self.check_limits()? {
                return Ok(ending);
            }
            self.pull_triggers();
            if let Some(resumed) = self.take_snapshot()? {
                self.sources.resume(resumed);
                self.debug_begins()?;
                self.sampling_begins()?;
            }
            self.turn += u64::from(self.has_begun());
            if let Some(ending) = self.debug_turn()? {
                return Ok(ending);
            }
            self.common.is_observed =
                self.debug.is_some() || self.sampler.is_some() || self.snapshots.is_some();
            self.advance();
            self.cross()?;
            self.change_if_due()?;
            let deaf = |machine: &&Machine| {
                machine.progress.is_finished() || machine.faults.failures.is_off()
            };
            for machine in self.machines.iter().filter(deaf) {
                machine.discard_frames(&mut self.common);
            }
            for machine in
                self.machines.iter_mut().filter(|machine| !machine.progress.is_finished())
            {
                machine.run_due_failures(&mut self.common, &self.kernel)?;
                machine.run_due_pauses(&mut self.common);
                machine.run_due_path_faults(&mut self.common)?;
                machine.run_due_events(&mut self.common)?;
                machine.wake(self.instant);
            }
            let ending = match self.turn() {
                Turn::Exit(place) => self.act(place)?,
                Turn::Slice(place, slice) => {
                    let machine = self.processors[place].0;
                    let ended = match () {
                        () if self.is_debugged() => self.debugged_slice(place, slice)?,
                        () if self.sampler.is_some() => {
                            ControlFlow::Continue(self.sampled_slice(place, slice)?)
                        }
                        () => {
                            let machine = &mut self.machines[machine];
                            ControlFlow::Continue(match machine.kept_boot.is_replayed() {
                                true => machine.replayed_slice(&mut self.common, slice)?,
                                false => machine.slice(&mut self.common, slice)?,
                            })
                        }
                    };
                    match ended {
                        ControlFlow::Break(ending) => Some(ending),
                        ControlFlow::Continue(after) => self.follow(machine, after)?,
                    }
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
        for (number, at) in self.common.triggers.take_pulled() {
            self.common.networks.trigger(number, at);
            if let (triggers::MOMENT, Some(debug)) = (number, &mut self.debug) {
                debug.come();
            }
            if let (snapshots::SNAPSHOT, Some(snapshots)) = (number, &mut self.snapshots) {
                snapshots.come();
            }
            if number == changes::CHANGE {
                self.changes.come();
            }
            for machine in &mut self.machines {
                if machine.faults.trigger(number, at) {
                    machine.raise_call();
                }
                machine.drives.controls().for_each(|drive| drive.begin_fault(number, at));
            }
        }
    }

    /// Handles the pending exit of the processor at `place`.
    fn act(&mut self, place: usize) -> Result<Option<Ending>, Error> {
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        let Some(exit) = machine.processors[index].waiting.take() else { return Ok(None) };
        debug_assert!(machine.processors[index].time <= self.instant, "it is not its turn yet");
        let after = machine.act(&mut self.common, index, exit)?;
        self.follow(number, after)
    }

    // Checks between slices: the user, limits, progress.
    fn check_limits(&mut self) -> Result<Option<Ending>, Error> {
        if self.bounds.is_cancelled() {
            return Ok(Some(Ending::Cancelled));
        }
        self.check_branch(false)?;
        let common = &mut self.common;
        if self.bounds.is_over(&common.clock, &common.statistics) {
            return Ok(Some(Ending::VirtualLimit));
        }
        let now = common.clock.now();
        if self.looks.send(now) {
            common.flush_records()?;
        }
        if self.looks.turn(now) {
            let wall = match self.bounds.look() {
                Ok(wall) => wall,
                Err(ending) => return Ok(Some(ending)),
            };
            if self.looks.report(wall) {
                common.stream.emit(RunEvent::Progress(common.clock.now_ns()))?;
                self.debug_poll();
            }
        }
        Ok(None)
    }

    /// A guest that is called answers in time, even where all is `idle`.
    fn check_branch(&self, idle: bool) -> Result<(), Error> {
        let now = self.common.clock.now_ns();
        self.branching.iter().try_for_each(|branching| branching.check(now, idle))
    }

    /// All processors are idle: time passes at once, or, with rewind, goes back
    /// to a completion that is past. The clock follows in `advance` of `order.rs`.
    fn idle_until(&mut self, next: u64) {
        let common = &mut self.common;
        if self.machines.iter_mut().any(|machine| machine.go_back(common)) {
            self.instant = common.clock.now();
            return;
        }
        let idle = self.instant.max(self.last_idle());
        let common = &mut self.common;
        let next = next.min(self.bounds.latest(&common.clock, &common.statistics));
        common.statistics.skipped += next.saturating_sub(idle);
        self.instant = self.instant.max(next);
    }
}

impl Machine {
    /// Runs all events that are due.
    pub(super) fn run_due_events(&mut self, common: &mut Common) -> Result<(), Error> {
        let now = common.clock.now();
        let scale = common.clock.scale();
        let now_ns = scale.to_ns(now);
        self.look_at_help(now_ns);
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
        self.drives.poll(&self.memory, now_ns);
        if self.held_until(common).is_some() {
            return Ok(());
        }
        self.deliver(common, now_ns)
    }

    fn deliver(&mut self, common: &mut Common, now_ns: Nanos) -> Result<(), Error> {
        let boot = self.progress.started().is_none();
        for index in 0..self.drives.all().len() {
            // The root's I/Os are no part of the experiment.
            let is_recorded = self.drives.is_own(index);
            let drive = &mut self.drives[index];
            if drive.next_event().is_some_and(|at| at <= now_ns) {
                let before = common.stream.records().len();
                let stream = &mut common.stream;
                drive.advance(&self.memory, now_ns, boot, |record| {
                    if is_recorded {
                        stream.record(record);
                    }
                });
                common.triggers.delivered(&common.stream.records()[before..], now_ns);
                self.guest_ios_delivered(common, index, before, now_ns);
            }
            self.interrupts(common, index)?;
        }
        common.triggers.count(self.number, self.drives.submitted(), now_ns);
        self.advance_ports(common)?;
        common.stream.take_faults_of(self.drives.controls());
        if let Some(watch) = &mut common.watch {
            self.drives.controls().for_each(|drive| drive.take_spans(&mut watch.spans));
        }
        let is_full = common.watch.as_ref().is_some_and(|watch| watch.is_full());
        if is_full || common.stream.is_full() {
            common.flush_records()?;
        }
        Ok(())
    }
}
