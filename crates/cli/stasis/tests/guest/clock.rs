//! Runs in the guest: do the processors' clocks ever disagree?
//!
//! `clock THREADS READS`: each thread, on a separate processor, reads CLOCK_MONOTONIC and compares
//! it with the latest time that any thread had read before this read began. Prints how many reads
//! were earlier than that, by how much at most (ns), and how many processors took part.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

extern "C" {
    // sched_setaffinity(2) and sched_getcpu(3) of the C library.
    fn sched_setaffinity(pid: i32, size: usize, mask: *const u64) -> i32;
    fn sched_getcpu() -> i32;
}

/// As a base for differences: later than any clock's start, earlier than reads.
fn ns(base: Instant) -> u64 {
    // A time before `base` would be zero: earlier than all that was read.
    Instant::now().checked_duration_since(base).map_or(0, |passed| passed.as_nanos() as u64)
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("a number"));
    let threads = words.next().expect("how many threads");
    let reads = words.next().expect("how many reads");
    let base = Instant::now();
    let (latest, backwards, worst) = (AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(0));
    let processors = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (latest, backwards, worst, processors) =
                (&latest, &backwards, &worst, &processors);
            scope.spawn(move || {
                let mask = 1u64 << thread;
                // SAFETY: `mask` is 8 bytes that outlive the call.
                assert_eq!(unsafe { sched_setaffinity(0, 8, &mask) }, 0, "no processor {thread}");
                // SAFETY: it takes nothing and returns a number.
                processors.fetch_or(1 << unsafe { sched_getcpu() }, Ordering::Relaxed);
                for _ in 0..reads / threads {
                    let before = latest.load(Ordering::SeqCst);
                    let now = ns(base);
                    if now < before {
                        backwards.fetch_add(1, Ordering::Relaxed);
                        worst.fetch_max(before - now, Ordering::Relaxed);
                    }
                    latest.fetch_max(now, Ordering::SeqCst);
                }
            });
        }
    });
    println!(
        "reads {} backwards {} worst {} processors {}",
        reads / threads * threads,
        backwards.into_inner(),
        worst.into_inner(),
        processors.into_inner().count_ones()
    );
}
