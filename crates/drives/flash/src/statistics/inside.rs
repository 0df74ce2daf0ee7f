//! The part of the results on a drive's inside.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stasis_block::{Health, Operation};
use stasis_clock::Nanos;
use stasis_nand::{Array, OpKind, PlaneId, Usage};

use super::{Statistics, Sums};
use crate::ftl::Context;

/// Levels of wear that results distinguish.
const WEAR_LEVELS: u32 = 32;

/// Operations of the array, by whom they were for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OperationCounts {
    /// For the host.
    pub host: u64,
    /// For housekeeping.
    pub housekeeping: u64,
}

/// Where the time of the host's commands of one kind went (ns, means): of each
/// command, the parts of the operation that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyMeans {
    /// Commands.
    pub count: u64,
    /// From submission to completion.
    pub latency: f64,
    /// Waiting for a plane or channel.
    pub queue: f64,
    /// Waiting for, and copying to and from, the cache register.
    pub register: f64,
    /// The cells at work.
    pub cell: f64,
    /// On the channel.
    pub channel: f64,
    /// Waiting for housekeeping.
    pub gc: f64,
    /// Everything else: controller, buffer, link, and earlier operations.
    pub other: f64,
}

/// How busy each of several resources was over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Usages {
    /// The width of a bucket of time (ns); the first begins at 0.
    pub bucket: Nanos,
    /// The share of each bucket, by resource.
    pub busy: Vec<Vec<f64>>,
}

/// Blocks that were erased about equally often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WearLevel {
    /// Least erases.
    pub from: u32,
    /// Maximum number of erases of the level.
    pub to: u32,
    /// Blocks.
    pub blocks: u64,
}

/// The parts of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayGeometry {
    /// Channels.
    pub channels: u32,
    /// LUNs of each channel.
    pub luns: u32,
    /// Planes of each LUN.
    pub planes: u32,
    /// Blocks of each plane.
    pub blocks: u32,
    /// Pages of each block.
    pub pages: u32,
    /// Bytes of each page.
    pub page_size: u32,
}

/// The values of a drive's description that its figures need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of the drive.
    pub capacity: u64,
    /// Bytes of a mapping unit.
    pub unit: u32,
    /// See [`Inside::asked_over_provisioning`].
    pub asked_over_provisioning: f64,
}

/// A drive's inside until some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// The time of the report (ns).
    pub at: Nanos,
    /// Media bytes for each byte that the host wrote; 1 if it wrote none. Less than
    /// 1 while written data is in the write buffer.
    pub write_amplification: f64,
    /// Bytes that the host wrote.
    #[serde(default)]
    pub host_bytes: u64,
    /// Bytes of the pages that were programmed, for the host or for housekeeping.
    #[serde(default)]
    pub media_bytes: u64,
    /// Bytes of a mapping unit.
    #[serde(default)]
    pub unit: u32,
    /// Bytes of the units that the host wrote in part and did not write.
    #[serde(default)]
    pub unit_padding: u64,
    /// Bytes of the pages that were programmed and hold no unit.
    #[serde(default)]
    pub page_padding: u64,
    /// Bytes of the drive.
    #[serde(default)]
    pub capacity: u64,
    /// The array's geometry, from the description and the drive's size.
    #[serde(default)]
    pub geometry: Option<ArrayGeometry>,
    /// Bytes of flash beyond the drive's capacity, as a share of the capacity.
    #[serde(default)]
    pub over_provisioning: f64,
    /// The over-provisioning that the description asks for, or the default.
    #[serde(default)]
    pub asked_over_provisioning: f64,
    /// Units that the host read.
    #[serde(default)]
    pub read_units: u64,
    /// Those of them that were never written, so that no cell was read.
    #[serde(default)]
    pub unwritten_units: u64,
    /// Units that the host wrote, whole or in part.
    pub host_units: u64,
    /// Units that were programmed for the host.
    pub programmed_units: u64,
    /// Units that housekeeping moved.
    pub moved_units: u64,
    /// Blocks that were emptied.
    pub collections: u64,
    /// Mean time of a collection (ns).
    pub collection_time: f64,
    /// Operations of the array: reads, programs, erases, copybacks.
    pub operations: BTreeMap<String, OperationCounts>,
    /// By operation of the host's.
    pub latency: BTreeMap<String, LatencyMeans>,
    /// Channels.
    pub channels: Usages,
    /// LUNs, counted through the array.
    pub luns: Usages,
    /// Erases of blocks.
    pub wear: Vec<WearLevel>,
    /// The health log.
    pub health: Health,
    /// Figures of the translation layer.
    pub ftl: serde_json::Value,
}

impl Context {
    /// Bytes of the pages that were programmed, for the host or for housekeeping.
    pub fn media_bytes(&self) -> u64 {
        self.media_bytes_of(&self.statistics)
    }

    fn media_bytes_of(&self, counted: &Statistics) -> u64 {
        counted.pages * u64::from(self.array.geometry().page_size)
    }

    /// Media bytes for each byte that the host wrote; 1 if it wrote none.
    pub fn write_amplification(&self) -> f64 {
        self.write_amplification_of(&self.statistics)
    }

    fn write_amplification_of(&self, counted: &Statistics) -> f64 {
        match counted.host_bytes {
            0 => 1.0,
            host => self.media_bytes_of(counted) as f64 / host as f64,
        }
    }

    /// The inside at `at`, with the counts since the start.
    pub(crate) fn inside(
        &self,
        at: Nanos,
        counted: &Statistics,
        sizes: Sizes,
        health: Health,
        ftl: serde_json::Value,
    ) -> Inside {
        let array = &self.array;
        let geometry = array.geometry();
        let flash = geometry.total_pages() * u64::from(geometry.page_size);
        let beyond = flash as f64 / sizes.capacity.max(1) as f64 - 1.0;
        let unit = u64::from(sizes.unit);
        let units = counted.programmed_units + counted.map_units + counted.moved_units;
        let (host_bytes, media_bytes) = (counted.host_bytes, self.media_bytes_of(counted));
        let kinds = [
            ("read", OpKind::Read),
            ("program", OpKind::Program),
            ("erase", OpKind::Erase),
            ("copyback", OpKind::Copyback),
        ];
        let operations = kinds.map(|(name, kind)| {
            let [reads, writes, housekeeping] = counted.ops[kind as usize];
            (name.to_owned(), OperationCounts { host: reads + writes, housekeeping })
        });
        let done = Operation::ALL.iter().zip(&counted.latency).filter(|(_, sums)| sums.count > 0);
        Inside {
            at,
            write_amplification: millionths(self.write_amplification_of(counted)),
            host_bytes,
            media_bytes,
            unit: sizes.unit,
            unit_padding: (counted.host_units * unit).saturating_sub(host_bytes),
            page_padding: media_bytes.saturating_sub(units * unit),
            capacity: sizes.capacity,
            geometry: Some(ArrayGeometry {
                channels: geometry.channels,
                luns: geometry.luns,
                planes: geometry.planes,
                blocks: geometry.blocks,
                pages: geometry.pages,
                page_size: geometry.page_size,
            }),
            over_provisioning: millionths(beyond),
            asked_over_provisioning: sizes.asked_over_provisioning,
            read_units: counted.read_units,
            unwritten_units: counted.unwritten_units,
            host_units: counted.host_units,
            programmed_units: counted.programmed_units,
            moved_units: counted.moved_units,
            collections: counted.collections,
            collection_time: (counted.collecting / counted.collections.max(1)) as f64,
            operations: operations.into(),
            latency: done.map(|(operation, sums)| (operation.name().into(), means(sums))).collect(),
            channels: usages(array.channel_usage(), geometry.channels),
            luns: usages(&array.lun_usage(), geometry.total_luns()),
            wear: wear(array),
            health,
            ftl,
        }
    }
}

/// Rounds to millionths: a value written as text reads back equal.
fn millionths(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn means(sums: &Sums) -> LatencyMeans {
    // To the picosecond: a value written as text reads back equal.
    let mean = |sum: Nanos| (sum as f64 / sums.count.max(1) as f64 * 1e3).round() / 1e3;
    let times = &sums.times;
    LatencyMeans {
        count: sums.count,
        latency: mean(sums.latency),
        queue: mean(times.queue),
        register: mean(times.register),
        cell: mean(times.cell),
        channel: mean(times.channel),
        gc: mean(times.gc),
        other: mean(sums.latency.saturating_sub(times.total())),
    }
}

fn usages(usage: &Usage, resources: u32) -> Usages {
    let bucket = usage.width();
    // Four places are enough to draw, and keep the text short.
    let share = |busy: Nanos| (busy as f64 / bucket as f64 * 1e4).round() / 1e4;
    let busy = (0..resources).map(|resource| usage.of(resource).map(share).collect()).collect();
    Usages { bucket, busy }
}

fn wear(array: &Array) -> Vec<WearLevel> {
    let geometry = array.geometry();
    let erases = || {
        (0..geometry.total_planes())
            .flat_map(|plane| (0..geometry.blocks).map(move |block| (PlaneId(plane), block)))
            .map(|(plane, block)| array.erases(plane, block))
    };
    let (least, most) = erases().fold((u32::MAX, 0), |(l, m), count| (l.min(count), m.max(count)));
    let width = (most.saturating_sub(least) / WEAR_LEVELS) + 1;
    let mut blocks = vec![0u64; WEAR_LEVELS as usize];
    erases().for_each(|count| blocks[((count - least) / width) as usize] += 1);
    let levels = (0..).zip(blocks).filter(|(_, blocks)| *blocks > 0);
    levels
        .map(|(level, blocks)| {
            let from = least + level * width;
            WearLevel { from, to: from + width - 1, blocks }
        })
        .collect()
}
