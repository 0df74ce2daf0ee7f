//! Runs in the guest: programs that do little but wait for each other.
//!
//! `locks THREADS TURNS`: prints how long each of these takes (ns): two
//! threads that hand a turn to each other through a futex; THREADS that take
//! one spin lock; THREADS that take work from one queue.

use std::collections::VecDeque;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::Mutex;
use std::time::Instant;

fn work(turns: u64) {
    let mut value = 1u64;
    for _ in 0..turns {
        value = black_box(value.wrapping_mul(3));
    }
    black_box(value);
}

fn ping_pong(turns: u64) {
    let ((to, from), (back, returned)) = (channel(), channel());
    std::thread::scope(|scope| {
        scope.spawn(move || from.iter().for_each(|turn: u64| back.send(turn).expect("a listener")));
        for turn in 0..turns {
            to.send(turn).expect("a listener");
            assert_eq!(returned.recv(), Ok(turn));
        }
        drop(to);
    });
}

fn spin_lock(threads: u64, turns: u64) {
    let (taken, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..turns {
                    while taken.swap(true, Ordering::Acquire) {
                        spin_loop();
                    }
                    // Not atomic together: only the lock makes it right.
                    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    taken.store(false, Ordering::Release);
                    work(200);
                }
            });
        }
    });
    assert_eq!(count.into_inner(), threads * turns);
}

fn queue(threads: u64, turns: u64) {
    let queue: Mutex<VecDeque<u64>> = Mutex::new((0..threads * turns).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| loop {
                let next = queue.lock().expect("no panic").pop_front();
                if next.is_none() {
                    break;
                }
                work(2_000);
            });
        }
    });
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("a number"));
    let threads = words.next().expect("how many threads");
    let turns = words.next().expect("how many turns");
    let time = |name: &str, run: &dyn Fn()| {
        let begun = Instant::now();
        run();
        println!("{name} {}", begun.elapsed().as_nanos());
    };
    time("ping-pong", &|| ping_pong(turns));
    time("spin-lock", &|| spin_lock(threads, turns));
    time("queue", &|| queue(threads, turns));
}
