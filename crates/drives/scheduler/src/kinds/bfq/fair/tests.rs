use super::*;
use proptest::prelude::*;

/// Returns the next entity by the rule, from a search of all: of those whose start is not after
/// virtual time, which advances to the first start if there is none, or that are urgent, the one
/// with the least finish.
fn next(fair: &Fair, entities: &Entities, ids: &[u32]) -> Option<u32> {
    let waiting = || ids.iter().copied().filter(|&id| entities[id].is_waiting());
    let now = waiting().map(|id| entities[id].start).min()?.max(fair.now);
    let may = waiting().filter(|&id| entities[id].start <= now || entities[id].urgent);
    may.min_by_key(|&id| (entities[id].finish, id))
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
        let (mut fair, mut entities) = (Fair::default(), Entities::default());
        let add = |entities: &mut Entities, id: u32| {
            entities.insert(Entity::new(Owner::Queue(id), 1 + u64::from(id) % weights))
        };
        let ids: Vec<u32> = (0..count).map(|id| add(&mut entities, id)).collect();
        let mut served = None;
        for (id, action, number) in steps {
            let id = id % count;
            match action {
                0..=2 if entities[id].is_idle() => fair.activate(&mut entities, id, number),
                3 => fair.budget(&mut entities, id, number),
                4 => fair.reweigh(&mut entities, id, number),
                5 => fair.urge(&mut entities, id, number % 2 == 0),
                6 if entities[id].is_idle() => fair.leave(&mut entities, id),
                7..=8 => {
                    if let Some(id) = served {
                        fair.charge(&mut entities, id, number);
                    }
                }
                _ => {
                    if let Some(id) = served.take() {
                        fair.expire(&mut entities, id, (number < 5).then_some(number));
                    }
                    let expected = next(&fair, &entities, &ids);
                    served = fair.select(&mut entities);
                    prop_assert_eq!(served, expected);
                }
            }
            prop_assert_eq!(fair.peek(&entities), next(&fair, &entities, &ids));
            prop_assert_eq!(fair.is_waiting(), ids.iter().any(|&id| entities[id].is_waiting()));
            let counts = ids.iter().filter(|&&id| entities[id].state != State::Idle);
            prop_assert_eq!(fair.weights, counts.map(|&id| entities[id].weight).sum::<u64>());
        }
    }
}
