//! Runs in the guest: how long do copies of a busy loop take side by side?
//!
//! `busy TURNS COPIES...`: for each number of COPIES, starts so many threads
//! that each make TURNS turns of a loop of a few instructions, waits for all,
//! and prints the copies and the nanoseconds from the first one's start to the last one's end.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("a number"));
    let turns = words.next().expect("how many turns");
    for copies in words {
        let barrier = Barrier::new(copies as usize);
        let (first, last) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..copies)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        let begun = Instant::now();
                        let mut value = 1u64;
                        for _ in 0..turns {
                            value = black_box(value.wrapping_mul(3));
                        }
                        black_box(value);
                        (begun, Instant::now())
                    })
                })
                .collect();
            let times: Vec<_> =
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            let first = times.iter().map(|&(begun, _)| begun).min().expect("a copy");
            let last = times.iter().map(|&(_, ended)| ended).max().expect("a copy");
            (first, last)
        });
        let ns = (last - first).as_nanos();
        println!("copies {copies} ns {ns}");
    }
}
