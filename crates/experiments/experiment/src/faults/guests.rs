//! Faults inside a guest, resolved: its agent brings them about.

use stasis_block::clock::Nanos;
use stasis_block::{splitmix, units, Random};
use stasis_channel::{Begins, GuestFault, ScheduledGuestFault};
use stasis_config::Mistake;

use super::kinds::GuestFaultKind;
use super::spec::ScheduledFault;

/// Faults inside guests draw other numbers than those of drives and machines.
const GUESTS: u64 = 0x6775_6573;

/// Limit on a clock's drift, both ways (parts per million): adjtimex(2) takes a tick of 10 ms
/// from 9,000 to 11,000 us.
const MAX_DRIFT: i32 = 100_000;

impl ScheduledFault {
    /// The fault inside a guest that it describes.
    pub(super) fn in_guest(&self, kind: GuestFaultKind) -> Result<GuestFault, Mistake> {
        let wrong = |key: &str, message: &str| Err(Mistake::at(key, message));
        match kind {
            GuestFaultKind::Kill => match self.process.as_deref() {
                None | Some("") => wrong("process", "say which process to kill: give it `process`"),
                Some(process) => Ok(GuestFault::Kill { process: process.into() }),
            },
            GuestFaultKind::MemoryShortage => match self.memory {
                None | Some(0) => wrong("memory", "say how much memory it takes: give it `memory`"),
                Some(bytes) => Ok(GuestFault::MemoryShortage { bytes }),
            },
            GuestFaultKind::ClockJump => {
                let by = self.by.as_deref().unwrap_or_default();
                match signed_duration(by).map_err(|message| Mistake::at("by", message))? {
                    0 => wrong("by", "say how far the clock jumps: give it `by`, as `5s` or `-5s`"),
                    by_ns => Ok(GuestFault::ClockJump { by_ns }),
                }
            }
            GuestFaultKind::ClockDrift => match self.ppm {
                None | Some(0) => wrong("ppm", "say how fast the clock drifts: give it `ppm`"),
                Some(ppm) if !(-MAX_DRIFT..=MAX_DRIFT).contains(&ppm) => {
                    wrong("ppm", &format!("ppm is {ppm}, but must be -{MAX_DRIFT} to {MAX_DRIFT}"))
                }
                Some(ppm) => Ok(GuestFault::ClockDrift { ppm }),
            },
        }
    }

    /// Returns the time of the fault inside a guest; `number`: its place in the experiment.
    pub(super) fn scheduled(
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
