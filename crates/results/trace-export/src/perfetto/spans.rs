//! The spans of a run as slices: each on its own track, or where a track has several lanes on one
//! of each.

use std::collections::HashMap;
use std::io;

use stasis_block::timeline::{Cause, Purpose, Span, Step, Track, TrackKind};
use stasis_results::KeptSpans;

use super::packets::{Note, Trace};

/// The LUNs of a drive come after its channels, of which it has at most so many.
const CHANNELS: u64 = 256;
/// Planes of a LUN at most.
const PLANES: u64 = 16;

/// Which of the spans of a run are wanted.
pub struct Inside<'a> {
    /// The spans.
    pub kept: KeptSpans,
    /// Spans that end by this time are left out (ns).
    pub from: u64,
    /// Decides if those of a drive or machine of this name are wanted, which is part of it.
    pub wanted: &'a dyn Fn(&Track) -> bool,
}

/// Writes the spans. Returns their number.
pub(super) fn write(inside: &mut Inside<'_>, trace: &mut Trace<'_>) -> io::Result<u64> {
    let Inside { kept, from, wanted } = inside;
    let (mut tracks, mut written) = (HashMap::new(), 0);
    while let Some((track, span)) = kept.next_span().map_err(io::Error::other)? {
        if span.end < *from || span.end == *from && span.begin < span.end || !wanted(track) {
            continue;
        }
        let key = (span.track, span.lane);
        let uuid = match tracks.get(&key) {
            Some(uuid) => *uuid,
            None => {
                let (process, name, rank) = place(track, &span);
                let uuid = trace.track(&process, &name, rank)?;
                tracks.insert(key, uuid);
                uuid
            }
        };
        slice(track, &span, uuid, trace)?;
        written += 1;
    }
    Ok(written)
}

/// Returns the place of a span's track: its process, its name there, and its rank among the others.
fn place(track: &Track, span: &Span) -> (String, String, u64) {
    let Track { kind, owner, name, .. } = track;
    let number = |number: Option<u32>| u64::from(number.unwrap_or_default());
    let plane = number(track.lun) * PLANES + number(track.plane);
    let (group, name, rank) = match kind {
        TrackKind::Channel => ("Inside", name.clone(), number(track.channel)),
        TrackKind::Nand => ("Inside", name.clone(), CHANNELS + 2 * plane),
        TrackKind::Collection => {
            ("Inside", format!("{name}: collection"), CHANNELS + 2 * plane + 1)
        }
        TrackKind::Turn => ("Scheduler of", format!("{name}: turns"), span.track.into()),
        TrackKind::Request => {
            let name = format!("{name}: request {}", u32::from(span.lane) + 1);
            ("Scheduler of", name, span.track.into())
        }
        TrackKind::Command => {
            let name = format!("{name} {}", u32::from(span.lane) + 1);
            ("Commands of", name, span.track.into())
        }
        TrackKind::Vcpu | TrackKind::Freeze => ("Processors of", name.clone(), span.track.into()),
    };
    (format!("{group} {owner}"), name, rank)
}

/// Returns whether it is a command that a NAND operation has completed.
fn is_after_operation(kind: TrackKind, span: &Span) -> bool {
    kind == TrackKind::Command && span.cause != Cause::None
}

fn slice(track: &Track, span: &Span, uuid: u64, trace: &mut Trace<'_>) -> io::Result<()> {
    let (kind, activity) = (track.kind, span.activity.name());
    let name = match span.step {
        Step::None | Step::Cells => activity.to_owned(),
        step => format!("{activity}: {}", step.name()),
    };
    let mut notes = Vec::with_capacity(8);
    let nand = matches!(kind, TrackKind::Channel | TrackKind::Nand);
    if span.cause != Cause::None {
        notes.push(Note::Text("cause", span.cause.name()));
    }
    if nand || kind == TrackKind::Request || is_after_operation(kind, span) {
        notes.push(Note::Number("number", span.number));
    }
    if nand || kind == TrackKind::Collection {
        notes.push(Note::Number("block", span.block.into()));
    }
    if nand && span.activity != stasis_block::timeline::What::Erase {
        notes.push(Note::Number("page", span.page.into()));
    }
    if nand && span.whom.purpose != Purpose::None {
        notes.push(Note::Text("purpose", span.whom.purpose.name()));
    }
    if let Some(command) = span.whom.first_command() {
        notes.push(Note::Number("command", command));
    }
    if span.whom.commands > 1 {
        notes.push(Note::Number("commands", span.whom.commands.into()));
    }
    if let Some(collection) = span.whom.its_collection() {
        notes.push(Note::Number("collection", collection));
    }
    if span.bytes > 0 {
        notes.push(Note::Number("bytes", span.bytes));
    }
    if kind == TrackKind::Freeze {
        if span.number > 0 {
            notes.push(Note::Number("wall_ns", span.number));
        }
        return trace.instant((uuid, span.begin), (kind.name(), &name), &notes);
    }
    trace.begin((uuid, span.begin), (kind.name(), &name), &notes)?;
    trace.end(uuid, span.end)
}
