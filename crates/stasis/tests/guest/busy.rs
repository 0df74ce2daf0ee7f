//! Runs in the guest: how long do copies of a busy loop take side by side?
//!
//! `busy TURNS COPIES...`: for each number of COPIES, starts so many threads
//! that each make TURNS turns of a loop of a few instructions, waits for all,
//! and prints the copies and the nanoseconds from start to end.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>().expect("a number"));
    let turns = words.next().expect("how many turns");
    for copies in words {
        let barrier = Barrier::new(copies as usize + 1);
        let ns = std::thread::scope(|scope| {
            for _ in 0..copies {
                scope.spawn(|| {
                    barrier.wait();
                    let mut value = 1u64;
                    for _ in 0..turns {
                        value = black_box(value.wrapping_mul(3));
                    }
                    black_box(value);
                    barrier.wait();
                });
            }
            barrier.wait();
            let begun = Instant::now();
            barrier.wait();
            begun.elapsed().as_nanos()
        });
        println!("copies {copies} ns {ns}");
    }
}
