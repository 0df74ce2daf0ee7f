//! The disks that the guest may find after a power cut.
//!
//! A disk is judged by its contents alone: each sector must hold data that was written there, or
//! its content before the run. If several writes fit, the one that violates no promise is assumed.

use std::collections::HashMap;

use stasis_block::clock::Nanos;
use stasis_block::units::format_duration;
use stasis_block::Operation;

use crate::sectors::Content;
use crate::trace::{CutPoint, RequestLog, TracedRequest};
use crate::violation::Violation;

/// Promise of a flush of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Writes that ended before the flush was submitted are durable when the flush ends.
    Durable,
    /// The flush is an order: writes before it are durable this long after its end (ns).
    Ordered(Nanos),
}

/// A flush of the guest, or another command that counts as one.
#[derive(Debug, Clone, Copy)]
struct Order {
    submit: CutPoint,
    end: CutPoint,
    at: Nanos,
    // Durable when it ends, whatever flushes promise.
    urgent: bool,
}

/// The guest's side of a drive's history.
#[derive(Debug)]
pub struct Oracle<'a> {
    log: &'a RequestLog,
    promise: Promise,
    /// Sectors in order, and where their writes begin in `writes`.
    sectors: Vec<(u64, usize)>,
    /// Places and contents, by sector, in the order of submission.
    writes: Vec<(u32, Content)>,
    /// Content of each sector before the run.
    base: Vec<Content>,
    // In the order of submission.
    orders: Vec<Order>,
}

/// `priority >> 13`: the real-time class (linux/ioprio.h).
const REAL_TIME: u16 = 1;

/// Places in the sequence of orders, from..=to.
type Range = (usize, usize);

impl<'a> Oracle<'a> {
    /// An oracle of the disks that the guest may find, from its `log`. `empty`: the disk was zeroes
    /// before the run.
    pub fn new(log: &'a RequestLog, promise: Promise, empty: bool) -> Self {
        let mut found: HashMap<u64, Vec<(u32, Content)>> = HashMap::new();
        // Zeroes written on zeroes look like no write.
        for written in [true, false] {
            for (place, request) in log.requests.iter().enumerate() {
                let writes =
                    matches!(request.command.operation, Operation::Write | Operation::Copy);
                if writes != written {
                    continue;
                }
                for (sector, content) in log.sectors(place) {
                    if writes || !empty {
                        found.entry(sector).or_default().push((place as u32, content));
                    } else if let Some(list) = found.get_mut(&sector) {
                        list.push((place as u32, content));
                    }
                }
            }
        }
        let mut all: Vec<_> = found.into_iter().collect();
        all.sort_unstable_by_key(|(sector, _)| *sector);
        let (mut sectors, mut writes) = (Vec::new(), Vec::new());
        for (sector, mut list) in all {
            list.sort_unstable_by_key(|(place, _)| *place);
            sectors.push((sector, writes.len()));
            writes.append(&mut list);
        }
        sectors.push((u64::MAX, writes.len()));
        let orders = log.requests.iter().filter_map(|request| order(request, promise)).collect();
        let base = vec![Content::ZERO; sectors.len() - 1];
        Self { log, promise, sectors, writes, base, orders }
    }

    /// The sectors that matter, in order.
    pub fn sectors(&self) -> impl Iterator<Item = u64> + '_ {
        self.sectors[..self.sectors.len() - 1].iter().map(|(sector, _)| *sector)
    }

    /// Sets the content before the run of the sector with this index.
    pub fn set_base(&mut self, index: usize, content: Content) {
        self.base[index] = content;
    }

    /// Numbers the promises after `point` events, at `at` (ns): with equal numbers, equal disks
    /// have equal verdicts.
    pub fn promised(&self, point: CutPoint, at: Nanos) -> (usize, usize) {
        let ended = self.orders.iter().filter(|order| order.end < point);
        let settled = match self.promise {
            Promise::Durable => 0,
            Promise::Ordered(lag) => {
                let over = |order: &&Order| order.at <= at.saturating_sub(lag);
                ended.clone().filter(over).count()
            }
        };
        (ended.count(), settled)
    }

    fn request(&self, place: u32) -> &TracedRequest {
        &self.log.requests[place as usize]
    }

    /// Checks a disk after a power cut at `at` (ns), after `point` events. `held` returns the
    /// content of a sector, by its index among [`Oracle::sectors`].
    ///
    /// # Errors
    /// Returns the violation.
    pub fn check(
        &self,
        point: CutPoint,
        at: Nanos,
        mut held: impl FnMut(usize, u64) -> Content,
    ) -> Result<(), Violation> {
        match self.promise {
            Promise::Durable => self.durable(point, &mut held),
            Promise::Ordered(lag) => self.ordered(point, at.saturating_sub(lag), &mut held),
        }
    }

    /// The writes of a sector that were submitted by then, newest first.
    fn newest_first(
        &self,
        index: usize,
        point: CutPoint,
    ) -> impl Iterator<Item = (u32, Content)> + '_ {
        let all = &self.writes[self.sectors[index].1..self.sectors[index + 1].1];
        let known = all.partition_point(|(place, _)| self.request(*place).submit.1 < point);
        all[..known].iter().rev().copied()
    }

    fn lost(&self, index: usize, place: u32) -> Violation {
        let TracedRequest { command, submit, end, .. } = self.request(place);
        let end = end
            .map_or(String::new(), |(at, ..)| format!(", acknowledged at {}", format_duration(at)));
        let write = format!(
            "{}{} of {} bytes at {:#x}, submitted at {}{end}",
            command.operation.name(),
            if command.fua { " (FUA)" } else { "" },
            command.length,
            command.offset,
            format_duration(submit.0),
        );
        Violation::Lost { sector: self.sectors[index].0, place: place as usize, write }
    }

    fn durable(
        &self,
        point: CutPoint,
        held: &mut dyn FnMut(usize, u64) -> Content,
    ) -> Result<(), Violation> {
        // Writes that ended before the last of these was submitted are durable.
        let flushed =
            self.orders.iter().filter(|order| order.end < point).map(|order| order.submit).max();
        let kept = |request: &TracedRequest| match request.end {
            Some((_, end, true)) if end < point => {
                flushed.is_some_and(|flush| end < flush) || request.command.fua
            }
            _ => false,
        };
        for index in 0..self.base.len() {
            let content = held(index, self.sectors[index].0);
            let mut required: Option<u32> = None;
            let mut known = false;
            let mut fits = false;
            for (place, written) in self.newest_first(index, point) {
                let request = self.request(place);
                let stale = required.is_some_and(|newer| self.precedes(request, newer));
                known |= written == content;
                if written == content && !stale {
                    fits = true;
                    break;
                }
                if required.is_none() && kept(request) {
                    required = Some(place);
                }
            }
            if fits || (required.is_none() && content == self.base[index]) {
                continue;
            }
            known |= content == self.base[index];
            return Err(match required {
                Some(place) if known => self.lost(index, place),
                _ => Violation::Unknown { sector: self.sectors[index].0 },
            });
        }
        Ok(())
    }

    /// Returns whether a write had ended before another of the same sector began.
    fn precedes(&self, request: &TracedRequest, newer: u32) -> bool {
        request.end.is_some_and(|(_, end, _)| end < self.request(newer).submit.1)
    }

    fn ordered(
        &self,
        point: CutPoint,
        settled: Nanos,
        held: &mut dyn FnMut(usize, u64) -> Content,
    ) -> Result<(), Violation> {
        // The disk is cut at one of these, numbered from 1; 0: at none.
        let orders: Vec<Order> =
            self.orders.iter().filter(|order| order.end < point).copied().collect();
        // By end: the newest order that had ended by then.
        let mut ends: Vec<(CutPoint, usize)> =
            orders.iter().enumerate().map(|(index, order)| (order.end, index + 1)).collect();
        ends.sort_unstable();
        let mut newest = 0;
        for (_, number) in &mut ends {
            newest = newest.max(*number);
            *number = newest;
        }
        let ended_before = |event: CutPoint| {
            let count = ends.partition_point(|(end, _)| *end < event);
            count.checked_sub(1).map_or(0, |last| ends[last].1)
        };
        let submitted_by = |event: CutPoint| orders.partition_point(|o| o.submit <= event);
        let needed = orders.iter().rposition(|order| order.urgent || order.at <= settled);
        let mut allowed: Vec<Range> = vec![(needed.map_or(0, |index| index + 1), orders.len())];
        // A sector that needs something this new.
        let mut new = 0;
        'sectors: for index in 0..self.base.len() {
            let content = held(index, self.sectors[index].0);
            // The first order that would have kept something newer.
            let mut limit = orders.len();
            let mut fits: Vec<Range> = Vec::new();
            let mut required = None;
            let mut earlier: Vec<(CutPoint, CutPoint)> = Vec::new();
            for (place, written) in self.newest_first(index, point) {
                let request = self.request(place);
                for (submit, end) in &earlier {
                    if request.end.is_some_and(|(_, ended, _)| ended < *submit) {
                        limit = limit.min(submitted_by(*end));
                    }
                }
                if written == content {
                    let stale = required.is_some_and(|newer| self.precedes(request, newer));
                    let from = ended_before(request.submit.1);
                    if from <= limit && !stale {
                        if allowed.iter().all(|range| from <= range.0 && range.1 <= limit) {
                            continue 'sectors;
                        }
                        fits.push((from, limit));
                    }
                }
                if let Some((_, end, true)) = request.end.filter(|(_, end, _)| *end < point) {
                    earlier.push((request.submit.1, end));
                    if request.command.fua {
                        required.get_or_insert(place);
                    }
                }
            }
            if content == self.base[index] && required.is_none() {
                let first = earlier.iter().map(|(_, end)| submitted_by(*end)).min();
                fits.push((0, first.unwrap_or(orders.len())));
            }
            let next = common(&allowed, &fits);
            if next.is_empty() {
                return Err(self.why(index, new, point, content, &fits, needed));
            }
            if next.first().map(|range| range.0) > allowed.first().map(|range| range.0) {
                new = index;
            }
            allowed = next;
        }
        Ok(())
    }

    /// Describes why no order is left at which the disk could have been cut.
    fn why(
        &self,
        index: usize,
        new: usize,
        point: CutPoint,
        content: Content,
        fits: &[Range],
        needed: Option<usize>,
    ) -> Violation {
        let known = content == self.base[index]
            || self.newest_first(index, point).any(|(_, written)| written == content);
        if !known {
            return Violation::Unknown { sector: self.sectors[index].0 };
        }
        let needed = needed.map_or(0, |index| index + 1);
        let newest =
            self.newest_first(index, point).find(|(place, _)| self.request(*place).well_by(point));
        match newest {
            Some((place, _)) if fits.iter().all(|range| range.1 < needed) => {
                self.lost(index, place)
            }
            _ => Violation::Order { old: self.sectors[index].0, new: self.sectors[new].0 },
        }
    }
}

fn order(request: &TracedRequest, promise: Promise) -> Option<Order> {
    let (at, end, true) = request.end? else { return None };
    let flush = matches!(request.command.operation, Operation::Flush | Operation::Barrier);
    let urgent = request.command.fua || request.command.priority >> 13 == REAL_TIME;
    let counts = match promise {
        Promise::Durable => request.command.operation == Operation::Flush,
        // A durable write is durable with everything before it.
        Promise::Ordered(_) => flush || urgent,
    };
    counts.then_some(Order { submit: request.submit.1, end, at, urgent })
}

/// The intersection of both.
fn common(left: &[Range], right: &[Range]) -> Vec<Range> {
    let mut both: Vec<Range> = Vec::new();
    for (from, to) in left {
        for (other, until) in right {
            let range = (*from.max(other), *to.min(until));
            if range.0 <= range.1 {
                both.push(range);
            }
        }
    }
    both.sort_unstable();
    both.dedup();
    both
}
