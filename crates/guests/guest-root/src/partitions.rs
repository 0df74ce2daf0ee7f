//! Partition tables: GPT and MBR.

use std::sync::Arc;

use stasis_layout::{layout, transmute, transmute_ref, u64_at, U32, U64};

use crate::content::ReadAt;

/// Size of a sector, by which partition tables count.
pub(crate) const SECTOR: u64 = 512;
/// Limit on the partitions that are looked at.
const PARTITIONS: u32 = 128;

layout! {
    /// Entry of an MBR, whose numbers are in sectors (UEFI 2.10, section 5.2).
    struct PartitionEntry: 16 {
        [0] boot: u8,
        [1] first_chs: [u8; 3],
        /// Type; 0: none.
        [4] kind: u8,
        [5] last_chs: [u8; 3],
        /// First sector; in an extended partition, from it or its own table on.
        [8] start: U32,
        [12] length: U32,
    }
}

layout! {
    /// The first sector of a disk or of a table in an extended partition.
    struct MasterBootRecord: 512 {
        [0] code: [u8; 446],
        [446] entries: [PartitionEntry; 4],
        /// 55h AAh.
        [510] signature: [u8; 2],
    }
}

layout! {
    /// Header of a GPT (UEFI 2.10, section 5.3.2).
    struct GptHeader: 512 {
        [0] signature: [u8; 8],
        [8] other: [u8; 64],
        /// First sector of the table.
        [72] table: U64,
        /// Number of its entries.
        [80] count: U32,
        /// Size of an entry in bytes.
        [84] size: U32,
        [88] reserved88: [u8; 424],
    }
}

/// A partition's first byte and its length.
type Extent = (u64, u64);

/// Returns the places of partitions, by a GPT (UEFI 2.10, section 5.3) or an MBR.
pub(crate) fn partitions(source: &Arc<dyn ReadAt>) -> Result<Vec<Extent>, String> {
    let mut sector = [0; SECTOR as usize];
    let mut header = [0; SECTOR as usize];
    let read = source.read_at(&mut sector, 0).is_ok();
    if !read || sector[510..] != [0x55, 0xaa] {
        return Ok(Vec::new());
    }
    if source.read_at(&mut header, SECTOR).is_ok() && header.starts_with(b"EFI PART") {
        return gpt(source, transmute_ref!(&header));
    }
    /// Types of partitions that hold others: extended ones.
    const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
    let record: MasterBootRecord = transmute!(sector);
    let mut places = Vec::new();
    for PartitionEntry { kind, start, length, .. } in record.entries {
        let (start, length) = (u64::from(start), u64::from(length));
        if EXTENDED.contains(&kind) {
            logical(source, start, &mut places);
        } else if kind != 0 && start > 0 {
            places.push((start * SECTOR, length * SECTOR));
        }
    }
    Ok(places)
}

/// The partitions within an extended one, each with a table that leads to the next.
fn logical(source: &Arc<dyn ReadAt>, extended: u64, places: &mut Vec<Extent>) {
    let mut table = extended;
    for _ in 0..PARTITIONS {
        let mut sector = [0; SECTOR as usize];
        if source.read_at(&mut sector, table * SECTOR).is_err() || sector[510..] != [0x55, 0xaa] {
            return;
        }
        let MasterBootRecord { entries: [partition, next, ..], .. } = transmute!(sector);
        if partition.kind != 0 {
            let (start, length) = (u64::from(partition.start), u64::from(partition.length));
            places.push(((table + start) * SECTOR, length * SECTOR));
        }
        match next.start.get() {
            0 => return,
            next => table = extended + u64::from(next),
        }
    }
}

fn gpt(source: &Arc<dyn ReadAt>, header: &GptHeader) -> Result<Vec<Extent>, String> {
    let GptHeader { table, count, size, .. } = *header;
    let (table, count, size) = (table.get(), count.get().min(PARTITIONS), size.get());
    if !(128..=4096).contains(&size) {
        return Err("its table of partitions (GPT) is damaged".into());
    }
    let mut places = Vec::new();
    for index in 0..count {
        let mut entry = vec![0; size as usize];
        let at = table.checked_mul(SECTOR).and_then(|at| at.checked_add(u64::from(index * size)));
        if at.is_none_or(|at| source.read_at(&mut entry, at).is_err()) {
            return Err("its table of partitions (GPT) is cut short".into());
        }
        // The last sector belongs to it.
        let (first, last) = u64_at(&entry, 32).zip(u64_at(&entry, 40)).unwrap_or_default();
        let length = last.saturating_sub(first).saturating_add(1).saturating_mul(SECTOR);
        let start = first.checked_mul(SECTOR).filter(|_| entry[..16] != [0; 16]);
        places.extend(start.map(|start| (start, length)));
    }
    Ok(places)
}
