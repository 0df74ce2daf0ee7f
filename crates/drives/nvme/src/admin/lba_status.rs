//! Get LBA Status (NVM Command Set 1.0 section 5.2), and the LBA Status Information log (section
//! 4.1.4.1): blocks that may be unreadable.

use stasis_nvme_layout::logs::{LbaStatusLogHead, LbaStatusNamespace, LbaStatusRange};
use stasis_nvme_layout::IntoBytes;

use crate::command::{location, Dword, SubmissionEntry};
use crate::config::Config;
use crate::context::{AdminCommand, ControllerMut};
use crate::extent::Extent;
use crate::lba_status::{BlockList, Scan};
use crate::namespaces::Namespaces;
use crate::narrow::count32;
use crate::registered::{OF_NAMESPACE, SUPPORTED};
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

pub const GET_LBA_STATUS: AdminCommand = AdminCommand {
    opcode: 0x86,
    effects: SUPPORTED | OF_NAMESPACE,
    announced: |config, _| is_offered(config),
    identify: 1 << 9,
    counts_as: None,
    during_sanitize: false,
    execute: get_lba_status,
};

/// Addresses of chunks have holes.
fn is_offered(config: &Config) -> bool {
    !config.has_chunks()
}

/// Action Type, in Dword 13 (figure 50).
mod action {
    pub const SCAN: u8 = 0x10;
    pub const KNOWN: u8 = 0x11;
}

fn get_lba_status(
    controller: &mut ControllerMut,
    memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let io = &mut *controller.io;
    if !is_offered(&io.config) {
        return Err(StatusCode::InvalidOpcode.at(location::OPCODE));
    }
    let namespace = io.namespace(command.nsid)?;
    if !namespace.has_blocks() {
        return Err(StatusCode::InvalidCommandSet.at(location::NSID));
    }
    let lba = command.starting_lba();
    let length = u64::from(command.cdw13 & 0xffff);
    if lba >= namespace.blocks {
        return Err(StatusCode::LbaOutOfRange.at(location::CDW10).of_block(lba));
    }
    let blocks = if length == 0 { namespace.blocks - lba } else { length };
    let extent = Extent::new(namespace, lba, blocks, location::CDW10)?;
    let room = io.length_of(command.cdw12, location::CDW12)?;
    match command.cdw13.byte(3) {
        action::KNOWN => {
            let mut list = BlockList::new(room);
            let block = u64::from(namespace.stride());
            let mut at = extent.offset;
            let end = extent.offset + extent.length;
            while let Some((start, stop)) = io.namespaces.next_unreadable(command.nsid, at..end) {
                let (first, last) = (start / block, stop.div_ceil(block));
                if !list.add(first, last - first) {
                    break;
                }
                at = stop;
            }
            io.send_of(memory, command, &list.to_bytes(), room)?;
            Ok(Outcome::Done(0))
        }
        action::SCAN => {
            controller.check_access()?;
            let io = &mut *controller.io;
            if !io.background.lba_scans.has_room() {
                return Err(StatusCode::InternalError.into());
            }
            let segments = io.commands.buffers.segments_of(memory, command, room as usize)?;
            io.background.lba_scans.begin(Scan {
                id: command.id(),
                nsid: command.nsid,
                at: extent.offset,
                end: extent.offset + extent.length,
                found: BlockList::new(room),
                segments,
                room,
                asked: false,
            });
            controller.go_on_scan(memory, command.id());
            Ok(Outcome::Pending)
        }
        _ => Err(StatusCode::InvalidField.at(location::CDW13 + 3)),
    }
}

/// The log: of each namespace with such blocks the ranges that are known, which Get LBA Status
/// reports without a scan.
pub fn log_page(namespaces: &Namespaces) -> Vec<u8> {
    let mut data = Vec::new();
    let (mut elements, mut all) = (0u32, 0u64);
    for (nsid, namespace) in namespaces.iter() {
        let block = u64::from(namespace.stride());
        let ranges: Vec<_> = namespaces.unreadable(nsid).collect();
        if ranges.is_empty() {
            continue;
        }
        elements += 1;
        let element = LbaStatusNamespace {
            nsid: nsid.into(),
            nlrd: count32(ranges.len()).into(),
            // Recommended for Get LBA Status.
            ratype: action::KNOWN,
            ..Default::default()
        };
        data.extend(element.as_bytes());
        for (start, end) in ranges {
            let (first, last) = (start / block, end.div_ceil(block));
            all += last - first;
            let rnlb = u32::try_from(last - first).unwrap_or(u32::MAX).into();
            let range = LbaStatusRange { rslba: first.into(), rnlb, ..Default::default() };
            data.extend(range.as_bytes());
        }
    }
    let head = LbaStatusLogHead {
        lslplen: count32(size_of::<LbaStatusLogHead>() + data.len()).into(),
        nlslne: elements.into(),
        // Blocks in all; what was never scanned is not counted.
        estulb: u32::try_from(all).unwrap_or(u32::MAX).into(),
        lsgc: namespaces.unreadable_changes().into(),
        ..Default::default()
    };
    [head.as_bytes(), &data].concat()
}
