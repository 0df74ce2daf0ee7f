//! Samples of the processors at exact ticks of virtual time, for a profile.
//!
//! A sample lies between two instructions of a processor's slice, which goes on to the end that it
//! had: the run with samples is the run without.

mod orc;

use stasis_run_events::{Ending, ProfileJob, RunEvent, Sample};

use super::run::Run;
use super::slice::Slice;
use super::vm::Machine;
use crate::error::Error;
use crate::exit::Exit;
use crate::freeze::Scale;
use crate::vcpu::{SliceEnd, MAX_SLICE};
use orc::{Context, Tables, KERNEL};

/// Samples that go to the event stream together.
const BATCH: usize = 512;
const NO_SAMPLES: &str = "a profile needs the engine exact: use --engine exact";
const PAGE: u64 = 4096;

/// The samples of a run.
pub(super) struct Sampler {
    job: ProfileJob,
    tables: Tables,
    scale: Scale,
    /// When the commands began (ns).
    begun: u64,
    /// The number of each processor's next sample.
    next: Vec<u64>,
    samples: Vec<Sample>,
}

impl Sampler {
    /// The tick of a processor's next sample from `now` on (ticks); those that have passed were of
    /// an idle processor.
    fn due(&mut self, place: usize, now: u64) -> u64 {
        let first = self.next[place];
        while self.tick(self.next[place]) < now {
            // Most of a long idle time at once.
            let behind = self.scale.to_ns(now).saturating_sub(self.at(self.next[place]));
            self.next[place] += (behind / self.job.interval).saturating_sub(1).max(1);
        }
        let count = self.next[place] - first;
        if count > 0 {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.push(Sample { count, ..self.sample(place, first, Vec::new()) });
        }
        self.tick(self.next[place])
    }

    fn at(&self, number: u64) -> u64 {
        self.begun.saturating_add(number.saturating_mul(self.job.interval))
    }

    fn tick(&self, number: u64) -> u64 {
        self.scale.to_ticks(self.at(number))
    }

    fn sample(&self, place: usize, number: u64, frames: Vec<u64>) -> Sample {
        let processor = u16::try_from(place).unwrap_or(u16::MAX);
        Sample { at: self.at(number), processor, count: 1, frames }
    }

    fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// Takes a sample of a processor.
    fn take(&mut self, place: usize, index: usize, machine: &mut Machine) {
        let Machine { vcpus, memory, .. } = machine;
        let Some(vcpu) = vcpus[index].debug() else { return };
        let registers = vcpu.registers();
        let frames = match registers.rip & KERNEL {
            0 => vec![registers.rip],
            _ => {
                let [rsp, rbp] = [4, 5].map(|number| registers.general[number]);
                let context = Context { rip: registers.rip, rsp, rbp };
                let mut page = None;
                self.tables.unwind(context, |at| {
                    let (first, offset) = (at & !(PAGE - 1), at & (PAGE - 1));
                    if page.is_none_or(|(linear, _)| linear != first) {
                        page = vcpu.translate(first).map(|(address, _)| (first, address));
                    }
                    let mut bytes = [0; 8];
                    let (_, address) = page.filter(|_| offset <= PAGE - 8)?;
                    memory.read(address + offset, &mut bytes).ok()?;
                    Some(u64::from_le_bytes(bytes))
                })
            }
        };
        let sample = self.sample(place, self.next[place], frames);
        self.next[place] += 1;
        self.push(sample);
    }
}

impl Run<'_> {
    /// The commands have begun, or go on from a snapshot: they may be sampled from here on.
    pub(super) fn sampling_begins(&mut self) -> Result<(), Error> {
        let Some(job) = self.profile_source.take().and_then(|source| source()) else {
            return Ok(());
        };
        let mut vcpus = self.machines.iter_mut().flat_map(|machine| &mut machine.vcpus);
        if self.pool.is_some() || vcpus.any(|vcpu| vcpu.debug().is_none()) {
            return Err(Error::Limit(NO_SAMPLES.into()));
        }
        let tables = match (&job.orc, self.machines.first_mut()) {
            (Some(orc), Some(machine)) => Tables::read(orc, |at, into| copy(machine, at, into)),
            _ => None,
        };
        let now = self.timeline.clock.now_ns();
        self.sampler = Some(Box::new(Sampler {
            job: ProfileJob { interval: job.interval.max(1), ..job },
            tables: tables.unwrap_or_default(),
            scale: self.timeline.clock.scale(),
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
        self.timeline.emit(RunEvent::Samples(sampler.samples))
    }

    /// Runs a processor until the slice's end or an exit of the processor, as a run without samples
    /// does, and takes its samples; how the run ended, if it did.
    pub(super) fn sampled_slice(
        &mut self,
        place: usize,
        slice: Slice,
    ) -> Result<Option<Ending>, Error> {
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        let Some(begun) = machine.enter(&mut self.timeline, slice)? else { return Ok(None) };
        let Some(sampler) = &mut self.sampler else { return Ok(None) };
        let until = slice.until.min(self.timeline.clock.now().saturating_add(MAX_SLICE));
        let mut injecting = begun.injecting;
        let end = loop {
            let due = sampler.due(place, self.timeline.clock.now());
            let vcpu = &mut machine.vcpus[index];
            let end = vcpu.run_slice(&mut self.timeline.clock, due.min(until), injecting)?;
            injecting = false;
            let now = self.timeline.clock.now();
            if end.exit != Exit::Interrupted {
                break end;
            }
            if now >= until {
                let overshoot = (now >= slice.until).then(|| now - slice.until);
                break SliceEnd { exit: Exit::Interrupted, overshoot };
            }
            if now >= due {
                sampler.take(place, index, machine);
            }
        };
        if sampler.samples.len() >= BATCH {
            let samples = std::mem::take(&mut sampler.samples);
            self.timeline.emit(RunEvent::Samples(samples))?;
        }
        let after = self.machines[number].left(&mut self.timeline, begun, end)?;
        self.follow(number, after)
    }
}

/// Copies from the memory of a machine, as its first processor sees it; whether all was there.
fn copy(machine: &mut Machine, start: u64, into: &mut [u8]) -> bool {
    let Machine { vcpus, memory, .. } = machine;
    let Some(vcpu) = vcpus.first_mut().and_then(|vcpu| vcpu.debug()) else { return false };
    let mut done = 0;
    while done < into.len() {
        let Some((address, room)) = vcpu.translate(start.wrapping_add(done as u64)) else {
            return false;
        };
        let length = (into.len() - done).min(room as usize);
        if memory.read(address, &mut into[done..done + length]).is_err() {
            return false;
        }
        done += length;
    }
    true
}
