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
/// at the end, after each line of output, and just before and after each flush; and just before a
/// flush of several changes, all of them but one write: in turn the newest and the oldest.
#[derive(Debug)]
pub struct StateSampler {
    seed: u64,
    // The first states.
    fixed: Vec<Fixed>,
    // Number of all such states.
    deciding: u64,
    span: (CutPoint, CutPoint),
    times: (u64, u64),
    // Just after an acknowledgement of durability to the guest.
    promised: Vec<CutPoint>,
    // Just after the drive finished something.
    finished: Vec<CutPoint>,
}

/// A state that does not depend on the seed.
#[derive(Debug, Clone, Copy)]
struct Fixed {
    point: CutPoint,
    sampling: Sampling,
    place: Place,
}

/// Kinds of states, those that show the most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// At the end, and after a line of output.
    Line,
    /// Just before a flush is complete.
    BeforeFlush,
    /// Just after a flush.
    AfterFlush,
    /// Drawn by the seed.
    Drawn,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Line, Self::BeforeFlush, Self::AfterFlush, Self::Drawn];

    /// Returns the kind's name, of several states.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "at lines of output and at the end",
            Self::BeforeFlush => "before flushes",
            Self::AfterFlush => "after flushes",
            Self::Drawn => "drawn by the seed",
        }
    }
}

/// States of the first round; each round has this many times as many as the one before.
const FIRST_ROUND: usize = 32;
const GROWTH: usize = 4;

/// The golden ratio, as a part of 2^64: its multiples fill a range evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maximum number of states that are checked whatever the seed; if more instants decide, these are
/// spread over them evenly.
pub const MAX_FIXED: usize = 10_000;

/// The states that decide, the end first, then lines, then flushes; and their number before the
/// limit.
fn fixed(trace: &Trace, span: (CutPoint, CutPoint)) -> (Vec<Fixed>, u64) {
    let least = |place| move |point| Fixed { point, sampling: Sampling::Least, place };
    let lines = std::iter::once(span.1).chain(trace.lines.iter().map(|(point, ..)| *point));
    let mut all: Vec<Fixed> = lines.map(least(Place::Line)).collect();
    let mut alone = Vec::new();
    for drive in &trace.drives {
        // Changes since the last flush.
        let mut changes = 0;
        for request in &drive.guest.requests {
            if request.command.operation != Operation::Flush {
                changes += 1;
                continue;
            }
            let several = std::mem::take(&mut changes) > 1;
            let Some((_, event, _)) = request.end else { continue };
            all.extend([least(Place::AfterFlush)(event + 1), least(Place::BeforeFlush)(event)]);
            if several {
                let sampling = match alone.len() % 2 {
                    0 => Sampling::Newest,
                    _ => Sampling::Oldest,
                };
                alone.push(Fixed { point: event, sampling, place: Place::BeforeFlush });
            }
        }
    }
    all.extend(alone);
    let mut known = HashSet::new();
    all.retain(|state| {
        let is_new = known.insert((state.point, state.sampling != Sampling::Least));
        (span.0..=span.1).contains(&state.point) && is_new
    });
    let step = all.len().div_ceil(MAX_FIXED).max(1);
    (all.iter().step_by(step).copied().collect(), all.len() as u64)
}

impl StateSampler {
    /// States of power cuts between the points `span`.
    pub fn new(trace: &Trace, seed: u64, span: (CutPoint, CutPoint)) -> Self {
        let inside = |point: &CutPoint| (span.0..=span.1).contains(point);
        let (mut promised, mut finished) = (Vec::new(), Vec::new());
        for drive in &trace.drives {
            let ends = |request: &crate::TracedRequest| request.end.map(|(_, event, _)| event + 1);
            let orders = drive.guest.requests.iter().filter(|request| {
                request.command.operation == Operation::Flush || request.command.fua
            });
            promised.extend(orders.filter_map(ends).filter(inside));
            finished.extend(drive.cached().requests.iter().filter_map(ends).filter(inside));
        }
        promised.sort_unstable();
        finished.sort_unstable();
        let times = (trace.time(span.0), trace.time(span.1));
        let (fixed, deciding) = fixed(trace, span);
        Self { seed, fixed, deciding, span, times, promised, finished }
    }

    /// Number of states that are the same whatever the seed, from number 0 on.
    pub fn fixed(&self) -> u64 {
        self.fixed.len() as u64
    }

    /// Number of states that decide: more than [`StateSampler::fixed`] if it exceeds
    /// [`MAX_FIXED`].
    pub fn deciding(&self) -> u64 {
        self.deciding
    }

    /// The kind of the state `number`.
    pub fn place(&self, number: u64) -> Place {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        self.fixed.get(index).map_or(Place::Drawn, |state| state.place)
    }

    /// The states `numbers` in rounds, so that a test which ends early has seen the whole run: each
    /// round is spread over it, the first ones have the states that show the most. The states of a
    /// round are in the order of their points.
    pub fn rounds(&self, trace: &Trace, numbers: impl Iterator<Item = u64>) -> Vec<Vec<Cut>> {
        let is_first = |number: &u64| self.place(*number) <= Place::BeforeFlush;
        let (mut first, mut rest): (Vec<u64>, Vec<u64>) = numbers.partition(is_first);
        // The end (state 0) comes first; multiples of the golden ratio are spread evenly.
        first.sort_unstable_by_key(|number| number.wrapping_mul(GOLDEN));
        rest.sort_unstable_by_key(|number| number.wrapping_mul(GOLDEN));
        let mut rounds = Vec::new();
        for mut states in [first.as_slice(), rest.as_slice()] {
            let mut size = FIRST_ROUND;
            while !states.is_empty() {
                let (now, later) = states.split_at(size.min(states.len()));
                let cuts = now.iter().map(|number| self.cut(trace, *number));
                let mut cuts: Vec<Cut> = cuts.collect();
                cuts.sort_by_key(|cut| (cut.point, cut.number));
                rounds.push(cuts);
                (states, size) = (later, size * GROWTH);
            }
        }
        rounds
    }

    /// The state `number`.
    pub fn cut(&self, trace: &Trace, number: u64) -> Cut {
        match self.fixed.get(usize::try_from(number).unwrap_or(usize::MAX)) {
            Some(&Fixed { point, sampling, .. }) => Cut { number, point, sampling },
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
            0 => pick(&self.promised).unwrap_or(anywhere),
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
