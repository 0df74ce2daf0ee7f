//! What lies around a power cut: the writes that it took, and the events before and after it.

use serde::Serialize;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation};
use stasis_crash::{Cut, Enumerator, EventKind, Loss, Trace};
use stasis_report::units;

/// Writes that are listed, the last before the cut.
const LOSSES: usize = 12;
/// Events that are listed, before the cut and after it.
const BEFORE: usize = 8;
const AFTER: usize = 4;
/// Characters of a line that are shown.
const SHOWN: usize = 100;

/// The surroundings of a state's power cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Number of changes of which the state has nothing.
    pub missing: u64,
    /// Number of changes of which the state has a part.
    pub torn: u64,
    /// The last of these changes, in the order of submission.
    pub losses: Vec<LostChange>,
    /// The events around the cut.
    pub events: Vec<NearEvent>,
}

/// A change of a drive that a state lacks, wholly or in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostChange {
    /// The drive's name.
    pub drive: String,
    /// The operation.
    pub operation: Operation,
    /// First byte of the range; below a disk image, on the drive that holds it.
    pub offset: u64,
    /// Length of the range (bytes).
    pub length: u64,
    /// Time of submission (ns).
    pub submitted: Nanos,
    /// Time of the acknowledgement (ns); none where the cut came before it.
    pub acknowledged: Option<Nanos>,
    /// Bytes of the range that the state has.
    pub left: u64,
}

/// An event near a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NearEvent {
    /// Its time (ns).
    pub at: Nanos,
    /// Whether it is before the cut.
    pub before: bool,
    /// Its description.
    pub what: String,
}

impl Evidence {
    /// Of the state `cut` of a trace.
    pub fn of(trace: &Trace, cut: &Cut, strict: bool) -> Self {
        let mut enumerator = Enumerator::new(trace, strict);
        enumerator.go_to(cut.point);
        let mut found = Self::default();
        for (index, drive) in trace.drives.iter().enumerate() {
            let log = drive.cached();
            for (place, loss) in enumerator.losses(index, cut.sampling) {
                let request = &log.requests[place];
                let Command { operation, offset, length, .. } = request.command;
                let left = match loss {
                    Loss::Whole => 0,
                    Loss::Torn { left, of } => length / of.max(1) * left,
                };
                match loss {
                    Loss::Whole => found.missing += 1,
                    Loss::Torn { .. } => found.torn += 1,
                }
                found.losses.push(LostChange {
                    drive: trace.header.drives[index].name.clone(),
                    operation,
                    offset,
                    length,
                    submitted: request.submit.0,
                    acknowledged: request
                        .end
                        .filter(|_| request.well_by(cut.point))
                        .map(|(at, ..)| at),
                    left,
                });
            }
        }
        found.losses.sort_by_key(|loss| loss.submitted);
        found.losses.drain(..found.losses.len().saturating_sub(LOSSES));
        let point = cut.point as usize;
        let near = point.saturating_sub(BEFORE)..(point + AFTER).min(trace.events.len());
        found.events = near.map(|index| event(trace, index, index < point)).collect();
        found
    }
}

fn event(trace: &Trace, index: usize, before: bool) -> NearEvent {
    let event = &trace.events[index];
    let of = |drive: u16, level, place: u32| {
        let name = trace.header.drives.get(usize::from(drive)).map_or("", |one| one.name.as_str());
        let below = match level {
            stasis_crash::Level::Drive => ", below the image",
            stasis_crash::Level::Guest => "",
        };
        let request = trace.log(drive, level).and_then(|log| log.requests.get(place as usize));
        let command = request.map_or(String::new(), |request| words(&request.command));
        format!("{name}{below}: {command}")
    };
    let what = match event.kind {
        EventKind::Request(drive, level, place) => {
            format!("{} submitted", of(drive, level, place))
        }
        EventKind::Completion(drive, level, place) => {
            format!("{} ended", of(drive, level, place))
        }
        EventKind::Output => {
            // A line is there after the event that ended it.
            let ended = trace.lines.iter().filter(|(point, ..)| *point as usize == index + 1);
            let lines: Vec<_> = ended.map(|(.., line)| line_text(line)).collect();
            match lines.is_empty() {
                true => "output".to_owned(),
                false => format!("line: {}", lines.join(" / ")),
            }
        }
    };
    NearEvent { at: event.at, before, what }
}

/// A command in words.
fn words(command: &Command) -> String {
    let Command { operation, offset, length, fua, .. } = *command;
    let durable = if fua { ", durable" } else { "" };
    match length {
        0 => format!("{}{durable}", operation.name()),
        _ => format!("{} of {} at {offset:#x}{durable}", operation.name(), units::bytes(length)),
    }
}

/// A line of output for a reader.
pub fn line_text(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
