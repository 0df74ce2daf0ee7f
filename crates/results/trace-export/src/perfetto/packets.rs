//! The packets of a Perfetto trace: `TracePacket`s with `TrackDescriptor`s and `TrackEvent`s
//! (Perfetto's documentation, "Synthetic TrackEvents"; protos/perfetto/trace in its repository
//! has the fields' numbers).

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::message::Message;

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
const CHILD_ORDERING: u32 = 11;
const SIBLING_RANK: u32 = 12;
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
const FLOWS: u32 = 47;
const ENDING_FLOWS: u32 = 48;
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
const INSTANT: u64 = 3;
const COUNTER_TYPE: u64 = 4;
/// `TracePacket.SequenceFlags`: nothing of the sequence is from before this packet.
const CLEARED: u64 = 1;
/// `TrackDescriptor.ChildTracksOrdering`: by their ranks.
const EXPLICIT: u64 = 3;

/// A track, and when on it (ns).
pub(super) type At = (u64, u64);

/// A category and a name.
pub(super) type Named<'a> = (&'a str, &'a str);

/// A trace that is written.
pub(super) struct Trace<'a> {
    out: &'a mut dyn Write,
    /// True if nothing has been written yet.
    first: bool,
    /// Processes by name: the number, and how many tracks it has.
    processes: BTreeMap<String, (u64, u64)>,
}

/// A flow from one event to another, by its number.
pub(super) enum Flow {
    Begins(u64),
    Ends(u64),
}

/// An annotation of an event.
pub(super) enum Note<'a> {
    Number(&'a str, u64),
    Text(&'a str, &'a str),
}

impl<'a> Trace<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, first: true, processes: BTreeMap::new() }
    }

    /// One more track of the process of this name, among its others in the order of `rank`.
    pub(super) fn track(&mut self, process: &str, name: &str, rank: u64) -> io::Result<u64> {
        let (uuid, descriptor) = self.child(process, name, rank)?;
        self.put(Message::default().message(TRACK_DESCRIPTOR, descriptor))?;
        Ok(uuid)
    }

    /// Like [`Self::track`], but for a counter; an empty unit is none.
    pub(super) fn counter(
        &mut self,
        process: &str,
        name: &str,
        unit: &str,
        rank: u64,
    ) -> io::Result<u64> {
        let (uuid, descriptor) = self.child(process, name, rank)?;
        let counter = Message::default();
        let counter = if unit.is_empty() { counter } else { counter.text(UNIT_NAME, unit) };
        let descriptor = descriptor.message(COUNTER, counter);
        self.put(Message::default().message(TRACK_DESCRIPTOR, descriptor))?;
        Ok(uuid)
    }

    fn child(&mut self, process: &str, name: &str, rank: u64) -> io::Result<(u64, Message)> {
        if !self.processes.contains_key(process) {
            self.process(process)?;
        }
        let (number, tracks) = self.processes.get_mut(process).expect("it is there");
        *tracks += 1;
        let (parent, uuid) = (*number << 32, *number << 32 | *tracks);
        let descriptor = Message::default()
            .number(UUID, uuid)
            .text(NAME, name)
            .number(PARENT, parent)
            .number(SIBLING_RANK, rank);
        Ok((uuid, descriptor))
    }

    fn process(&mut self, name: &str) -> io::Result<()> {
        let number = self.processes.len() as u64 + 1;
        self.processes.insert(name.to_owned(), (number, 0));
        let process = Message::default().number(PID, number).text(PROCESS_NAME, name);
        let track = Message::default()
            .number(UUID, number << 32)
            .message(PROCESS, process)
            .number(CHILD_ORDERING, EXPLICIT);
        self.put(Message::default().message(TRACK_DESCRIPTOR, track))
    }

    /// A slice begins: its track and when, its category and name.
    pub(super) fn begin(&mut self, at: At, named: Named<'_>, notes: &[Note<'_>]) -> io::Result<()> {
        self.event(at, annotated(SLICE_BEGIN, named, notes))
    }

    /// The track's last slice that has not ended ends.
    pub(super) fn end(&mut self, track: u64, time: u64) -> io::Result<()> {
        self.event((track, time), Message::default().number(TYPE, SLICE_END))
    }

    /// Something that takes no time.
    pub(super) fn instant(
        &mut self,
        at: At,
        named: Named<'_>,
        notes: &[Note<'_>],
    ) -> io::Result<()> {
        self.event(at, annotated(INSTANT, named, notes))
    }

    /// Something that takes no time, at one end of a flow.
    pub(super) fn flow(
        &mut self,
        at: At,
        named: Named<'_>,
        notes: &[Note<'_>],
        flow: Flow,
    ) -> io::Result<()> {
        let (field, number) = match flow {
            Flow::Begins(number) => (FLOWS, number),
            Flow::Ends(number) => (ENDING_FLOWS, number),
        };
        self.event(at, annotated(INSTANT, named, notes).fixed(field, number))
    }

    /// A counter has a value from now on.
    pub(super) fn count(&mut self, track: u64, time: u64, value: u64) -> io::Result<()> {
        let event = Message::default().number(TYPE, COUNTER_TYPE).number(COUNTER_VALUE, value);
        self.event((track, time), event)
    }

    /// Like [`Self::count`], but for a fractional value.
    pub(super) fn sample(&mut self, track: u64, time: u64, value: f64) -> io::Result<()> {
        let event =
            Message::default().number(TYPE, COUNTER_TYPE).double(DOUBLE_COUNTER_VALUE, value);
        self.event((track, time), event)
    }

    fn event(&mut self, (track, time): (u64, u64), event: Message) -> io::Result<()> {
        let event = event.number(TRACK, track);
        self.put(Message::default().number(TIMESTAMP, time).message(TRACK_EVENT, event))
    }

    fn put(&mut self, mut packet: Message) -> io::Result<()> {
        if std::mem::take(&mut self.first) {
            packet = packet.number(SEQUENCE_FLAGS, CLEARED);
        }
        let packet = Message::default().message(PACKET, packet.number(SEQUENCE, 1));
        self.out.write_all(&packet.into_bytes())
    }
}

fn annotated(kind: u64, (category, name): Named<'_>, notes: &[Note<'_>]) -> Message {
    let event =
        Message::default().number(TYPE, kind).text(CATEGORIES, category).text(EVENT_NAME, name);
    notes.iter().fold(event, |event, note| {
        let note = match note {
            Note::Number(name, value) => {
                Message::default().text(ANNOTATION_NAME, name).number(UINT_VALUE, *value)
            }
            Note::Text(name, value) => {
                Message::default().text(ANNOTATION_NAME, name).text(STRING_VALUE, value)
            }
        };
        event.message(ANNOTATION, note)
    })
}
