//! Programs on the processors of the device: they begin, and end.

use stasis_block::clock::Nanos;

use crate::command::CommandId;
use crate::computing::work::{Call, Done, NS_PER_S};
use crate::io::Io;

use super::device::Run;

impl Io {
    /// A program is to run: at once, or when a processor is free.
    pub fn execute_program(&mut self, command: CommandId, nsid: u32, call: Call) {
        self.commands.slots.work.wait(command, nsid, call);
        self.begin_programs(self.now);
    }

    /// Programs that wait begin on the processors that are free at `now`.
    fn begin_programs(&mut self, now: Nanos) {
        let Some(device) = &mut self.computing else { return };
        let work = &mut self.commands.slots.work;
        let config = device.config;
        while let Some((command, nsid, call)) = work.next_call(config.processors) {
            let Run { result, instructions, bytes } = device.run(&call);
            let takes = (u128::from(instructions) * NS_PER_S)
                .div_ceil(config.instructions_per_second.into());
            let computed = now.saturating_add(u64::try_from(takes).unwrap_or(Nanos::MAX));
            let end = match bytes {
                0 => computed,
                _ => computed.max(work.transfer(&config, now, bytes)),
            };
            work.run_until(end, Done { command, nsid, result }, (call.program, call.set));
            self.commands.buffers.give(call.data);
        }
    }

    /// Ends the work that is due at `now`, and begins that which has waited for it.
    pub fn go_on_computing(&mut self, now: Nanos) {
        while let Some(end) = self.commands.slots.work.end_next(now) {
            self.begin_programs(end);
        }
    }
}
