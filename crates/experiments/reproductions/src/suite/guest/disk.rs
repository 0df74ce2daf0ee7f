//! The virtual disk as the guest's kernel shows it.

use std::ops::Sub;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Bytes of the sectors in which the kernel counts (Documentation/block/stat.rst).
const SECTOR: u64 = 512;

/// The disk.
pub struct TestDisk {
    name: String,
}

/// Bytes read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transferred {
    pub read: u64,
    pub written: u64,
}

impl Sub for Transferred {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
        }
    }
}

impl TestDisk {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// The device of a partition, from 1 on.
    pub fn partition(&self, number: u32) -> PathBuf {
        PathBuf::from(format!("/dev/{}{number}", self.name))
    }

    /// Returns the bytes transferred since the boot.
    pub fn moved(&self) -> Result<Transferred> {
        let file = format!("/sys/block/{}/stat", self.name);
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        moved(&text).with_context(|| format!("{file} says {text:?}"))
    }
}

/// The third and the seventh field are sectors.
fn moved(text: &str) -> Option<Transferred> {
    let mut fields = text.split_whitespace().map(|field| field.parse::<u64>().ok());
    let read = fields.nth(2)?? * SECTOR;
    let written = fields.nth(3)?? * SECTOR;
    Some(Transferred { read, written })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_taken_from_their_fields() {
        let text =
            "     218      225    24226     4431        7        0       16        0  0 1 2\n";
        assert_eq!(moved(text), Some(Transferred { read: 24226 * 512, written: 16 * 512 }));
        assert_eq!(moved("1 2 3 4 5 6"), None);
        assert_eq!(moved("1 2 x 4 5 6 7"), None);
    }
}
