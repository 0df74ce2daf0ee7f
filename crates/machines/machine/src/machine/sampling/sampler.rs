//! The samples of a run, and what takes them. Owns when each processor's next is due, and those that were
//! not sent to the event stream.

use stasis_bare::svm::Debug;
use stasis_block::clock::Nanos;
use stasis_run_events::Sample;

use super::super::vm::Machine;
use super::linear::Linear;
use super::orc::Context;
use super::stacks::Stacks;
use crate::freeze::Scale;

/// The samples of a run.
pub(in super::super) struct Sampler {
    /// Between two samples of a processor (ns); None where there are none.
    pub(super) interval: Option<Nanos>,
    /// The places at which processors stop beside their samples.
    pub(super) watched: Debug,
    pub(super) scale: Scale,
    /// Time at which the commands began (ns).
    pub(super) begun: u64,
    /// The number of each processor's next sample.
    pub(super) next: Vec<u64>,
    pub(super) samples: Vec<Sample>,
}

impl Sampler {
    /// The tick of a processor's next sample from `now` on (ticks); those that have passed were of
    /// an idle processor.
    pub(super) fn due(&mut self, place: usize, now: u64) -> u64 {
        let Some(interval) = self.interval else { return u64::MAX };
        let first = self.next[place];
        while self.tick(self.next[place]) < now {
            // Most of a long idle time at once.
            let behind = self.scale.to_ns(now).saturating_sub(self.at(self.next[place]));
            self.next[place] += (behind / interval).saturating_sub(1).max(1);
        }
        let count = self.next[place] - first;
        if count > 0 {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.push(Sample { count, ..self.sample(place, first, Vec::new()) });
        }
        self.tick(self.next[place])
    }

    fn at(&self, number: u64) -> u64 {
        self.begun.saturating_add(number.saturating_mul(self.interval.unwrap_or(u64::MAX)))
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
    pub(super) fn take(
        &mut self,
        place: usize,
        index: usize,
        machine: &mut Machine,
        stacks: &mut Stacks,
    ) {
        let Machine { vcpus, memory, number, .. } = machine;
        let Some(vcpu) = vcpus[index].debug() else { return };
        let registers = vcpu.registers();
        let (memory, machine) = (&mut Linear::new(vcpu, memory), usize::from(*number));
        let [rsp, rbp] = [4, 5].map(|number| registers.general[number]);
        let context = Context { rip: registers.rip, rsp, rbp };
        let gs = [registers.gs_base, registers.kernel_gs_base];
        let (mut frames, program) = stacks.whole(machine, (context, gs), memory);
        frames.extend(program);
        let sample = self.sample(place, self.next[place], frames);
        self.next[place] += 1;
        self.push(sample);
    }
}
