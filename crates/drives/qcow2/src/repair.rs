//! New refcounts for an image: where it was not closed with lazy refcounts, and where its refcount
//! table has no room for the image's largest size.
//!
//! An image that is open never makes its refcount table longer: a table in another place would leave a
//! range that could be given out again before the header is known to point elsewhere.

use std::fs::File;
use std::io;

use crate::below::Bytes;
use crate::chain::Found;
use crate::header::{Source, DIRTY};
use crate::{layout, refcounts as entries, Header, ImageError};

/// Returns whether the refcount table has entries for a file of `room` bytes and a little more.
pub(crate) fn reaches(header: &Header, room: u64) -> bool {
    let cluster = header.cluster_size();
    let blocks = u64::from(header.reftable_clusters) * (cluster / 8);
    let clusters = blocks.saturating_mul(header.refcounts_in_block());
    clusters.saturating_mul(cluster) >= room.saturating_add(cluster * header.refcounts_in_block())
}

/// Writes new refcounts behind the end of the image's file, and then has its header point to
/// them.
pub(crate) fn refcounts(found: &Found, room: u64) -> Result<(), ImageError> {
    let path = &found.links[0].path;
    let os = |source| ImageError::Os { path: path.clone(), action: "repair it", source };
    let file = File::options().read(true).write(true).open(path).map_err(os)?;
    let length = Source::new(&file).map_err(os)?.length;
    rewrite(&file, found, room, (length, u64::MAX)).map_err(os)
}

/// Like [`refcounts`], but for `file` of `length` bytes, which can have `most` bytes: where there
/// is no room behind its end, clusters that nothing uses are taken.
pub(crate) fn rewrite(
    file: &dyn Bytes,
    found: &Found,
    room: u64,
    (length, most): (u64, u64),
) -> io::Result<()> {
    let header = &found.header;
    let cluster = header.cluster_size();
    let in_block = header.refcounts_in_block();
    let mut uses = found.report.uses.clone();
    let old = u64::from(header.reftable_clusters);
    let table = header.reftable_offset / cluster;
    for index in (table..table + old).chain(found.report.blocks.iter().flatten().copied()) {
        if let Some(uses) = uses.get_mut(index as usize) {
            *uses = uses.saturating_sub(1);
        }
    }
    let end = length.div_ceil(cluster).max(uses.len() as u64);
    // Entries for all that the file may become, two blocks more than asked for.
    let reach = (room / cluster).max(end).div_ceil(in_block) + 3;
    let table_clusters = (reach * 8).div_ceil(cluster);
    let mut blocks = 1;
    while blocks * in_block < end + table_clusters + blocks {
        blocks += 1;
    }
    let wanted = table_clusters + blocks;
    let start = match end.checked_add(wanted).is_some_and(|end| end <= most / cluster) {
        true => end,
        false => unused(&found.report.uses, wanted, most / cluster).ok_or_else(|| {
            io::Error::new(io::ErrorKind::StorageFull, "its file has no room for new refcounts")
        })?,
    };
    uses.resize(uses.len().max((start + wanted) as usize), 0);
    uses[start as usize..(start + wanted) as usize].fill(1);

    let mut table = vec![0; (table_clusters * cluster) as usize];
    for block in 0..blocks {
        let place = start + table_clusters + block;
        let mut bytes = vec![0; cluster as usize];
        let first = block * in_block;
        let end = (first + in_block).min(uses.len() as u64);
        for index in first..end.max(first) {
            let value = u64::from(uses[index as usize]).min(entries::limit(header.refcount_order));
            entries::set(&mut bytes, header.refcount_order, index - first, value);
        }
        file.write(&bytes, place * cluster)?;
        let entry = 8 * block as usize;
        table[entry..entry + 8].copy_from_slice(&(place * cluster).to_be_bytes());
    }
    file.write(&table, start * cluster)?;
    file.flush()?;

    let mut head = Source { file, length }.bytes(0, 512)?;
    let changed = || io::Error::other("its header has changed meanwhile");
    let header = layout::header_mut(&mut head).ok_or_else(changed)?;
    header.reftable_offset = (start * cluster).into();
    header.reftable_clusters = (table_clusters as u32).into();
    // Version 2 has no such bit, and its refcounts are never late.
    if let Some(version3) = layout::version3_mut(&mut head) {
        layout::set_feature(&mut version3.incompatible, DIRTY, false);
    }
    file.write(&head, 0)?;
    file.flush()
}

/// The first of so many clusters one behind the other that nothing uses, before `end`.
fn unused(uses: &[u32], wanted: u64, end: u64) -> Option<u64> {
    let mut free = 0;
    for cluster in 0..end {
        let is_used = uses.get(cluster as usize).is_some_and(|uses| *uses > 0);
        free = if is_used { 0 } else { free + 1 };
        if free == wanted {
            return Some(cluster + 1 - wanted);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_clusters_are_found_together() {
        let uses = [1, 0, 2, 0, 0, 1, 0];
        assert_eq!(unused(&uses, 1, 9), Some(1));
        assert_eq!(unused(&uses, 2, 9), Some(3));
        assert_eq!(unused(&uses, 3, 9), Some(6));
        assert_eq!(unused(&uses, 3, 8), None);
        assert_eq!(unused(&[], 2, 2), Some(0));
    }
}
