//! Faults inside a guest, which its agent brings about.

use stasis_block::clock::Nanos;
use stasis_block::{splitmix, units, Random};
use stasis_channel::{Begins, GuestFault, ScheduledGuestFault};

use super::{FaultKind, ScheduledFault};
use crate::triggers::Trigger;
use crate::{Experiment, MachineSpec};

/// Faults inside guests draw other numbers than those of drives and machines.
const GUESTS: u64 = 0x6775_6573;

/// Limit on a clock's drift, both ways (parts per million): adjtimex(2) takes a tick of 10 ms
/// from 9,000 to 11,000 us.
const MAX_DRIFT: i32 = 100_000;

/// Kind of a fault inside a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuestFaultKind {
    Kill,
    MemoryShortage,
    ClockJump,
    ClockDrift,
}

impl GuestFaultKind {
    pub(super) const ALL: [Self; 4] =
        [Self::Kill, Self::MemoryShortage, Self::ClockJump, Self::ClockDrift];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::MemoryShortage => "memory-shortage",
            Self::ClockJump => "clock-jump",
            Self::ClockDrift => "clock-drift",
        }
    }

    /// Whether a key of a fault has an effect on this kind.
    pub(super) fn takes(self, key: &str) -> bool {
        match (key, self) {
            ("at" | "within", Self::Kill | Self::ClockJump) => true,
            ("begin" | "end", Self::MemoryShortage | Self::ClockDrift) => true,
            ("process", Self::Kill) | ("by", Self::ClockJump) => true,
            ("memory", Self::MemoryShortage) | ("ppm", Self::ClockDrift) => true,
            _ => false,
        }
    }
}

impl ScheduledFault {
    /// The fault inside a guest that it describes.
    fn in_guest(&self, kind: GuestFaultKind) -> Result<GuestFault, String> {
        match kind {
            GuestFaultKind::Kill => match self.process.as_deref() {
                None | Some("") => Err("say which process to kill: give it `process`".into()),
                Some(process) => Ok(GuestFault::Kill { process: process.into() }),
            },
            GuestFaultKind::MemoryShortage => match self.memory {
                None | Some(0) => Err("say how much memory it takes: give it `memory`".into()),
                Some(bytes) => Ok(GuestFault::MemoryShortage { bytes }),
            },
            GuestFaultKind::ClockJump => {
                let by = self.by.as_deref().unwrap_or_default();
                match signed_duration(by)? {
                    0 => Err("say how far the clock jumps: give it `by`, as `5s` or `-5s`".into()),
                    by_ns => Ok(GuestFault::ClockJump { by_ns }),
                }
            }
            GuestFaultKind::ClockDrift => match self.ppm {
                None | Some(0) => Err("say how fast the clock drifts: give it `ppm`".into()),
                Some(ppm) if !(-MAX_DRIFT..=MAX_DRIFT).contains(&ppm) => {
                    Err(format!("ppm is {ppm}, but must be -{MAX_DRIFT} to {MAX_DRIFT}"))
                }
                Some(ppm) => Ok(GuestFault::ClockDrift { ppm }),
            },
        }
    }

    /// When the fault inside a guest comes; `number`: its place in the experiment.
    fn scheduled(
        &self,
        fault: GuestFault,
        begins: Begins,
        number: u16,
        seed: u64,
    ) -> ScheduledGuestFault {
        let seed = splitmix::nth(seed ^ GUESTS, u64::from(number) + 1);
        let later = self.within.map_or(0, |within| Random::new(seed).up_to(within));
        let begin = self.at.or(self.begin).unwrap_or(0).saturating_add(later);
        ScheduledGuestFault { number, begin, end: self.end, begins, fault }
    }
}

/// A duration with a sign (ns); 0 if there is none.
fn signed_duration(word: &str) -> Result<i64, String> {
    let (sign, length) = match word.trim().strip_prefix('-') {
        Some(length) => (-1, length),
        None => (1, word),
    };
    if word.is_empty() {
        return Ok(0);
    }
    let length: Nanos = units::parse_duration(length).map_err(|error| format!("by: {error}"))?;
    let length = i64::try_from(length).map_err(|_| format!("by is {word}, but that is too far"))?;
    Ok(sign * length)
}

impl Experiment {
    /// The faults inside a machine's guest.
    ///
    /// # Errors
    /// Returns the invalid value and its allowed values.
    pub fn guest_faults_of(
        &self,
        machine: &MachineSpec,
    ) -> Result<Vec<ScheduledGuestFault>, String> {
        let mut faults = Vec::new();
        for (number, fault) in self.faults.iter().enumerate() {
            if fault.machine != machine.name || !fault.is_of_machine() {
                continue;
            }
            if let FaultKind::Guest(kind) = fault.known()? {
                let number = u16::try_from(number).unwrap_or(u16::MAX);
                let begins = self.begins(fault, machine)?;
                faults.push(fault.scheduled(fault.in_guest(kind)?, begins, number, self.seed));
            }
        }
        Ok(faults)
    }

    /// What a fault inside a machine's guest begins by, as its agent sees it.
    fn begins(&self, fault: &ScheduledFault, machine: &MachineSpec) -> Result<Begins, String> {
        let alone = self.machine.several().is_empty();
        Ok(match fault.trigger(0)?.map(|trigger| trigger.trigger) {
            None => Begins::InTime,
            Some(Trigger::Asked { .. }) if alone => Begins::AsAsked,
            Some(Trigger::Output { .. }) if alone => Begins::AtOutput,
            Some(Trigger::Output { machine: of, .. }) if of.is_some() && of == machine.name => {
                Begins::AtOutput
            }
            Some(_) => Begins::Elsewhere,
        })
    }

    /// Refuses a fault that this machine's guest cannot have.
    pub(super) fn check_guest_fault(
        &self,
        machine: &MachineSpec,
        fault: &ScheduledFault,
        kind: GuestFaultKind,
    ) -> Result<(), String> {
        let lasts = kind.takes("begin");
        if !lasts && fault.at.is_none() && !fault.is_triggered() {
            return Err("say when it happens: give it `at`, `at-io`, `at-output` or `when`".into());
        }
        match fault.in_guest(kind)? {
            GuestFault::MemoryShortage { bytes } if bytes >= machine.memory => {
                let [bytes, memory] = [bytes, machine.memory].map(units::format_size);
                Err(format!("memory is {bytes}, but the machine has {memory} in all"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::tests::finish;

    const MACHINES: &str = "command = ['true']\n[[machine]]\nname = 'a'\nmemory = '512MiB'\n\
         [[machine]]\nname = 'b'\n[[fault]]\nmachine = 'a'\n";

    fn fault(keys: &str) -> Result<ScheduledGuestFault, String> {
        let experiment = finish(&format!("{MACHINES}{keys}"))?;
        let machines = experiment.machine.all();
        assert_eq!(experiment.guest_faults_of(&machines[1]), Ok(vec![]));
        let [fault] = &experiment.guest_faults_of(&machines[0]).unwrap()[..] else {
            panic!("one fault")
        };
        Ok(fault.clone())
    }

    #[test]
    fn a_fault_is_that_of_its_guest() {
        let second = 1_000_000_000;
        let kill = fault("kind = 'kill'\nprocess = 'etcd'\nat = '1s'").unwrap();
        assert_eq!(kill.fault, GuestFault::Kill { process: "etcd".into() });
        assert_eq!((kill.begin, kill.end, kill.begins), (second as u64, None, Begins::InTime));
        let shortage = "kind = 'memory-shortage'\nmemory = '256MiB'\nbegin = '1s'\nend = '2s'";
        let shortage = fault(shortage).unwrap();
        assert_eq!(shortage.fault, GuestFault::MemoryShortage { bytes: 256 << 20 });
        assert_eq!((shortage.begin, shortage.end), (second as u64, Some(2 * second as u64)));
        for (by, by_ns) in [("5s", 5 * second), ("-1h", -3600 * second), ("-1ns", -1)] {
            let jump = format!("kind = 'clock-jump'\nby = '{by}'\nwhen = 'asked'");
            let jump = fault(&jump).unwrap();
            assert_eq!(
                (jump.fault, jump.begins),
                (GuestFault::ClockJump { by_ns }, Begins::Elsewhere)
            );
        }
        let drift = fault("kind = 'clock-drift'\nppm = -100").unwrap();
        assert_eq!((drift.fault, drift.begin), (GuestFault::ClockDrift { ppm: -100 }, 0));
        for (of, begins) in [("a", Begins::AtOutput), ("b", Begins::Elsewhere)] {
            let keys =
                format!("kind = 'clock-drift'\nppm = 1\nat-output = 'x'\noutput-of = '{of}'");
            assert_eq!(fault(&keys).unwrap().begins, begins);
        }
    }

    #[test]
    fn the_time_of_a_kill_is_drawn_by_the_seed() {
        let at = |seed: u64| {
            let kill = "kind = 'kill'\nprocess = 'x'\nat = '1s'\nwithin = '1s'";
            let experiment = finish(&format!("seed = {seed}\n{MACHINES}{kill}")).unwrap();
            experiment.guest_faults_of(&experiment.machine.all()[0]).unwrap()[0].begin
        };
        let times: Vec<_> = (0..20).map(at).collect();
        assert!(times.iter().all(|at| (1_000_000_000..=2_000_000_000).contains(at)));
        assert!(times.iter().max().unwrap() - times.iter().min().unwrap() > 500_000_000);
    }

    #[test]
    fn wrong_faults_are_refused_by_name() {
        for (keys, expected) in [
            ("kind = 'kill'\nat = '1s'", "give it `process`"),
            ("kind = 'kill'\nprocess = ''\nat = '1s'", "give it `process`"),
            ("kind = 'kill'\nprocess = 'etcd'", "say when it happens"),
            ("kind = 'kill'\nprocess = 'etcd'\nat = '1s'\nend = '2s'", "end means nothing"),
            ("kind = 'memory-shortage'", "give it `memory`"),
            ("kind = 'memory-shortage'\nmemory = '512MiB'", "the machine has 512MiB in all"),
            ("kind = 'memory-shortage'\nmemory = '1MiB'\nat = '1s'", "at is for the kind"),
            ("kind = 'clock-jump'\nat = '1s'", "give it `by`"),
            ("kind = 'clock-jump'\nat = '1s'\nby = '0'", "give it `by`"),
            ("kind = 'clock-jump'\nat = '1s'\nby = '5'", "by: `5`: a duration needs a unit"),
            ("kind = 'clock-jump'\nat = '1s'\nby = '-400000h'\nppm = 1", "ppm is for the kind"),
            ("kind = 'clock-jump'\nat = '1s'\nby = '4000000h'", "too far"),
            ("kind = 'clock-drift'", "give it `ppm`"),
            ("kind = 'clock-drift'\nppm = 100001", "must be -100000 to 100000"),
            ("kind = 'clock-drift'\nppm = 1\nbegin = '2s'\nend = '1s'", "it ends at 1s"),
            ("kind = 'kil'", "did you mean `kill`?"),
        ] {
            let message = fault(keys).unwrap_err();
            assert!(message.contains(expected), "{keys}: {message}");
        }
    }
}
