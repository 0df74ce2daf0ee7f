//! What results say of a drive's inside.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stasis_block::{Health, Operation};
use stasis_clock::Nanos;
use stasis_nand::{Array, OpKind, PlaneId, Usage};

use super::{Statistics, Sums};

/// Levels of wear that results tell apart.
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
    /// Most erases.
    pub to: u32,
    /// Blocks.
    pub blocks: u64,
}

/// A drive's inside until some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// When this was so (ns).
    pub at: Nanos,
    /// Units programmed for each unit that was programmed for the host.
    pub write_amplification: f64,
    /// Units that the host read.
    #[serde(default)]
    pub read_units: u64,
    /// Those of them that were never written, so that no cell was read.
    #[serde(default)]
    pub unwritten_units: u64,
    /// Units that the host wrote.
    pub host_units: u64,
    /// Units that were programmed for the host.
    pub programmed_units: u64,
    /// Units that housekeeping moved.
    pub moved_units: u64,
    /// Blocks that were emptied.
    pub collections: u64,
    /// What that took on average (ns).
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
    /// What the health log says.
    pub health: Health,
    /// What the translation layer adds.
    pub ftl: serde_json::Value,
}

impl Statistics {
    pub(crate) fn inside(
        &self,
        at: Nanos,
        array: &Array,
        health: Health,
        ftl: serde_json::Value,
    ) -> Inside {
        let geometry = array.geometry();
        let kinds = [
            ("read", OpKind::Read),
            ("program", OpKind::Program),
            ("erase", OpKind::Erase),
            ("copyback", OpKind::Copyback),
        ];
        let operations = kinds.map(|(name, kind)| {
            let [reads, writes, housekeeping] = self.ops[kind as usize];
            (name.to_owned(), OperationCounts { host: reads + writes, housekeeping })
        });
        let done = Operation::ALL.iter().zip(&self.latency).filter(|(_, sums)| sums.count > 0);
        Inside {
            at,
            write_amplification: (self.write_amplification() * 1e6).round() / 1e6,
            read_units: self.read_units,
            unwritten_units: self.unwritten_units,
            host_units: self.host_units,
            programmed_units: self.programmed_units,
            moved_units: self.moved_units,
            collections: self.collections,
            collection_time: (self.collecting / self.collections.max(1)) as f64,
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

fn means(sums: &Sums) -> LatencyMeans {
    // To the picosecond: what is written as text reads back.
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
