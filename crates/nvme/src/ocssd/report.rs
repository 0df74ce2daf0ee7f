//! What a host is told of the geometry, and of chunks (OCSSD 2.0 sections 2.1,
//! 3.2 and 3.3).

use std::collections::VecDeque;

use crate::command::{location, SubmissionEntry};
use crate::commands::{Registered, SUPPORTED};
use crate::controller::Controller;
use crate::status::{Failure, Outcome, StatusCode};
use crate::{Memory, PAGE_SIZE};

use super::has_chunks;
use super::set::{ChunkSet, State};

/// Size of a chunk descriptor in bytes.
pub const DESCRIPTOR: usize = 32;
/// Size of a notification in bytes.
const NOTIFICATION: usize = 64;
/// Notifications that are kept: those of a page.
const MOST: usize = PAGE_SIZE / NOTIFICATION;
/// State of a notification: what it is about cannot be read or written any
/// more.
const UNRECOVERABLE: u8 = 1 << 3;

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// So many sectors.
    Sectors(u32),
    /// A chunk.
    Chunk,
}

/// The last notifications, oldest first.
#[derive(Debug, Default)]
pub struct Notifications {
    entries: VecDeque<[u8; NOTIFICATION]>,
    count: u64,
}

impl Notifications {
    /// Something of namespace `nsid` at `lba` was lost.
    pub fn add(&mut self, nsid: u32, lba: u64, about: About) {
        self.count += 1;
        let (mask, last) = match about {
            About::Sectors(count) => (1, count.saturating_sub(1) as u16),
            About::Chunk => (1 << 1, 0),
        };
        let mut entry = [0; NOTIFICATION];
        entry[0..8].copy_from_slice(&self.count.to_le_bytes());
        entry[8..16].copy_from_slice(&lba.to_le_bytes());
        entry[16..20].copy_from_slice(&nsid.to_le_bytes());
        entry[20] = UNRECOVERABLE;
        entry[22] = mask;
        entry[32..34].copy_from_slice(&last.to_le_bytes());
        if self.entries.len() == MOST {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// The log page.
    pub fn to_page(&self) -> Vec<u8> {
        let mut page: Vec<u8> = self.entries.iter().flatten().copied().collect();
        page.resize(PAGE_SIZE, 0);
        page
    }
}

pub const GEOMETRY: Registered = Registered {
    opcode: 0xe2,
    effects: SUPPORTED,
    announced: has_chunks,
    identify: 0,
    counts_as: None,
    execute: |controller, memory, _, command| controller.geometry(memory, command),
};

impl Controller {
    /// Geometry: an admin command; on other namespaces its opcode is the drive's.
    fn geometry(
        &mut self,
        memory: &dyn Memory,
        command: &SubmissionEntry,
    ) -> Result<Outcome, Failure> {
        let Some(set) = self.chunks(command.nsid) else {
            return self.vendor_command(memory, command);
        };
        let page = geometry_page(set);
        self.send(memory, command, &page)?;
        Ok(Outcome::Done(0))
    }

    /// The bytes of the Chunk Information log from `offset` on.
    pub(crate) fn chunk_information(
        &self,
        command: &SubmissionEntry,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, Failure> {
        let set = self.chunks(command.nsid);
        let set = set.ok_or(StatusCode::InvalidNamespace.at(location::NSID))?;
        let end = (set.chunks().len() * DESCRIPTOR) as u64;
        if offset > end {
            return Err(StatusCode::InvalidField.at(location::CDW12));
        }
        let first = (offset / DESCRIPTOR as u64) as usize;
        let skipped = (offset % DESCRIPTOR as u64) as usize;
        let count = (skipped + length).div_ceil(DESCRIPTOR);
        let last = set.chunks().len().min(first + count);
        let log: Vec<u8> = (first..last).flat_map(|index| descriptor(set, index)).collect();
        Ok(log[skipped.min(log.len())..].to_vec())
    }
}

/// Chunk descriptor.
pub fn descriptor(set: &ChunkSet, index: usize) -> [u8; DESCRIPTOR] {
    // Chunk Type: to be written in order.
    const SEQUENTIAL: u8 = 1;
    let chunk = &set.chunks()[index];
    let pointer = match chunk.state {
        State::Offline => u64::MAX,
        _ => chunk.written.into(),
    };
    let mut raw = [0; DESCRIPTOR];
    raw[0] = chunk.state as u8;
    raw[1] = SEQUENTIAL;
    raw[2] = set.wear(index);
    raw[8..16].copy_from_slice(&set.start(index).to_le_bytes());
    raw[16..24].copy_from_slice(&u64::from(set.config.sectors).to_le_bytes());
    raw[24..32].copy_from_slice(&pointer.to_le_bytes());
    raw
}

/// Geometry data structure, by its byte offsets.
fn geometry_page(set: &ChunkSet) -> [u8; PAGE_SIZE] {
    // Media and Controller Capabilities: Vector Chunk Copy.
    const VECTOR_COPY: u32 = 1;
    let config = &set.config;
    let bits = config.bits();
    let mut page = [0; PAGE_SIZE];
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    // Version 2.0; bits of group, unit, chunk and sector in an address.
    put(0, &[2, 0]);
    put(8, &[bits.group, bits.unit, bits.chunk, bits.sector]);
    put(16, &VECTOR_COPY.to_le_bytes());
    put(64, &config.groups.to_le_bytes());
    put(66, &config.units.to_le_bytes());
    put(68, &config.chunks.to_le_bytes());
    put(72, &config.sectors.to_le_bytes());
    put(128, &config.write_min.to_le_bytes());
    put(132, &config.write_optimal.to_le_bytes());
    put(136, &config.cached.to_le_bytes());
    // 0: no limit.
    put(140, &config.max_open.unwrap_or(0).to_le_bytes());
    put(144, &config.max_open_per_unit.unwrap_or(0).to_le_bytes());
    page
}
