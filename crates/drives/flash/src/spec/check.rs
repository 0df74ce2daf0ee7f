//! The check of a description: its drive can work.

use stasis_block::units::format_size;
use stasis_nand::Faults;

use super::blocks::MIN_LINES;
use super::{Blocking, Precondition, Spec, SpecError};
use crate::{ftl, gc};

/// The smallest unit of mapping (bytes).
const MIN_UNIT: u64 = 512;
/// Slots that fit their numbers.
const MAX_SLOTS: u64 = u32::MAX as u64 - 1;
/// Maximum number of streams.
const MAX_STREAMS: u16 = 256;
/// Free blocks of a plane that collection needs to begin.
pub(crate) const MIN_FOREGROUND: u32 = 3;
/// The largest drive (bytes).
const MAX_CAPACITY: u64 = 1 << 50;

impl Spec {
    /// Whether a drive of `capacity` bytes can be like that.
    ///
    /// # Errors
    /// [`SpecError`] names the first value that cannot work, why, and the
    /// nearest that does.
    pub fn check(&self, capacity: u64) -> Result<(), SpecError> {
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            let (least, most) = ("1B".to_owned(), format_size(MAX_CAPACITY));
            let nearest = if capacity == 0 { least.clone() } else { most.clone() };
            let reason = format!("a drive has {least} to {most}");
            return Err(SpecError::value("capacity", format_size(capacity), reason, nearest));
        }
        let known: Vec<&str> = ftl::FTLS.iter().map(|ftl| ftl.name).collect();
        if !known.contains(&self.ftl.as_str()) {
            return Err(SpecError::word("ftl", &self.ftl, &known));
        }
        let known: Vec<&str> = gc::POLICIES.iter().map(|policy| policy.name).collect();
        if !known.contains(&self.gc.policy.as_str()) {
            return Err(SpecError::word("gc.policy", &self.gc.policy, &known));
        }
        self.check_numbers()?;
        self.check_beginning()?;
        let geometry = self.geometry(capacity);
        geometry.check()?;
        self.check_units(capacity)?;
        self.check_slc_cache(capacity)?;
        self.check_read_cache(capacity)?;
        self.check_ecc()?;
        self.check_scrub()?;
        self.check_two_pass(capacity)?;
        if self.bad_blocks > 0 && !matches!(self.ftl.as_str(), "page" | "dftl") {
            let reason = "`bad_blocks` are passed over where units lie anywhere";
            return Err(SpecError::value("ftl", format!("\"{}\"", self.ftl), reason, "\"page\""));
        }
        self.check_front()?;
        self.check_zones(capacity)?;
        self.check_hybrid(capacity)?;
        let pattern = self.pattern(geometry.pages)?;
        self.timing.timing(&self.cells, &pattern)?;
        self.variation.variation().check()?;
        for fault in &self.faults {
            let Some(wear) = fault.wear else { continue };
            if fault.of_array(1).is_none() {
                let reason = "only faults of the array grow with the erases of a block";
                return Err(SpecError::value("faults.wear", wear, reason, "none"));
            }
            if !(0.0..=16.0).contains(&wear) {
                let reason = "it is a power from 0 to 16";
                let nearest = if wear > 16.0 { 16.0 } else { 0.0 };
                return Err(SpecError::value("faults.wear", wear, reason, nearest));
            }
        }
        let of_array = |fault: &super::FaultSpec| fault.of_array(self.endurance);
        let faults = self.faults.iter().filter_map(of_array).collect();
        Faults::new(faults).check(&geometry)?;
        self.stripe_order()?;
        self.check_over_provisioning(capacity)?;
        let least = self.least_blocks(capacity, geometry.pages);
        if geometry.blocks < least {
            let reason = format!(
                "the data of {}, {} open blocks and {} free ones need {least} blocks in each plane",
                format_size(capacity),
                self.open_streams() + 1 + self.cache_blocks(capacity, geometry.pages).1,
                self.gc.foreground + 1,
            );
            let fixed = self.cache_blocks(capacity, geometry.pages).0;
            let reason = match fixed {
                0 => reason,
                _ => format!("{reason}, {fixed} of them for `slc_cache.static`"),
            };
            let reason = match self.bad_blocks {
                0 => reason,
                bad => format!("{reason}, {bad} of them as they may be bad"),
            };
            return Err(SpecError::value("blocks", geometry.blocks, reason, least));
        }
        Ok(())
    }

    /// Returns whether the drive can have them.
    fn check_two_pass(&self, capacity: u64) -> Result<(), SpecError> {
        if self.two_pass.is_none() {
            return Ok(());
        }
        if !matches!(self.ftl.as_str(), "page" | "dftl") {
            let reason = "`two_pass` is part of page mapping (`page`, `dftl`)";
            return Err(SpecError::value("ftl", format!("\"{}\"", self.ftl), reason, "\"page\""));
        }
        if !matches!(self.cells.as_str(), "mlc" | "tlc" | "qlc") {
            let reason = "`two_pass` programs word lines of two bits or more: `mlc`, `tlc`, `qlc`";
            let value = format!("\"{}\"", self.cells);
            return Err(SpecError::value("cells", value, reason, "\"qlc\""));
        }
        // Each collection fills up a word line.
        let pages = self.pages(capacity);
        let (least, line) = (self.least_pages(pages), self.line_pages(pages));
        if pages < least {
            let reason =
                format!("blocks of `two_pass` have {MIN_LINES} word lines of {line} at least");
            return Err(SpecError::value("pages", pages, reason, least));
        }
        if self.gc.copyback.unwrap_or(self.gc.blocking == Blocking::Plane) {
            let reason = "the fine pass of `two_pass` needs the data in the controller";
            return Err(SpecError::value("gc.copyback", true, reason, false));
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        let range = |key, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let reason = format!("it is {least} to {most}");
            Err(SpecError::value(key, value, reason, value.clamp(least, most)))
        };
        range("registers", u32::from(self.registers), 1, 2)?;
        range("streams", u32::from(self.streams), 1, u32::from(MAX_STREAMS))?;
        range("endurance", self.endurance, 1, u32::MAX)?;
        range("read_reclaim", self.read_reclaim.unwrap_or(1), 1, 1 << 31)?;
        if self.read_reclaim.is_some() && !matches!(self.ftl.as_str(), "page" | "dftl") {
            let reason = "`read_reclaim` moves data where units lie anywhere";
            return Err(SpecError::value("ftl", format!("\"{}\"", self.ftl), reason, "\"page\""));
        }
        range("gc.foreground", self.gc.foreground, MIN_FOREGROUND, 1 << 16)?;
        range("gc.background", self.gc.background, 0, 1 << 16)?;
        range("gc.choices", self.gc.choices, 1, 1 << 10)?;
        if !self.mapping_line.is_power_of_two() {
            let nearest = self.mapping_line.max(1).checked_next_power_of_two().unwrap_or(1 << 31);
            let reason = "it is a power of two";
            return Err(SpecError::value("mapping_line", self.mapping_line, reason, nearest));
        }
        let line = u64::from(self.mapping_line) * super::geometry::MAP_ENTRY;
        if self.mapping_cache < line {
            let reason = "it holds one line of the map at least";
            let (value, nearest) = (format_size(self.mapping_cache), format_size(line));
            return Err(SpecError::value("mapping_cache", value, reason, nearest));
        }
        Ok(())
    }

    /// Returns whether the state that is given can be the drive's first.
    fn check_beginning(&self) -> Result<(), SpecError> {
        if self.state.is_some() && self.ftl != "page" {
            let reason = "`state` keeps a drive with `ftl` = \"page\" only";
            return Err(SpecError::value("ftl", format!("\"{}\"", self.ftl), reason, "\"page\""));
        }
        let written = self.precondition.filter(|&state| state != Precondition::None);
        match written.filter(|_| self.has_regions()) {
            None => Ok(()),
            Some(_) => {
                let reason = format!(
                    "zones and chunks of `ftl` = \"{}\" begin empty; leave it out, and let the workload write \
                     them first",
                    self.ftl
                );
                let value =
                    if written == Some(Precondition::Steady) { "steady" } else { "sequential" };
                Err(SpecError::value("precondition", format!("\"{value}\""), reason, "\"none\""))
            }
        }
    }

    fn check_units(&self, capacity: u64) -> Result<(), SpecError> {
        let unit = self.mapping_unit;
        let divides = unit > 0 && self.page_size.is_multiple_of(unit);
        if unit < MIN_UNIT || !unit.is_power_of_two() || !divides {
            // The largest power of two that divides a page and is no larger.
            let most = 1u64 << self.page_size.trailing_zeros().min(62);
            let most = most.min(unit.max(MIN_UNIT).next_power_of_two());
            let reason = format!(
                "it is a power of two from {} on that divides `page_size` = {}",
                format_size(MIN_UNIT),
                format_size(self.page_size)
            );
            let value = format_size(unit);
            return Err(SpecError::value("mapping_unit", value, reason, format_size(most)));
        }
        let slots = self.geometry(capacity).total_pages() * u64::from(self.slots());
        if slots > MAX_SLOTS || capacity.div_ceil(unit) > MAX_SLOTS {
            let mut nearest = unit;
            let bytes = slots.saturating_mul(unit).max(capacity);
            while bytes / nearest > MAX_SLOTS {
                nearest *= 2;
            }
            let reason = "the drive has more than 2^32 of it";
            let value = format_size(unit);
            return Err(SpecError::value("mapping_unit", value, reason, format_size(nearest)));
        }
        Ok(())
    }

    /// The planes in the order in which writes go round them.
    ///
    /// # Errors
    /// [`SpecError`] if `stripe` is no order of channel, lun and plane.
    pub(crate) fn stripe_order(&self) -> Result<Vec<u32>, SpecError> {
        let words: Vec<&str> = self.stripe.split(',').map(str::trim).collect();
        let place = |name| words.iter().position(|&word| word == name);
        let (Some(channel), Some(lun), Some(plane), 3) =
            (place("channel"), place("lun"), place("plane"), words.len())
        else {
            let reason = "it is the three words in any order";
            let value = format!("\"{}\"", self.stripe);
            return Err(SpecError::value("stripe", value, reason, "\"channel,lun,plane\""));
        };
        let (channels, luns, planes) = (self.channels, self.luns, self.planes);
        let mut numbers: Vec<u32> = (0..channels * luns * planes).collect();
        numbers.sort_by_key(|number| {
            let lun_number = number / planes;
            let mut key = [0; 3];
            // The first word turns fastest.
            key[2 - channel] = lun_number / luns;
            key[2 - lun] = lun_number % luns;
            key[2 - plane] = number % planes;
            key
        });
        Ok(numbers)
    }
}
