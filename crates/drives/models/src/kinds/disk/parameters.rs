//! The mechanical disk as a kind of model.

use stasis_block::{units, Model};

use super::spec::{DiskSpec, MAX_EXTENTS, MAX_RPM, MAX_SEGMENTS, MAX_ZONES};
use super::HardDisk;
use crate::kinds::Parameters;
use crate::spec::{range, BuildContext, BuildError, Problem};

/// The largest disk (bytes), so that sums of places fit.
const MAX_CAPACITY: u64 = 1 << 60;
/// The largest write cache and read-ahead (bytes).
const MAX_BUFFER: u64 = 1 << 40;

impl Parameters for DiskSpec {
    const NAME: &'static str = "disk";

    fn check(&mut self) -> Result<(), Problem> {
        // Written out where it follows from other values.
        self.inner_rate = Some(self.inner_rate());
        range("rpm", self.rpm, MAX_RPM)?;
        range("zones", self.zones, MAX_ZONES)?;
        range("write_cache_extents", self.write_cache_extents, MAX_EXTENTS)?;
        range("destage_window", self.destage_window, MAX_EXTENTS)?;
        range("read_segments", self.read_segments, MAX_SEGMENTS)?;
        range("queue_depth", self.queue_depth, u32::MAX)?;
        let bytes = |key, value: u64, min: u64, max: u64| {
            let (low, high) = (units::format_size(min), units::format_size(max));
            let ok = (min..=max).contains(&value);
            let problem = || Problem::value(key, format!("must be from {low} to {high}"));
            ok.then_some(()).ok_or_else(problem)
        };
        bytes("capacity", self.capacity, 1, MAX_CAPACITY)?;
        bytes("write_cache", self.write_cache, 0, MAX_BUFFER)?;
        bytes("read_ahead", self.read_ahead, 0, MAX_BUFFER)?;
        if self.inner_rate().bytes_per_second() > self.outer_rate.bytes_per_second() {
            return Err(Problem::value("inner_rate", "must not be more than `outer_rate`"));
        }
        if self.seek().is_none() {
            let problem = "must lie well between `single_track_seek` and `full_stroke_seek`: a \
                           third of the stroke takes about as long as the average";
            return Err(Problem::value("average_seek", problem));
        }
        Ok(())
    }

    fn capacity(&self) -> Option<u64> {
        Some(self.capacity)
    }

    fn seeks(&self) -> bool {
        true
    }

    /// Where the platters are at time 0.
    fn begins_by_seed(&self) -> bool {
        true
    }

    fn fits(&self, label: &str, capacity: u64) -> Result<(), BuildError> {
        if capacity <= self.capacity {
            return Ok(());
        }
        Err(BuildError::Capacity {
            model: label.into(),
            capacity: units::format_size(capacity),
            disk: units::format_size(self.capacity),
        })
    }

    fn build(&self, label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        let disk = HardDisk::new(self, context.seed).ok_or_else(|| BuildError::Contradiction {
            model: label.into(),
            problem: "its seek times do not ascend",
        })?;
        Ok(Box::new(disk))
    }
}
