//! Prints how many NAND operations a second of its thread's processor time the
//! array serves: `cargo run --release -p stasis-nand --example nand_speed`.

#![allow(clippy::disallowed_methods, reason = "a measurement has a clock")]

use std::time::Instant;

use stasis_nand::{Array, ArrayConfig, ArrayOptions, Op, OpKind, PlaneMode, Priority, Scheduling};
use stasis_nand::{CellPattern, Geometry, PageAddress, PlaneId, Timing, Variation};

/// Operations per measurement, and in flight.
const OPERATIONS: u64 = 4_000_000;
const DEPTH: u64 = 256;
/// 8 channels, 8 chips of 2 dies each, 2 planes.
const GEOMETRY: Geometry = Geometry {
    channels: 8,
    luns: 16,
    planes: 2,
    blocks: 1024,
    pages: 512,
    page_size: 16_384,
    oob_size: 1024,
};

/// The time (s) that this thread has had a processor (proc(5), `schedstat`), so
/// that other programs do not count; by the clock where the system keeps none.
fn busy_seconds(begin: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split_whitespace().next()?.parse::<u64>().ok());
    nanos.map_or_else(|| begin.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

/// Random 4 KiB operations, of which `reads` in ten are reads, at a fixed depth.
fn measure(name: &str, reads: u64, command: u64, options: ArrayOptions, variation: Variation) {
    let start = Instant::now();
    let cells = CellPattern::parse("LLLLLuLLu(LLuu)*", GEOMETRY.pages).expect("it fits");
    let timing = Timing { command, ..Timing::preset("mlc").expect("it is one") };
    let config = ArrayConfig { variation, ..ArrayConfig::new(GEOMETRY, cells, timing) };
    let mut array = Array::new(config, options);
    let mut state = 1u64;
    let mut next = move |token| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let bits = state >> 20;
        let at = PageAddress {
            plane: PlaneId((bits & 255) as u32),
            block: (bits >> 8 & 1023) as u32,
            page: (bits >> 18 & 511) as u32,
        };
        let read = (bits >> 27) % 10 < reads;
        let (kind, priority) =
            if read { (OpKind::Read, Priority::Read) } else { (OpKind::Program, Priority::Write) };
        Op { kind, at, source: at, bytes: 4096, priority, token, group: 0 }
    };
    let begin = busy_seconds(start);
    (0..DEPTH).for_each(|token| array.submit(0, next(token)));
    let mut last = 0;
    for _ in 0..OPERATIONS {
        let Some(done) = array.pop(u64::MAX) else { break };
        last = done.at;
        array.submit(done.at, next(done.token));
    }
    let host = busy_seconds(start) - begin;
    let (rate, simulated) = (OPERATIONS as f64 / host / 1e6, OPERATIONS as f64 / last as f64 * 1e3);
    println!("{name:44} {rate:6.2} million per second ({simulated:.2} in virtual time)");
}

fn main() {
    let cached = ArrayOptions::default();
    let single = ArrayOptions { cache_register: false, ..cached };
    let none = Variation::default();
    measure("reads", 10, 0, cached, none);
    measure("reads, single register", 10, 0, single, none);
    measure("reads, 200 ns commands", 10, 200, cached, none);
    let spread = Variation { chip: 0.05, block: 0.03, page: 0.02, ..none };
    measure("reads, varied", 10, 0, cached, spread);
    let lockstep =
        ArrayOptions { planes: PlaneMode::Lockstep, scheduling: Scheduling::ReadFirst, ..cached };
    measure("reads, planes in lockstep", 10, 0, lockstep, none);
    measure("70 % reads", 7, 0, cached, none);
    let suspending = ArrayOptions { suspensions: 8, ..lockstep };
    measure("70 % reads, lockstep, suspended for, first", 7, 200, suspending, none);
}
