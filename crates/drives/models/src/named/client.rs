//! The named client SSDs: by their data sheets, with a volatile write
//! cache.

use stasis_block::clock::{Nanos, MICROSECOND, MILLISECOND};

use super::model::{fixed, rating, sold_as, NamedModel};
use crate::kinds::rated::RatedSpec;
use crate::kinds::ModelKind;
use crate::span::Span;
use crate::spec::CacheSpec;
use stasis_block::{Link, Rate};

/// Assumption for client drives, whose data sheets give rates but no latencies.
const CLIENT: &str =
    "the latency is the reciprocal of the rate at queue depth 1, without spread; a \
                      flush, and a write with FUA, takes 1 ms, about one program operation of the \
                      flash, besides what the write cache holds; 64 MiB of the drive's memory are \
                      for writes (the map needs the most of it), written out at the rate of \
                      sequential writes; no barrier";

/// Time of a flush on a drive with a volatile cache (ns); see [`CLIENT`].
const CLIENT_FLUSH: Nanos = MILLISECOND;
/// Memory left beside the map (bytes): 1 GB for 1 TB in units of 4 KiB
/// by 4 bytes each.
const CLIENT_CACHE: u64 = 64 << 20;

/// The fsync of ext4 on a 850 PRO, less its three writes (28, 28 and 28 us) and
/// the host's part, by its two flushes: (5950 - 150) / 2 us.
const FLUSH_850_PRO: Nanos = 2_900 * MICROSECOND;
/// A command without data: the latency less the transfer of 4 KiB at 520 MB/s.
const BARRIER_850_PRO: Nanos = 20 * MICROSECOND;

/// Every client SSD with a name.
pub(super) const CLIENTS: [NamedModel; 4] = [
    NamedModel {
        name: "samsung-970-evo",
        summary: "Samsung 970 EVO 1 TB, NVMe, TLC",
        figures: &[
            ("random read, queue depth 1", "15000 IOPS"),
            ("random write, queue depth 1", "50000 IOPS"),
            ("random read", "500000 IOPS"),
            ("random write", "450000 IOPS"),
            ("sequential read", "3400 MB/s"),
            ("sequential write", "2500 MB/s"),
        ],
        link: Link::new(3, 4),
        capacity: sold_as(1_000),
        year: Some(2018),
        source: "Samsung 970 EVO data sheet (in its write buffer)",
        assumptions: CLIENT,
        ends: "within its SLC cache (TurboWrite, up to 42 GB): the model keeps the rates of writes beyond it, where the drive falls to 1,200 MB/s and less (`samsung-970-evo-1tb` does)",
        make: || client((15_000, 500_000, 3_400), (50_000, 450_000, 2_500), true),
    },
    NamedModel {
        name: "samsung-980-pro",
        summary: "Samsung 980 PRO 1 TB, NVMe, TLC",
        figures: &[
            ("random read, queue depth 1", "22000 IOPS"),
            ("random write, queue depth 1", "60000 IOPS"),
            ("random read", "1000000 IOPS"),
            ("random write", "1000000 IOPS"),
            ("sequential read", "7000 MB/s"),
            ("sequential write", "5000 MB/s"),
        ],
        link: Link::new(4, 4),
        capacity: sold_as(1_000),
        year: Some(2020),
        source: "Samsung 980 PRO data sheet (in its write buffer)",
        assumptions: CLIENT,
        ends: "within its SLC cache (TurboWrite, up to 114 GB): the model keeps the rates of writes beyond it, where the drive falls to 2,000 MB/s and less",
        make: || client((22_000, 1_000_000, 7_000), (60_000, 1_000_000, 5_000), true),
    },
    NamedModel {
        name: "850-pro",
        summary: "Samsung 850 PRO 256 GB, SATA, MLC, with a barrier",
        figures: &[
            ("random read, queue depth 1", "10000 IOPS"),
            ("random write, queue depth 1", "36000 IOPS"),
            ("random read", "100000 IOPS"),
            ("random write", "90000 IOPS"),
            ("sequential read", "550 MB/s"),
            ("sequential write", "520 MB/s"),
            ("memory", "512 MB LPDDR2"),
            ("fsync of ext4, mean", "5.95 ms"),
        ],
        link: None,
        capacity: sold_as(256),
        year: Some(2014),
        source: "Samsung 850 PRO data sheet; the fsync: Won et al., \"Barrier-Enabled IO Stack for \
                 Flash Storage\", FAST 2018, table 1 (plain-SSD); a flush is no queued command: \
                 ATA/ATAPI Command Set, FLUSH CACHE EXT",
        assumptions: "the latency is the reciprocal of the rate at queue depth 1, without spread; a \
                      flush takes 2.9 ms besides what the write cache holds (that fsync is two \
                      flushes, three writes of 28 us and the host's part), and so does a write with \
                      FUA; 256 MiB of the memory are for writes (the map of 256 GB needs the \
                      rest), written out at 520 MB/s, which the drive sustains. The barrier is \
                      that of a drive with other firmware, as in the publication (none on sale has \
                      one): 20 us, a command without data",
        ends: "reads and writes of one direction; it has no SLC cache",
        make: || {
            let (read, write) = ((10_000, 100_000, 550), (36_000, 90_000, 520));
            drive(read, write, FLUSH_850_PRO, |cache| CacheSpec {
                size: 256 << 20,
                queued_flush: false,
                barrier: Some(BARRIER_850_PRO),
                ..cache
            })
        },
    },
    NamedModel {
        name: "samsung-870-evo",
        summary: "Samsung 870 EVO 1 TB, SATA, TLC",
        figures: &[
            ("random read, queue depth 1", "13000 IOPS"),
            ("random write, queue depth 1", "36000 IOPS"),
            ("random read", "98000 IOPS"),
            ("random write", "88000 IOPS"),
            ("sequential read", "560 MB/s"),
            ("sequential write", "530 MB/s"),
        ],
        link: None,
        capacity: sold_as(1_000),
        year: Some(2021),
        source: "Samsung 870 EVO data sheet (in its write buffer)",
        assumptions: CLIENT,
        ends: "within its SLC cache (TurboWrite, up to 42 GB): the model keeps the rates of random writes beyond it",
        make: || client((13_000, 98_000, 560), (36_000, 88_000, 530), false),
    },
];

/// IOPS at queue depth 1, IOPS, and MB/s.
type Figures = (u64, u64, u64);

fn client(read: Figures, write: Figures, queued_flush: bool) -> ModelKind {
    drive(read, write, CLIENT_FLUSH, |cache| CacheSpec { queued_flush, ..cache })
}

fn drive(
    read: Figures,
    write: Figures,
    flush: Nanos,
    cache: impl FnOnce(CacheSpec) -> CacheSpec,
) -> ModelKind {
    let direction =
        |(single, iops, megabytes): Figures| rating(fixed(1_000_000_000 / single), iops, megabytes);
    let (flush, discard) = (Span::fixed(flush), Span::fixed(CLIENT_FLUSH));
    let usual = CacheSpec {
        size: CLIENT_CACHE,
        drain: Rate::per_second(write.2 * 1_000_000),
        fua: flush,
        queued_flush: true,
        barrier: None,
    };
    ModelKind::of(RatedSpec {
        read: direction(read),
        write: direction(write),
        flush,
        discard,
        write_zeroes: None,
        cache: Some(cache(usual)),
        plp: false,
    })
}
