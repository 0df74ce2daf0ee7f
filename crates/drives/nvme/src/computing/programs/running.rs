//! Programs on the processors of the device, and its other work: they begin, go on slice by slice, and
//! end.

use stasis_block::clock::Nanos;

use crate::command::CommandId;
use crate::computing::work::{Active, Call, Done, Holds, NS_PER_S};
use crate::io::Io;
use crate::slices;

use super::device::{Finished, Run, Task};

impl Io {
    /// A program is to run: at once, or when a processor is free.
    pub fn execute_program(&mut self, command: CommandId, nsid: u32, call: Call) {
        self.commands.slots.work.wait(command, nsid, call);
        self.begin_programs(self.now);
        self.work_undivided();
    }

    /// Programs that wait begin on the processors that are free at `now`.
    fn begin_programs(&mut self, now: Nanos) {
        let Some(device) = &mut self.computing else { return };
        let work = &mut self.commands.slots.work;
        while let Some((command, nsid, call)) = work.next_call(device.config.processors) {
            let holds = Holds::Processor(call.program, call.set);
            let number = work.begin(Some(command), nsid, now, holds);
            device.tasks.insert(number, device.begin(call));
        }
    }

    /// The device begins work other than a program's run; `None`: for the drive itself.
    pub(super) fn begin_task(
        &mut self,
        command: Option<CommandId>,
        nsid: u32,
        holds: Holds,
        task: Task,
    ) {
        let Some(device) = &mut self.computing else { return };
        let number = self.commands.slots.work.begin(command, nsid, self.now, holds);
        device.tasks.insert(number, task);
        self.work_undivided();
    }

    /// Clears the memory of programs.
    pub fn clear_memory(&mut self) {
        let Some(task) = self.computing.as_ref().map(|device| device.clear()) else { return };
        self.begin_task(None, 0, Holds::Nothing, task);
    }

    /// Carries all work out, unless that is divided.
    fn work_undivided(&mut self) {
        if !self.slices.divides() {
            while self.work(u64::MAX, u64::MAX) {}
        }
    }

    /// Carries out a slice of the work whose turn it is; returns whether there was any.
    fn work(&mut self, instructions: u64, bytes: u64) -> bool {
        let Some(device) = &mut self.computing else { return false };
        let work = &mut self.commands.slots.work;
        let Some(active) = work.next_active() else {
            device.tasks.clear();
            return false;
        };
        let Some(mut task) = device.tasks.remove(&active.number) else { return true };
        match device.go_on(&mut task, instructions, bytes) {
            Some(finished) => self.finish_work(active, finished),
            None => {
                device.tasks.insert(active.number, task);
                work.put_back(active);
            }
        }
        true
    }

    /// Work has come to its end: so does its command, when the model says.
    fn finish_work(&mut self, active: Active, finished: Finished) {
        let Some(device) = &mut self.computing else { return };
        let (config, work) = (device.config, &mut self.commands.slots.work);
        let Active { command, nsid, began, holds, .. } = active;
        let Some(command) = command else { return };
        match (finished, holds) {
            (Finished::Run(run, data), Holds::Processor(program, set)) => {
                let Run { result, instructions, bytes } = run;
                let takes = (u128::from(instructions) * NS_PER_S)
                    .div_ceil(config.instructions_per_second.into());
                let computed = began.saturating_add(u64::try_from(takes).unwrap_or(Nanos::MAX));
                let end = match bytes {
                    0 => computed,
                    _ => computed.max(work.transfer(&config, began, bytes)),
                };
                work.run_until(end, Done { command, nsid, result }, (program, set));
                self.commands.buffers.give(data);
            }
            (Finished::Check(result), _) => {
                let result = result.map(|()| 0);
                work.end_at(began, Done { command, nsid, result });
            }
            (Finished::Clear, _) | (Finished::Run(..), _) => {
                work.end_at(began, Done { command, nsid, result: Ok(0) });
            }
        }
    }

    /// Carries out a slice of the device's work, ends what is due at `now`, and begins that which has
    /// waited for it.
    pub fn go_on_computing(&mut self, now: Nanos) {
        if self.slices.divides() {
            let work = &self.commands.slots.work;
            if let Some(device) = &mut self.computing {
                // The work of abandoned commands.
                device.tasks.retain(|&number, _| work.is_active(number));
            }
            self.work(slices::INSTRUCTIONS, slices::CLEARED as u64);
        }
        while let Some(end) = self.commands.slots.work.end_next(now) {
            self.begin_programs(end);
            self.work_undivided();
        }
        // A processor is free whose program was abandoned.
        if self.slices.divides() {
            self.begin_programs(now);
        }
    }
}
