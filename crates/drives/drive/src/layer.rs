//! The interface common to a drive and every layer above one: it accepts commands and completes
//! them later.

use std::time::Duration;

use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{Command, Health, PowerLoss, Refused, Status, Tag, VendorCommand, VendorError};
use stasis_clock::Nanos;
use stasis_media::MediumError;
use stasis_run_events::{IoRecord, IoStatus};

use crate::Statistics;

/// A command on its way to a layer.
#[derive(Debug)]
pub struct Submission {
    /// The caller's name for it, which comes back with it.
    pub tag: Tag,
    /// The queue it came from.
    pub queue: u16,
    /// The command.
    pub command: Command,
    /// Data to write, or room for exactly the data to read; otherwise empty.
    pub data: Vec<u8>,
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
    /// When it was submitted (ns).
    pub submit: Nanos,
    /// Its number among the submissions to the layer, from 0.
    pub order: u64,
    /// When it completed: its target time (ns).
    pub at: Nanos,
}

/// A drive, or a layer on top of one, such as a disk image or a scheduler. A layer that changes
/// only a little of the one below is a [`crate::Decorator`].
///
/// The caller submits commands in the order of time and calls
/// [`Layer::advance`] at (or after) each [`Layer::next_event`]. Target times do
/// not depend on how late that call is.
pub trait Layer {
    /// Its place in the experiment.
    fn index(&self) -> u16;

    /// Its name in the experiment.
    fn name(&self) -> &str;

    /// Its size in bytes.
    fn capacity(&self) -> u64;

    /// Whether a discarded range reads as zeroes afterwards; otherwise a
    /// discard changes nothing.
    fn discard_zeroes(&self) -> bool;

    /// Cost of a barrier (ns); `None` where it is not offered and ends with an error.
    fn barrier(&self) -> Option<Nanos>;

    /// Acknowledged data that a power cut can take from the drive at the bottom.
    fn power_loss(&self) -> PowerLoss;

    /// Number of commands in flight.
    fn in_flight(&self) -> usize;

    /// Takes a command at `now` (ns), which is not before any earlier call's.
    fn submit(&mut self, now: Nanos, submission: Submission);

    /// When something next happens (ns): the time at which to call
    /// [`Layer::advance`]. May be in the past.
    fn next_event(&self) -> Option<Nanos>;

    /// Appends the commands that complete by `now` (ns), in the order of their
    /// target times.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>);

    /// Carries a command out at once, outside of time: before a run begins and
    /// after it has ended. Nothing may be in flight.
    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>);

    /// The real time that the medium has kept the guest waiting.
    fn frozen(&self) -> Duration;

    /// Counters of commands so far.
    fn statistics(&self) -> &Statistics;

    /// The first error of the medium since the last call: the guest sees only a status.
    fn take_error(&mut self) -> Option<MediumError>;

    /// Content of the drive's SMART log.
    fn health(&self) -> Health;

    /// Carries out a vendor's admin command at `now` (ns).
    ///
    /// # Errors
    /// [`VendorError`] if the drive does not support it, or it is not possible.
    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError>;

    /// The guest begins or ends to need help from those it shares the drive
    /// with. Only a shared drive can give it.
    fn help(&mut self, now: Nanos, on: bool);

    /// The guest's own scheduler prefers the requests that it sends next for these
    /// sectors of 512 bytes. Only a shared drive can do so as well.
    fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>);

    /// Begins the measurement at `now` (ns): [`Layer::inside`] counts from here on.
    fn start(&mut self, now: Nanos);

    /// Internal activity from [`Layer::start`] until `now` (ns), as JSON.
    fn inside(&self, now: Nanos) -> Option<String>;

    /// Keeps spans of internal activity from now on for [`Layer::take_spans`], and announces their
    /// tracks. The results of the layer do not change.
    fn watch(&mut self, tracks: &mut Tracks);

    /// Hands over the spans, of each track in the order of time. Called now and then: a bounded
    /// number waits, and the rest is counted.
    fn take_spans(&mut self, spans: &mut Spans);

    /// The record of a command that the guest saw completed at `delivered`
    /// (ns). `boot`: before the experiment's command began.
    fn record(&self, done: &Done, delivered: Nanos, boot: bool) -> IoRecord {
        let failed = done.status != Status::Ok;
        IoRecord {
            drive: self.index(),
            queue: done.queue,
            status: if failed { IoStatus::Error } else { IoStatus::Ok },
            boot,
            order: done.order,
            submit: done.submit,
            target: done.at,
            delivered,
            ..IoRecord::of(&done.command)
        }
    }

    /// The record of a command that its controller refused at `now` (ns) with the
    /// status `code`. Its number is that of the submission which would have been next.
    fn refused(&self, refused: &Refused, now: Nanos, boot: bool) -> IoRecord {
        let Refused { queue, command, code } = *refused;
        let done = Done {
            tag: Tag::default(),
            queue,
            command,
            status: command.operation.failure(),
            failed_at: 0,
            data: Vec::new(),
            submit: now,
            order: self.statistics().completed() + self.in_flight() as u64,
            at: now,
        };
        IoRecord { status: IoStatus::Refused, code, ..self.record(&done, now, boot) }
    }
}
