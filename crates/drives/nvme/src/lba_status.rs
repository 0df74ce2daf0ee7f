//! The state of logical blocks (NVM Command Set 1.0 section 5.2): those that may be unreadable. Some
//! are known, as Write Uncorrectable has marked them or a read has failed; a scan finds others.

use stasis_block::memory::Segment;
use stasis_nvme_layout::ranges::{LbaStatusEntry, LbaStatusHead};
use stasis_nvme_layout::IntoBytes;

use crate::command::CommandId;
use crate::controller_id::ControllerId;
use crate::narrow::count32;

/// Scans at a time.
pub const MAX_SCANS: usize = 8;
/// Head of the list, and each entry, in bytes.
const HEAD: usize = size_of::<LbaStatusHead>();
const DESCRIPTOR: usize = size_of::<LbaStatusEntry>();

/// Blocks that may be unreadable, for a command's data.
#[derive(Debug, Clone, Default)]
pub struct BlockList {
    // First block, and how many.
    ranges: Vec<(u64, u64)>,
    // The most there is room for.
    room: usize,
    is_cut_off: bool,
}

impl BlockList {
    /// An empty list for `bytes` bytes of data.
    pub fn new(bytes: u32) -> Self {
        let room = (bytes as usize).saturating_sub(HEAD) / DESCRIPTOR;
        Self { ranges: Vec::new(), room, is_cut_off: false }
    }

    /// Appends blocks. Returns whether there was room.
    pub fn add(&mut self, lba: u64, blocks: u64) -> bool {
        if let Some((first, count)) = self.ranges.last_mut() {
            if *first + *count == lba {
                *count += blocks;
                return true;
            }
        }
        self.is_cut_off |= self.ranges.len() >= self.room;
        if !self.is_cut_off {
            self.ranges.push((lba, blocks));
        }
        !self.is_cut_off
    }

    /// The data of Get LBA Status (figures 52 and 53).
    pub fn to_bytes(&self) -> Vec<u8> {
        const INCOMPLETE: u8 = 1;
        const COMPLETE: u8 = 2;
        let head = LbaStatusHead {
            nlsd: count32(self.ranges.len()).into(),
            cmpc: if self.is_cut_off { INCOMPLETE } else { COMPLETE },
            ..Default::default()
        };
        let mut raw = head.as_bytes().to_vec();
        for &(lba, blocks) in &self.ranges {
            let nlb = u32::try_from(blocks).unwrap_or(u32::MAX).into();
            let entry = LbaStatusEntry { dslba: lba.into(), nlb, ..Default::default() };
            raw.extend(entry.as_bytes());
        }
        raw
    }
}

/// A Get LBA Status that scans.
#[derive(Debug)]
pub struct Scan {
    pub id: CommandId,
    pub nsid: u32,
    /// The bytes of the namespace that are left, from the first to the end.
    pub at: u64,
    pub end: u64,
    pub found: BlockList,
    /// Destination of its data, and its room.
    pub segments: Vec<Segment>,
    pub room: u32,
    /// True if the drive has a request.
    pub asked: bool,
}

/// The scans under way.
#[derive(Debug, Default)]
pub struct Scans(Vec<Scan>);

impl Scans {
    /// Returns whether one more can begin.
    pub fn has_room(&self) -> bool {
        self.0.len() < MAX_SCANS
    }

    /// One begins.
    pub fn begin(&mut self, scan: Scan) {
        self.0.push(scan);
    }

    /// Returns the scan of a command.
    pub fn of_mut(&mut self, id: CommandId) -> Option<&mut Scan> {
        self.0.iter_mut().find(|scan| scan.id == id)
    }

    /// The command of one that has no request at the drive, of a controller.
    pub fn waiting(&self, controller: ControllerId) -> Option<CommandId> {
        let waits = |scan: &&Scan| !scan.asked && scan.id.controller == controller;
        self.0.iter().find(waits).map(|scan| scan.id)
    }

    /// Ends that of a command.
    pub fn end(&mut self, id: CommandId) -> Option<Scan> {
        let index = self.0.iter().position(|scan| scan.id == id)?;
        Some(self.0.swap_remove(index))
    }

    /// Ends those of a controller.
    pub fn reset(&mut self, controller: ControllerId) {
        self.0.retain(|scan| scan.id.controller != controller);
    }
}
