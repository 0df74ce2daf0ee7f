//! A branch of a run: from a moment on a command of its own runs in a guest, beside the run's own.
//!
//! The guest's agent sleeps while its command runs, and does not look whether something is wanted of
//! it: that would cost every run time. So the machine calls it by an interrupt of the guest's kernel
//! ([`Call`]). Up to the moment the run is the run; the call makes it another.

use stasis_block::clock::Nanos;
use stasis_channel::{Branch, Call};
use stasis_run_events::{RunEvent, Stage};

use super::run::Run;
use super::vm::Machine;
use crate::error::Error;
use crate::vcpu::ProcessorState;

/// How long a called agent may take to answer (ns of virtual time): a guest that is busy lets it run
/// within milliseconds.
const PATIENCE: Nanos = 1_000_000_000;

/// A branch that has begun.
#[derive(Debug)]
pub(super) struct Branching {
    branch: Branch,
    /// Until when the agent is to answer (ns).
    until: Nanos,
    /// Where the guest's kernel has its pointer, in guest-physical memory, and the pointer's bytes
    /// before.
    called: Option<(u64, [u8; 8])>,
    /// Whether the agent has asked for the command.
    has_asked: bool,
}

impl Run<'_> {
    /// The moment has come: the run becomes another. `is_end`: the machine's own command has just
    /// ended, and its agent is in a call.
    pub(super) fn branch_off(&mut self, branch: Branch, is_end: bool) -> Result<(), Error> {
        let number = branch.machine;
        let machine = self.machines.get_mut(number).ok_or(Error::Internal("no such machine"))?;
        let runs = machine.started.is_some() && machine.ended.is_none() && !machine.finished;
        if !runs || machine.failures.is_off() {
            let name = match machine.name.as_str() {
                "" => "the guest".to_owned(),
                name => format!("the guest of {name}"),
            };
            let why = "runs no command at this moment: its agent takes none";
            return Err(Error::Limit(format!("{name} {why}")));
        }
        let called = match is_end {
            true => {
                machine.channel.something_is_to_run();
                None
            }
            false => Some(machine.call(branch.call)?),
        };
        // The branch ends with its command: it waits for nobody else, and has no limit.
        for (other, machine) in self.machines.iter_mut().enumerate() {
            machine.waited = other == number;
        }
        self.virtual_limit = None;
        let until = self.timeline.clock.now_ns().saturating_add(PATIENCE);
        self.branching = Some(Box::new(Branching { branch, until, called, has_asked: false }));
        Ok(())
    }

    /// Whether the agent of machine `number` was called and has not asked.
    pub(super) fn is_called(&self, number: usize) -> bool {
        let branching = self.branching.as_ref();
        branching.is_some_and(|one| one.branch.machine == number && !one.has_asked)
    }

    /// The agent of machine `number` asks for what is to run beside its command.
    pub(super) fn give_branch(&mut self, number: usize) -> Result<(), Error> {
        let machine = &mut self.machines[number];
        let branching = self
            .branching
            .as_mut()
            .filter(|branching| branching.branch.machine == number && !branching.has_asked);
        let Some(branching) = branching else {
            machine.channel.no_branch();
            return Ok(());
        };
        branching.has_asked = true;
        if let Some((address, before)) = branching.called {
            // It was memory when the machine called.
            let _ = machine.memory.write(address, &before);
        }
        machine.channel.give_branch(&branching.branch.job);
        self.timeline.emit(RunEvent::Stage(Stage::Branching))
    }

    /// # Errors
    /// If the agent was called and has not answered in time, or nothing `idle` can make it.
    pub(super) fn check_called(&self, idle: bool) -> Result<(), Error> {
        let now = self.timeline.clock.now_ns();
        match &self.branching {
            Some(branching) if !branching.has_asked && (idle || now >= branching.until) => {
                let why = "the guest does not answer at this moment: its kernel takes no \
                           interrupts, or does not let process 1 run; `stasis debug` shows where it is";
                Err(Error::Limit(why.into()))
            }
            _ => Ok(()),
        }
    }
}

impl Machine {
    /// Calls the agent. Returns where in the guest's memory it has written, and what was there.
    fn call(&mut self, call: Call) -> Result<(u64, [u8; 8]), Error> {
        const LENGTH: u64 = size_of::<u64>() as u64;
        const UNKNOWN: &str =
            "the guest's kernel is not the one whose symbols are kept, or has moved: \
                               it cannot be called";
        let unknown = || Error::Limit(UNKNOWN.into());
        let mut vcpus = self.vcpus.iter_mut().filter_map(|vcpu| vcpu.debug());
        let place = vcpus.find_map(|vcpu| vcpu.translate(call.callback));
        let (address, _) = place.filter(|(_, room)| *room >= LENGTH).ok_or_else(unknown)?;
        let mut before = [0; LENGTH as usize];
        self.memory.read(address, &mut before).map_err(|_| unknown())?;
        self.memory.write(address, &call.function.to_le_bytes()).map_err(|_| unknown())?;
        // One that has nothing else to do, or else the first, which is always there.
        let idle = |processor: &crate::vcpu::Processor| processor.state == ProcessorState::Halted;
        let index = self.processors.iter().position(idle).unwrap_or(0);
        self.processors[index].apic.raise(Call::VECTOR);
        Ok((address, before))
    }
}
