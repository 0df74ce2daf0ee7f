//! The point of no return of a failure: branches of its run with other seeds, and without the faults that had not
//! begun there.
//!
//! Looked at are moments from just before the first fault on; then the interval is halved in which the last branch
//! that does not fail lies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units::format_duration;
use stasis_experiment::{Scenario, ScheduledFault};

/// Moments that are looked at first.
const MOMENTS: u64 = 8;
/// Halvings of the interval in which a failure becomes inevitable.
const HALVINGS: u32 = 4;

/// A time that does not come (ns): eleven days after the commands' start.
const NEVER: Nanos = 1_000_000_000_000_000;

/// Branches from a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The moment (ns since the commands' start).
    pub at_ns: Nanos,
    /// Branches that failed in the same way.
    pub failed: u64,
    /// All branches that ended.
    pub branches: u64,
}

/// A failure's point of no return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inevitable {
    /// The last moment from which a branch did not fail (ns since the commands' start); null if each did.
    pub avoidable_ns: Option<Nanos>,
    /// The moment from which each branch failed, as from all later ones; the end of the commands, if from none.
    pub inevitable_ns: Nanos,
    /// The moments that were looked at, in the order of time.
    pub moments: Vec<Share>,
}

impl Inevitable {
    /// The interval in a line.
    pub fn sentence(&self) -> String {
        let to = format_duration(self.inevitable_ns);
        match self.avoidable_ns {
            Some(from) => format!(
                "it became inevitable between {} and {to} after the commands' start",
                format_duration(from)
            ),
            None => format!("it was inevitable from {to} after the commands' start on, or before"),
        }
    }
}

/// The search for a point of no return between two times.
#[derive(Debug)]
pub struct Search {
    first: Nanos,
    last: Nanos,
    halvings: u32,
    shares: BTreeMap<Nanos, (u64, u64)>,
}

impl Search {
    /// Makes one from just before the `first` fault to the `last` moment, at which the run had failed.
    pub fn new(first: Nanos, last: Nanos) -> Self {
        Self { first, last: last.max(first), halvings: 0, shares: BTreeMap::new() }
    }

    /// The moments to look at next; none at the end.
    pub fn next(&mut self) -> Vec<Nanos> {
        if self.shares.is_empty() {
            let step = |place| self.first + (self.last - self.first) / MOMENTS * place;
            let mut all: Vec<Nanos> = (0..MOMENTS).map(step).collect();
            all.dedup();
            return all;
        }
        let (from, to) = self.interval();
        let Some(from) = from.filter(|_| self.halvings < HALVINGS) else { return Vec::new() };
        self.halvings += 1;
        let middle = from + (to - from) / 2;
        if middle == from {
            Vec::new()
        } else {
            vec![middle]
        }
    }

    /// Share of the search that is done.
    pub fn fraction(&self) -> f64 {
        let all = MOMENTS as usize + HALVINGS as usize;
        (self.shares.len() as f64 / all as f64).min(1.0)
    }

    /// Takes the number of branches from `at` that failed in the same way, and that of all.
    pub fn add(&mut self, at: Nanos, (failed, branches): (u64, u64)) {
        self.shares.insert(at, (failed, branches));
    }

    /// The last moment from which a branch did not fail, and the next one, from which each did.
    fn interval(&self) -> (Option<Nanos>, Nanos) {
        let mut inevitable = self.last;
        for (at, (failed, branches)) in self.shares.iter().rev() {
            if failed < branches {
                return (Some(*at), inevitable);
            }
            inevitable = *at;
        }
        (None, inevitable)
    }

    /// The answer; none where nothing was looked at.
    pub fn end(self) -> Option<Inevitable> {
        let (avoidable_ns, inevitable_ns) = self.interval();
        let share = |(&at_ns, &(failed, branches)): (&Nanos, &(u64, u64))| Share {
            at_ns,
            failed,
            branches,
        };
        let moments: Vec<Share> = self.shares.iter().map(share).collect();
        (!moments.is_empty()).then_some(Inevitable { avoidable_ns, inevitable_ns, moments })
    }
}

/// Branch `number` at `at` of the run of `scenario`, whose faults happened at these times: with another seed, and
/// with the faults that had not happened put off to a time that does not come. (A branch without them would be of other
/// machines: one that no fault brings back begins differently.) The first `own` faults are the experiment's.
pub fn branch(
    scenario: &Scenario,
    happened: &[Option<Nanos>],
    own: usize,
    (at, number): (Nanos, u64),
) -> Scenario {
    let mut branch = scenario.clone();
    branch.seed = scenario.seed.wrapping_add(1 + number);
    for (place, fault) in branch.faults.iter_mut().enumerate().skip(own) {
        let has_begun = happened.get(place).copied().flatten().is_some_and(|first| first <= at);
        if !has_begun {
            put_off(fault);
        }
    }
    branch
}

/// Puts a fault off to a time that does not come.
fn put_off(fault: &mut ScheduledFault) {
    (fault.at_io, fault.at_packet) = (None, None);
    (fault.at_output, fault.output_of, fault.times) = (None, None, None);
    let length = fault.end.map(|end| end.saturating_sub(fault.begin.unwrap_or(0)));
    match (fault.begin, length) {
        (None, None) => fault.at = Some(NEVER),
        (_, length) => {
            (fault.at, fault.begin) = (None, Some(NEVER));
            fault.end = length.map(|length| NEVER.saturating_add(length));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches where branches fail by `fails`.
    fn found(first: Nanos, last: Nanos, fails: impl Fn(Nanos) -> u64) -> (Inevitable, usize) {
        let (mut search, mut looked) = (Search::new(first, last), 0);
        loop {
            let next = search.next();
            if next.is_empty() {
                return (search.end().unwrap(), looked);
            }
            for at in next {
                looked += 1;
                search.add(at, (fails(at), 3));
            }
        }
    }

    proptest! {
        #[test]
        fn the_point_is_in_the_interval(first in 0u64..1000, length in 0u64..100_000, share in 0.0f64..1.1) {
            let last = first + length;
            let point = first + (length as f64 * share) as u64;
            let (found, looked) = found(first, last, |at| if at >= point { 3 } else { at % 3 });
            prop_assert!(looked <= (MOMENTS + u64::from(HALVINGS)) as usize);
            prop_assert!(found.inevitable_ns >= point || found.inevitable_ns == last);
            match found.avoidable_ns {
                Some(from) => {
                    prop_assert!(from < point && from <= found.inevitable_ns);
                    let width = length / MOMENTS / (1 << HALVINGS) + 2 + MOMENTS;
                    prop_assert!(found.inevitable_ns - from <= width, "{found:?}");
                }
                None => prop_assert_eq!(found.inevitable_ns, first),
            }
        }
    }

    #[test]
    fn a_branch_puts_off_what_has_not_happened() {
        let fault = |kind: &str| ScheduledFault { kind: kind.into(), ..ScheduledFault::default() };
        let scenario = Scenario {
            seed: u64::MAX,
            faults: ["asked", "first", "second", "never"].map(fault).to_vec(),
            ..Scenario::default()
        };
        let happened = [None, Some(5), Some(20), None];
        let never = |at| -> Vec<bool> {
            let branch = branch(&scenario, &happened, 1, (at, 1));
            assert_eq!(branch.seed, 1);
            branch.faults.iter().map(|fault| fault.at == Some(NEVER)).collect()
        };
        assert_eq!(never(4), [false, true, true, true]);
        assert_eq!(never(5), [false, false, true, true]);
        assert_eq!(never(100), [false, false, false, true]);
        let mut slow = ScheduledFault { begin: Some(5), end: Some(7), ..fault("slow") };
        put_off(&mut slow);
        assert_eq!((slow.at, slow.begin, slow.end), (None, Some(NEVER), Some(NEVER + 2)));
    }

    #[test]
    fn the_interval_is_told() {
        let inevitable = |avoidable_ns| Inevitable {
            avoidable_ns,
            inevitable_ns: 2_000_000,
            moments: Vec::new(),
        };
        let between = inevitable(Some(1_500_000)).sentence();
        assert_eq!(between, "it became inevitable between 1.5ms and 2ms after the commands' start");
        assert!(inevitable(None).sentence().starts_with("it was inevitable from 2ms"));
    }
}
