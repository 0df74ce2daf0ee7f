//! Which states are looked at: instants where something happens that matters,
//! and instants at random.

use stasis_block::splitmix::nth as hash;
use stasis_block::Operation;
use stasis_drive::Sampling;

use crate::trace::{CutPoint, Trace};

/// A state: a power cut, and what it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Its number; with the seed it says everything else.
    pub number: u64,
    /// After so many events.
    pub point: CutPoint,
    /// What is left.
    pub sampling: Sampling,
}

/// Draws states from a trace; the same seed and number give the same one.
#[derive(Debug)]
pub struct StateSampler {
    seed: u64,
    span: (CutPoint, CutPoint),
    times: (u64, u64),
    // Just after the guest was told that something is durable.
    told: Vec<CutPoint>,
    // Just after the drive finished something.
    finished: Vec<CutPoint>,
}

/// The golden ratio, as a part of 2^64: its multiples fill a range evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl StateSampler {
    /// States of power cuts between the points `span`.
    pub fn new(trace: &Trace, seed: u64, span: (CutPoint, CutPoint)) -> Self {
        let inside = |point: &CutPoint| (span.0..=span.1).contains(point);
        let (mut told, mut finished) = (Vec::new(), Vec::new());
        for drive in &trace.drives {
            let ends = |request: &crate::Request| request.end.map(|(_, event, _)| event + 1);
            let orders = drive.guest.requests.iter().filter(|request| {
                request.command.operation == Operation::Flush || request.command.fua
            });
            told.extend(orders.filter_map(ends).filter(inside));
            finished.extend(drive.cached().requests.iter().filter_map(ends).filter(inside));
        }
        told.sort_unstable();
        finished.sort_unstable();
        let times = (trace.time(span.0), trace.time(span.1));
        Self { seed, span, times, told, finished }
    }

    /// The state `number`.
    pub fn cut(&self, trace: &Trace, number: u64) -> Cut {
        let draw = |index: u64| hash(self.seed ^ number.wrapping_mul(GOLDEN), index);
        // Evenly over a list, in an order that is even wherever it ends.
        let turn = number / 4;
        let pick = |list: &[CutPoint]| {
            let place = turn.wrapping_mul(GOLDEN).wrapping_add(hash(self.seed, 77));
            let index = (u128::from(place) * list.len() as u128) >> 64;
            list.get(index as usize).copied()
        };
        let (first, last) = self.span;
        let anywhere = first + (draw(1) % u64::from(last - first + 1)) as CutPoint;
        let (from, to) = self.times;
        let point = match number % 4 {
            0 => pick(&self.told).unwrap_or(anywhere),
            // Just after an end, or just before it.
            1 => pick(&self.finished).map_or(anywhere, |after| {
                if draw(2) & 1 == 0 {
                    after
                } else {
                    (after - 1).max(first)
                }
            }),
            2 => anywhere,
            _ => trace.point_at(from + draw(3) % (to - from + 1)).clamp(first, last),
        };
        let sampling = match (draw(4) % 8, number % 4) {
            (0..=5, 0) | (0, _) => Sampling::Least,
            (1, 1..) => Sampling::Most,
            _ => Sampling::Random(draw(5)),
        };
        Cut { number, point, sampling }
    }
}
