//! The command under way that erases namespaces, piece by piece: Format NVM (NVMe 1.4 section 5.23),
//! or the deletion of Namespace Management (NVMe 2.0 section 5.23).

use stasis_block::{Command, Operation, Status};

use crate::changes::Change;
use crate::command::CommandId;
use crate::controller_id::ControllerId;
use crate::event_log::Occurrence;
use crate::host::Host;
use crate::io::Io;
use crate::metadata::BlockFormat;
use crate::self_test::ended;
use crate::slots::{Owner, Purpose, Slot};
use crate::state::Access;
use crate::status::StatusCode;
use crate::Memory;

/// Select of Namespace Management: deletion.
pub const MANAGEMENT_DELETE: u32 = 1;
/// Maximum number of bytes of a request to the drive.
const PIECE: u64 = 1 << 30;

/// The command under way, if there is one. The namespaces' commands are refused meanwhile.
#[derive(Debug, Default)]
pub struct Formatting(Option<Format>);

#[derive(Debug)]
struct Format {
    id: CommandId,
    /// The namespaces concerned.
    nsids: Vec<u32>,
    /// The index of the one that is being erased.
    at: usize,
    then: Then,
    /// Range whose contents are gone, in bytes.
    erased: u64,
    erase: Operation,
    /// True if the drive has a request.
    asked: bool,
}

/// The fate of the namespaces once they are erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Gives the namespaces such blocks.
    Format(BlockFormat),
    /// Deletes the namespaces.
    Delete,
}

impl Formatting {
    /// Returns whether a command is under way.
    pub fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// The controller that the command came by, if one is under way.
    pub fn controller(&self) -> Option<ControllerId> {
        self.0.as_ref().map(|format| format.id.controller)
    }

    /// The command `id` begins: it erases the namespaces `nsids` by `erase`, and does `then`.
    pub fn begin(
        &mut self,
        io: &mut Io,
        id: CommandId,
        nsids: Vec<u32>,
        then: Then,
        erase: Operation,
    ) {
        let how = match then {
            Then::Format(_) => ended::BY_FORMAT,
            Then::Delete => ended::BY_REMOVAL,
        };
        io.erasing_ends_self_test(&nsids, how);
        io.namespaces.begin_format(nsids.clone());
        let (at, erased, asked) = (0, 0, false);
        self.0 = Some(Format { id, nsids, at, then, erased, erase, asked });
    }

    /// Drops the command if it came by `controller`. Data already erased is gone; the namespaces
    /// stay as they were.
    pub fn reset(&mut self, io: &mut Io, controller: ControllerId) {
        if self.controller() == Some(controller) {
            self.0 = None;
            io.namespaces.end_format();
        }
    }

    /// Asks the drive for the next piece, once all commands that were begun
    /// before are done.
    pub fn go_on(&mut self, io: &mut Io, host: &mut Host, memory: &dyn Memory) {
        let Some(format) = self.0.as_mut().filter(|format| format.id.controller == host.id) else {
            return;
        };
        if format.asked || !io.commands.slots.requests.has_room(1) {
            return;
        }
        // No request of a namespace may end in a later one of the same number.
        let deletes = format.then == Then::Delete;
        let waits = |slot: &Slot| deletes || slot.is_awaited();
        let stores = |nsid: &u32| io.commands.slots.waiting_length(*nsid).is_some();
        let waiting = format.nsids.iter().any(stores);
        if waiting || io.commands.slots.any(|slot| waits(slot) && format.nsids.contains(&slot.nsid))
        {
            return;
        }
        let Some(&nsid) = format.nsids.get(format.at) else {
            return self.end(io, host, memory);
        };
        let rest = io.namespaces.capacity(nsid) - format.erased;
        if rest > 0 {
            format.asked = true;
            let erase = Command::new(
                format.erase,
                format.erased,
                rest.min(io.slices.piece_of(&io.namespaces, nsid, PIECE)),
            );
            let slot = Slot {
                purpose: Purpose::Format,
                ..Slot::new(Owner::Format(host.id), &erase, nsid, 0)
            };
            return io.request(0, slot, erase);
        }
        (format.at, format.erased) = (format.at + 1, 0);
        self.go_on(io, host, memory);
    }

    /// The drive has done a piece.
    pub fn piece_done(
        &mut self,
        io: &mut Io,
        host: &mut Host,
        memory: &dyn Memory,
        slot: &Slot,
        status: Status,
    ) {
        let Some(format) = &mut self.0 else { return };
        format.asked = false;
        format.erased += slot.length;
        if status != Status::Ok {
            let (id, then) = (format.id, format.then);
            self.0 = None;
            io.namespaces.end_format();
            if then != Then::Delete {
                let status = StatusCode::WriteFault as u16;
                let event = Occurrence::FormatCompletion { nsid: slot.nsid, status };
                io.log_event(host.id, &event);
            }
            host.post_failure(memory, id, StatusCode::WriteFault.into(), slot.nsid, 0);
        }
    }

    /// Ends the command: every controller reports the namespaces that have changed or are gone.
    fn end(&mut self, io: &mut Io, host: &mut Host, memory: &dyn Memory) {
        let Some(Format { id, nsids, then, .. }) = self.0.take() else { return };
        io.namespaces.end_format();
        for nsid in nsids {
            match then {
                Then::Delete => {
                    if let Some(event) = io.namespace_event(MANAGEMENT_DELETE, nsid) {
                        io.log_event(host.id, &event);
                    }
                    io.delete_namespace(nsid);
                }
                Then::Format(format) => {
                    let event = Occurrence::FormatCompletion { nsid, status: 0 };
                    io.log_event(host.id, &event);
                    if io.namespaces.format(nsid, format) {
                        io.reports.changes.add(Change::Namespace(nsid));
                    }
                }
            }
        }
        let Access { attachments, reservations, .. } = &io.access;
        let audience = (io.features(host.id), reservations.host_of(host.id));
        host.report_changes(memory, &io.reports.changes, audience, attachments);
        host.post(memory, id, 0, 0);
    }
}
