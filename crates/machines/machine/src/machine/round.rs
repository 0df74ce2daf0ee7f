//! One round: processors of which each can run without the others are in guest mode at the same
//! time, on several threads of the host. Steps of the run: slices, threads and processors are others'.

use stasis_run_events::Ending;

use super::rounds::Round;
use super::run::Run;
use super::vm::After;
use crate::error::Error;

impl Run<'_> {
    /// Runs the slices that the turn has put together. Returns the run's ending, if it has ended.
    pub(super) fn round(&mut self) -> Result<Option<Ending>, Error> {
        let mut round = self.rounds.begin();
        for slice in self.slices.drain(..) {
            let machine = &mut self.machines[self.processors[slice.place].0];
            let Some(entry) = machine.enter(&mut self.common, slice)? else { continue };
            let vcpu = machine.vcpus[slice.index].take();
            let vcpu = vcpu.ok_or(Error::Internal("a processor is in guest mode twice"))?;
            round.add(entry, vcpu, self.common.clock.clone());
        }
        self.rounds.run(&mut round);
        let ending = self.end_round(&mut round);
        self.rounds.end(round);
        ending
    }

    fn end_round(&mut self, round: &mut Round) -> Result<Option<Ending>, Error> {
        let ends = round.ends(self.busy());
        // All are back before any exit is acted upon: it may concern another.
        for (place, vcpu) in round.take_processors() {
            let (number, index) = self.processors[place];
            self.machines[number].vcpus[index].put(vcpu);
        }
        let mut ending = None;
        for ended in round.take_ended(ends) {
            let (entry, clock, end) = ended?;
            let (number, _) = self.processors[entry.slice.place];
            self.common.clock = clock;
            let after = self.machines[number].left(&mut self.common, entry, end)?;
            if ending.is_none() && !matches!(after, After::Continue) {
                ending = self.follow(number, after)?;
            }
        }
        Ok(ending)
    }
}
