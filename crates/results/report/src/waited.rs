//! The NAND operation that an I/O waited for last, and what had its plane and its channel before.

use std::collections::BTreeMap;
use std::path::Path;

use stasis_block::clock::Nanos;
use stasis_block::timeline::{Cause, Span, Step, Track, TrackKind, What};

use crate::table::{Column, Table};
use crate::why::whose;
use crate::{units, KeptSpans, ReportError};

/// Rows that are listed of what was before it.
const LISTED: usize = 12;

/// A step of the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStep {
    /// The step.
    pub step: Step,
    /// Its channel or plane.
    pub track: String,
    /// When it began and ended (ns).
    pub times: (Nanos, Nanos),
}

/// Another operation that had the channel or the plane while this one waited for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// The channel or plane.
    pub track: String,
    /// Its number in the array.
    pub number: u64,
    /// Its kind.
    pub what: What,
    /// For whom it was.
    pub cause: Cause,
    /// Its block.
    pub block: u32,
    /// For how long it kept this one waiting (ns).
    pub time: Nanos,
    /// The block whose emptying it was part of.
    pub emptied: Option<u32>,
    /// The I/Os that ended with it, by their numbers.
    pub ended: Vec<u64>,
}

impl Before {
    /// For whom it was, in words.
    fn whose(&self) -> String {
        let orders: Vec<String> = self.ended.iter().map(u64::to_string).collect();
        match (self.emptied, orders.len()) {
            (Some(block), _) => format!("the collection of block {block}"),
            (None, 0) => whose(self.cause).to_owned(),
            (None, 1) => format!("{}: I/O {}", whose(self.cause), orders[0]),
            _ => format!("{}: I/Os {}", whose(self.cause), orders.join(", ")),
        }
    }
}

/// The operation whose end completed an I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// Its number in the array.
    pub number: u64,
    /// Its kind.
    pub what: What,
    /// For whom it was.
    pub cause: Cause,
    /// Its block, and its page but of an erase.
    pub block: u32,
    /// See there.
    pub page: u32,
    /// Its steps in the order of time.
    pub steps: Vec<OperationStep>,
    /// Operations before it, the longest wait first.
    pub before: Vec<Before>,
    /// Blocks of its plane that were emptied meanwhile, with the times (ns).
    pub collections: Vec<(u32, Nanos, Nanos)>,
}

/// A LUN, and its plane; none where its planes work in lockstep.
type Place = (Option<u32>, Option<u32>);

/// Whether a plane is one of a place's: planes in lockstep are one.
fn is_within(place: Place, plane: Place) -> bool {
    place.0 == plane.0 && (place.1.is_none() || place == plane)
}

/// A part of the drive for which an operation waits for some time.
type Wait = (u32, Nanos, Nanos);

impl Waited {
    /// The operation of this number of a drive, and what was before it since `since` (ns); `None`
    /// where the timeline does not have it.
    ///
    /// # Errors
    /// If the timeline cannot be read.
    pub(crate) fn of(
        folder: &Path,
        drive: &str,
        number: u64,
        since: Nanos,
    ) -> Result<Option<Self>, ReportError> {
        let is_part = |track: &Track| {
            track.owner == drive && matches!(track.kind, TrackKind::Channel | TrackKind::Nand)
        };
        let Some(mut spans) = KeptSpans::open(folder)? else { return Ok(None) };
        let mut own: Vec<(Track, Span)> = Vec::new();
        while let Some((track, span)) = spans.next_span()? {
            if is_part(track) && span.number == number {
                own.push((track.clone(), span));
            }
        }
        own.sort_by_key(|(_, span)| (span.begin, span.end));
        let Some((_, first)) = own.first().cloned() else { return Ok(None) };
        let end = own.iter().map(|(_, span)| span.end).max().unwrap_or(first.end);
        let plane = own.iter().find(|(track, _)| track.kind == TrackKind::Nand);
        let plane = plane.map(|(track, _)| (track.lun, track.plane));
        let waits = waits(&own, since);
        let (mut before, mut collections) = (BTreeMap::<(u32, u64), Before>::new(), Vec::new());
        // Of collections and of housekeeping's operations the place and the times.
        let (mut emptied, mut places) = (Vec::new(), BTreeMap::<u64, (Place, Nanos)>::new());
        let Some(mut spans) = KeptSpans::open(folder)? else { return Ok(None) };
        while let Some((track, span)) = spans.next_span()? {
            let its = track.owner == drive && track.kind == TrackKind::Collection;
            if its {
                emptied.push(((track.lun, track.plane), span.block, (span.begin, span.end)));
            }
            let housekeeps = span.cause == Cause::Housekeeping && span.end > since;
            if track.owner == drive && track.kind == TrackKind::Nand && housekeeps {
                places.entry(span.number).or_insert(((track.lun, track.plane), span.begin));
            }
            if its && span.begin < end && span.end > since {
                let of = (track.lun, track.plane);
                if plane.is_some_and(|plane| is_within(plane, of)) {
                    collections.push((span.block, span.begin, span.end));
                }
            }
            if !is_part(track) || span.number == number {
                continue;
            }
            let overlap = |&(part, from, to): &Wait| match part == span.track {
                true => span.end.min(to).saturating_sub(span.begin.max(from)),
                false => 0,
            };
            let time: Nanos = waits.iter().map(overlap).sum();
            if time > 0 {
                let one = before.entry((span.track, span.number)).or_insert_with(|| Before {
                    track: named(track),
                    number: span.number,
                    what: span.what,
                    cause: span.cause,
                    block: span.block,
                    time: 0,
                    emptied: None,
                    ended: Vec::new(),
                });
                one.time += time;
            }
        }
        for one in before.values_mut() {
            let Some(&(place, begin)) = places.get(&one.number) else { continue };
            // An operation ends with its collection at the latest.
            let its = |&&(of, _, (from, to)): &&(Place, u32, (Nanos, Nanos))| {
                is_within(place, of) && (from..to).contains(&begin)
            };
            let mut all = emptied.iter().filter(its).map(|&(_, block, _)| block);
            // Of several at once it is not known which one's it is.
            one.emptied = all.next().filter(|_| all.next().is_none());
        }
        let mut before: Vec<_> = before.into_values().collect();
        before.sort_by(|a, b| b.time.cmp(&a.time).then(a.number.cmp(&b.number)));
        collections.sort_by_key(|&(block, begin, _)| (begin, block));
        let step = |(track, span): &(Track, Span)| OperationStep {
            step: span.step,
            track: named(track),
            times: (span.begin, span.end),
        };
        let Span { what, cause, block, page, .. } = first;
        let steps = own.iter().map(step).collect();
        Ok(Some(Self { number, what, cause, block, page, steps, before, collections }))
    }

    /// For a terminal.
    pub(crate) fn to_text(&self) -> String {
        let time = |ns: Nanos| units::duration(ns as f64);
        let page = match self.what {
            What::Erase => String::new(),
            _ => format!(", page {}", self.page),
        };
        let mut text = format!(
            "It ended with a {} of block {}{page}, for {}:\n",
            self.what.name(),
            self.block,
            whose(self.cause)
        );
        for OperationStep { step, track, times: (begin, end) } in &self.steps {
            let took = time(end - begin);
            text.push_str(&format!(
                "  {begin} ns to {end} ns ({took})  {}: {track}\n",
                step.name()
            ));
        }
        for (block, begin, end) in &self.collections {
            let took = time(end - begin);
            text.push_str(&format!(
                "Its plane's block {block} was emptied from {begin} ns to {end} ns ({took}).\n"
            ));
        }
        if self.before.is_empty() {
            return text;
        }
        let columns = ["before it had", "a", "for", "block"].map(Column::left);
        let mut table =
            Table::new(columns.into_iter().chain([Column::right("kept it waiting")]).collect());
        for one in self.before.iter().take(LISTED) {
            table.push(vec![
                one.track.clone(),
                one.what.name().to_owned(),
                one.whose(),
                one.block.to_string(),
                time(one.time),
            ]);
        }
        text.push_str(&table.to_text());
        if self.before.len() > LISTED {
            text.push_str(&format!("and {} more\n", self.before.len() - LISTED));
        }
        text
    }
}

fn named(track: &Track) -> String {
    match track.kind {
        TrackKind::Channel => track.name.clone(),
        kind => format!("{} {}", kind.name(), track.name),
    }
}

/// The times in which an operation of these spans, in the order of time, waits, and for which track:
/// first for its plane and its channel, then for that of its next step.
fn waits(own: &[(Track, Span)], since: Nanos) -> Vec<Wait> {
    let (mut waits, mut until) = (Vec::new(), since);
    for (place, (_, span)) in own.iter().enumerate() {
        if span.begin > until {
            let tracks: Vec<u32> = match place {
                0 => {
                    let mut all: Vec<u32> = own.iter().map(|(_, span)| span.track).collect();
                    all.sort_unstable();
                    all.dedup();
                    all
                }
                _ => vec![span.track],
            };
            waits.extend(tracks.into_iter().map(|track| (track, until, span.begin)));
        }
        until = until.max(span.end);
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_waits_for_both_and_then_for_one() {
        let track = |kind| Track::new(kind, "d", String::new());
        let step =
            |kind, number, begin, end| (track(kind), Span::new(number, What::Read, begin, end));
        let own = [
            step(TrackKind::Channel, 1, 10, 12),
            step(TrackKind::Nand, 5, 12, 40),
            step(TrackKind::Channel, 1, 47, 50),
        ];
        assert_eq!(waits(&own, 3), [(1, 3, 10), (5, 3, 10), (1, 40, 47)]);
        assert_eq!(waits(&own, 10), [(1, 40, 47)]);
    }
}
