//! Notifications of chunks that the drive changed itself (OCSSD 2.0 section 3.3).

use std::collections::VecDeque;

use stasis_nvme_layout::open_channel::ChunkNotification;
use stasis_nvme_layout::IntoBytes;

use crate::PAGE_SIZE;

/// Notifications that are kept: those of a page.
const MAX_NOTIFICATIONS: usize = PAGE_SIZE / size_of::<ChunkNotification>();
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
    entries: VecDeque<ChunkNotification>,
    count: u64,
}

impl Notifications {
    /// Something of namespace `nsid` at `lba` was lost.
    pub fn add(&mut self, nsid: u32, lba: u64, about: About) {
        self.count += 1;
        let (mask, last) = match about {
            // More than the field has are its largest number.
            About::Sectors(count) => {
                (1, u16::try_from(count.saturating_sub(1)).unwrap_or(u16::MAX))
            }
            About::Chunk => (1 << 1, 0),
        };
        let entry = ChunkNotification {
            nc: self.count.into(),
            lba: lba.into(),
            nsid: nsid.into(),
            state: UNRECOVERABLE,
            mask,
            nlb: last.into(),
            ..Default::default()
        };
        if self.entries.len() == MAX_NOTIFICATIONS {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// The log page.
    pub fn to_page(&self) -> Vec<u8> {
        let mut page: Vec<u8> =
            self.entries.iter().flat_map(|entry| entry.as_bytes()).copied().collect();
        page.resize(PAGE_SIZE, 0);
        page
    }
}
