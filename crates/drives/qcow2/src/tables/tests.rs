//! Allocation and mapping against the simplest references: a set of clusters, and a list.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stasis_qcow2_format::entries::Cluster;

use super::{Look, Tables};
use crate::{create, CreateOptions, Header};

/// The tables of a new image, in memory.
fn new(cluster_size: u64, refcount_bits: u32, size: u64, room: u64) -> Tables {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let options =
        CreateOptions { size: Some(size), cluster_size, refcount_bits, ..CreateOptions::default() };
    create(&path, &options).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let source = crate::header::Source::new(&file).unwrap();
    let header = Header::read(&source, &path).unwrap();
    let mut tables = Tables::new(&header, 0, room);
    for (index, cluster) in bytes.chunks(cluster_size as usize).enumerate() {
        tables.load_block(index as u64 * cluster_size, cluster.to_vec());
    }
    tables
}

/// A cluster that the drive below points to is not overwritten before its tables are written.
#[test]
fn a_freed_cluster_is_taken_once_the_tables_were_written() {
    let mut tables = new(512, 16, 1 << 20, 1 << 20);
    let freed = tables.pointers(true).l1.start;
    tables.free(freed, 1);
    let next = tables.take(1).unwrap();
    assert!(next > freed && !tables.take_at(freed));
    // One that was never there is free at once.
    tables.free(next, 1);
    assert_eq!(tables.take(1), Some(next));
    tables.plan(false);
    assert_eq!((tables.take(1), tables.take(1)), (Some(freed), Some(next + 1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_cluster_has_one_user(
        order in 0u32..=6,
        steps in prop::collection::vec((0u8..6, any::<u64>()), 1..300),
    ) {
        let room = 700;
        let mut tables = new(512, 1 << order, 1 << 20, room * 512);
        let used = |tables: &Tables| (0..room).filter(|&c| !tables.is_free(c)).count() as u64;
        let (begin, mut held) = (used(&tables), BTreeSet::new());
        let blocks = |tables: &Tables| tables.blocks(&tables.pointers(true));
        let block_count = blocks(&tables).len() as u64;
        for (step, draw) in steps {
            let taken = match step {
                0 => (0..).zip(held.iter().copied()).find(|(place, _)| draw % 8 == *place).map(|(_, c)| {
                    tables.free(c, 1);
                    held.remove(&c);
                    c..c
                }),
                1 => tables.take(draw % 9 + 1).map(|first| first..first + draw % 9 + 1),
                2 => {
                    let wanted = draw % (room + 50);
                    let was_free = tables.is_free(wanted);
                    let taken = tables.take_at(wanted);
                    prop_assert!(was_free || !taken);
                    taken.then_some(wanted..wanted + 1)
                }
                _ => tables.take(1).map(|first| first..first + 1),
            };
            for cluster in taken.into_iter().flatten() {
                prop_assert!(cluster < room && held.insert(cluster), "{cluster} is taken twice");
            }
            prop_assert!(blocks(&tables).iter().all(|block| !held.contains(block)));
        }
        let new_blocks = blocks(&tables).len() as u64 - block_count;
        prop_assert_eq!(used(&tables), begin + held.len() as u64 + new_blocks);
    }

    #[test]
    fn the_disk_is_where_it_was_put(
        cluster_bits in 9u32..=12,
        steps in prop::collection::vec((0u8..4, 0u64..200, 1u64..5), 1..60),
    ) {
        let size = 1u64 << cluster_bits;
        let mut tables = new(size, 16, 200 * size, 4000 * size);
        let mut disk = vec![Cluster::Hole; 200];
        for (step, first, count) in steps {
            for cluster in first..(first + count).min(200) {
                let offset = cluster * size;
                let Look::Found(table) = tables.own_table(offset).unwrap() else {
                    panic!("every table is known");
                };
                let known = &mut disk[cluster as usize];
                *known = match (step, *known) {
                    (0 | 1, _) => {
                        let at = tables.take(1).unwrap() * size;
                        tables.put(table, offset, at);
                        Cluster::Data { at, own: true }
                    }
                    (2, Cluster::Data { at, own } | Cluster::Zero { at, own }) => {
                        tables.clear(table, offset, true);
                        Cluster::Zero { at, own }
                    }
                    _ => {
                        tables.clear(table, offset, false);
                        Cluster::Zero { at: 0, own: false }
                    }
                };
            }
        }
        // Each run, and each cluster alone.
        for most in [size, 1 << 40] {
            let mut offset = 0;
            while offset < 200 * size {
                let Look::Found((found, length)) = tables.look_up(offset, most).unwrap() else {
                    panic!("every table is known");
                };
                prop_assert!(length.is_multiple_of(size) && length > 0);
                let first = (offset / size) as usize;
                prop_assert_eq!(found, disk[first]);
                for (index, next) in disk[first..].iter().take((length / size) as usize).enumerate() {
                    let alike = match (found, *next) {
                        (Cluster::Data { at, .. }, Cluster::Data { at: next, .. }) => {
                            at + index as u64 * size == next
                        }
                        (before, after) => {
                            std::mem::discriminant(&before) == std::mem::discriminant(&after)
                        }
                    };
                    prop_assert!(alike, "{found:?} and {next:?}");
                }
                offset += length;
            }
        }
        // Nothing but the disk's clusters and the tables is used.
        let data = disk.iter().filter(|cluster| {
            matches!(cluster, Cluster::Data { .. } | Cluster::Zero { at: 1.., .. })
        });
        let found = (0..4000).filter(|&cluster| !tables.is_free(cluster)).count();
        let in_tables = tables.clusters.len();
        prop_assert_eq!(found, data.count() + in_tables);
    }

    #[test]
    fn any_entry_is_read(entry: u64, cluster_bits in 9u32..=21) {
        if let Cluster::Packed { at, length } = Cluster::new(entry, cluster_bits) {
            // No more than what so many sectors of a cluster and one more have.
            prop_assert!(length > 0 && length <= (2 << cluster_bits) + 512);
            prop_assert!(at.checked_add(length).is_some());
        }
    }
}
