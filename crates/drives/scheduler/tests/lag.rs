//! The guarantee of B-WF2Q+, at the end of every budget and at every instant.
//! `docs/reference/schedulers.md` derives both formulas.

use crate::common::Numbers;
use proptest::prelude::*;
use stasis_block::clock::{MILLISECOND, SECOND};
use stasis_block::{Command, Operation};
use stasis_scheduler::{sectors, Bfq, BfqSpec, QueueId, QueueSpec, QueuedRequest, Scheduler};

/// Observable state of a queue.
struct Watched {
    id: QueueId,
    weight: u64,
    waiting: u32,
    got: u64,
    // Its largest budget.
    largest: u64,
    // The least of its share's part of all service less its own, since it last
    // came to have something to do.
    least: i128,
}

/// Queues on a drive that is always as quick.
struct Watch {
    bfq: Bfq,
    queues: Vec<Watched>,
    total: u64,
    served: u64,
    now: u64,
    // By tag: whose, and of how many sectors.
    requests: Vec<(usize, u64)>,
    // The worst lags, as parts of their bounds.
    worst: f64,
}

impl Watch {
    fn new(weights: &[u32], max_budget: u64) -> Self {
        let spec = BfqSpec {
            max_budget: max_budget * 512,
            low_latency: false,
            charge_time: false,
            idle: 0,
            // A late request would go whatever the budget.
            expire_sync: 100_000 * SECOND,
            ..BfqSpec::default()
        };
        let mut bfq = Bfq::new(spec);
        let queues = weights.iter().map(|&weight| {
            let id = bfq.create(0, &QueueSpec::weighted(weight));
            let (weight, largest) = (u64::from(weight), max_budget);
            Watched { id, weight, waiting: 0, got: 0, largest, least: 0 }
        });
        let queues: Vec<_> = queues.collect();
        let total = queues.iter().map(|queue| queue.weight).sum();
        let (served, now, requests, worst) = (0, 0, Vec::new(), 0.0);
        Self { bfq, queues, total, served, now, requests, worst }
    }

    /// Its weight's part of all service less its own, in sectors times the sum
    /// of all weights.
    fn lag(&self, queue: &Watched) -> i128 {
        i128::from(queue.weight) * i128::from(self.served)
            - i128::from(queue.got) * i128::from(self.total)
    }

    fn ask(&mut self, at: usize, place: u64, size: u64) {
        let command = Command::new(Operation::Read, place * 512, size * 512);
        let tag = self.requests.len() as u32;
        if self.queues[at].waiting == 0 {
            self.queues[at].least = self.lag(&self.queues[at]);
        }
        let queue = &mut self.queues[at];
        queue.largest = queue.largest.max(size);
        queue.waiting += 1;
        // Urgency to the owner changes nothing between queues.
        let request =
            QueuedRequest { urgent: place.is_multiple_of(3), ..QueuedRequest::new(tag, command) };
        self.bfq.add(self.now, queue.id, &request).unwrap();
        self.requests.push((at, sectors(&command)));
    }

    /// The drive takes a request. `ends`: every request is a budget's end.
    fn serve(&mut self, ends: bool) -> Result<bool, TestCaseError> {
        let Some(tag) = self.bfq.dispatch(self.now) else { return Ok(false) };
        let (owner, size) = self.requests[tag as usize];
        self.served += size;
        self.queues[owner].got += size;
        let most = self.queues.iter().map(|queue| queue.largest).max().unwrap_or(0);
        for at in 0..self.queues.len() {
            let (queue, lag) = (&self.queues[at], self.lag(&self.queues[at]));
            if queue.waiting == 0 {
                continue;
            }
            let least = queue.least.min(lag);
            // B_i (1 - phi) is the amount it may have been ahead, B phi the amount it may be behind
            // at a budget's end, B_i (1 - phi) the rest of the budget: all in parts of a sector,
            // one over the sum of all weights.
            let share = |size: u64, weight: u64| i128::from(size) * i128::from(weight);
            let own = share(queue.largest, self.total - queue.weight);
            let others = share(most, queue.weight);
            let bound = if ends && at == owner { own + others } else { 2 * own + others };
            let fell = lag - least;
            prop_assert!(
                fell <= bound,
                "weight {} of {}: {fell} > {bound}",
                queue.weight,
                self.total
            );
            self.worst = self.worst.max(fell as f64 / share(most, self.total) as f64);
            self.queues[at].least = least;
        }
        self.queues[owner].waiting -= 1;
        self.now += MILLISECOND / 10;
        self.bfq.complete(self.now, tag);
        Ok(true)
    }
}

/// Some requests come to a queue, then the drive takes some.
type Step = (usize, u64, u32, u32);

fn run(
    weights: &[u32],
    max: u64,
    steps: Vec<Step>,
    seed: u64,
    ends: bool,
) -> Result<(), TestCaseError> {
    let (mut watch, mut numbers) = (Watch::new(weights, max), Numbers(seed));
    for (at, size, requests, dispatches) in steps {
        for _ in 0..requests {
            let size = 1 + numbers.next(size);
            watch.ask(at % weights.len(), numbers.next(1 << 30), size);
        }
        for _ in 0..dispatches {
            if !watch.serve(ends)? {
                break;
            }
        }
    }
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0usize..9, 1u64..=300, 1u32..20, 1u32..60), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// For every queue i with something to do throughout any [t1, t2]:
    /// phi W(t1, t2) - W_i(t1, t2) <= 2 B_i (1 - phi) + B phi.
    #[test]
    fn service_lags_by_no_more_than_the_bound_at_any_instant(
        weights in prop::collection::vec(1u32..=20, 2..9),
        max in 1u64..=256,
        steps in steps(),
        seed in any::<u64>(),
    ) {
        run(&weights, max, steps, seed, false)?;
    }

    /// Bound if t2 is the end of one of the queue's budgets: B_i + (B - B_i) phi, WF2Q+'s
    /// worst-case fair index (Bennett and Zhang 1997) with budgets in the place of
    /// packets (Valente and Checconi 2010). Here every request is a budget.
    #[test]
    fn service_lags_by_no_more_than_the_fair_index_at_budgets_ends(
        weights in prop::collection::vec(1u32..=20, 2..9),
        steps in steps(),
        seed in any::<u64>(),
    ) {
        run(&weights, 1, steps, seed, true)?;
    }
}

/// Between the ends of its budgets a queue can be nearly two of them behind: it
/// goes first, then the others, and then the others again, whose budgets now are a
/// little smaller and so end earlier.
#[test]
fn the_bound_is_about_reached() {
    let others = 19;
    let mut watch = Watch::new(&vec![10; others + 1], 1);
    for turn in 0..8 {
        let size = if turn == 0 { 1001 } else { 998 };
        (0..=others).for_each(|at| watch.ask(at, turn * 4096, if at == 0 { 1000 } else { size }));
    }
    while watch.serve(true).unwrap() {}
    assert!(watch.worst > 1.85, "{}", watch.worst);
}
