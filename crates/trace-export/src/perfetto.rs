//! Perfetto's trace: `TracePacket`s with `TrackDescriptor`s and `TrackEvent`s (Perfetto's
//! documentation, "Synthetic TrackEvents"; protos/perfetto/trace in its repository has the
//! fields' numbers).
//!
//! Each drive is a process; each place of its queues that I/Os take one after the other is a
//! track of it, with a slice for each I/O from its submission to its interrupt, and the I/Os
//! under way are a counter. What results have by steps of time, such as for which share of
//! each a processor ran, are counters of further processes ([`Counter`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use stasis_run_events::IoRecord;

use crate::message::Message;
use crate::{Counter, Exported};

/// Field numbers: `Trace`.
const PACKET: u32 = 1;
/// `TracePacket`.
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const SEQUENCE_FLAGS: u32 = 13;
const TRACK_DESCRIPTOR: u32 = 60;
/// `TrackDescriptor`.
const UUID: u32 = 1;
const NAME: u32 = 2;
const PROCESS: u32 = 3;
const PARENT: u32 = 5;
const COUNTER: u32 = 8;
/// `ProcessDescriptor`.
const PID: u32 = 1;
const PROCESS_NAME: u32 = 6;
/// `TrackEvent`.
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const TRACK: u32 = 11;
const CATEGORIES: u32 = 22;
const EVENT_NAME: u32 = 23;
const COUNTER_VALUE: u32 = 30;
const DOUBLE_COUNTER_VALUE: u32 = 44;
/// `CounterDescriptor`.
const UNIT_NAME: u32 = 6;
/// `DebugAnnotation`.
const UINT_VALUE: u32 = 3;
const STRING_VALUE: u32 = 6;
const ANNOTATION_NAME: u32 = 10;

/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER_TYPE: u64 = 4;
/// `TracePacket.SequenceFlags`: nothing of the sequence is from before this packet.
const CLEARED: u64 = 1;

/// Bytes of an LBA.
const BLOCK: u64 = 512;

/// A slice's edge, in the order in which edges are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    time: u64,
    /// Ends come first, so that a track's next slice is not inside its last one.
    begins: bool,
    io: usize,
    lane: u32,
}

/// Writes the I/Os of the drives of these names, by drive, and the counters, of which those of
/// one group stand one after the other. All are in memory while their
/// edges are sorted: some 150 bytes an I/O.
///
/// # Errors
/// Those of `out`.
pub fn perfetto(
    drives: &[String],
    ios: &[Vec<IoRecord>],
    counters: &[Counter],
    out: &mut dyn Write,
) -> io::Result<Exported> {
    let mut exported = Exported::default();
    let mut first = true;
    for (number, (name, ios)) in drives.iter().zip(ios).enumerate() {
        let drive = Drive { number: number as u64 + 1, name };
        let (edges, lanes) = edges(ios);
        let mut packets = vec![drive.describe()];
        packets.push(drive.describe_counter());
        packets.extend((0..lanes).map(|lane| drive.describe_lane(lane)));
        for mut packet in packets {
            if std::mem::take(&mut first) {
                packet = packet.number(SEQUENCE_FLAGS, CLEARED);
            }
            put(out, packet)?;
        }
        let mut depth = 0_u64;
        for edge in edges {
            depth = if edge.begins { depth + 1 } else { depth - 1 };
            put(out, drive.edge(&edge, &ios[edge.io]))?;
            put(out, drive.count(edge.time, depth))?;
        }
        exported.ios += ios.len() as u64;
    }
    let groups = counters.chunk_by(|one, other| one.group == other.group);
    for (number, group) in groups.enumerate() {
        // As with a drive, a process of its own.
        let process = Drive { number: (drives.len() + number + 1) as u64, name: &group[0].group };
        let mut packet = process.describe();
        if std::mem::take(&mut first) {
            packet = packet.number(SEQUENCE_FLAGS, CLEARED);
        }
        put(out, packet)?;
        for (place, counter) in group.iter().enumerate() {
            sampled(out, &process, process.track(1 + place as u64), counter)?;
        }
    }
    out.flush()?;
    Ok(exported)
}

/// A counter's track, with a value wherever that changes.
fn sampled(
    out: &mut dyn Write,
    process: &Drive<'_>,
    track: u64,
    counter: &Counter,
) -> io::Result<()> {
    let unit = Message::default().text(UNIT_NAME, counter.unit);
    let descriptor = Message::default()
        .number(UUID, track)
        .text(NAME, &counter.name)
        .number(PARENT, process.track(0))
        .message(COUNTER, unit);
    put(out, Message::default().message(TRACK_DESCRIPTOR, descriptor))?;
    let mut last = None;
    // Nothing is known of what comes after the last step.
    for (step, value) in counter.values.iter().chain([&0.0]).enumerate() {
        if last.replace(value) == Some(value) {
            continue;
        }
        let time = counter.begin.saturating_add((step as u64).saturating_mul(counter.step));
        let event = Message::default()
            .number(TYPE, COUNTER_TYPE)
            .number(TRACK, track)
            .double(DOUBLE_COUNTER_VALUE, *value);
        put(out, Message::default().number(TIMESTAMP, time).message(TRACK_EVENT, event))?;
    }
    Ok(())
}

fn put(out: &mut dyn Write, packet: Message) -> io::Result<()> {
    out.write_all(&Message::default().message(PACKET, packet.number(SEQUENCE, 1)).into_bytes())
}

/// The edges of all slices in the order of time, and how many lanes they take.
fn edges(ios: &[IoRecord]) -> (Vec<Edge>, u32) {
    let mut order: Vec<usize> = (0..ios.len()).collect();
    order.sort_by_key(|&io| (ios[io].submit, ios[io].order));
    let mut free = BinaryHeap::new();
    let mut busy = BinaryHeap::new();
    let mut lanes = 0;
    let mut edges = Vec::with_capacity(ios.len() * 2);
    for io in order {
        let IoRecord { submit, delivered, .. } = ios[io];
        // A slice is never shorter than nothing.
        let end = delivered.max(submit);
        while let Some(Reverse((until, lane))) = busy.peek().copied() {
            if until > submit {
                break;
            }
            busy.pop();
            free.push(Reverse(lane));
        }
        let lane = free.pop().map_or_else(
            || {
                lanes += 1;
                lanes - 1
            },
            |Reverse(lane)| lane,
        );
        // What takes no time leaves its lane at the next instant, or its end would be before
        // its begin.
        busy.push(Reverse((end.max(submit + 1), lane)));
        edges.push(Edge { time: submit, begins: true, io, lane });
        edges.push(Edge { time: end.max(submit + 1), begins: false, io, lane });
    }
    edges.sort_unstable();
    (edges, lanes)
}

struct Drive<'a> {
    number: u64,
    name: &'a str,
}

impl Drive<'_> {
    /// Track identifiers: the drive's own, its counter's, then its lanes'.
    fn track(&self, place: u64) -> u64 {
        self.number << 32 | place
    }

    fn describe(&self) -> Message {
        let process = Message::default().number(PID, self.number).text(PROCESS_NAME, self.name);
        let track = Message::default().number(UUID, self.track(0)).message(PROCESS, process);
        Message::default().message(TRACK_DESCRIPTOR, track)
    }

    fn describe_counter(&self) -> Message {
        let track = Message::default()
            .number(UUID, self.track(1))
            .text(NAME, "I/Os under way")
            .number(PARENT, self.track(0))
            .message(COUNTER, Message::default());
        Message::default().message(TRACK_DESCRIPTOR, track)
    }

    fn describe_lane(&self, lane: u32) -> Message {
        let track = Message::default()
            .number(UUID, self.lane(lane))
            .text(NAME, &format!("I/O {}", lane + 1))
            .number(PARENT, self.track(0));
        Message::default().message(TRACK_DESCRIPTOR, track)
    }

    fn lane(&self, lane: u32) -> u64 {
        self.track(2 + u64::from(lane))
    }

    fn edge(&self, edge: &Edge, record: &IoRecord) -> Message {
        let kind = if edge.begins { SLICE_BEGIN } else { SLICE_END };
        let mut event = Message::default().number(TYPE, kind).number(TRACK, self.lane(edge.lane));
        if edge.begins {
            let phase = if record.boot { "boot" } else { "command" };
            let status = match (record.refused, record.failed) {
                (true, _) => "refused",
                (_, true) => "error",
                _ => "ok",
            };
            event = event
                .text(CATEGORIES, phase)
                .text(EVENT_NAME, record.operation.name())
                .message(ANNOTATION, text("status", status));
            for (name, value) in [
                ("lba", record.offset / BLOCK),
                ("bytes", record.bytes),
                ("queue", u64::from(record.queue)),
                ("target_ns", record.target),
                ("delivered_ns", record.delivered),
            ] {
                event = event.message(ANNOTATION, number(name, value));
            }
        }
        Message::default().number(TIMESTAMP, edge.time).message(TRACK_EVENT, event)
    }

    fn count(&self, time: u64, depth: u64) -> Message {
        let event = Message::default()
            .number(TYPE, COUNTER_TYPE)
            .number(TRACK, self.track(1))
            .number(COUNTER_VALUE, depth);
        Message::default().number(TIMESTAMP, time).message(TRACK_EVENT, event)
    }
}

fn number(name: &str, value: u64) -> Message {
    Message::default().text(ANNOTATION_NAME, name).number(UINT_VALUE, value)
}

fn text(name: &str, value: &str) -> Message {
    Message::default().text(ANNOTATION_NAME, name).text(STRING_VALUE, value)
}
