//! The part of the results on a drive's inside.

use stasis_block::clock::Nanos;
use stasis_block::inside::{
    FlashCourse, FlashInside, OperationCounts, SlcCacheInside, Usages, WearLevel,
};
use stasis_nand::{Array, OpKind, PlaneId, Usage};

use super::{Level, Statistics};
use crate::ftl::{Context, Ftl};

/// Levels of wear that results distinguish.
const WEAR_LEVELS: u32 = 32;

/// The values of a drive's description that its figures need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of the drive.
    pub capacity: u64,
    /// Bytes of a mapping unit.
    pub unit: u32,
    /// See [`FlashInside::asked_over_provisioning`].
    pub asked_over_provisioning: f64,
}

impl Context {
    /// Bytes of the pages that were programmed, for the host or for housekeeping.
    pub fn media_bytes(&self) -> u64 {
        self.media_bytes_of(&self.statistics)
    }

    /// The counts at this instant, since the drive's start.
    pub(crate) fn level(&self, ftl: &dyn Ftl) -> Level {
        Level {
            host_bytes: self.statistics.host_bytes,
            media_bytes: self.media_bytes(),
            collections: self.statistics.collections,
            free_blocks: ftl.free_blocks(),
            occupancy: ftl.occupancy(),
            cached_bytes: ftl.slc_cache().map(|cache| cache.valid_bytes),
            ages: self.temperature.ages(),
            erases: self.statistics.ops(OpKind::Erase),
            most_erased: self.statistics.most_erased,
        }
    }

    /// Blocks of the array.
    pub(crate) fn blocks(&self) -> u64 {
        let geometry = self.array.geometry();
        u64::from(geometry.total_planes()) * u64::from(geometry.blocks)
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
        ftl: &dyn Ftl,
        course: FlashCourse,
    ) -> FlashInside {
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
        FlashInside {
            at,
            write_amplification: millionths(self.write_amplification_of(counted)),
            host_bytes,
            media_bytes,
            unit: sizes.unit,
            unit_padding: (counted.host_units * unit).saturating_sub(host_bytes),
            page_padding: media_bytes.saturating_sub(units * unit),
            capacity: sizes.capacity,
            geometry: Some(*geometry),
            over_provisioning: millionths(beyond),
            asked_over_provisioning: sizes.asked_over_provisioning,
            effective_over_provisioning: course
                .effective_over_provisioning()
                .last()
                .flatten()
                .map(millionths),
            read_units: counted.read_units,
            unwritten_units: counted.unwritten_units,
            host_units: counted.host_units,
            programmed_units: counted.programmed_units,
            moved_units: counted.moved_units,
            collections: counted.collections,
            read_reclaims: counted.reclaims,
            refreshes: counted.refreshes,
            scrub_reads: counted.scrub_reads,
            line_padding: counted.line_padding,
            collection_time: (counted.collecting / counted.collections.max(1)) as f64,
            operations: operations.into(),
            latency: counted.commands.means(),
            slowest: counted.commands.slowest(),
            course,
            channels: usages(array.channel_usage(), geometry.channels),
            luns: usages(&array.lun_usage(), geometry.total_luns()),
            wear: wear(array),
            health: ftl.health(self),
            ftl: ftl.report(self),
            read_cache: None,
            ecc: None,
            slc_cache: ftl.slc_cache().map(|cache| SlcCacheInside {
                blocks: cache.blocks.into(),
                valid_bytes: cache.valid_bytes,
                cached_units: counted.cached_units,
                direct_units: counted.programmed_units - counted.cached_units,
                folded_units: counted.folded_units,
                folds: counted.folds,
                fold_time: (counted.folding / counted.folds.max(1)) as f64,
            }),
        }
    }
}

/// Rounds to millionths: a value written as text reads back equal.
fn millionths(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
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
