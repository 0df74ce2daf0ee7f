//! A completed command.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Delivery, Status, Tag};
use stasis_run_events::{IoRecord, IoStatus};

/// The parts of a command's time that the layers around the model took (ns): the rest is the model's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LayerTimes {
    /// In a disk image, for its tables and for what it sends to the drive before.
    pub image: Nanos,
    /// For the limit of its tenant.
    pub limited: Nanos,
    /// For the host's scheduler, or behind a barrier that the host keeps.
    pub scheduled: Nanos,
    /// By which an injected fault made it later.
    pub fault: Nanos,
}

/// A command that a layer has completed.
#[derive(Debug)]
pub struct Done {
    /// The caller's name for it.
    pub tag: Tag,
    /// The queue it came from.
    pub queue: u16,
    /// The completed command.
    pub command: Command,
    /// Outcome of the command.
    pub status: Status,
    /// The first byte known to have failed, from the command's start; 0 for a command as a whole.
    pub failed_at: u64,
    /// The buffer it was submitted with; for a read that ended well, filled.
    pub data: Vec<u8>,
    /// Time at which it was submitted (ns).
    pub submit: Nanos,
    /// Its number among the submissions to the layer, from 0.
    pub order: u64,
    /// Time at which it completed: its target time (ns).
    pub at: Nanos,
    /// Its time outside of the model.
    pub layers: LayerTimes,
    /// Delivery to the guest.
    pub delivery: Delivery,
}

impl Done {
    /// A fault lets it complete at `at` (ns).
    pub fn delay_until(&mut self, at: Nanos) {
        self.layers.fault = self.layers.fault.saturating_add(at.saturating_sub(self.at));
        self.at = at;
    }

    /// Returns the I/O's record, for a guest that sees the completion at once.
    pub fn record(&self) -> IoRecord {
        let failed = self.status != Status::Ok;
        let LayerTimes { image, limited, scheduled, fault } = self.layers;
        IoRecord {
            queue: self.queue,
            status: if failed { IoStatus::Error } else { IoStatus::Ok },
            order: self.order,
            submit: self.submit,
            target: self.at,
            delivered: self.at,
            image,
            limited,
            scheduled,
            fault,
            ..IoRecord::of(&self.command)
        }
    }
}
