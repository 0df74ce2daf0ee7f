//! Faults inside a guest: when its agent is to bring them about. Owns those to come, and those that the
//! agent has been told of.

use std::collections::{BTreeSet, VecDeque};

use stasis_block::clock::Nanos;
use stasis_channel::{Begins, GuestFault, ScheduledGuestFault};

/// Interval at which an agent that cannot be called asks for a fault whose trigger it does not see
/// (ns). Each time costs the guest some 20,000 instructions, and the host as many exits as any
/// request.
const POLL: Nanos = 5_000_000;

/// A change that an agent is to bring about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Begin(GuestFault),
    End,
}

/// The orders for a guest's agent.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Changes to come, with when they do after the commands' start (ns) and the fault's number.
    coming: VecDeque<(Nanos, u16, Change)>,
    /// Faults that wait for their trigger.
    waiting: Vec<ScheduledGuestFault>,
    /// Time at which the commands began (ns).
    begun: Option<Nanos>,
    /// Numbers of faults that the agent has been told to begin, and has not answered for.
    given: BTreeSet<u16>,
    /// True if the agent is called when a trigger comes that it does not see.
    callable: bool,
}

impl Orders {
    pub(super) fn new(faults: Vec<ScheduledGuestFault>) -> Self {
        let (waiting, scheduled): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|fault| fault.begins != Begins::InTime);
        let mut orders = Self { waiting, ..Self::default() };
        scheduled.into_iter().for_each(|fault| orders.add(fault, 0));
        orders
    }

    /// Replaces the faults that come from `now` (ns) on; those that have begun end as planned. Of
    /// those that lie before, returns the first whose fault is not one of `known`.
    pub(super) fn change(
        &mut self,
        faults: Vec<ScheduledGuestFault>,
        known: &[u16],
        now: Nanos,
    ) -> Option<(u16, Nanos)> {
        let since = self.begun.map_or(0, |begun| now.saturating_sub(begun));
        let ends = |(_, number, change): &&(Nanos, u16, Change)| {
            let begins = self
                .coming
                .iter()
                .any(|(_, other, change)| other == number && matches!(change, Change::Begin(_)));
            *change == Change::End && !begins
        };
        let ends: Vec<_> = self.coming.iter().filter(ends).cloned().collect();
        let late =
            |fault: &ScheduledGuestFault| fault.begins == Begins::InTime && fault.begin < since;
        let (late, faults): (Vec<_>, Vec<_>) = faults.into_iter().partition(late);
        let Self { mut coming, waiting, .. } = Self::new(faults);
        coming.extend(ends);
        coming.make_contiguous().sort_by_key(|(at, ..)| *at);
        (self.coming, self.waiting) = (coming, waiting);
        let unknown = late.into_iter().find(|fault| !known.contains(&fault.number));
        unknown.map(|fault| (fault.number, fault.begin))
    }

    /// Adds a fault whose times count from `since`.
    fn add(&mut self, fault: ScheduledGuestFault, since: Nanos) {
        let ScheduledGuestFault { number, begin, end, fault, .. } = fault;
        let changes = [(Some(begin), Change::Begin(fault)), (end, Change::End)];
        for (at, change) in changes.into_iter().filter_map(|(at, change)| Some((at?, change))) {
            let at = since.saturating_add(at);
            let place = self.coming.partition_point(|(other, ..)| *other <= at);
            self.coming.insert(place, (at, number, change));
        }
    }

    /// The commands begin.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.begun.get_or_insert(now);
    }

    /// Sets whether the agent can be called; if not, the agent asks by itself.
    pub(super) fn be_callable(&mut self, callable: bool) {
        self.callable = callable;
    }

    /// Starts fault `number` at `now` (ns) if it is one of these. Returns whether the agent must be
    /// called.
    pub(super) fn trigger(&mut self, number: u16, now: Nanos) -> bool {
        let Some(begun) = self.begun else { return false };
        let its = self.waiting.iter().find(|fault| fault.number == number).cloned();
        let Some(fault) = its else { return false };
        let elsewhere = fault.begins == Begins::Elsewhere;
        self.add(fault, now.saturating_sub(begun));
        elsewhere && self.callable
    }

    /// Takes the orders that are due at `now` (ns).
    pub(super) fn take(&mut self, now: Nanos) -> stasis_channel::Orders {
        let mut orders = stasis_channel::Orders::default();
        let since = now.saturating_sub(self.begun.unwrap_or(now));
        while self.coming.front().is_some_and(|(at, ..)| *at <= since) {
            match self.coming.pop_front() {
                Some((_, number, Change::Begin(fault))) => orders.begin.push((number, fault)),
                Some((_, number, Change::End)) => {
                    // One that has begun only now is over as well.
                    orders.begin.retain(|(begun, _)| *begun != number);
                    orders.end.push(number);
                }
                None => {}
            }
        }
        let next = self.coming.front().map(|(at, ..)| at - since);
        let waits = |begins| self.waiting.iter().any(|fault| fault.begins == begins);
        let poll = (!self.callable && waits(Begins::Elsewhere)).then_some(POLL);
        orders.after_output = waits(Begins::AtOutput);
        self.given.extend(orders.begin.iter().map(|(number, _)| number));
        orders.again_ns = next.into_iter().chain(poll).min();
        orders
    }

    /// Notes the agent's word that fault `number` has come about. Returns whether the agent was
    /// told to bring it about.
    pub(super) fn come(&mut self, number: u16) -> bool {
        self.given.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(number: u16, begin: Nanos, end: Option<Nanos>, begins: Begins) -> ScheduledGuestFault {
        let fault = GuestFault::ClockDrift { ppm: 100 };
        ScheduledGuestFault { number, begin, end, begins, fault }
    }

    fn numbers(orders: &stasis_channel::Orders) -> (Vec<u16>, Vec<u16>, Option<Nanos>) {
        let begin = orders.begin.iter().map(|(number, _)| *number).collect();
        (begin, orders.end.clone(), orders.again_ns)
    }

    #[test]
    fn orders_come_in_their_time() {
        let faults =
            vec![drift(1, 500, None, Begins::InTime), drift(0, 100, Some(300), Begins::InTime)];
        let mut orders = Orders::new(faults);
        assert_eq!(numbers(&orders.take(9)), (vec![], vec![], Some(100)));
        orders.begin(1_000);
        orders.begin(2_000);
        assert_eq!(numbers(&orders.take(1_099)), (vec![], vec![], Some(1)));
        assert!(!orders.come(0), "it has not been told to");
        assert_eq!(numbers(&orders.take(1_100)), (vec![0], vec![], Some(200)));
        assert!(orders.come(0) && !orders.come(0) && !orders.come(1));
        assert_eq!(numbers(&orders.take(1_310)), (vec![], vec![0], Some(190)));
        assert_eq!(numbers(&orders.take(9_000)), (vec![1], vec![], None));
    }

    #[test]
    fn others_come_from_a_moment_on() {
        let first = drift(0, 100, Some(300), Begins::InTime);
        let mut orders = Orders::new(vec![first.clone(), drift(1, 500, Some(600), Begins::InTime)]);
        orders.begin(1_000);
        assert_eq!(numbers(&orders.take(1_150)).0, [0]);
        let others = vec![first, drift(2, 400, None, Begins::InTime)];
        assert_eq!(orders.change(others, &[0, 1], 1_200), None);
        assert_eq!(numbers(&orders.take(1_300)), (vec![], vec![0], Some(100)), "what began ends");
        assert_eq!(numbers(&orders.take(1_900)), (vec![2], vec![], None));
        let early = orders.change(vec![drift(3, 50, None, Begins::InTime)], &[0, 1], 1_950);
        assert_eq!(early, Some((3, 50)));
    }

    #[test]
    fn a_late_agent_begins_nothing_that_is_over() {
        let mut orders = Orders::new(vec![drift(0, 100, Some(300), Begins::InTime)]);
        orders.begin(0);
        assert_eq!(numbers(&orders.take(300)), (vec![], vec![0], None));
    }

    #[test]
    fn a_triggered_one_counts_from_its_trigger() {
        let mut orders = Orders::new(vec![drift(2, 10, Some(30), Begins::Elsewhere)]);
        orders.trigger(2, 5);
        orders.begin(1_000);
        assert_eq!(numbers(&orders.take(5_000)), (vec![], vec![], Some(POLL)));
        for at in [5_000, 6_000] {
            orders.trigger(1, at);
            orders.trigger(2, at);
            assert_eq!(numbers(&orders.take(at)), (vec![], vec![], Some(10)));
            assert_eq!(numbers(&orders.take(at + 10)), (vec![2], vec![], Some(20)));
            assert_eq!(numbers(&orders.take(at + 30)), (vec![], vec![2], Some(POLL)));
        }
    }

    #[test]
    fn an_agent_that_can_be_called_is_and_does_not_ask() {
        let faults = vec![
            drift(0, 10, Some(30), Begins::Elsewhere),
            drift(1, 0, None, Begins::AsAsked),
            drift(2, 40, None, Begins::InTime),
        ];
        let mut orders = Orders::new(faults);
        orders.be_callable(true);
        assert!(!orders.trigger(0, 1), "before the commands' start");
        orders.begin(0);
        assert_eq!(numbers(&orders.take(5)), (vec![], vec![], Some(35)));
        assert!(orders.trigger(0, 7) && !orders.trigger(1, 7) && !orders.trigger(2, 7));
        assert_eq!(numbers(&orders.take(7)), (vec![1], vec![], Some(10)));
        assert_eq!(numbers(&orders.take(17)), (vec![0], vec![], Some(20)));
        assert_eq!(numbers(&orders.take(40)), (vec![2], vec![0], None));
        // It is not known yet of another boot.
        orders.be_callable(false);
        assert!(!orders.trigger(0, 50));
        assert_eq!(numbers(&orders.take(100)).2, Some(POLL));
    }

    #[test]
    fn an_agent_asks_as_often_as_it_must() {
        for (begins, again, after_output) in [
            (Begins::AsAsked, None, false),
            (Begins::AtOutput, None, true),
            (Begins::Elsewhere, Some(POLL), false),
        ] {
            let mut orders = Orders::new(vec![drift(0, 0, None, begins)]);
            orders.begin(0);
            let orders_given = orders.take(7);
            assert_eq!((orders_given.again_ns, orders_given.after_output), (again, after_output));
        }
    }
}
