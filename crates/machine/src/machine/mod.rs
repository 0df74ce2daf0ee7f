//! Machines on one timeline: the loop that runs all their processors in turn.

mod access;
mod agent;
mod build;
mod config;
mod interrupts;
mod line;
mod one;
mod outcome;
mod slice;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stasis_clock::Nanos;
use stasis_drive::Shared;
use stasis_journal::{Ending, Entry, Journal, Outcome};

use crate::error::Error;
use crate::vcpu::State;
use line::Line;
use one::{After, Machine};

pub use config::{Config, Controller, DriveConfig, MachineConfig, Rewind, Speed};

/// How often the journal hears of progress.
const PROGRESS: Duration = Duration::from_millis(200);

/// Runs machines from their making to their end.
///
/// # Errors
/// See [`Error`]; a guest that fails is an [`Outcome`], not an error.
pub fn run(config: Config<'_>, journal: &mut dyn Journal) -> Result<Outcome, Error> {
    let mut run = Run::new(config, journal)?;
    let ending = run.run()?;
    run.outcome(ending)
}

struct Run<'j> {
    // Dropped in this order: what points into the vCPUs, then the machines.
    line: Line<'j>,
    machines: Vec<Machine>,
    shared: Vec<Shared>,
    /// Every processor: its machine, and its number there.
    processors: Vec<(usize, usize)>,
    virtual_limit: Option<Nanos>,
    wall_limit: Option<Duration>,
    stop: Arc<AtomicBool>,
}

impl Run<'_> {
    fn run(&mut self) -> Result<Ending, Error> {
        loop {
            if let Some(ending) = self.look_around()? {
                return Ok(ending);
            }
            for machine in self.machines.iter_mut().filter(|machine| !machine.finished) {
                machine.happen(&mut self.line)?;
            }
            let Some(place) = self.choose() else {
                let Some(next) = self.next_event() else { return Ok(Ending::Hung) };
                self.idle_until(next);
                continue;
            };
            if let Some(ending) = self.slice(place)? {
                return Ok(ending);
            }
        }
    }

    // What is looked at between slices: the user, limits, progress.
    fn look_around(&mut self) -> Result<Option<Ending>, Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Some(Ending::Cancelled));
        }
        let line = &mut self.line;
        if let (Some(limit), true) = (self.virtual_limit, line.statistics.running) {
            let since = line.statistics.started_virtual;
            if line.clock.now_ns().saturating_sub(since) >= limit {
                return Ok(Some(Ending::VirtualLimit));
            }
        }
        // The wall clock costs a call; every so many turns is often enough.
        line.statistics.turns = line.statistics.turns.wrapping_add(1);
        if line.statistics.turns.is_multiple_of(64) {
            let now = Instant::now();
            if self.wall_limit.is_some_and(|limit| now - line.statistics.born >= limit) {
                return Ok(Some(Ending::WallLimit));
            }
            if now - line.statistics.reported >= PROGRESS {
                line.statistics.reported = now;
                line.flush_records()?;
                line.tell(Entry::Progress(line.clock.now_ns()))?;
            }
        }
        Ok(None)
    }

    fn next_event(&self) -> Option<u64> {
        let machines = self.machines.iter().filter(|machine| !machine.finished);
        machines.filter_map(|machine| machine.next_event(&self.line)).min()
    }

    /// All processors are idle: time passes at once, or, with rewind, goes back
    /// to a completion that is past.
    fn idle_until(&mut self, next: u64) {
        let line = &mut self.line;
        let now = line.clock.now();
        if self.machines.iter_mut().any(|machine| machine.go_back(line)) {
            return;
        }
        // A limit on virtual time is reached at its own instant.
        let limit =
            self.virtual_limit.filter(|_| line.statistics.running).map_or(u64::MAX, |limit| {
                line.clock.scale().to_ticks(line.statistics.started_virtual.saturating_add(limit))
            });
        let next = next.min(limit);
        if next > now {
            line.statistics.skipped += next - now;
            line.clock.set(next);
        }
    }

    /// The processor that runs next: the present one until its slice ends.
    fn choose(&mut self) -> Option<usize> {
        for machine in &mut self.machines {
            machine.wake();
        }
        let line = &mut self.line;
        let runnable = |place: usize| {
            let (machine, index) = self.processors[place];
            self.machines[machine].is_runnable(index)
        };
        if runnable(line.current) && line.clock.now() < line.slice_end {
            return Some(line.current);
        }
        let count = self.processors.len();
        let next = (1..=count).map(|step| (line.current + step) % count).find(|&i| runnable(i))?;
        line.current = next;
        line.slice_end = line.clock.now() + line.slice;
        Some(next)
    }

    /// Runs the processor at `place` until the next event, the end of its
    /// slice, or an exit of its own. How everything ended, if it did.
    fn slice(&mut self, place: usize) -> Result<Option<Ending>, Error> {
        let until = self.next_event().unwrap_or(u64::MAX);
        let alone = !self.processors.iter().enumerate().any(|(other, &(machine, index))| {
            other != place && self.machines[machine].is_runnable(index)
        });
        let (number, index) = self.processors[place];
        let machine = &mut self.machines[number];
        match machine.slice(&mut self.line, index, until, alone)? {
            After::Continue => Ok(None),
            After::Told(told) => self.told(number, told),
            After::Panicked => {
                machine.ending = Some(Ending::Panicked);
                Ok(Some(Ending::Panicked))
            }
        }
    }

    fn frozen(&self) -> Duration {
        self.machines.iter().map(Machine::frozen).sum()
    }

    // Where everyone is: for the user who asks why a guest does not go on.
    fn show_processors(&mut self) -> Result<(), Error> {
        for machine in self.machines.iter_mut().filter(|machine| !machine.finished) {
            let mut text = String::new();
            for (index, vcpu) in machine.vcpus.iter_mut().enumerate() {
                let regs = vcpu.fd().get_regs().map_err(Error::kvm("read registers"))?;
                let sregs = vcpu.fd().get_sregs().map_err(Error::kvm("read registers"))?;
                let state: State = machine.processors[index].state;
                text += &format!(
                    "vCPU {index}: {state:?}, rip {:#x}, rsp {:#x}, rflags {:#x}, cr2 {:#x}\n",
                    regs.rip, regs.rsp, regs.rflags, sregs.cr2
                );
            }
            self.line.tell_from(machine.number, Entry::Console(text.into_bytes()))?;
        }
        Ok(())
    }
}
