//! The stages of a run: its commands begin and end by messages of the guests' agents. Steps of the
//! run: each machine's stage is of its `progress`.

use stasis_run_events::{Ending, RunEvent, Stage};

use super::progress::Progress;
use super::run::Run;
use super::vm::After;
use crate::devices::AgentEvent;
use crate::error::Error;

impl Run<'_> {
    /// Handles the step that follows an exit of machine `number`. Returns the run's ending, if it
    /// has ended.
    pub(super) fn follow(&mut self, number: usize, after: After) -> Result<Option<Ending>, Error> {
        match after {
            After::Continue => Ok(None),
            After::Agent(event) => self.agent_event(number, event),
            After::Greeted => Ok(Some(Ending::Exited(0))),
            After::Panicked if self.machines[number].faults.failures.is_panic() => {
                let now = self.common.clock.now_ns();
                self.machines[number].crash(now)?;
                Ok(None)
            }
            After::Panicked => {
                self.machines[number].progress.panic();
                Ok(Some(Ending::Panicked))
            }
        }
    }

    /// Handles a message of a machine's agent. Returns the run's ending, if it has ended.
    fn agent_event(&mut self, number: usize, event: AgentEvent) -> Result<Option<Ending>, Error> {
        let now = self.common.clock.now_ns();
        let machine = &mut self.machines[number];
        match event {
            AgentEvent::Nothing
            | AgentEvent::Ready
            | AgentEvent::Health(_)
            | AgentEvent::HelpPage(_)
            | AgentEvent::Help(_)
            | AgentEvent::Asks(_)
            | AgentEvent::WantsOrders
            | AgentEvent::Callable(_)
            | AgentEvent::Ordered(_) => {}
            AgentEvent::WantsBranch => {
                match self.branching.iter_mut().find(|branching| branching.waits_for(number)) {
                    Some(branching) => {
                        branching.give(machine);
                        self.common.stream.emit(RunEvent::Stage(Stage::Branching))?;
                    }
                    None => machine.channel.no_branch(),
                }
            }
            AgentEvent::WantsCommand => self.give_commands()?,
            AgentEvent::Started => {
                machine.prepare(&mut self.common);
                self.common.dependencies.started(number, now);
                if machine.progress.start(now) {
                    machine.drives.controls().for_each(|drive| drive.start(now));
                }
                if !self.common.statistics.running {
                    let frozen = self.frozen();
                    self.common.statistics.start(&self.common.clock, frozen, self.processors.len());
                    self.common.stream.emit(RunEvent::Stage(Stage::Running))?;
                    self.shared.start(now);
                    self.common.networks.begin(now);
                    self.common.triggers.begin();
                    for machine in &mut self.machines {
                        machine.faults.begin(now);
                    }
                    self.debug_begins()?;
                    self.sampling_begins()?;
                }
            }
            AgentEvent::Exited(status) => {
                let debug = self.debug.as_mut();
                if let Some(branch) = debug.and_then(|debug| debug.take_branch_at_end(number)) {
                    self.debug = None;
                    self.become_branch(branch, true)?;
                } else if self.branching.iter().any(|one| one.waits_for(number)) {
                    self.machines[number].channel.something_is_to_run();
                } else if !self.change_at_end(number)? {
                    self.ended(number, Ending::Exited(status))?;
                }
            }
            AgentEvent::NotStarted(status, message) => {
                self.ended(number, Ending::NotStarted { status, message })?;
            }
            AgentEvent::Finished => {
                machine.progress.finish();
                self.give_commands()?;
                let is_over =
                    |progress: &Progress| progress.is_finished() || !progress.is_waited_for();
                if self.machines.iter().all(|machine| is_over(&machine.progress)) {
                    return Ok(Some(self.whole()));
                }
            }
        }
        Ok(None)
    }

    /// Gives the guests their commands once all are set up: where the booted machines are kept, this
    /// is the moment.
    fn give_commands(&mut self) -> Result<(), Error> {
        if self.machines.iter().any(|machine| machine.progress.is_setting_up()) {
            return Ok(());
        }
        let is_wanted = self.machines.iter().any(|machine| machine.progress.is_wanting());
        if is_wanted {
            self.alike.share_code(&mut self.machines);
        }
        let change = if is_wanted { self.sources.begin()? } else { None };
        if let Some(change) = change {
            self.begin_as(change)?;
        }
        let now = self.common.clock.now();
        self.machines.iter_mut().try_for_each(|machine| machine.give_command(now))
    }

    fn ended(&mut self, number: usize, ending: Ending) -> Result<(), Error> {
        let machine = &mut self.machines[number];
        // Nobody needs to wait for one that cannot begin.
        machine.prepare(&mut self.common);
        let now = self.common.clock.now_ns();
        self.common.dependencies.ended(number, matches!(ending, Ending::Exited(0)), now);
        machine.progress.end(now, ending);
        self.give_commands()?;
        if self.machines.iter().any(|machine| machine.progress.holds_the_run()) {
            return Ok(());
        }
        // The run does not wait for the other machines: they stand still, so that their figures are
        // those of this moment.
        for progress in self.machines.iter_mut().map(|machine| &mut machine.progress) {
            if !progress.is_waited_for() {
                progress.stand_still();
            }
        }
        // All after this is the agents' own work, not the commands'.
        let now = self.common.clock.now_ns();
        self.shared.end(now);
        self.sampling_ends(self.common.clock.now())?;
        let frozen = self.frozen();
        self.common.statistics.finish(&self.common.clock, frozen);
        self.common.stream.emit(RunEvent::Stage(Stage::Collecting))
    }

    /// Returns the ending for all: that of the first that failed, if one did.
    fn whole(&self) -> Ending {
        let waited = self.machines.iter().map(|machine| &machine.progress);
        let mut endings = waited.filter(|one| one.is_waited_for()).filter_map(Progress::ending);
        let failed = endings.find(|ending| !matches!(ending, Ending::Exited(0)));
        failed.cloned().unwrap_or(Ending::Exited(0))
    }
}
