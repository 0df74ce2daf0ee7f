//! The changes, where they are made.

use stasis_block::clock::Nanos;
use stasis_block::units::format_duration;
use stasis_drive::FaultChange;
use stasis_run_events::RunEvent;

use super::super::faults::Early;
use super::super::interleaving::{Interleaving, MAX_WINDOW};
use super::super::run::Run;
use super::super::vm::Machine;
use super::{Change, MachineChange, CHANGE};
use crate::error::Error;

impl Run<'_> {
    /// Makes the changes. `ended`: the machine whose command has just ended, if that is the moment.
    ///
    /// # Errors
    /// If a fault lies before this moment that the run did not have.
    pub(super) fn change(&mut self, change: Change, ended: Option<usize>) -> Result<(), Error> {
        // All that has happened so far is the other run's.
        self.common.flush_records()?;
        let now = self.common.clock.now_ns();
        let begun = self.common.statistics.started_virtual;
        self.common.stream.emit(RunEvent::Changed(now.saturating_sub(begun)))?;
        self.common.stream.drives_fail();
        self.apply(change, Some(begun), ended)
    }

    /// Makes those that come before the commands begin.
    pub(in super::super) fn begin_as(&mut self, change: Change) -> Result<(), Error> {
        self.apply(change, None, None)
    }

    /// Applies `change`. `begun`: the time at which the commands began (ns), if they have.
    fn apply(
        &mut self,
        change: Change,
        begun: Option<Nanos>,
        ended: Option<usize>,
    ) -> Result<(), Error> {
        let now = self.common.clock.now_ns();
        let Change { seed, virtual_limit, machines, commands, interleaving, .. } = change;
        let Change { shared, schedules, triggers, network_faults, known, .. } = change;
        if let Some(limit) = virtual_limit {
            self.bounds.limit(limit);
        }
        if let Some(triggers) = triggers {
            for machine in &mut self.machines {
                if triggers.iter().any(|trigger| trigger.listens_to(machine.number)) {
                    machine.channel.listen();
                }
            }
            self.common.triggers.change(triggers, CHANGE)?;
        }
        if let Some(seed) = interleaving {
            let (count, scale) = (self.processors.len(), self.common.clock.scale());
            self.interleaving = seed.map(|seed| Interleaving::new(seed, count, scale));
            self.common.pace.set_quantum(seed.map(|_| scale.to_ticks(MAX_WINDOW)));
            self.common.statistics.turns_on.quantum = self.common.pace.quantum();
        }
        self.common.networks.change(seed, network_faults);
        self.shared.change(shared, schedules, now)?;
        for (machine, change) in self.machines.iter_mut().zip(machines) {
            if let Some(seed) = seed {
                // Later boots draw by it from the agent's greeting on.
                machine.channel.reseed(seed);
            }
            let early = machine.change(change, &known, now, begun)?;
            if let Some((event, at)) = early {
                let name = match machine.name.as_str() {
                    "" => String::new(),
                    name => format!(" of {name}"),
                };
                let since = now.saturating_sub(begun.unwrap_or(now));
                let (at, since) = (format_duration(at), format_duration(since));
                return Err(Error::Limit(format!(
                    "{event}{name} at {at}: the run becomes another at {since}, and does not go back; \
                     give it a later time"
                )));
            }
        }
        for branch in commands {
            let machine = self.machines.get_mut(branch.machine);
            let machine = machine.ok_or(Error::Internal("no such machine"))?;
            // One that is off, or boots, begins with it.
            let is_commanded = machine.channel.begin_with(&branch.job);
            if is_commanded && !machine.faults.failures.is_off() {
                let is_end = ended == Some(branch.machine);
                self.branch_off(branch, is_end)?;
            }
        }
        Ok(())
    }
}

impl Machine {
    fn change(
        &mut self,
        change: MachineChange,
        known: &[u16],
        now: Nanos,
        begun: Option<Nanos>,
    ) -> Result<Option<Early>, Error> {
        let mut early = None;
        if let Some(faults) = change.faults {
            if !faults.failures.is_empty() {
                self.drives.make_replaceable();
                self.channel.make_restartable();
            }
            early = self.faults.change(faults, known, now);
        }
        for (index, mut change) in change.drives.into_iter().enumerate() {
            for (path, faults) in change.paths.take().into_iter().flatten().enumerate() {
                let begun =
                    begun.ok_or(Error::Internal("a path changes before its guest has it"))?;
                let fault = self.faults.paths.change((index, path), &faults, known, (begun, now));
                early = early.or(fault.map(|fault| ("a fault of a path", fault.begin)));
            }
            let faults = change.faults.take();
            let drive = &mut self.drives[index];
            change.make(drive.control(), now)?;
            if let Some((faults, seed)) = faults {
                drive.set_faults(FaultChange { faults, seed, begun });
            }
        }
        Ok(early)
    }
}
