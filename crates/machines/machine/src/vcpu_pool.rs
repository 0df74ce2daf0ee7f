//! Threads of the host on which processors are in guest mode at the same time.
//!
//! A pool takes the slices of one round, shares them out among its threads, and
//! gives them back when all are over. The thread that makes the pool is the first of
//! it. Whoever waits for another waits on its core for a while before it sleeps: rounds
//! follow each other within microseconds, and to wake a thread takes longer than most
//! of them do. The while is short, since a core that waits may be one that another
//! thread of the pool needs: an emulated machine's cores are threads themselves.
//!
//! A processor stays on its thread, unless more of them are busy there than elsewhere: where KVM
//! finds a processor on another thread than before, it waits until no core can hold the old one
//! (`synchronize_rcu` in `kvm_vcpu_ioctl`, virt/kvm/kvm_main.c, until Linux 6.13), which takes
//! milliseconds.

mod handoff;
mod sync;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::error::Error;
use crate::freeze::Clock;
use crate::vcpu::{SliceEnd, Vcpu};
use handoff::Handoff;

/// One processor's slice, for a thread of the pool.
pub struct ThreadSlice {
    /// Whose: its place among all processors.
    pub place: usize,
    /// The processor; None when its machine has it back.
    pub vcpu: Option<Box<dyn Vcpu>>,
    /// Virtual time: before the slice where it begins, after it where it ended.
    pub clock: Clock,
    /// Time at which it ends at the latest (ticks).
    pub until: u64,
    /// True if an interrupt goes in.
    pub injecting: bool,
    /// Its result; None before it.
    pub result: Option<Result<SliceEnd, Error>>,
}

impl ThreadSlice {
    fn run(&mut self) {
        let Self { vcpu, clock, until, injecting, .. } = self;
        let Some(vcpu) = vcpu else { return };
        let result = catch_unwind(AssertUnwindSafe(|| vcpu.run_slice(clock, *until, *injecting)));
        let failed = Err(Error::Internal("a processor's thread panicked"));
        self.result = Some(result.unwrap_or(failed));
    }
}

struct Worker {
    handoff: Arc<Handoff<Vec<ThreadSlice>>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn new() -> std::io::Result<Self> {
        let handoff = Arc::new(Handoff::new(Vec::new()));
        let own = Arc::clone(&handoff);
        let serve = move || own.serve(|slices| slices.iter_mut().for_each(ThreadSlice::run));
        let thread = std::thread::Builder::new().name("processors".into()).spawn(serve)?;
        Ok(Self { handoff, thread: Some(thread) })
    }

    /// Gives it `slices`, and takes the thread's empty list in their place.
    fn begin(&self, slices: &mut Vec<ThreadSlice>) {
        std::mem::swap(&mut *self.handoff.work(), slices);
        if let Some(thread) = &self.thread {
            self.handoff.begin(thread.thread());
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handoff.end(thread.thread());
            let _ = thread.join();
        }
    }
}

/// A pool of threads.
pub struct VcpuPool {
    /// Threads beside the caller's own.
    workers: Vec<Worker>,
    /// Which thread had each processor last, by place: it is quickest there.
    last: Vec<usize>,
    /// Each thread's slices in this round; the first queue is the caller's.
    queues: Vec<Vec<ThreadSlice>>,
}

impl VcpuPool {
    /// `threads` threads, 2 at least, for `processors` processors.
    pub fn new(threads: usize, processors: usize) -> std::io::Result<Self> {
        let threads = threads.max(2);
        let workers = (1..threads).map(|_| Worker::new()).collect::<Result<_, _>>()?;
        let queues = (0..threads).map(|_| Vec::with_capacity(processors)).collect();
        let last = (0..processors).map(|place| place % threads).collect();
        Ok(Self { workers, last, queues })
    }

    /// Runs all `slices` at once, as far as there are threads; returns when all are
    /// over. Their order may change. To be called by the thread that made the pool.
    pub fn run(&mut self, slices: &mut Vec<ThreadSlice>) {
        let most = slices.len().div_ceil(self.queues.len());
        for slice in slices.drain(..) {
            let least = (0..self.queues.len()).min_by_key(|&thread| self.queues[thread].len());
            let last = self.last[slice.place];
            let thread = if self.queues[last].len() < most { last } else { least.unwrap_or(0) };
            self.last[slice.place] = thread;
            self.queues[thread].push(slice);
        }
        for (worker, queue) in self.workers.iter().zip(&mut self.queues[1..]) {
            if !queue.is_empty() {
                worker.begin(queue);
            }
        }
        self.queues[0].iter_mut().for_each(ThreadSlice::run);
        slices.append(&mut self.queues[0]);
        for worker in &self.workers {
            worker.handoff.collect(|done| slices.append(done));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::handoff::state;
    use super::*;
    use crate::exit::Exit;
    use crate::freeze::Scale;
    use crate::vcpu::Registers;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Mutex;

    /// A processor that goes to the end of each slice, and panics on request.
    struct Fake {
        runs: Arc<AtomicUsize>,
        /// Waits until this handoff is in this state.
        patient: Option<(Arc<Handoff<Vec<ThreadSlice>>>, u8)>,
        /// Thread of its last slice.
        thread: Arc<Mutex<Option<std::thread::ThreadId>>>,
        /// Number of those in guest mode now, and the largest number so far.
        inside: Arc<[AtomicUsize; 2]>,
        company: usize,
    }

    impl Vcpu for Fake {
        fn run_slice(
            &mut self,
            clock: &mut Clock,
            until: u64,
            panics: bool,
        ) -> Result<SliceEnd, Error> {
            assert!(!panics, "as asked");
            *self.thread.lock().unwrap() = Some(std::thread::current().id());
            while let Some((handoff, state)) = &self.patient {
                if handoff.state() == *state {
                    break;
                }
                std::thread::yield_now();
            }
            let now = self.inside[0].fetch_add(1, Ordering::SeqCst) + 1;
            self.inside[1].fetch_max(now, Ordering::SeqCst);
            // Until as many as can be are here.
            while self.inside[1].load(Ordering::SeqCst) < self.company {
                std::hint::spin_loop();
            }
            self.inside[0].fetch_sub(1, Ordering::SeqCst);
            self.runs.fetch_add(1, Ordering::SeqCst);
            clock.set(until);
            Ok(SliceEnd { exit: Exit::Interrupted, overshoot: None })
        }
        fn x2apic(&mut self) -> bool {
            false
        }
        fn initialize(&mut self) -> Result<(), Error> {
            Ok(())
        }
        fn reset(&mut self) -> Result<(), Error> {
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
        fn registers(&mut self) -> Result<Registers, Error> {
            Ok(Registers { rip: 0, rsp: 0, rflags: 0, cr2: 0 })
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

    fn fake(company: usize, runs: &Arc<AtomicUsize>, inside: &Arc<[AtomicUsize; 2]>) -> Fake {
        Fake {
            runs: Arc::clone(runs),
            patient: None,
            thread: Arc::default(),
            inside: Arc::clone(inside),
            company,
        }
    }

    fn slices(count: usize, company: usize, runs: &Arc<AtomicUsize>) -> Vec<ThreadSlice> {
        let inside: Arc<[AtomicUsize; 2]> = Arc::default();
        let slice = |place| ThreadSlice {
            place,
            vcpu: Some(Box::new(fake(company, runs, &inside))),
            clock: Clock::new(Scale::new(1_000_000)),
            until: 10 + place as u64,
            injecting: false,
            result: None,
        };
        (0..count).map(slice).collect()
    }

    #[test]
    fn each_slice_is_done_once_and_as_many_at_once_as_there_are_threads() {
        for (threads, count) in [(2, 2), (3, 3), (2, 7), (4, 1), (3, 64)] {
            let runs = Arc::new(AtomicUsize::new(0));
            let mut pool = VcpuPool::new(threads, count).unwrap();
            let mut all = slices(count, threads.min(count), &runs);
            for round in 1..=200 {
                pool.run(&mut all);
                assert_eq!(runs.load(Ordering::SeqCst), round * count);
                let mut places: Vec<usize> = all.iter().map(|slice| slice.place).collect();
                places.sort_unstable();
                assert_eq!(places, (0..count).collect::<Vec<_>>());
                for slice in &mut all {
                    assert!(matches!(slice.result.take(), Some(Ok(_))));
                    assert_eq!(slice.clock.now(), 10 + slice.place as u64);
                }
            }
        }
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_and_one_that_panics_is_told() {
        let runs = Arc::new(AtomicUsize::new(0));
        let mut pool = VcpuPool::new(2, 2).unwrap();
        let mut all = slices(2, 2, &runs);
        while pool.workers[0].handoff.state() != state::SLEEPS {
            std::thread::yield_now();
        }
        pool.run(&mut all);
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        all.iter_mut().for_each(|slice| slice.injecting = true);
        pool.run(&mut all);
        let failed = |slice: &ThreadSlice| matches!(slice.result, Some(Err(Error::Internal(_))));
        assert!(all.iter().all(failed));
    }

    /// A pool of two threads and a slice for each; returns the outcome after `change`.
    fn two(change: impl Fn(&VcpuPool, &mut Fake, &mut Fake)) -> (VcpuPool, Vec<ThreadSlice>) {
        let (runs, inside) = (Arc::default(), Arc::default());
        let pool = VcpuPool::new(2, 2).unwrap();
        let (mut first, mut second) = (fake(1, &runs, &inside), fake(1, &runs, &inside));
        change(&pool, &mut first, &mut second);
        let mut all = slices(2, 1, &runs);
        all[0].vcpu = Some(Box::new(first));
        all[1].vcpu = Some(Box::new(second));
        (pool, all)
    }

    #[test]
    fn whoever_waits_long_sleeps_and_is_woken() {
        // The second thread's slice lasts until the first one sleeps, and the other way round.
        for (slow, state) in [(1, state::AWAITED), (0, state::RESTS)] {
            let (mut pool, mut all) = two(|pool, first, second| {
                let patient = Some((Arc::clone(&pool.workers[0].handoff), state));
                if slow == 0 {
                    first.patient = patient;
                } else {
                    second.patient = patient;
                }
            });
            for _ in 0..20 {
                pool.run(&mut all);
                assert!(all.iter_mut().all(|slice| matches!(slice.result.take(), Some(Ok(_)))));
            }
        }
    }

    #[test]
    fn a_processor_stays_on_its_thread_alone_too() {
        let threads: [Arc<Mutex<Option<std::thread::ThreadId>>>; 2] = Default::default();
        let (mut pool, mut all) = two(|_, first, second| {
            (first.thread, second.thread) = (Arc::clone(&threads[0]), Arc::clone(&threads[1]));
        });
        pool.run(&mut all);
        let threads_used = || threads.each_ref().map(|thread| *thread.lock().unwrap());
        let before = threads_used();
        assert_ne!(before[0], before[1]);
        for place in [1, 0, 1] {
            let at = all.iter().position(|slice| slice.place == place).unwrap();
            let mut alone = vec![all.swap_remove(at)];
            pool.run(&mut alone);
            all.append(&mut alone);
            assert_eq!(threads_used(), before);
        }
    }
}
