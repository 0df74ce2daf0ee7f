//! The named volumes of clouds, by their providers' own tables.

use stasis_block::clock::{MICROSECOND, SECOND};
use stasis_block::Rate;

use super::model::NamedModel;
use crate::kinds::rated::RatedLatency;
use crate::kinds::volume::{VolumeSpec, VolumeTier};
use crate::kinds::ModelKind;
use crate::span::Span;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Limit of every named volume's figures.
const ENDS: &str =
    "the volume alone: the instance that it is attached to has limits of its own, which may be lower \
     (`limits` of a drive or a virtual disk are in their place)";

/// Assumption on the latencies of Amazon's volumes for general purposes.
const EBS: &str =
    "latencies of 500 us to 1 ms (the table has \"single-digit milliseconds\"); a flush and a discard \
     take no time; a command that continues the last of its direction joins its I/O, however much later \
     it comes";
/// Assumption on Persistent Disks.
const PD: &str =
    "latencies of 700 us to 1.5 ms (the documentation has \"single-digit milliseconds\"); a flush and a \
     discard take no time; a command counts as one I/O, however long it is; the baseline, which all disks of \
     an instance share, is this one's";

/// Every volume with a name.
pub(super) const VOLUMES: [NamedModel; 10] = [
    NamedModel {
        name: "aws-gp3",
        summary: "Amazon EBS gp3, 3,000 IOPS and 125 MiB/s, or as provisioned",
        figures: &[
            ("IOPS", "3000, provisioned up to 80000"),
            ("IOPS for each GiB, at most", "500"),
            ("throughput", "125 MiB/s, provisioned up to 2000 MiB/s"),
            ("throughput for each of the IOPS, at most", "0.25 MiB/s"),
            ("I/O size", "256 KiB"),
            ("size", "1 GiB to 64 TiB"),
        ],
        link: None,
        capacity: Some(100 * GIB),
        year: Some(2020),
        source: "Amazon EBS User Guide, \"Amazon EBS General Purpose SSD volumes\" (as of the end of 2025; until \
                 then 16,000 IOPS, 1,000 MiB/s and 16 TiB), and \"Amazon EBS I/O characteristics and \
                 monitoring\" (sizes of I/Os, merging)",
        assumptions: EBS,
        ends: ENDS,
        make: || {
            ModelKind::of(VolumeSpec {
                max_size: Some(64 * TIB),
                iops: Some(3_000),
                min_iops: Some(3_000),
                max_iops: Some(80_000),
                max_iops_per_gib: Some(500),
                bandwidth: rate(125 * MIB),
                bandwidth_per_iops: rate(256 * KIB),
                max_bandwidth: rate(2_000 * MIB),
                ..ebs([500, 1_000])
            })
        },
    },
    NamedModel {
        name: "aws-gp2",
        summary: "Amazon EBS gp2: 3 IOPS for each GiB, and credits for bursts",
        figures: &[
            ("IOPS for each GiB", "3"),
            ("IOPS", "100 to 16000"),
            ("IOPS in a burst", "3000"),
            ("credits", "5400000 I/Os"),
            ("throughput", "250 MiB/s, up to 170 GiB 128 MiB/s"),
            ("I/O size", "256 KiB"),
            ("size", "1 GiB to 16 TiB"),
        ],
        link: None,
        capacity: Some(100 * GIB),
        year: Some(2014),
        source: "Amazon EBS User Guide, \"Amazon EBS General Purpose SSD volumes\" (the table of sizes, baselines and \
                 lengths of bursts), and \"Amazon EBS I/O characteristics and monitoring\" (sizes of I/Os, merging)",
        assumptions: EBS,
        ends: "the volume alone: the instance's limits may be lower. The guide's table has 1,802 s as the burst of 1 GiB, by \
               a formula of 3 IOPS for each GiB; with the 100 IOPS by which the same table fills the credits it is 1,862 s, \
               and here as well. The rates of `stasis models` are those of the burst",
        make: || {
            ModelKind::of(VolumeSpec {
                max_size: Some(16 * TIB),
                iops_per_gib: Some(3),
                min_iops: Some(100),
                max_iops: Some(16_000),
                burst_iops: Some(3_000),
                iops_credits: Some(5_400_000),
                tiers: vec![
                    VolumeTier { bandwidth: rate(128 * MIB), ..tier(170 * GIB) },
                    VolumeTier { bandwidth: rate(250 * MIB), ..tier(16 * TIB) },
                ],
                ..ebs([500, 1_000])
            })
        },
    },
    NamedModel {
        name: "aws-io2",
        summary: "Amazon EBS io2 Block Express, 4,000 IOPS or as provisioned",
        figures: &[
            ("IOPS", "as provisioned, 100 to 256000"),
            ("IOPS for each GiB, at most", "1000"),
            ("throughput for each of the IOPS", "0.256 MiB/s"),
            ("throughput, at most", "4000 MiB/s"),
            ("latency of 16 KiB, mean", "below 500 us"),
            ("I/O size", "256 KiB"),
            ("size", "4 GiB to 64 TiB"),
        ],
        link: None,
        capacity: Some(100 * GIB),
        year: Some(2021),
        source: "Amazon EBS User Guide, \"Amazon EBS Provisioned IOPS SSD volumes\" and \"Amazon EBS optimization\" (mean \
                 latency), \"Amazon EBS I/O characteristics and monitoring\" (sizes of I/Os, merging)",
        assumptions: "4,000 IOPS are provisioned, which the smallest volume can have; latencies of 250 to 450 us; a flush and a discard take no time; a command \
                      that continues the last of its direction joins its I/O, however much later it comes",
        ends: ENDS,
        make: || {
            ModelKind::of(VolumeSpec {
                min_size: Some(4 * GIB),
                max_size: Some(64 * TIB),
                iops: Some(4_000),
                min_iops: Some(100),
                max_iops: Some(256_000),
                max_iops_per_gib: Some(1_000),
                bandwidth_per_iops: rate(MIB * 256 / 1_000),
                max_bandwidth: rate(4_000 * MIB),
                ..ebs([250, 450])
            })
        },
    },
    NamedModel {
        name: "aws-st1",
        summary: "Amazon EBS st1, disks: 40 MiB/s for each TiB, and credits for bursts",
        figures: &[
            ("throughput for each TiB", "40 MiB/s"),
            ("throughput for each TiB in a burst", "250 MiB/s"),
            ("throughput, at most", "500 MiB/s"),
            ("credits for each TiB", "1 TiB"),
            ("IOPS", "500"),
            ("I/O size", "1 MiB"),
            ("size", "125 GiB to 16 TiB"),
        ],
        link: None,
        capacity: Some(TIB),
        year: Some(2016),
        source: "Amazon EBS User Guide, \"Amazon EBS Throughput Optimized HDD and Cold HDD volumes\" (the table of sizes, base \
                 and burst throughput), and \"Amazon EBS I/O characteristics and monitoring\" (sizes of I/Os, merging)",
        assumptions: "latencies of 5 to 15 ms, about a disk's own; I/Os that are shorter than 1 MiB and do not continue the last \
                      one are bounded by the 500 IOPS, and take no more credits than their bytes; a flush and a discard take no \
                      time; a command that continues the last of its direction joins its I/O, however much later it comes",
        ends: "large I/Os in order; the instance's limits may be lower. The rates of `stasis models` are those of the burst",
        make: || {
            ModelKind::of(VolumeSpec {
                min_size: Some(125 * GIB),
                max_size: Some(16 * TIB),
                io_size: Some(MIB),
                iops: Some(500),
                bandwidth_per_gib: rate(40 * KIB),
                burst_bandwidth_per_gib: rate(250 * KIB),
                max_bandwidth: rate(500 * MIB),
                bandwidth_credits_per_gib: Some(GIB),
                ..ebs([5_000, 15_000])
            })
        },
    },
    NamedModel {
        name: "azure-premium-ssd",
        summary: "Azure Premium SSD, P1 to P80 by its size, with credits for bursts",
        figures: &[
            ("IOPS", "120 (P1, 4 GiB) to 20000 (P80, 32767 GiB)"),
            ("throughput", "25 MB/s to 900 MB/s"),
            ("burst up to P20 (512 GiB)", "3500 IOPS, 170 MB/s, 30 min"),
            ("I/O size", "256 KiB"),
        ],
        link: None,
        capacity: Some(128 * GIB),
        year: Some(2015),
        source: "Microsoft Azure documentation, \"Azure managed disk types\" (the table of Premium SSD sizes), \"Managed disk \
                 bursting\" (credits), \"High-performance Premium Storage and managed disks for VMs\" (sizes of I/Os)",
        assumptions: "latencies of 1 to 2 ms (the documentation has \"single-digit milliseconds\"); a flush and a discard take no \
                      time; the host's cache is off; bursts on demand and `performance plus` are off: give `iops` and \
                      `bandwidth`",
        ends: "the volume alone: the machine's limits may be lower. A size between two of the table has the limits of the larger, \
               as it is sold. The rates of `stasis models` are those of the burst",
        make: || {
            ModelKind::of(VolumeSpec {
                io_size: Some(256 * KIB),
                burst: Some(30 * 60 * SECOND),
                tiers: PREMIUM.map(premium).to_vec(),
                ..volume([1_000, 2_000])
            })
        },
    },
    NamedModel {
        name: "azure-premium-ssd-v2",
        summary: "Azure Premium SSD v2, 3,000 IOPS and 125 MB/s, or as provisioned",
        figures: &[
            ("IOPS", "3000, provisioned up to 80000"),
            ("IOPS for each GiB, at most", "500"),
            ("throughput", "125 MB/s, provisioned up to 1200 MB/s"),
            ("throughput for each of the IOPS, at most", "0.25 MB/s"),
            ("size", "1 GiB to 64 TiB"),
        ],
        link: None,
        capacity: Some(128 * GIB),
        year: Some(2022),
        source: "Microsoft Azure documentation, \"Azure managed disk types\" (Premium SSD v2)",
        assumptions: "latencies of 500 to 900 us (the documentation has \"submillisecond\"); a flush and a discard take no time; a \
                      command counts as one I/O, however long it is",
        ends: ENDS,
        make: || {
            ModelKind::of(VolumeSpec {
                max_size: Some(64 * TIB),
                iops: Some(3_000),
                min_iops: Some(3_000),
                max_iops: Some(80_000),
                max_iops_per_gib: Some(500),
                bandwidth: rate(125_000_000),
                bandwidth_per_iops: rate(250_000),
                max_bandwidth: rate(1_200_000_000),
                ..volume([500, 900])
            })
        },
    },
    NamedModel {
        name: "gcp-hyperdisk-balanced",
        summary: "Google Cloud Hyperdisk Balanced, 3,000 IOPS and 140 MiB/s, or as provisioned",
        figures: &[
            ("IOPS", "3000, provisioned up to 160000"),
            ("IOPS for each GiB, at most", "500"),
            ("throughput", "140 MiB/s, provisioned up to 2400 MiB/s"),
            ("throughput for each of the IOPS, at most", "0.25 MiB/s"),
            ("size", "4 GiB to 64 TiB"),
        ],
        link: None,
        capacity: Some(100 * GIB),
        year: Some(2023),
        source: "Google Cloud documentation, \"About Hyperdisk Balanced\" (size and performance limits, baseline performance)",
        assumptions: "the baseline is provisioned; latencies of 400 to 900 us (the documentation has \"sub-millisecond\"); a flush \
                      and a discard take no time; a command counts as one I/O, however long it is",
        ends: ENDS,
        make: || {
            ModelKind::of(VolumeSpec {
                min_size: Some(4 * GIB),
                max_size: Some(64 * TIB),
                iops: Some(3_000),
                min_iops: Some(3_000),
                max_iops: Some(160_000),
                max_iops_per_gib: Some(500),
                bandwidth: rate(140 * MIB),
                bandwidth_per_iops: rate(256 * KIB),
                max_bandwidth: rate(2_400 * MIB),
                ..volume([400, 900])
            })
        },
    },
    NamedModel {
        name: "gcp-hyperdisk-extreme",
        summary: "Google Cloud Hyperdisk Extreme, 64,000 IOPS or as provisioned",
        figures: &[
            ("IOPS", "as provisioned, up to 350000"),
            ("IOPS for each GiB, at most", "1000"),
            ("throughput for each 1,000 of the IOPS", "250 MiB/s"),
            ("throughput, at most", "5000 MiB/s"),
            ("size", "64 GiB to 64 TiB"),
        ],
        link: None,
        capacity: Some(TIB),
        year: Some(2022),
        source: "Google Cloud documentation, \"About Hyperdisk Extreme\" (size and performance limits)",
        assumptions: "64,000 IOPS are provisioned, which the smallest volume can have; latencies of 300 to 700 us (the documentation has \"sub-millisecond\"); a flush \
                      and a discard take no time; a command counts as one I/O, however long it is",
        ends: ENDS,
        make: || {
            ModelKind::of(VolumeSpec {
                min_size: Some(64 * GIB),
                max_size: Some(64 * TIB),
                iops: Some(64_000),
                max_iops: Some(350_000),
                max_iops_per_gib: Some(1_000),
                bandwidth_per_iops: rate(256 * KIB),
                max_bandwidth: rate(5_000 * MIB),
                ..volume([300, 700])
            })
        },
    },
    NamedModel {
        name: "gcp-pd-balanced",
        summary: "Google Cloud balanced Persistent Disk: 6 IOPS for each GiB, and 3,000",
        figures: &[
            ("IOPS", "3000, and 6 for each GiB, up to 80000"),
            ("throughput", "140 MiB/s, and 0.28 MiB/s for each GiB, up to 1200 MiB/s"),
            ("size", "10 GiB to 64 TiB"),
        ],
        link: None,
        capacity: Some(100 * GIB),
        year: Some(2020),
        source: PERSISTENT_DISK,
        assumptions: PD,
        ends: ENDS,
        make: || {
            ModelKind::of(VolumeSpec {
                iops: Some(3_000),
                iops_per_gib: Some(6),
                max_iops: Some(80_000),
                bandwidth: rate(140 * MIB),
                bandwidth_per_gib: rate(MIB * 28 / 100),
                ..persistent_disk()
            })
        },
    },
    NamedModel {
        name: "gcp-pd-ssd",
        summary: "Google Cloud SSD Persistent Disk: 30 IOPS for each GiB, and 6,000",
        figures: &[
            ("IOPS", "6000, and 30 for each GiB, up to 100000"),
            ("throughput", "240 MiB/s, and 0.48 MiB/s for each GiB, up to 1200 MiB/s"),
            ("size", "10 GiB to 64 TiB"),
        ],
        link: None,
        capacity: Some(100 * GIB),
        year: Some(2013),
        source: PERSISTENT_DISK,
        assumptions: PD,
        ends: ENDS,
        make: || {
            ModelKind::of(VolumeSpec {
                iops: Some(6_000),
                iops_per_gib: Some(30),
                max_iops: Some(100_000),
                bandwidth: rate(240 * MIB),
                bandwidth_per_gib: rate(MIB * 48 / 100),
                ..persistent_disk()
            })
        },
    },
];

/// Source of the figures of Persistent Disks.
const PERSISTENT_DISK: &str =
    "Google Cloud documentation, \"About Persistent Disk performance\" (performance limits: baseline, and for each GiB)";

/// The sizes of Azure's Premium SSD (GiB): IOPS and MB/s of each.
const PREMIUM: [(u64, u64, u64); 14] = [
    (4, 120, 25),
    (8, 120, 25),
    (16, 120, 25),
    (32, 120, 25),
    (64, 240, 50),
    (128, 500, 100),
    (256, 1_100, 125),
    (512, 2_300, 150),
    (1_024, 5_000, 200),
    (2_048, 7_500, 250),
    (4_096, 7_500, 250),
    (8_192, 16_000, 500),
    (16_384, 18_000, 750),
    (32_767, 20_000, 900),
];
/// The largest of them whose bursts are by credits (GiB).
const MAX_SIZE_WITH_CREDITS: u64 = 512;

fn premium((size, iops, megabytes): (u64, u64, u64)) -> VolumeTier {
    let bursts = size <= MAX_SIZE_WITH_CREDITS;
    VolumeTier {
        iops: Some(iops),
        burst_iops: bursts.then_some(3_500),
        bandwidth: rate(megabytes * 1_000_000),
        burst_bandwidth: rate(170_000_000).filter(|_| bursts),
        ..tier(size * GIB)
    }
}

fn tier(size: u64) -> VolumeTier {
    VolumeTier { size, iops: None, burst_iops: None, bandwidth: None, burst_bandwidth: None }
}

fn rate(bytes: u64) -> Option<Rate> {
    Some(Rate::per_second(bytes))
}

/// A volume without limits, with these latencies (us).
fn volume([least, most]: [u64; 2]) -> VolumeSpec {
    let latency = RatedLatency::Span(Span::between(least * MICROSECOND, most * MICROSECOND));
    VolumeSpec::new(latency.clone(), latency)
}

/// A volume of Amazon's, whose I/Os are of up to 256 KiB and merged.
fn ebs(latency: [u64; 2]) -> VolumeSpec {
    VolumeSpec { io_size: Some(256 * KIB), merge: true, ..volume(latency) }
}

fn persistent_disk() -> VolumeSpec {
    VolumeSpec {
        min_size: Some(10 * GIB),
        max_size: Some(64 * TIB),
        max_bandwidth: rate(1_200 * MIB),
        ..volume([700, 1_500])
    }
}
