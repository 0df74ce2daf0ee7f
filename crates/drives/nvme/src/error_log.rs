//! The log of errors (NVMe 1.4 section 5.14.1.1).

use stasis_nvme_layout::logs::ErrorEntry;
use stasis_nvme_layout::IntoBytes;

use crate::command::CommandId;
use crate::config::MAX_NAMESPACES;
use crate::controller_id::ControllerId;

/// Entries of the error log: Error Log Page Entries, plus one.
pub const ERROR_LOG_ENTRIES: usize = 64;

/// The command of an error that no command has.
pub const NO_COMMAND: CommandId =
    CommandId { controller: ControllerId::PCIE, sq: 0xffff, cid: 0xffff };

/// The last failures, oldest first in a ring.
#[derive(Debug)]
pub struct ErrorLog {
    entries: Box<[ErrorEntry; ERROR_LOG_ENTRIES]>,
    next: usize,
    /// Entries ever made.
    count: u64,
    /// Errors of each namespace among them, from the first on.
    of_namespaces: Vec<u64>,
}

impl Default for ErrorLog {
    fn default() -> Self {
        Self {
            entries: Box::new([ErrorEntry::default(); ERROR_LOG_ENTRIES]),
            next: 0,
            count: 0,
            of_namespaces: Vec::new(),
        }
    }
}

impl ErrorLog {
    /// Adds a failure, over the oldest entry if need be: the status field of the command's
    /// completion with its phase.
    pub fn add(
        &mut self,
        id: CommandId,
        (status, phase): (u16, bool),
        parameter: u16,
        nsid: u32,
        lba: u64,
    ) {
        self.count += 1;
        if let Some(index) = (nsid as usize).checked_sub(1).filter(|index| *index < MAX_NAMESPACES)
        {
            if self.of_namespaces.len() <= index {
                self.of_namespaces.resize(index + 1, 0);
            }
            self.of_namespaces[index] += 1;
        }
        self.entries[self.next] = ErrorEntry {
            error_count: self.count.into(),
            sqid: id.sq.into(),
            cid: id.cid.into(),
            status: (status << 1 | u16::from(phase)).into(),
            location: parameter.into(),
            lba: lba.into(),
            nsid: nsid.into(),
            ..Default::default()
        };
        self.next = (self.next + 1) % ERROR_LOG_ENTRIES;
    }

    /// Entries ever made.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of errors of a namespace.
    pub fn count_of(&self, nsid: u32) -> u64 {
        let index = (nsid as usize).checked_sub(1);
        index.and_then(|index| self.of_namespaces.get(index)).copied().unwrap_or(0)
    }

    /// The entries in words, the latest first: a line for each.
    pub fn to_text(&self) -> String {
        let line = |entry: &ErrorEntry| {
            let ErrorEntry { error_count, sqid, cid, status, nsid, lba, .. } = entry;
            let status = status.get() >> 1;
            format!(
                "error {error_count} queue {sqid} command {cid} status {status:#x} \
                 namespace {nsid} lba {lba}\n"
            )
        };
        self.latest_first().filter(|entry| entry.error_count > 0).map(line).collect()
    }

    /// The log page: the latest failure first.
    pub fn to_page(&self) -> Vec<u8> {
        self.latest_first().flat_map(|entry| entry.as_bytes()).copied().collect()
    }

    fn latest_first(&self) -> impl Iterator<Item = &ErrorEntry> {
        let (newer, older) = self.entries.split_at(self.next);
        newer.iter().rev().chain(older.iter().rev())
    }
}
