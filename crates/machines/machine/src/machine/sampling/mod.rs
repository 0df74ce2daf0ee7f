//! Samples of the processors at exact ticks of virtual time, for a profile.
//!
//! A sample lies between two instructions of a processor's slice, which goes on to the end that it
//! had: the run with samples is the run without.

mod guest;
mod linear;
mod maps;
mod modules;
mod names;
mod orc;
pub(super) mod sampler;
mod stacks;
pub(super) mod view;

use stasis_bare::svm::Debug;
use stasis_run_events::RunEvent;

use super::guest_io::GuestIos;
use super::guest_waits::GuestWaits;
use super::run::Run;
use super::slice::Slice;
use super::vm::{After, Machine};
use crate::error::Error;
use crate::exit::{DebugEvent, Exit};
use crate::vcpu::{SliceEnd, MAX_SLICE};
pub(super) use linear::{Linear, Words};
pub(super) use maps::{is_mapped, mapped_files, MappedFile};
pub(super) use modules::{read as modules, Module};
use names::Names;
use orc::Tables;
use sampler::Sampler;
use stacks::Stacks;

/// Samples that go to the event stream together.
const BATCH: usize = 512;
const NO_SAMPLES: &str = "a profile needs the engine exact: use --engine exact";

impl Run<'_> {
    /// The commands have begun, or go on from a snapshot: they may be sampled from here on.
    pub(super) fn sampling_begins(&mut self) -> Result<(), Error> {
        let Some(job) = self.sources.samples() else { return Ok(()) };
        let mut vcpus = self.machines.iter_mut().flat_map(|machine| &mut machine.vcpus);
        if self.rounds.are_used() || vcpus.any(|vcpu| vcpu.debug().is_none()) {
            return Err(Error::Limit(NO_SAMPLES.into()));
        }
        let tables = match (&job.orc, self.machines.first_mut()) {
            (Some(orc), Some(machine)) => Tables::read(orc, |at, into| copy(machine, at, into)),
            _ => None,
        };
        let now = self.common.clock.now_ns();
        let programs = self.sources.programs();
        let names = Names::new(job.threads, job.modules, programs);
        let watched = job.places.as_ref().map(guest::watched).unwrap_or_default();
        let stacks = Stacks::new(tables.unwrap_or_default(), names);
        let waits = job.places.as_ref().and_then(|places| places.tasks).map(GuestWaits::new);
        self.common.view.open(stacks, job.places.map(GuestIos::new), waits);
        self.sampler = Some(Box::new(Sampler {
            interval: job.interval.map(|interval| interval.max(1)),
            watched,
            scale: self.common.clock.scale(),
            begun: now,
            next: vec![0; self.processors.len()],
            samples: Vec::new(),
        }));
        Ok(())
    }

    /// The commands have ended at `now` (ticks).
    pub(super) fn sampling_ends(&mut self, now: u64) -> Result<(), Error> {
        let Some(mut sampler) = self.sampler.take() else { return Ok(()) };
        for place in 0..sampler.next.len() {
            sampler.due(place, now);
        }
        for &(number, index) in &self.processors {
            if let Some(vcpu) = self.machines[number].vcpus[index].debug() {
                vcpu.set(&Debug::default());
            }
        }
        let stream = &mut self.common.stream;
        self.common.view.close(stream)?;
        stream.emit(RunEvent::Samples(sampler.samples))
    }

    /// Runs a processor until the slice's end or an exit of the processor, as a run without samples
    /// does, and takes its samples.
    pub(super) fn sampled_slice(&mut self, place: usize, slice: Slice) -> Result<After, Error> {
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        let Some(begun) = machine.enter(&mut self.common, slice)? else {
            return Ok(After::Continue);
        };
        let Some(sampler) = &mut self.sampler else { return Ok(After::Continue) };
        let until = slice.until.min(self.common.clock.now().saturating_add(MAX_SLICE));
        let mut injecting = begun.injecting;
        if let Some(vcpu) = machine.vcpus[index].debug() {
            vcpu.set(&sampler.watched);
        }
        let end = loop {
            let due = sampler.due(place, self.common.clock.now());
            let vcpu = &mut machine.vcpus[index];
            let next = due.min(until);
            let end = vcpu.run_slice(&mut self.common.clock, next, injecting)?;
            injecting = false;
            let now = self.common.clock.now();
            match end.exit {
                Exit::Interrupted => {}
                Exit::Debug(DebugEvent::Breakpoint) => {
                    machine.guest_ios_at(&mut self.common, index);
                    if let Some(vcpu) = machine.vcpus[index].debug() {
                        vcpu.pass_breakpoint();
                    }
                }
                _ => break end,
            }
            if now >= until {
                let overshoot = (now >= slice.until).then(|| now - slice.until);
                break SliceEnd { exit: Exit::Interrupted, overshoot };
            }
            if let Some(stacks) = self.common.view.stacks().filter(|_| now >= due) {
                sampler.take(place, index, machine, stacks);
            }
        };
        let stream = &mut self.common.stream;
        self.common.view.flush_ios(stream)?;
        if sampler.samples.len() >= BATCH {
            let samples = std::mem::take(&mut sampler.samples);
            self.common.view.emit_names(stream)?;
            stream.emit(RunEvent::Samples(samples))?;
        }
        self.machines[number].left(&mut self.common, begun, end)
    }
}

/// Copies from the memory of a machine, as its first processor sees it; whether all was there.
fn copy(machine: &mut Machine, start: u64, into: &mut [u8]) -> bool {
    let Machine { vcpus, memory, .. } = machine;
    let vcpu = vcpus.first_mut().and_then(|vcpu| vcpu.debug());
    vcpu.is_some_and(|vcpu| Linear::new(vcpu, memory).read(start, into))
}
