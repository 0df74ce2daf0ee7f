//! A slice of a processor whose boot is replayed ([`super::kept_boot`], which owns the boot): the guest
//! is not entered.

use super::common::Common;
use super::kept_boot::Stop;
use super::slice::Slice;
use super::vm::{After, Machine};
use crate::error::Error;
use crate::vcpu::{ProcessorState, MAX_SLICE};

impl Machine {
    /// A slice of the processor in a boot that is replayed: it does not enter the guest.
    pub(super) fn replayed_slice(
        &mut self,
        common: &mut Common,
        slice: Slice,
    ) -> Result<After, Error> {
        let Slice { index, until, place, others } = slice;
        let (stop, kind) =
            self.kept_boot.next_stop().ok_or(Error::Internal("no boot is replayed"))?;
        let stop = self.origin + stop;
        let processor = &mut self.processors[index];
        (processor.yields, processor.late) = (false, false);
        let entered = processor.time;
        let end = until.min(stop).min(entered.saturating_add(MAX_SLICE)).max(entered);
        processor.time = end;
        common.clock.set(end);
        let hindmost = if common.pace.is_free() { None } else { others };
        let ahead = end.saturating_sub(hindmost.unwrap_or(end));
        common.statistics.slice(place, (entered, end), ahead);
        if let Some(watch) = &mut common.watch {
            watch.ran(place, (entered, end));
        }
        if end < stop {
            return Ok(After::Continue);
        }
        match kind {
            Stop::Halt => {
                processor.state = ProcessorState::Halted;
                self.kept_boot.pass_halt();
                Ok(After::Continue)
            }
            Stop::Greets => self.greet_again(common, slice),
        }
    }

    /// Lets the agent greet again.
    fn greet_again(&mut self, common: &mut Common, slice: Slice) -> Result<After, Error> {
        let Slice { index, others, .. } = slice;
        let exit = self.bring_greeting_back(common, index)?;
        let now = common.clock.now();
        if others.is_none_or(|others| others >= now) {
            return self.act(common, index, exit);
        }
        self.processors[index].waiting = Some(exit);
        Ok(After::Continue)
    }
}
