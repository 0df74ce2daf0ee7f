//! Schedules of the processors on purpose: which one goes on, how far, and which is held meanwhile. Owns the
//! order of the processors and the random numbers.
//!
//! In each window of virtual time, whose length is drawn, the processors run in the order of their ranks, so
//! that one may stand between two instructions while all others go through the whole window. A slice
//! ends at a random instruction; then the processor's rank may drop to the last, or another one's may
//! become the first: the changes of priority of a probabilistic concurrency test (Burckhardt, Kothari,
//! Musuvathi, Nagarakatte, "A randomized scheduler with probabilistic guarantees of finding bugs",
//! ASPLOS 2010). Lengths are drawn by their logarithm, since nobody knows how long a race's window is.
//!
//! Invariants: no processor is ahead of another by more than a window; a slice takes a tick at least.

use stasis_block::clock::Nanos;
use stasis_block::Random;

use crate::freeze::Scale;

/// The shortest window (ns): a system call.
const MIN_WINDOW: Nanos = 10_000;
/// The longest window (ns), by which a processor of a random schedule may be ahead of another: a third of a tick
/// of Linux (250 Hz).
pub const MAX_WINDOW: Nanos = 1_300_000;
/// The shortest slice (ns).
const MIN_SLICE: Nanos = 1_000;
/// One slice of so many changes the order at its end.
const CHANGES: u64 = 2;
/// Separates the schedule's numbers from a drive's.
const STREAM: u64 = 0x5c4e_d01e_0f1e_a5ed;

/// A schedule of processors.
#[derive(Debug)]
pub(super) struct Interleaving {
    random: Random,
    scale: Scale,
    /// By place; the lowest runs first.
    ranks: Vec<i64>,
    /// The ranks beyond which the last and the first are.
    lowest: i64,
    highest: i64,
    /// The window, and its end (ticks).
    window: u64,
    end: u64,
}

impl Interleaving {
    /// A schedule of so many processors by a seed, with its first window.
    pub(super) fn new(seed: u64, processors: usize, scale: Scale) -> Self {
        let random = Random::new(seed ^ STREAM);
        let ranks = (0..).take(processors).collect();
        let highest = processors as i64;
        let mut made = Self { random, scale, ranks, lowest: -1, highest, window: 1, end: 0 };
        for place in 0..processors {
            let other = made.random.below(place as u64 + 1) as usize;
            made.ranks.swap(place, other);
        }
        made
    }

    /// Draws the window (ticks) in which `instant` lies, where that is a new one.
    pub(super) fn window(&mut self, instant: u64) -> Option<u64> {
        if instant < self.end {
            return None;
        }
        let length = self.draw(MIN_WINDOW, MAX_WINDOW);
        self.window = self.scale.to_ticks(length).max(1);
        self.end = instant.saturating_add(self.window);
        Some(self.window)
    }

    /// The rank of the processor at `place`: the lowest goes first.
    pub(super) fn rank(&self, place: usize) -> i64 {
        self.ranks.get(place).copied().unwrap_or(i64::MAX)
    }

    /// The end of a slice of the processor at `place`, which is at `time` and may go on until `limit`
    /// (ticks).
    pub(super) fn cut(&mut self, place: usize, time: u64, limit: u64) -> u64 {
        let longest = self.scale.to_ns(self.window).max(2 * MIN_SLICE);
        let length = self.draw(MIN_SLICE, longest);
        let length = self.scale.to_ticks(length).max(1);
        if self.random.below(CHANGES) == 0 {
            match self.random.below(2) {
                0 => {
                    self.ranks[place] = self.highest;
                    self.highest += 1;
                }
                _ => {
                    let other = self.random.below(self.ranks.len() as u64) as usize;
                    self.ranks[other] = self.lowest;
                    self.lowest -= 1;
                }
            }
        }
        limit.min(time.saturating_add(length))
    }

    /// A time between two (ns), uniform by its logarithm: a power of two times the first, and then within it.
    fn draw(&mut self, first: Nanos, last: Nanos) -> Nanos {
        let octaves = u64::from((last / first).max(1).ilog2()) + 1;
        let begin = first << self.random.below(octaves);
        (begin + self.random.up_to(begin)).min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale() -> Scale {
        Scale::new(5_000_000)
    }

    #[test]
    fn a_seed_has_one_schedule() {
        let course = |seed| {
            let mut one = Interleaving::new(seed, 4, scale());
            let steps = (0..1000).map(|step| {
                let window = one.window(step * 100_000);
                let place = step as usize % 4;
                (window, one.cut(place, step, u64::MAX), one.rank(place))
            });
            steps.collect::<Vec<_>>()
        };
        assert_eq!(course(1), course(1));
        assert_ne!(course(1), course(2));
    }

    #[test]
    fn times_are_drawn_by_their_logarithm() {
        let mut one = Interleaving::new(7, 2, scale());
        let mut octaves = [0; 8];
        for _ in 0..8000 {
            let time = one.draw(MIN_WINDOW, MAX_WINDOW);
            assert!((MIN_WINDOW..=MAX_WINDOW).contains(&time), "{time}");
            octaves[(time / MIN_WINDOW).ilog2() as usize] += 1;
        }
        // The last one is that of the limit alone.
        assert!(octaves[..7].iter().all(|count| (800..1500).contains(count)), "{octaves:?}");
    }

    /// Each processor is the first in some window, and the last in some.
    #[test]
    fn any_processor_can_be_held() {
        let mut one = Interleaving::new(3, 3, scale());
        let (mut first, mut last) = ([0; 3], [0; 3]);
        for step in 0..3000u64 {
            let place = (0..3).min_by_key(|place| one.rank(*place)).unwrap();
            first[place] += 1;
            last[(0..3).max_by_key(|place| one.rank(*place)).unwrap()] += 1;
            let end = one.cut(place, step, step + 10);
            assert!(end > step && end <= step + 10);
        }
        assert!(first.iter().chain(&last).all(|count| *count > 300), "{first:?} {last:?}");
    }
}
