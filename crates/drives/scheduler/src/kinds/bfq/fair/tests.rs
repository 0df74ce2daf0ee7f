use super::*;
use proptest::prelude::*;

/// The next entity by the rule, from a search of all: of those whose start is not after virtual
/// time, which advances to the first start if there is none, or that are urgent, the one with the
/// least finish.
fn next(fair: &Fair, of: &Entities, ids: &[u32]) -> Option<u32> {
    let waiting = || ids.iter().copied().filter(|&id| of[id].is_waiting());
    let now = waiting().map(|id| of[id].start).min()?.max(fair.now);
    let may = waiting().filter(|&id| of[id].start <= now || of[id].urgent);
    may.min_by_key(|&id| (of[id].finish, id))
}

proptest! {
    /// After any sequence of arrivals, departures, service and changes of weight, the tournaments
    /// give the next entity, and the sum of weights is that of those who count.
    #[test]
    fn who_is_next_is_who_the_rule_says(
        count in 1u32..24,
        weights in 1u64..4,
        steps in prop::collection::vec((0u32..24, 0u32..12, 1u64..6), 1..400),
    ) {
        let (mut fair, mut of) = (Fair::default(), Entities::default());
        let add = |of: &mut Entities, id: u32| {
            of.insert(Entity::new(Owner::Queue(id), 1 + u64::from(id) % weights))
        };
        let ids: Vec<u32> = (0..count).map(|id| add(&mut of, id)).collect();
        let mut served = None;
        for (id, what, number) in steps {
            let id = id % count;
            match what {
                0..=2 if of[id].is_idle() => fair.activate(&mut of, id, number),
                3 => fair.budget(&mut of, id, number),
                4 => fair.reweigh(&mut of, id, number),
                5 => fair.urge(&mut of, id, number % 2 == 0),
                6 if of[id].is_idle() => fair.leave(&mut of, id),
                7..=8 => {
                    if let Some(id) = served {
                        fair.charge(&mut of, id, number);
                    }
                }
                _ => {
                    if let Some(id) = served.take() {
                        fair.expire(&mut of, id, (number < 5).then_some(number));
                    }
                    let expected = next(&fair, &of, &ids);
                    served = fair.select(&mut of);
                    prop_assert_eq!(served, expected);
                }
            }
            prop_assert_eq!(fair.peek(&of), next(&fair, &of, &ids));
            prop_assert_eq!(fair.is_waiting(), ids.iter().any(|&id| of[id].is_waiting()));
            let counts = ids.iter().filter(|&&id| of[id].state != State::Idle);
            prop_assert_eq!(fair.weights, counts.map(|&id| of[id].weight).sum::<u64>());
        }
    }
}
