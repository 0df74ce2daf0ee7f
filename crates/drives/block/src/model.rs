//! The interface of a drive model: *when* a command completes, and whether.

use std::any::Any;

use crate::clock::Nanos;
use crate::health::Health;
use crate::inside::Inside;
use crate::timeline::{Spans, Tracks};
use crate::{Command, PowerLoss, Status, Tag};

/// Outcome of a command at the modelled drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// As asked.
    #[default]
    Done,
    /// With an error of the drive's; no data moves.
    Failed {
        /// The error.
        status: Status,
        /// The first byte known to have failed, from the command's start.
        at: u64,
    },
    /// Completes as if successful, but one bit of a read's data is flipped: the bit number `seed`
    /// modulo the data's length in bits.
    Corrupted {
        /// Chooses the bit.
        seed: u64,
    },
}

impl Fate {
    /// A command that failed as a whole.
    pub const fn failed(status: Status) -> Self {
        Self::Failed { status, at: 0 }
    }
}

/// A command that the model has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Tag of the completed command.
    pub tag: Tag,
    /// Time at which it completed (ns).
    pub at: Nanos,
    /// Outcome of the command.
    pub fate: Fate,
}

impl Completion {
    /// A command that ended as asked.
    pub fn done(tag: Tag, at: Nanos) -> Self {
        Self { tag, at, fate: Fate::Done }
    }
}

/// A vendor's own admin command, as the drive gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorCommand {
    /// Its opcode (NVMe: 0xC0 to 0xFF).
    pub opcode: u8,
    /// Command Dwords 10 to 15.
    pub dwords: [u32; 6],
    /// Data that the host sends, or room for data that it reads: filled by the drive.
    pub data: Vec<u8>,
}

/// Reason for the refusal of a vendor's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VendorError {
    /// The drive does not support this command.
    #[error("the drive knows no vendor command of this opcode")]
    Opcode,
    /// A field of a dword or of the data has an invalid value.
    #[error("a field of the vendor command is out of its range")]
    Field,
}

/// A drive's behaviour in time, as a state machine over virtual time.
///
/// The caller submits commands in the order of time and calls [`Model::advance`] at (or after) each
/// [`Model::next_event`]. The results must not depend on how late that call is.
pub trait Model: Send {
    /// `command` reaches the drive at `now`. `tag` is unique among the commands
    /// in flight.
    fn submit(&mut self, now: Nanos, tag: Tag, command: &Command);

    /// Returns the time at which something next happens inside the drive, a completion among other
    /// things; `None` while nothing is under way.
    fn next_event(&self) -> Option<Nanos>;

    /// Moves the drive's time to `now` and appends the completions until then, in the order of
    /// completion.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>);

    /// Cost of a barrier ([`crate::Operation::Barrier`], ns), where the drive offers one. The drive
    /// around the model completes barriers: a model never sees one.
    fn barrier(&self) -> Option<Nanos> {
        None
    }

    /// Acknowledged data that a power cut can take from the drive. By default, a volatile cache
    /// without a limit.
    fn power_loss(&self) -> PowerLoss {
        PowerLoss::default()
    }

    /// The power fails at `now` (ns), to which the model was advanced, and comes back at once: what
    /// a power cut destroys of the drive's state is gone, as the contents of a volatile cache or a
    /// map that was in memory. Commands in flight still end, and their ends mean nothing. By
    /// default the model has no such state.
    fn cut_power(&mut self, _now: Nanos) {}

    /// The power is turned off at `now` (ns), in good order: what is under way ends first. Returns
    /// the state from which the model can be built again, if its description asks for that. The
    /// model may go on: its time is then when all had ended.
    fn shut_down(&mut self, _now: Nanos) -> Option<String> {
        None
    }

    /// Draws by `seed` from now on. Properties of the drive (weak blocks of flash, tracks of a
    /// disk) and earlier draws stay. A model that draws nothing has nothing to do.
    fn reseed(&mut self, _seed: u64) {}

    /// Takes over the values that can change while the model works from `parameters` (of the type
    /// that the model was made of), for commands that begin later. Returns whether the model can do
    /// so; if not, nothing has changed.
    fn adapt(&mut self, _parameters: &dyn Any) -> bool {
        false
    }

    /// Describes where the drive holds the byte at `offset`, human-readable: its place, and
    /// whether a newer version waits in memory. None of a model that has no such places.
    fn entry(&self, _offset: u64) -> Option<String> {
        None
    }

    /// Returns a human-readable list of the contents of the write cache or buffer at `now` (ns).
    /// None for a model that has neither.
    fn waiting(&self, _now: Nanos) -> Option<String> {
        None
    }

    /// Content of the drive's SMART log.
    fn health(&self) -> Health {
        Health::default()
    }

    /// The health of each part of the drive that has flash of its own, in the order of bytes; none of a
    /// drive without such parts.
    fn parts_health(&self) -> Vec<Health> {
        Vec::new()
    }

    /// Carries out a vendor's admin command at `now`; returns Dword 0 of its
    /// completion.
    ///
    /// # Errors
    /// [`VendorError`] if it is not one of this drive's, or not possible.
    fn vendor(&mut self, _now: Nanos, _command: &mut VendorCommand) -> Result<u32, VendorError> {
        Err(VendorError::Opcode)
    }

    /// Begins the measurement at `now`: [`Model::inside`] counts from here on. The results of the
    /// model do not change.
    fn start(&mut self, _now: Nanos) {}

    /// Internal activity of the drive from [`Model::start`] until `now`, for results; `None` where
    /// a model has none to report.
    fn inside(&self, _now: Nanos) -> Option<Inside> {
        None
    }

    /// Keeps from now on the spans of its parts for [`Model::take_spans`], and announces their
    /// tracks, which belong to `owner`. A model without parts keeps nothing. The results of the
    /// model do not change.
    fn watch(&mut self, _owner: &str, _tracks: &mut Tracks) {}

    /// Hands over the spans of its parts, of each track in the order of time. Called now and then:
    /// the model keeps a bounded number, and counts the rest.
    fn take_spans(&mut self, _spans: &mut Spans) {}
}
