//! The guarantee of B-WF2Q+ at every instant.

mod common;

use common::Numbers;
use proptest::prelude::*;
use stasis_block::{Command, Operation};
use stasis_clock::MILLISECOND;
use stasis_scheduler::{sectors, Bfq, BfqSpec, QueueId, QueueSpec, Request, Scheduler};

/// What is known of a queue from outside.
struct Watched {
    id: QueueId,
    weight: u64,
    waiting: u32,
    got: u64,
    // The least of its share's part of all service less its own, since it last
    // came to have something to do.
    least: i128,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// For every queue i with something to do throughout any [t1, t2]:
    /// phi_i W(t1, t2) - W_i(t1, t2) <= B_i + (B - B_i) phi_i, W in sectors,
    /// phi_i its part of all weights, B the largest budget and B_i its own:
    /// WF2Q+'s worst-case fair index (Bennett and Zhang 1997, the theorem on
    /// WF2Q+) for budgets in the place of packets, as Valente and Checconi 2010
    /// show it for B-WF2Q+. With B_i taken as B that is B. A budget is never
    /// smaller than its first request.
    #[test]
    fn service_lags_by_no_more_than_the_bound(
        weights in prop::collection::vec(1u32..=20, 2..9),
        max in 1u64..=256,
        steps in prop::collection::vec((0usize..9, 1u64..=300, 1u32..20, 1u32..60), 1..120),
        seed in any::<u64>(),
    ) {
        let spec = BfqSpec {
            max_budget: max * 512,
            low_latency: false,
            charge_time: false,
            idle: 0,
            ..BfqSpec::default()
        };
        let mut bfq = Bfq::new(spec);
        let mut queues: Vec<_> = weights.iter().map(|&weight| {
            let id = bfq.create(0, &QueueSpec::weighted(weight));
            Watched { id, weight: u64::from(weight), waiting: 0, got: 0, least: 0 }
        }).collect();
        let total: u64 = queues.iter().map(|queue| queue.weight).sum();
        let (mut now, mut served, mut numbers) = (0, 0u64, Numbers(seed));
        let (mut owners, mut largest) = (Vec::new(), max);
        for (at, size, requests, dispatches) in steps {
            // Some requests come to a queue, then the drive takes some.
            let at = at % queues.len();
            let queue = &mut queues[at];
            for _ in 0..requests {
                let size = 1 + numbers.next(size);
                largest = largest.max(size);
                let offset = numbers.next(1 << 30) * 512;
                let command = Command::new(Operation::Read, offset, size * 512);
                bfq.add(now, queue.id, &Request::new(owners.len() as u32, command)).unwrap();
                owners.push((at, sectors(&command)));
            }
            if queue.waiting == 0 {
                queue.least = lag(queue, served, total);
            }
            queue.waiting += requests;
            for _ in 0..dispatches {
                let Some(tag) = bfq.dispatch(now) else { break };
                let (owner, size) = owners[tag as usize];
                served += size;
                queues[owner].got += size;
                for queue in queues.iter_mut().filter(|queue| queue.waiting > 0) {
                    let lag = lag(queue, served, total);
                    queue.least = queue.least.min(lag);
                    // In parts of a sector: one over the sum of all weights.
                    let bound = i128::from(largest) * i128::from(total);
                    prop_assert!(lag - queue.least <= bound,
                        "weight {} of {total}: {} > {largest}",
                        queue.weight, (lag - queue.least) as f64 / total as f64);
                }
                queues[owner].waiting -= 1;
                now += MILLISECOND / 10;
                bfq.complete(now, tag);
            }
        }
    }
}

/// Its weight's part of all service less its own, in sectors times the sum of
/// all weights.
fn lag(queue: &Watched, served: u64, total: u64) -> i128 {
    i128::from(queue.weight) * i128::from(served) - i128::from(queue.got) * i128::from(total)
}
