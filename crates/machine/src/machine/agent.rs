//! What the agents in the guests tell, and what the run makes of it.

use stasis_channel::help;
use stasis_journal::{Ending, Entry, Stage};

use super::line::Line;
use super::one::{After, Machine};
use super::Run;
use crate::devices::Told;
use crate::error::Error;

/// Where the page has its ring.
const RING: u64 = help::RING_OFFSET as u64;

impl Machine {
    /// The agent rang the channel's doorbell.
    pub(super) fn ring(&mut self, line: &mut Line) -> Result<After, Error> {
        line.flush_records()?;
        line.say_from(self.number)?;
        // What the guest tells has a time.
        line.tell(Entry::Progress(line.clock.now_ns()))?;
        let others = line.preparing - usize::from(!self.prepared);
        let memory = &self.memory;
        let is_memory = |address: u64| {
            address.is_multiple_of(help::PAGE as u64)
                && memory.read(address, &mut [0; help::PAGE]).is_ok()
        };
        Ok(match self.channel.doorbell(line.journal, others == 0, is_memory)? {
            Told::Nothing => After::Continue,
            Told::Ready => {
                self.prepare(line);
                After::Continue
            }
            Told::HelpPage(address) => {
                self.help_page = Some(address);
                After::Continue
            }
            Told::Help(on) => {
                self.help(line, on);
                After::Continue
            }
            told => After::Told(told),
        })
    }

    /// Looks into the page by which the guest asks for help.
    pub(super) fn look_for_help(&mut self, line: &mut Line) {
        let Some(address) = self.help_page else { return };
        let mut page = [0; help::LENGTH];
        let read = self.memory.read(address, &mut page).is_ok();
        let Some(on) = help::asks(&page).filter(|_| read) else {
            // Not what it said it would write: it asks for nothing any more.
            self.help_page = None;
            self.refused_help += 1;
            self.help(line, false);
            return;
        };
        self.help(line, on);
        self.look_for_urgent(address, help::count(&page));
    }

    /// What its bfq handed out for interactive queues since the last look is on
    /// its way to one of its drives.
    fn look_for_urgent(&mut self, page: u64, count: u32) {
        let mut ring = [0; 8 * help::RING];
        if count == self.urgent || self.memory.read(page + RING, &mut ring).is_err() {
            return;
        }
        let seen = std::mem::replace(&mut self.urgent, count);
        for drive in &mut self.drives {
            drive.urge(&mut help::since(&ring, seen, count));
        }
    }

    fn help(&mut self, line: &mut Line, on: bool) {
        if self.asks_help == on {
            return;
        }
        self.asks_help = on;
        let now = line.clock.now_ns();
        self.drives.iter_mut().for_each(|drive| drive.help(now, on));
    }

    /// Its command begins as soon as all others' can.
    fn prepare(&mut self, line: &mut Line) {
        line.preparing -= usize::from(!self.prepared);
        self.prepared = true;
    }
}

impl Run<'_> {
    /// The agent of a machine has told something. How the run ended, if it did.
    pub(super) fn told(&mut self, number: usize, told: Told) -> Result<Option<Ending>, Error> {
        let now = self.line.clock.now_ns();
        let machine = &mut self.machines[number];
        match told {
            Told::Nothing | Told::Ready | Told::HelpPage(_) | Told::Help(_) => {}
            Told::Started => {
                machine.prepare(&mut self.line);
                machine.started = Some(now);
                if !self.line.statistics.running {
                    let frozen = self.frozen();
                    self.line.statistics.start(&self.line.clock, frozen, self.processors.len());
                    self.line.tell(Entry::Stage(Stage::Running))?;
                    self.shared.iter().for_each(|shared| shared.start(now));
                }
            }
            Told::Exited(status) => self.ended(number, Ending::Exited(status))?,
            Told::NotStarted(status, message) => {
                self.ended(number, Ending::NotStarted { status, message })?;
            }
            Told::Finished => {
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
        machine.prepare(&mut self.line);
        machine.ended = Some(self.line.clock.now_ns());
        machine.ending.get_or_insert(ending);
        if self.machines.iter().any(|machine| machine.waited && machine.ended.is_none()) {
            return Ok(());
        }
        // What follows is the agents' own work, not the commands'.
        let frozen = self.frozen();
        self.line.statistics.finish(&self.line.clock, frozen);
        self.line.tell(Entry::Stage(Stage::Collecting))
    }

    /// How it ended for all: as the first that failed, if one did.
    fn whole(&self) -> Ending {
        let endings = self.machines.iter().filter(|machine| machine.waited);
        let mut endings = endings.filter_map(|machine| machine.ending.clone());
        let failed = endings.find(|ending| !matches!(ending, Ending::Exited(0)));
        failed.unwrap_or(Ending::Exited(0))
    }
}
