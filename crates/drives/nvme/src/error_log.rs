//! The log of errors (NVMe 1.4 section 5.14.1.1).

use crate::command::CommandId;
use crate::config::MAX_NAMESPACES;
use crate::controller_id::ControllerId;

/// Entries of the error log: Error Log Page Entries, plus one.
pub const ERROR_LOG_ENTRIES: usize = 64;
/// Size of an entry of the error log in bytes.
const ERROR_ENTRY: usize = 64;

/// The command of an error that no command has.
pub const NO_COMMAND: CommandId =
    CommandId { controller: ControllerId::PCIE, sq: 0xffff, cid: 0xffff };

/// The last failures, oldest first in a ring.
#[derive(Debug)]
pub struct ErrorLog {
    entries: Box<[[u8; ERROR_ENTRY]; ERROR_LOG_ENTRIES]>,
    next: usize,
    /// Entries ever made.
    count: u64,
    /// Errors of each namespace among them, from the first on.
    of_namespaces: Vec<u64>,
}

impl Default for ErrorLog {
    fn default() -> Self {
        Self {
            entries: Box::new([[0; ERROR_ENTRY]; ERROR_LOG_ENTRIES]),
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
        let entry = &mut self.entries[self.next];
        entry[0..8].copy_from_slice(&self.count.to_le_bytes());
        entry[8..10].copy_from_slice(&id.sq.to_le_bytes());
        entry[10..12].copy_from_slice(&id.cid.to_le_bytes());
        entry[12..14].copy_from_slice(&(status << 1 | u16::from(phase)).to_le_bytes());
        entry[14..16].copy_from_slice(&parameter.to_le_bytes());
        entry[16..24].copy_from_slice(&lba.to_le_bytes());
        entry[24..28].copy_from_slice(&nsid.to_le_bytes());
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
        let mut text = String::new();
        for entry in self.to_page().chunks_exact(ERROR_ENTRY) {
            let number = |at: usize, bytes: usize| {
                entry[at..at + bytes]
                    .iter()
                    .rev()
                    .fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
            };
            if number(0, 8) > 0 {
                text += &format!(
                    "error {} queue {} command {} status {:#x} namespace {} lba {}\n",
                    number(0, 8),
                    number(8, 2),
                    number(10, 2),
                    number(12, 2) >> 1,
                    number(24, 4),
                    number(16, 8)
                );
            }
        }
        text
    }

    /// The log page: the latest failure first.
    pub fn to_page(&self) -> Vec<u8> {
        let (after, before) = self.entries.split_at(self.next);
        after.iter().rev().chain(before.iter().rev()).flatten().copied().collect()
    }
}
