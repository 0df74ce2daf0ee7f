//! Choice of the states to check: the smallest state that a promise allows, at the instants where
//! promises are made, and states at random instants.

use std::collections::HashSet;

use stasis_block::splitmix::nth as hash;
use stasis_block::Operation;
use stasis_drive::Sampling;

use crate::trace::{CutPoint, Trace};

/// A state: a power cut, and the choice of surviving changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Number of the state; with the seed it determines all else.
    pub number: u64,
    /// Number of events before the cut.
    pub point: CutPoint,
    /// The choice of surviving changes.
    pub sampling: Sampling,
}

/// Draws states from a trace; the same seed and number give the same one.
///
/// The first states are those that decide, whatever the seed: everything that can be lost is lost,
/// at the end, after each line of output, and just before and after each flush.
#[derive(Debug)]
pub struct StateSampler {
    seed: u64,
    // The instants of the first states.
    fixed: Vec<CutPoint>,
    // Number of all such instants.
    deciding: u64,
    span: (CutPoint, CutPoint),
    times: (u64, u64),
    // Just after an acknowledgement of durability to the guest.
    told: Vec<CutPoint>,
    // Just after the drive finished something.
    finished: Vec<CutPoint>,
}

/// The golden ratio, as a part of 2^64: its multiples fill a range evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maximum number of states that are checked whatever the seed; if more instants decide, these are
/// spread over them evenly.
pub const MAX_FIXED: usize = 10_000;

/// The instants that decide, the end first, then lines, then flushes; and their number before the
/// limit.
fn fixed(trace: &Trace, span: (CutPoint, CutPoint)) -> (Vec<CutPoint>, u64) {
    let lines = trace.lines.iter().map(|(point, ..)| *point);
    let guests = trace.drives.iter().flat_map(|drive| &drive.guest.requests);
    let flushes = guests.filter(|request| request.command.operation == Operation::Flush);
    let flushes = flushes.filter_map(|request| request.end.map(|(_, event, _)| event));
    let mut known = HashSet::new();
    let all = std::iter::once(span.1).chain(lines).chain(flushes.flat_map(|end| [end + 1, end]));
    let inside = all.filter(|point| (span.0..=span.1).contains(point));
    let all: Vec<CutPoint> = inside.filter(|point| known.insert(*point)).collect();
    let step = all.len().div_ceil(MAX_FIXED).max(1);
    (all.iter().step_by(step).copied().collect(), all.len() as u64)
}

impl StateSampler {
    /// States of power cuts between the points `span`.
    pub fn new(trace: &Trace, seed: u64, span: (CutPoint, CutPoint)) -> Self {
        let inside = |point: &CutPoint| (span.0..=span.1).contains(point);
        let (mut told, mut finished) = (Vec::new(), Vec::new());
        for drive in &trace.drives {
            let ends = |request: &crate::TracedRequest| request.end.map(|(_, event, _)| event + 1);
            let orders = drive.guest.requests.iter().filter(|request| {
                request.command.operation == Operation::Flush || request.command.fua
            });
            told.extend(orders.filter_map(ends).filter(inside));
            finished.extend(drive.cached().requests.iter().filter_map(ends).filter(inside));
        }
        told.sort_unstable();
        finished.sort_unstable();
        let times = (trace.time(span.0), trace.time(span.1));
        let (fixed, deciding) = fixed(trace, span);
        Self { seed, fixed, deciding, span, times, told, finished }
    }

    /// Number of states that are the same whatever the seed, from number 0 on.
    pub fn fixed(&self) -> u64 {
        self.fixed.len() as u64
    }

    /// Number of instants that decide: more than [`StateSampler::fixed`] if it exceeds
    /// [`MAX_FIXED`].
    pub fn deciding(&self) -> u64 {
        self.deciding
    }

    /// The state `number`.
    pub fn cut(&self, trace: &Trace, number: u64) -> Cut {
        match self.fixed.get(usize::try_from(number).unwrap_or(usize::MAX)) {
            Some(&point) => Cut { number, point, sampling: Sampling::Least },
            None => Cut { number, ..self.drawn(trace, number - self.fixed()) },
        }
    }

    /// A state that the seed and this number draw.
    pub fn drawn(&self, trace: &Trace, number: u64) -> Cut {
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
