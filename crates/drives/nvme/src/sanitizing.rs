//! The sanitize operation under way (NVMe 2.0 section 8.21): the bytes of all namespaces go, piece by
//! piece, in the background. It outlives resets and, begun anew, the loss of power.

use stasis_block::{Command, Operation, Status};
use stasis_nvme_layout::logs::SanitizeLog;

use crate::changes::Change;
use crate::config::Namespace;
use crate::controller_id::ControllerId;
use crate::event_log::Occurrence;
use crate::io::Io;
use crate::kept::{KeptSanitize, Standing};
use crate::narrow::size;
use crate::sanitize::{field, passes, Action, Running, Step};
use crate::self_test::ended;
use crate::slots::{Owner, Purpose, Slot};

/// Maximum number of bytes of a request that moves no data.
const PIECE: u64 = 1 << 30;
/// Maximum number of bytes of a request that overwrites.
const OVERWRITTEN: u64 = 256 << 10;

impl Io {
    /// Begins an operation, whose command was checked.
    pub fn begin_sanitize(&mut self, dword10: u32, pattern: u32) {
        let nsids: Vec<u32> = self.namespaces.nsids_on_drive().collect();
        // The memory of programs is of the drive's contents.
        self.clear_memory();
        self.erasing_ends_self_test(&nsids, ended::BY_SANITIZE);
        let bytes: u64 = nsids.iter().map(|&nsid| self.namespaces.capacity(nsid)).sum();
        let times = match Action::of(dword10) {
            Some(Action::Overwrite) => passes(dword10),
            _ => 1,
        };
        let total = bytes.saturating_mul(times.into());
        self.background.sanitize.last =
            KeptSanitize { standing: Standing::UnderWay, dword10, pattern, erased: false };
        self.background.sanitize.running = Some(Running {
            nsids,
            at: 0,
            offset: 0,
            step: Step::Erase,
            done: 0,
            total,
            passed: 0,
            asked: false,
        });
        self.reports.changes.add(Change::Sanitize { ended: false });
        self.go_on_sanitize();
    }

    /// Leaves the failure of the last operation.
    pub fn exit_sanitize_failure(&mut self) {
        self.background.sanitize.last.standing = Standing::Never;
        self.reports.changes.add(Change::Sanitize { ended: false });
    }

    /// Resumes the state that was kept: an operation that was under way begins anew.
    pub fn restore_sanitize(&mut self, kept: KeptSanitize) {
        self.background.sanitize.last = kept;
        if kept.standing == Standing::UnderWay {
            self.begin_sanitize(kept.dword10, kept.pattern);
        }
    }

    /// Asks the drive for the next piece, once all commands that were begun before are done, if
    /// there is room.
    pub fn go_on_sanitize(&mut self) {
        let Some(running) =
            self.background.sanitize.running.as_mut().filter(|running| !running.asked)
        else {
            return;
        };
        // Commands of hosts that were reset may still reach the drive.
        let of_host = |slot: &Slot| !matches!(slot.owner, Owner::SelfTest | Owner::Sanitize);
        let waiting = self.commands.slots.has_waiting() || self.commands.slots.work.is_clearing();
        if waiting || self.commands.slots.any(of_host) || !self.commands.slots.requests.has_room(1)
        {
            return;
        }
        let KeptSanitize { dword10, pattern, .. } = self.background.sanitize.last;
        let overwrites = Action::of(dword10) == Some(Action::Overwrite);
        while running.step != Step::Flush {
            let Some(&nsid) = running.nsids.get(running.at) else {
                (running.at, running.offset) = (0, 0);
                let deallocates = overwrites && dword10 & field::NO_DEALLOCATE == 0;
                running.step = match running.step {
                    Step::Erase if overwrites => {
                        running.passed += 1;
                        match running.passed < passes(dword10) {
                            true => Step::Erase,
                            false if deallocates => Step::Deallocate,
                            false => Step::Flush,
                        }
                    }
                    _ => Step::Flush,
                };
                continue;
            };
            let rest = self.namespaces.capacity(nsid).saturating_sub(running.offset);
            if rest == 0 {
                (running.at, running.offset) = (running.at + 1, 0);
                continue;
            }
            running.asked = true;
            let piece = self.slices.piece_of(&self.namespaces, nsid, PIECE);
            let (operation, most) = match running.step {
                Step::Erase if overwrites => (Operation::Write, OVERWRITTEN),
                Step::Erase => (self.config.erasure(), piece),
                Step::Deallocate | Step::Flush => (Operation::Discard, piece),
            };
            let command = Command::new(operation, running.offset, rest.min(most));
            let inverts = dword10 & field::INVERT != 0 && running.passed % 2 == 1;
            let word = if inverts { !pattern } else { pattern };
            let bytes = if operation == Operation::Write { size(command.length) } else { 0 };
            let mut data = if bytes > 0 { self.commands.buffers.take(bytes) } else { Vec::new() };
            for part in data.chunks_exact_mut(4) {
                part.copy_from_slice(&word.to_le_bytes());
            }
            let purpose = Purpose::Format;
            let slot = Slot { purpose, bytes, ..Slot::new(Owner::Sanitize, &command, nsid, 0) };
            self.send_request(0, slot, command, data);
            return;
        }
        match running.nsids.first() {
            Some(&nsid) => {
                running.asked = true;
                self.request_flush(0, nsid, Owner::Sanitize);
            }
            None => self.end_sanitize(Standing::Done),
        }
    }

    /// The drive has done a piece, or failed.
    pub fn sanitize_piece_done(&mut self, slot: &Slot, status: Status) {
        let Some(running) = &mut self.background.sanitize.running else { return };
        running.asked = false;
        if status != Status::Ok {
            return self.end_sanitize(Standing::Failed);
        }
        self.cache.done(slot);
        match running.step {
            Step::Flush => return self.end_sanitize(Standing::Done),
            Step::Erase => running.done += slot.length,
            Step::Deallocate => {}
        }
        running.offset += slot.length;
        self.go_on_sanitize();
    }

    fn end_sanitize(&mut self, standing: Standing) {
        let Some(running) = self.background.sanitize.running.take() else { return };
        self.background.sanitize.last.standing = standing;
        if standing == Standing::Done {
            self.background.sanitize.last.erased = true;
            for nsid in running.nsids {
                if let Some(format) = self.namespaces.get(nsid).map(Namespace::format) {
                    self.namespaces.format(nsid, format);
                }
            }
        }
        let SanitizeLog { sprog, sstat, .. } = self.background.sanitize.to_page();
        let event = Occurrence::SanitizeCompletion { progress: sprog.get(), status: sstat.get() };
        self.log_event(ControllerId::PCIE, &event);
        self.reports.changes.add(Change::Sanitize { ended: true });
    }

    /// A request of a host has given blocks new contents: not all is erased any more.
    pub fn end_erased(&mut self, slot: &Slot) {
        let writes =
            matches!(slot.operation, Operation::Write | Operation::WriteZeroes | Operation::Copy);
        if writes && std::mem::take(&mut self.background.sanitize.last.erased) {
            self.reports.changes.add(Change::Sanitize { ended: false });
        }
    }
}
