//! The array of a drive of some size: how many blocks, of how many pages.

use stasis_block::units::format_size;
use stasis_nand::Geometry;

use super::{Spec, SpecError};

/// Flash beyond the capacity of a drive that does not state it, as a share.
const OVER_PROVISIONING: f64 = 0.07;
/// Blocks of a plane that a small drive's over-provisioning is at least, as far as blocks can be small
/// enough: with as many, half a block more or less is 3 % of it.
const MIN_SPARE: f64 = 16.0;
/// Free blocks of a plane that are kept for collection: one to move into, and
/// one in case that fails.
pub(crate) const RESERVE: u32 = 2;
/// Bytes of an entry of a map in flash (the translation layer `dftl`).
pub(crate) const MAP_ENTRY: u64 = 4;
/// Pages of a block where they are not given, unless the drive is small.
const PAGES: u32 = 256;
/// The fewest pages of a block of a small drive. Fewer would make erases as
/// frequent as programs.
const MIN_PAGES: u32 = 8;

/// Free blocks of a plane besides its log blocks, where it has any: one to merge into, and one
/// that is being erased.
pub(super) const LOG_WORKING: u32 = 2;

/// Units that hold the map of a drive of `units` units of `unit` bytes.
pub(crate) fn map_units(units: u64, unit: u64) -> u64 {
    units.div_ceil((unit / MAP_ENTRY).max(1))
}

impl Spec {
    /// Pages of each block of a drive of `capacity` bytes: as given, else 256.
    /// A small drive, whose over-provisioning is few blocks, has smaller ones: the largest power of
    /// two from 8 on with which its over-provisioning is [`MIN_SPARE`] blocks of a plane. So its
    /// planes keep their number, and garbage collection its share of the flash.
    pub fn pages(&self, capacity: u64) -> u32 {
        if self.pages.is_some() || self.blocks.is_some() || self.has_regions() {
            return self.given_pages();
        }
        let mut pages = PAGES;
        let halves = |pages: u32| {
            let half = pages / 2;
            pages > MIN_PAGES && half >= self.least_pages(half) && self.pattern(half).is_ok()
        };
        // Other layers collect nothing, or in another way.
        let least = if self.is_page_mapped() { MIN_SPARE } else { 0.0 };
        let spare =
            |pages: u32| capacity as f64 * self.asked_over_provisioning() / self.round_bytes(pages);
        while halves(pages) && !(self.has_room(capacity, pages) && spare(pages) >= least) {
            pages /= 2;
        }
        pages
    }

    /// Pages of each block where the drive's size does not count.
    fn given_pages(&self) -> u32 {
        self.pages.unwrap_or(PAGES)
    }

    /// The over-provisioning asked for, as a share of the capacity.
    fn asked_over_provisioning(&self) -> f64 {
        // A layer that maps nothing needs no over-provisioning.
        if self.ftl == "ocssd" {
            return 0.0;
        }
        self.over_provisioning.unwrap_or(OVER_PROVISIONING)
    }

    /// The over-provisioning that the description leads to on a drive of `capacity` bytes: that
    /// asked for with the blocks that are open and kept free, or that of the blocks or the zones.
    pub fn expected_over_provisioning(&self, capacity: u64) -> f64 {
        let geometry = self.geometry(capacity);
        let flash = match self.blocks.is_none() && !self.has_regions() {
            true if !self.is_page_mapped() => return self.asked_over_provisioning(),
            // Without those that a small drive has more.
            true => {
                let blocks = f64::from(self.wanted_blocks(capacity, geometry.pages));
                blocks * self.round_bytes(geometry.pages)
            }
            false => geometry.total_pages() as f64 * f64::from(geometry.page_size),
        };
        flash / capacity.max(1) as f64 - 1.0
    }

    /// The array's parts, for a drive of `capacity` bytes.
    pub fn geometry(&self, capacity: u64) -> Geometry {
        let pages = self.pages(capacity);
        let blocks = self.blocks.unwrap_or_else(|| {
            // A small drive still needs blocks to work with.
            self.wanted_blocks(capacity, pages).max(self.least_blocks(capacity, pages))
        });
        Geometry {
            channels: self.channels,
            luns: self.luns,
            planes: self.planes,
            blocks,
            pages,
            page_size: u32::try_from(self.page_size).unwrap_or(u32::MAX),
            oob_size: u32::try_from(self.oob_size).unwrap_or(u32::MAX),
        }
    }

    /// Blocks of each plane below which the drive could not keep its data and
    /// collect garbage: those of the data, those that are open, and those that
    /// are free while it collects.
    pub(super) fn least_blocks(&self, capacity: u64, pages: u32) -> u32 {
        let planes = self.total_planes();
        let block = self.block_bytes(pages);
        if let Some(blocks) = self.zone_blocks(capacity, pages) {
            return u32::try_from(blocks.div_ceil(planes.max(1))).unwrap_or(u32::MAX);
        }
        let data = capacity.saturating_add(self.map_bytes(capacity));
        let data = data.div_ceil(planes.saturating_mul(block).max(1));
        // Some block must have so much invalid that moving the rest leaves a word line, also where
        // another plane holds less.
        let line = u64::from(self.line_pages(pages));
        let all = u64::from(pages);
        let gain = all.saturating_sub(2 * line).max(1);
        let data = if line > 1 { data.saturating_mul(all).div_ceil(gain) } else { data };
        if let Some(working) = self.hybrid_blocks() {
            return u32::try_from(data.saturating_add(working)).unwrap_or(u32::MAX);
        }
        let map_stream = u64::from(self.map_bytes(capacity) > 0);
        let (fixed, open) = self.cache_blocks(capacity, pages);
        let working = map_stream
            + u64::from(self.open_streams())
            + u64::from(self.gc.foreground)
            + u64::from(fixed)
            + u64::from(open)
            // All of a LUN's may be in one plane.
            + u64::from(self.bad_blocks)
            + 2;
        u32::try_from(data.saturating_add(working)).unwrap_or(u32::MAX)
    }

    /// Blocks of each plane besides those of the data; `None` if the drive has no
    /// log blocks.
    pub(super) fn hybrid_blocks(&self) -> Option<u64> {
        (self.ftl == "hybrid").then_some(u64::from(self.log_blocks) + u64::from(LOG_WORKING))
    }

    /// Groups of channels that zones go round: each zone lies in one.
    pub(crate) fn zone_groups(&self) -> u32 {
        self.zone_channels.map_or(1, |channels| (self.channels / channels.max(1)).max(1))
    }

    /// Bytes of a zone of blocks of so many pages.
    pub(super) fn zone_of_blocks(&self, capacity: u64, pages: u32) -> u64 {
        let planes = self.total_planes() / u64::from(self.zone_groups());
        let whole = self.block_bytes(pages).saturating_mul(planes.max(1));
        self.zone_size.unwrap_or(whole).clamp(1, capacity.max(1))
    }

    /// Blocks that a drive's zones or chunks take; `None` if it has neither.
    fn zone_blocks(&self, capacity: u64, pages: u32) -> Option<u64> {
        match self.ftl.as_str() {
            "zoned" => {
                let groups = u64::from(self.zone_groups());
                let (zone, planes) = (
                    self.zone_of_blocks(capacity, self.given_pages()),
                    (self.total_planes() / groups).max(1),
                );
                let blocks = zone.div_ceil(self.block_bytes(pages));
                let width = blocks.div_ceil(blocks.min(planes).max(1)) * blocks.min(planes);
                // As many blocks of each group as the one that has most zones.
                let zones = (capacity / zone).div_ceil(groups);
                Some(zones.saturating_mul(width).saturating_mul(groups))
            }
            "ocssd" => Some(capacity.div_ceil(self.block_bytes(pages))),
            _ => None,
        }
    }

    /// Returns whether the over-provisioning that is given is the drive's.
    pub(super) fn check_over_provisioning(&self, capacity: u64) -> Result<(), SpecError> {
        let Some(asked) = self.over_provisioning else { return Ok(()) };
        let error = |reason: String, nearest: String| {
            Err(SpecError::value("over_provisioning", asked, reason, nearest))
        };
        if !(0.0..=100.0).contains(&asked) {
            let nearest = if asked > 100.0 { 100.0 } else { 0.0 };
            return error(
                "it is a share of the capacity, from 0 to 100".into(),
                nearest.to_string(),
            );
        }
        if self.ftl == "ocssd" && asked > 0.0 {
            let reason =
                "an Open-Channel drive has none: the host sees all its chunks; leave it out";
            return error(reason.into(), "0".into());
        }
        let pages = self.pages(capacity);
        if let Some(blocks) = self.blocks {
            // To a block of each plane, or a hundredth.
            let one = self.round_bytes(pages) / capacity as f64;
            if (self.share(capacity, blocks, pages) - asked).abs() <= one.max(0.01) {
                return Ok(());
            }
            let reason = format!("`blocks` = {blocks} is another; leave one of the two out");
            return error(reason, self.share(capacity, blocks, pages).to_string());
        }
        if self.has_room(capacity, pages) {
            return Ok(());
        }
        let least = self.least_blocks(capacity, pages);
        let mut reason = format!(
            "a drive of {} needs {least} blocks of {} in each of its {} planes, for its data, open blocks and \
             free ones",
            format_size(capacity),
            format_size(self.block_bytes(pages)),
            self.total_planes(),
        );
        let fewer = (0..pages.max(1).ilog2()).rev().map(|power| 1 << power);
        if let Some(fewer) = fewer.into_iter().find(|&pages| self.has_room(capacity, pages)) {
            reason.push_str(&format!("; with `pages` = {fewer} it has room"));
        }
        error(reason, self.share(capacity, least, pages).to_string())
    }

    /// Returns whether the over-provisioning that is asked for is enough to work with.
    fn has_room(&self, capacity: u64, pages: u32) -> bool {
        let has_lines = pages >= self.least_pages(pages);
        has_lines && self.asked_blocks(capacity, pages) >= self.least_blocks(capacity, pages)
    }

    /// Blocks of each plane by the over-provisioning that is asked for.
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    fn asked_blocks(&self, capacity: u64, pages: u32) -> u32 {
        let flash = capacity as f64 * (1.0 + self.asked_over_provisioning());
        // The cache's own blocks are none of the over-provisioning.
        ((flash / self.round_bytes(pages)).ceil() as u32)
            .saturating_add(self.cache_blocks(capacity, pages).0)
    }

    /// Blocks of each plane that the drive is to have: with those that are open or kept free, what
    /// collections work with is the over-provisioning that is asked for, whatever the drive's size.
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    fn wanted_blocks(&self, capacity: u64, pages: u32) -> u32 {
        let asked = self.asked_blocks(capacity, pages);
        if !self.is_page_mapped() {
            return asked;
        }
        let share = 1.0 + self.asked_over_provisioning();
        let streams = f64::from(self.open_streams()) + f64::from(u8::from(self.ftl == "dftl"));
        // Full blocks hold the data but for what lies in open ones, which are half full on average.
        // A drive that is written as fast as it can has as many free ones as the host does not get,
        // less a quarter of one on average (measured) that collections are about to fill.
        let free = f64::from(RESERVE) - 0.25;
        let reserve = free + (streams + 1.0) * (1.0 - share / 2.0);
        let exact = capacity as f64 * share / self.round_bytes(pages);
        let wanted = (exact + reserve).round() as u32;
        asked.max(wanted.saturating_add(self.cache_blocks(capacity, pages).0))
    }

    /// Returns whether units lie anywhere, and blocks are collected for their space.
    fn is_page_mapped(&self) -> bool {
        matches!(self.ftl.as_str(), "page" | "dftl")
    }

    /// Returns the least share, in hundredths, that gives `blocks` blocks in each plane.
    fn share(&self, capacity: u64, blocks: u32, pages: u32) -> f64 {
        let blocks = blocks.saturating_sub(1).saturating_sub(self.cache_blocks(capacity, pages).0);
        let flash = f64::from(blocks) * self.round_bytes(pages);
        let hundredths = ((flash / capacity as f64 - 1.0) * 100.0).floor() + 1.0;
        hundredths.max(0.0) / 100.0
    }

    /// Bytes of one block in each plane.
    fn round_bytes(&self, pages: u32) -> f64 {
        self.total_planes() as f64 * self.block_bytes(pages) as f64
    }

    /// Bytes of the map that are in flash.
    fn map_bytes(&self, capacity: u64) -> u64 {
        let unit = self.mapping_unit.max(1);
        let units = map_units(capacity.div_ceil(unit), unit);
        if self.ftl == "dftl" {
            units.saturating_mul(unit)
        } else {
            0
        }
    }
}
