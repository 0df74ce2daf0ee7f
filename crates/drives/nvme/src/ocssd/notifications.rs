//! Notifications of chunks that the drive changed itself (OCSSD 2.0 section 3.3).

use std::collections::VecDeque;

use crate::PAGE_SIZE;

/// Size of a notification in bytes.
const NOTIFICATION: usize = 64;
/// Notifications that are kept: those of a page.
const MAX_NOTIFICATIONS: usize = PAGE_SIZE / NOTIFICATION;
/// State of a notification: the sectors or the chunk can no longer be read or written.
const UNRECOVERABLE: u8 = 1 << 3;

/// The subject of a notification.
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
        if self.entries.len() == MAX_NOTIFICATIONS {
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
