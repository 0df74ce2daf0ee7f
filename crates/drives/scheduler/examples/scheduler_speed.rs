//! Prints the cost of a request at each scheduler, from add to complete, by number of queues:
//! `cargo run --release -p stasis-scheduler --example scheduler_speed`. Words after `--` choose
//! lines by the beginnings of their names.

#![allow(clippy::disallowed_methods, reason = "a measurement has a clock")]

use std::collections::BTreeMap;
use std::time::Instant;

use stasis_block::{Command, Operation};
use stasis_scheduler::{QueueSpec, QueuedRequest, SchedulerSpec, KINDS};

const REQUESTS: u32 = 500_000;
/// Requests that each queue has waiting.
const DEPTH: u32 = 2;
/// Each figure is the median of this many, taken in turns.
const ROUNDS: usize = 5;
const QUEUES: [u32; 4] = [10, 100, 1_000, 10_000];

/// The time (s) that this thread has had a processor (proc(5), `schedstat`), so
/// that other programs do not count; by the clock where the system keeps none.
fn busy_seconds(begin: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split_whitespace().next()?.parse::<u64>().ok());
    nanos.map_or_else(|| begin.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

/// Pseudo-random numbers of 31 bits (Knuth's MMIX).
fn numbers() -> impl FnMut() -> u64 {
    let mut state = 1u64;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    }
}

/// ns per call, after as many calls as there are requests.
fn timed(waiting: u32, mut call: impl FnMut()) -> f64 {
    (0..waiting).for_each(|_| call());
    let start = Instant::now();
    let begin = busy_seconds(start);
    (0..REQUESTS).for_each(|_| call());
    (busy_seconds(start) - begin) * 1e9 / f64::from(REQUESTS)
}

/// ns per request. `small`: every request is one budget, so that each goes through the tree of
/// queues; otherwise budgets are as by default.
fn cost(kind: &str, queues: u32, small: bool) -> f64 {
    let mut table = serde_json::json!({ "kind": kind });
    if small {
        table["max_budget"] = "4KiB".into();
    }
    let spec: SchedulerSpec = serde_json::from_value(table).expect("the table is right");
    let mut scheduler = spec.build();
    let mut random = numbers();
    let mut ids = Vec::new();
    for _ in 0..queues {
        ids.push(scheduler.create(0, &QueueSpec::weighted(1 + random() as u32 % 1000)));
    }
    let mut owners = Vec::new();
    let mut command = || Command::new(Operation::Read, random() % (1 << 28) * 4096, 4096);
    for tag in 0..queues * DEPTH {
        owners.push(ids[(tag % queues) as usize]);
        let request = QueuedRequest::new(tag, command());
        scheduler.add(0, owners[tag as usize], &request).expect("tags are new");
    }
    let mut now = 0;
    timed(queues * DEPTH, || {
        now += 10_000;
        let tag = scheduler.dispatch(now).expect("requests wait");
        scheduler.complete(now, tag);
        let request = QueuedRequest::new(tag, command());
        scheduler.add(now, owners[tag as usize], &request).expect("the tag is free again");
    })
}

/// ns per request of the least that a C-LOOK can be: the standard library's
/// sorted map, without tags, deadlines, queues.
fn map_cost(queues: u32) -> f64 {
    let (mut random, mut map, mut position) = (numbers(), BTreeMap::new(), (0, 0));
    (0..queues * DEPTH).for_each(|tag| _ = map.insert((random() % (1 << 28), tag), tag));
    timed(queues * DEPTH, || {
        let next = map.range(position..).next().or_else(|| map.iter().next());
        position = *next.expect("requests wait").0;
        let tag = map.remove(&position).expect("it was found");
        map.insert((random() % (1 << 28), tag), tag);
    })
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut lines = KINDS.iter().map(|kind| (kind.name, kind.name, false)).collect::<Vec<_>>();
    lines.push(("bfq, budgets of 4 KiB", "bfq", true));
    lines.push(("a sorted map alone", "", false));
    lines.retain(|line| words.is_empty() || words.iter().any(|word| line.0.starts_with(word)));
    let mut costs = vec![[(); QUEUES.len()].map(|()| Vec::new()); lines.len()];
    for _ in 0..ROUNDS {
        for (row, &(_, kind, small)) in costs.iter_mut().zip(&lines) {
            for (costs, queues) in row.iter_mut().zip(QUEUES) {
                let map = kind.is_empty();
                costs.push(if map { map_cost(queues) } else { cost(kind, queues, small) });
            }
        }
    }
    print!("{:24}", "ns per request");
    QUEUES.iter().for_each(|queues| print!(" {queues:8}"));
    println!("  queues");
    for (row, (name, ..)) in costs.iter_mut().zip(lines) {
        print!("{name:24}");
        for costs in row {
            costs.sort_by(f64::total_cmp);
            print!(" {:8.0}", costs[ROUNDS / 2]);
        }
        println!();
    }
}
