//! The surroundings of a power cut: the writes that it took, and the events before and after it.

use serde::Serialize;
use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation};
use stasis_crash::{Cut, CutPoint, Enumerator, EventKind, Loss, LossReason, Trace, TracedRequest};
use stasis_qcow2::Durability;
use stasis_results::units;

use crate::names::Holder;

/// Changes that are listed: the last before the cut, and the one that a finding names.
const LOSSES: usize = 24;
/// Events that are listed, before the cut and after it.
const BEFORE: usize = 8;
const AFTER: usize = 4;
/// Lines of output that are listed, the last before the cut.
const LINES: usize = 5;
/// Events of the plot, before the cut and after it.
const COURSE: (usize, usize) = (40, 12);
/// Holders of a range that are shown.
const HOLDERS: usize = 3;
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
    /// The reason why what lies there could not be named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_named: Option<String>,
    /// The bytes that the finding names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<NamedByte>,
    /// The promise that the finding says is broken; none where it names no write.
    pub promise: Option<BrokenPromise>,
    /// The last lines of output before the cut.
    pub lines: Vec<Line>,
    /// The events around the cut.
    pub events: Vec<NearEvent>,
    /// The events around the cut, and more of them, as a plot has them.
    #[serde(skip)]
    pub course: Vec<Span>,
}

/// A request or a line near a cut, over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its kind.
    pub kind: SpanKind,
    /// Times at which it was submitted and at which it ended; of one that did not end near the cut,
    /// the last instant that is looked at (ns).
    pub at: (Nanos, Nanos),
    /// Its description.
    pub description: String,
}

/// Kinds of [`Span`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A line of output.
    Line,
    /// A flush or a barrier of the guest's.
    Order,
    /// One at the drive below an image or a fault: it may end after the guest was told that it had.
    Below,
    /// A change that the state has, or that came after the cut.
    Kept,
    /// A change of which the state lacks something.
    Lost,
}

/// A byte that a finding names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedByte {
    /// Its place on the guest's disk.
    pub offset: u64,
    /// Its holders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
}

/// A change of a drive that a state lacks, wholly or in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostChange {
    /// The drive's name.
    pub drive: String,
    /// Its number among the changes and orders of the drive, from 0.
    pub order: u64,
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
    /// The reason why the drive could lose it.
    pub why: LossReason,
    /// True if the finding is about this change.
    pub named: bool,
    /// Holders of its places, by the file system's own tools; of the findings that are looked into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
}

impl LostChange {
    /// Returns the holders for a reader; empty where they are not known.
    pub fn held_by(&self) -> String {
        texts(&self.holders)
    }
}

/// Holders for a reader.
fn texts(holders: &[Holder]) -> String {
    let mut texts: Vec<String> = holders.iter().take(HOLDERS).map(Holder::text).collect();
    let more = holders.len().saturating_sub(HOLDERS);
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    texts.join("; ")
}

/// A promise that a state does not keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenPromise {
    /// First byte of the lost write, on the guest's disk.
    pub offset: u64,
    /// Its length (bytes).
    pub length: u64,
    /// Time of its submission (ns).
    pub submitted: Nanos,
    /// True if the write was durable by itself (FUA), and not by a flush after it.
    pub durable: bool,
    /// Time from which it is durable (ns): the end of the flush or of the write, and of an ordered
    /// image the largest lag later.
    pub promised: Nanos,
    /// The largest lag of an ordered image (ns); 0 of other drives.
    pub lag: Nanos,
    /// The first line of output after that, before the cut: the step that relied on it.
    pub step: Option<Line>,
    /// First line after the cut in the traced run where there was none before it: the step under
    /// way.
    pub under_way: Option<Line>,
}

/// A line of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The time at which the command wrote it (ns).
    pub at: Nanos,
    /// The line, shortened for a reader.
    pub text: String,
}

/// An event near a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NearEvent {
    /// Its time (ns).
    pub at: Nanos,
    /// True if it is before the cut.
    pub before: bool,
    /// Its description.
    pub what: String,
}

impl Evidence {
    /// Returns the evidence of the state `cut` of a trace; `enumerator` is at its point. `named`:
    /// the write that the finding is about, by drive and place in the guest's log.
    pub fn of(
        trace: &Trace,
        enumerator: &Enumerator<'_>,
        cut: &Cut,
        named: Option<(usize, usize)>,
    ) -> Self {
        let mut found = Self::default();
        let mut lost_places = Vec::new();
        for (index, drive) in trace.drives.iter().enumerate() {
            let log = drive.cached();
            let about = named.filter(|(drive, _)| *drive == index).map(|(_, place)| place);
            // Without an image, both ends of the drive have the same bytes at the same places.
            let about = about.filter(|_| trace.header.drives[index].image.is_none());
            let about = about.and_then(|place| drive.guest.requests.get(place));
            let about = about
                .and_then(|about| log.requests.iter().position(|request| is_same(about, request)));
            for lost in enumerator.losses(index, cut.sampling) {
                lost_places.push((index, lost.place));
                let request = &log.requests[lost.place];
                let Command { operation, offset, length, .. } = request.command;
                let kept = match lost.loss {
                    Loss::Whole => 0,
                    Loss::Torn { kept, total } => length / total.max(1) * kept,
                };
                match lost.loss {
                    Loss::Whole => found.missing += 1,
                    Loss::Torn { .. } => found.torn += 1,
                }
                let well = request.end.filter(|_| request.well_by(cut.point));
                found.losses.push(LostChange {
                    drive: trace.header.drives[index].name.clone(),
                    order: lost.place as u64,
                    operation,
                    offset,
                    length,
                    submitted: request.submit.0,
                    acknowledged: well.map(|(at, ..)| at),
                    left: kept,
                    why: lost.why,
                    named: about == Some(lost.place),
                    holders: Vec::new(),
                });
            }
        }
        found.losses.sort_by_key(|loss| loss.submitted);
        let mut spare = found.losses.len().saturating_sub(LOSSES);
        found.losses.retain(|loss| {
            let dropped = spare > 0 && !loss.named;
            spare -= usize::from(dropped);
            !dropped
        });
        found.promise = named.and_then(|named| BrokenPromise::of(trace, cut.point, named));
        let lines = &trace.lines[..trace.lines.partition_point(|(when, ..)| *when <= cut.point)];
        found.lines = lines[lines.len().saturating_sub(LINES)..].iter().map(Line::of).collect();
        let point = cut.point as usize;
        let near = point.saturating_sub(BEFORE)..(point + AFTER).min(trace.events.len());
        found.events = near.map(|index| event(trace, index, index < point)).collect();
        found.course = course(trace, cut.point, &lost_places);
        found
    }

    /// For the terminal, in lines.
    pub fn text(&self, cut: Nanos) -> String {
        let mut text = String::new();
        if let Some(promise) = &self.promise {
            text += &format!("  {}\n", promise.words());
        }
        for byte in self.bytes() {
            text += &format!("  {byte}\n");
        }
        if let Some(last) = self.lines.last() {
            text += &format!("  last line before the cut: {}\n", last.text);
        }
        if let Some(lost) = self.losses.iter().find(|lost| lost.named).or(self.losses.last()) {
            text += &format!(
                "  not on the disk: {}; {} {} of {} at {:#x}, submitted {} before the cut: {}\n",
                self.counted(),
                if lost.named { "among them the" } else { "the last a" },
                lost.operation.name(),
                units::bytes(lost.length),
                lost.offset,
                units::duration(cut.saturating_sub(lost.submitted) as f64),
                reason(lost.why),
            );
            if !lost.holders.is_empty() {
                text += &format!("  there lies: {}\n", lost.held_by());
            }
        }
        if let Some(why) = &self.not_named {
            text += &format!("  what lies there has no name: {why}\n");
        }
        text
    }

    /// Holders of the place that the finding is about, for a reader, where they are known.
    pub fn place(&self) -> Option<String> {
        let lost = self.losses.iter().filter(|loss| loss.named).map(|loss| &loss.holders);
        let about = self.about.iter().map(|byte| &byte.holders);
        lost.chain(about).find(|holders| !holders.is_empty()).map(|holders| texts(holders))
    }

    /// Holders of the bytes that the finding names, in sentences for a reader: of findings that
    /// are about no change of the list.
    pub fn bytes(&self) -> Vec<String> {
        if self.losses.iter().any(|loss| loss.named && !loss.holders.is_empty()) {
            return Vec::new();
        }
        let known = self.about.iter().filter(|byte| !byte.holders.is_empty());
        known
            .map(|byte| format!("byte {:#x} lies in: {}", byte.offset, texts(&byte.holders)))
            .collect()
    }

    /// Returns the number of changes that are missing and torn, in words.
    pub fn counted(&self) -> String {
        let (missing, torn) = (units::count(self.missing), units::count(self.torn));
        format!("{missing} missing, {torn} torn")
    }
}

/// Reasons, in words and with their meaning.
pub const REASONS: [(LossReason, &str, &str); 4] = [
    (
        LossReason::Cached,
        "cached, not flushed",
        "it was acknowledged, in the volatile cache, and no flush after it had ended at the drive.",
    ),
    (
        LossReason::InFlight,
        "in flight",
        "it was not acknowledged, and no later change was on the medium.",
    ),
    (LossReason::Reordered, "overtaken", "a later change went to the medium before it."),
    (
        LossReason::Torn,
        "torn",
        "only some of its atomic units, each written whole or not at all, were on the medium.",
    ),
];

/// A reason in words.
pub fn reason(why: LossReason) -> &'static str {
    REASONS.iter().find(|(each, ..)| *each == why).map_or("", |(_, words, _)| words)
}

/// Returns whether a request of the guest is this one of the drive below.
fn is_same(guest: &TracedRequest, drive: &TracedRequest) -> bool {
    let place = |one: &Command| (one.operation, one.offset, one.length);
    place(&guest.command) == place(&drive.command) && guest.submit.0 <= drive.submit.0
}

impl BrokenPromise {
    /// Returns the fate of a write by drive and place in the guest's log, at a cut after `point`
    /// events.
    pub fn of(trace: &Trace, point: CutPoint, (drive, place): (usize, usize)) -> Option<Self> {
        let log = &trace.drives.get(drive)?.guest;
        let write = log.requests.get(place)?;
        let by = log.promised_by(place, point)?;
        let (ended, end, _) = log.requests[by].end?;
        let image = trace.header.drives.get(drive).and_then(|drive| drive.image);
        let lag = match image.filter(|image| image.durability == Durability::Ordered) {
            Some(image) if by != place => image.max_lag,
            _ => 0,
        };
        let promised = ended.saturating_add(lag);
        if promised > trace.time(point) {
            return None;
        }
        // A line is there after the event that ended it.
        let mut lines = trace.lines.iter();
        let after = lines.find(|(when, at, _)| *when > end && *at >= promised);
        let (step, under_way) = match after {
            Some(line) if line.0 <= point => (Some(Line::of(line)), None),
            later => (None, later.map(Line::of)),
        };
        Some(Self {
            offset: write.command.offset,
            length: write.command.length,
            submitted: write.submit.0,
            durable: by == place,
            promised,
            lag,
            step,
            under_way,
        })
    }
}

impl BrokenPromise {
    /// The promise in words.
    pub fn words(&self) -> String {
        let by = match (self.durable, self.lag) {
            (true, _) => "its own acknowledgement as a durable write (FUA)".to_owned(),
            (false, 0) => "a flush that was acknowledged".to_owned(),
            (false, lag) => {
                format!(
                    "a flush and the image's largest lag after it, {},",
                    units::duration(lag as f64)
                )
            }
        };
        let step = match (&self.step, &self.under_way) {
            (Some(Line { at, text }), _) => {
                format!("; the step that relied on it, at {}: {text}", units::duration(*at as f64))
            }
            (None, Some(Line { text, .. })) => {
                format!("; the cut came before the next line of output, which was to be: {text}")
            }
            (None, None) => "; no line of output came after it".to_owned(),
        };
        format!("promised by {by} at {}{step}", units::duration(self.promised as f64))
    }
}

impl Line {
    fn of((_, at, line): &(CutPoint, Nanos, Vec<u8>)) -> Self {
        Self { at: *at, text: line_text(line) }
    }
}

/// Requests of the drives and lines around a cut; `lost`: of which changes the state lacks something,
/// by drive and place.
fn course(trace: &Trace, point: CutPoint, lost: &[(usize, usize)]) -> Vec<Span> {
    let point = point as usize;
    let near = point.saturating_sub(COURSE.0)..(point + COURSE.1).min(trace.events.len());
    let Some(last) = near.clone().last().map(|index| trace.events[index].at) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, drive) in trace.drives.iter().enumerate() {
        let name = &trace.header.drives[index].name;
        let mut add = |kind, request: &TracedRequest| {
            if near.contains(&(request.submit.1 as usize)) {
                let end = request.end.map_or(last, |(at, ..)| at.min(last));
                let description = format!("{name}: {}", words(&request.command));
                found.push(Span { kind, at: (request.submit.0, end), description });
            }
        };
        let orders = |request: &TracedRequest| {
            matches!(request.command.operation, Operation::Flush | Operation::Barrier)
        };
        for (place, request) in drive.cached().requests.iter().enumerate() {
            let kind = match drive.lower {
                Some(_) if orders(request) => SpanKind::Below,
                None if orders(request) => SpanKind::Order,
                _ if lost.contains(&(index, place)) => SpanKind::Lost,
                _ => SpanKind::Kept,
            };
            add(kind, request);
        }
        let guest = drive.lower.is_some().then_some(&drive.guest);
        let guest = guest.into_iter().flat_map(|log| &log.requests);
        guest.filter(|request| orders(request)).for_each(|request| add(SpanKind::Order, request));
    }
    let lines =
        trace.lines.iter().filter(|(when, ..)| near.contains(&(*when as usize).saturating_sub(1)));
    let line = |(_, at, line): &(CutPoint, Nanos, Vec<u8>)| Span {
        kind: SpanKind::Line,
        at: (*at, *at),
        description: line_text(line),
    };
    found.extend(lines.map(line));
    found
}

fn event(trace: &Trace, index: usize, before: bool) -> NearEvent {
    let event = &trace.events[index];
    let request_of = |drive: u16, level, place: u32| {
        let name = trace.header.drives.get(usize::from(drive)).map_or("", |one| one.name.as_str());
        let below = match level {
            stasis_crash::Level::Drive => match trace.header.drives.get(usize::from(drive)) {
                Some(one) if one.image.is_some() => ", below the image",
                _ => ", below the fault",
            },
            stasis_crash::Level::Guest => "",
        };
        let request = trace.log(drive, level).and_then(|log| log.requests.get(place as usize));
        let command = request.map_or(String::new(), |request| words(&request.command));
        format!("{name}{below}: {command}")
    };
    let description = match event.kind {
        EventKind::Request(drive, level, place) => {
            format!("{} submitted", request_of(drive, level, place))
        }
        EventKind::Completion(drive, level, place) => {
            format!("{} ended", request_of(drive, level, place))
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
    NearEvent { at: event.at, before, what: description }
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

#[cfg(test)]
mod tests {
    use stasis_block::{PowerLoss, Status};
    use stasis_crash::{Frame, Level, TraceHeader, TraceWriter, TracedDrive};
    use stasis_drive::Sampling;
    use stasis_qcow2::Settings;

    use super::*;

    const DRIVE: u16 = 0;
    const LEVEL: Level = Level::Guest;

    fn request(place: u64, at: Nanos, command: Command) -> Frame<'static> {
        let data = vec![place as u8 + 1; command.length as usize];
        let data = if command.operation == Operation::Write { data } else { Vec::new() };
        Frame::Request { drive: DRIVE, level: LEVEL, place, at, command, data: data.leak() }
    }

    fn completion(place: u64, at: Nanos) -> Frame<'static> {
        Frame::Completion { drive: DRIVE, level: LEVEL, place, at, status: Status::Ok }
    }

    fn trace(frames: &[Frame<'_>]) -> Trace {
        trace_of(TracedDrive { name: "disk".into(), ..TracedDrive::default() }, frames)
    }

    fn trace_of(drive: TracedDrive, frames: &[Frame<'_>]) -> Trace {
        let mut file = Vec::new();
        let header = TraceHeader { drives: vec![drive], ..TraceHeader::default() };
        let mut writer = TraceWriter::new(&mut file, &header).unwrap();
        let kind = Frame::Drive {
            drive: DRIVE,
            level: LEVEL,
            capacity: 1 << 20,
            discard_zeroes: true,
            power_loss: PowerLoss::default(),
        };
        writer.frame(&kind).unwrap();
        frames.iter().for_each(|frame| writer.frame(frame).unwrap());
        writer.finish().unwrap();
        Trace::load(&file[..], &mut |_, _, _| Ok(())).unwrap()
    }

    /// Evidence of the state that loses all it can after the last event before `at`.
    fn least(trace: &Trace, at: Nanos, named: Option<(usize, usize)>) -> Evidence {
        let cut = Cut { number: 0, point: trace.point_at(at), sampling: Sampling::Least };
        let mut enumerator = Enumerator::new(trace, false);
        enumerator.go_to(cut.point);
        Evidence::of(trace, &enumerator, &cut, named)
    }

    #[test]
    fn a_lost_write_has_its_promise_and_the_step_that_relied_on_it() {
        let write = |offset| Command::new(Operation::Write, offset, 1024);
        let trace = trace(&[
            Frame::Output { at: 1, bytes: b"step 0\n" },
            request(0, 10, write(4096)),
            completion(0, 20),
            request(1, 30, Command::flush()),
            completion(1, 40),
            Frame::Output { at: 50, bytes: b"step 1\nste" },
            request(2, 60, write(8192)),
            completion(2, 70),
            Frame::Output { at: 80, bytes: b"p 2\n" },
            request(3, 90, write(512)),
        ]);
        let found = least(&trace, 95, Some((0, 0)));
        let promise = found.promise.clone().unwrap();
        assert_eq!((promise.offset, promise.submitted, promise.promised), (4096, 10, 40));
        assert_eq!((promise.durable, promise.step.unwrap()), (false, line(50, "step 1")));
        assert_eq!(found.lines, [line(1, "step 0"), line(50, "step 1"), line(80, "step 2")]);
        let fields = |lost: &LostChange| (lost.order, lost.offset, lost.acknowledged, lost.why);
        assert_eq!(
            found.losses.iter().map(fields).collect::<Vec<_>>(),
            [(2, 8192, Some(70), LossReason::Cached), (3, 512, None, LossReason::InFlight)]
        );
        assert_eq!(found.counted(), "2 missing, 0 torn");
        let spans: Vec<_> = found.course.iter().map(|span| (span.kind, span.at)).collect();
        use SpanKind::{Kept, Line, Lost, Order};
        assert_eq!(
            spans,
            [
                (Kept, (10, 20)),
                (Order, (30, 40)),
                (Lost, (60, 70)),
                (Lost, (90, 90)), // it has not ended
                (Line, (1, 1)),
                (Line, (50, 50)),
                (Line, (80, 80)),
            ]
        );
        let text = found.text(95);
        for word in ["flush that was acknowledged at 40 ns", "step 1", "cut: step 2", "at 0x200"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        // The cut came before any line that relied on it; then before the flush had ended.
        let early = least(&trace, 45, Some((0, 0))).promise.unwrap();
        assert_eq!((&early.step, &early.under_way), (&None, &Some(line(50, "step 1"))));
        assert!(early.words().contains("which was to be: step 1"), "{}", early.words());
        assert_eq!(least(&trace, 39, Some((0, 0))).promise, None);
        // A write that the finding names stays in the list however many follow it.
        let mut frames = Vec::new();
        for place in 0..100 {
            frames.push(request(place, place * 10, write(place * 1024)));
        }
        let many = self::trace(&frames);
        let found = least(&many, 2000, Some((0, 3)));
        let orders: Vec<u64> = found.losses.iter().map(|lost| lost.order).collect();
        assert_eq!((orders.len(), found.missing), (LOSSES, 100));
        assert_eq!((orders[0], found.losses[0].named, orders[LOSSES - 1]), (3, true, 99));
        assert!(found.losses[1..].iter().all(|lost| !lost.named && lost.order > 76), "{orders:?}");
    }

    /// A drive with a fault acknowledges a flush that its cache has not ended.
    #[test]
    fn a_flush_that_is_acknowledged_early_has_two_ends() {
        let below = |frame| match frame {
            Frame::Request { drive, place, at, command, data, .. } => {
                Frame::Request { drive, level: Level::Drive, place, at, command, data }
            }
            Frame::Completion { drive, place, at, status, .. } => {
                Frame::Completion { drive, level: Level::Drive, place, at, status }
            }
            other => other,
        };
        let flush = |at| request(0, at, Command::flush());
        let trace = trace(&[
            Frame::Drive {
                drive: DRIVE,
                level: Level::Drive,
                capacity: 1 << 20,
                discard_zeroes: true,
                power_loss: PowerLoss::default(),
            },
            flush(10),
            below(flush(10)),
            completion(0, 20),
            Frame::Output { at: 30, bytes: b"step 1\n" },
            below(completion(0, 40)),
        ]);
        let found = least(&trace, 35, None);
        let spans: Vec<_> = found.course.iter().map(|span| (span.kind, span.at)).collect();
        use SpanKind::{Below, Line, Order};
        assert_eq!(spans, [(Below, (10, 40)), (Order, (10, 20)), (Line, (30, 30))]);
    }

    #[test]
    fn an_ordered_image_promises_after_its_lag() {
        let image =
            Settings { durability: Durability::Ordered, max_lag: 30, ..Settings::default() };
        let drive = TracedDrive { image: Some(image), ..TracedDrive::default() };
        let frames = [
            request(0, 10, Command::new(Operation::Write, 4096, 1024)),
            completion(0, 20),
            request(1, 30, Command::flush()),
            completion(1, 40),
            Frame::Output { at: 50, bytes: b"step 1\n" },
            Frame::Output { at: 80, bytes: b"step 2\n" },
        ];
        let trace = trace_of(drive, &frames);
        assert_eq!(least(&trace, 60, Some((0, 0))).promise, None, "not yet durable");
        let promise = least(&trace, 90, Some((0, 0))).promise.unwrap();
        assert_eq!((promise.promised, promise.lag), (70, 30));
        assert_eq!(promise.step, Some(line(80, "step 2")));
        assert!(promise.words().contains("largest lag after it, 30 ns, at 70 ns"));
    }

    fn line(at: Nanos, text: &str) -> Line {
        Line { at, text: text.to_owned() }
    }
}
