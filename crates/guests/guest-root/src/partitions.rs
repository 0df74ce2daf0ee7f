//! Partition tables: GPT and MBR.

use std::sync::Arc;

use crate::content::ReadAt;

/// Size of a sector, by which partition tables count.
pub(crate) const SECTOR: u64 = 512;
/// Limit on the partitions that are looked at.
const PARTITIONS: u32 = 128;

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
        return gpt(source, &header);
    }
    /// Types of partitions that hold others: extended ones.
    const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
    let mut places = Vec::new();
    for entry in sector[446..510].chunks_exact(16) {
        let (start, length) = (word(entry, 8), word(entry, 12));
        if EXTENDED.contains(&entry[4]) {
            logical(source, start, &mut places);
        } else if entry[4] != 0 && start > 0 {
            places.push((start * SECTOR, length * SECTOR));
        }
    }
    Ok(places)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    u64::from(u32::from_le_bytes(four))
}

/// The partitions within an extended one, each with a table that leads to the next.
fn logical(source: &Arc<dyn ReadAt>, extended: u64, places: &mut Vec<Extent>) {
    let mut table = extended;
    for _ in 0..PARTITIONS {
        let mut sector = [0; SECTOR as usize];
        if source.read_at(&mut sector, table * SECTOR).is_err() || sector[510..] != [0x55, 0xaa] {
            return;
        }
        if sector[450] != 0 {
            places.push(((table + word(&sector, 454)) * SECTOR, word(&sector, 458) * SECTOR));
        }
        match word(&sector, 470) {
            0 => return,
            next => table = extended + next,
        }
    }
}

fn gpt(source: &Arc<dyn ReadAt>, header: &[u8]) -> Result<Vec<Extent>, String> {
    let eight = |bytes: &[u8], at: usize| {
        bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let word = |at: usize| eight(header, at) as u32;
    let (table, count, size) = (eight(header, 72), word(80).min(PARTITIONS), word(84));
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
        let (first, last) = (eight(&entry, 32), eight(&entry, 40));
        let length = last.saturating_sub(first).saturating_add(1).saturating_mul(SECTOR);
        let start = first.checked_mul(SECTOR).filter(|_| entry[..16] != [0; 16]);
        places.extend(start.map(|start| (start, length)));
    }
    Ok(places)
}
