//! Rounds of processors that are in guest mode at the same time. Owns the host's threads for them, and
//! the lists of slices, which are kept between rounds so that these do not allocate.
//!
//! Invariants: a processor is in a round once at most; as many slices have begun as are in the round,
//! and between rounds there are none; a round takes each slice's end before it acts on any exit.

use super::slice::Begun;
use crate::error::Error;
use crate::exit::Exit;
use crate::freeze::Clock;
use crate::vcpu::{SliceEnd, Vcpu};
use crate::vcpu_pool::{ThreadSlice, VcpuPool};

/// The threads, if there are several.
pub(super) struct Rounds {
    pool: Option<VcpuPool>,
    spare: Round,
}

/// The slices of a round.
#[derive(Default)]
pub(super) struct Round {
    begun: Vec<Begun>,
    slices: Vec<ThreadSlice>,
}

/// A slice that has ended: what it was, when it ended, and how.
pub(super) type Ended = (Begun, Clock, SliceEnd);

impl Rounds {
    /// Creates `threads` threads for `processors` processors. With one thread there is no pool:
    /// processors run in turn.
    ///
    /// # Errors
    /// A thread cannot be made.
    pub(super) fn new(threads: usize, processors: usize) -> Result<Self, Error> {
        let pool = match threads {
            1 => None,
            threads => Some(VcpuPool::new(threads, processors).map_err(Error::Threads)?),
        };
        Ok(Self { pool, spare: Round::default() })
    }

    /// Returns whether processors run in rounds, and not in turn.
    pub(super) fn are_used(&self) -> bool {
        self.pool.is_some()
    }

    /// A round without slices.
    pub(super) fn begin(&mut self) -> Round {
        debug_assert!(self.spare.begun.is_empty() && self.spare.slices.is_empty());
        std::mem::take(&mut self.spare)
    }

    /// Runs a round's slices.
    pub(super) fn run(&mut self, round: &mut Round) {
        if let Some(pool) = &mut self.pool {
            pool.run(&mut round.slices);
        }
    }

    /// A round is over.
    pub(super) fn end(&mut self, round: Round) {
        self.spare = round;
    }
}

impl Round {
    /// Adds the slice of this processor, which begins at the clock's time.
    pub(super) fn add(&mut self, begun: Begun, vcpu: Box<dyn Vcpu>, clock: Clock) {
        let is_its = |slice: &ThreadSlice| slice.place == begun.slice.place;
        debug_assert!(!self.slices.iter().any(is_its), "a processor is in a round once");
        self.slices.push(ThreadSlice {
            place: begun.slice.place,
            vcpu: Some(vcpu),
            clock,
            until: begun.slice.until,
            injecting: begun.injecting,
            result: None,
        });
        self.begun.push(begun);
    }

    /// The processors that have run, with their places.
    pub(super) fn take_processors(
        &mut self,
    ) -> impl Iterator<Item = (usize, Box<dyn Vcpu>)> + use<'_> {
        let slices = self.slices.iter_mut();
        slices.filter_map(|slice| Some((slice.place, slice.vcpu.take()?)))
    }

    /// The slices that have ended, in the order in which their threads have them. `ends`: who is
    /// furthest behind by now.
    pub(super) fn take_ended(
        &mut self,
        ends: Ends,
    ) -> impl Iterator<Item = Result<Ended, Error>> + use<'_> {
        let Self { begun, slices } = self;
        debug_assert_eq!(begun.len(), slices.len());
        slices.drain(..).filter_map(move |ThreadSlice { place, clock, result, .. }| {
            let end = match result {
                Some(Ok(end)) => end,
                Some(Err(error)) => return Some(Err(error)),
                None => return Some(Err(Error::Internal("a processor's slice was left out"))),
            };
            let at = begun.iter().position(|entry| entry.slice.place == place)?;
            let mut entry = begun.swap_remove(at);
            entry.slice.others = ends.other_than(place);
            Some(Ok((entry, clock, end)))
        })
    }

    /// Returns the places of the busy processors that are furthest behind, after the round: `busy` has
    /// each one's place and time before it.
    pub(super) fn ends(&self, busy: impl Iterator<Item = (usize, u64)>) -> Ends {
        let mut ends = Ends::default();
        for (place, time) in busy {
            match self.slices.iter().find(|slice| slice.place == place) {
                Some(ThreadSlice {
                    result: Some(Ok(SliceEnd { exit: Exit::Halt, .. })), ..
                }) => {}
                Some(slice) => ends.add(place, slice.clock.now()),
                None => ends.add(place, time),
            }
        }
        ends
    }
}

/// The two that are furthest behind: place and time of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    first: Option<(usize, u64)>,
    second: Option<(usize, u64)>,
}

impl Ends {
    fn add(&mut self, place: usize, time: u64) {
        let new = Some((place, time));
        if self.first.is_none_or(|(_, first)| time < first) {
            (self.first, self.second) = (new, self.first);
        } else if self.second.is_none_or(|(_, second)| time < second) {
            self.second = new;
        }
    }

    /// Returns the place of the one furthest behind, but for the processor at `place`.
    fn other_than(&self, place: usize) -> Option<u64> {
        let other = |end: &(usize, u64)| end.0 != place;
        self.first.filter(other).or(self.second.filter(other)).map(|(_, time)| time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_others_least_time_is_known(times in prop::collection::vec(0u64..20, 0..9)) {
            let mut ends = Ends::default();
            for (place, &time) in times.iter().enumerate() { ends.add(place, time); }
            for place in 0..times.len() + 1 {
                let others = times.iter().enumerate().filter(|(other, _)| *other != place);
                prop_assert_eq!(ends.other_than(place), others.map(|(_, &time)| time).min());
            }
        }
    }
}
