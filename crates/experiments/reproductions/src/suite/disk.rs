//! The virtual disk: a guest's root file system with the applications, the
//! readers' files, and room for writers, in partitions of a master boot record.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{bail, Context, Result};
use stasis_block::units::format_size;

use super::scenario::Device;

const MIB: u64 = 1 << 20;
/// Bytes of a sector of the master boot record.
const SECTOR: u64 = 512;
/// Readers' files, and the writers' room, which is as long as one.
const PARTS: u64 = 6;
/// A file must not be kept by the guest's page cache: more than its memory.
const MIN_FILE: u64 = super::scenario::MEMORY + 8 * MIB;
/// A Linux file system (UEFI 2.10, 5.2.1: the legacy master boot record's OSType;
/// the value is Linux's).
const LINUX: u8 = 0x83;

/// Layout of the disk (bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Length of the applications' file system, which begins at 1 MiB.
    pub applications: u64,
    /// Length of a reader's file, and of the writers' room.
    pub file: u64,
}

impl Layout {
    /// The applications' file system has `applications` bytes; the rest is shared
    /// out.
    pub fn new(disk: u64, applications: u64) -> Result<Self> {
        let applications = applications.next_multiple_of(MIB);
        let rest = disk.saturating_sub(MIB + applications);
        let file = rest / PARTS / MIB * MIB;
        if file < MIN_FILE {
            bail!(
                "the applications take {} of a virtual disk of {}: too little is left for files",
                format_size(applications),
                format_size(disk)
            );
        }
        Ok(Self { applications, file })
    }

    /// First byte and length of each partition.
    fn partitions(&self) -> [(u64, u64); 3] {
        let files = MIB + self.applications;
        let length = self.file * (PARTS - 1);
        [(MIB, self.applications), (files, length), (files + length, self.file)]
    }

    /// The master boot record.
    fn record(&self) -> [u8; SECTOR as usize] {
        let mut record = [0; SECTOR as usize];
        for (number, (offset, length)) in self.partitions().into_iter().enumerate() {
            let entry = &mut record[446 + 16 * number..][..16];
            entry[4] = LINUX;
            // Marks the addresses as beyond the range of cylinders, so that the block numbers
            // count.
            entry[1..4].copy_from_slice(&[0xFE, 0xFF, 0xFF]);
            entry[5..8].copy_from_slice(&[0xFE, 0xFF, 0xFF]);
            for (place, bytes) in [(8, offset), (12, length)] {
                // Disks here are of some GiB.
                let sectors = u32::try_from(bytes / SECTOR).unwrap_or(u32::MAX);
                entry[place..place + 4].copy_from_slice(&sectors.to_le_bytes());
            }
        }
        record[510..].copy_from_slice(&[0x55, 0xAA]);
        record
    }
}

/// Makes the image at `path` one of `device`, with the file system `root` for the
/// applications; `fresh` copies it, otherwise it is there.
pub fn make(path: &Path, device: &Device, layout: &Layout, root: &Path, fresh: bool) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let image = OpenOptions::new().write(true).create(true).truncate(fresh).open(path);
    let image = image.with_context(context)?;
    image.set_len(device.capacity).with_context(context)?;
    image.write_all_at(&layout.record(), 0).with_context(context)?;
    if fresh {
        let from = File::open(root).with_context(|| format!("cannot read {}", root.display()))?;
        copy(from, &image, MIB).with_context(context)?;
    }
    Ok(())
}

/// Copies the blocks that are not zero.
fn copy(mut from: impl Read, to: &File, mut at: u64) -> std::io::Result<()> {
    let mut block = Vec::with_capacity(MIB as usize);
    loop {
        block.clear();
        if from.by_ref().take(MIB).read_to_end(&mut block)? == 0 {
            return Ok(());
        }
        if block.iter().any(|byte| *byte != 0) {
            to.write_all_at(&block, at)?;
        }
        at += block.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_follow_each_other_within_the_disk() {
        for device in Device::published() {
            let layout = Layout::new(device.disk, (620 << 20) + 1).unwrap();
            let mut end = MIB;
            let record = layout.record();
            for (number, (offset, length)) in layout.partitions().into_iter().enumerate() {
                assert_eq!((offset, length % MIB), (end, 0));
                end = offset + length;
                let entry = &record[446 + 16 * number..];
                let read = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
                assert_eq!(u64::from(read(8)) * 512, offset);
                assert_eq!(u64::from(read(12)) * 512, length);
            }
            assert!(end <= device.disk);
        }
        assert!(Layout::new(4 << 30, 2 << 30).unwrap_err().to_string().contains("2GiB"));
    }

    #[test]
    fn an_image_has_the_applications_at_their_place_and_holes() {
        let folder = tempfile::tempdir().unwrap();
        let (root, path) = (folder.path().join("root"), folder.path().join("image"));
        let mut bytes = vec![0; 3 * MIB as usize + 10];
        bytes[5] = 1;
        *bytes.last_mut().unwrap() = 2;
        std::fs::write(&root, &bytes).unwrap();
        let device = Device { capacity: 16 << 20, ..Device::named("sem16g") };
        let layout = Layout { applications: 4 * MIB, file: MIB };
        make(&path, &device, &layout, &root, true).unwrap();
        let image = std::fs::read(&path).unwrap();
        assert_eq!(image.len(), 16 << 20);
        assert!(image[MIB as usize..][..bytes.len()] == bytes);
        // A second call for another device keeps the copied files.
        make(&path, &Device { capacity: 8 << 20, ..device }, &layout, &root, false).unwrap();
        let image = std::fs::read(&path).unwrap();
        assert_eq!((image.len(), image[MIB as usize + 5], image[510]), (8 << 20, 1, 0x55));
    }
}
