//! The changes, where they are made.

use stasis_block::clock::Nanos;
use stasis_block::units::format_duration;
use stasis_drive::{Control, FaultChange};
use stasis_run_events::RunEvent;

use super::super::run::Run;
use super::super::vm::Machine;
use super::{Change, DriveChange, MachineChange, ModelChange, CHANGE};
use crate::error::Error;

impl Run<'_> {
    /// Makes the changes. `ended`: the machine whose command has just ended, if that is the moment.
    ///
    /// # Errors
    /// If a fault lies before this moment that the run did not have.
    pub(super) fn change(&mut self, change: Change, ended: Option<usize>) -> Result<(), Error> {
        // All that has happened so far is the other run's.
        self.timeline.flush_records()?;
        let now = self.timeline.clock.now_ns();
        let begun = self.timeline.statistics.started_virtual;
        self.timeline.emit(RunEvent::Changed(now.saturating_sub(begun)))?;
        self.timeline.has_faults = true;
        self.apply(change, Some(begun), ended)
    }

    /// Makes those that come before the commands begin.
    pub(in super::super) fn begin_as(&mut self, change: Change) -> Result<(), Error> {
        self.apply(change, None, None)
    }

    /// The same. `begun`: when the commands began (ns), if they have.
    fn apply(
        &mut self,
        change: Change,
        begun: Option<Nanos>,
        ended: Option<usize>,
    ) -> Result<(), Error> {
        let now = self.timeline.clock.now_ns();
        let Change { seed, virtual_limit, machines, commands, .. } = change;
        let Change { shared, schedules, triggers, network_faults, known, .. } = change;
        if let Some(limit) = virtual_limit {
            self.virtual_limit = limit;
        }
        if let Some(triggers) = triggers {
            for machine in &mut self.machines {
                if triggers.iter().any(|trigger| trigger.listens_to(machine.number)) {
                    machine.channel.listen();
                }
            }
            self.timeline.triggers.change(triggers, CHANGE)?;
        }
        self.timeline.networks.change(seed, network_faults);
        for (drive, change) in self.shared.iter().zip(shared) {
            drive.change(now, |control| change.make(control, now))?;
        }
        for (drive, schedule) in self.shared.iter().zip(schedules) {
            if let Some((was, to)) = schedule {
                drive.reschedule(now, &was, &to);
            }
        }
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
            if is_commanded && !machine.failures.is_off() {
                let is_end = ended == Some(branch.machine);
                self.branch_off(branch, is_end)?;
            }
        }
        Ok(())
    }
}

/// A fault that lies before the moment: its kind, and when it begins (ns).
type Early = (&'static str, Nanos);

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
                self.drives.iter_mut().for_each(|drive| drive.make_replaceable());
                self.channel.make_restartable();
            }
            let failure = self.failures.change(faults.failures, known, now);
            let pause = self.pauses.change(faults.pauses, known, now);
            let order = self.orders.change(faults.orders, known, now);
            early = failure.map(|failure| ("a failure", failure.at));
            early = early.or(pause.map(|pause| ("a pause", pause.begin)));
            early = early.or(order.map(|(_, begin)| ("a fault in the guest", begin)));
        }
        for (index, mut change) in change.drives.into_iter().enumerate() {
            for (path, faults) in change.paths.take().into_iter().flatten().enumerate() {
                let begun =
                    begun.ok_or(Error::Internal("a path changes before its guest has it"))?;
                let fault = self.path_faults.change((index, path), &faults, known, (begun, now));
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

impl DriveChange {
    /// Makes the changes of a drive's model, and of faults that a layer brings about already.
    fn make(self, control: &mut dyn Control, now: Nanos) -> Result<(), Error> {
        let Self { seed, model, faults, .. } = self;
        if let Some(seed) = seed {
            control.reseed(seed);
        }
        let made = match model {
            None => true,
            Some(ModelChange::Adapts(parameters)) => control.adapt(now, &*parameters),
            Some(ModelChange::Replaces(model)) => control.set_model(now, model),
        };
        let had = faults.is_none_or(|(faults, seed)| {
            // Its layer knows when the commands began.
            control.set_faults(FaultChange { faults, seed, begun: None }).is_ok()
        });
        match made && had {
            true => Ok(()),
            // The plan of the changes has looked before.
            false => Err(Error::Internal("a drive that cannot change was asked to")),
        }
    }
}
