//! Prints what a request costs each scheduler, from add to complete, by number
//! of queues: `cargo run --release -p stasis-scheduler --example scheduler_speed`.

use std::time::Instant;

use stasis_block::{Command, Operation};
use stasis_scheduler::{QueueSpec, Request, SchedulerSpec, KINDS};

const REQUESTS: u32 = 2_000_000;
/// Requests that each queue has waiting.
const DEPTH: u32 = 2;

/// The time (s) that this thread has had a processor (proc(5), `schedstat`), so
/// that other programs do not count; by the clock where the system keeps none.
fn busy_seconds(begin: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split_whitespace().next()?.parse::<u64>().ok());
    nanos.map_or_else(|| begin.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

/// ns per request. `small`: every request is a budget of its own, so that each
/// goes through the tree of queues; otherwise budgets are as by default.
fn cost(kind: &str, queues: u32, small: bool) -> f64 {
    let mut table = serde_json::json!({ "kind": kind });
    if small {
        table["max_budget"] = "4KiB".into();
    }
    let spec: SchedulerSpec = serde_json::from_value(table).expect("the table is right");
    let mut scheduler = spec.build();
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut ids = Vec::new();
    for _ in 0..queues {
        ids.push(scheduler.create(0, &QueueSpec::weighted(1 + random() as u32 % 1000)));
    }
    let mut owners = Vec::new();
    let mut command = || Command::new(Operation::Read, random() % (1 << 28) * 4096, 4096);
    for tag in 0..queues * DEPTH {
        owners.push(ids[(tag % queues) as usize]);
        let request = Request::new(tag, command());
        scheduler.add(0, owners[tag as usize], &request).expect("tags are new");
    }
    let (start, mut now) = (Instant::now(), 0);
    let mut serve = |requests| {
        let begin = busy_seconds(start);
        for _ in 0..requests {
            now += 10_000;
            let tag = scheduler.dispatch(now).expect("requests wait");
            scheduler.complete(now, tag);
            let request = Request::new(tag, command());
            scheduler.add(now, owners[tag as usize], &request).expect("the tag is free again");
        }
        (busy_seconds(start) - begin) * 1e9 / f64::from(requests)
    };
    serve(queues * DEPTH);
    serve(REQUESTS)
}

fn main() {
    println!("{:24} {:>8} {:>8} {:>8} {:>8}  queues", "ns per request", 10, 100, 1_000, 10_000);
    let small = [("bfq", true)];
    for (kind, small) in KINDS.map(|(name, _)| (name, false)).into_iter().chain(small) {
        let costs = [10, 100, 1_000, 10_000].map(|queues| cost(kind, queues, small));
        let name = if small { format!("{kind}, budgets of 4 KiB") } else { kind.to_owned() };
        print!("{name:24}");
        costs.iter().for_each(|cost| print!(" {cost:8.0}"));
        println!();
    }
}
