//! One round: processors of which each can run without the others are in guest mode at the same
//! time, on several threads of the host.

use stasis_run_events::Ending;

use super::run::Run;
use super::slice::Begun;
use super::vm::After;
use crate::error::Error;
use crate::exit::Exit;
use crate::vcpu::SliceEnd;
use crate::vcpu_pool::ThreadSlice;

impl Run<'_> {
    /// Runs the slices that the turn has put together. How the run ended, if it did.
    pub(super) fn round(&mut self) -> Result<Option<Ending>, Error> {
        let mut begun = std::mem::take(&mut self.begun);
        let mut slices = std::mem::take(&mut self.thread_slices);
        for slice in self.slices.drain(..) {
            let machine = &mut self.machines[self.processors[slice.place].0];
            let Some(entry) = machine.enter(&mut self.timeline, slice)? else { continue };
            let vcpu = machine.vcpus[slice.index].take();
            slices.push(ThreadSlice {
                place: slice.place,
                vcpu: Some(vcpu.ok_or(Error::Internal("a processor is in guest mode twice"))?),
                clock: self.timeline.clock.clone(),
                until: slice.until,
                injecting: entry.injecting,
                result: None,
            });
            begun.push(entry);
        }
        if let Some(pool) = &mut self.pool {
            pool.run(&mut slices);
        }
        let ending = self.end_round(&mut slices, &mut begun);
        (self.begun, self.thread_slices) = (begun, slices);
        ending
    }

    fn end_round(
        &mut self,
        slices: &mut Vec<ThreadSlice>,
        begun: &mut Vec<Begun>,
    ) -> Result<Option<Ending>, Error> {
        let ends = self.ends(slices);
        let mut ending = None;
        // All are back before any exit is acted upon: it may concern another.
        for slice in slices.iter_mut() {
            let (number, index) = self.processors[slice.place];
            if let Some(vcpu) = slice.vcpu.take() {
                self.machines[number].vcpus[index].put(vcpu);
            }
        }
        for ThreadSlice { place, clock, result, .. } in slices.drain(..) {
            let (number, _) = self.processors[place];
            let end = result.ok_or(Error::Internal("a processor's slice was left out"))??;
            let Some(at) = begun.iter().position(|entry| entry.slice.place == place) else {
                continue;
            };
            let mut entry = begun.swap_remove(at);
            entry.slice.others = ends.other_than(place);
            self.timeline.clock = clock;
            let after = self.machines[number].left(&mut self.timeline, entry, end)?;
            if ending.is_none() && !matches!(after, After::Continue) {
                ending = self.follow(number, after)?;
            }
        }
        Ok(ending)
    }

    /// Returns the place of the busy processors that are furthest behind, after the round.
    fn ends(&self, slices: &[ThreadSlice]) -> Ends {
        let mut ends = Ends::default();
        for (place, time) in self.busy() {
            match slices.iter().find(|slice| slice.place == place) {
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
struct Ends {
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
