//! The stages of a run: its commands begin and end by messages of the guests' agents.

use stasis_run_events::{Ending, RunEvent, Stage};

use super::run::Run;
use super::vm::{After, Machine};
use crate::devices::AgentEvent;
use crate::error::Error;

impl Run<'_> {
    /// Handles the step that follows an exit of machine `number`. Returns how the run ended, if it
    /// did.
    pub(super) fn follow(&mut self, number: usize, after: After) -> Result<Option<Ending>, Error> {
        match after {
            After::Continue => Ok(None),
            After::Agent(event) => self.agent_event(number, event),
            After::Panicked if self.machines[number].failures.is_panic() => {
                let now = self.timeline.clock.now_ns();
                self.machines[number].crash(now)?;
                Ok(None)
            }
            After::Panicked => {
                self.machines[number].ending = Some(Ending::Panicked);
                Ok(Some(Ending::Panicked))
            }
        }
    }

    /// Handles a message of a machine's agent. Returns how the run ended, if it did.
    fn agent_event(&mut self, number: usize, event: AgentEvent) -> Result<Option<Ending>, Error> {
        let now = self.timeline.clock.now_ns();
        let machine = &mut self.machines[number];
        match event {
            AgentEvent::Nothing
            | AgentEvent::Ready
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
                        self.timeline.emit(RunEvent::Stage(Stage::Branching))?;
                    }
                    None => machine.channel.no_branch(),
                }
            }
            AgentEvent::WantsCommand => self.give_commands()?,
            AgentEvent::Started => {
                machine.prepare(&mut self.timeline);
                // A machine that boots again begins its command again, and not its figures.
                if machine.started.is_none() {
                    machine.started = Some(now);
                    machine.drives.iter_mut().for_each(|drive| drive.control().start(now));
                }
                if !self.timeline.statistics.running {
                    let frozen = self.frozen();
                    self.timeline.statistics.start(
                        &self.timeline.clock,
                        frozen,
                        self.processors.len(),
                    );
                    self.timeline.emit(RunEvent::Stage(Stage::Running))?;
                    self.shared.iter().for_each(|shared| shared.start(now));
                    self.timeline.networks.begin(now);
                    self.timeline.triggers.begin();
                    for machine in &mut self.machines {
                        machine.pauses.begin(now);
                        machine.path_faults.begin(now);
                        machine.failures.begin(now);
                        machine.orders.begin(now);
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
                machine.ending.get_or_insert(Ending::Panicked);
                machine.finished = true;
                self.give_commands()?;
                if self.machines.iter().all(|machine| machine.finished || !machine.waited) {
                    return Ok(Some(self.whole()));
                }
            }
        }
        Ok(None)
    }

    /// Gives the guests their commands once all are set up: where the booted machines are kept, this
    /// is the moment.
    fn give_commands(&mut self) -> Result<(), Error> {
        if self.machines.iter().any(Machine::is_setting_up) {
            return Ok(());
        }
        let is_wanted = self.machines.iter().any(|machine| machine.wanting.is_some());
        if is_wanted {
            self.alike.share_code(&mut self.machines);
        }
        if let Some(source) = self.begin_source.take_if(|_| is_wanted) {
            self.begin_as(source().map_err(Error::Input)?)?;
        }
        let now = self.timeline.clock.now();
        self.machines.iter_mut().try_for_each(|machine| machine.give_command(now))
    }

    fn ended(&mut self, number: usize, ending: Ending) -> Result<(), Error> {
        let machine = &mut self.machines[number];
        // Nobody needs to wait for one that cannot begin.
        machine.prepare(&mut self.timeline);
        machine.ended = Some(self.timeline.clock.now_ns());
        machine.ending.get_or_insert(ending);
        self.give_commands()?;
        if self.machines.iter().any(|machine| machine.waited && machine.ended.is_none()) {
            return Ok(());
        }
        // The run does not wait for the other machines: they stand still, so that their figures are
        // those of this moment.
        for machine in self.machines.iter_mut().filter(|machine| !machine.waited) {
            machine.finished = true;
        }
        // All after this is the agents' own work, not the commands'.
        let now = self.timeline.clock.now_ns();
        self.shares = self.shared.iter().map(|shared| shared.report(now)).collect();
        self.sampling_ends(self.timeline.clock.now())?;
        let frozen = self.frozen();
        self.timeline.statistics.finish(&self.timeline.clock, frozen);
        self.timeline.emit(RunEvent::Stage(Stage::Collecting))
    }

    /// Returns the ending for all: that of the first that failed, if one did.
    fn whole(&self) -> Ending {
        let endings = self.machines.iter().filter(|machine| machine.waited);
        let mut endings = endings.filter_map(|machine| machine.ending.clone());
        let failed = endings.find(|ending| !matches!(ending, Ending::Exited(0)));
        failed.unwrap_or(Ending::Exited(0))
    }
}
