//! A drive in real time as a layer: commands in, completions out.

use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;
use stasis_block::{
    BlockLayout, Command, Fate, Health, Operation, Request, Status, VendorCommand, VendorError,
};
use stasis_drive::{Control, Done, Layer, Properties};
use stasis_media::MediumError;

use super::RealTime;

impl Layer for RealTime {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn in_flight(&self) -> usize {
        self.join.in_flight() + self.ready.len()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        if request.command.operation == Operation::Barrier {
            let slot = self.join.submit_without_medium(now, request);
            self.ready.extend(self.join.complete(slot, now, Fate::failed(Status::WriteError)));
            return;
        }
        let command = self.layout.of_data(&request.command);
        let slot = self.join.submit(now, request);
        if let Some(model) = &mut self.model {
            let now = now.max(self.reached);
            if model.next_event().is_some_and(|at| at <= now) {
                model.advance(now, &mut self.completions);
            }
            model.submit(now, slot, &command);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|done| done.at);
        let held = self.completions.first().map(|completion| completion.at);
        let model = self.model.as_ref().and_then(|model| model.next_event());
        // I/Os that the medium has not begun begin when it is polled: at once.
        let medium = self.join.medium().needs_poll().then_some(0);
        [ready, held, model, medium].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.turn(now);
        done.extend(self.ready.drain(..));
    }

    /// Waits for the medium.
    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        if command.operation == Operation::Barrier {
            return (Status::WriteError, data);
        }
        let outcome = self.join.instant(command, data);
        // Commands that the medium has done meanwhile.
        for (slot, submit) in self.join.settled() {
            self.try_finish(submit, slot);
        }
        outcome
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

// A server reports no spans of its drives.
impl Control for RealTime {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        None
    }

    fn health(&mut self) -> Health {
        self.model.as_ref().map(|model| model.health()).unwrap_or_default()
    }

    fn set_layout(&mut self, layout: &BlockLayout) {
        self.layout.clone_from(layout);
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        match &mut self.model {
            Some(model) => {
                let now = now.max(self.reached);
                model.advance(now, &mut self.completions);
                model.vendor(now, command)
            }
            None => Err(VendorError::Opcode),
        }
    }

    fn start(&mut self, now: Nanos) {
        if let Some(model) = &mut self.model {
            model.start(now);
        }
    }

    fn inside(&mut self, now: Nanos) -> Option<Inside> {
        self.model.as_ref().and_then(|model| model.inside(now))
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.join.take_error()
    }
}
