//! A virtual disk: a region of a shared drive, as its machine holds it.

use std::time::Duration;

use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{Command, Health, Operation, PowerLoss, Status, VendorCommand, VendorError};
use stasis_clock::Nanos;
use stasis_media::MediumError;

use super::{Region, Shared, Submission};
use crate::{Done, Layer, Statistics, Urgent};

/// A region of a shared drive. Its commands see their own offsets.
pub struct VirtualDisk {
    shared: Shared,
    number: usize,
    index: u16,
    name: String,
    region: Region,
    statistics: Statistics,
    asks: bool,
    urgent: Urgent,
}

impl VirtualDisk {
    pub(super) fn new(
        shared: Shared,
        number: usize,
        index: u16,
        name: String,
        region: Region,
    ) -> Self {
        let statistics = Statistics::default();
        let (asks, urgent) = (false, Urgent::default());
        Self { shared, number, index, name, region, statistics, asks, urgent }
    }

    /// The same disk, whose flush covers everything that was submitted before it, as a
    /// [`Drive`](crate::Drive)'s does: for a layer that stands on a disk as on a drive, such as an
    /// image.
    #[must_use]
    pub fn covering(self) -> Self {
        self.shared.0.borrow_mut().members[self.number].covers = true;
        self
    }

    fn place(&self, mut command: Command, outwards: bool) -> Command {
        let moves = !matches!(command.operation, Operation::Flush | Operation::Barrier);
        let shift = |at: u64| {
            let offset = self.region.offset;
            if outwards {
                at.saturating_add(offset)
            } else {
                at.saturating_sub(offset)
            }
        };
        if moves {
            command.offset = shift(command.offset);
        }
        if command.operation == Operation::Copy {
            command.source = shift(command.source);
        }
        command
    }

    fn fits(&self, command: &Command) -> bool {
        let within =
            |at: u64| at.checked_add(command.length).is_some_and(|end| end <= self.region.length);
        within(command.offset) && (command.operation != Operation::Copy || within(command.source))
    }
}

impl Layer for VirtualDisk {
    fn index(&self) -> u16 {
        self.index
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn capacity(&self) -> u64 {
        self.region.length
    }

    fn discard_zeroes(&self) -> bool {
        self.shared.0.borrow().scheduled.discard_zeroes()
    }

    fn barrier(&self) -> Option<Nanos> {
        self.shared.0.borrow().scheduled.barrier()
    }

    fn power_loss(&self) -> PowerLoss {
        self.shared.0.borrow().scheduled.power_loss()
    }

    fn in_flight(&self) -> usize {
        let inner = self.shared.0.borrow();
        let member = &inner.members[self.number];
        member.in_flight + member.due.len()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        let fits = self.fits(&submission.command);
        let urgent = self.urgent.take(&submission.command);
        let mut inner = self.shared.0.borrow_mut();
        inner.catch_up(now);
        if !fits {
            // Controllers check ranges against the capacity: nobody comes here.
            debug_assert!(false, "{:?} does not fit", submission.command);
            let Submission { tag, queue, command, data } = submission;
            let status = command.operation.failure();
            let command = self.place(command, true);
            let (submit, at, order) = (now, now, 0);
            let member = &mut inner.members[self.number];
            let failed_at = 0;
            let done = Done { tag, queue, command, status, failed_at, data, submit, order, at };
            member.due.push(done);
            return;
        }
        let command = self.place(submission.command, true);
        // Another tenant may have brought the drive to a later time: a consequence of an earlier
        // completion then counts as of that time.
        inner.submit(self.number, Submission { command, ..submission }, urgent);
    }

    fn next_event(&self) -> Option<Nanos> {
        let inner = self.shared.0.borrow();
        let due = inner.members[self.number].due.first().map(|done| done.at);
        due.into_iter().chain(inner.next_event()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let first = done.len();
        {
            let mut inner = self.shared.0.borrow_mut();
            inner.catch_up(now);
            done.append(&mut inner.members[self.number].due);
        }
        for done in &mut done[first..] {
            done.command = self.place(done.command, false);
            self.statistics.add(done.command.operation, done.command.length, done.status);
        }
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        if !self.fits(&command) {
            return (command.operation.failure(), data);
        }
        let command = self.place(command, true);
        self.shared.0.borrow_mut().scheduled.instant(command, data)
    }

    fn frozen(&self) -> Duration {
        // The drive's time, once.
        if self.number > 0 {
            return Duration::ZERO;
        }
        self.shared.0.borrow().scheduled.frozen()
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.shared.0.borrow_mut().scheduled.take_error()
    }

    fn health(&self) -> Health {
        self.shared.0.borrow().scheduled.health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        let mut inner = self.shared.0.borrow_mut();
        inner.catch_up(now);
        inner.scheduled.vendor(now, command)
    }

    fn help(&mut self, now: Nanos, on: bool) {
        if std::mem::replace(&mut self.asks, on) != on {
            self.shared.help(now, self.number, on);
        }
    }

    fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        self.urgent.expect(sectors);
    }

    // The start concerns the drive, and is signalled once for all who share it (`Shared::start`).
    fn start(&mut self, _: Nanos) {}

    fn inside(&self, _now: Nanos) -> Option<String> {
        // Concerns the drive, and is reported once for all who share it.
        None
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        self.shared.watch(tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        self.shared.0.borrow_mut().scheduled.take_spans(spans);
    }
}

impl std::fmt::Debug for VirtualDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("VirtualDisk").field("name", &self.name).finish_non_exhaustive()
    }
}
