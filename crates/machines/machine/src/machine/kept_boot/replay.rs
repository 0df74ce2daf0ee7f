//! The beginning of a boot that is replayed, or why it is not.

use std::sync::Arc;

use super::super::common::Common;
use super::super::vm::Machine;
use super::accesses::{Access, Accesses};
use super::{First, Recording, Replay, BUS, ENGINE, FREQUENCY, PANICS, PATHS, PAUSES, WATCHED};
use crate::error::Error;

impl Machine {
    /// Begins to replay the first boot, on devices that have been reset, at the time of the first
    /// processor.
    ///
    /// Returns false where the guest has to boot: the devices are to be reset once more then.
    pub(in super::super) fn replay_boot(&mut self, common: &mut Common) -> Result<bool, Error> {
        let begun = self.begin_replay(common)?;
        let outcome = &mut self.kept_boot.outcome;
        match begun {
            Ok(()) => outcome.kept += 1,
            Err(reason) => {
                outcome.whole += 1;
                outcome.reason = Some(reason.into());
            }
        }
        Ok(begun.is_ok())
    }

    /// Begins with the first boot, which has been made before the run. Returns false where the guest has to
    /// boot: the devices are to be reset then, and the memory cleared.
    pub(in super::super) fn begin_made(&mut self, common: &mut Common) -> Result<bool, Error> {
        let begun = self.begin_replay(common)?;
        if begun.is_err() {
            self.kept_boot.first = match self.kept_boot.later {
                Ok(()) => First::Recorded(Recording::default()),
                Err(reason) => First::Unfit(reason),
            };
        }
        Ok(begun.is_ok())
    }

    fn begin_replay(&mut self, common: &mut Common) -> Result<Result<(), &'static str>, Error> {
        let reason = match &self.kept_boot.first {
            First::Unfit(reason) => Some(*reason),
            // The machine has failed before its first boot was over.
            First::Recorded(_) => Some(ENGINE),
            First::Kept(..) => self.reason_to_boot(common),
        };
        if let Some(reason) = reason {
            return Ok(Err(reason));
        }
        let First::Kept(greeting, _) = &self.kept_boot.first else { return Ok(Err(ENGINE)) };
        let greeting = Arc::clone(greeting);
        if !self.access_again(common, &greeting.accesses)? {
            return Ok(Err(BUS));
        }
        self.kept_boot.replay = Some(Replay { halts: 0 });
        Ok(Ok(()))
    }

    /// Returns the reason for which the guest has to boot, if there is one.
    fn reason_to_boot(&self, common: &Common) -> Option<&'static str> {
        let reasons = [
            (!common.clock.scale().is_whole(), FREQUENCY),
            (common.is_observed || common.view.keeps_ios(), WATCHED),
            (self.faults.paths.any(), PATHS),
            (self.faults.pauses.any(), PAUSES),
            (self.faults.failures.can_panic(), PANICS),
        ];
        reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
    }

    /// Makes the accesses of the first boot again. Returns whether all reads gave the values of the
    /// first boot.
    fn access_again(&mut self, common: &mut Common, accesses: &Accesses) -> Result<bool, Error> {
        for access in accesses.iter() {
            match access {
                Access::PortWrite(port, bytes) => self.write_port(common, *port, bytes.get())?,
                Access::PortRead(port, bytes) => {
                    let mut found = [0; 8];
                    let found = &mut found[..bytes.get().len()];
                    self.read_port(*port, found);
                    if *found != *bytes.get() {
                        return Ok(false);
                    }
                }
                Access::IoApicWrite(offset, bytes) => {
                    self.chipset.write_io_apic(*offset, bytes.get());
                }
            }
        }
        Ok(true)
    }
}
