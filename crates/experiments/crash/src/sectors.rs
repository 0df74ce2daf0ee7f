//! Contents of sectors, each kept once and known by its number.

use std::collections::HashMap;

use twox_hash::XxHash3_64;

/// Atomic unit of writes to a disk (bytes).
pub const SECTOR: usize = stasis_block::SECTOR as usize;

/// Contents of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content(u32);

impl Content {
    /// Zeroes.
    pub const ZERO: Self = Self(0);

    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }
}

/// Every content that was met.
#[derive(Debug)]
pub struct Contents {
    bytes: Vec<u8>,
    known: HashMap<u64, u32>,
}

impl Default for Contents {
    fn default() -> Self {
        let mut contents = Self { bytes: Vec::new(), known: HashMap::new() };
        contents.find(&[0; SECTOR]);
        contents
    }
}

impl Contents {
    /// The content of `sector`, which has [`SECTOR`] bytes; a shorter one is
    /// filled up with zeroes.
    pub fn find(&mut self, sector: &[u8]) -> Content {
        let mut whole = [0; SECTOR];
        let sector: &[u8; SECTOR] = match sector.try_into() {
            Ok(sector) => sector,
            Err(_) => {
                let length = sector.len().min(SECTOR);
                whole[..length].copy_from_slice(&sector[..length]);
                &whole
            }
        };
        // Different contents of one hash take the next ones.
        let mut hash = XxHash3_64::oneshot(sector);
        while let Some(&number) = self.known.get(&hash) {
            if self.bytes(Content(number)) == sector {
                return Content(number);
            }
            hash = hash.wrapping_add(1);
        }
        let number = (self.bytes.len() / SECTOR) as u32;
        self.bytes.extend_from_slice(sector);
        self.known.insert(hash, number);
        Content(number)
    }

    /// The bytes of a content.
    pub fn bytes(&self, content: Content) -> &[u8] {
        let start = content.0 as usize * SECTOR;
        self.bytes.get(start..start + SECTOR).unwrap_or(&[0; SECTOR])
    }
}
