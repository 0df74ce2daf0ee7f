//! The description of a mechanical disk in an experiment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::{units, Rate};

use super::seek::Seek;
use crate::span::Span;

/// The largest number of extents in a write cache.
pub const MAX_EXTENTS: u32 = 1024;
/// The largest number of zones.
pub(super) const MAX_ZONES: u32 = 256;
/// The largest number of read segments.
pub(super) const MAX_SEGMENTS: u32 = 256;
/// The fastest rotation (rpm); none faster than 15,000 was ever sold.
pub(super) const MAX_RPM: u32 = 100_000;

/// The order in which the arm serves commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// The shortest positioning time first, among the oldest `queue_depth`
    /// commands; a command passed over 128 times goes before.
    #[default]
    Shortest,
    /// First come, first served.
    Fifo,
}

/// A mechanical disk's description: `{ kind = "disk", ... }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Bytes on the disk. A smaller drive takes the outermost part.
    #[serde(with = "units::size")]
    pub capacity: u64,
    /// Rotations per minute.
    #[schemars(range(min = 1, max = MAX_RPM))]
    pub rpm: u32,
    /// Sustained rate at the outer edge.
    pub outer_rate: Rate,
    /// Sustained rate at the inner edge; half of the outer one if not given,
    /// about the ratio of the radii.
    #[serde(default)]
    pub inner_rate: Option<Rate>,
    /// Zones of equally many cylinders; 16 if not given.
    #[serde(default = "usual::zones")]
    #[schemars(range(min = 1, max = MAX_ZONES))]
    pub zones: u32,
    /// Seek to the next track (ns).
    #[serde(with = "units::duration")]
    pub single_track_seek: Nanos,
    /// Average seek (ns).
    #[serde(with = "units::duration")]
    pub average_seek: Nanos,
    /// Seek over the whole stroke (ns); by the square-root law if not given.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units::duration_option")]
    pub full_stroke_seek: Option<Nanos>,
    /// Additional time of a seek before a write (ns); 0 if not given.
    #[serde(default, with = "units::duration")]
    pub write_settle: Nanos,
    /// The electronics' time per command (ns); 100 us if not given.
    #[serde(default = "usual::overhead", with = "units::duration")]
    pub overhead: Nanos,
    /// The interface's rate; 550MB/s (SATA 6 Gb/s) if not given.
    #[serde(default = "usual::interface_rate")]
    pub interface_rate: Rate,
    /// Bytes of write cache; 0 for none, as if not given.
    #[serde(default, with = "units::size")]
    pub write_cache: u64,
    /// Maximum number of separate pieces in the write cache, up to 1024; 1024 if not given.
    #[serde(default = "usual::write_cache_extents")]
    #[schemars(range(min = 1, max = MAX_EXTENTS))]
    pub write_cache_extents: u32,
    /// Pieces that are considered for the next destaging; 32 if not given.
    #[serde(default = "usual::destage_window")]
    #[schemars(range(min = 1, max = MAX_EXTENTS))]
    pub destage_window: u32,
    /// Distance that the drive reads ahead (bytes); 0 for no read buffer, as if not given.
    #[serde(default, with = "units::size")]
    pub read_ahead: u64,
    /// Streams that the read buffer keeps, each with up to `read_ahead` bytes on
    /// either side of its last read; 16 if not given.
    #[serde(default = "usual::read_segments")]
    #[schemars(range(min = 1, max = MAX_SEGMENTS))]
    pub read_segments: u32,
    /// The order of service.
    #[serde(default)]
    pub queue: Queue,
    /// Commands that are considered for the order; 32 (SATA's native command
    /// queueing) if not given.
    #[serde(default = "usual::queue_depth")]
    #[schemars(range(min = 1))]
    pub queue_depth: u32,
    /// Time of a flush besides the emptying of the write cache; 0 if not given.
    #[serde(default)]
    pub flush: Span,
    /// Time of a discard; 0 if not given.
    #[serde(default)]
    pub discard: Span,
    /// Time of a write-zeroes; if not given the arm writes the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
}

impl DiskSpec {
    /// A disk with its electronics only: no write cache, no read buffer.
    pub fn new(capacity: u64, rpm: u32, outer_rate: Rate, single: Nanos, average: Nanos) -> Self {
        Self {
            capacity,
            rpm,
            outer_rate,
            inner_rate: Some(half(outer_rate)),
            zones: usual::zones(),
            single_track_seek: single,
            average_seek: average,
            full_stroke_seek: None,
            write_settle: 0,
            overhead: usual::overhead(),
            interface_rate: usual::interface_rate(),
            write_cache: 0,
            write_cache_extents: usual::write_cache_extents(),
            destage_window: usual::destage_window(),
            read_ahead: 0,
            read_segments: usual::read_segments(),
            queue: Queue::Shortest,
            queue_depth: usual::queue_depth(),
            flush: Span::default(),
            discard: Span::default(),
            write_zeroes: None,
        }
    }

    /// The sustained rate at the inner edge.
    pub fn inner_rate(&self) -> Rate {
        self.inner_rate.unwrap_or_else(|| half(self.outer_rate))
    }

    /// The seek curve, unless its figures contradict one another.
    pub(crate) fn seek(&self) -> Option<Seek> {
        Seek::new(self.single_track_seek, self.average_seek, self.full_stroke_seek)
    }
}

/// About the ratio of the radii of the innermost and the outermost track.
fn half(rate: Rate) -> Rate {
    Rate::per_second(rate.bytes_per_second() / 2)
}

/// Default values; the reasons are at the fields of [`DiskSpec`].
mod usual {
    use stasis_block::clock::{Nanos, MICROSECOND};

    use super::MAX_EXTENTS;
    use stasis_block::Rate;

    pub(super) fn zones() -> u32 {
        16
    }

    pub(super) fn overhead() -> Nanos {
        100 * MICROSECOND
    }

    pub(super) fn interface_rate() -> Rate {
        Rate::per_second(550_000_000)
    }

    pub(super) fn write_cache_extents() -> u32 {
        MAX_EXTENTS
    }

    pub(super) fn destage_window() -> u32 {
        32
    }

    pub(super) fn read_segments() -> u32 {
        16
    }

    pub(super) fn queue_depth() -> u32 {
        32
    }
}
