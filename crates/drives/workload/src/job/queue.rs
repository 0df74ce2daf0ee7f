//! I/Os of a thread between it and the drive: how many are submitted at once, and how many
//! completions are taken at once (fio's backend.c: `wait_for_completions`; ioengines.c).

use std::collections::VecDeque;

use stasis_block::Command;

use super::Job;

/// The queue's next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// An I/O goes to the drive.
    Submit,
    /// The thread waits for a completion.
    Wait,
    /// The thread may prepare another I/O, if there is a place for it.
    Free,
}

/// Completions that are waited for.
#[derive(Debug, Clone, Copy)]
struct Reap {
    /// Number of those waited for, and taken at most, at a time.
    least: u32,
    most: u32,
    /// Places in use down to which the wait is repeated.
    until: u32,
}

/// I/Os of a thread, prepared, in flight, and completed but not yet taken.
#[derive(Debug)]
pub struct Queue {
    depth: u32,
    batch: u32,
    least: u32,
    most: u32,
    low: u32,
    /// Prepared I/Os, in order.
    prepared: VecDeque<Command>,
    /// Number of those on their way to the drive.
    committed: usize,
    flying: u32,
    done: u32,
    /// Places in use: by prepared I/Os, those in flight, and completions that are not yet taken.
    used: u32,
    reap: Option<Reap>,
}

impl Queue {
    /// Makes the queue of a job's thread. Values beyond the depth are as fio corrects them (init.c:
    /// `fixup_options`).
    pub fn new(job: &Job) -> Self {
        let depth = job.in_flight_max();
        let within = |number: u32| if number == 0 { depth } else { number.min(depth) };
        let least = job.complete_min;
        Self {
            depth,
            batch: within(job.batch),
            least,
            most: job.complete_max.max(least),
            low: within(job.iodepth_low),
            prepared: VecDeque::with_capacity(within(job.batch) as usize),
            committed: 0,
            flying: 0,
            done: 0,
            used: 0,
            reap: None,
        }
    }

    /// Returns whether there is a place for another I/O.
    pub fn has_room(&self) -> bool {
        self.used < self.depth
    }

    /// Returns whether an I/O is prepared that is not yet on its way.
    pub fn holds_back(&self) -> bool {
        self.prepared.len() > self.committed
    }

    /// Returns whether any place is in use.
    pub fn is_used(&self) -> bool {
        self.used > 0
    }

    /// Sends off what is prepared.
    pub fn commit(&mut self) {
        self.committed = self.prepared.len();
    }

    /// Prepares an I/O, which leaves with its batch.
    #[inline]
    pub fn prepare(&mut self, command: Command) {
        self.used += 1;
        self.prepared.push_back(command);
        if self.prepared.len() as u32 >= self.batch {
            self.commit();
        }
        if !self.has_room() || self.least == 0 && self.most == 0 {
            self.wait();
        }
    }

    /// Prepares an I/O that the thread waits for, and sends it off.
    pub fn alone(&mut self, command: Command) {
        self.used += 1;
        self.prepared.push_back(command);
        self.commit();
    }

    /// Takes one completion.
    pub fn take_one(&mut self) {
        self.take_completions(1);
    }

    /// Takes so many completions at most.
    fn take_completions(&mut self, most: u32) {
        let taken = self.done.min(most);
        self.done -= taken;
        self.used -= taken;
    }

    /// Waits for completions, as where the queue is full.
    pub fn wait(&mut self) {
        let full = !self.has_room();
        let least = self.least.min(self.used).max(1);
        let until = if full { self.low } else { u32::MAX };
        self.reap = Some(Reap { least, most: self.most.max(least), until });
    }

    /// Waits for all I/Os, and takes all completions.
    pub fn drain(&mut self) {
        self.reap = self.is_used().then_some(Reap { least: 1, most: u32::MAX, until: 0 });
    }

    /// Returns the queue's next action.
    pub fn turn(&mut self) -> Turn {
        loop {
            if self.committed > 0 {
                return Turn::Submit;
            }
            let Some(Reap { least, most, until }) = self.reap else { return Turn::Free };
            if self.holds_back() {
                self.commit();
                continue;
            }
            if self.done < least.min(self.flying + self.done) {
                return Turn::Wait;
            }
            self.take_completions(most);
            if self.used <= until {
                self.reap = None;
            }
        }
    }

    /// The I/O that goes to the drive.
    pub fn submit(&mut self) -> Option<Command> {
        self.committed = self.committed.checked_sub(1)?;
        self.flying += 1;
        self.prepared.pop_front()
    }

    /// An I/O has completed.
    pub fn complete(&mut self) {
        self.flying -= 1;
        self.done += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Engine;

    /// Places in use at each submission of `ios` I/Os, which complete one at a time once none can
    /// be submitted.
    fn levels(job: &Job, ios: u32) -> Vec<u32> {
        let (mut queue, mut levels, mut remaining) = (Queue::new(job), Vec::new(), ios);
        loop {
            match queue.turn() {
                Turn::Submit => {
                    levels.push(queue.used);
                    queue.submit().unwrap();
                }
                Turn::Wait => queue.complete(),
                Turn::Free if remaining == 0 => return levels,
                Turn::Free => {
                    remaining -= 1;
                    queue.prepare(Command::flush());
                }
            }
        }
    }

    fn job(iodepth: u32) -> Job {
        let engine = Engine::Asynchronous { waits_for_flush: true, waits_for_trim: true };
        Job { iodepth, engine, ..Job::default() }
    }

    #[test]
    fn a_queue_is_kept_full() {
        assert_eq!(levels(&job(3), 6), [1, 2, 3, 3, 3, 3]);
    }

    #[test]
    fn batches_leave_together_and_the_low_mark_empties() {
        let batched = Job { batch: 2, complete_min: 2, complete_max: 2, ..job(4) };
        assert_eq!(levels(&batched, 8), [2, 2, 4, 4, 4, 4, 4, 4]);
        let low = Job { iodepth_low: 1, ..job(4) };
        assert_eq!(levels(&low, 8), [1, 2, 3, 4, 2, 3, 4, 2]);
        // Without a batch of completions each I/O is waited for.
        let polled = Job { complete_min: 0, ..job(4) };
        assert_eq!(levels(&polled, 3), [1, 1, 1]);
    }
}
