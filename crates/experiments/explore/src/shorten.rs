//! The part of a scenario that is enough for its failure: one change after another that makes it simpler, kept
//! where the same failure comes.

use stasis_block::clock::Nanos;
use stasis_drive::{CutChoice, MAX_NAMED};
use stasis_experiment::{Scenario, ScheduledFault};

use crate::moments::Moments;

/// A restart's delay to which others are changed (ns): that of the examples.
const PLAIN_RESTART: Nanos = 200_000_000;
/// Lengths to which a fault's is changed, the shortest first (ns).
const PLAIN_LENGTHS: [Nanos; 4] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Limit on how far a fault's time is moved to the command at which it then begins (ns).
const NEAREST: Nanos = 5_000_000;

/// Simpler scenarios than `scenario`, the simplest first, each with another single change; `seed`: the
/// experiment's own.
pub fn simpler(scenario: &Scenario, moments: &Moments, seed: u64) -> Vec<Scenario> {
    let mut all = Vec::new();
    let count = scenario.faults.len();
    let keeping = |keep: &dyn Fn(usize) -> bool| {
        let faults = scenario.faults.iter().enumerate().filter(|(place, _)| keep(*place));
        Scenario { faults: faults.map(|(_, fault)| fault.clone()).collect(), ..scenario.clone() }
    };
    if count > 3 {
        all.push(keeping(&|place| place < count / 2));
        all.push(keeping(&|place| place >= count / 2));
    }
    if count > 1 {
        all.extend((0..count).rev().map(|without| keeping(&|place| place != without)));
    }
    if scenario.seed != seed {
        all.push(Scenario { seed, ..scenario.clone() });
    }
    for (place, fault) in scenario.faults.iter().enumerate() {
        for other in simpler_fault(fault, moments) {
            let mut changed = scenario.clone();
            changed.faults[place] = other;
            all.push(changed);
        }
    }
    all
}

fn simpler_fault(fault: &ScheduledFault, moments: &Moments) -> Vec<ScheduledFault> {
    let mut all = Vec::new();
    if fault.machines.len() > 1 {
        for without in 0..fault.machines.len() {
            let mut other = fault.clone();
            other.machines.remove(without);
            all.push(other);
        }
    }
    if fault.restart.is_some_and(|restart| restart != PLAIN_RESTART) {
        all.push(ScheduledFault { restart: Some(PLAIN_RESTART), ..fault.clone() });
    }
    if fault.leaves.is_some_and(|leaves| leaves != CutChoice::Least) {
        all.push(ScheduledFault { leaves: Some(CutChoice::Least), ..fault.clone() });
    }
    all.extend(fewer_lost(fault).into_iter().map(|loses| ScheduledFault {
        leaves: None,
        loses,
        ..fault.clone()
    }));
    let begin = fault.begin.unwrap_or(0);
    if let Some(end) = fault.end {
        let length = end.saturating_sub(begin);
        let shorter = PLAIN_LENGTHS.into_iter().filter(|plain| *plain < length);
        all.extend(
            shorter.map(|plain| ScheduledFault { end: Some(begin + plain), ..fault.clone() }),
        );
    }
    all.extend(at_nearest_command(fault, moments));
    all
}

/// Shorter lists of the changes that a cut loses: at first all that can be named, then a half of them,
/// all but a quarter, and all but one (delta debugging: Zeller and Hildebrandt, TSE 2002).
fn fewer_lost(fault: &ScheduledFault) -> Vec<Vec<u8>> {
    if fault.leaves == Some(CutChoice::Least) {
        return vec![(0..MAX_NAMED).collect()];
    }
    let all = &fault.loses;
    let count = all.len();
    let without = |from: usize, to: usize| [&all[..from], &all[to..]].concat();
    match count {
        0 | 1 => Vec::new(),
        // One of four quarters is without the three changes that decide at most; of a few none may be.
        2..=8 => {
            let halves = [all[..count / 2].to_vec(), all[count / 2..].to_vec()];
            let others = (0..count).map(|place| without(place, place + 1));
            halves.into_iter().chain(others).collect()
        }
        _ => {
            let (half, quarter) = (count / 2, count / 4);
            let halves = [all[..half].to_vec(), all[half..].to_vec()];
            let quarters = (0..count).step_by(quarter);
            let others = quarters.map(|from| without(from, (from + quarter).min(count)));
            halves.into_iter().chain(others).collect()
        }
    }
}

/// The fault from the flush on that is the nearest to its time.
fn at_nearest_command(fault: &ScheduledFault, moments: &Moments) -> Option<ScheduledFault> {
    let at = fault.at.or(fault.begin).filter(|_| fault.at_io.is_none())?;
    let near = moments.flushes.iter().min_by_key(|flush| flush.begin.abs_diff(at))?;
    if near.begin.abs_diff(at) > NEAREST {
        return None;
    }
    let length = fault.restart.or(fault.end.map(|end| end.saturating_sub(at)));
    Some(fault.at_command(&near.drive, near.order, length.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moments::Flush;

    fn cut(machine: &str, at: Nanos) -> ScheduledFault {
        ScheduledFault {
            kind: "power-cut".into(),
            machine: Some(machine.into()),
            at: Some(at),
            restart: Some(12_345),
            ..ScheduledFault::default()
        }
    }

    fn moments() -> Moments {
        let flush = |order, begin| Flush { drive: "d".into(), order, begin, end: begin + 10 };
        Moments {
            flushes: vec![flush(7, 1_000_000), flush(9, 40_000_000)],
            acknowledged: Vec::new(),
            end: 50_000_000,
        }
    }

    /// Greedily takes the first simpler scenario that still fails.
    fn shortened(mut scenario: Scenario, fails: &dyn Fn(&Scenario) -> bool) -> (Scenario, usize) {
        let mut runs = 0;
        while let Some(next) = simpler(&scenario, &moments(), 0)
            .into_iter()
            .inspect(|_| runs += 1)
            .find(|candidate| fails(candidate))
        {
            scenario = next;
            assert!(runs < 1000, "it comes to no end");
        }
        (scenario, runs)
    }

    #[test]
    fn what_does_not_decide_is_left_out() {
        let kill = |place: u64| ScheduledFault { kind: "reset".into(), ..cut("b", place * 1000) };
        let mut faults: Vec<_> = (0..7).map(kill).collect();
        faults.insert(4, cut("a", 1_200_000));
        faults.push(cut("c", 3));
        let scenario = Scenario { seed: 99, faults, ..Scenario::default() };
        // Both cuts decide, whenever they come.
        let fails = |scenario: &Scenario| {
            ["a", "c"].iter().all(|name| {
                scenario.faults.iter().any(|fault| fault.machine.as_deref() == Some(name))
            })
        };
        let (short, runs) = shortened(scenario, &fails);
        assert_eq!((short.seed, short.faults.len()), (0, 2));
        assert_eq!(short.faults[0].at_io.as_deref(), Some("d:7"));
        assert_eq!(short.faults[1].restart, Some(PLAIN_RESTART));
        assert!(runs < 60, "{runs} runs");
    }

    #[test]
    fn the_lost_changes_that_decide_are_left() {
        for deciding in [vec![0], vec![7], vec![3, 9], vec![0, 5, 11]] {
            let least = ScheduledFault { leaves: Some(CutChoice::Least), ..cut("a", 1_200_000) };
            let scenario = Scenario { faults: vec![least], ..Scenario::default() };
            // Twelve changes can be lost.
            let fails = |scenario: &Scenario| {
                let Some(fault) = scenario.faults.first() else { return false };
                let lost = |number: &u8| match fault.leaves {
                    Some(_) => true,
                    None => *number < 12 && fault.loses.contains(number),
                };
                deciding.iter().all(lost)
            };
            let (short, runs) = shortened(scenario, &fails);
            assert_eq!(short.faults[0].loses, deciding, "{runs} runs");
            assert!(runs < 60, "{runs} runs");
        }
    }

    #[test]
    fn a_length_becomes_the_shortest_that_fails() {
        let pause = ScheduledFault {
            kind: "pause".into(),
            begin: Some(30_000_000),
            end: Some(2_030_000_000),
            ..ScheduledFault::default()
        };
        let scenario = Scenario { faults: vec![pause], ..Scenario::default() };
        let long = |scenario: &Scenario| {
            let fault = &scenario.faults[0];
            fault.begin.is_some() && fault.end.unwrap() - fault.begin.unwrap() >= 50_000_000
        };
        let (short, _) = shortened(scenario, &long);
        assert_eq!(short.faults[0].end, Some(130_000_000));
    }
}
