//! The log's first two pages: the identity of the log, and the place of its records.
//!
//! The two are written in turns, so that one of them stays intact whatever part of the other a
//! power cut tears.

use std::mem::offset_of;

use stasis_layout::{layout, FromBytes, IntoBytes, U32, U64};

use crate::record::PAGE;

/// The version of the log's format that is written, and the newest that is
/// read.
pub const VERSION: u32 = 1;

/// Bytes in front of the records.
pub const SUPERBLOCKS: u64 = 2 * PAGE;

const MAGIC: [u8; 16] = *b"stasis ordered\r\n";

layout! {
    /// The first bytes of its page; the rest is zeroes.
    struct Form: 96 {
        /// [`MAGIC`].
        [0] magic: [u8; 16],
        /// [`VERSION`].
        [16] version: U32,
        /// 1 if the disk was closed.
        [20] clean: u8,
        [21] reserved21: [u8; 3],
        /// As of [`Superblock`], like the fields that follow.
        [24] generation: U64,
        [32] incarnation: U64,
        [40] capacity: U64,
        [48] ring: U64,
        [56] tail: U64,
        [64] epoch: U64,
        [72] boot: [u8; 16],
        [88] reserved88: [u8; 4],
        /// CRC-32 of the bytes before this field.
        [92] own: U32,
    }
}

impl Form {
    fn sum(&self) -> u32 {
        crc32fast::hash(&self.as_bytes()[..offset_of!(Form, own)])
    }
}

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

    /// Returns the superblock's bytes: a page.
    pub fn encode(&self) -> [u8; PAGE as usize] {
        let mut form = Form {
            magic: MAGIC,
            version: VERSION.into(),
            clean: self.clean.into(),
            generation: self.generation.into(),
            incarnation: self.incarnation.into(),
            capacity: self.capacity.into(),
            ring: self.ring.into(),
            tail: self.tail.into(),
            epoch: self.epoch.into(),
            boot: self.boot,
            ..Default::default()
        };
        form.own.set(form.sum());
        let mut page = [0; PAGE as usize];
        page[..size_of::<Form>()].copy_from_slice(form.as_bytes());
        page
    }

    /// The superblock that a page holds.
    ///
    /// # Errors
    /// [`NoSuperblock`] if it holds none that is understood.
    pub fn decode(page: &[u8]) -> Result<Self, NoSuperblock> {
        let form = Form::ref_from_prefix(page).map(|(form, _)| form);
        let form = form.ok().filter(|form| form.magic == MAGIC).ok_or(NoSuperblock::Damaged)?;
        // The place of the checksum in a newer version is unknown.
        if form.version > VERSION {
            return Err(NoSuperblock::Newer(form.version.get()));
        }
        if form.own != form.sum() {
            return Err(NoSuperblock::Damaged);
        }
        let superblock = Self {
            generation: form.generation.get(),
            incarnation: form.incarnation.get(),
            capacity: form.capacity.get(),
            ring: form.ring.get(),
            tail: form.tail.get(),
            epoch: form.epoch.get(),
            boot: form.boot,
            clean: form.clean == 1,
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

    /// Disks of other versions of this program have the same form.
    #[test]
    fn the_form_is_kept() {
        let page = superblock(4).encode();
        assert_eq!(page[..24], *b"stasis ordered\r\n\x01\0\0\0\x01\0\0\0");
        let numbers = [4, 7, 1 << 30, 1 << 20, 9, 3u64].map(u64::to_le_bytes).concat();
        assert_eq!(page[24..72], numbers);
        assert_eq!(page[72..92], *b"0123456789abcdef\0\0\0\0");
        assert_eq!(page[92..96], crc32fast::hash(&page[..92]).to_le_bytes());
        assert!(page[96..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_newer_version_is_none_of_ours() {
        let mut bytes = [superblock(4).encode(), superblock(5).encode()].concat();
        bytes[16] = 2;
        assert_eq!(Superblock::newest(&bytes), Err(NoSuperblock::Newer(2)));
    }
}
