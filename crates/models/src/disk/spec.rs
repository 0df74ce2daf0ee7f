//! What describes a mechanical disk in an experiment.

use serde::{Deserialize, Serialize};
use stasis_block::units;
use stasis_clock::{Nanos, MICROSECOND};

use super::geometry::Seek;
use crate::random::Span;
use crate::rate::Rate;
use crate::spec::{Reader, SpecError};

/// The largest number of extents in a write cache.
pub const EXTENTS_MAX: u32 = 1024;
/// The largest disk (bytes), so that sums of places fit.
const CAPACITY_MAX: u64 = 1 << 60;
/// The largest write cache and read-ahead (bytes).
const BUFFER_MAX: u64 = 1 << 40;
/// The largest number of zones.
const ZONES_MAX: u32 = 256;
/// The largest number of read segments.
const SEGMENTS_MAX: u32 = 256;
/// The fastest rotation (rpm); none faster than 15,000 was ever sold.
const RPM_MAX: u32 = 100_000;

/// The order in which the arm serves commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// The shortest positioning time first, among the oldest `queue_depth`
    /// commands; what was passed over 128 times goes before.
    #[default]
    Shortest,
    /// First come, first served.
    Fifo,
}

/// A mechanical disk's description: `{ kind = "disk", ... }`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskSpec {
    /// Bytes on the disk. A smaller drive takes the outermost part.
    #[serde(with = "units::size")]
    pub capacity: u64,
    /// Rotations per minute.
    pub rpm: u32,
    /// Sustained rate at the outer edge.
    pub outer_rate: Rate,
    /// Sustained rate at the inner edge; half of the outer one if not given,
    /// about the ratio of the radii.
    pub inner_rate: Rate,
    /// Zones of equally many cylinders; 16 if not given.
    pub zones: u32,
    /// Seek to the next track (ns).
    #[serde(with = "units::duration")]
    pub single_track_seek: Nanos,
    /// Average seek (ns).
    #[serde(with = "units::duration")]
    pub average_seek: Nanos,
    /// Seek over the whole stroke (ns); by the square-root law if not given.
    #[serde(skip_serializing_if = "Option::is_none", with = "units::duration_option")]
    pub full_stroke_seek: Option<Nanos>,
    /// What a seek takes longer before a write (ns); 0 if not given.
    #[serde(with = "units::duration")]
    pub write_settle: Nanos,
    /// The electronics' time per command (ns); 100 us if not given.
    #[serde(with = "units::duration")]
    pub overhead: Nanos,
    /// The interface's rate; 550MB/s (SATA 6 Gb/s) if not given.
    pub interface_rate: Rate,
    /// Bytes of write cache; 0 for none, as if not given.
    #[serde(with = "units::size")]
    pub write_cache: u64,
    /// Separate pieces in the write cache, at most 1024; as many if not given.
    pub write_cache_extents: u32,
    /// Pieces that are considered for the next destaging; 32 if not given.
    pub destage_window: u32,
    /// How far the drive reads ahead (bytes); 0 for no read buffer, as if not
    /// given.
    #[serde(with = "units::size")]
    pub read_ahead: u64,
    /// Streams that the read buffer keeps, each with up to `read_ahead` bytes on
    /// either side of its last read; 16 if not given.
    pub read_segments: u32,
    /// The order of service.
    pub queue: Queue,
    /// Commands that are considered for the order; 32 (SATA's native command
    /// queueing) if not given.
    pub queue_depth: u32,
    /// What a flush takes besides the emptying of the write cache; 0 if not
    /// given.
    pub flush: Span,
    /// What a discard takes; 0 if not given.
    pub discard: Span,
    /// What a write-zeroes takes; if not given the arm writes the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Span>,
}

impl DiskSpec {
    pub(crate) const KEYS: &'static [&'static str] = &[
        "capacity",
        "rpm",
        "outer_rate",
        "inner_rate",
        "zones",
        "single_track_seek",
        "average_seek",
        "full_stroke_seek",
        "write_settle",
        "overhead",
        "interface_rate",
        "write_cache",
        "write_cache_extents",
        "destage_window",
        "read_ahead",
        "read_segments",
        "queue",
        "queue_depth",
        "flush",
        "discard",
        "write_zeroes",
    ];

    /// A disk with its electronics only: no write cache, no read buffer.
    pub fn new(capacity: u64, rpm: u32, outer_rate: Rate, single: Nanos, average: Nanos) -> Self {
        Self {
            capacity,
            rpm,
            outer_rate,
            inner_rate: Rate::per_second(outer_rate.bytes_per_second() / 2),
            zones: 16,
            single_track_seek: single,
            average_seek: average,
            full_stroke_seek: None,
            write_settle: 0,
            overhead: 100 * MICROSECOND,
            interface_rate: Rate::per_second(550_000_000),
            write_cache: 0,
            write_cache_extents: EXTENTS_MAX,
            destage_window: 32,
            read_ahead: 0,
            read_segments: 16,
            queue: Queue::Shortest,
            queue_depth: 32,
            flush: Span::default(),
            discard: Span::default(),
            write_zeroes: None,
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, SpecError> {
        let basic = Self::new(
            from.required("capacity", Reader::size)?,
            from.required("rpm", Reader::number)?,
            from.required("outer_rate", Reader::rate)?,
            from.required("single_track_seek", Reader::duration)?,
            from.required("average_seek", Reader::duration)?,
        );
        let spec = Self {
            inner_rate: from.or("inner_rate", Reader::rate, basic.inner_rate)?,
            zones: from.or("zones", Reader::number, basic.zones)?,
            full_stroke_seek: from.optional("full_stroke_seek", Reader::duration)?,
            write_settle: from.or("write_settle", Reader::duration, basic.write_settle)?,
            overhead: from.or("overhead", Reader::duration, basic.overhead)?,
            interface_rate: from.or("interface_rate", Reader::rate, basic.interface_rate)?,
            write_cache: from.or("write_cache", Reader::size, 0)?,
            write_cache_extents: from.or("write_cache_extents", Reader::number, EXTENTS_MAX)?,
            destage_window: from.or("destage_window", Reader::number, basic.destage_window)?,
            read_ahead: from.or("read_ahead", Reader::size, 0)?,
            read_segments: from.or("read_segments", Reader::number, basic.read_segments)?,
            queue: from.or("queue", |r, key| r.choice(key, &QUEUES), Queue::Shortest)?,
            queue_depth: from.or("queue_depth", Reader::number, basic.queue_depth)?,
            flush: from.or("flush", Reader::span, basic.flush)?,
            discard: from.or("discard", Reader::span, basic.discard)?,
            write_zeroes: from.optional("write_zeroes", Reader::span)?,
            ..basic
        };
        spec.check(from)?;
        Ok(spec)
    }

    /// The seek curve, unless its figures contradict one another.
    pub(crate) fn seek(&self) -> Option<Seek> {
        Seek::new(self.single_track_seek, self.average_seek, self.full_stroke_seek)
    }

    fn check(&self, from: &Reader) -> Result<(), SpecError> {
        let range = |key, value: u32, max: u32| {
            let ok = (1..=max).contains(&value);
            ok.then_some(()).ok_or_else(|| from.bad(key, &format!("must be from 1 to {max}")))
        };
        range("rpm", self.rpm, RPM_MAX)?;
        range("zones", self.zones, ZONES_MAX)?;
        range("write_cache_extents", self.write_cache_extents, EXTENTS_MAX)?;
        range("destage_window", self.destage_window, EXTENTS_MAX)?;
        range("read_segments", self.read_segments, SEGMENTS_MAX)?;
        range("queue_depth", self.queue_depth, u32::MAX)?;
        let bytes = |key, value: u64, min: u64, max: u64| {
            let (low, high) = (units::format_size(min), units::format_size(max));
            let ok = (min..=max).contains(&value);
            ok.then_some(()).ok_or_else(|| from.bad(key, &format!("must be from {low} to {high}")))
        };
        bytes("capacity", self.capacity, 1, CAPACITY_MAX)?;
        bytes("write_cache", self.write_cache, 0, BUFFER_MAX)?;
        bytes("read_ahead", self.read_ahead, 0, BUFFER_MAX)?;
        if self.inner_rate.bytes_per_second() > self.outer_rate.bytes_per_second() {
            return Err(from.bad("inner_rate", &"must not be more than `outer_rate`"));
        }
        if self.seek().is_none() {
            return Err(from.bad(
                "average_seek",
                &"must lie well between `single_track_seek` and `full_stroke_seek`: a third of the \
                 stroke takes about as long as the average",
            ));
        }
        Ok(())
    }
}

const QUEUES: [(&str, Queue); 2] = [("shortest", Queue::Shortest), ("fifo", Queue::Fifo)];
