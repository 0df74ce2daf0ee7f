//! Latency over virtual time in bounded memory: every I/O while there are few,
//! then per slice of time its extremes and a fair sample.

/// Points kept one by one.
const POINTS: usize = 2048;
/// Slices of time; their width doubles whenever the run outgrows them.
const SLICES: usize = 512;
/// I/Os sampled per slice beside its extremes.
const SAMPLES: usize = 2;

/// One completed I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    /// When it was delivered (ns).
    pub(crate) at: u64,
    /// Its delivered latency (ns).
    pub(crate) latency: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slice {
    count: u64,
    fastest: Point,
    slowest: Point,
    /// The I/Os with the smallest draws: a uniform sample that stays one when
    /// slices are joined.
    samples: [Option<(u64, Point)>; SAMPLES],
}

impl Slice {
    fn of(draw: u64, point: Point) -> Self {
        let mut samples = [None; SAMPLES];
        samples[0] = Some((draw, point));
        Self { count: 1, fastest: point, slowest: point, samples }
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        if other.fastest.latency < self.fastest.latency {
            self.fastest = other.fastest;
        }
        if other.slowest.latency > self.slowest.latency {
            self.slowest = other.slowest;
        }
        for candidate in other.samples.iter().flatten() {
            let mut candidate = Some(*candidate);
            for kept in &mut self.samples {
                let smaller = match (&candidate, &*kept) {
                    (Some((draw, _)), Some((other, _))) => draw < other,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                if smaller {
                    std::mem::swap(&mut candidate, kept);
                }
            }
        }
    }
}

/// Latencies over time.
pub(crate) struct Timeline {
    points: Vec<Point>,
    slices: Vec<Option<Slice>>,
    /// Width of a slice: 2^shift ns.
    shift: u32,
    origin: u64,
    count: u64,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self { points: Vec::new(), slices: Vec::new(), shift: 10, origin: 0, count: 0 }
    }

    pub(crate) fn record(&mut self, point: Point) {
        if self.count == 0 {
            self.origin = point.at;
            self.slices = vec![None; SLICES];
        }
        let draw = scramble(self.count);
        self.count += 1;
        if self.points.len() < POINTS {
            self.points.push(point);
        }
        // Delivery may be recorded a little out of order: the first slice takes
        // what lies before the origin.
        let since = point.at.saturating_sub(self.origin);
        while since >> self.shift >= SLICES as u64 {
            self.halve();
        }
        let slice = &mut self.slices[(since >> self.shift) as usize];
        let new = Slice::of(draw, point);
        match slice {
            Some(slice) => slice.join(&new),
            None => *slice = Some(new),
        }
    }

    fn halve(&mut self) {
        self.shift += 1;
        for index in 0..SLICES {
            let mut pair = self.slices.get(2 * index).copied().flatten();
            if let Some(Some(second)) = self.slices.get(2 * index + 1) {
                match &mut pair {
                    Some(first) => first.join(second),
                    None => pair = Some(*second),
                }
            }
            self.slices[index] = pair;
        }
    }

    /// Whether [`Self::points`] are all there were.
    pub(crate) fn is_complete(&self) -> bool {
        self.count <= POINTS as u64
    }

    /// The points to draw, in order of time.
    pub(crate) fn points(&self) -> Vec<Point> {
        let mut points = if self.is_complete() {
            self.points.clone()
        } else {
            let slices = self.slices.iter().flatten();
            slices
                .flat_map(|slice| {
                    let samples = slice.samples.into_iter().flatten().map(|(_, point)| point);
                    samples.chain([slice.fastest, slice.slowest])
                })
                .collect()
        };
        points.sort_unstable();
        if !self.is_complete() {
            points.dedup();
        }
        points
    }

    /// I/Os per second over time, as (time in ns, rate), in at most 128 parts
    /// that hold 20 I/Os each on the average; empty where that gives fewer than
    /// four parts, too few to say anything.
    pub(crate) fn rate(&self) -> Vec<(f64, f64)> {
        const PARTS: u64 = 128;
        const PER_PART: u64 = 20;
        let Some(last) = self.slices.iter().rposition(Option::is_some) else {
            return Vec::new();
        };
        let used = last + 1;
        let parts = (self.count / PER_PART).min(PARTS).min(used as u64) as usize;
        if parts < 4 {
            return Vec::new();
        }
        let per_part = used.div_ceil(parts);
        let width = 2f64.powi(self.shift as i32) * per_part as f64;
        // The last slice is not full: its part's rate would be too low.
        let whole = last / per_part;
        (0..whole)
            .map(|part| {
                let slices = &self.slices[part * per_part..(part + 1) * per_part];
                let count: u64 = slices.iter().flatten().map(|slice| slice.count).sum();
                let middle = self.origin as f64 + (part as f64 + 0.5) * width;
                (middle, count as f64 / (width / 1e9))
            })
            .collect()
    }
}

/// A number that looks drawn at random, the same for the same input
/// (SplitMix64: Steele, Lea, Flood, OOPSLA 2014, figure 11).
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn extremes_are_never_lost(
            raw in prop::collection::vec((0u64..10_000_000_000, 0u64..1_000_000), 1..6000),
        ) {
            let mut timeline = Timeline::new();
            let all: Vec<_> = raw.iter().map(|&(at, latency)| Point { at, latency }).collect();
            all.iter().for_each(|&point| timeline.record(point));
            let points = timeline.points();
            prop_assert!(points.len() <= POINTS.max(SLICES * (SAMPLES + 2)));
            prop_assert_eq!(timeline.is_complete(), all.len() <= POINTS);
            if timeline.is_complete() { prop_assert_eq!(points.len(), all.len()); }
            let range = |points: &[Point]| {
                let latencies = points.iter().map(|point| point.latency);
                (latencies.clone().min(), latencies.max())
            };
            prop_assert_eq!(range(&points), range(&all));
            prop_assert!(points.iter().all(|point| all.contains(point)));
        }
    }

    #[test]
    fn rate_of_a_steady_stream_is_steady() {
        let mut timeline = Timeline::new();
        for index in 0..100_000u64 {
            timeline.record(Point { at: 5_000_000_000 + index * 100_000, latency: 90_000 });
        }
        let rate = timeline.rate();
        assert!(rate.len() >= 64, "{}", rate.len());
        for (at, rate) in rate {
            assert!((rate - 10_000.0).abs() < 200.0, "{rate} at {at}");
            assert!((5e9..15e9).contains(&at));
        }
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut timeline = Timeline::new();
        for at in [7, 0, u64::MAX, u64::MAX - 1] {
            timeline.record(Point { at, latency: at });
        }
        assert_eq!(timeline.points().len(), 4);
        assert!(timeline.rate().is_empty());
    }
}
