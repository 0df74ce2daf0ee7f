//! A part of a frame's way that has a bandwidth.

use stasis_block::clock::Nanos;
use stasis_block::{Random, Rate, TimePerByte};

use crate::frame::wire_bytes;
use crate::red::{Fate, Red, RedSpec};

/// A port's or a link's bandwidth, with the queue before it.
#[derive(Debug, Clone)]
pub struct Stage {
    bandwidth: Option<TimePerByte>,
    /// Limit on the time that a frame waits (ns): that of the queue's bytes.
    limit: Nanos,
    /// Time at which the last frame has left (ns).
    free: Nanos,
    /// The discipline of the queue before it is full.
    red: Option<Box<Red>>,
}

/// The way of a frame through a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Times at which its first and its last bit leave (ns).
    pub bits: (Nanos, Nanos),
    /// True if it is to be marked.
    pub marked: bool,
}

/// Why a frame does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// The queue has no room.
    Full,
    /// Random early detection has picked it.
    Early,
}

impl Stage {
    /// A stage that sends at `bandwidth`, at once without one, with a queue of `queue` bytes.
    pub fn new(bandwidth: Option<Rate>, queue: u64) -> Self {
        let bandwidth = bandwidth.map(Rate::time_per_byte);
        let limit = bandwidth.map_or(0, |each| each.times(queue));
        Self { bandwidth, limit, free: 0, red: None }
    }

    /// Random early detection draws by `random` from now on.
    pub fn reseed(&mut self, random: Random) {
        if let Some(red) = &mut self.red {
            red.reseed(random);
        }
    }

    /// The stage with random early detection; without a bandwidth, nothing waits.
    pub fn with(mut self, red: Option<&RedSpec>, random: Random) -> Self {
        let both = red.zip(self.bandwidth);
        self.red = both.map(|(spec, each)| Box::new(Red::new(spec, each, random)));
        self
    }

    /// Sends as `next` would from now on. What waits leaves as it would have left, and its average
    /// stays.
    pub fn change(&mut self, next: Self) {
        let before = self.red.take();
        *self = Self { free: self.free, ..next };
        if let (Some(red), Some(before)) = (&mut self.red, before) {
            red.follow(&before);
        }
    }

    /// The way of a frame whose first and last bit come at `first` and `last` (ns); `capable`:
    /// whether its sender understands a mark.
    ///
    /// # Errors
    /// If the queue does not take it.
    pub fn pass(
        &mut self,
        (first, last): (Nanos, Nanos),
        length: usize,
        capable: bool,
    ) -> Result<Passed, Dropped> {
        let Some(each) = self.bandwidth else {
            return Ok(Passed { bits: (first, last), marked: false });
        };
        let start = first.max(self.free);
        if start - first > self.limit {
            return Err(Dropped::Full);
        }
        let idle = first.saturating_sub(self.free);
        let fate =
            self.red.as_mut().map_or(Fate::Passes, |red| red.frame(start - first, idle, capable));
        if fate == Fate::Dropped {
            return Err(Dropped::Early);
        }
        let end = start.saturating_add(each.times(wire_bytes(length))).max(last);
        self.free = end;
        Ok(Passed { bits: (start, end), marked: fate == Fate::Marked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(stage: &mut Stage, first: Nanos, last: Nanos, length: usize) -> Option<(Nanos, Nanos)> {
        stage.pass((first, last), length, false).ok().map(|passed| passed.bits)
    }

    #[test]
    fn a_stage_serializes_and_drops_what_does_not_fit() {
        // 1 byte/ns; two frames of 76 + 24 bytes may wait.
        let mut stage = Stage::new(Some(Rate::per_second(1_000_000_000)), 200);
        assert_eq!(pass(&mut stage, 1_000, 1_000, 76), Some((1_000, 1_100)));
        assert_eq!(pass(&mut stage, 1_000, 1_000, 76), Some((1_100, 1_200)));
        assert_eq!(pass(&mut stage, 1_000, 1_000, 76), Some((1_200, 1_300)));
        assert_eq!(pass(&mut stage, 1_000, 1_000, 76), None);
        assert_eq!(pass(&mut stage, 1_100, 1_100, 76), Some((1_300, 1_400)));
        // A frame that comes in slowly leaves no earlier than it is there.
        assert_eq!(pass(&mut stage, 2_000, 2_500, 76), Some((2_000, 2_500)));
    }

    #[test]
    fn a_stage_marks_and_drops_early() {
        let spec = RedSpec { min: Some(100), max: Some(100), weight: Some(1.0), ..spec() };
        let mut stage = Stage::new(Some(Rate::per_second(1_000_000_000)), 300)
            .with(Some(&spec), Random::new(1));
        let passed = |start, marked| Ok(Passed { bits: (start, start + 100), marked });
        assert_eq!(stage.pass((0, 0), 76, true), passed(0, false));
        assert_eq!(stage.pass((0, 0), 76, true), passed(100, true));
        assert_eq!(stage.pass((0, 0), 76, false), Err(Dropped::Early));
        assert_eq!(stage.pass((0, 0), 76, true), passed(200, true));
        assert_eq!(stage.pass((0, 0), 76, true), passed(300, true));
        assert_eq!(stage.pass((0, 0), 76, true), Err(Dropped::Full));
        assert_eq!(stage.pass((350, 350), 76, true), passed(400, false));
    }

    /// Other conditions, or another bandwidth, make the queue no shorter.
    #[test]
    fn a_stage_that_changes_keeps_the_average_of_its_queue() {
        let spec = RedSpec { min: Some(100), max: Some(200), weight: Some(0.5), ..spec() };
        let rate = Rate::per_second(1_000_000_000);
        let stage = || Stage::new(Some(rate), 10_000).with(Some(&spec), Random::new(1));
        let mut steady = stage();
        let mut changing = stage();
        for _ in 0..50 {
            changing.change(stage());
            assert_eq!(steady.pass((0, 0), 76, true), changing.pass((0, 0), 76, true));
        }
        assert!(matches!(changing.pass((0, 0), 76, false), Err(Dropped::Early)));
    }

    fn spec() -> RedSpec {
        RedSpec { ecn: true, probability: Some(1.0), ..RedSpec::default() }
    }

    #[test]
    fn without_a_bandwidth_a_frame_passes_at_once() {
        let mut stage = Stage::new(None, 0);
        assert_eq!(pass(&mut stage, 7, 9, 1_514), Some((7, 9)));
        assert_eq!(pass(&mut stage, 7, 9, 1_514), Some((7, 9)));
    }
}
