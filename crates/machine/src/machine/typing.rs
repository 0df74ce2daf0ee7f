//! A person at the terminal of a guest's command: what is typed, and virtual time that does not
//! run away while nothing else is to happen.

use stasis_channel::{Keyboard, Typed};

use crate::error::Error;
use crate::machine::Run;

/// The most that is kept for a guest that does not ask for it (bytes).
const KEPT: usize = 1 << 20;

/// What was typed and the guest has not asked for yet.
#[derive(Debug, Default)]
pub(super) struct Typing {
    keyboard: Option<Box<dyn Keyboard>>,
    typed: Typed,
}

impl Typing {
    pub(super) fn new(keyboard: Option<Box<dyn Keyboard>>) -> Self {
        Self { keyboard, typed: Typed::default() }
    }

    /// Waits at most `limit` (ns) for something to be typed.
    fn wait(&mut self, limit: u64) -> std::io::Result<()> {
        if let Some(keyboard) = &mut self.keyboard {
            self.typed.add(keyboard.read(limit)?);
            self.typed.bytes.truncate(KEPT);
        }
        Ok(())
    }

    /// What has come until now.
    pub(super) fn take(&mut self) -> std::io::Result<Typed> {
        self.wait(0)?;
        let bytes = std::mem::take(&mut self.typed.bytes);
        Ok(Typed { bytes, ..self.typed.clone() })
    }
}

impl Run<'_> {
    /// All processors are idle until `next` (ticks). Where a person can type, and no drive is at
    /// work, this takes as long by the wall clock, or until something is typed.
    pub(super) fn attend(&mut self, next: u64) -> Result<(), Error> {
        let attended = |machine: &super::Machine| {
            machine.channel.has_terminal() && machine.started.is_some() && machine.ended.is_none()
        };
        let works = |machine: &super::Machine| {
            machine.drives.iter().any(|drive| drive.next_event().is_some())
        };
        if !self.machines.iter().any(attended) || self.machines.iter().any(works) {
            return Ok(());
        }
        let ticks = next.saturating_sub(self.instant.max(self.last_idle()));
        let limit = self.timeline.clock.scale().to_ns(ticks);
        self.timeline.typing.wait(limit).map_err(Error::Input)
    }
}
