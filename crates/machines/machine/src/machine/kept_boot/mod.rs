//! A machine's own boot, kept: when the machine comes back, it goes on from there.
//!
//! Until a guest's agent greets, a boot depends on nothing but the machine: no driver of a drive or a
//! network is loaded, the TSC begins at zero, and the date is fixed. So each boot takes the same time,
//! and ends with the same memory and the same processor. The first one is recorded: when the processor
//! halted and went on, the accesses to PCI and to the devices that every machine has, and what there
//! is when the agent greets. At a later boot the processor is busy and halts as it did then, without
//! being entered, and at the greeting's time it has the state that it had. Everything after that is
//! executed: the drives are as they are left.
//!
//! Promise: the results are those of a boot. Where they might not be, the guest boots, and the reason is in
//! `summary.json` ([`WHOLE`] and the others).

mod accesses;
mod pages;

use stasis_bare::svm::KeptVcpu;
use stasis_run_events::RestartOutcome;

use super::slice::Slice;
use super::timeline::Timeline;
use super::vm::{After, Machine};
use crate::apic::Apic;
use crate::error::Error;
use crate::exit::Exit;
use crate::pveoi::PvEoi;
use crate::vcpu::{ProcessorState, MAX_SLICE};
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
const BUS: &str = "its devices are not those of its first boot";

/// A machine's boots: the first one, and how later ones are made.
pub(super) struct KeptBoot {
    first: First,
    hides: bool,
    replay: Option<Replay>,
    /// Later boots that were replayed, and those that were not, with why the last of these was not.
    outcome: RestartOutcome,
}

/// The first boot.
enum First {
    /// On its way.
    Recorded(Recording),
    Kept(Box<Greeting>),
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
struct Greeting {
    /// Time since the boot's beginning (ticks).
    at: u64,
    halts: Halts,
    accesses: Accesses,
    memory: Pages,
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

    fn with(first: First) -> Self {
        Self { first, hides: true, replay: None, outcome: RestartOutcome::default() }
    }

    /// Returns whether drives and ports are hidden until the agent greets, so that a kernel's own driver
    /// does not reach for them: in every boot of a machine that comes back, however it boots.
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
        let (First::Kept(greeting), Some(replay)) = (&self.first, &self.replay) else {
            return None;
        };
        Some(greeting.halts.0.get(replay.halts.checked_sub(1)?)?.1)
    }

    /// Returns the time at which the processor, which is busy in a replayed boot, halts or its agent greets
    /// (ticks since the boot's beginning), and which of both it does.
    fn next_stop(&self) -> Option<(u64, Stop)> {
        let (First::Kept(greeting), Some(replay)) = (&self.first, &self.replay) else {
            return None;
        };
        let halt = greeting.halts.0.get(replay.halts).map(|(from, _)| (*from, Stop::Halt));
        Some(halt.unwrap_or((greeting.at, Stop::Greets)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Halt,
    Greets,
}

impl Machine {
    /// Keeps the first boot, as the agent greets for the first time by `exit`.
    pub(super) fn keep_boot(&mut self, exit: &Exit) {
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
    pub(super) fn lose_memory(&mut self) {
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
    pub(super) fn know_written(&mut self) -> bool {
        let memory = &self.memory;
        self.vcpus[0].take_written(&mut |address, length| memory.note_written(address, length))
    }

    /// Returns the time at which the processor, which has halted in a replayed boot, goes on (ticks).
    #[inline]
    pub(super) fn replay_goes_on(&self) -> Option<u64> {
        let is_halted =
            self.kept_boot.is_replayed() && self.processors[0].state == ProcessorState::Halted;
        Some(self.origin + is_halted.then(|| self.kept_boot.goes_on()).flatten()?)
    }

    /// Begins to replay the first boot, on devices that have been reset, at the time of the first
    /// processor.
    ///
    /// Returns false where the guest has to boot: the devices are to be reset once more then.
    pub(super) fn replay_boot(&mut self, timeline: &mut Timeline) -> Result<bool, Error> {
        let begun = self.begin_replay(timeline)?;
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

    fn begin_replay(&mut self, timeline: &mut Timeline) -> Result<Result<(), &'static str>, Error> {
        let accesses = match &mut self.kept_boot.first {
            First::Unfit(reason) => return Ok(Err(reason)),
            // The machine has failed before its first boot was over.
            First::Recorded(_) => return Ok(Err(ENGINE)),
            First::Kept(greeting) => std::mem::take(&mut greeting.accesses),
        };
        let reason = self.reason_to_boot(timeline);
        let same = match reason {
            Some(_) => Ok(false),
            None => self.access_again(timeline, &accesses),
        };
        if let First::Kept(greeting) = &mut self.kept_boot.first {
            greeting.accesses = accesses;
        }
        let same = same?;
        if let Some(reason) = reason {
            return Ok(Err(reason));
        }
        if !same {
            return Ok(Err(BUS));
        }
        self.kept_boot.replay = Some(Replay { halts: 0 });
        Ok(Ok(()))
    }

    /// The reason for which the guest has to boot, if there is one.
    fn reason_to_boot(&self, timeline: &Timeline) -> Option<&'static str> {
        let reasons = [
            (!timeline.clock.scale().is_whole(), FREQUENCY),
            (timeline.is_observed || timeline.guest_ios.is_some(), WATCHED),
            (self.path_faults.any(), PATHS),
            (self.pauses.any(), PAUSES),
            (self.failures.can_panic(), PANICS),
        ];
        reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
    }

    /// Makes the accesses of the first boot again. Whether all reads gave what they did then.
    fn access_again(
        &mut self,
        timeline: &mut Timeline,
        accesses: &Accesses,
    ) -> Result<bool, Error> {
        for access in accesses.iter() {
            match access {
                Access::PortWrite(port, bytes) => self.write_port(timeline, *port, bytes.get())?,
                Access::PortRead(port, bytes) => {
                    let mut found = [0; 8];
                    let found = &mut found[..bytes.get().len()];
                    self.read_port(*port, found);
                    if *found != *bytes.get() {
                        return Ok(false);
                    }
                }
                Access::IoApicWrite(offset, bytes) => self.io_apic.write(*offset, bytes.get()),
            }
        }
        Ok(true)
    }

    /// A slice of the processor in a boot that is replayed: it does not enter the guest.
    pub(super) fn replayed_slice(
        &mut self,
        timeline: &mut Timeline,
        slice: Slice,
    ) -> Result<After, Error> {
        let Slice { index, until, place, others } = slice;
        let (stop, kind) =
            self.kept_boot.next_stop().ok_or(Error::Internal("no boot is replayed"))?;
        let stop = self.origin + stop;
        let processor = &mut self.processors[index];
        (processor.yields, processor.late) = (false, false);
        let entered = processor.time;
        let end = until.min(stop).min(entered.saturating_add(MAX_SLICE)).max(entered);
        processor.time = end;
        timeline.clock.set(end);
        let hindmost = if timeline.lookahead.is_some() { None } else { others };
        let ahead = end.saturating_sub(hindmost.unwrap_or(end));
        timeline.statistics.slice(place, (entered, end), ahead);
        if let Some(watch) = &mut timeline.watch {
            watch.ran(place, (entered, end));
        }
        if end < stop {
            return Ok(After::Continue);
        }
        match kind {
            Stop::Halt => {
                processor.state = ProcessorState::Halted;
                if let Some(replay) = &mut self.kept_boot.replay {
                    replay.halts += 1;
                }
                Ok(After::Continue)
            }
            Stop::Greets => self.greet_again(timeline, slice),
        }
    }

    /// Brings the machine into the state in which its agent greets, and lets it greet.
    fn greet_again(&mut self, timeline: &mut Timeline, slice: Slice) -> Result<After, Error> {
        let Slice { index, others, .. } = slice;
        self.kept_boot.replay = None;
        self.know_written();
        let First::Kept(greeting) = &mut self.kept_boot.first else {
            return Err(Error::Internal("no boot is kept"));
        };
        greeting.memory.bring_back(&mut self.memory);
        self.vcpus[index].go_on_from(&greeting.vcpu);
        let processor = &mut self.processors[index];
        processor.apic =
            greeting.apic.later(self.origin, timeline.clock.scale().to_ns(self.origin));
        processor.eoi.clone_from(&greeting.eoi);
        let written = self.channel.mailbox().write(0, &greeting.mailbox);
        written.map_err(|_| Error::Internal("the mailbox is too small"))?;
        let exit = greeting.exit.clone();
        let now = timeline.clock.now();
        if others.is_none_or(|others| others >= now) {
            return self.act(timeline, index, exit);
        }
        self.processors[index].waiting = Some(exit);
        Ok(After::Continue)
    }
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
