//! Measures how many I/Os a second a drive simulates on one core:
//! `cargo run --release -p stasis-flash --example ssd_speed [GIGABYTES...]`;
//! with the word `sequential` among them only reads, of a drive that was written in
//! order, which takes less time to make; with `uncollected` also the mixed load on such
//! a drive, which collects nothing as long as its writes fit in the spare; with `reads`
//! or `mixed` only those, and with `short` a tenth of them, for a profiler that counts
//! instructions.
//!
//! 8 channels of 16 LUNs with 2 planes; uniformly random 4 KiB at queue depth
//! 256; reads, and 70 % reads with 30 % writes in steady state.

#![allow(clippy::disallowed_methods, reason = "a measurement has a clock")]

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Completion, Model, Operation};
use stasis_flash::spec::{GcSpec, Precondition};
use stasis_flash::{Spec, Ssd};

const DEPTH: u32 = 256;
/// Flash beyond the capacity: as in MQSim's example.
const SPARE: f64 = 0.127;
const GB: u64 = 1_000_000_000;

/// Seconds that a core worked for this process: the machine may have others.
fn worked() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = statistics.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    ns.unwrap_or(0.0) / 1e9
}

/// Commands with `DEPTH` in flight until `count` completed; those a second.
fn rate(ssd: &mut Ssd, start: &mut u64, count: u64, reads: u64) -> f64 {
    let units = ssd.capacity() / 4096;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut next = || {
        let bits = random.next_u64();
        let unit = ((u128::from(random.next_u64()) * u128::from(units)) >> 64) as u64;
        let operation = if bits % 100 < reads { Operation::Read } else { Operation::Write };
        Command::new(operation, unit * 4096, 4096)
    };
    let began = worked();
    let mut done: Vec<Completion> = Vec::new();
    (0..DEPTH).for_each(|tag| ssd.submit(*start, tag, &next()));
    let (mut completed, mut flying) = (0, DEPTH);
    while flying > 0 {
        let Some(at) = ssd.next_event() else { break };
        ssd.advance(at, &mut done);
        for completion in done.drain(..) {
            completed += 1;
            flying -= 1;
            if completed + u64::from(flying) < count {
                ssd.submit(at, completion.tag, &next());
                flying += 1;
            }
        }
        *start = at;
    }
    completed as f64 / (worked() - began)
}

fn main() {
    let mut sizes: Vec<u64> =
        std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![8, 64];
    }
    let asked = |name: &str| std::env::args().any(|word| word == name);
    let uncollected = asked("uncollected");
    let in_order = asked("sequential") || uncollected;
    let share = if asked("short") { 10 } else { 1 };
    let (reading, mixing) = (!asked("mixed"), !asked("reads") && (!in_order || uncollected));
    println!("capacity  unit   build     reads/s   mixed/s  WA");
    for size in sizes {
        let capacity = size * GB;
        let unit = if size > 2_000 { 16_384 } else { 4_096 };
        let spec = Spec {
            channels: 8,
            luns: 16,
            planes: 2,
            pages: Some(if size > 100 { 1024 } else { 64 }),
            page_size: unit,
            mapping_unit: unit,
            over_provisioning: Some(SPARE),
            cells: "slc".into(),
            buffer: 0,
            precondition: Some(if in_order {
                Precondition::Sequential
            } else {
                Precondition::Steady
            }),
            gc: GcSpec::default(),
            ..Spec::default()
        };
        let began = worked();
        let mut ssd = match Ssd::new(&spec, capacity, 1) {
            Ok(ssd) => ssd,
            Err(refusal) => {
                println!("{size} GB: {refusal}");
                continue;
            }
        };
        let build = worked() - began;
        let mut now = 0;
        rate(&mut ssd, &mut now, 100_000, 100);
        let reads = if reading { rate(&mut ssd, &mut now, 4_000_000 / share, 100) } else { 0.0 };
        let mixed = if mixing { rate(&mut ssd, &mut now, 2_000_000 / share, 70) } else { 0.0 };
        let amplification = ssd.context().write_amplification();
        println!(
            "{size:>5} GB {unit:>6} {build:>6.1} s {reads:>11.0} {mixed:>9.0}  {amplification:.2}"
        );
    }
}
