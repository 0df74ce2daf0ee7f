//! Input that a person types at the terminal of a guest's command. Owns the keyboard, and input that the
//! guest has not asked for.

use stasis_channel::{Keyboard, Typed};

/// Time until a guest is to ask again for input (ms of its time), each time costing it some 20,000
/// instructions. A busy one does so often: its computations may take long by the wall clock. One
/// that waits for a person is not late by its pause, because a key ends the wait (`Run::attend`);
/// one that waits for a drive is.
const BUSY: u16 = 1;
const AT_A_DRIVE: u16 = 5;
const IDLE: u16 = 20;

/// Limit on the input that is kept for a guest that does not ask for it (bytes).
const KEPT: usize = 1 << 20;

/// Input that the guest has not asked for yet.
#[derive(Debug, Default)]
pub(super) struct Typing {
    keyboard: Option<Box<dyn Keyboard>>,
    typed: Typed,
    /// The end of the time in which all processors were idle last (ticks).
    pub(super) idle_until: u64,
    /// Time at which it was asked last, and the part of the time until then for which all
    /// processors were idle (ticks).
    asked: u64,
    skipped: u64,
}

impl Typing {
    pub(super) fn new(keyboard: Option<Box<dyn Keyboard>>) -> Self {
        Self { keyboard, ..Self::default() }
    }

    /// Waits at most `limit` (ns) for something to be typed.
    pub(super) fn wait(&mut self, limit: u64) -> std::io::Result<()> {
        if let Some(keyboard) = &mut self.keyboard {
            self.typed.add(keyboard.read(limit)?);
            self.typed.bytes.truncate(KEPT);
        }
        Ok(())
    }

    /// Takes the input that has arrived until `now`; all processors were idle for `skipped` of the
    /// run (ticks). `works`: whether a drive has requests in flight.
    pub(super) fn take(&mut self, now: u64, skipped: u64, works: bool) -> std::io::Result<Typed> {
        self.wait(0)?;
        let passed = now.saturating_sub(std::mem::replace(&mut self.asked, now));
        let idle = skipped.saturating_sub(std::mem::replace(&mut self.skipped, skipped));
        // Input may be the beginning of much work.
        let pause = match (idle > passed / 2 && self.typed.bytes.is_empty(), works) {
            (false, _) => BUSY,
            (true, true) => AT_A_DRIVE,
            (true, false) => IDLE,
        };
        let bytes = std::mem::take(&mut self.typed.bytes);
        Ok(Typed { bytes, pause, ..self.typed.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_asks_again_by_what_it_does() {
        let mut typing = Typing::default();
        let mut pause = |now, skipped, works| typing.take(now, skipped, works).unwrap().pause;
        assert_eq!(pause(1000, 600, false), IDLE);
        assert_eq!(pause(2000, 1100, false), BUSY);
        assert_eq!(pause(3000, 2000, true), AT_A_DRIVE);
        assert_eq!(pause(3000, 2000, true), BUSY, "no time has passed");
    }
}
