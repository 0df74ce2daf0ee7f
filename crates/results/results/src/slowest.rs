//! The slowest I/Os of a drive, and where the time of each went.

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::inside::{Inside, Parts, SlowCommand};
use stasis_block::Operation;
use stasis_run_events::{IoRecord, BLOCK};

use crate::commands::ToldCommand;
use crate::guest_ios::GuestTimes;

/// One of the slowest I/Os of a drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowIo {
    /// Its number among the submissions to its drive.
    pub order: u64,
    /// Its operation.
    pub operation: Operation,
    /// First block of its range.
    pub lba: u64,
    /// Its length.
    pub bytes: u64,
    /// Time at which it was submitted.
    pub submit_ns: Nanos,
    /// Time at which the model let it complete.
    pub target_ns: Nanos,
    /// Time at which it was delivered.
    pub delivered_ns: Nanos,
    /// Time in a disk image before the drive got the command that ended it.
    #[serde(default)]
    pub image_ns: Nanos,
    /// Time that it then waited for the limit of its virtual disk.
    #[serde(default)]
    pub limited_ns: Nanos,
    /// Time that it then waited for the host's scheduler before the model got it.
    #[serde(default)]
    pub scheduled_ns: Nanos,
    /// By how much an injected fault made it later.
    #[serde(default)]
    pub fault_ns: Nanos,
    /// Parts of its time in the model (ns), where the model has them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parts: Option<Parts<Nanos>>,
    /// Its time in the guest, where that is kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub guest: Option<GuestTimes>,
}

impl SlowIo {
    /// An I/O of which a timeline tells `command`, if it does.
    pub fn told(record: &IoRecord, command: Option<&ToldCommand>) -> Self {
        let own = Self::of(record);
        command.map_or(own.clone(), |command| own.with(command))
    }

    /// An I/O of whose parts nothing is known.
    pub fn of(record: &IoRecord) -> Self {
        let IoRecord { image, limited, scheduled, fault, .. } = *record;
        let &IoRecord { order, operation, offset, bytes, submit, target, delivered, .. } = record;
        Self {
            order,
            operation,
            lba: offset / BLOCK,
            bytes,
            submit_ns: submit,
            target_ns: target,
            delivered_ns: delivered,
            image_ns: image,
            limited_ns: limited,
            scheduled_ns: scheduled,
            fault_ns: fault,
            parts: None,
            guest: None,
        }
    }

    /// From its submission to its delivery (ns).
    pub fn latency(&self) -> Nanos {
        self.delivered_ns.saturating_sub(self.submit_ns)
    }

    /// Times at which the model got and completed it (ns).
    fn in_model(&self) -> (Nanos, Nanos) {
        let before = self.image_ns + self.limited_ns + self.scheduled_ns;
        let begin = self.submit_ns.saturating_add(before);
        (begin, self.target_ns.saturating_sub(self.fault_ns).max(begin))
    }

    /// Returns whether it is the model's command. A disk on a shared drive has its `own_offsets`.
    fn is(&self, command: &SlowCommand, own_offsets: bool) -> bool {
        let SlowCommand { operation, offset, bytes, begin, end, .. } = *command;
        (self.operation, self.bytes, self.in_model()) == (operation, bytes, (begin, end))
            && (own_offsets || self.lba == offset / BLOCK)
    }

    /// The I/O with what the model told of it, as a timeline has it.
    pub fn with(mut self, command: &ToldCommand) -> Self {
        // Rows of earlier versions have no times of layers.
        let before = self.image_ns + self.limited_ns;
        self.scheduled_ns = command.begin.saturating_sub(self.submit_ns + before);
        self.parts = Some(command.parts);
        self
    }

    /// Each part of its time with its name; together they are the latency.
    pub fn named(&self) -> Vec<(&'static str, Nanos)> {
        let (begin, end) = self.in_model();
        let mut all = vec![
            ("image", self.image_ns),
            ("limit", self.limited_ns),
            ("scheduler", self.scheduled_ns),
        ];
        match &self.parts {
            Some(parts) => all.extend(parts.named()),
            None => all.push(("model", end - begin)),
        }
        all.push(("fault", self.fault_ns));
        all.push(("late", self.delivered_ns.saturating_sub(self.target_ns)));
        all
    }
}

impl SlowIo {
    /// Each part of its time from its system call to its thread, in the order of time where that is
    /// known, with its name; together they are [`Self::whole`].
    pub fn parts_in_order(&self) -> Vec<(&'static str, Nanos)> {
        let Some(guest) = &self.guest else { return self.named() };
        let [submission, block_layer, after @ ..] = guest.parts();
        let mut all = vec![submission, block_layer];
        all.extend(self.named());
        all.extend(after);
        all
    }

    /// From its system call until its thread runs again, as far as that is known (ns).
    pub fn whole(&self) -> Nanos {
        match &self.guest {
            Some(guest) => guest.ended().saturating_sub(guest.begun_ns),
            None => self.latency(),
        }
    }
}

/// Gives the slowest I/Os of a drive what its model kept of them; the model's list goes into them.
pub fn join(ios: &mut [SlowIo], inside: &mut Option<Inside>) {
    give(ios.iter_mut(), &Inside::take_slowest(inside), false);
}

/// Like [`join`], but for the I/Os of the disks on a shared drive.
pub fn join_disks<'a>(ios: impl Iterator<Item = &'a mut SlowIo>, inside: &mut Option<Inside>) {
    give(ios, &Inside::take_slowest(inside), true);
}

fn give<'a>(
    ios: impl Iterator<Item = &'a mut SlowIo>,
    commands: &[SlowCommand],
    own_offsets: bool,
) {
    for io in ios {
        let command = commands.iter().find(|command| io.is(command, own_offsets));
        io.parts = command.map(|command| command.parts).or(io.parts);
    }
}
