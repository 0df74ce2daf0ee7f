//! Prints how many I/Os a second of its thread's processor time each named
//! model serves: `cargo run --release -p stasis-models --example speed`.

#![allow(clippy::disallowed_methods, reason = "a measurement has a clock")]

use std::time::Instant;

use stasis_block::{Command, Operation};
use stasis_models::{BuildContext, NAMED};

/// Commands per measurement, and in flight.
const COMMANDS: u32 = 2_000_000;
const DEPTH: u32 = 32;
/// The drive's size: 4 GiB of blocks of 4 KiB.
const BLOCKS: u64 = 1 << 20;

/// The time (s) that this thread has had a processor (proc(5), `schedstat`), so
/// that other programs do not count; by the clock where the system keeps none.
fn busy_seconds(begin: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split_whitespace().next()?.parse::<u64>().ok());
    nanos.map_or_else(|| begin.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

fn main() {
    let start = Instant::now();
    for named in NAMED {
        for operation in [Operation::Read, Operation::Write] {
            let context = BuildContext { seed: 1, capacity: BLOCKS * 4096, path: 0 };
            let mut model = named.spec().build(&context).expect("named models fit 4 GiB");
            let mut state = 1u64;
            let mut command = move || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let offset = (state >> 33) % BLOCKS * 4096;
                Command::new(operation, offset, 4096)
            };
            let begin = busy_seconds(start);
            let (mut now, mut done, mut finished) = (0, Vec::with_capacity(64), 0);
            (0..DEPTH).for_each(|tag| model.submit(0, tag, &command()));
            while finished < COMMANDS {
                now = model.next_event().unwrap_or(now).max(now);
                model.advance(now, &mut done);
                finished += done.len() as u32;
                for completion in done.drain(..) {
                    model.submit(now, completion.tag, &command());
                }
            }
            let rate = f64::from(finished) / (busy_seconds(start) - begin);
            let (name, operation) = (named.name, operation.name());
            println!("{name:16} {operation:5} {:8.2} million I/Os per second", rate / 1e6);
        }
    }
}
