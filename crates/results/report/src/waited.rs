//! The NAND operation that an I/O waited for last, and what had its plane and its channel before.

use std::collections::BTreeMap;
use std::path::Path;

use stasis_block::clock::Nanos;
use stasis_block::timeline::{Cause, Purpose, Span, Step, Track, TrackKind, What, Whom};

use crate::table::{printable, Column, Table};
use stasis_results::{units, KeptSpans, ResultsError};

/// Rows that are listed of what was before it.
const LISTED: usize = 12;

/// A step of the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStep {
    /// The step.
    pub step: Step,
    /// Its channel or plane.
    pub track: String,
    /// Times at which it began and ended (ns).
    pub times: (Nanos, Nanos),
}

/// For whom an operation was, as far as the timeline has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForWhom {
    /// On whose behalf.
    pub cause: Cause,
    /// Its commands, or its collection.
    pub whom: Whom,
    /// The I/O that its first command was, by its drive or disk and its number there.
    pub io: Option<(String, u64)>,
    /// The block that its collection emptied, and how.
    pub emptied: Option<(What, u32)>,
}

impl ForWhom {
    fn of(span: &Span) -> Self {
        Self { cause: span.cause, whom: span.whom, io: None, emptied: None }
    }

    /// In words, for the answer about the I/O `order` of `drive`.
    fn to_text(&self, drive: &str, order: u64) -> String {
        let more = match self.whom.commands.saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = match (&self.io, self.whom.first_command()) {
            (Some((owner, io)), _) if owner == drive && *io == order => Some("this I/O".to_owned()),
            (Some((owner, io)), _) if owner == drive => Some(format!("I/O {io}")),
            (Some((owner, io)), _) => Some(format!("I/O {}:{io}", printable(owner))),
            (None, Some(number)) => Some(format!("the drive's command {number}")),
            (None, None) => None,
        };
        match (self.whom.purpose, first) {
            (Purpose::Collection, _) => match self.emptied {
                Some((activity, block)) => format!("the {} of block {block}", activity.name()),
                None => "a collection that did not end".to_owned(),
            },
            (Purpose::Map, Some(first)) => format!("the map, for {first}{more}"),
            (Purpose::Map, None) => "the map".to_owned(),
            (Purpose::Visit, _) => "the visit of a block".to_owned(),
            (Purpose::ReadAhead, _) => "reading ahead".to_owned(),
            (Purpose::Recovery, _) => "what a power cut left".to_owned(),
            (Purpose::Command | Purpose::None, Some(first)) => {
                format!("{}: {first}{more}", whose(self.cause))
            }
            (Purpose::Command | Purpose::None, None) => whose(self.cause).to_owned(),
        }
    }
}

/// Another operation that had the channel or the plane while this one waited for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// The channel or plane.
    pub track: String,
    /// Its number in the array.
    pub number: u64,
    /// Its kind.
    pub activity: What,
    /// For whom it was.
    pub for_whom: ForWhom,
    /// Its block.
    pub block: u32,
    /// For how long it kept this one waiting (ns).
    pub time: Nanos,
}

/// For whom a drive works, in words.
pub(crate) fn whose(cause: Cause) -> &'static str {
    match cause {
        Cause::None => "",
        Cause::HostRead => "the host's reads",
        Cause::HostWrite => "the host's writes",
        Cause::Housekeeping => "housekeeping",
    }
}

/// The operation whose end completed an I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// Its number in the array.
    pub number: u64,
    /// Its kind.
    pub activity: What,
    /// For whom it was.
    pub for_whom: ForWhom,
    /// Block of the operation.
    pub block: u32,
    /// Page of the operation; not used for an erase.
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

/// Returns whether a plane is one of a place's: planes in lockstep are one.
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
    ) -> Result<Option<Self>, ResultsError> {
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
        let mut emptied = BTreeMap::<u64, (What, u32)>::new();
        let Some(mut spans) = KeptSpans::open(folder)? else { return Ok(None) };
        while let Some((track, span)) = spans.next_span()? {
            let its = track.owner == drive && track.kind == TrackKind::Collection;
            if let Some(number) = span.whom.its_collection().filter(|_| its) {
                emptied.insert(number, (span.activity, span.block));
            }
            if its && span.begin < end && span.end > since {
                let for_whom = (track.lun, track.plane);
                if plane.is_some_and(|plane| is_within(plane, for_whom)) {
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
                    activity: span.activity,
                    for_whom: ForWhom::of(&span),
                    block: span.block,
                    time: 0,
                });
                one.time += time;
            }
        }
        let mut before: Vec<_> = before.into_values().collect();
        before.sort_by(|a, b| b.time.cmp(&a.time).then(a.number.cmp(&b.number)));
        collections.sort_by_key(|&(block, begin, _)| (begin, block));
        let step = |(track, span): &(Track, Span)| OperationStep {
            step: span.step,
            track: named(track),
            times: (span.begin, span.end),
        };
        let Span { activity, block, page, .. } = first;
        let (for_whom, steps) = (ForWhom::of(&first), own.iter().map(step).collect());
        let mut all = Self { number, activity, for_whom, block, page, steps, before, collections };
        for for_whom in all.whoms() {
            for_whom.emptied =
                for_whom.whom.its_collection().and_then(|number| emptied.get(&number).copied());
        }
        Ok(Some(all))
    }

    /// For whom it and those before it were.
    pub(crate) fn whoms(&mut self) -> impl Iterator<Item = &mut ForWhom> {
        std::iter::once(&mut self.for_whom)
            .chain(self.before.iter_mut().map(|one| &mut one.for_whom))
    }

    /// For a terminal, about the I/O `order` of `drive`.
    pub(crate) fn to_text(&self, drive: &str, order: u64) -> String {
        let time = |ns: Nanos| units::duration(ns as f64);
        let page = match self.activity {
            What::Erase => String::new(),
            _ => format!(", page {}", self.page),
        };
        let mut text = format!(
            "It ended with a {} of block {}{page}, for {}:\n",
            self.activity.name(),
            self.block,
            self.for_whom.to_text(drive, order)
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
                one.activity.name().to_owned(),
                one.for_whom.to_text(drive, order),
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
