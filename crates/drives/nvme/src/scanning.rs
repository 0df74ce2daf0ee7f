//! The steps of a Get LBA Status that scans: the drive verifies blocks piece by piece.

use stasis_block::{Command, Operation, Status};

use crate::command::CommandId;
use crate::io::Io;
use crate::slots::{Owner, Purpose, Slot};

/// Maximum number of bytes of a request to the drive.
const PIECE: u64 = 1 << 30;

/// State of a scan after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The drive has the next request, or there is no room for it yet.
    GoesOn,
    /// The scan has ended.
    Ended,
    /// Its namespace cannot be accessed any more.
    Gone,
}

impl Io {
    /// Goes on with a scan: adds what is known of the next blocks, and asks the drive for others.
    pub fn go_on_scan(&mut self, id: CommandId) -> Step {
        let Self { background, namespaces, commands, slices, .. } = self;
        let Some(scan) = background.lba_scans.of_mut(id).filter(|scan| !scan.asked) else {
            return Step::GoesOn;
        };
        let Ok(namespace) = namespaces.accessible(scan.nsid) else { return Step::Gone };
        let block = u64::from(namespace.stride());
        while scan.at < scan.end {
            let known = namespaces.next_unreadable(scan.nsid, scan.at..scan.end);
            if let Some((start, end)) = known.filter(|known| known.0 <= scan.at) {
                let (first, last) = (start.max(scan.at) / block, end.div_ceil(block));
                if !scan.found.add(first, last - first) {
                    return Step::Ended;
                }
                scan.at = end.next_multiple_of(block);
                continue;
            }
            if !commands.slots.requests.has_room(1) {
                return Step::GoesOn;
            }
            let end = known.map_or(scan.end, |(start, _)| start);
            let length = (end - scan.at).min(slices.piece(PIECE));
            scan.asked = true;
            let verify = Command::new(Operation::Verify, scan.at, length);
            let (purpose, nsid) = (Purpose::Format, scan.nsid);
            let slot = Slot { purpose, ..Slot::new(Owner::Scan(id), &verify, nsid, 0) };
            self.request(0, slot, verify);
            return Step::GoesOn;
        }
        Step::Ended
    }

    /// The drive has verified a piece, or found a byte that cannot be read.
    pub fn scan_piece_done(&mut self, id: CommandId, slot: &Slot, status: Status, failed_at: u64) {
        let Self { background, namespaces, .. } = self;
        let Some(scan) = background.lba_scans.of_mut(id) else { return };
        scan.asked = false;
        scan.at = slot.offset + slot.length;
        if status != Status::Ok {
            // The block is known now, and is in the list at the next step.
            let failed = slot.offset + failed_at.min(slot.length.saturating_sub(1));
            scan.at = failed / namespaces.stride(slot.nsid) * namespaces.stride(slot.nsid);
            if !namespaces.note_unreadable(slot.nsid, failed) {
                let block = namespaces.stride(slot.nsid);
                if scan.found.add(scan.at / block, 1) {
                    scan.at += block;
                } else {
                    scan.end = scan.at;
                }
            }
        }
    }
}
