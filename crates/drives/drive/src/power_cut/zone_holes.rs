//! Zones: a sequential zone has no hole, whatever a power cut takes.

use std::collections::{BTreeMap, VecDeque};

use stasis_block::ZoneLayout;

use super::change::Change;
use super::survival::{Left, Survival};

/// Repair of a choice that leaves holes in zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    /// Data behind a hole is lost.
    Cut,
    /// Holes are filled.
    Fill,
}

/// A part of a change, in one zone.
#[derive(Debug, Clone, Copy)]
struct Part {
    change: usize,
    // Sectors within the change.
    from: u64,
    to: u64,
    reset: bool,
}

/// The parts of changes by zone, in the order of submission.
fn zone_parts(zones: &ZoneLayout, changes: &VecDeque<Change>) -> BTreeMap<u64, Vec<Part>> {
    let mut by_zone: BTreeMap<u64, Vec<Part>> = BTreeMap::new();
    for (index, change) in changes.iter().enumerate().filter(|(_, c)| c.sequential) {
        for (zone, from, to) in zones.parts(change.first, change.first + change.sectors) {
            let (from, to) = (from - change.first, to - change.first);
            let part = Part { change: index, from, to, reset: !change.writes };
            by_zone.entry(zone).or_default().push(part);
        }
    }
    by_zone
}

/// Changes `survivals` to a state that a drive with zones can leave: of each zone a beginning,
/// and of a reset all or nothing.
pub(super) fn mend(
    zones: &ZoneLayout,
    changes: &VecDeque<Change>,
    survivals: &mut Left,
    holes: Holes,
) {
    if zones.is_empty() {
        return;
    }
    for parts in zone_parts(zones, changes).into_values() {
        let has = |part: &Part, within: u64| has(changes, survivals, part.change, within);
        // A reset begins anew: earlier data does not count.
        let begin = parts.iter().rposition(|part| part.reset && has(part, part.from));
        let last = parts.iter().rposition(|part| (part.from..part.to).any(|at| has(part, at)));
        let mut kept: Vec<u64> = Vec::with_capacity(parts.len());
        let mut broken = false;
        for (number, part) in parts.iter().enumerate() {
            let whole = part.to - part.from;
            let there = match part.reset {
                true => whole * u64::from(has(part, part.from)),
                false => (part.from..part.to).take_while(|at| has(part, *at)).count() as u64,
            };
            let filled = match (holes, last) {
                _ if begin.is_some_and(|begin| number <= begin) => whole,
                (Holes::Cut, _) if broken => 0,
                (Holes::Cut, _) => there,
                (Holes::Fill, Some(last)) if number < last => whole,
                (Holes::Fill, Some(last)) if number == last => {
                    let newest = (part.from..part.to).rev().find(|at| has(part, *at));
                    newest.map_or(0, |newest| newest + 1 - part.from)
                }
                (Holes::Fill, _) => 0,
            };
            broken |= filled < whole && begin.is_none_or(|begin| number > begin);
            kept.push(filled);
        }
        for (part, kept) in parts.iter().zip(kept) {
            let change = &changes[part.change];
            if change.durable {
                continue;
            }
            let before = survivals.get(&part.change).unwrap_or(&Survival::Lost).clone();
            let inside = |at: u64| (part.from..part.to).contains(&at);
            let sectors = (0..change.sectors).map(|at| match inside(at) {
                true => at - part.from < kept,
                false => before.has(at as usize),
            });
            survivals.insert(part.change, Survival::of_sectors(sectors.collect()));
        }
    }
}

/// Returns whether a sector of a change is left.
fn has(changes: &VecDeque<Change>, survivals: &Left, index: usize, within: u64) -> bool {
    changes[index].durable
        || survivals.get(&index).is_some_and(|survival| survival.has(within as usize))
}

/// Returns whether no zone has a hole if exactly the sectors for which `there` is true are left
/// of each change.
pub(super) fn are_absent(
    zones: &ZoneLayout,
    changes: &VecDeque<Change>,
    there: impl Fn(&Change, u64) -> bool,
) -> bool {
    zone_parts(zones, changes).into_values().all(|parts| {
        let has = |part: &Part, at: u64| there(&changes[part.change], at);
        let count = |part: &Part| (part.from..part.to).filter(|at| has(part, *at)).count();
        let whole = |part: &Part| count(part) as u64 == part.to - part.from;
        let resets = parts.iter().filter(|part| part.reset);
        let untorn = resets.clone().all(|part| whole(part) || count(part) == 0);
        let begin = parts.iter().rposition(|part| part.reset && whole(part));
        let after = &parts[begin.map_or(0, |begin| begin + 1)..];
        let complete = after.iter().take_while(|part| whole(part)).count();
        let tail = after.get(complete..).unwrap_or_default();
        // The first that is not whole may be there in part, from its beginning on.
        let prefix = tail.first().is_none_or(|part| {
            let there = count(part) as u64;
            (part.from..part.from + there).all(|at| has(part, at))
        });
        untorn && prefix && tail.iter().skip(1).all(|part| count(part) == 0)
    })
}

/// Returns the changes, by their indexes, that precede a durable one in the same zone: they are
/// durable as well.
pub(super) fn before_durable(zones: &ZoneLayout, changes: &VecDeque<Change>) -> Vec<usize> {
    if !changes.iter().any(|change| change.durable && change.sequential) {
        return Vec::new();
    }
    let mut behind: Vec<usize> = Vec::new();
    for parts in zone_parts(zones, changes).into_values() {
        let newest = parts.iter().rposition(|part| changes[part.change].durable);
        behind.extend(parts[..newest.unwrap_or(0)].iter().map(|part| part.change));
    }
    behind
}
