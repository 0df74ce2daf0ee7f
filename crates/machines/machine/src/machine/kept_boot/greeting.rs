//! A machine as its agent greets: kept after the first boot, and brought back.

use std::sync::Arc;

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
            Ok((greeting, pages)) => First::Kept(Arc::new(greeting), pages),
            Err(reason) => First::Unfit(reason),
        };
    }

    fn greeting(
        &mut self,
        recording: Recording,
        exit: &Exit,
    ) -> Result<(Greeting, Option<Pages>), &'static str> {
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
        let pages = match self.kept_boot.ends_at_greeting() {
            true => None,
            false => Some(Pages::of(&mut self.memory).map_err(|_| MEMORY)?),
        };
        let mut mailbox = vec![0; GREETING];
        self.channel.mailbox().read(0, &mut mailbox).map_err(|_| ENGINE)?;
        let exit = exit.clone();
        Ok((Greeting { at, halts, accesses, vcpu, apic, eoi, mailbox, exit }, pages))
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
        if let First::Kept(_, Some(pages)) = &self.kept_boot.first {
            pages.note_written(&mut self.memory);
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
        let First::Kept(greeting, pages) = &mut self.kept_boot.first else {
            return Err(Error::Internal("no boot is kept"));
        };
        match pages {
            Some(pages) => pages.bring_back(&mut self.memory),
            // It is there, and kept now where the machine may come back.
            None if self.kept_boot.later.is_ok() => {
                *pages = Some(Pages::of(&mut self.memory).map_err(|_| Error::Unfit(MEMORY))?);
            }
            None => {}
        }
        self.vcpus[index].go_on_from(&greeting.vcpu);
        let processor = &mut self.processors[index];
        processor.apic = greeting.apic.later(self.origin, common.clock.scale().to_ns(self.origin));
        processor.eoi.clone_from(&greeting.eoi);
        let written = self.channel.mailbox().write(0, &greeting.mailbox);
        written.map_err(|_| Error::Internal("the mailbox is too small"))?;
        let exit = greeting.exit.clone();
        if let Err(reason) = self.kept_boot.later {
            self.kept_boot.first = First::Unfit(reason);
        }
        Ok(exit)
    }
}
