//! The log's first two pages: the identity of the log, and the place of its records.
//!
//! The two are written in turns, so that one of them stays intact whatever part of the other a
//! power cut tears.

use crate::record::{word32, word64, PAGE};

/// The version of the log's format that is written, and the newest that is
/// read.
pub const VERSION: u32 = 1;

/// Bytes in front of the records.
pub const SUPERBLOCKS: u64 = 2 * PAGE;

const MAGIC: [u8; 16] = *b"stasis ordered\r\n";
const LENGTH: usize = 96;

/// Identifies the host's boot: data written before a crash of the program alone is still in the
/// host's page cache.
pub type Boot = [u8; 16];

/// Value where the host does not report its boot: no boot is the same.
pub const UNKNOWN: Boot = [0; 16];

/// Content of the newest superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Number of superblocks written before.
    pub generation: u64,
    /// Number of the disk's opening that the records from `tail` on belong to.
    pub incarnation: u64,
    /// The disk's size (bytes).
    pub capacity: u64,
    /// Bytes for records.
    pub ring: u64,
    /// Everything before this address is in the disk's own file.
    pub tail: u64,
    /// The epoch that begins there.
    pub epoch: u64,
    /// Boot of the host in which the records are written.
    pub boot: Boot,
    /// True if the disk was closed: the log has no records.
    pub clean: bool,
}

/// Fault of a page that is no superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSuperblock {
    /// Nothing that was ever a superblock, or a torn one.
    Damaged,
    /// One of a newer version of the format.
    Newer(u32),
}

impl Superblock {
    /// Offset of its page, one of two, in the log (bytes).
    pub fn place(&self) -> u64 {
        self.generation % 2 * PAGE
    }

    /// As it is written: a page.
    pub fn encode(&self) -> [u8; PAGE as usize] {
        let mut page = [0; PAGE as usize];
        page[..16].copy_from_slice(&MAGIC);
        page[16..20].copy_from_slice(&VERSION.to_le_bytes());
        page[20] = u8::from(self.clean);
        let words =
            [self.generation, self.incarnation, self.capacity, self.ring, self.tail, self.epoch];
        for (place, word) in page[24..72].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        page[72..88].copy_from_slice(&self.boot);
        let own = crc32fast::hash(&page[..LENGTH - 4]);
        page[LENGTH - 4..LENGTH].copy_from_slice(&own.to_le_bytes());
        page
    }

    /// The superblock that a page holds.
    ///
    /// # Errors
    /// [`NoSuperblock`] if it holds none that is understood.
    pub fn decode(page: &[u8]) -> Result<Self, NoSuperblock> {
        if page.len() < LENGTH || page[..16] != MAGIC {
            return Err(NoSuperblock::Damaged);
        }
        // The place of the checksum in a newer version is unknown.
        let version = word32(page, 16);
        if version > VERSION {
            return Err(NoSuperblock::Newer(version));
        }
        if word32(page, LENGTH - 4) != crc32fast::hash(&page[..LENGTH - 4]) {
            return Err(NoSuperblock::Damaged);
        }
        let word = |index: usize| word64(page, 24 + 8 * index);
        let mut boot = [0; 16];
        boot.copy_from_slice(&page[72..88]);
        let superblock = Self {
            generation: word(0),
            incarnation: word(1),
            capacity: word(2),
            ring: word(3),
            tail: word(4),
            epoch: word(5),
            boot,
            clean: page[20] == 1,
        };
        let sound = superblock.ring >= PAGE && superblock.ring.is_multiple_of(PAGE);
        sound.then_some(superblock).ok_or(NoSuperblock::Damaged)
    }

    /// The newest of the superblocks in the log's first bytes.
    ///
    /// # Errors
    /// [`NoSuperblock`] if there is none.
    pub fn newest(bytes: &[u8]) -> Result<Self, NoSuperblock> {
        let (first, second) = bytes.split_at(bytes.len().min(PAGE as usize));
        match (Self::decode(first), Self::decode(second)) {
            (Err(NoSuperblock::Newer(version)), _) | (_, Err(NoSuperblock::Newer(version))) => {
                Err(NoSuperblock::Newer(version))
            }
            (Ok(one), Ok(other)) => Ok(if one.generation > other.generation { one } else { other }),
            (Ok(superblock), _) | (_, Ok(superblock)) => Ok(superblock),
            (Err(why), Err(_)) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock(generation: u64) -> Superblock {
        let boot = *b"0123456789abcdef";
        Superblock {
            generation,
            incarnation: 7,
            capacity: 1 << 30,
            ring: 1 << 20,
            tail: 9,
            epoch: 3,
            boot,
            clean: true,
        }
    }

    #[test]
    fn the_newest_sound_head_counts() {
        let mut bytes = [superblock(4).encode(), superblock(5).encode()].concat();
        assert_eq!(Superblock::newest(&bytes), Ok(superblock(5)));
        bytes[PAGE as usize + 40] ^= 1;
        assert_eq!(Superblock::newest(&bytes), Ok(superblock(4)));
        bytes[40] ^= 1;
        assert_eq!(Superblock::newest(&bytes), Err(NoSuperblock::Damaged));
        assert_eq!(Superblock::newest(&bytes[..50]), Err(NoSuperblock::Damaged));
    }

    #[test]
    fn a_newer_version_is_none_of_ours() {
        let mut bytes = [superblock(4).encode(), superblock(5).encode()].concat();
        bytes[16] = 2;
        assert_eq!(Superblock::newest(&bytes), Err(NoSuperblock::Newer(2)));
    }
}
