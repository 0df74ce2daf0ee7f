//! The parts of a controller that commands act on, and the registration of commands.

use stasis_block::memory::scatter;

use crate::command::{location, CommandId, SubmissionEntry};
use crate::computing::Done;
use crate::features::Features;
use crate::formatting::Formatting;
use crate::host::Host;
use crate::io::{Io, IoExecute};
use crate::lba_status::{Scan, MAX_SCANS};
use crate::ocssd::Notifications;
use crate::registered::{Registered, Table};
use crate::scanning::Step;
use crate::state::Access;
use crate::status::{Failure, Outcome, StatusCode};
use crate::vendor::Vendor;
use crate::Memory;

/// Carries out an admin command.
pub type AdminExecute =
    fn(&mut ControllerMut, &dyn Memory, &SubmissionEntry) -> Result<Outcome, Failure>;
/// An admin command that the controller supports.
pub type AdminCommand = Registered<AdminExecute>;

/// The commands that a controller supports.
#[derive(Debug)]
pub struct Commands {
    pub io: &'static Table<IoExecute>,
    /// I/O commands of Open-Channel namespaces.
    pub open_channel: &'static Table<IoExecute>,
    /// I/O commands of key-value namespaces.
    pub key_value: &'static Table<IoExecute>,
    /// I/O commands of memory namespaces.
    pub memory: &'static Table<IoExecute>,
    /// I/O commands of compute namespaces.
    pub compute: &'static Table<IoExecute>,
    pub admin: &'static Table<AdminExecute>,
}

/// A controller of a subsystem, to act on: its own parts, and those that it shares with others.
/// Made by [`crate::Subsystem::controller`].
#[derive(Debug)]
pub struct ControllerMut<'a> {
    /// The drive's side, which all controllers share.
    pub(crate) io: &'a mut Io,
    /// The host's side.
    pub(crate) host: &'a mut Host,
    pub(crate) formatting: &'a mut Formatting,
    pub(crate) vendor: &'a mut Vendor,
    pub(crate) chunk_notifications: &'a mut Notifications,
    /// True if no other controller is enabled.
    pub(crate) alone: bool,
    /// The supported commands.
    pub(crate) commands: &'static Commands,
}

impl ControllerMut<'_> {
    /// Ends the commands of its host that end without the drive.
    pub(crate) fn end_ended(&mut self, memory: &dyn Memory) {
        let id = self.host.id;
        let all = std::mem::take(&mut self.io.commands.ended);
        let (mine, others) = all.into_iter().partition(|(command, _)| command.controller == id);
        self.io.commands.ended = others;
        let mine: Vec<(CommandId, StatusCode)> = mine;
        for (command, why) in mine {
            self.host.post_failure(memory, command, why.into(), 0, 0);
        }
        for Done { command, nsid, result } in self.io.commands.slots.work.take_ended(id) {
            match result {
                Ok(result) => self.host.post(memory, command, 0, result),
                Err(why) => self.host.post_failure(memory, command, why.into(), nsid, 0),
            }
        }
    }

    /// Checks that its host's path reaches the namespaces now.
    pub(crate) fn check_access(&self) -> Result<(), Failure> {
        match self.io.access.ana.state(self.host.path).refusal() {
            Some(status) => Err(status.at(location::NSID)),
            None => Ok(()),
        }
    }

    /// The features that its host has set.
    pub(crate) fn features(&self) -> &Features {
        self.io.features(self.host.id)
    }

    /// Returns the features that the host has set, to change them.
    pub(crate) fn features_mut(&mut self) -> &mut Features {
        self.io.features.of_mut(self.host.id)
    }

    /// Goes on with a Get LBA Status that scans, or ends it.
    pub(crate) fn go_on_scan(&mut self, memory: &dyn Memory, id: CommandId) {
        let step = self.io.go_on_scan(id);
        if step == Step::GoesOn {
            return;
        }
        let Some(Scan { nsid, found, segments, room, .. }) = self.io.background.lba_scans.end(id)
        else {
            return;
        };
        let data = found.to_bytes();
        let fits = data.len().min(room as usize);
        let sent = match step {
            Step::Gone => Err(StatusCode::FormatInProgress.into()),
            _ => scatter(memory, &segments, &data[..fits]).map_err(Failure::from),
        };
        self.io.commands.buffers.give_segments(segments);
        match sent {
            Ok(()) => self.host.post(memory, id, 0, 0),
            Err(failure) => self.host.post_failure(memory, id, failure, nsid, 0),
        }
    }

    /// Goes on with the scans that waited for room.
    pub(crate) fn go_on_scans(&mut self, memory: &dyn Memory) {
        // A scan asks the drive, or ends: each once at most.
        for _ in 0..MAX_SCANS {
            if !self.io.commands.slots.requests.has_room(1) {
                return;
            }
            let Some(id) = self.io.background.lba_scans.waiting(self.host.id) else { return };
            self.go_on_scan(memory, id);
        }
    }

    /// Goes on with a list, or ends it.
    pub(crate) fn go_on_lists(&mut self, memory: &dyn Memory) {
        let Some(list) = self.io.commands.slots.lists.next(self.host.id) else { return };
        let (id, nsid) = (list.command.id(), list.command.nsid);
        match self.io.go_on_list(memory, list) {
            Ok(true) => self.host.post(memory, id, 0, 0),
            Ok(false) => {}
            Err(failure) => self.host.post_failure(memory, id, failure, nsid, 0),
        }
    }

    /// Goes on with a format that waited for room.
    pub(crate) fn go_on_formatting(&mut self, memory: &dyn Memory) {
        self.formatting.go_on(self.io, self.host, memory);
    }

    /// Reports critical warnings to a host that requested events of them.
    pub(crate) fn check_warnings(&mut self, memory: &dyn Memory) {
        let asked = self.features().asked_warnings(&self.io.condition);
        self.host.check_warnings(memory, asked);
    }

    /// Reports the changes of the namespaces.
    pub(crate) fn report_changes(&mut self, memory: &dyn Memory) {
        let Access { attachments, reservations, .. } = &self.io.access;
        let changes = &self.io.reports.changes;
        if self.host.seen_changes != changes.count() {
            let features = self.io.features(self.host.id);
            let audience = (features, reservations.host_of(self.host.id));
            self.host.report_changes(memory, changes, audience, attachments);
        }
    }
}
