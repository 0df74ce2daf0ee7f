//! Internal activity of drives and layers, as results report it.

pub mod geometry;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::geometry::Geometry;
use crate::clock::Nanos;
use crate::timeline::Step;
use crate::{Health, Operation};

/// Internal activity of a drive or a layer, by its kind. As JSON each kind is told by its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Inside {
    /// A disk image.
    Image {
        /// Its own.
        image: ImageCounters,
        /// The drive below.
        below: Option<Box<Inside>>,
    },
    /// A flash SSD.
    Flash(Box<FlashInside>),
    /// A drive whose parts have flash of their own.
    Parts {
        /// The parts, in the order of bytes.
        parts: Vec<PartInside>,
    },
    /// A model that reports only where the time of its commands went.
    Commands {
        /// By operation of the host's.
        latency: BTreeMap<String, LatencyMeans>,
        /// The host's slowest commands of each operation, the slowest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        slowest: Vec<SlowCommand>,
    },
    /// A kind that this version does not report: read from a file of another version.
    Other(Value),
}

impl Inside {
    /// Returns the part of a flash SSD, if the drive at the bottom is one.
    pub fn flash(&self) -> Option<&FlashInside> {
        match self {
            Self::Flash(flash) => Some(flash),
            Self::Image { below, .. } => below.as_ref()?.flash(),
            Self::Parts { .. } | Self::Commands { .. } | Self::Other(_) => None,
        }
    }

    /// Returns the activity of each flash SSD at the bottom of the drive `name`: of several parts
    /// with flash of their own each, named [`part_name`].
    pub fn flashes(&self, name: &str) -> Vec<(String, &FlashInside)> {
        match self {
            Self::Flash(flash) => vec![(name.to_owned(), flash)],
            Self::Image { below, .. } => {
                below.as_ref().map_or(Vec::new(), |below| below.flashes(name))
            }
            Self::Parts { parts } => {
                let numbered = (1..).zip(parts);
                let inside = numbered.filter_map(|(at, part)| Some((at, part.inside.as_ref()?)));
                inside.flat_map(|(at, inside)| inside.flashes(&part_name(name, at))).collect()
            }
            Self::Commands { .. } | Self::Other(_) => Vec::new(),
        }
    }

    /// The parts of the host's commands' time at the drive at the bottom, by operation; none of a
    /// drive of parts.
    pub fn latency(&self) -> Option<&BTreeMap<String, LatencyMeans>> {
        match self {
            Self::Flash(flash) => Some(&flash.latency),
            Self::Commands { latency, .. } => Some(latency),
            Self::Image { below, .. } => below.as_ref()?.latency(),
            Self::Parts { .. } | Self::Other(_) => None,
        }
    }

    /// Takes the slowest commands of the drive at the bottom out of `inside`.
    pub fn take_slowest(inside: &mut Option<Self>) -> Vec<SlowCommand> {
        match inside {
            Some(Self::Flash(flash)) => std::mem::take(&mut flash.slowest),
            Some(Self::Image { below, .. }) => {
                let mut drive = below.take().map(|below| *below);
                let slowest = Self::take_slowest(&mut drive);
                *below = drive.map(Box::new);
                slowest
            }
            Some(Self::Parts { parts }) => {
                let mut all = Vec::new();
                for PartInside { start, inside } in parts {
                    let moved = |command: SlowCommand| SlowCommand {
                        offset: command.offset + *start,
                        ..command
                    };
                    all.extend(Self::take_slowest(inside).into_iter().map(moved));
                }
                all.sort_by_key(|command| {
                    std::cmp::Reverse(command.end.saturating_sub(command.begin))
                });
                all
            }
            Some(Self::Commands { slowest, .. }) => std::mem::take(slowest),
            Some(Self::Other(_)) | None => Vec::new(),
        }
    }

    /// Makes the activity of a drive of parts, each with its first byte.
    pub fn of_parts(parts: Vec<(u64, Option<Self>)>) -> Self {
        let part = |(start, inside)| PartInside { start, inside };
        Self::Parts { parts: parts.into_iter().map(part).collect() }
    }

    /// Returns the counters of a disk image, if one is on top.
    pub fn image(&self) -> Option<&ImageCounters> {
        match self {
            Self::Image { image, .. } => Some(image),
            Self::Flash(_) | Self::Parts { .. } | Self::Commands { .. } | Self::Other(_) => None,
        }
    }
}

/// The name of a part of a drive, numbered from 1, in results.
pub fn part_name(drive: &str, number: usize) -> String {
    format!("{drive}, part {number}")
}

/// A part of a drive with flash of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartInside {
    /// Its first byte on the drive.
    pub start: u64,
    /// Its internal activity.
    pub inside: Option<Inside>,
}

/// Counters of the guest's flushes, and of the other operations at the drive below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageCounters {
    /// Flushes of the guest.
    pub guest_flushes: u64,
    /// Of them and of the guest's writes those that asked to be durable whatever
    /// the image's way.
    pub guest_durable: u64,
    /// Flushes of the drive below, those of `lag_flushes` among them.
    pub host_flushes: u64,
    /// Barriers of the drive below.
    pub host_barriers: u64,
    /// Flushes that nobody waited for: they bound the loss by a crash.
    pub lag_flushes: u64,
    /// Flushes of the guest that waited for such a flush.
    pub lag_waits: u64,
    /// Reads of the drive below.
    pub host_reads: u64,
    /// Writes, discards and writes of zeroes of the drive below.
    pub host_writes: u64,
    /// Bytes that they covered.
    pub host_write_bytes: u64,
    /// Bytes of tables among them.
    pub table_write_bytes: u64,
    /// Maximum number of the guest's flushes that had ended and that a crash could have undone, at
    /// any instant.
    pub lag_most_flushes: u64,
    /// Maximum of the data that the guest had written before its last flush and that a crash could
    /// have undone, at any instant (bytes).
    pub lag_most_bytes: u64,
    /// Longest time for which a crash could have undone a flush (ns).
    pub lag_longest: Nanos,
}

impl ImageCounters {
    /// Counts since `before`; maxima stay as they are.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            guest_flushes: self.guest_flushes - before.guest_flushes,
            guest_durable: self.guest_durable - before.guest_durable,
            host_flushes: self.host_flushes - before.host_flushes,
            host_barriers: self.host_barriers - before.host_barriers,
            lag_flushes: self.lag_flushes - before.lag_flushes,
            lag_waits: self.lag_waits - before.lag_waits,
            host_reads: self.host_reads - before.host_reads,
            host_writes: self.host_writes - before.host_writes,
            host_write_bytes: self.host_write_bytes - before.host_write_bytes,
            table_write_bytes: self.table_write_bytes - before.table_write_bytes,
            lag_most_flushes: self.lag_most_flushes,
            lag_most_bytes: self.lag_most_bytes,
            lag_longest: self.lag_longest,
        }
    }
}

/// Operations of the array, by whom they were for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OperationCounts {
    /// For the host.
    pub host: u64,
    /// For housekeeping.
    pub housekeeping: u64,
}

/// The parts of commands' time at a drive; together they are the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, bound = "T: Serialize + serde::de::DeserializeOwned + Default + PartialEq")]
pub struct Parts<T> {
    /// On the link, in the controller, and into the buffer's memory.
    pub controller: T,
    /// Waiting for its turn, where a model does not tell behind whom.
    pub queue: T,
    /// Waiting for a plane or channel that reads of the host's have.
    #[serde(skip_serializing_if = "is_none")]
    pub behind_reads: T,
    /// Waiting for a plane or channel that writes of the host's have; of a flush, for earlier
    /// programs too.
    #[serde(skip_serializing_if = "is_none")]
    pub behind_writes: T,
    /// Waiting for, and copying to and from, the cache register.
    pub register: T,
    /// The cells at work.
    pub cell: T,
    /// On the channel.
    pub channel: T,
    /// Waiting while housekeeping has the plane or the channel.
    pub gc: T,
    /// Waiting for the write buffer, or in it, while the host's data is programmed.
    pub buffer: T,
    /// Waiting for the write buffer while housekeeping holds up the programs that empty it.
    pub buffer_gc: T,
    /// The arm's seek and the wait for the sector, of a disk.
    #[serde(skip_serializing_if = "is_none")]
    pub positioning: T,
    /// The bytes' pass under the head, of a disk; the bytes beyond the rated length, of a drive by
    /// its data sheet.
    #[serde(skip_serializing_if = "is_none")]
    pub transfer: T,
    /// The latency that a model without parts gives a command by itself.
    #[serde(skip_serializing_if = "is_none")]
    pub service: T,
    /// Everything else.
    pub other: T,
}

/// Returns whether a part is nothing.
fn is_none<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

impl<T: Copy> Parts<T> {
    /// Each part with its name for readers, in the order of a command's way.
    pub fn named(&self) -> [(&'static str, T); 14] {
        [
            ("controller", self.controller),
            ("buffer full", self.buffer),
            ("buffer full behind a collection", self.buffer_gc),
            ("queue", self.queue),
            ("behind reads", self.behind_reads),
            ("behind writes", self.behind_writes),
            ("collection", self.gc),
            ("cell", self.cell),
            ("register", self.register),
            ("channel", self.channel),
            ("positioning", self.positioning),
            ("transfer", self.transfer),
            ("service time", self.service),
            ("other", self.other),
        ]
    }

    /// Each part with its step on a command's track, in the order of a command's way.
    pub fn steps(&self) -> [(Step, T); 14] {
        const STEPS: [Step; 14] = [
            Step::Controller,
            Step::Buffer,
            Step::BufferGc,
            Step::Queue,
            Step::BehindReads,
            Step::BehindWrites,
            Step::Gc,
            Step::Cells,
            Step::Register,
            Step::Channel,
            Step::Positioning,
            Step::Transfer,
            Step::Service,
            Step::Other,
        ];
        let named = self.named();
        std::array::from_fn(|place| (STEPS[place], named[place].1))
    }

    /// The part of a step, if it is one of a command's time.
    pub fn of_step(&mut self, step: Step) -> Option<&mut T> {
        Some(match step {
            Step::Controller => &mut self.controller,
            Step::Buffer => &mut self.buffer,
            Step::BufferGc => &mut self.buffer_gc,
            Step::Queue => &mut self.queue,
            Step::BehindReads => &mut self.behind_reads,
            Step::BehindWrites => &mut self.behind_writes,
            Step::Gc => &mut self.gc,
            Step::Cells => &mut self.cell,
            Step::Register => &mut self.register,
            Step::Channel => &mut self.channel,
            Step::Positioning => &mut self.positioning,
            Step::Transfer => &mut self.transfer,
            Step::Service => &mut self.service,
            Step::Other => &mut self.other,
            _ => return None,
        })
    }

    /// Returns the parts, each of them changed by `change`.
    pub fn map<U>(&self, mut change: impl FnMut(T) -> U) -> Parts<U> {
        Parts {
            controller: change(self.controller),
            queue: change(self.queue),
            behind_reads: change(self.behind_reads),
            behind_writes: change(self.behind_writes),
            register: change(self.register),
            cell: change(self.cell),
            channel: change(self.channel),
            gc: change(self.gc),
            buffer: change(self.buffer),
            buffer_gc: change(self.buffer_gc),
            positioning: change(self.positioning),
            transfer: change(self.transfer),
            service: change(self.service),
            other: change(self.other),
        }
    }

    /// Changes each part by the other's.
    pub fn change_by(&mut self, by: &Self, mut change: impl FnMut(&mut T, T)) {
        change(&mut self.controller, by.controller);
        change(&mut self.queue, by.queue);
        change(&mut self.behind_reads, by.behind_reads);
        change(&mut self.behind_writes, by.behind_writes);
        change(&mut self.register, by.register);
        change(&mut self.cell, by.cell);
        change(&mut self.channel, by.channel);
        change(&mut self.gc, by.gc);
        change(&mut self.buffer, by.buffer);
        change(&mut self.buffer_gc, by.buffer_gc);
        change(&mut self.positioning, by.positioning);
        change(&mut self.transfer, by.transfer);
        change(&mut self.service, by.service);
        change(&mut self.other, by.other);
    }
}

/// Parts of the time of the host's commands of one kind (ns, means).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyMeans {
    /// Commands.
    pub count: u64,
    /// From submission to completion.
    pub latency: f64,
    /// Its parts.
    #[serde(flatten)]
    pub parts: Parts<f64>,
}

/// Sums over the host's commands of one kind (ns).
#[derive(Debug, Clone, Copy, Default)]
pub struct LatencySums {
    count: u64,
    latency: Nanos,
    parts: Parts<Nanos>,
}

impl LatencySums {
    /// Adds a command that took `latency` (ns), which went where `parts` has it.
    #[inline]
    pub fn add(&mut self, latency: Nanos, parts: &Parts<Nanos>) {
        self.count += 1;
        self.latency = self.latency.wrapping_add(latency);
        self.parts.change_by(parts, |sum, part| *sum = sum.wrapping_add(part));
    }

    /// Takes such a command back.
    fn remove(&mut self, latency: Nanos, parts: &Parts<Nanos>) {
        self.count -= 1;
        self.latency = self.latency.wrapping_sub(latency);
        self.parts.change_by(parts, |sum, part| *sum = sum.wrapping_sub(part));
    }

    /// The means, to the picosecond: a value written as text reads back equal.
    fn means(&self) -> LatencyMeans {
        let mean = |sum: Nanos| (sum as f64 / self.count.max(1) as f64 * 1e3).round() / 1e3;
        let parts = self.parts.map(mean);
        LatencyMeans { count: self.count, latency: mean(self.latency), parts }
    }
}

/// The sums of each operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct SumsByOperation([LatencySums; Operation::ALL.len()]);

impl SumsByOperation {
    /// Adds a command, see [`LatencySums::add`].
    #[inline]
    pub fn add(&mut self, operation: Operation, latency: Nanos, parts: &Parts<Nanos>) {
        self.0[operation as usize].add(latency, parts);
    }

    /// Takes a command back that was added.
    pub fn remove(&mut self, operation: Operation, latency: Nanos, parts: &Parts<Nanos>) {
        self.0[operation as usize].remove(latency, parts);
    }

    /// Returns the sums of the commands after `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (sums, before) in self.0.iter_mut().zip(&before.0) {
            sums.count -= before.count;
            sums.latency = sums.latency.wrapping_sub(before.latency);
            sums.parts.change_by(&before.parts, |sum, part| *sum = sum.wrapping_sub(part));
        }
        self
    }

    /// The means of the operations that there were, by their names.
    pub fn means(&self) -> BTreeMap<String, LatencyMeans> {
        let all = Operation::ALL.iter().zip(&self.0).filter(|(_, sums)| sums.count > 0);
        all.map(|(operation, sums)| (operation.name().to_owned(), sums.means())).collect()
    }
}

/// A slow command of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowCommand {
    /// Its operation.
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Time at which the drive got it (ns).
    pub begin: Nanos,
    /// Time at which the drive completed it (ns).
    pub end: Nanos,
    /// Parts of its time (ns).
    pub parts: Parts<Nanos>,
}

/// Use of each of several resources over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Usages {
    /// The width of a bucket of time (ns); the first begins at 0.
    pub bucket: Nanos,
    /// The share of each bucket, by resource.
    pub busy: Vec<Vec<f64>>,
}

/// Housekeeping of a flash SSD over time, step by step; the first step begins at 0, the last one may
/// be shorter than the others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FlashCourse {
    /// The length of a step (ns).
    pub step: Nanos,
    /// Bytes that the host wrote in each step.
    pub host_bytes: Vec<u64>,
    /// Bytes of the pages that were programmed in it.
    pub media_bytes: Vec<u64>,
    /// Blocks that were emptied in it.
    pub collections: Vec<u64>,
    /// Free blocks at its end; empty where the translation layer has none.
    pub free_blocks: Vec<u64>,
    /// Bytes of the units that lie in flash at its end; empty where the translation layer does not
    /// know them.
    #[serde(default)]
    pub valid_bytes: Vec<u64>,
    /// Bytes of the units that the blocks which were not given up have room for, likewise.
    #[serde(default)]
    pub usable_bytes: Vec<u64>,
    /// Bytes of the units that lie in the SLC cache at its end; empty where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cached_bytes: Vec<u64>,
    /// The data that the host has written since the start and that is valid, by its age; classes
    /// that nothing was in are left out.
    #[serde(default)]
    pub data_ages: Vec<DataAge>,
    /// Erases since the start, the mean of all blocks, at the end of each step.
    #[serde(default)]
    pub mean_erases: Vec<f64>,
    /// Erases of the block that was erased most often.
    #[serde(default)]
    pub most_erases: Vec<u32>,
}

/// Valid data of one class of age: what the host has written since it wrote the data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DataAge {
    /// The least age (bytes).
    pub from: u64,
    /// The age from which on data is of the next class (bytes); none of the last.
    pub to: Option<u64>,
    /// Bytes of the units of this age at the end of each step.
    pub bytes: Vec<u64>,
}

impl FlashCourse {
    /// Flash that holds nothing valid, by what is valid, at the end of each step; none where
    /// nothing is valid.
    pub fn effective_over_provisioning(&self) -> impl DoubleEndedIterator<Item = Option<f64>> + '_ {
        self.usable_bytes.iter().zip(&self.valid_bytes).map(|(&usable, &valid)| {
            (valid > 0).then(|| usable.saturating_sub(valid) as f64 / valid as f64)
        })
    }
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

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Internal activity of a flash SSD until some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlashInside {
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
    pub geometry: Option<Geometry>,
    /// Bytes of flash beyond the drive's capacity, as a share of the capacity.
    #[serde(default)]
    pub over_provisioning: f64,
    /// The over-provisioning that the description leads to: what it asks for, or the default, with
    /// the blocks that are open and kept free.
    #[serde(default)]
    pub asked_over_provisioning: f64,
    /// Bytes of flash that hold nothing valid, by the bytes that do; none where nothing is valid,
    /// or where the translation layer does not know.
    #[serde(default)]
    pub effective_over_provisioning: Option<f64>,
    /// Units that the host read.
    #[serde(default)]
    pub read_units: u64,
    /// Units of `read_units` that were never written, so that no cell was read.
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
    /// Blocks of `collections`, and of folds, that had been read too often; 0 where reads do not
    /// count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_reclaims: u64,
    /// Blocks of `collections`, and of folds, that scrubbing found old, or with many errors; 0
    /// without scrubbing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refreshes: u64,
    /// Pages that scrubbing read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub scrub_reads: u64,
    /// Empty pages that filled up word lines, where those are programmed in two passes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line_padding: u64,
    /// Mean time of a collection (ns).
    pub collection_time: f64,
    /// Operations of the array: reads, programs, erases, copybacks.
    pub operations: BTreeMap<String, OperationCounts>,
    /// By operation of the host's.
    pub latency: BTreeMap<String, LatencyMeans>,
    /// The host's slowest commands of each operation, the slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SlowCommand>,
    /// Writes and collections over time.
    #[serde(default)]
    pub course: FlashCourse,
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
    /// The correction of bit errors, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc: Option<EccInside>,
    /// The read cache, if the drive has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_cache: Option<ReadCacheInside>,
    /// The SLC cache, if the drive has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCacheInside>,
}

/// The correction of bit errors of a flash SSD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EccInside {
    /// Reads of pages, whoever they were for, by the step that ended them.
    pub decoded: Vec<u64>,
    /// Reads that gave no data.
    pub uncorrectable: u64,
}

/// The memory of a flash SSD that keeps what the host reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadCacheInside {
    /// Bytes that it has room for.
    pub room: u64,
    /// Bytes of the units that are in it, or on their way, at the time of the report.
    pub held: u64,
    /// Units of the host's reads that were there.
    pub hit_units: u64,
    /// Units that another read was fetching, and that were waited for.
    pub waited_units: u64,
    /// Units that were read from the translation layer.
    pub missed_units: u64,
    /// Units that were read ahead.
    pub ahead_units: u64,
}

/// The blocks of a flash SSD whose cells hold one bit each, which the host's writes go to first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SlcCacheInside {
    /// Blocks in SLC mode at the time of the report.
    pub blocks: u64,
    /// Bytes of the units that lie in them then.
    pub valid_bytes: u64,
    /// Units that were programmed there for the host.
    pub cached_units: u64,
    /// Units that were programmed for the host elsewhere.
    pub direct_units: u64,
    /// Units that were moved out of it.
    pub folded_units: u64,
    /// Blocks of it that were emptied.
    pub folds: u64,
    /// Mean time of that (ns).
    pub fold_time: f64,
}
