//! A run's end, and its report.

use stasis_run_events::{Ending, MachineOutcome, Outcome, RunEvent};

use super::run::Run;
use super::vm::Machine;
use crate::error::Error;
use crate::vcpu::{ProcessorState, Registers};

impl Run<'_> {
    pub(super) fn outcome(mut self, ending: Ending) -> Result<Outcome, Error> {
        let frozen = self.frozen();
        self.timeline.statistics.finish(&self.timeline.clock, frozen);
        let mut lost_spans = 0;
        if let Some(watch) = &mut self.timeline.watch {
            watch.finish(self.timeline.clock.now());
            let drives = self.machines.iter_mut().flat_map(|machine| &mut machine.drives);
            drives.for_each(|drive| drive.control().take_spans(&mut watch.spans));
            lost_spans = watch.spans.lost();
        }
        self.timeline.flush_records()?;
        // The last event of the drives: the effects of their end are not a guest's.
        self.timeline.emit(RunEvent::Progress(self.timeline.clock.now_ns()))?;
        use Ending::{Hung, Panicked, VirtualLimit, WallLimit};
        if matches!(ending, Hung | Panicked | VirtualLimit | WallLimit) {
            self.show_processors()?;
        }
        for machine in &mut self.machines {
            let rest = machine.serial.rest();
            if !rest.is_empty() {
                self.timeline.emit_from(machine.number, RunEvent::Console(rest))?;
            }
        }
        for machine in &mut self.machines {
            let root = machine.drives.get_mut(machine.own);
            if let Some(error) = root.and_then(|root| root.control().take_error()) {
                let text = format!("the root: {}\n", error.cause());
                self.timeline.emit_from(machine.number, RunEvent::Console(text.into_bytes()))?;
            }
        }
        let drives =
            self.machines.iter_mut().flat_map(|machine| &mut machine.drives[..machine.own]);
        let states: Vec<_> = drives.map(|drive| drive.kept_state()).collect();
        let now = self.timeline.clock.now_ns();
        let drives =
            self.machines.iter_mut().flat_map(|machine| &mut machine.drives[..machine.own]);
        let inside = drives.map(|drive| drive.control().inside(now)).collect();
        let drives =
            self.machines.iter_mut().flat_map(|machine| &mut machine.drives[..machine.own]);
        let models: Vec<_> = drives.map(|drive| drive.control().shut_down(now)).collect();
        let states = serde_json::to_vec(&(states, models)).expect("states are plain data");
        self.timeline.emit(RunEvent::DriveStates(states))?;
        let (clock, processors) = (&self.timeline.clock, &self.processors);
        let mut outcome =
            self.timeline.statistics.outcome(ending, clock, frozen, inside, processors);
        outcome.lost_spans = lost_spans;
        outcome.networks = self.timeline.networks.outcome();
        let restarts = self.machines.iter().map(|machine| machine.kept_boot.outcome().clone());
        outcome.restarts = restarts.collect();
        if self.machines.len() > 1 {
            let outcome_of = |machine: &Machine| MachineOutcome {
                name: machine.name.clone(),
                ending: machine.ending.clone(),
                started_ns: machine.started,
                refused_help: machine.refused_help,
                refused_calls: machine.channel.refused(),
                virtual_ns: machine.started.map(|started| machine.ended.unwrap_or(now) - started),
            };
            outcome.machines = self.machines.iter().map(outcome_of).collect();
        }
        let drives =
            self.machines.iter_mut().flat_map(|machine| &mut machine.drives[..machine.own]);
        outcome.medium_errors =
            drives.map(|drive| drive.control().take_error().map(|error| error.cause())).collect();
        outcome.shared = match self.shares.is_empty() {
            true => self.shared.iter().map(|shared| shared.report(now)).collect(),
            false => self.shares,
        };
        Ok(outcome)
    }

    // Shows the place of each processor: for the user who asks why a guest makes no progress.
    fn show_processors(&mut self) -> Result<(), Error> {
        for machine in self.machines.iter_mut().filter(|machine| !machine.finished) {
            let mut text = String::new();
            for (index, vcpu) in machine.vcpus.iter_mut().enumerate() {
                let Registers { rip, rsp, rflags, cr2 } = vcpu.registers()?;
                let state: ProcessorState = machine.processors[index].state;
                text += &format!(
                    "vCPU {index}: {state:?}, rip {rip:#x}, rsp {rsp:#x}, rflags {rflags:#x}, cr2 {cr2:#x}\n"
                );
            }
            self.timeline.emit_from(machine.number, RunEvent::Console(text.into_bytes()))?;
        }
        Ok(())
    }
}
