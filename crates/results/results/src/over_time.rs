//! I/Os over virtual time in bounded memory: every latency while there are few, then per
//! slice of time its extremes and a fair sample; the rate, the bandwidth and the queue
//! depth of each slice.

use stasis_block::splitmix;

/// Points kept one by one.
const POINTS: usize = 2048;
/// Slices of time; their width doubles whenever the run outgrows them.
const SLICES: usize = 512;
/// I/Os sampled per slice beside its extremes.
const SAMPLES: usize = 2;

/// One completed I/O.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Time at which it was delivered (ns).
    pub at: u64,
    /// Its delivered latency (ns).
    pub latency: u64,
    /// Place at which it began (bytes).
    pub offset: u64,
    /// Its length (bytes).
    pub bytes: u64,
    /// Its number among the submissions to its drive.
    pub order: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slice {
    count: u64,
    bytes: u64,
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
        Self { count: 1, bytes: point.bytes, fastest: point, slowest: point, samples }
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        if other.fastest.latency < self.fastest.latency {
            self.fastest = other.fastest;
        }
        if other.slowest.latency > self.slowest.latency {
            self.slowest = other.slowest;
        }
        for &(draw, point) in other.samples.iter().flatten() {
            self.sample(draw, point);
        }
    }

    /// Takes an I/O more.
    fn add(&mut self, draw: u64, point: Point) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(point.bytes);
        if point.latency < self.fastest.latency {
            self.fastest = point;
        }
        if point.latency > self.slowest.latency {
            self.slowest = point;
        }
        self.sample(draw, point);
    }

    /// Samples an I/O where its draw is among the smallest; they stand in rising order.
    fn sample(&mut self, draw: u64, point: Point) {
        let mut candidate = (draw, point);
        for kept in &mut self.samples {
            match kept {
                Some(kept) if kept.0 <= candidate.0 => {}
                Some(kept) => std::mem::swap(kept, &mut candidate),
                None => {
                    *kept = Some(candidate);
                    return;
                }
            }
        }
    }
}

/// I/Os that were submitted and delivered within a slice, each kind with the time that was left of
/// the slice (ns, summed). From these follows how many were in flight, for any order of the
/// records, at a cost per I/O that does not grow with its time.
#[derive(Debug, Clone, Copy, Default)]
struct Flights {
    begun: u64,
    begun_rest: u128,
    ended: u64,
    ended_rest: u128,
}

impl Flights {
    /// One slice of it and the next, of `width` ns each.
    fn join(self, next: Self, width: u128) -> Self {
        Self {
            begun: self.begun + next.begun,
            begun_rest: self.begun_rest + u128::from(self.begun) * width + next.begun_rest,
            ended: self.ended + next.ended,
            ended_rest: self.ended_rest + u128::from(self.ended) * width + next.ended_rest,
        }
    }
}

/// A figure over time, as (time in ns, figure).
pub type Curve = Vec<(f64, f64)>;

/// Course of an operation over time.
#[derive(Debug, Default)]
pub struct Course {
    /// I/Os a second.
    pub rate: Curve,
    /// Bytes a second.
    pub bandwidth: Curve,
    /// I/Os in flight, on average.
    pub depth: Curve,
    /// Length of a part of the time (ns): a point stands in the middle of its part.
    pub step: f64,
}

/// Latencies over time.
pub struct OverTime {
    points: Vec<Point>,
    slices: Vec<Option<Slice>>,
    flights: Vec<Flights>,
    /// Width of a slice: 2^shift ns.
    shift: u32,
    origin: u64,
    /// Time of the last end.
    end: u64,
    count: u64,
}

impl OverTime {
    /// No I/O yet.
    pub(crate) fn new() -> Self {
        Self {
            points: Vec::new(),
            slices: Vec::new(),
            flights: Vec::new(),
            shift: 10,
            origin: 0,
            end: 0,
            count: 0,
        }
    }

    /// Takes an I/O.
    pub fn record(&mut self, point: Point) {
        let begun = point.at.saturating_sub(point.latency);
        if self.count == 0 {
            self.origin = begun;
            self.slices = vec![None; SLICES];
            self.flights = vec![Flights::default(); SLICES];
        }
        let draw = scramble(self.count);
        self.count += 1;
        self.end = self.end.max(point.at);
        if self.points.len() < POINTS {
            self.points.push(point);
        }
        // I/Os are recorded in the order of their ends, or nearly so: the first slice
        // takes what lies before the origin.
        let since = point.at.saturating_sub(self.origin);
        while since >> self.shift >= SLICES as u64 {
            self.halve();
        }
        let slice = &mut self.slices[(since >> self.shift) as usize];
        match slice {
            Some(slice) => slice.add(draw, point),
            None => *slice = Some(Slice::of(draw, point)),
        }
        let width = 1u64 << self.shift;
        let rest = |since: u64| u128::from(width - (since & (width - 1)));
        let flights = &mut self.flights[(since >> self.shift) as usize];
        flights.ended += 1;
        flights.ended_rest += rest(since);
        let since = begun.saturating_sub(self.origin);
        let flights = &mut self.flights[(since >> self.shift) as usize];
        flights.begun += 1;
        flights.begun_rest += rest(since);
    }

    #[cold]
    fn halve(&mut self) {
        let width = 1 << self.shift;
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
            let flights = |index| self.flights.get(index).copied().unwrap_or_default();
            self.flights[index] = flights(2 * index).join(flights(2 * index + 1), width);
        }
    }

    /// Returns whether [`Self::points`] are all there were.
    pub fn is_complete(&self) -> bool {
        self.count <= POINTS as u64
    }

    /// The points to draw, in order of time: at most so many, or two if that is more. Of more,
    /// the fastest and the slowest of each part of the time.
    pub fn at_most(&self, limit: usize) -> Vec<Point> {
        let points = self.points();
        if points.len() <= limit {
            return points;
        }
        let parts = points.chunks(points.len().div_ceil((limit / 2).max(1)));
        let ends = |part: &[Point]| {
            let fastest = part.iter().min_by_key(|point| point.latency).copied();
            let slowest = part.iter().max_by_key(|point| point.latency).copied();
            let mut ends: Vec<_> = fastest.into_iter().chain(slowest).collect();
            ends.sort_unstable();
            ends.dedup();
            ends
        };
        parts.flat_map(ends).collect()
    }

    /// The points to draw, in order of time.
    pub fn points(&self) -> Vec<Point> {
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

    /// Returns the number of I/Os in flight in each slice, times its width (ns).
    fn areas(&self) -> Vec<f64> {
        let width = 1u128 << self.shift;
        let mut open = 0u128;
        let area = |flights: &Flights| {
            // The time of the I/Os in flight when the slice begins, and of those that begin in it,
            // until its end; less the rest of the slice when each ends.
            let area = open * width + flights.begun_rest - flights.ended_rest;
            open = open + u128::from(flights.begun) - u128::from(flights.ended);
            area as f64
        };
        self.flights.iter().map(area).collect()
    }

    /// Returns the course of the I/Os, in at most so many parts of time that hold 20 I/Os each on
    /// the average; empty where that gives fewer than four parts, too few for a course.
    pub fn course(&self, most: usize) -> Course {
        const PER_PART: u64 = 20;
        let mut course = Course::default();
        let Some(last) = self.slices.iter().rposition(Option::is_some) else {
            return course;
        };
        let used = last + 1;
        let parts = (self.count / PER_PART).min(most as u64).min(used as u64) as usize;
        if parts < 4 {
            return course;
        }
        let areas = self.areas();
        let per_part = used.div_ceil(parts);
        let width = 2f64.powi(self.shift as i32) * per_part as f64;
        course.step = width;
        // The rest after the whole parts ends with the last I/O; a short one belongs to the part before.
        let (whole, end) = (last / per_part, (self.end - self.origin) as f64);
        let is_short = whole > 0 && end - (whole as f64 * width) < width / 2.0;
        let count = if is_short { whole } else { whole + 1 };
        for part in 0..count {
            let is_last = part + 1 == count;
            let slices = part * per_part..if is_last { used } else { (part + 1) * per_part };
            let begin = part as f64 * width;
            let width = if is_last { (end - begin).max(1.0) } else { width };
            let middle = self.origin as f64 + begin + width / 2.0;
            let all = || self.slices[slices.clone()].iter().flatten();
            let count: u64 = all().map(|slice| slice.count).sum();
            let bytes: f64 = all().map(|slice| slice.bytes as f64).sum();
            let area: f64 = areas[slices.clone()].iter().sum();
            course.rate.push((middle, count as f64 / (width / 1e9)));
            course.bandwidth.push((middle, bytes / (width / 1e9)));
            course.depth.push((middle, area / width));
        }
        course
    }
}

/// A number that looks drawn at random, the same for the same input.
fn scramble(number: u64) -> u64 {
    splitmix::nth(0, number.wrapping_add(1))
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
            let mut over_time = OverTime::new();
            let all: Vec<_> = raw.iter().map(|&(at, latency)| Point { at, latency, bytes: 1, ..Point::default() }).collect();
            all.iter().for_each(|&point| over_time.record(point));
            let points = over_time.points();
            prop_assert!(points.len() <= POINTS.max(SLICES * (SAMPLES + 2)));
            prop_assert_eq!(over_time.is_complete(), all.len() <= POINTS);
            if over_time.is_complete() { prop_assert_eq!(points.len(), all.len()); }
            let range = |points: &[Point]| {
                let latencies = points.iter().map(|point| point.latency);
                (latencies.clone().min(), latencies.max())
            };
            prop_assert_eq!(range(&points), range(&all));
            prop_assert!(points.iter().all(|point| all.contains(point)));
            for limit in [0, 7, 300] {
                let few = over_time.at_most(limit);
                prop_assert!(few.len() <= limit.max(2) || few.len() == points.len().min(limit));
                prop_assert_eq!(range(&few), range(&all));
                prop_assert!(few.windows(2).all(|pair| pair[0] <= pair[1]));
            }
        }
    }

    #[test]
    fn a_steady_stream_is_steady() {
        let mut over_time = OverTime::new();
        for index in 0..100_000u64 {
            let at = 5_000_000_000 + index * 100_000;
            over_time.record(Point { at, latency: 390_000, bytes: 4096, ..Point::default() });
        }
        let course = over_time.course(128);
        for curve in [&course.rate, &course.bandwidth, &course.depth] {
            assert!(curve.len() >= 64, "{}", curve.len());
            assert!(curve.iter().all(|(at, _)| (4.9e9..15e9).contains(at)));
        }
        for (at, rate) in &course.rate {
            assert!((rate - 10_000.0).abs() < 200.0, "{rate} at {at}");
        }
        for (at, bandwidth) in &course.bandwidth {
            assert!((bandwidth - 4096e4).abs() < 4096.0 * 200.0, "{bandwidth} at {at}");
        }
        // Before the first part, I/Os are under way that end in it.
        for (at, depth) in &course.depth[1..] {
            assert!((depth - 3.9).abs() < 0.01, "{depth} at {at}");
        }
    }

    /// A burst at the end is in the last part, however short that is: no I/O is left out.
    #[test]
    fn all_ios_are_in_the_course() {
        for burst in [1u64, 30, 300] {
            for after in (0..40).map(|part| 10_000_000_000 + part * 7_000_000) {
                let mut over_time = OverTime::new();
                let steady = (0..1000).map(|index| index * 10_000_000);
                let bursts = (0..burst).map(|index| after + index * 1000);
                for at in steady.chain(bursts) {
                    over_time.record(Point { at, latency: 1, bytes: 512, ..Point::default() });
                }
                let course = over_time.course(128);
                // A part ends in the middle between its own middle and the next one's, or with the last I/O.
                let (mut ios, mut begin) = (0.0, over_time.origin as f64);
                for (middle, rate) in &course.rate {
                    let width = 2.0 * (middle - begin);
                    (ios, begin) = (ios + rate * width / 1e9, begin + width);
                }
                assert!(
                    (ios - (1000 + burst) as f64).abs() < 0.01,
                    "{ios} with {burst} at {after}"
                );
                assert!((begin - over_time.end as f64).abs() < 1.0, "{begin}");
            }
        }
    }

    proptest! {
        /// Against one count per nanosecond.
        #[test]
        fn what_is_in_flight_is_counted_at_every_width(
            raw in prop::collection::vec((0u64..4_000_000, 0u64..300_000), 1..400),
        ) {
            let mut raw = raw;
            raw.sort_unstable_by_key(|(at, latency)| at + latency);
            let mut over_time = OverTime::new();
            for &(begin, latency) in &raw {
                over_time.record(Point { at: begin + latency, latency, ..Point::default() });
            }
            let width = 1u64 << over_time.shift;
            for (slice, area) in over_time.areas().into_iter().enumerate() {
                let from = over_time.origin + slice as u64 * width;
                let expected: u64 = raw
                    .iter()
                    .map(|&(begin, latency)| {
                        let end = (begin + latency).max(over_time.origin).min(from + width);
                        end.saturating_sub(begin.max(from))
                    })
                    .sum();
                prop_assert_eq!(area as u64, expected, "slice {}", slice);
            }
        }
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        let mut over_time = OverTime::new();
        for at in [7, 0, u64::MAX, u64::MAX - 1] {
            over_time.record(Point { at, latency: at, bytes: u64::MAX, ..Point::default() });
        }
        assert_eq!(over_time.points().len(), 4);
        assert!(over_time.course(128).rate.is_empty());
    }
}
