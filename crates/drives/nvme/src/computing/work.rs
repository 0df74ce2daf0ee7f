//! End of the commands of both namespaces: a model of the device's processors and of its memory.
//!
//! A processor runs one program at a time, and programs that find none free wait in their order. The
//! memory moves one thing after another, each as a whole: what a command moves, and from its start on
//! what a program has moved. A program ends when it has had its instructions, and its bytes have been
//! moved.

use std::collections::{BTreeMap, VecDeque};

use stasis_block::clock::Nanos;

use crate::command::CommandId;
use crate::controller_id::ControllerId;
use crate::status::StatusCode;

use super::config::Programs;

/// Commands that wait or run; more are not begun.
const MAX_WORK: usize = 256;
/// ns in a second.
pub(super) const NS_PER_S: u128 = 1_000_000_000;

/// An execution of a program.
#[derive(Debug)]
pub struct Call {
    /// Its index.
    pub program: u16,
    /// The set of memory ranges; 0: none.
    pub set: u16,
    pub parameters: [u64; 2],
    pub data: Vec<u8>,
}

/// A command that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    pub command: CommandId,
    pub nsid: u32,
    /// Dwords 0 and 1 of the completion.
    pub result: Result<u64, StatusCode>,
}

/// A command whose work is under way.
#[derive(Debug)]
struct Running {
    // `None`: nobody waits for it any more.
    command: Option<CommandId>,
    nsid: u32,
    result: Result<u64, StatusCode>,
    // The program and the memory range set of an execution.
    program_and_set: Option<(u16, u16)>,
}

/// Things that a piece of the device's work holds until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Nothing but itself.
    Nothing,
    /// The program that is checked.
    Program(u16),
    /// A processor, with a program and its set of memory ranges.
    Processor(u16, u16),
}

/// Work that the device carries out slice by slice, and that is known by a number.
#[derive(Debug)]
pub struct Active {
    pub number: u64,
    /// `None`: no command waits for it.
    pub command: Option<CommandId>,
    pub nsid: u32,
    /// Time at which it began (ns).
    pub began: Nanos,
    pub holds: Holds,
}

/// The work that waits, that is under way, and that has ended.
#[derive(Debug, Default)]
pub struct Work {
    waiting: VecDeque<(CommandId, u32, Call)>,
    // In the order in which its next slices come.
    active: VecDeque<Active>,
    numbers: u64,
    // By the time of its end, and its number.
    running: BTreeMap<(Nanos, u64), Running>,
    begun: u64,
    memory_free: Nanos,
    ended: Vec<Done>,
}

impl Work {
    /// Returns whether one more command can be begun.
    pub fn has_room(&self) -> bool {
        self.waiting.len() + self.active.len() + self.running.len() + self.ended.len() < MAX_WORK
    }

    /// Bytes of data of what waits.
    pub fn bytes(&self) -> usize {
        self.waiting.iter().map(|(.., call)| call.data.len()).sum()
    }

    /// The memory moves `bytes` bytes from `now` on; returns when that has ended.
    pub fn transfer(&mut self, config: &Programs, now: Nanos, bytes: u64) -> Nanos {
        let rate = u128::from(config.memory_rate.bytes_per_second());
        let takes = (u128::from(bytes) * NS_PER_S).div_ceil(rate);
        let begin = self.memory_free.max(now);
        self.memory_free = begin.saturating_add(u64::try_from(takes).unwrap_or(Nanos::MAX));
        self.memory_free
    }

    /// Ends a command at `end`, unless it is aborted before.
    pub fn end_at(&mut self, end: Nanos, done: Done) {
        let Done { command, nsid, result } = done;
        self.put(end, Running { command: Some(command), nsid, result, program_and_set: None });
    }

    /// An execution waits behind the others.
    pub(super) fn wait(&mut self, command: CommandId, nsid: u32, call: Call) {
        self.waiting.push_back((command, nsid, call));
    }

    /// The execution that has waited longest, if fewer than `processors` run: it begins now.
    pub(super) fn next_call(&mut self, processors: u16) -> Option<(CommandId, u32, Call)> {
        let on_processor = |active: &&Active| matches!(active.holds, Holds::Processor(..));
        let busy =
            self.running.values().filter(|running| running.program_and_set.is_some()).count()
                + self.active.iter().filter(on_processor).count();
        if busy >= usize::from(processors) {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Work of the device begins at `began`; returns its number.
    pub(super) fn begin(
        &mut self,
        command: Option<CommandId>,
        nsid: u32,
        began: Nanos,
        holds: Holds,
    ) -> u64 {
        self.numbers += 1;
        let number = self.numbers;
        self.active.push_back(Active { number, command, nsid, began, holds });
        number
    }

    /// The work whose slice comes next. It is put back if there is more of it.
    pub(super) fn next_active(&mut self) -> Option<Active> {
        self.active.pop_front()
    }

    /// Work that has had a slice, and goes on behind the others.
    pub(super) fn put_back(&mut self, active: Active) {
        self.active.push_back(active);
    }

    /// Returns whether the device still has such work.
    pub(super) fn is_active(&self, number: u64) -> bool {
        self.active.iter().any(|active| active.number == number)
    }

    /// Returns whether a program is being checked.
    pub fn is_checking(&self, program: u16) -> bool {
        self.active.iter().any(|active| active.holds == Holds::Program(program))
    }

    /// Returns whether the memory is being cleared for the drive itself.
    pub fn is_clearing(&self) -> bool {
        self.active.iter().any(|active| active.command.is_none())
    }

    /// Ends at `end` an execution that has begun.
    pub(super) fn run_until(&mut self, end: Nanos, done: Done, program_and_set: (u16, u16)) {
        let Done { command, nsid, result } = done;
        self.put(
            end,
            Running {
                command: Some(command),
                nsid,
                result,
                program_and_set: Some(program_and_set),
            },
        );
    }

    /// Ends the command that is due first at `now`; returns the time of its end.
    pub(super) fn end_next(&mut self, now: Nanos) -> Option<Nanos> {
        let entry = self.running.first_entry()?;
        let (end, _) = *entry.key();
        if end > now {
            return None;
        }
        let Running { command, nsid, result, .. } = entry.remove();
        if let Some(command) = command {
            self.ended.push(Done { command, nsid, result });
        }
        Some(end)
    }

    fn put(&mut self, end: Nanos, running: Running) {
        self.begun += 1;
        self.running.insert((end, self.begun), running);
    }

    /// Returns the time at which the next command ends; 0 while the device has slices to carry out.
    pub fn next_time(&self) -> Option<Nanos> {
        if !self.active.is_empty() {
            return Some(0);
        }
        self.running.first_key_value().map(|(&(end, _), _)| end)
    }

    /// Returns whether a program, or a set, is of an execution that waits or is under way.
    pub fn uses(&self, which: impl Fn(u16, u16) -> bool) -> bool {
        let waiting = self.waiting.iter().map(|(.., call)| (call.program, call.set));
        let active = self.active.iter().filter_map(|active| match active.holds {
            Holds::Nothing => None,
            Holds::Program(program) => Some((program, 0)),
            Holds::Processor(program, set) => Some((program, set)),
        });
        let running = self.running.values().filter_map(|running| running.program_and_set);
        waiting.chain(active).chain(running).any(|(program, set)| which(program, set))
    }

    /// The commands that wait for it, and their namespaces.
    pub fn commands(&self) -> impl Iterator<Item = (CommandId, u32)> + '_ {
        let waiting = self.waiting.iter().map(|(command, nsid, _)| (*command, *nsid));
        let active = self.active.iter();
        let active = active.filter_map(|active| Some((active.command?, active.nsid)));
        let running = self.running.values();
        let running = running.filter_map(|running| Some((running.command?, running.nsid)));
        let ended = self.ended.iter().map(|done| (done.command, done.nsid));
        waiting.chain(active).chain(running).chain(ended)
    }

    /// Abandons the commands that `which` selects. What the device carries out slice by slice ends
    /// where it is; what it has carried out takes its time to the end.
    pub fn abandon(&mut self, which: impl Fn(CommandId) -> bool, mut each: impl FnMut(CommandId)) {
        self.waiting.retain(|(command, ..)| {
            let goes = which(*command);
            if goes {
                each(*command);
            }
            !goes
        });
        self.active.retain(|active| {
            let goes = active.command.filter(|command| which(*command));
            goes.into_iter().for_each(&mut each);
            goes.is_none()
        });
        for running in self.running.values_mut() {
            if let Some(command) = running.command.take_if(|command| which(*command)) {
                each(command);
            }
        }
        self.ended.retain(|done| {
            let goes = which(done.command);
            if goes {
                each(done.command);
            }
            !goes
        });
    }

    /// Returns whether a command of a controller has ended, and is to be completed.
    pub fn has_ended(&self, controller: ControllerId) -> bool {
        self.ended.iter().any(|done| done.command.controller == controller)
    }

    /// Returns whether a command of any controller has ended, and is to be completed.
    pub fn has_any_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The commands of a controller that have ended.
    pub fn take_ended(&mut self, controller: ControllerId) -> Vec<Done> {
        let is_own = |done: &mut Done| done.command.controller == controller;
        self.ended.extract_if(.., is_own).collect()
    }
}
