//! Threads of the host on which processors are in guest mode at the same time.
//!
//! A crew takes the stays of one round, shares them out among its threads, and
//! gives them back when all are over. The caller's own thread is the first of the
//! crew. Between rounds a thread waits on its core for a while before it sleeps:
//! rounds follow each other within microseconds, and to wake a thread takes longer
//! than most of them do.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::clock::Clock;
use crate::error::Error;
use crate::vcpu::{Stay, Vcpu};

/// How often a thread looks for its next round before it sleeps: some 100 us of a
/// 2026 core.
const LOOKS: u32 = 50_000;

/// One processor's stay.
pub struct Stint {
    /// Whose: its place among all processors.
    pub place: usize,
    /// The processor.
    pub vcpu: Box<dyn Vcpu>,
    /// Virtual time: before the stay where it begins, after it where it ended.
    pub clock: Clock,
    /// When it ends at the latest (ticks).
    pub until: u64,
    /// Whether an interrupt goes in.
    pub injecting: bool,
    /// How it went; None before it.
    pub stay: Option<Result<Stay, Error>>,
}

impl Stint {
    fn run(&mut self) {
        let Self { vcpu, clock, until, injecting, .. } = self;
        let stay = catch_unwind(AssertUnwindSafe(|| vcpu.stay(clock, *until, *injecting)));
        let failed = Err(Error::Internal("a processor's thread panicked"));
        self.stay = Some(stay.unwrap_or(failed));
    }
}

/// What a thread does, as both sides set it.
mod state {
    /// It waits for a round, on its core.
    pub const WAITS: u8 = 0;
    /// It waits for a round and sleeps.
    pub const SLEEPS: u8 = 1;
    /// It has a round to do.
    pub const WORKS: u8 = 2;
    /// It has done it.
    pub const DONE: u8 = 3;
    /// It is to end.
    pub const ENDS: u8 = 4;
}

#[derive(Default)]
struct Desk {
    state: AtomicU8,
    stints: Mutex<Vec<Stint>>,
}

impl Desk {
    fn stints(&self) -> std::sync::MutexGuard<'_, Vec<Stint>> {
        self.stints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the thread does until it ends.
    fn serve(&self) {
        loop {
            match self.wait() {
                state::WORKS => self.stints().iter_mut().for_each(Stint::run),
                _ => return,
            }
            // Lost only if it is to end.
            let _ = self.change(state::WORKS, state::DONE);
        }
    }

    /// Waits until there is something to do.
    fn wait(&self) -> u8 {
        let mut looks = 0;
        loop {
            match self.state.load(Ordering::Acquire) {
                state @ (state::WORKS | state::ENDS) => return state,
                state::WAITS if looks >= LOOKS => {
                    // Lost if there is something to do now.
                    let _ = self.change(state::WAITS, state::SLEEPS);
                }
                state::SLEEPS => std::thread::park(),
                // The caller has not taken the last round back.
                _ => {
                    looks += 1;
                    std::hint::spin_loop();
                }
            }
        }
    }

    fn change(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }
}

struct Worker {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn new() -> std::io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let own = Arc::clone(&desk);
        let thread =
            std::thread::Builder::new().name("processors".into()).spawn(move || own.serve())?;
        Ok(Self { desk, thread: Some(thread) })
    }

    /// Sets what it is to do, and wakes it.
    fn tell(&self, state: u8) {
        if self.desk.state.swap(state, Ordering::AcqRel) == state::SLEEPS {
            if let Some(thread) = &self.thread {
                thread.thread().unpark();
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tell(state::ENDS);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The threads.
pub struct Crew {
    /// Those beside the caller's own.
    workers: Vec<Worker>,
    /// Which thread had each processor last, by place: it is quickest there.
    last: Vec<usize>,
    /// What each thread has in this round; the first is the caller's.
    hands: Vec<Vec<Stint>>,
}

impl Crew {
    /// `threads` threads, 2 at least, for `processors` processors.
    pub fn new(threads: usize, processors: usize) -> std::io::Result<Self> {
        let threads = threads.max(2);
        let workers = (1..threads).map(|_| Worker::new()).collect::<Result<_, _>>()?;
        let hands = (0..threads).map(|_| Vec::with_capacity(processors)).collect();
        let last = (0..processors).map(|place| place % threads).collect();
        Ok(Self { workers, last, hands })
    }

    /// Does all `stints` at once, as far as there are threads; returns when all are
    /// over. Their order may change.
    pub fn run(&mut self, stints: &mut Vec<Stint>) {
        let most = stints.len().div_ceil(self.hands.len());
        for stint in stints.drain(..) {
            let least = (0..self.hands.len()).min_by_key(|&thread| self.hands[thread].len());
            let last = self.last[stint.place];
            let thread = if self.hands[last].len() < most { last } else { least.unwrap_or(0) };
            self.last[stint.place] = thread;
            self.hands[thread].push(stint);
        }
        for (worker, hand) in self.workers.iter().zip(&mut self.hands[1..]) {
            if !hand.is_empty() {
                std::mem::swap(&mut *worker.desk.stints(), hand);
                worker.tell(state::WORKS);
            }
        }
        self.hands[0].iter_mut().for_each(Stint::run);
        stints.append(&mut self.hands[0]);
        for worker in &self.workers {
            while worker.desk.state.load(Ordering::Acquire) == state::WORKS {
                std::hint::spin_loop();
            }
            if worker.desk.state.load(Ordering::Acquire) == state::DONE {
                stints.append(&mut worker.desk.stints());
                worker.desk.state.store(state::WAITS, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::time::Scale;
    use crate::vcpu::Place;
    use std::sync::atomic::AtomicUsize;

    /// A processor that goes to the end of each stay, and panics or fails when told.
    struct Fake {
        runs: Arc<AtomicUsize>,
        /// How many are in guest mode now, and how many were at most.
        inside: Arc<[AtomicUsize; 2]>,
        company: usize,
    }

    impl Vcpu for Fake {
        fn stay(&mut self, clock: &mut Clock, until: u64, panics: bool) -> Result<Stay, Error> {
            assert!(!panics, "as asked");
            let now = self.inside[0].fetch_add(1, Ordering::SeqCst) + 1;
            self.inside[1].fetch_max(now, Ordering::SeqCst);
            // Until as many as can be are here.
            while self.inside[1].load(Ordering::SeqCst) < self.company {
                std::hint::spin_loop();
            }
            self.inside[0].fetch_sub(1, Ordering::SeqCst);
            self.runs.fetch_add(1, Ordering::SeqCst);
            clock.set(until);
            Ok(Stay { exit: Exit::Interrupted, overshoot: None })
        }
        fn x2apic(&mut self) -> bool {
            false
        }
        fn initialize(&mut self) -> Result<(), Error> {
            Ok(())
        }
        fn start_at_page(&mut self, _: u8) -> Result<(), Error> {
            Ok(())
        }
        fn start_at_kernel(&mut self, _: u64) -> Result<(), Error> {
            Ok(())
        }
        fn interruptible(&mut self) -> bool {
            true
        }
        fn inject(&mut self, _: u8) -> Result<(), Error> {
            Ok(())
        }
        fn request_window(&mut self, _: bool) {}
        fn nmi(&mut self) {}
        fn place(&mut self) -> Result<Place, Error> {
            Ok(Place { rip: 0, rsp: 0, rflags: 0, cr2: 0 })
        }
        fn port_data(&mut self) -> &mut [u8] {
            &mut []
        }
        fn mmio_answer(&mut self) -> &mut [u8] {
            &mut []
        }
        fn answer_msr(&mut self, _: u64) {}
        fn shortest(&self) -> u64 {
            0
        }
        fn lateness(&self) -> u64 {
            0
        }
    }

    fn stints(count: usize, company: usize, runs: &Arc<AtomicUsize>) -> Vec<Stint> {
        let inside: Arc<[AtomicUsize; 2]> = Arc::default();
        let stint = |place| Stint {
            place,
            vcpu: Box::new(Fake { runs: Arc::clone(runs), inside: Arc::clone(&inside), company }),
            clock: Clock::new(Scale::new(1_000_000)),
            until: 10 + place as u64,
            injecting: false,
            stay: None,
        };
        (0..count).map(stint).collect()
    }

    #[test]
    fn each_stay_is_done_once_and_as_many_at_once_as_there_are_threads() {
        for (threads, count) in [(2, 2), (3, 3), (2, 7), (4, 1), (3, 64)] {
            let runs = Arc::new(AtomicUsize::new(0));
            let mut crew = Crew::new(threads, count).unwrap();
            let mut all = stints(count, threads.min(count), &runs);
            for round in 1..=200 {
                crew.run(&mut all);
                assert_eq!(runs.load(Ordering::SeqCst), round * count);
                let mut places: Vec<usize> = all.iter().map(|stint| stint.place).collect();
                places.sort_unstable();
                assert_eq!(places, (0..count).collect::<Vec<_>>());
                for stint in &mut all {
                    assert!(matches!(stint.stay.take(), Some(Ok(_))));
                    assert_eq!(stint.clock.now(), 10 + stint.place as u64);
                }
            }
        }
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_and_one_that_panics_is_told() {
        let runs = Arc::new(AtomicUsize::new(0));
        let mut crew = Crew::new(2, 2).unwrap();
        let mut all = stints(2, 2, &runs);
        while crew.workers[0].desk.state.load(Ordering::Acquire) != state::SLEEPS {
            std::thread::yield_now();
        }
        crew.run(&mut all);
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        all.iter_mut().for_each(|stint| stint.injecting = true);
        crew.run(&mut all);
        let failed = |stint: &Stint| matches!(stint.stay, Some(Err(Error::Internal(_))));
        assert!(all.iter().all(failed));
    }
}
