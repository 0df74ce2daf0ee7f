//! A machine as its agent greets: kept after the first boot, and brought back.

use super::super::common::Common;
use super::super::vm::Machine;
use super::pages::Pages;
use super::{First, Greeting, Recording, ENGINE, GREETING, INTERRUPTED, MEMORY};
use crate::error::Error;
use crate::exit::Exit;

impl Machine {
    /// Keeps the first boot, as the agent greets for the first time by `exit`.
    pub(in super::super) fn keep_boot(&mut self, exit: &Exit) {
        let First::Recorded(recording) =
            std::mem::replace(&mut self.kept_boot.first, First::Unfit(ENGINE))
        else {
            return;
        };
        self.kept_boot.first = match self.greeting(recording, exit) {
            Ok(greeting) => First::Kept(Box::new(greeting)),
            Err(reason) => First::Unfit(reason),
        };
    }

    fn greeting(&mut self, recording: Recording, exit: &Exit) -> Result<Greeting, &'static str> {
        let Recording { accesses, halts, unfit } = recording;
        if let Some(reason) = unfit {
            return Err(reason);
        }
        if !self.know_written() {
            return Err(ENGINE);
        }
        let processor = &self.processors[0];
        let (at, apic, eoi) =
            (processor.time - self.origin, processor.apic.clone(), processor.eoi.clone());
        if apic.pending().is_some() {
            return Err(INTERRUPTED);
        }
        let vcpu = self.vcpus[0].keep().ok_or(INTERRUPTED)?;
        let memory = Pages::of(&mut self.memory).map_err(|_| MEMORY)?;
        let mut mailbox = vec![0; GREETING];
        self.channel.mailbox().read(0, &mut mailbox).map_err(|_| ENGINE)?;
        Ok(Greeting { at, halts, accesses, memory, vcpu, apic, eoi, mailbox, exit: exit.clone() })
    }

    /// Forgets all memory, before a boot.
    pub(in super::super) fn lose_memory(&mut self) {
        let all = !self.know_written();
        self.note_kept();
        self.memory.lose(all);
        // The content of the first boot is there no longer.
        self.note_kept();
    }

    /// The content of the first boot counts as written, if it is kept.
    fn note_kept(&mut self) {
        if let First::Kept(greeting) = &self.kept_boot.first {
            greeting.memory.note_written(&mut self.memory);
        }
    }

    /// Asks the engine what the guest has written; false where it does not know.
    pub(in super::super) fn know_written(&mut self) -> bool {
        let memory = &self.memory;
        self.vcpus[0].take_written(&mut |address, length| memory.note_written(address, length))
    }

    /// Brings memory and processor into the state in which the agent greets. Returns the exit by which it
    /// does.
    pub(in super::super) fn bring_greeting_back(
        &mut self,
        common: &Common,
        index: usize,
    ) -> Result<Exit, Error> {
        self.kept_boot.replay = None;
        self.know_written();
        let First::Kept(greeting) = &mut self.kept_boot.first else {
            return Err(Error::Internal("no boot is kept"));
        };
        greeting.memory.bring_back(&mut self.memory);
        self.vcpus[index].go_on_from(&greeting.vcpu);
        let processor = &mut self.processors[index];
        processor.apic = greeting.apic.later(self.origin, common.clock.scale().to_ns(self.origin));
        processor.eoi.clone_from(&greeting.eoi);
        let written = self.channel.mailbox().write(0, &greeting.mailbox);
        written.map_err(|_| Error::Internal("the mailbox is too small"))?;
        Ok(greeting.exit.clone())
    }
}
