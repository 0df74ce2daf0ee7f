//! A machine's own boot, kept: when the machine comes back, it goes on from there.
//!
//! Until a guest's agent greets, a boot depends on nothing but the machine: no driver of a drive or a
//! network is loaded, the TSC begins at zero, and the date is fixed. So each boot takes the same time,
//! and ends with the same memory and the same processor. The first one is recorded: when the processor
//! halted and went on, the accesses to PCI and to the devices that every machine has, and what there
//! is when the agent greets. At a later boot the processor is busy and halts as it did then, without
//! being entered, and at the greeting's time it has the state that it had. Everything after that is
//! executed: the drives are as they are left. A first boot that was made before the run
//! ([`super::first_boot`]) is begun from in the same way. Owns the first boot, and the place in a later one.
//!
//! Promise: the results are those of a boot. Where they might not be, the guest boots, and the reason is in
//! `summary.json` ([`WHOLE`] and the others).

mod accesses;
mod greeting;
mod pages;
mod replay;

use std::sync::Arc;

use stasis_bare::svm::KeptVcpu;
use stasis_run_events::RestartOutcome;

use crate::apic::Apic;
use crate::exit::Exit;
use crate::pveoi::PvEoi;
use accesses::Accesses;
use pages::Pages;

pub(super) use accesses::{Access, Bytes};

/// Limit on the times at which a processor halts while it boots: Linux 6.1 halts some 20 times.
const MAX_HALTS: usize = 1 << 12;

/// Bytes of the mailbox with the agent's greeting: a header, and a version.
const GREETING: usize = 64;

/// Reasons for which a guest boots again.
const ONCE: &str = "it was to boot once";
const WHOLE: &str = "the experiment asks for it (boots-again)";
const SEVERAL: &str = "a machine of the run has several processors";
const ENGINE: &str = "the engine keeps no processor's state";
const FREQUENCY: &str = "the processors' frequency is no whole number of GHz";
const DRIVES: &str = "its kernel reaches for drives or networks before the agent greets";
const CONSOLE: &str = "its kernel writes to the console while it boots";
const LONG: &str = "its boot has too many accesses to devices or halts too often";
const INTERRUPTED: &str = "an interrupt was on its way as the agent greeted";
const MEMORY: &str = "the software host has too little memory for a copy of the guest's";
const WATCHED: &str =
    "the run is observed: by a debugger, samples, snapshots, or the time of I/Os in the guest";
const PATHS: &str = "paths to its drives have faults";
const PAUSES: &str = "its processors stand still now and then";
const PANICS: &str = "its kernel is to panic, and might while it boots";
const SILENT: &str = "its agent has not greeted";
const BUS: &str = "its devices are not those of its first boot";

/// A machine's boots: the first one, and how later ones are made.
pub(super) struct KeptBoot {
    first: First,
    /// The first boot's use once this has begun from it; the reason if there is none.
    later: Result<(), &'static str>,
    hides: bool,
    /// True if the machine comes to its agent's greeting and no further.
    ends: bool,
    replay: Option<Replay>,
    /// Later boots that were replayed, and those that were not, with why the last of these was not.
    outcome: RestartOutcome,
}

/// The first boot.
enum First {
    /// On its way.
    Recorded(Recording),
    /// Its state as its agent greets, and the memory's content; None while the memory itself has it.
    Kept(Arc<Greeting>, Option<Pages>),
    /// No use to later ones, for this reason.
    Unfit(&'static str),
}

#[derive(Default)]
struct Recording {
    accesses: Accesses,
    halts: Halts,
    unfit: Option<&'static str>,
}

/// Times at which a processor halted and went on (ticks since the boot's beginning).
#[derive(Debug, Default)]
struct Halts(Vec<(u64, u64)>);

/// A machine as its agent greets.
pub(super) struct Greeting {
    /// Time since the boot's beginning (ticks).
    at: u64,
    halts: Halts,
    accesses: Accesses,
    vcpu: KeptVcpu,
    apic: Apic,
    eoi: PvEoi,
    mailbox: Vec<u8>,
    /// The exit by which it greets.
    exit: Exit,
}

/// A boot that is replayed.
struct Replay {
    /// Number of halts that are past.
    halts: usize,
}

impl KeptBoot {
    /// For a machine whose guest boots once.
    pub(super) fn none() -> Self {
        Self { hides: false, ..Self::with(First::Unfit(ONCE)) }
    }

    /// For a machine whose paths to drives come and go: its kernel needs their slots from the start.
    pub(super) fn with_paths() -> Self {
        Self { hides: false, ..Self::with(First::Unfit(PATHS)) }
    }

    /// For a machine whose guest boots again as the experiment asks.
    pub(super) fn unwanted() -> Self {
        Self::with(First::Unfit(WHOLE))
    }

    /// For a machine that can come back.
    pub(super) fn recorded() -> Self {
        Self::with(First::Recorded(Recording::default()))
    }

    /// For a machine in a run with machines of several processors: these see when others run.
    pub(super) fn among_several() -> Self {
        Self::with(First::Unfit(SEVERAL))
    }

    /// For a machine whose drives are hidden until the agent greets, as if its first boot had been made.
    pub(super) fn hidden() -> Self {
        Self::with(First::Unfit(ONCE))
    }

    /// For a machine that makes a first boot for later runs.
    pub(super) fn of_later_runs() -> Self {
        Self { ends: true, ..Self::recorded() }
    }

    /// For a machine whose first boot has been made; `self` is what it would be otherwise.
    pub(super) fn begun_from(self, greeting: Arc<Greeting>) -> Self {
        let later = match self.first {
            First::Unfit(reason) => Err(reason),
            First::Recorded(_) | First::Kept(..) => Ok(()),
        };
        Self { first: First::Kept(greeting, None), later, ..self }
    }

    fn with(first: First) -> Self {
        let outcome = RestartOutcome::default();
        Self { first, later: Ok(()), hides: true, ends: false, replay: None, outcome }
    }

    /// Returns whether the machine comes to its agent's greeting and no further.
    pub(super) fn ends_at_greeting(&self) -> bool {
        self.ends
    }

    /// Returns whether the first boot has been made before the run.
    pub(super) fn is_made(&self) -> bool {
        matches!(self.first, First::Kept(_, None))
    }

    /// Takes the first boot.
    ///
    /// # Errors
    /// The reason for which it is of no use.
    pub(super) fn take_greeting(&mut self) -> Result<Arc<Greeting>, &'static str> {
        match std::mem::replace(&mut self.first, First::Unfit(ENGINE)) {
            First::Kept(greeting, _) => Ok(greeting),
            First::Unfit(reason) => Err(reason),
            First::Recorded(_) => Err(SILENT),
        }
    }

    /// Returns whether drives and ports are hidden until the agent greets, so that a kernel's own driver
    /// does not reach for them: in every boot of a machine that comes back, however it boots, and where a
    /// first boot serves runs with other drives.
    pub(super) fn hides_drives(&self) -> bool {
        self.hides
    }

    /// Returns how later boots were made, if there were any.
    pub(super) fn outcome(&self) -> &RestartOutcome {
        &self.outcome
    }

    fn recording(&mut self) -> Option<&mut Recording> {
        match &mut self.first {
            First::Recorded(recording) => Some(recording),
            _ => None,
        }
    }

    /// Returns whether the first boot has not come to the agent's greeting yet.
    pub(super) fn is_recorded(&self) -> bool {
        matches!(self.first, First::Recorded(_))
    }

    /// The guest has accessed a device that every machine has.
    #[inline]
    pub(super) fn accessed(&mut self, access: impl FnOnce() -> Access) {
        if let Some(recording) = self.recording() {
            if !recording.accesses.add(access()) {
                recording.unfit = Some(LONG);
            }
        }
    }

    /// The guest has accessed a drive or a network.
    #[inline]
    pub(super) fn accessed_drive(&mut self) {
        if let Some(recording) = self.recording() {
            recording.unfit = Some(DRIVES);
        }
    }

    /// The guest's kernel has written a line to its console.
    pub(super) fn wrote_line(&mut self) {
        if let Some(recording) = self.recording() {
            recording.unfit = Some(CONSOLE);
        }
    }

    /// The processor has halted at `from`.
    pub(super) fn halted(&mut self, from: u64) {
        if let Some(recording) = self.recording() {
            match recording.halts.0.len() < MAX_HALTS {
                true => recording.halts.0.push((from, from)),
                false => recording.unfit = Some(LONG),
            }
        }
    }

    /// The processor, which had halted, goes on at `to`.
    pub(super) fn went_on(&mut self, to: u64) {
        if let Some((_, end)) = self.recording().and_then(|recording| recording.halts.0.last_mut())
        {
            *end = to;
        }
    }

    /// The machine is off: it does not boot any more.
    pub(super) fn end_replay(&mut self) {
        self.replay = None;
    }

    /// Returns whether a boot is replayed.
    pub(super) fn is_replayed(&self) -> bool {
        self.replay.is_some()
    }

    /// Returns the time at which the processor, which has halted in a replayed boot, goes on (ticks since
    /// the boot's beginning).
    pub(super) fn goes_on(&self) -> Option<u64> {
        let (First::Kept(greeting, _), Some(replay)) = (&self.first, &self.replay) else {
            return None;
        };
        Some(greeting.halts.0.get(replay.halts.checked_sub(1)?)?.1)
    }

    /// The processor has halted in a replayed boot.
    pub(super) fn pass_halt(&mut self) {
        if let Some(replay) = &mut self.replay {
            replay.halts += 1;
        }
    }

    /// Returns the time at which the processor, which is busy in a replayed boot, halts or its agent greets
    /// (ticks since the boot's beginning), and which of both it does.
    pub(super) fn next_stop(&self) -> Option<(u64, Stop)> {
        let (First::Kept(greeting, _), Some(replay)) = (&self.first, &self.replay) else {
            return None;
        };
        let halt = greeting.halts.0.get(replay.halts).map(|(from, _)| (*from, Stop::Halt));
        Some(halt.unwrap_or((greeting.at, Stop::Greets)))
    }
}

/// An event of a boot that is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The processor halts.
    Halt,
    /// The agent greets.
    Greets,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_touches_a_drive_is_of_no_use() {
        for (touch, reason) in [
            (KeptBoot::accessed_drive as fn(&mut KeptBoot), DRIVES),
            (KeptBoot::wrote_line, CONSOLE),
        ] {
            let mut boot = KeptBoot::recorded();
            assert!(boot.is_recorded() && boot.next_stop().is_none());
            touch(&mut boot);
            assert_eq!(boot.recording().and_then(|recording| recording.unfit), Some(reason));
        }
        let mut none = KeptBoot::none();
        none.accessed_drive();
        assert!(!none.is_recorded());
    }

    #[test]
    fn halts_are_limited() {
        let mut boot = KeptBoot::recorded();
        for at in 0..MAX_HALTS as u64 {
            boot.halted(10 * at);
            boot.went_on(10 * at + 5);
        }
        let recording = boot.recording().unwrap();
        assert_eq!((recording.halts.0.last(), recording.unfit), (Some(&(40_950, 40_955)), None));
        boot.halted(50_000);
        assert_eq!(boot.recording().unwrap().unfit, Some(LONG));
    }
}
