//! Messages of the guests' agents, and their effects on the run.

use stasis_channel::help;
use stasis_run_events::{Ending, RunEvent, Stage};

use super::timeline::Timeline;
use super::vm::{After, Machine};
use super::Run;
use crate::devices::AgentEvent;
use crate::error::Error;

/// Where the page has its ring.
const RING: u64 = help::RING_OFFSET as u64;

impl Machine {
    /// The agent rang the channel's doorbell.
    pub(super) fn ring(&mut self, timeline: &mut Timeline) -> Result<After, Error> {
        timeline.flush_records()?;
        timeline.set_source(self.number)?;
        // The guest's message has a time.
        timeline.emit(RunEvent::Progress(timeline.clock.now_ns()))?;
        let others = timeline.preparing - usize::from(!self.prepared);
        let memory = &self.memory;
        let is_memory = |address: u64| {
            address.is_multiple_of(help::PAGE as u64)
                && memory.read(address, &mut [0; help::PAGE]).is_ok()
        };
        let (now, skipped) = (timeline.clock.now(), timeline.statistics.skipped);
        let works = self.is_at_a_drive();
        let typing = &mut timeline.typing;
        let typed = &mut || typing.take(now, skipped, works);
        Ok(match self.channel.doorbell(timeline.events, others == 0, is_memory, typed)? {
            AgentEvent::Nothing => After::Continue,
            AgentEvent::Ready => {
                self.prepare(timeline);
                After::Continue
            }
            AgentEvent::HelpPage(address) => {
                self.help_page = Some(address);
                After::Continue
            }
            AgentEvent::Help(on) => {
                self.help(timeline, on);
                After::Continue
            }
            event => After::Agent(event),
        })
    }

    /// Looks into the page by which the guest asks for help.
    pub(super) fn read_help_page(&mut self, timeline: &mut Timeline) {
        let Some(address) = self.help_page else { return };
        let mut page = [0; help::LENGTH];
        let read = self.memory.read(address, &mut page).is_ok();
        let Some(on) = help::wants_help(&page).filter(|_| read) else {
            // The guest has written something else than it announced: its help page is no longer
            // read.
            self.help_page = None;
            self.refused_help += 1;
            self.help(timeline, false);
            return;
        };
        self.help(timeline, on);
        self.read_urgent(address, help::count(&page));
    }

    /// Passes on the requests that the guest's bfq has handed out for interactive queues since the
    /// last look, and that are on their way to one of the guest's drives.
    fn read_urgent(&mut self, page: u64, count: u32) {
        let mut ring = [0; 8 * help::RING];
        if count == self.urgent || self.memory.read(page + RING, &mut ring).is_err() {
            return;
        }
        let seen = std::mem::replace(&mut self.urgent, count);
        for drive in &mut self.drives {
            drive.urge(&mut help::since(&ring, seen, count));
        }
    }

    fn help(&mut self, timeline: &mut Timeline, on: bool) {
        if self.wants_help == on {
            return;
        }
        self.wants_help = on;
        let now = timeline.clock.now_ns();
        self.drives.iter_mut().for_each(|drive| drive.help(now, on));
    }

    /// Its command begins as soon as all others' can.
    fn prepare(&mut self, timeline: &mut Timeline) {
        timeline.preparing -= usize::from(!self.prepared);
        self.prepared = true;
    }
}

impl Run<'_> {
    /// Handles a message of a machine's agent. Returns how the run ended, if it did.
    pub(super) fn agent_event(
        &mut self,
        number: usize,
        event: AgentEvent,
    ) -> Result<Option<Ending>, Error> {
        let now = self.timeline.clock.now_ns();
        let machine = &mut self.machines[number];
        match event {
            AgentEvent::Nothing
            | AgentEvent::Ready
            | AgentEvent::HelpPage(_)
            | AgentEvent::Help(_) => {}
            AgentEvent::Started => {
                machine.prepare(&mut self.timeline);
                machine.started = Some(now);
                machine.drives.iter_mut().for_each(|drive| drive.control().start(now));
                if !self.timeline.statistics.running {
                    let frozen = self.frozen();
                    self.timeline.statistics.start(
                        &self.timeline.clock,
                        frozen,
                        self.processors.len(),
                    );
                    self.timeline.emit(RunEvent::Stage(Stage::Running))?;
                    self.shared.iter().for_each(|shared| shared.start(now));
                }
            }
            AgentEvent::Exited(status) => self.ended(number, Ending::Exited(status))?,
            AgentEvent::NotStarted(status, message) => {
                self.ended(number, Ending::NotStarted { status, message })?;
            }
            AgentEvent::Finished => {
                machine.ending.get_or_insert(Ending::Panicked);
                machine.finished = true;
                if self.machines.iter().all(|machine| machine.finished || !machine.waited) {
                    return Ok(Some(self.whole()));
                }
            }
        }
        Ok(None)
    }

    fn ended(&mut self, number: usize, ending: Ending) -> Result<(), Error> {
        let machine = &mut self.machines[number];
        // Nobody needs to wait for one that cannot begin.
        machine.prepare(&mut self.timeline);
        machine.ended = Some(self.timeline.clock.now_ns());
        machine.ending.get_or_insert(ending);
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
        let frozen = self.frozen();
        self.timeline.statistics.finish(&self.timeline.clock, frozen);
        self.timeline.emit(RunEvent::Stage(Stage::Collecting))
    }

    /// How it ended for all: as the first that failed, if one did.
    fn whole(&self) -> Ending {
        let endings = self.machines.iter().filter(|machine| machine.waited);
        let mut endings = endings.filter_map(|machine| machine.ending.clone());
        let failed = endings.find(|ending| !matches!(ending, Ending::Exited(0)));
        failed.unwrap_or(Ending::Exited(0))
    }
}
