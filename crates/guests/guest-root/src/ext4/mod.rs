//! The file system ext4, as far as a root needs it: written as an image that a guest mounts
//! read-only, and read from a user's image.
//!
//! Numbers are those of Linux, Documentation/filesystems/ext4.

mod inode;
mod layout;
mod names;
pub(crate) mod read;
mod tables;
pub(crate) mod write;

/// Place of the superblock, and its length.
pub(crate) const SUPERBLOCK: u64 = 1024;
pub(crate) const SUPERBLOCK_SIZE: usize = 1024;
/// Its mark, and where it is in the superblock.
pub(crate) const MAGIC: u16 = 0xef53;
pub(crate) const MAGIC_AT: usize = 0x38;
/// The folder `/`.
pub(crate) const ROOT_INODE: u32 = 2;
/// Bytes of a block of an image that is written.
const BLOCK: u64 = 4096;
/// Mark of an extents' node (ext4/ifork.rst).
const EXTENT_MAGIC: u16 = 0xf30a;
/// The longest extent in blocks; a larger number means that the extent is not written.
const MAX_EXTENT: u64 = 32_768;
/// Mark with which an inode's attributes begin (ext4/attributes.rst), and the number that stands
/// for `security.`.
const ATTRIBUTES_MAGIC: u32 = 0xea02_0000;
const SECURITY: u8 = 6;
const CAPABILITY: &[u8] = b"capability";

/// Types of files in an inode's mode (stat(2)).
mod kind {
    pub(crate) const PIPE: u16 = 0x1000;
    pub(crate) const CHARACTER: u16 = 0x2000;
    pub(crate) const FOLDER: u16 = 0x4000;
    pub(crate) const BLOCK: u16 = 0x6000;
    pub(crate) const FILE: u16 = 0x8000;
    pub(crate) const LINK: u16 = 0xa000;
    pub(crate) const SOCKET: u16 = 0xc000;
    pub(crate) const MASK: u16 = 0xf000;
}

/// Flags of an inode.
mod flag {
    pub(crate) const ENCRYPTED: u32 = 0x800;
    pub(crate) const EXTENTS: u32 = 0x8_0000;
}

/// Features that a reader must support.
mod incompat {
    pub(crate) const FILE_TYPE: u32 = 0x2;
    pub(crate) const RECOVER: u32 = 0x4;
    pub(crate) const EXTENTS: u32 = 0x40;
    pub(crate) const SIXTY_FOUR_BIT: u32 = 0x80;
    pub(crate) const FLEX_GROUPS: u32 = 0x200;
    pub(crate) const SUM_SEED: u32 = 0x2000;
    pub(crate) const LARGE_FOLDER: u32 = 0x4000;
    /// The supported features.
    pub(crate) const KNOWN: u32 =
        FILE_TYPE | EXTENTS | SIXTY_FOUR_BIT | FLEX_GROUPS | SUM_SEED | LARGE_FOLDER;
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    stasis_layout::u16_at(bytes, at).unwrap_or(0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    stasis_layout::u32_at(bytes, at).unwrap_or(0)
}
