//! A slower medium than the one at hand: each I/O really takes longer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stasis_block::{Request, Tag};

use crate::{Execution, Finished, HostMedium, Medium};

/// Lets no I/O of `inner` finish before a real time has passed since it was
/// submitted. Under asynchronous execution the waits of I/Os overlap; under
/// synchronous execution each passes while its I/O is submitted.
#[derive(Debug)]
pub(crate) struct Delayed<M> {
    inner: M,
    delay: Duration,
    execution: Execution,
    // In the order of submission, which is that of the deadlines.
    held: VecDeque<Held>,
    in_flight: usize,
    early: Vec<Finished>,
}

#[derive(Debug)]
struct Held {
    tag: Tag,
    deadline: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    UnderWay,
    Finished(Finished),
    HandedBack,
}

impl<M: Medium> Delayed<M> {
    pub(crate) fn new(inner: M, delay: Duration, execution: Execution) -> Self {
        let (held, early) = (VecDeque::new(), Vec::new());
        Self { inner, delay, execution, held, in_flight: 0, early }
    }

    fn hold(&mut self) {
        for finished in self.early.drain(..) {
            let under_way = self
                .held
                .iter_mut()
                .find(|held| held.tag == finished.tag && matches!(held.state, State::UnderWay));
            if let Some(held) = under_way {
                held.state = State::Finished(finished);
            }
        }
    }

    fn release(&mut self, done: &mut Vec<Finished>) {
        let now = Instant::now();
        for held in self.held.iter_mut().take_while(|held| held.deadline <= now) {
            match std::mem::replace(&mut held.state, State::HandedBack) {
                State::Finished(finished) => {
                    self.in_flight -= 1;
                    done.push(finished);
                }
                other => held.state = other,
            }
        }
        while matches!(self.held.front(), Some(Held { state: State::HandedBack, .. })) {
            self.held.pop_front();
        }
    }
}

impl<M: Medium> Medium for Delayed<M> {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn submit(&mut self, request: Request) {
        let tag = request.tag;
        let deadline = Instant::now() + self.delay;
        self.inner.submit(request);
        if self.execution == Execution::Synchronous {
            std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        }
        self.held.push_back(Held { tag, deadline, state: State::UnderWay });
        self.in_flight += 1;
    }

    fn poll(&mut self, done: &mut Vec<Finished>) {
        if self.in_flight > 0 {
            self.inner.poll(&mut self.early);
            self.hold();
            self.release(done);
        }
    }

    fn wait(&mut self, done: &mut Vec<Finished>) {
        let before = done.len();
        self.poll(done);
        while done.len() == before && self.in_flight > 0 {
            let finished = |held: &&Held| matches!(held.state, State::Finished(_));
            match self.held.iter().find(finished) {
                Some(held) => {
                    let rest = held.deadline.saturating_duration_since(Instant::now());
                    std::thread::sleep(rest);
                }
                None => {
                    self.inner.wait(&mut self.early);
                    self.hold();
                }
            }
            self.poll(done);
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn discard_zeroes(&self) -> bool {
        self.inner.discard_zeroes()
    }
}

impl<M: Medium> HostMedium for Delayed<M> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ram;
    use stasis_block::{Command, Operation};

    const DELAY: Duration = Duration::from_millis(20);

    fn run(execution: Execution, ios: u32) -> (Duration, Duration) {
        let mut medium = Delayed::new(Ram::new(1 << 20), DELAY, execution);
        let command = |offset| Command::new(Operation::Read, offset, 512);
        let start = Instant::now();
        for tag in 0..ios {
            medium.submit(Request::new(tag, command(512 * u64::from(tag)), vec![1; 512]));
        }
        let submitted = start.elapsed();
        let mut done = Vec::new();
        while medium.in_flight() > 0 {
            let before = done.len();
            medium.wait(&mut done);
            assert!(done.len() > before);
        }
        assert_eq!(done.iter().map(|finished| finished.tag).sum::<u32>(), (0..ios).sum::<u32>());
        assert!(done.iter().all(|finished| finished.result.is_ok() && finished.data[0] == 0));
        assert!(medium.held.is_empty());
        (submitted, start.elapsed())
    }

    #[test]
    fn waits_pass_during_submission_under_synchronous_execution() {
        let (submitted, _) = run(Execution::Synchronous, 5);
        assert!(submitted >= 5 * DELAY, "{submitted:?}");
    }

    #[test]
    fn waits_overlap_under_asynchronous_execution() {
        let (_, finished) = run(Execution::Asynchronous, 500);
        assert!(finished >= DELAY, "{finished:?}");
        // Far from the sum, however busy the machine is.
        assert!(finished < 500 * DELAY, "{finished:?}");
    }
}
