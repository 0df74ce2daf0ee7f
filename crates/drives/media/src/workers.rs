//! Files and devices behind the caller's back: a few threads perform the I/Os.
//!
//! Threads rather than io_uring: they work on every kernel and inside every
//! container, and the medium's time does not count in the guest anyway.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use stasis_block::{Command, Operation, Request, Tag};

use rustix::event::{eventfd, EventfdFlags};
use rustix::fd::{AsRawFd, OwnedFd, RawFd};

use crate::direct::Bounce;
use crate::{Finished, HostMedium, Medium, MediumError, OpenError};

/// Threads at most: the queue depth at which common NVMe drives come near
/// their best rate. They are started when they are first needed.
const THREADS: usize = 32;

/// Outcome of an I/O.
pub(crate) type IoResult = Result<(), MediumError>;

/// Performer of I/Os, from any thread.
pub(crate) trait Perform: Send + Sync + 'static {
    /// As [`Medium::capacity`].
    fn capacity(&self) -> u64;
    /// As [`Medium::discard_zeroes`].
    fn discard_zeroes(&self) -> bool;
    /// As [`HostMedium::resize`].
    fn resize(&self, capacity: u64) -> Result<(), OpenError>;
    /// Carries `command` out.
    fn perform(&self, command: &Command, data: &mut [u8], bounce: &mut Bounce) -> IoResult;
}

/// Performs I/Os in dedicated threads.
#[derive(Debug)]
pub(crate) struct Workers<B: Perform> {
    shared: Arc<Shared<B>>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
    // For I/Os in place, where no thread can be started.
    bounce: Bounce,
}

#[derive(Debug)]
struct Shared<B> {
    backing: B,
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
    // Rung when an I/O has finished, for a caller that waits for descriptors.
    bell: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Job>,
    // Flushes, each with the number of changes that it has to wait for.
    flushes: VecDeque<(u64, Job)>,
    changes: Changes,
    finished: Vec<Finished>,
    idle: usize,
    stopping: bool,
}

#[derive(Debug)]
struct Job {
    tag: Tag,
    command: Command,
    data: Vec<u8>,
    change: Option<u64>,
}

/// Rings a bell.
fn ring(bell: &OwnedFd) {
    // It can only be full, and then it rings already.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// The finished ones among the changes (writes, discards, zeroes), counted in the order of
/// submission.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    // All changes before this one have finished.
    pub(crate) first: u64,
    finished: VecDeque<bool>,
}

impl Changes {
    pub(crate) fn start(&mut self) -> u64 {
        self.finished.push_back(false);
        self.started() - 1
    }

    pub(crate) fn started(&self) -> u64 {
        self.first + self.finished.len() as u64
    }

    pub(crate) fn finish(&mut self, change: u64) {
        self.finished[(change - self.first) as usize] = true;
        while self.finished.front() == Some(&true) {
            self.finished.pop_front();
            self.first += 1;
        }
    }
}

impl<B: Perform> Shared<B> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs one job and makes its end known.
    fn perform(&self, job: Job, bounce: &mut Bounce) -> MutexGuard<'_, State> {
        let Job { tag, command, mut data, change } = job;
        let result = self.backing.perform(&command, &mut data, bounce);
        let mut state = self.lock();
        if let Some(change) = change {
            state.changes.finish(change);
            let mut released = 0;
            while state.flushes.front().is_some_and(|(after, _)| *after <= state.changes.first) {
                let flush = state.flushes.pop_front();
                state.ready.extend(flush.map(|(_, job)| job));
                released += 1;
            }
            // This thread itself takes the first.
            (1..released).for_each(|_| self.work.notify_one());
        }
        state.finished.push(Finished { tag, result, data });
        self.done.notify_one();
        if let Some(bell) = &self.bell {
            ring(bell);
        }
        state
    }

    /// Takes the jobs that have ended, and their ring of the bell; returns their number.
    fn take(&self, state: &mut State, done: &mut Vec<Finished>) -> usize {
        if let (false, Some(bell)) = (state.finished.is_empty(), &self.bell) {
            // Under the lock: an I/O that finishes later rings again.
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        let count = state.finished.len();
        done.append(&mut state.finished);
        count
    }

    fn work(&self) {
        let mut bounce = Bounce::default();
        let mut state = self.lock();
        loop {
            if let Some(job) = state.ready.pop_front() {
                drop(state);
                state = self.perform(job, &mut bounce);
            } else if state.stopping {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl<B: Perform> Workers<B> {
    pub(crate) fn new(backing: B) -> Self {
        Self::with(backing, None)
    }

    /// With a descriptor to wait for ([`HostMedium::descriptors`]).
    pub(crate) fn with_bell(backing: B) -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self::with(backing, Some(bell)))
    }

    fn with(backing: B, bell: Option<OwnedFd>) -> Self {
        let (work, done) = (Condvar::new(), Condvar::new());
        let shared = Shared { backing, state: Mutex::default(), work, done, bell };
        Self {
            shared: Arc::new(shared),
            threads: Vec::new(),
            in_flight: 0,
            bounce: Bounce::default(),
        }
    }

    fn start_thread(&mut self) {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("stasis-medium".into());
        // Without one more thread those that are there do its work.
        self.threads.extend(thread.spawn(move || shared.work()));
    }
}

impl<B: Perform> Medium for Workers<B> {
    fn capacity(&self) -> u64 {
        self.shared.backing.capacity()
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, command, data, .. } = request;
        self.in_flight += 1;
        let mut state = self.shared.lock();
        let mut job = Job { tag, command, data, change: None };
        match command.operation {
            Operation::Read | Operation::Verify | Operation::Barrier => {}
            Operation::Flush => {
                let after = state.changes.started();
                if after > state.changes.first {
                    state.flushes.push_back((after, job));
                    return;
                }
            }
            Operation::Write | Operation::Discard | Operation::WriteZeroes | Operation::Copy => {
                job.change = Some(state.changes.start());
            }
        }
        state.ready.push_back(job);
        let more = state.ready.len() > state.idle;
        drop(state);
        self.shared.work.notify_one();
        if more && self.threads.len() < THREADS {
            self.start_thread();
        }
        if self.threads.is_empty() {
            let job = self.shared.lock().ready.pop_front();
            if let Some(job) = job {
                drop(self.shared.perform(job, &mut self.bounce));
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        if self.in_flight > 0 {
            self.in_flight -= self.shared.take(&mut self.shared.lock(), done);
        }
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        if self.in_flight == 0 {
            return;
        }
        let mut state = self.shared.lock();
        while state.finished.is_empty() {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.in_flight -= self.shared.take(&mut state, done);
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
    fn discard_zeroes(&self) -> bool {
        self.shared.backing.discard_zeroes()
    }
}

impl<B: Perform> HostMedium for Workers<B> {
    fn resize(&mut self, capacity: u64) -> Result<(), OpenError> {
        self.shared.backing.resize(capacity)
    }

    fn needs_poll(&self) -> bool {
        self.in_flight > 0 && self.shared.bell.is_none()
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.shared.bell.iter().map(AsRawFd::as_raw_fd).collect()
    }
}

impl<B: Perform> Drop for Workers<B> {
    /// Finishes the I/Os under way.
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    /// Takes a random while for each I/O, and looks at the order.
    #[derive(Default)]
    struct OrderProbe {
        changes_finished: AtomicU64,
        // Maximum number of I/Os performed at the same time.
        together: AtomicU64,
        most: AtomicU64,
    }

    impl Perform for OrderProbe {
        fn capacity(&self) -> u64 {
            u64::MAX
        }

        fn discard_zeroes(&self) -> bool {
            true
        }

        fn resize(&self, _: u64) -> Result<(), OpenError> {
            Ok(())
        }

        fn perform(&self, command: &Command, data: &mut [u8], _: &mut Bounce) -> IoResult {
            let together = self.together.fetch_add(1, SeqCst) + 1;
            self.most.fetch_max(together, SeqCst);
            if command.operation == Operation::Flush {
                // The test gives in the offset the number of changes that came before.
                data[0] = u8::from(self.changes_finished.load(SeqCst) >= command.offset);
            } else {
                std::thread::sleep(Duration::from_micros(command.length));
                self.changes_finished.fetch_add(1, SeqCst);
            }
            self.together.fetch_sub(1, SeqCst);
            Ok(())
        }
    }

    #[test]
    fn flushes_begin_after_the_changes_before_them() {
        let mut medium = Workers::new(OrderProbe::default());
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut done, mut changes) = (Vec::new(), 0);
        for tag in 0..2000 {
            let flush = random.next_u64() % 8 == 0;
            let operation = if flush { Operation::Flush } else { Operation::Write };
            changes += u64::from(!flush);
            let length = random.next_u64() % 300;
            let command = Command::new(operation, changes, length);
            medium.submit(Request::new(tag, command, vec![2; usize::from(flush)]));
            while medium.in_flight() > 64 {
                medium.wait(&mut done);
            }
        }
        while medium.in_flight() > 0 {
            medium.wait(&mut done);
        }
        assert_eq!(done.len(), 2000);
        assert!(done.iter().all(|finished| finished.data.first().is_none_or(|&after| after == 1)));
        assert!(medium.shared.backing.most.load(SeqCst) > 8, "I/Os run together");
    }

    #[test]
    fn what_is_under_way_is_finished_in_the_end() {
        let mut medium = Workers::new(OrderProbe::default());
        for tag in 0..200 {
            let command = Command::new(Operation::Write, 0, 1000);
            medium.submit(Request::new(tag, command, vec![]));
        }
        let shared = Arc::clone(&medium.shared);
        drop(medium);
        assert_eq!(shared.backing.changes_finished.load(SeqCst), 200);
    }

    proptest! {
        /// Against the plain definition: all changes before `first` are over,
        /// and `first` is not.
        #[test]
        fn changes_know_the_first_that_is_under_way(
            steps in prop::collection::vec(any::<(bool, u16)>(), 0..200),
        ) {
            let mut changes = Changes::default();
            let (mut started, mut running) = (0u64, Vec::new());
            for (start, pick) in steps {
                if start || running.is_empty() {
                    prop_assert_eq!(changes.start(), started);
                    running.push(started);
                    started += 1;
                } else {
                    changes.finish(running.swap_remove(usize::from(pick) % running.len()));
                }
                prop_assert_eq!(changes.started(), started);
                prop_assert_eq!(changes.first, running.iter().copied().min().unwrap_or(started));
            }
        }
    }
}
