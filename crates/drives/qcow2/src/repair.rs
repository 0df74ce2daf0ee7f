//! New refcounts for an image: where it was not closed with lazy refcounts, and where its refcount
//! table has no room for the image's largest size.
//!
//! The library grows a refcount table at a moment at which a range it frees can be given out again
//! before the header is known to point elsewhere; with a table that is long enough it never has to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::chain::Found;
use crate::header::{Source, DIRTY};
use crate::{layout, refcounts as entries, Header, ImageError};

/// Whether the refcount table has entries for a file of `room` bytes and a
/// little more.
pub(crate) fn reaches(header: &Header, room: u64) -> bool {
    let cluster = header.cluster_size();
    let blocks = u64::from(header.reftable_clusters) * (cluster / 8);
    let clusters = blocks.saturating_mul(header.refcounts_in_block());
    clusters.saturating_mul(cluster) >= room.saturating_add(cluster * header.refcounts_in_block())
}

/// Writes new refcounts behind the end of the image, and then has its header
/// point to them.
pub(crate) fn refcounts(found: &Found, room: u64) -> Result<(), ImageError> {
    let path = &found.links[0].path;
    let os = |source| ImageError::Os { path: path.clone(), what: "repair it", source };
    let file = File::options().read(true).write(true).open(path).map_err(os)?;
    rewrite(&file, found, room).map_err(os)
}

fn rewrite(file: &File, found: &Found, room: u64) -> io::Result<()> {
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
    let length = Source::new(file)?.length;
    let start = length.div_ceil(cluster).max(uses.len() as u64);
    // Entries for all that the file may become, two blocks more than asked for.
    let reach = (room / cluster).max(start).div_ceil(in_block) + 3;
    let table_clusters = (reach * 8).div_ceil(cluster);
    let mut blocks = 1;
    while blocks * in_block < start + table_clusters + blocks {
        blocks += 1;
    }
    uses.resize((start + table_clusters + blocks) as usize, 0);
    uses[start as usize..].fill(1);

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
        file.write_all_at(&bytes, place * cluster)?;
        let entry = 8 * block as usize;
        table[entry..entry + 8].copy_from_slice(&(place * cluster).to_be_bytes());
    }
    file.write_all_at(&table, start * cluster)?;
    file.sync_data()?;

    let mut head = Source::new(file)?.bytes(0, 512)?;
    let moved = layout::REFTABLE_OFFSET.set(&mut head, start * cluster)
        && layout::REFTABLE_CLUSTERS.set(&mut head, table_clusters);
    if !moved {
        return Err(io::Error::other("its header has changed meanwhile"));
    }
    // Version 2 has no such bit, and its refcounts are never late.
    let _ = layout::INCOMPATIBLE.set_bits(&mut head, DIRTY, false);
    file.write_all_at(&head, 0)?;
    file.sync_data()
}
