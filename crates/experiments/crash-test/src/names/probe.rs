//! Which file system a disk has.

use super::btrfs::Btrfs;
use super::ext4::Ext4;
use super::xfs::{self, Xfs};

/// A file system whose blocks can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4, or ext2 and ext3, which have its layout.
    Ext4(Ext4),
    /// XFS.
    Xfs(Xfs),
    /// btrfs.
    Btrfs(Btrfs),
}

impl FileSystem {
    /// Returns the file system's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ext4(_) => "ext4",
            Self::Xfs(_) => "XFS",
            Self::Btrfs(_) => "btrfs",
        }
    }

    /// Size of what has one holder (bytes), a power of two of at least 512.
    pub fn unit(&self) -> u64 {
        match self {
            Self::Ext4(ext4) => ext4.block,
            // Records of its log begin anywhere.
            Self::Xfs(_) => xfs::UNIT,
            Self::Btrfs(btrfs) => btrfs.sector,
        }
    }
}

/// Bytes from the disk's beginning that hold every superblock looked for: btrfs' is the farthest.
const LOOKED_AT: usize = (64 << 10) + 4096;

/// Signatures of what has no files of its own: first byte, bytes, name. Those of libblkid.
const OTHERS: [(usize, &[u8], &str); 7] = [
    (0, b"LUKS\xba\xbe", "an encrypted disk (LUKS)"),
    (512, b"LABELONE", "a part of a volume group (LVM)"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0x400, b"\x10\x20\xf5\xf2", "the file system f2fs"),
    (0, b"-FVE-FS-", "an encrypted disk (BitLocker)"),
    (32, b"NXSB", "the file system APFS"),
    (512, b"EFI PART", "a partition table (GPT)"),
];

/// Place of each mark in its superblock: `include/uapi/linux/magic.h`, `fs/xfs/libxfs/xfs_format.h`
/// and `include/uapi/linux/btrfs_tree.h` of Linux.
const BTRFS: usize = (64 << 10) + 64;

/// Fills a buffer with a disk's bytes from an offset on.
type Read<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), String> + 'a;

/// The file system of a disk, from what `read` finds there.
///
/// # Errors
/// There is none, or none whose blocks can be named; the message says which.
pub fn probe(read: &mut Read<'_>) -> Result<FileSystem, String> {
    let mut start = vec![0; LOOKED_AT];
    // A small disk ends earlier.
    if read(0, &mut start).is_err() {
        start.truncate(8 << 10);
        read(0, &mut start)?;
    }
    let has = |at: usize, bytes: &[u8]| start.get(at..at + bytes.len()) == Some(bytes);
    let strange = |name: &str| format!("the superblock of {name} has impossible sizes");
    if has(0, b"XFSB") {
        return Xfs::read(&start).map(FileSystem::Xfs).ok_or_else(|| strange("XFS"));
    }
    if has(BTRFS, b"_BHRfS_M") {
        return Btrfs::read(&start).map(FileSystem::Btrfs).ok_or_else(|| strange("btrfs"));
    }
    if has(1024 + 0x38, b"\x53\xef") {
        return Ext4::read(&start).map(FileSystem::Ext4).ok_or_else(|| strange("ext4"));
    }
    let other = OTHERS.iter().find(|(at, bytes, _)| has(*at, bytes)).map(|(.., name)| *name);
    // A boot sector's signature (UEFI specification 2.10, 5.2.1) is that of some file systems, too.
    let other = other.or(has(510, b"\x55\xaa").then_some("a partition table or a boot sector"));
    Err(format!(
        "the disk has {}: only ext4, XFS and btrfs on a whole disk are looked into",
        other.unwrap_or("no file system that is known here")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(bytes: &[u8]) -> Result<FileSystem, String> {
        probe(&mut |offset, into| {
            let from = usize::try_from(offset).unwrap();
            let part = bytes.get(from..from + into.len()).ok_or("the disk ends")?;
            into.copy_from_slice(part);
            Ok(())
        })
    }

    #[test]
    fn what_is_not_looked_into_is_told() {
        let mut disk = vec![0; 128 << 10];
        let refusal = |disk: &[u8]| probed(disk).unwrap_err();
        assert!(refusal(&disk).contains("no file system that is known here: only ext4, XFS"));
        disk[510..512].copy_from_slice(b"\x55\xaa");
        assert!(refusal(&disk).contains("a partition table or a boot sector"));
        disk[512..520].copy_from_slice(b"EFI PART");
        assert!(refusal(&disk).contains("a partition table (GPT)"));
        disk[..6].copy_from_slice(b"LUKS\xba\xbe");
        assert!(refusal(&disk).contains("an encrypted disk (LUKS)"));
        disk[..4].copy_from_slice(b"XFSB");
        assert!(refusal(&disk).contains("the superblock of XFS has impossible sizes"));
        assert!(refusal(&[0; 512]).contains("the disk ends"), "shorter than any superblock");
        assert!(refusal(&[0; 9000]).contains("no file system"));
    }
}
