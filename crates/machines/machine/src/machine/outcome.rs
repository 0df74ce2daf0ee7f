//! A run's end, and its report, which is taken from every part that has figures. Owns none itself.

use stasis_run_events::{Ending, MachineOutcome, Outcome, RunEvent};

use super::run::Run;
use super::vm::Machine;
use crate::error::Error;
use crate::vcpu::{ProcessorState, Registers};

impl Run<'_> {
    pub(super) fn outcome(mut self, ending: Ending) -> Result<Outcome, Error> {
        let frozen = self.frozen();
        self.common.statistics.finish(&self.common.clock, frozen);
        let mut lost_spans = 0;
        if let Some(watch) = &mut self.common.watch {
            watch.finish(self.common.clock.now());
            let drives = self.machines.iter_mut().flat_map(|machine| machine.drives.controls());
            drives.for_each(|drive| drive.take_spans(&mut watch.spans));
            lost_spans = watch.spans.lost();
        }
        self.common.flush_records()?;
        // The last event of the drives: the effects of their end are not a guest's.
        self.common.stream.emit(RunEvent::Progress(self.common.clock.now_ns()))?;
        use Ending::{Hung, Panicked, VirtualLimit, WallLimit};
        if matches!(ending, Hung | Panicked | VirtualLimit | WallLimit) {
            self.show_processors()?;
        }
        for machine in &mut self.machines {
            let rest = machine.chipset.rest_of_console();
            if !rest.is_empty() {
                self.common.stream.emit_from(machine.number, RunEvent::Console(rest))?;
            }
        }
        for machine in &mut self.machines {
            let root = machine.drives.root_mut();
            if let Some(error) = root.and_then(|root| root.control().take_error()) {
                let text = format!("the root: {}\n", error.cause());
                self.common
                    .stream
                    .emit_from(machine.number, RunEvent::Console(text.into_bytes()))?;
            }
        }
        let drives = self.machines.iter_mut().flat_map(|machine| machine.drives.own_mut());
        let states: Vec<_> = drives.map(|drive| drive.kept_state()).collect();
        let now = self.common.clock.now_ns();
        let drives = self.machines.iter_mut().flat_map(|machine| machine.drives.own_mut());
        let inside = drives.map(|drive| drive.control().inside(now)).collect();
        let drives = self.machines.iter_mut().flat_map(|machine| machine.drives.own_mut());
        let models: Vec<_> = drives.map(|drive| drive.control().shut_down(now)).collect();
        let states = serde_json::to_vec(&(states, models)).expect("states are plain data");
        self.common.stream.emit(RunEvent::DriveStates(states))?;
        let (clock, processors) = (&self.common.clock, &self.processors);
        let mut outcome = self.common.statistics.outcome(ending, clock, frozen, inside, processors);
        outcome.lost_spans = lost_spans;
        outcome.networks = self.common.networks.outcome();
        let restarts = self.machines.iter().map(|machine| machine.kept_boot.outcome().clone());
        outcome.restarts = restarts.collect();
        let returns = self.machines.iter().map(|machine| machine.progress.returns().to_vec());
        outcome.returns = returns.collect();
        if self.machines.len() > 1 {
            let outcome_of = |machine: &Machine| MachineOutcome {
                name: machine.name.clone(),
                ending: machine.progress.ending().cloned(),
                started_ns: machine.progress.started(),
                refused_help: machine.help.refused(),
                refused_calls: machine.channel.refused(),
                virtual_ns: machine.progress.took(now),
            };
            outcome.machines = self.machines.iter().map(outcome_of).collect();
        }
        let drives = self.machines.iter_mut().flat_map(|machine| machine.drives.own_mut());
        outcome.cut_ios = drives.map(|drive| drive.cut()).collect();
        let drives = self.machines.iter_mut().flat_map(|machine| machine.drives.own_mut());
        outcome.medium_errors =
            drives.map(|drive| drive.control().take_error().map(|error| error.cause())).collect();
        outcome.shared = self.shared.outcome(now);
        Ok(outcome)
    }

    // Shows the place of each processor: for the user who asks why a guest makes no progress.
    fn show_processors(&mut self) -> Result<(), Error> {
        for machine in self.machines.iter_mut().filter(|machine| !machine.progress.is_finished()) {
            let mut text = String::new();
            for (index, vcpu) in machine.vcpus.iter_mut().enumerate() {
                let Registers { rip, rsp, rflags, cr2 } = vcpu.registers()?;
                let state: ProcessorState = machine.processors[index].state;
                text += &format!(
                    "vCPU {index}: {state:?}, rip {rip:#x}, rsp {rsp:#x}, rflags {rflags:#x}, cr2 {cr2:#x}\n"
                );
            }
            self.common.stream.emit_from(machine.number, RunEvent::Console(text.into_bytes()))?;
        }
        Ok(())
    }
}
