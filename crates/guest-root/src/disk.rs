//! Images of disks: the file systems in one, with or without a partition table.

use std::path::Path;
use std::sync::Arc;

use crate::content::ReadAt;
use crate::ext4::read::FileSystem;
use crate::tree::{Limits, Tree};
use crate::RootError;

/// Size of a sector, by which partition tables count.
const SECTOR: u64 = 512;
/// Most partitions that are looked at.
const PARTITIONS: u32 = 128;

/// The root that an image has: its own file system, or the first of its partitions with a Linux in it.
pub(crate) fn read(
    source: &Arc<dyn ReadAt>,
    origin: &Path,
    limits: Limits,
) -> Result<Tree, RootError> {
    let fail = |cause: String| RootError::unusable(origin, cause);
    if let Some(system) = FileSystem::open(source, 0, limits).map_err(fail)? {
        return system.tree(origin, limits);
    }
    if let Some(other) = other_kind(source, 0) {
        return Err(fail(format!(
            "it is a file system of {other}: only ext2, ext3 and ext4 are read"
        )));
    }
    let starts = partitions(source).map_err(fail)?;
    if starts.is_empty() {
        return Err(fail(
            "it has no Linux: it is no file system of ext4 and has no table of partitions".into(),
        ));
    }
    let mut seen = Vec::new();
    let mut first_error = None;
    for (number, start) in (1..).zip(starts) {
        match FileSystem::open(source, start, limits) {
            Ok(Some(system)) => match system.tree(origin, limits) {
                Ok(tree) if tree.at("/bin/sh").is_some() => return Ok(tree),
                Ok(_) => seen.push(format!("{number}: ext4 without /bin/sh")),
                Err(error) => {
                    seen.push(format!("{number}: ext4"));
                    first_error.get_or_insert(error);
                }
            },
            Ok(None) => {
                let kind = other_kind(source, start).unwrap_or("something unknown");
                seen.push(format!("{number}: {kind}"));
            }
            Err(cause) => {
                seen.push(format!("{number}: ext4"));
                first_error.get_or_insert(fail(cause));
            }
        }
    }
    Err(first_error.unwrap_or_else(|| {
        fail(format!(
            "it has no Linux in a file system of ext4; its partitions are {}",
            seen.join(", ")
        ))
    }))
}

/// File systems and the like that are told by their marks but not read: where a mark is and what
/// it is (Linux, include/uapi/linux/magic.h and the file systems' own headers).
const OTHERS: [(u64, &[u8], &str); 8] = [
    (0, b"XFSB", "XFS"),
    (0x1_0040, b"_BHRfS_M", "Btrfs"),
    (0, b"hsqs", "SquashFS"),
    (0x218, b"LVM2 001", "LVM"),
    (0, b"LUKS\xba\xbe", "LUKS (encrypted)"),
    (1024, b"\xe2\xe1\xf5\xe0", "EROFS"),
    (0x36, b"FAT", "FAT"),
    (0x52, b"FAT32", "FAT"),
];

fn other_kind(source: &Arc<dyn ReadAt>, start: u64) -> Option<&'static str> {
    let is = |(at, mark, _): &&(u64, &[u8], &str)| {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..mark.len()];
        let at = start.checked_add(*at);
        at.is_some_and(|at| source.read_at(bytes, at).is_ok()) && bytes == *mark
    };
    OTHERS.iter().find(is).map(|(.., name)| *name)
}

/// Where partitions begin (bytes), by a GPT (UEFI 2.10, section 5.3) or an MBR.
fn partitions(source: &Arc<dyn ReadAt>) -> Result<Vec<u64>, String> {
    let mut sector = [0; SECTOR as usize];
    let mut header = [0; SECTOR as usize];
    let read = source.read_at(&mut sector, 0).is_ok();
    if !read || sector[510..] != [0x55, 0xaa] {
        return Ok(Vec::new());
    }
    if source.read_at(&mut header, SECTOR).is_ok() && header.starts_with(b"EFI PART") {
        return gpt(source, &header);
    }
    /// Types of partitions that hold others: extended ones.
    const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
    let mut starts = Vec::new();
    for entry in sector[446..510].chunks_exact(16) {
        let start = u64::from(u32::from_le_bytes([entry[8], entry[9], entry[10], entry[11]]));
        if EXTENDED.contains(&entry[4]) {
            logical(source, start, &mut starts);
        } else if entry[4] != 0 && start > 0 {
            starts.push(start * SECTOR);
        }
    }
    Ok(starts)
}

/// The partitions within an extended one, each with a table of its own that leads to the next.
fn logical(source: &Arc<dyn ReadAt>, extended: u64, starts: &mut Vec<u64>) {
    let mut table = extended;
    for _ in 0..PARTITIONS {
        let mut sector = [0; SECTOR as usize];
        if source.read_at(&mut sector, table * SECTOR).is_err() || sector[510..] != [0x55, 0xaa] {
            return;
        }
        let word = |at: usize| {
            let four = [sector[at], sector[at + 1], sector[at + 2], sector[at + 3]];
            u64::from(u32::from_le_bytes(four))
        };
        if sector[450] != 0 {
            starts.push((table + word(454)) * SECTOR);
        }
        match word(470) {
            0 => return,
            next => table = extended + next,
        }
    }
}

fn gpt(source: &Arc<dyn ReadAt>, header: &[u8]) -> Result<Vec<u64>, String> {
    let eight = |bytes: &[u8], at: usize| {
        bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let word = |at: usize| eight(header, at) as u32;
    let (table, count, size) = (eight(header, 72), word(80).min(PARTITIONS), word(84));
    if !(128..=4096).contains(&size) {
        return Err("its table of partitions (GPT) is damaged".into());
    }
    let mut starts = Vec::new();
    for index in 0..count {
        let mut entry = vec![0; size as usize];
        let at = table.checked_mul(SECTOR).and_then(|at| at.checked_add(u64::from(index * size)));
        if at.is_none_or(|at| source.read_at(&mut entry, at).is_err()) {
            return Err("its table of partitions (GPT) is cut short".into());
        }
        let start = eight(&entry, 32).checked_mul(SECTOR);
        if let Some(start) = start.filter(|_| entry[..16] != [0; 16]) {
            starts.push(start);
        }
    }
    Ok(starts)
}
