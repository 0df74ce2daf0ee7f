//! The named models: what they are, their figures, their source.
//!
//! A figure that stands in where a source is silent is called an assumption in the model's
//! `assumptions`.

mod client;
mod flash;
mod model;
mod volumes;

use stasis_block::clock::{Nanos, MICROSECOND};
use stasis_block::{Link, Operation, Rate};

use crate::distribution::Interpolation;
use crate::kinds::card::CardSpec;
use crate::kinds::disk::DiskSpec;
use crate::kinds::rated::{RatedSpec, Rating};
use crate::kinds::{ModelKind, NullSpec, ProfileSpec, SpansSpec, UniformSpec};
use crate::profile::{Block, Observed, Profile};
use crate::span::Span;

pub(crate) use model::sold_as;
pub use model::NamedModel;
use model::{fixed, micros, percentiles, rating};

/// Names that models had before, and have now.
const FORMER: [(&str, &str); 1] = [("samsung-850-pro", "850-pro")];

/// The named model of that name, or of a former one.
pub fn find(name: &str) -> Option<&'static NamedModel> {
    let former = FORMER.iter().find(|former| former.0 == name);
    let name = former.map_or(name, |former| former.1);
    NAMED.iter().find(|named| named.name == name)
}

/// The names of a kind's models that [`find`] accepts, each with its description.
pub(crate) fn names_of_kind(
    kind: &str,
) -> impl Iterator<Item = (&'static str, &'static NamedModel)> + '_ {
    let all = NAMED.iter().map(|named| named.name).chain(FORMER.iter().map(|former| former.0));
    let known = all.filter_map(|name| Some((name, find(name)?)));
    known.filter(move |(_, named)| named.kind().name() == kind)
}

/// The publication that the first four models are from.
const FREEZING_TIME: &str = "Bona, Elias, Ziviani, Nou, Cortes, Alves: \"Freezing time: emulating \
                             new and faster devices with virtual machines\", CCF Transactions on \
                             High Performance Computing, 2020";

/// Every named model.
pub static NAMED: &[NamedModel] = &[
    NamedModel {
        name: "null",
        summary: "completes every command at once",
        figures: &[("every command", "0 ns")],
        link: None,
        capacity: None,
        year: None,
        source: "by definition",
        assumptions: "",
        ends: "",
        make: || ModelKind::of(NullSpec {}),
    },
    NamedModel {
        name: "dcpmm",
        summary: "Intel Optane DC Persistent Memory Module, as fio saw it",
        figures: &[
            ("read min", "1614 ns"),
            ("read p1", "1768 ns"),
            ("read p50", "2096 ns"),
            ("read p99", "3120 ns"),
            ("read p99.99", "10048 ns"),
            ("read max", "170885 ns"),
            ("read bandwidth", "6567 MB/s"),
            ("write bandwidth", "2317 MB/s"),
        ],
        link: None,
        capacity: Some(256 << 30),
        year: Some(2019),
        source: "Bona et al., \"Freezing time\" (2020), section 5.3, Table 2 (4 KiB random reads, fio in the application); \
                 bandwidth: Izraelevitz et al., \"Basic Performance Measurements of the Intel \
                 Optane DC Persistent Memory Module\", arXiv:1903.05714 (39.4 and 13.9 GB/s for \
                 six modules)",
        assumptions: "writes as reads; a flush takes no time (what the module has taken is \
                      durable); between p99.99 and max evenly in the logarithm; 256 GiB, the module of \
                      the second source",
        ends: "latencies are those of 4 KiB reads at queue depth 1; more at once is bounded by the module's bandwidths alone, and 128 KiB are longer by their transfer",
        make: dcpmm,
    },
    NamedModel {
        name: "cloudspeed-500",
        summary: "SMART Storage Systems CloudSpeed 500, SATA SSD",
        figures: &[
            ("read", "200-400 us"),
            ("write", "below 200 us"),
            ("interface", "SATA 6 Gb/s"),
            ("queue", "32 commands"),
        ],
        link: None,
        capacity: sold_as(480),
        year: None,
        source: "Bona et al., \"Freezing time\" (2020), section 5.2, Fig. 7; interface and queue: Serial ATA Revision 3.0 (600 MB/s, \
                 native command queueing)",
        assumptions: "uniform; writes from 50 us on; flush, discard and write-zeroes as writes; 480 GB",
        ends: "latencies are those of 4 KiB at queue depth 1 while nothing else runs; more at once is bounded by SATA (600 MB/s, 32 commands), because no source states the drive's own rates",
        make: || {
            ModelKind::of(UniformSpec(SpansSpec {
                read: Some(micros(200, 400)),
                write: Some(micros(50, 200)),
                bandwidth: Some(Rate::per_second(600_000_000)),
                parallelism: Some(32),
                ..SpansSpec::default()
            }))
        },
    },
    NamedModel {
        name: "jpt39c",
        summary: "Hitachi JPT39C, 1 TB 7200 rpm SATA disk",
        figures: &[
            ("read", "2.5-10 ms"),
            ("write", "below 5 ms, 12.5 % of them below 2 ms in the buffer"),
            ("rotation", "7200 rpm"),
            ("interface", "SATA 3 Gb/s"),
        ],
        link: None,
        capacity: None,
        year: None,
        source: "Bona et al., \"Freezing time\" (2020), section 5 (drive) and 5.2, Fig. 6 (times for 4 KiB over 4 GB)",
        assumptions: "average seek 8.2 ms (HGST Ultrastar 7K4000 specification, table 6: the \
                      maker's class of drive); track seek and the cache's 16 pieces fitted to \
                      Fig. 6; 125 MB/s at the outer edge",
        ends: "within 4 GB at the outer edge, where it was measured",
        make: jpt39c,
    },
    NamedModel {
        name: "mk6006gah",
        summary: "Toshiba MK6006GAH, 60 GB 1.8-inch disk",
        figures: &[
            ("read peak rate", "10 MB/s"),
            ("rotation", "4200 rpm"),
            ("average access", "about 19 ms"),
            ("buffer", "2 MB"),
        ],
        link: None,
        capacity: None,
        year: Some(2004),
        source: "vIrtical, deliverable D3.6, \"I/O Scheduler for virtualized systems\" (2014), Table 1 (size, peak \
                 rate where it was measured); Tom's Hardware, \"1.8-inch Hard Drives: Small is Beautiful\" (2006): 4200 rpm, 2 MB \
                 and 18.8 ms of access time for the maker's next drive of the class, MK8007GAH",
        assumptions: "the peak rate is its interface's, as the disk of a single platter of the same density was seen at \
                      22 MB/s; half that at the inner edge; average seek 11.7 ms (18.8 ms less half a rotation), \
                      3 ms to the next track; the buffer for reading ahead by 1 MiB and writing",
        ends: "one command at a time (no queue); its seeks are those of a drive of its class",
        make: mk6006gah,
    },
    NamedModel {
        name: "sdhc-class-6",
        summary: "Transcend microSDHC card, 8 GB, class 6",
        figures: &[
            ("read peak rate", "16 MB/s"),
            ("random read of 4 KiB", "3.4 MB/s"),
            ("sequential write", "at least 6 MB/s"),
            ("random write of 4 KiB", "below 0.1 MB/s"),
        ],
        link: None,
        capacity: Some(8_000_000_000),
        year: Some(2011),
        source: "vIrtical D3.6 (2014), Table 1 (size, peak rate); SD Association, speed class 6 (6 MB/s); Tom's Hardware, \"Round-Up: \
                 15 microSDHC Cards\" (2011), random reads and writes of cards of class 6; how such cards write: \
                 Bergmann, \"Optimizing Linux with cheap flash drives\", LWN.net (2011)",
        assumptions: "the peak rate is that of 128 KiB; writes at 9 MB/s; estimates: units of 4 MiB, two of them open, \
                      250 ms to close one; a flush takes no time",
        ends: "one command at a time; rates beyond 128 KiB were not measured",
        make: || {
            card([950, 1_000], [18_000_000, 9_000_000], 2, 250_000)
        },
    },
    NamedModel {
        name: "sem16g",
        summary: "SanDisk SEM16G, 16 GB eMMC",
        figures: &[
            ("read peak rate", "70 MB/s"),
            ("random read of 4 KiB", "2,600 IOPS"),
            ("random write of 4 KiB", "about 190 IOPS"),
        ],
        link: None,
        capacity: Some(16_000_000_000),
        year: Some(2014),
        source: "vIrtical D3.6 (2014), Table 1 (size, peak rate); AnandTech, \"SanDisk iNAND Extreme in 2014\" (eMMC of these years: \
                 at most a few hundred random writes a second) and \"SanDisk Announces Optimized iNAND Extreme\" (2013: \
                 4,000 random reads a second for its successor)",
        assumptions: "the peak rate is that of 128 KiB; estimates: 340 us to a read's transfer, writes at 20 MB/s, units of \
                      4 MiB, eight of them open, 5 ms to close one; a flush takes no time",
        ends: "one command at a time; rates beyond 128 KiB were not measured",
        make: || {
            card([340, 100], [85_500_000, 20_000_000], 8, 5_000)
        },
    },
    NamedModel {
        name: "optane-p4800x",
        summary: "Intel Optane SSD DC P4800X 375 GB, NVMe",
        figures: &[
            ("read and write latency", "10 us"),
            ("read p99.999", "60 us"),
            ("write p99.999", "100 us"),
            ("random read", "550000 IOPS"),
            ("random write", "500000 IOPS"),
            ("sequential read", "2400 MB/s"),
            ("sequential write", "2000 MB/s"),
        ],
        link: Link::new(3, 4),
        capacity: sold_as(375),
        year: Some(2017),
        source: "Intel Optane SSD DC P4800X Series product brief",
        assumptions: "the typical latency holds up to p99; flush as a write (no volatile cache)",
        ends: "rates are those of a load of one direction; a mixed load shares them",
        make: || {
            let tail = |us| percentiles(&[(99.0, 10), (99.999, us)]);
            rated(
                rating(tail(60), 550_000, 2_400),
                rating(tail(100), 500_000, 2_000),
                10 * MICROSECOND,
            )
        },
    },
    NamedModel {
        name: "intel-p4500",
        summary: "Intel SSD DC P4500 2 TB, NVMe, TLC",
        figures: &[
            ("read latency", "85 us"),
            ("write latency", "20 us"),
            ("random read", "490000 IOPS"),
            ("random write", "38000 IOPS"),
            ("sequential read", "3200 MB/s"),
            ("sequential write", "1050 MB/s"),
        ],
        link: Link::new(3, 4),
        capacity: sold_as(2_000),
        year: Some(2017),
        source: "Lenovo product guide \"Intel P4500 NVMe PCIe SSDs\", table 2",
        assumptions: "flush as a write (power-loss protected)",
        ends: "in steady state; the sheet's rates are those of a load of one direction, which a mixed load shares",
        make: || {
            rated(
                rating(fixed(85 * MICROSECOND), 490_000, 3_200),
                rating(fixed(20 * MICROSECOND), 38_000, 1_050),
                20 * MICROSECOND,
            )
        },
    },
    NamedModel {
        name: "intel-s4500",
        summary: "Intel SSD DC S4500, SATA, TLC",
        figures: &[
            ("read latency", "110 us"),
            ("write latency", "52 us"),
            ("read p99.9", "300 us"),
            ("write p99.9", "800 us"),
            ("random read", "72000 IOPS"),
            ("random write", "33000 IOPS"),
            ("sequential read", "500 MB/s"),
            ("sequential write", "490 MB/s"),
        ],
        link: None,
        capacity: sold_as(1_920),
        year: Some(2017),
        source: "Intel SSD DC S4500/S4600 Series product specification",
        assumptions: "the typical latency holds up to p99; flush as a write (power-loss protected); \
                      1.92 TB",
        ends: "in steady state; the sheet's rates are those of a load of one direction, which a mixed load shares",
        make: || {
            rated(
                rating(percentiles(&[(99.0, 110), (99.9, 300)]), 72_000, 500),
                rating(percentiles(&[(99.0, 52), (99.9, 800)]), 33_000, 490),
                52 * MICROSECOND,
            )
        },
    },
    client::CLIENTS[0],
    client::CLIENTS[1],
    client::CLIENTS[2],
    client::CLIENTS[3],
    NamedModel {
        name: "ultrastar-hc310",
        summary: "Western Digital Ultrastar DC HC310 6 TB, 7200 rpm SATA disk",
        figures: &[
            ("average seek, read", "7.4 ms"),
            ("average seek, write", "8.2 ms"),
            ("single track seek", "0.23 ms"),
            ("rotation", "7200 rpm"),
            ("sustained rate", "255 MB/s"),
            ("buffer", "256 MB"),
            ("interface", "SATA 6 Gb/s"),
        ],
        link: None,
        capacity: None,
        year: Some(2017),
        source: "Ultrastar DC HC310 hard disk drive specifications, revision 1.4, section 4.5 \
                 (tables 5 to 7); rate and buffer: its data sheet",
        assumptions: "half of the rate at the inner edge; three quarters of the buffer for writes, \
                      reading ahead up to 2 MiB",
        ends: "a single drive in good order: no retries, no remapped sectors",
        make: ultrastar_hc310,
    },
    flash::FLASH[0],
    flash::FLASH[1],
    flash::FLASH[2],
    flash::FLASH[3],
    flash::FLASH[4],
    flash::FLASH[5],
    flash::FLASH[6],
    flash::FLASH[7],
    volumes::VOLUMES[0],
    volumes::VOLUMES[1],
    volumes::VOLUMES[2],
    volumes::VOLUMES[3],
    volumes::VOLUMES[4],
    volumes::VOLUMES[5],
    volumes::VOLUMES[6],
    volumes::VOLUMES[7],
    volumes::VOLUMES[8],
    volumes::VOLUMES[9],
];

/// A drive that loses no acknowledged data: no volatile cache, or one
/// with power-loss protection.
fn rated(read: Rating, write: Rating, flush: Nanos) -> ModelKind {
    let (flush, discard) = (Span::fixed(flush), Span::fixed(flush));
    ModelKind::of(RatedSpec {
        read,
        write,
        flush,
        discard,
        write_zeroes: None,
        cache: None,
        plp: true,
    })
}

fn dcpmm() -> ModelKind {
    const TABLE_2: [(f64, f64); 19] = [
        (0.0, 1614.0),
        (1.0, 1768.0),
        (5.0, 1800.0),
        (10.0, 1848.0),
        (20.0, 1912.0),
        (30.0, 1944.0),
        (40.0, 1992.0),
        (50.0, 2096.0),
        (60.0, 2256.0),
        (70.0, 2352.0),
        (80.0, 2448.0),
        (90.0, 2544.0),
        (95.0, 2736.0),
        (99.0, 3120.0),
        (99.5, 3472.0),
        (99.9, 7776.0),
        (99.95, 8256.0),
        (99.99, 10048.0),
        (100.0, 170885.0),
    ];
    let mut profile = Profile::new("dcpmm", FREEZING_TIME, Observed::Application);
    profile.interpolation = Interpolation::Log;
    let block = Block { block_size: 4096, percentiles: TABLE_2.to_vec(), ..Block::default() };
    profile.operations.insert(Operation::Read, vec![block.clone()]);
    profile.operations.insert(Operation::Write, vec![block]);
    // A sixth of the rate that six modules reach.
    profile.bandwidth.insert(Operation::Read, 39_400_000_000 / 6);
    profile.bandwidth.insert(Operation::Write, 13_900_000_000 / 6);
    ModelKind::of(ProfileSpec {
        profile: Some(profile),
        flush: Some(Span::default()),
        discard: Some(Span::default()),
        // Data that the module has taken is in the power-fail protected domain.
        plp: true,
        ..ProfileSpec::default()
    })
}

fn jpt39c() -> ModelKind {
    let basic = DiskSpec::new(
        1_000_000_000_000,
        7200,
        Rate::per_second(125_000_000),
        1_580 * MICROSECOND,
        8_200 * MICROSECOND,
    );
    ModelKind::of(DiskSpec {
        interface_rate: Rate::per_second(300_000_000),
        write_cache: 32 << 20,
        write_cache_extents: 16,
        read_ahead: 1 << 20,
        ..basic
    })
}

fn mk6006gah() -> ModelKind {
    let basic = DiskSpec::new(
        60_000_000_000,
        4200,
        Rate::per_second(22_000_000),
        3_000 * MICROSECOND,
        11_700 * MICROSECOND,
    );
    ModelKind::of(DiskSpec {
        interface_rate: Rate::per_second(10_000_000),
        write_cache: 1 << 20,
        write_cache_extents: 16,
        read_ahead: 1 << 20,
        read_segments: 4,
        // ATA without native queueing.
        queue_depth: 1,
        ..basic
    })
}

/// A card: times of reads and writes before their transfer (us), and its rates; units that can be
/// open, and the time to close one (us).
fn card(before: [u64; 2], rates: [u64; 2], open_units: u32, close: u64) -> ModelKind {
    let [read, write] = before.map(|us| Span::fixed(us * MICROSECOND));
    let [read_rate, write_rate] = rates.map(Rate::per_second);
    ModelKind::of(CardSpec {
        read,
        read_rate,
        write,
        write_rate,
        unit: 4 << 20,
        open_units,
        close: Span::fixed(close * MICROSECOND),
        flush: Span::default(),
        discard: Span::default(),
    })
}

fn ultrastar_hc310() -> ModelKind {
    let basic = DiskSpec::new(
        6_000_000_000_000,
        7200,
        Rate::per_second(255_000_000),
        230 * MICROSECOND,
        7_400 * MICROSECOND,
    );
    ModelKind::of(DiskSpec {
        // The difference between the average seeks of writes and reads.
        write_settle: 800 * MICROSECOND,
        write_cache: 192 << 20,
        read_ahead: 2 << 20,
        ..basic
    })
}
