//! A part of a frame's way that has a bandwidth.

use stasis_block::clock::Nanos;
use stasis_block::{Rate, TimePerByte};

/// Preamble, frame check sequence and gap of a frame on the wire in bytes (IEEE 802.3-2018, clauses
/// 3.1.1 and 4.4.2: 8, 4 and 12).
const OVERHEAD: u64 = 24;
/// Minimum of a frame without its check sequence in bytes (IEEE 802.3-2018, clause 4.4.2).
const MIN_FRAME: u64 = 60;

/// Bytes that a frame of `length` bytes takes on the wire.
pub fn wire_bytes(length: usize) -> u64 {
    (length as u64).max(MIN_FRAME) + OVERHEAD
}

/// A port's or a link's bandwidth, with the queue before it.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    bandwidth: Option<TimePerByte>,
    /// Limit on the time that a frame waits (ns): that of the queue's bytes.
    limit: Nanos,
    /// When the last frame has left (ns).
    free: Nanos,
}

impl Stage {
    /// A stage that sends at `bandwidth`, at once without one, with a queue of `queue` bytes.
    pub fn new(bandwidth: Option<Rate>, queue: u64) -> Self {
        let bandwidth = bandwidth.map(Rate::time_per_byte);
        Self { bandwidth, limit: bandwidth.map_or(0, |each| each.times(queue)), free: 0 }
    }

    /// Sends at another bandwidth from now on. What waits leaves as it would have left.
    pub fn change(&mut self, bandwidth: Option<Rate>, queue: u64) {
        *self = Self { free: self.free, ..Self::new(bandwidth, queue) };
    }

    /// When a frame's first and last bit leave, whose first and last bit come at `first` and
    /// `last` (ns). `None` if the queue has no room for the frame.
    pub fn pass(&mut self, first: Nanos, last: Nanos, length: usize) -> Option<(Nanos, Nanos)> {
        let Some(each) = self.bandwidth else { return Some((first, last)) };
        let start = first.max(self.free);
        if start - first > self.limit {
            return None;
        }
        let end = start.saturating_add(each.times(wire_bytes(length))).max(last);
        self.free = end;
        Some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_serializes_and_drops_what_does_not_fit() {
        // 1 byte/ns; two frames of 76 + 24 bytes may wait.
        let mut stage = Stage::new(Some(Rate::per_second(1_000_000_000)), 200);
        assert_eq!(stage.pass(1_000, 1_000, 76), Some((1_000, 1_100)));
        assert_eq!(stage.pass(1_000, 1_000, 76), Some((1_100, 1_200)));
        assert_eq!(stage.pass(1_000, 1_000, 76), Some((1_200, 1_300)));
        assert_eq!(stage.pass(1_000, 1_000, 76), None);
        assert_eq!(stage.pass(1_100, 1_100, 76), Some((1_300, 1_400)));
        // A frame that comes in slowly leaves no earlier than it is there.
        assert_eq!(stage.pass(2_000, 2_500, 76), Some((2_000, 2_500)));
        assert_eq!(wire_bytes(42), 84);
        assert_eq!(wire_bytes(1_514), 1_538);
    }

    #[test]
    fn without_a_bandwidth_a_frame_passes_at_once() {
        let mut stage = Stage::new(None, 0);
        assert_eq!(stage.pass(7, 9, 1_514), Some((7, 9)));
        assert_eq!(stage.pass(7, 9, 1_514), Some((7, 9)));
    }
}
