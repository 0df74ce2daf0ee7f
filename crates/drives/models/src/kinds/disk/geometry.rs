//! Places of a disk's bytes, and the time to get there.
//!
//! The surface is one spiral, cut into zones of equally many cylinders, each
//! with its own rate. Head and track switches are spread evenly along it: the
//! rates are sustained rates, which hold those switches already. So a transfer
//! takes the time of its length, and ends exactly where the next byte
//! begins.

use stasis_block::clock::{Nanos, SECOND};

use super::seek::Seek;
use super::spec::DiskSpec;
use stasis_block::{Rate, TimePerByte};

/// A head that comes this much (ns) too late still catches a sector, by the gap
/// and the synchronization field before it. A few percent of what a sector of
/// 4 KiB takes to pass (some 20 to 40 us); ours, and it absorbs roundings.
const CATCH: Nanos = 1_000;

#[derive(Debug, Clone)]
struct Zone {
    // First byte.
    start: u64,
    // Distance from the outer edge, as a share of the stroke, of `start`.
    radius: f64,
    radius_per_byte: f64,
    // Angle (ns of rotation) of `start`.
    angle: Nanos,
    time_per_byte: TimePerByte,
    // Share of the stroke that one track takes.
    track: f64,
    rate: f64,
}

/// Place of a byte.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Position {
    /// Distance from the outer edge, as a share of the stroke.
    pub(crate) radius: f64,
    // In ns of rotation.
    angle: Nanos,
    // Share of the stroke that one track takes here.
    track: f64,
}

/// The arm at a moment, from which positioning times are computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arm {
    // Angle under the head, in ns of rotation.
    angle: Nanos,
    radius: f64,
}

/// A disk's surface.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    capacity: u64,
    rotation: Nanos,
    // The platter's angle at time 0.
    phase: Nanos,
    seek: Seek,
}

impl Geometry {
    /// `spec` is checked; `phase` is where in its rotation the platter starts.
    pub(crate) fn new(spec: &DiskSpec, seek: Seek, phase: u64) -> Self {
        let rotation = (60 * SECOND / u64::from(spec.rpm.max(1))).max(1);
        let count = f64::from(spec.zones.max(1));
        let outer = spec.outer_rate.bytes_per_second() as f64;
        let inner = spec.inner_rate().bytes_per_second() as f64;
        // A zone's rate is that of its middle.
        let rate = |zone: u32| outer + (inner - outer) * (f64::from(zone) + 0.5) / count;
        let total: f64 = (0..spec.zones.max(1)).map(rate).sum();
        let mut zones = Vec::new();
        let (mut start, mut angle) = (0, 0);
        for zone in 0..spec.zones.max(1) {
            let rate = rate(zone);
            // Equally many cylinders: the bytes are as the rates.
            let bytes = (spec.capacity as f64 * rate / total) as u64;
            let time_per_byte = Rate::per_second(rate as u64).time_per_byte();
            let track_bytes = rate * rotation as f64 / SECOND as f64;
            let radius_per_byte = 1.0 / count / bytes.max(1) as f64;
            zones.push(Zone {
                start,
                radius: f64::from(zone) / count,
                radius_per_byte,
                angle,
                time_per_byte,
                track: track_bytes * radius_per_byte,
                rate: rate / SECOND as f64,
            });
            angle = time_per_byte.times(bytes).wrapping_add(angle) % rotation;
            start = start.saturating_add(bytes);
        }
        let capacity = spec.capacity;
        Self { zones, capacity, rotation, phase: phase % rotation, seek }
    }

    /// The range's first byte and the one behind its last, on the disk.
    pub(crate) fn clamp(&self, offset: u64, length: u64) -> (u64, u64) {
        let start = offset.min(self.capacity.saturating_sub(1));
        (start, start.saturating_add(length).min(self.capacity))
    }

    fn zone_index(&self, offset: u64) -> usize {
        self.zones.partition_point(|zone| zone.start <= offset).saturating_sub(1)
    }

    /// Returns the place of the byte at `offset`.
    pub(crate) fn place(&self, offset: u64) -> Position {
        let zone = &self.zones[self.zone_index(offset)];
        let into = offset - zone.start;
        Position {
            radius: zone.radius + into as f64 * zone.radius_per_byte,
            angle: zone.angle.wrapping_add(zone.time_per_byte.times(into)) % self.rotation,
            track: zone.track,
        }
    }

    /// The arm at `now`, with its head at `radius`.
    pub(crate) fn arm(&self, now: Nanos, radius: f64) -> Arm {
        Arm { angle: now.wrapping_add(self.phase) % self.rotation, radius }
    }

    /// The time (ns) until the head begins to pass over `place`; `settle` (ns)
    /// is added to a seek.
    pub(crate) fn positioning(&self, arm: Arm, place: &Position, settle: Nanos) -> Nanos {
        let distance = (place.radius - arm.radius).abs();
        let seek = if distance < place.track {
            0
        } else {
            self.seek.time(distance).saturating_add(settle)
        };
        // Cheaper than a division, where a seek takes a rotation or two.
        let mut head = arm.angle.saturating_add(seek);
        if head >= 4 * self.rotation {
            head %= self.rotation;
        }
        while head >= self.rotation {
            head -= self.rotation;
        }
        let wait = place.angle.wrapping_sub(head);
        let wait = if place.angle >= head { wait } else { wait.wrapping_add(self.rotation) };
        let wait = if wait + CATCH > self.rotation { 0 } else { wait };
        seek.saturating_add(wait)
    }

    /// The time (ns) that the bytes from `start` to before `end` pass under the
    /// head.
    pub(crate) fn transfer(&self, start: u64, end: u64) -> Nanos {
        let mut zone = self.zone_index(start);
        let (mut at, mut time) = (start, 0u64);
        while at < end {
            let next = self.zones.get(zone + 1).map_or(u64::MAX, |next| next.start);
            let upto = end.min(next);
            time = time.saturating_add(self.zones[zone].time_per_byte.times(upto - at));
            at = upto;
            zone += 1;
        }
        time
    }

    /// Returns the number of bytes from `offset` on that pass under the head in `time` (ns), by the
    /// rate at `offset`.
    pub(crate) fn bytes_in(&self, offset: u64, time: Nanos) -> u64 {
        (time as f64 * self.zones[self.zone_index(offset)].rate) as u64
    }

    /// Bytes on the disk.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::disk::tests::spec;

    #[test]
    fn the_head_arrives_where_a_transfer_ended() {
        let spec = spec();
        let geometry = Geometry::new(&spec, spec.seek().unwrap(), 12345);
        for start in (0..spec.capacity - (1 << 20)).step_by(7_777_777_777) {
            let (place, arm) = (geometry.place(start), geometry.arm(1_000_000, 0.3));
            let begin = geometry.positioning(arm, &place, 0);
            let end = 1_000_000 + begin + geometry.transfer(start, start + (1 << 20));
            let behind = geometry.place(start + (1 << 20));
            let next = geometry.positioning(geometry.arm(end, behind.radius), &behind, 0);
            assert!(next <= CATCH, "{start}: {next}");
        }
    }

    #[test]
    fn outer_zones_are_faster_and_hold_more() {
        let spec = spec();
        let geometry = Geometry::new(&spec, spec.seek().unwrap(), 0);
        let mib = |at| geometry.transfer(at, at + (1 << 20));
        let (outer, inner) = (mib(0), mib(spec.capacity - (1 << 20)));
        let ratio = inner as f64 / outer as f64;
        assert!((1.8..2.0).contains(&ratio), "{ratio}");
        // Half of the stroke holds more than half of the bytes.
        assert!(geometry.place(spec.capacity / 2).radius < 0.45);
        assert!(geometry.place(spec.capacity - 1).radius > 0.999);
        let whole = geometry.transfer(0, spec.capacity) as f64 / 1e9;
        assert!((8_000.0..14_000.0).contains(&whole), "{whole} s");
    }
}
