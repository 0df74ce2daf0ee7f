//! One round: processors of which each can go on without the others are in guest
//! mode at the same time, on several threads of the host.

use stasis_run_events::Ending;

use super::slice::Begun;
use super::vm::After;
use super::Run;
use crate::crew::Stint;
use crate::error::Error;
use crate::exit::Exit;
use crate::vcpu::Stay;

impl Run<'_> {
    /// Runs the slices that the turn has put together. How the run ended, if it did.
    pub(super) fn round(&mut self) -> Result<Option<Ending>, Error> {
        let mut begun = std::mem::take(&mut self.begun);
        let mut stints = std::mem::take(&mut self.stints);
        for slice in self.slices.drain(..) {
            let machine = &mut self.machines[self.processors[slice.place].0];
            let Some(entry) = machine.enter(&mut self.timeline, slice)? else { continue };
            let vcpu = machine.vcpus[slice.index].take();
            stints.push(Stint {
                place: slice.place,
                vcpu: Some(vcpu.ok_or(Error::Internal("a processor is in guest mode twice"))?),
                clock: self.timeline.clock.clone(),
                until: slice.until,
                injecting: entry.injecting,
                stay: None,
            });
            begun.push(entry);
        }
        if let Some(crew) = &mut self.crew {
            crew.run(&mut stints);
        }
        let ending = self.end_round(&mut stints, &mut begun);
        (self.begun, self.stints) = (begun, stints);
        ending
    }

    fn end_round(
        &mut self,
        stints: &mut Vec<Stint>,
        begun: &mut Vec<Begun>,
    ) -> Result<Option<Ending>, Error> {
        let ends = self.ends(stints);
        let mut ending = None;
        // All are back before any exit is acted upon: it may concern another.
        for stint in stints.iter_mut() {
            let (number, index) = self.processors[stint.place];
            if let Some(vcpu) = stint.vcpu.take() {
                self.machines[number].vcpus[index].put(vcpu);
            }
        }
        for Stint { place, clock, stay, .. } in stints.drain(..) {
            let (number, _) = self.processors[place];
            let stay = stay.ok_or(Error::Internal("a processor's stay was left out"))??;
            let Some(at) = begun.iter().position(|entry| entry.slice.place == place) else {
                continue;
            };
            let mut entry = begun.swap_remove(at);
            entry.slice.others = ends.other_than(place);
            self.timeline.clock = clock;
            let after = self.machines[number].left(&mut self.timeline, entry, stay)?;
            if ending.is_none() && !matches!(after, After::Continue) {
                ending = self.follow(number, after)?;
            }
        }
        Ok(ending)
    }

    /// Where the busy processors are that are furthest behind, after the round.
    fn ends(&self, stints: &[Stint]) -> Ends {
        let mut ends = Ends::default();
        for (place, time) in self.busy() {
            match stints.iter().find(|stint| stint.place == place) {
                Some(Stint { stay: Some(Ok(Stay { exit: Exit::Halt, .. })), .. }) => {}
                Some(stint) => ends.add(place, stint.clock.now()),
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

    /// Where the one furthest behind is, but for the processor at `place`.
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
