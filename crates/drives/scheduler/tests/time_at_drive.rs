//! The time that a queue's requests had at the drive, whichever scheduler chose them.

use proptest::prelude::*;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation};
use stasis_scheduler::{Dispatcher, QueueId, QueueSpec, QueuedRequest, SchedulerSpec};

/// Serves what is there, one request after the other, each for its queue's time. Returns when the last one
/// ends.
fn serve(dispatcher: &mut Dispatcher, times: &[Nanos], owners: &[usize], mut now: Nanos) -> Nanos {
    loop {
        if let Some(next) = dispatcher.next(now) {
            now += times[owners[next.tag as usize]];
            dispatcher.complete(now, next.tag);
        } else if dispatcher.waiting() > 0 {
            now = now.max(dispatcher.next_event().expect("what waits has an event"));
        } else {
            return now;
        }
    }
}

proptest! {
    #[test]
    fn each_queue_has_the_time_of_its_requests(
        requests in proptest::collection::vec((0usize..3, 0u64..1000), 1..60),
        times in proptest::collection::vec(1u64..10_000_000, 3),
        kinds in proptest::sample::subsequence(vec!["bfq", "cfq", "deadline", "clook", "none"], 2),
    ) {
        let make = |kind: &str| {
            let mut scheduler = SchedulerSpec::parse(kind).unwrap().build();
            let queues: Vec<QueueId> =
                times.iter().map(|_| scheduler.create(0, &QueueSpec::default())).collect();
            (scheduler, queues)
        };
        let (scheduler, queues) = make(kinds[0]);
        let mut dispatcher = Dispatcher::new(scheduler, 1);
        let owners: Vec<usize> = requests.iter().map(|(owner, _)| *owner).collect();
        let (first, rest) = requests.split_at(requests.len() / 2);
        let submit = |dispatcher: &mut Dispatcher, now, from: usize, part: &[(usize, u64)]| {
            for (tag, (owner, block)) in (from..).zip(part) {
                let command = Command::new(Operation::Read, block * 4096, 4096);
                let request = QueuedRequest::new(tag as u32, command);
                dispatcher.submit(now, queues[*owner], &request).unwrap();
            }
        };
        submit(&mut dispatcher, 0, 0, first);
        let now = serve(&mut dispatcher, &times, &owners, 0);
        // A successor goes on counting.
        dispatcher.replace(now, make(kinds[1]).0, 1);
        submit(&mut dispatcher, now, first.len(), rest);
        let end = serve(&mut dispatcher, &times, &owners, now);
        for (number, queue) in queues.iter().enumerate() {
            let own = owners.iter().filter(|owner| **owner == number).count() as u64;
            let statistics = dispatcher.statistics(end, *queue);
            prop_assert_eq!((statistics.requests, statistics.at_drive), (own, own * times[number]));
        }
    }
}
