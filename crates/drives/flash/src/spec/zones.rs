//! Conditions of zones and chunks on a description.

use stasis_block::units::format_size;

use super::{Spec, SpecError};

/// Maximum number of units of a page: each is a bit of a mask.
const MAX_UNITS: u64 = 128;

impl Spec {
    /// Bytes of a zone.
    pub fn zone(&self, capacity: u64) -> u64 {
        self.zone_of_blocks(capacity, self.pages(capacity))
    }

    /// Bytes that are erased together where a stream's writes go round all planes: a block of each.
    pub fn superblock(&self, capacity: u64) -> u64 {
        self.block_bytes(self.pages(capacity)).saturating_mul(self.total_planes())
    }

    /// Returns whether a drive of `capacity` bytes is made of zones, or of chunks.
    pub(super) fn check_zones(&self, capacity: u64) -> Result<(), SpecError> {
        if let Some(channels) = self.zone_channels {
            if self.ftl != "zoned" {
                let reason = "`zone_channels` is of zones";
                let value = format!("\"{}\"", self.ftl);
                return Err(SpecError::value("ftl", value, reason, "\"zoned\""));
            }
            if channels == 0 || !self.channels.is_multiple_of(channels) {
                let reason = format!("it divides `channels` = {}", self.channels);
                let divides = |&most: &u32| self.channels.is_multiple_of(most);
                let nearest = (1..=channels.clamp(1, self.channels.max(1))).rev().find(divides);
                let nearest = nearest.unwrap_or(1);
                return Err(SpecError::value("zone_channels", channels, reason, nearest));
            }
        }
        if !self.has_regions() {
            return Ok(());
        }
        let block = self.block_bytes(self.pages(capacity));
        if self.page_size / self.mapping_unit > MAX_UNITS {
            let nearest = format_size(self.page_size / MAX_UNITS);
            let reason = format!("`{}` has {MAX_UNITS} units of a page at most", self.ftl);
            let value = format_size(self.mapping_unit);
            return Err(SpecError::value("mapping_unit", value, reason, nearest));
        }
        if self.ftl == "ocssd" {
            let chunks = block * self.total_planes();
            let blocks = u64::from(self.geometry(capacity).blocks);
            if blocks * chunks != capacity {
                let reason = format!(
                    "chunks of {} on each LUN are a drive of {} times a whole number",
                    format_size(block * u64::from(self.planes)),
                    format_size(chunks)
                );
                // The nearest that the description can have.
                let given = self.blocks.map_or((capacity / chunks).max(1), u64::from);
                let nearest = format_size(given * chunks);
                return Err(SpecError::value("capacity", format_size(capacity), reason, nearest));
            }
            return Ok(());
        }
        let planes = self.total_planes() / u64::from(self.zone_groups());
        let zone = self.zone_size.unwrap_or(block * planes);
        let fits = |zone: u64| {
            zone >= self.page_size
                && zone.is_multiple_of(self.page_size)
                && capacity.is_multiple_of(zone)
        };
        if !fits(zone) {
            let count = (capacity / zone.max(1)).clamp(1, 1 << 20);
            let fewer = (1..=count).rev().map(|count| capacity / count).find(|&zone| fits(zone));
            let nearest = fewer.unwrap_or(self.page_size);
            let reason = format!(
                "zones are whole pages of {} and divide the drive's {}",
                format_size(self.page_size),
                format_size(capacity)
            );
            let (value, nearest) = (format_size(zone), format_size(nearest));
            return Err(SpecError::value("zone_size", value, reason, nearest));
        }
        Ok(())
    }
}
