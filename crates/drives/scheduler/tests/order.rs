//! Properties of every scheduler, and the orders of some.

use crate::common::Numbers;
use proptest::prelude::*;
use stasis_block::clock::{Nanos, MILLISECOND};
use stasis_block::{Command, Operation};
use stasis_scheduler::{
    BfqSpec, Class, ClookSpec, DeadlineSpec, Dispatcher, Parameters, Priority, QueueId, QueueSpec,
    QueuedRequest, Refused, Registered, Scheduler, SchedulerKind, SchedulerSpec, KINDS,
};

fn build(kind: usize) -> Box<dyn Scheduler> {
    SchedulerSpec::parse(KINDS[kind].name).unwrap().build()
}

fn queue_spec(class: u8, level: u8, weight: Option<u32>) -> QueueSpec {
    let class = [Class::RealTime, Class::BestEffort, Class::Idle][usize::from(class % 3)];
    QueueSpec {
        weight,
        priority: Priority { class, level },
        ordered: level.is_multiple_of(2),
        ..QueueSpec::default()
    }
}

fn any_command() -> impl Strategy<Value = Command> {
    (0u8..8, prop_oneof![0u64..1 << 20, any::<u64>()], prop_oneof![1u64..1 << 20, any::<u64>()])
        .prop_map(|(operation, offset, length)| {
            Command::new(Operation::from_number(operation).unwrap(), offset, length)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// For any requests, each leaves once, and a scheduler that holds back gives the time until
    /// which it does, or has something in flight.
    #[test]
    fn each_request_leaves_once(
        kind in 0..KINDS.len(),
        depth in 1u32..5,
        groups in 0u32..3,
        queues in prop::collection::vec((0u8..3, 0u8..9, prop::option::of(0u32..2000)), 1..6),
        steps in prop::collection::vec(
            (0usize..6, prop::option::of(any_command()), 0u64..20 * MILLISECOND, 0u8..12, any::<u16>()),
            1..120,
        ),
    ) {
        let mut dispatcher = Dispatcher::new(build(kind), depth);
        let groups: Vec<_> = (0..groups).map(|at| dispatcher.scheduler().create_group(at * 700)).collect();
        let ids: Vec<_> = queues.iter().enumerate().map(|(at, &(class, level, weight))| {
            let group = groups.get(at % 4).copied();
            dispatcher.scheduler().create(0, &QueueSpec { group, ..queue_spec(class, level, weight) })
        }).collect();
        let (mut now, mut tag, mut sent) = (0, 0u32, Vec::new());
        let mut in_flight = std::collections::VecDeque::new();
        let mut gone = vec![false; ids.len()];
        for (at, command, pause, action, priority) in steps {
            now += pause;
            let at = at % ids.len();
            match action {
                0 => dispatcher.scheduler().help(now, ids[at], true),
                1 => dispatcher.scheduler().help(now, ids[at], false),
                2 if pause < MILLISECOND => {
                    // Goes when it is empty, and takes nothing more.
                    let held = dispatcher.waiting() + dispatcher.in_flight();
                    if held == 0 {
                        dispatcher.scheduler().remove(now, ids[at]);
                        gone[at] = true;
                    }
                }
                _ => {}
            }
            if let Some(command) = command {
                let request = QueuedRequest::new(tag, Command { priority, ..command });
                match dispatcher.submit(now, ids[at], &request) {
                    Ok(()) => tag += 1,
                    Err(refused) => {
                        prop_assert_eq!(refused, Refused::Queue(ids[at]));
                        prop_assert!(gone[at]);
                    }
                }
                prop_assert!(!gone[at] || dispatcher.waiting() <= tag as usize);
            }
            while let Some(tag) = dispatcher.next(now).map(|next| next.tag) {
                in_flight.push_back(tag);
                sent.push(tag);
            }
            prop_assert!(in_flight.len() <= depth as usize);
            if action > 5 {
                if let Some(tag) = in_flight.pop_front() {
                    dispatcher.complete(now, tag);
                }
            }
        }
        loop {
            while let Some(tag) = dispatcher.next(now).map(|next| next.tag) {
                in_flight.push_back(tag);
                sent.push(tag);
            }
            if let Some(tag) = in_flight.pop_front() {
                now += MILLISECOND;
                dispatcher.complete(now, tag);
            } else if let Some(next) = dispatcher.next_event() {
                prop_assert!(next > now, "it waits for what has been");
                now = next;
            } else {
                break;
            }
        }
        prop_assert_eq!(dispatcher.waiting(), 0);
        sent.sort_unstable();
        prop_assert_eq!(sent, (0..tag).collect::<Vec<_>>());
    }

    /// One request of the least of all queues, against others that always have
    /// more, of any class, at any one place or everywhere.
    #[test]
    fn nothing_starves(
        kind in 0..KINDS.len(),
        others in prop::collection::vec((0u8..3, 0u8..8, 1u32..=50, 0u8..4, any::<bool>()), 1..5),
        place in 0u64..1 << 30,
        write in any::<bool>(),
        seed in any::<u64>(),
    ) {
        // A queue of weight 1 has waited long enough when all others have had its
        // budget times their weights: with 64 KiB and four of 50, raised by 30, for
        // which a flood of flushes takes longest, that is 200 s.
        let mut spec = SchedulerSpec::parse(KINDS[kind].name).unwrap();
        if let Some(bfq) = spec.kind.get::<BfqSpec>() {
            spec.kind = SchedulerKind::of(BfqSpec { max_budget: 64 << 10, ..*bfq });
        }
        let mut scheduler = spec.build();
        let mut numbers = Numbers(seed);
        let victim = scheduler.create(0, &queue_spec(2, 7, Some(1)));
        let ids: Vec<QueueId> = others.iter().map(|&(class, level, weight, ..)| {
            scheduler.create(0, &queue_spec(class, level, Some(weight)))
        }).collect();
        let mut owners = vec![usize::MAX];
        let mut add = |scheduler: &mut dyn Scheduler, now, at: usize, tag: u32| {
            let (_, _, _, kind, helped) = others[at];
            if helped {
                scheduler.help(now, ids[at], true);
            }
            let command = match kind {
                0 => Command::flush(),
                1 => Command::new(Operation::Read, place, 4096),
                2 => Command::new(Operation::Write, numbers.next(1 << 30), 65_536),
                _ => Command::new(Operation::Read, numbers.next(1 << 30), 65_536),
            };
            scheduler.add(now, ids[at], &QueuedRequest::new(tag, command)).unwrap();
        };
        for at in 0..others.len() * 4 {
            add(scheduler.as_mut(), 0, at % others.len(), owners.len() as u32);
            owners.push(at % others.len());
        }
        let operation = if write { Operation::Write } else { Operation::Read };
        let request = QueuedRequest::new(0, Command::new(operation, place, 4096));
        scheduler.add(0, victim, &request).unwrap();
        // Each request takes 2 ms.
        let (mut now, mut at) = (0, None);
        while now < 400_000 * MILLISECOND {
            let Some(tag) = scheduler.dispatch(now) else {
                now = scheduler.next_event().unwrap().max(now + 1);
                continue;
            };
            if tag == 0 {
                at = Some(now);
                break;
            }
            now += 2 * MILLISECOND;
            scheduler.complete(now, tag);
            add(scheduler.as_mut(), now, owners[tag as usize], tag);
        }
        prop_assert!(at.is_some(), "{} starves it", scheduler.name());
    }

    /// Upwards from the last, then from the lowest again.
    #[test]
    fn clook_goes_up_and_begins_again(
        steps in prop::collection::vec((prop::collection::hash_set(0u64..1000, 0..8), 0usize..8), 1..40),
    ) {
        let mut clook = ClookSpec {}.build();
        let queues = [clook.create(0, &QueueSpec::default()), clook.create(0, &QueueSpec::default())];
        let (mut waiting, mut last) = (std::collections::BTreeSet::new(), 0);
        for (places, dispatches) in steps {
            for place in places {
                if waiting.insert(place) && place != last {
                    let command = Command::new(Operation::Write, place, 512);
                    let request = QueuedRequest::new(place as u32, command);
                    clook.add(0, queues[place as usize % 2], &request).unwrap();
                } else if place == last {
                    waiting.remove(&place);
                }
            }
            for _ in 0..dispatches {
                let next = waiting.range(last..).next().or(waiting.first()).copied();
                prop_assert_eq!(clook.dispatch(0).map(u64::from), next);
                let Some(next) = next else { break };
                clook.complete(0, next as u32);
                waiting.remove(&next);
                last = next;
            }
        }
    }

    /// A request that is late is overtaken by no more than the batches that its
    /// elders of the same direction begin, each with a batch of the other
    /// direction, the one under way, and one each to end.
    #[test]
    fn deadline_overtakes_the_late_by_batches_only(
        batch in 1u32..8,
        starved in 1u32..4,
        rounds in prop::collection::vec((0u64..1 << 30, any::<bool>(), 1u64..40), 50..400),
    ) {
        let (expire, step) = (20 * MILLISECOND, MILLISECOND);
        let spec = DeadlineSpec {
            read_expire: expire,
            write_expire: 2 * expire,
            batch,
            writes_starved: starved,
            ..DeadlineSpec::default()
        };
        let mut deadline = spec.build();
        let queue = deadline.create(0, &QueueSpec::default());
        // By tag: whether it reads, when it is late, and then: how many may yet
        // go before it.
        let mut waiting: std::collections::BTreeMap<u32, (bool, Nanos, Option<u64>)> = Default::default();
        let mut now = 0;
        for (tag, (place, reads, pause)) in rounds.into_iter().enumerate() {
            let operation = if reads { Operation::Read } else { Operation::Write };
            let request = QueuedRequest::new(tag as u32, Command::new(operation, place, 512));
            deadline.add(now, queue, &request).unwrap();
            let late = now + if reads { expire } else { 2 * expire };
            waiting.insert(tag as u32, (reads, late, None));
            // A burst each ten requests.
            if tag % 10 != 9 {
                continue;
            }
            for _ in 0..pause {
                for tag in waiting.keys().copied().collect::<Vec<_>>() {
                    let (reads, late, overtakings) = waiting[&tag];
                    if late <= now && overtakings.is_none() {
                        let elders = waiting.range(..tag).filter(|other| other.1.0 == reads).count();
                        // For a batch of reads one of writes at most; for one of
                        // writes, as many of reads as may starve them.
                        let with = if reads { 2 } else { 1 + u64::from(starved) };
                        let batches = (elders as u64 + 2) * with + 1;
                        waiting.insert(tag, (reads, late, Some(batches * u64::from(batch))));
                    }
                }
                let Some(sent) = deadline.dispatch(now) else { break };
                deadline.complete(now, sent);
                waiting.remove(&sent);
                for (tag, (.., overtakings)) in &mut waiting {
                    if let Some(overtakings) = overtakings {
                        prop_assert!(*overtakings > 0, "{tag} is overtaken again");
                        *overtakings -= 1;
                    }
                }
                now += step;
            }
        }
    }
}

/// A barrier holds its own queue, and only that.
#[test]
fn barriers_hold_their_queue() {
    for (kind, Registered { name, .. }) in KINDS.iter().enumerate() {
        let mut dispatcher = Dispatcher::new(build(kind), 8);
        let one = dispatcher.scheduler().create(0, &QueueSpec::default());
        let other = dispatcher.scheduler().create(0, &QueueSpec::default());
        let write = |place| Command::new(Operation::Write, place, 4096);
        let commands = [
            write(1 << 20),
            write(2 << 20),
            Command::barrier(),
            write(4096),
            Command::barrier(),
            write(0),
        ];
        // Nothing leaves while there is no room: the drive is full of the other's.
        for tag in 100..108 {
            dispatcher
                .submit(0, other, &QueuedRequest::new(tag, write(u64::from(tag) << 30)))
                .unwrap();
            assert_eq!(dispatcher.next(0).map(|next| next.tag), Some(tag));
        }
        for (tag, command) in commands.into_iter().enumerate() {
            dispatcher.submit(0, one, &QueuedRequest::new(tag as u32, command)).unwrap();
        }
        dispatcher.submit(0, other, &QueuedRequest::new(200, write(0))).unwrap();
        assert_eq!((dispatcher.waiting(), dispatcher.next(0).map(|next| next.tag)), (7, None));
        let mut order = Vec::new();
        let mut now = 0;
        (100..108).for_each(|tag| dispatcher.complete(0, tag));
        while dispatcher.waiting() > 0 {
            match dispatcher.next(now).map(|next| next.tag) {
                Some(tag) => {
                    order.push(tag);
                    dispatcher.complete(now, tag);
                }
                None => now = dispatcher.next_event().unwrap(),
            }
        }
        order.retain(|&tag| tag != 200);
        order[..2].sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5], "{name}");
    }
}

#[test]
fn what_is_wrong_is_refused() {
    for kind in 0..KINDS.len() {
        let mut scheduler = build(kind);
        let queue = scheduler.create(0, &QueueSpec::default());
        let request = QueuedRequest::new(7, Command::new(Operation::Read, 0, 512));
        assert_eq!(scheduler.add(0, QueueId(9), &request), Err(Refused::Queue(QueueId(9))));
        assert_eq!(scheduler.add(0, queue, &request), Ok(()));
        assert_eq!(scheduler.add(0, queue, &request), Err(Refused::Tag(7)));
        scheduler.complete(0, 7);
        assert_eq!(scheduler.waiting(), 1, "it is not in flight");
        assert_eq!(scheduler.dispatch(0), Some(7));
        assert_eq!(scheduler.add(0, queue, &request), Err(Refused::Tag(7)));
        scheduler.remove(0, queue);
        scheduler.remove(0, QueueId(9));
        scheduler.help(0, QueueId(9), true);
        scheduler.complete(0, 7);
        assert_eq!(scheduler.add(0, queue, &request), Err(Refused::Queue(queue)));
        assert_eq!(scheduler.dispatch(0), None);
    }
}
