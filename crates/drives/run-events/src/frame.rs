//! Entries as a stream of bytes: kind (1 byte), length (4 bytes, little
//! endian), payload.

use stasis_layout::{layout, FromBytes, IntoBytes, U16, U32, U64};

use crate::fault::RawFault;
use crate::span::RawSpan;
use crate::{FaultRecord, GuestIo, IoRecord, PacketRecord, RunEvent, Sample, Stage, Wait};

/// Longest payload of a frame; longer entries go out as several frames.
const MAX_PAYLOAD: usize = 1 << 20;
/// Tracks of a frame at most; the name of each is bounded by its experiment's.
const TRACKS: usize = 256;

layout! {
    /// A frame before its payload.
    struct Header: 5 {
        /// Kind of the event.
        [0] kind: u8,
        /// Bytes of the payload.
        [1] length: U32,
    }
}

/// The stream is not an event stream, or is damaged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The kind byte is unknown.
    #[error("events: unknown kind of frame {0:#04x}")]
    Kind(u8),
    /// A frame longer than any that is written.
    #[error("events: frame of {0} bytes, more than the limit of {MAX_PAYLOAD}")]
    Length(u32),
    /// The payload does not fit its kind.
    #[error("events: damaged {0} frame")]
    Payload(&'static str),
}

/// Appends `event` to `out` as one or more frames.
pub fn encode(event: &RunEvent, out: &mut Vec<u8>) {
    let mut frames = |kind: u8, payload: &[u8], limit: usize| {
        // An empty payload is still a frame: the event was made.
        let mut rest = payload;
        loop {
            let (head, tail) = rest.split_at(rest.len().min(limit));
            let header = Header { kind, length: (head.len() as u32).into() };
            out.extend_from_slice(header.as_bytes());
            out.extend_from_slice(head);
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
    };
    match event {
        RunEvent::From(machine) => frames(b'm', &machine.to_le_bytes(), MAX_PAYLOAD),
        RunEvent::Output(bytes) => frames(b'o', bytes, MAX_PAYLOAD),
        RunEvent::ErrorOutput(bytes) => frames(b'x', bytes, MAX_PAYLOAD),
        RunEvent::Console(bytes) => frames(b'c', bytes, MAX_PAYLOAD),
        RunEvent::Stage(stage) => frames(b's', &[*stage as u8], MAX_PAYLOAD),
        RunEvent::Progress(now) => frames(b'p', &now.to_le_bytes(), MAX_PAYLOAD),
        RunEvent::Changed(at) => frames(b'b', &at.to_le_bytes(), MAX_PAYLOAD),
        RunEvent::Ios(records) => {
            let mut payload = Vec::with_capacity(records.len() * IoRecord::ENCODED);
            for record in records {
                record.encode(&mut payload);
            }
            frames(b'i', &payload, MAX_PAYLOAD / IoRecord::ENCODED * IoRecord::ENCODED);
        }
        RunEvent::Packets(records) => {
            // A record is in one frame; it is far shorter than the limit.
            let mut payload = Vec::new();
            for record in records {
                if payload.len() + record.encoded() > MAX_PAYLOAD {
                    frames(b'n', &std::mem::take(&mut payload), MAX_PAYLOAD);
                }
                record.encode(&mut payload);
            }
            frames(b'n', &payload, MAX_PAYLOAD);
        }
        RunEvent::Faults(records) => {
            const MAX_BYTES: usize = MAX_PAYLOAD - MAX_PAYLOAD % size_of::<RawFault>();
            let payload: Vec<RawFault> = records.iter().map(RawFault::from).collect();
            frames(b'h', payload.as_bytes(), MAX_BYTES);
        }
        RunEvent::Tracks(tracks) => {
            // Few at a time, so that no frame is too long.
            for some in tracks.chunks(TRACKS) {
                let json = serde_json::to_vec(some).expect("tracks are plain data");
                frames(b't', &json, MAX_PAYLOAD);
            }
        }
        RunEvent::Spans(spans) => {
            const MAX_BYTES: usize = MAX_PAYLOAD - MAX_PAYLOAD % size_of::<RawSpan>();
            let payload: Vec<RawSpan> = spans.iter().map(RawSpan::from).collect();
            frames(b'w', payload.as_bytes(), MAX_BYTES);
        }
        RunEvent::Samples(samples) => {
            // A sample is in one frame; it is shorter than the limit.
            let mut payload = Vec::new();
            for sample in samples {
                if payload.len() + sample.encoded() > MAX_PAYLOAD {
                    frames(b'q', &std::mem::take(&mut payload), MAX_PAYLOAD);
                }
                sample.encode(&mut payload);
            }
            frames(b'q', &payload, MAX_PAYLOAD);
        }
        RunEvent::SampleNames(names) => {
            // Few at a time, so that no frame is too long.
            for some in names.chunks(TRACKS) {
                let json = serde_json::to_vec(some).expect("names are plain data");
                frames(b'u', &json, MAX_PAYLOAD);
            }
        }
        RunEvent::GuestIos(ios) => {
            // Each is in one frame; it is shorter than the limit.
            let mut payload = Vec::new();
            for io in ios {
                if payload.len() + io.encoded() > MAX_PAYLOAD {
                    frames(b'g', &std::mem::take(&mut payload), MAX_PAYLOAD);
                }
                io.encode(&mut payload);
            }
            frames(b'g', &payload, MAX_PAYLOAD);
        }
        RunEvent::Waits(waits) => {
            let mut payload = Vec::new();
            for wait in waits {
                if payload.len() + wait.encoded() > MAX_PAYLOAD {
                    frames(b'a', &std::mem::take(&mut payload), MAX_PAYLOAD);
                }
                wait.encode(&mut payload);
            }
            frames(b'a', &payload, MAX_PAYLOAD);
        }
        RunEvent::Results(bytes) => frames(b'r', bytes, MAX_PAYLOAD),
        RunEvent::Trace(bytes) => frames(b'd', bytes, MAX_PAYLOAD),
        RunEvent::DriveStates(bytes) => frames(b'k', bytes, MAX_PAYLOAD),
        RunEvent::Outcome(outcome) => {
            let json = serde_json::to_vec(outcome).expect("an outcome is plain data");
            frames(b'e', &json, MAX_PAYLOAD);
        }
        RunEvent::Failed(message) => {
            let cut = floor_char_boundary(message, MAX_PAYLOAD);
            frames(b'f', &message.as_bytes()[..cut], MAX_PAYLOAD);
        }
    }
}

/// Returns the longest beginning of `text` of at most `limit` bytes that ends between characters.
fn floor_char_boundary(text: &str, limit: usize) -> usize {
    let mut cut = text.len().min(limit);
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    cut
}

/// Reads frames back, however the stream was cut into pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the stream's next piece.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole event, `None` until more is pushed.
    pub fn next_event(&mut self) -> Result<Option<RunEvent>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Ok((header, rest)) = Header::ref_from_prefix(rest) else { return Ok(None) };
        let length = header.length.get();
        if length as usize > MAX_PAYLOAD {
            return Err(FrameError::Length(length));
        }
        let Some(payload) = rest.get(..length as usize) else { return Ok(None) };
        let event = decode(header.kind, payload)?;
        self.start += size_of::<Header>() + length as usize;
        Ok(Some(event))
    }
}

/// The form that the payload of a frame is, which an error calls `name`.
fn form<T: FromBytes>(payload: &[u8], name: &'static str) -> Result<T, FrameError> {
    T::read_from_bytes(payload).map_err(|_| FrameError::Payload(name))
}

fn decode(kind: u8, payload: &[u8]) -> Result<RunEvent, FrameError> {
    Ok(match kind {
        b'm' => RunEvent::From(form::<U16>(payload, "machine")?.get()),
        b'o' => RunEvent::Output(payload.to_vec()),
        b'x' => RunEvent::ErrorOutput(payload.to_vec()),
        b'c' => RunEvent::Console(payload.to_vec()),
        b's' => RunEvent::Stage(match payload {
            [0] => Stage::Preparing,
            [1] => Stage::Calibrating,
            [2] => Stage::Booting,
            [3] => Stage::Running,
            [4] => Stage::Branching,
            [5] => Stage::Collecting,
            _ => return Err(FrameError::Payload("stage")),
        }),
        b'p' => RunEvent::Progress(form::<U64>(payload, "progress")?.get()),
        b'b' => RunEvent::Changed(form::<U64>(payload, "change")?.get()),
        b'i' => {
            let chunks = payload.chunks_exact(IoRecord::ENCODED);
            if !chunks.remainder().is_empty() {
                return Err(FrameError::Payload("ios"));
            }
            let records: Option<Vec<_>> = chunks
                .map(|chunk| IoRecord::decode(chunk.try_into().expect("an exact chunk")))
                .collect();
            RunEvent::Ios(records.ok_or(FrameError::Payload("ios"))?)
        }
        b'n' => {
            RunEvent::Packets(PacketRecord::decode(payload).ok_or(FrameError::Payload("packets"))?)
        }
        b'h' => {
            let faults = <[RawFault]>::ref_from_bytes(payload);
            let faults = faults.map_err(|_| FrameError::Payload("faults"))?;
            RunEvent::Faults(faults.iter().map(FaultRecord::from).collect())
        }
        b't' => RunEvent::Tracks(
            serde_json::from_slice(payload).map_err(|_| FrameError::Payload("tracks"))?,
        ),
        b'w' => {
            let spans = <[RawSpan]>::ref_from_bytes(payload);
            let spans = spans.map_err(|_| FrameError::Payload("spans"))?.iter().map(RawSpan::span);
            RunEvent::Spans(spans.collect::<Option<_>>().ok_or(FrameError::Payload("spans"))?)
        }
        b'q' => RunEvent::Samples(Sample::decode(payload).ok_or(FrameError::Payload("samples"))?),
        b'u' => RunEvent::SampleNames(
            serde_json::from_slice(payload).map_err(|_| FrameError::Payload("names"))?,
        ),
        b'g' => {
            RunEvent::GuestIos(GuestIo::decode(payload).ok_or(FrameError::Payload("guest I/Os"))?)
        }
        b'a' => RunEvent::Waits(Wait::decode(payload).ok_or(FrameError::Payload("waits"))?),
        b'r' => RunEvent::Results(payload.to_vec()),
        b'd' => RunEvent::Trace(payload.to_vec()),
        b'k' => RunEvent::DriveStates(payload.to_vec()),
        b'e' => RunEvent::Outcome(
            serde_json::from_slice(payload).map_err(|_| FrameError::Payload("outcome"))?,
        ),
        b'f' => RunEvent::Failed(String::from_utf8_lossy(payload).into_owned()),
        other => return Err(FrameError::Kind(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Submitter, WaitKind, Waker, BLOCK, COLUMN_COUNT};
    use proptest::prelude::*;
    use stasis_block::timeline::{Cause, Purpose, Span, Step, Track, TrackKind, What, Whom};

    fn entries() -> impl Strategy<Value = RunEvent> {
        // Any value that a column can have; of a long number one that any scale permits.
        let record = any::<[u64; COLUMN_COUNT]>().prop_map(|mut numbers| {
            for (column, number) in IoRecord::COLUMNS.iter().zip(&mut numbers) {
                *number %= match column.kind {
                    Kind::Word(words) => words.len() as u64,
                    Kind::Flag => 2,
                    Kind::Drive | Kind::Short | Kind::Code => 1 << 16,
                    Kind::Long => u64::MAX / BLOCK,
                };
            }
            IoRecord::from_numbers(&numbers).unwrap()
        });
        let span = (any::<[u32; 3]>(), any::<u16>(), any::<[u64; 4]>(), any::<[u8; 4]>()).prop_map(
            |([track, block, page], lane, [begin, end, number, bytes], words)| {
                let [activity, step, cause, purpose] = words.map(usize::from);
                let purpose = Purpose::ALL[purpose % Purpose::ALL.len()];
                let whom = Whom { purpose, number: bytes, commands: page };
                Span {
                    lane,
                    step: Step::ALL[step % Step::ALL.len()],
                    cause: Cause::ALL[cause % Cause::ALL.len()],
                    number,
                    block,
                    page,
                    bytes,
                    whom,
                    ..Span::new(track, What::ALL[activity % What::ALL.len()], begin, end)
                }
            },
        );
        let track = (0..TrackKind::ALL.len(), ".*", ".*", any::<Option<u32>>()).prop_map(
            |(kind, owner, name, lun)| Track {
                lun,
                ..Track::new(TrackKind::ALL[kind], &owner, name)
            },
        );
        let packet = (any::<[u16; 2]>(), any::<bool>(), any::<u64>(), any::<u32>())
            .prop_flat_map(|head| (Just(head), prop::collection::vec(any::<u8>(), 0..70)));
        let packet = packet.prop_map(|(([network, port], outgoing, at, length), bytes)| {
            PacketRecord { network, port, outgoing, at, length, bytes }
        });
        let fault = (any::<u16>(), any::<[u64; 3]>(), prop::option::of(0..u64::MAX)).prop_map(
            |(fault, [at, offset, length], order)| FaultRecord { fault, at, order, offset, length },
        );
        let sample =
            (any::<u64>(), any::<u16>(), any::<u32>(), prop::collection::vec(any::<u64>(), 0..5));
        let sample = sample.prop_map(|(at, processor, count, frames)| Sample {
            at,
            processor,
            count,
            frames,
        });
        let guest_io = (
            (any::<u16>(), any::<u64>(), 0..Submitter::ALL.len(), any::<[u8; 16]>()),
            (any::<[u64; 5]>(), prop::option::of(0..u64::MAX), prop::option::of(0..u64::MAX)),
            prop::collection::vec(any::<u64>(), 0..5),
        );
        let guest_io = guest_io.prop_map(
            |((drive, order, submitter, thread), (times, woken, ran), frames)| {
                let [begun, queued, rung, delivered, interrupted] = times;
                let submitter = Submitter::ALL[submitter];
                GuestIo {
                    drive,
                    order,
                    submitter,
                    thread,
                    begun,
                    queued,
                    rung,
                    delivered,
                    interrupted,
                    woken,
                    ran,
                    frames,
                }
            },
        );
        let frames = || prop::collection::vec(any::<u64>(), 0..5);
        let waker = (any::<u32>(), any::<[u8; 16]>(), any::<bool>(), frames());
        let waker = waker.prop_map(|(pid, thread, in_interrupt, frames)| Waker {
            pid,
            thread,
            in_interrupt,
            frames,
        });
        let wait = (
            (any::<u16>(), any::<[u32; 2]>(), any::<[u8; 16]>(), 0..WaitKind::ALL.len()),
            (any::<[u64; 2]>(), prop::option::of(0..u64::MAX), prop::option::of(0..u64::MAX)),
            (prop::option::of(waker), frames()),
        );
        let wait = wait.prop_map(
            |(
                (machine, [pid, group], thread, kind),
                ([begun, ran], called, woken),
                (waker, frames),
            )| {
                let kind = WaitKind::ALL[kind];
                Wait { machine, pid, group, thread, kind, called, begun, woken, waker, ran, frames }
            },
        );
        prop_oneof![
            prop::collection::vec(wait, 0..9).prop_map(RunEvent::Waits),
            prop::collection::vec("[^\0]{0,20}", 1..9).prop_map(RunEvent::SampleNames),
            prop::collection::vec(guest_io, 0..9).prop_map(RunEvent::GuestIos),
            prop::collection::vec(sample, 0..9).prop_map(RunEvent::Samples),
            prop::collection::vec(packet, 0..9).prop_map(RunEvent::Packets),
            prop::collection::vec(fault, 0..9).prop_map(RunEvent::Faults),
            prop::collection::vec(span, 0..9).prop_map(RunEvent::Spans),
            prop::collection::vec(track, 1..9).prop_map(RunEvent::Tracks),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(RunEvent::Output),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(RunEvent::Results),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(RunEvent::Trace),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(RunEvent::DriveStates),
            any::<u64>().prop_map(RunEvent::Progress),
            any::<u64>().prop_map(RunEvent::Changed),
            prop::collection::vec(record, 0..9).prop_map(RunEvent::Ios),
            ".*".prop_map(RunEvent::Failed),
            Just(RunEvent::Stage(Stage::Running)),
            Just(RunEvent::Stage(Stage::Branching)),
            Just(RunEvent::Stage(Stage::Collecting)),
        ]
    }

    /// Whoever reads a stream may be of another build: the bytes stay.
    #[test]
    fn the_bytes_are_as_ever() {
        let whom = Whom { purpose: Purpose::ALL[2], number: 0x2928, commands: 0x3d3c };
        let span = Span {
            lane: 0x4140,
            step: Step::ALL[1],
            cause: Cause::ALL[3],
            number: 0x1110,
            block: 0x3534,
            page: 0x3938,
            bytes: 0x1918,
            offset: 0x2120,
            whom,
            ..Span::new(0x3130, What::ALL[4], 1, 0x908)
        };
        let (at, offset, length) = (0x302, 0x1312, 0x1b1a);
        let fault = FaultRecord { fault: 0x100, at, order: Some(0xb0a), offset, length };
        let (network, port, outgoing, bytes) = (0x100, 0x302, true, b"frame".to_vec());
        let packet = PacketRecord { network, port, outgoing, at: 0x605, length: 0xe0d, bytes };
        let sample = Sample { at: 0x100, processor: 0x908, count: 0xb0a, frames: vec![2, 3] };
        let io = GuestIo {
            drive: 0x100,
            order: 0x302,
            submitter: Submitter::Fault,
            thread: *b"0123456789abcdef",
            begun: 1,
            queued: 2,
            rung: 3,
            delivered: 4,
            interrupted: 5,
            woken: Some(6),
            ran: None,
            frames: vec![7],
        };
        let events = [
            RunEvent::From(0x102),
            RunEvent::Progress(0x304),
            RunEvent::Spans(vec![span]),
            RunEvent::Faults(vec![fault, FaultRecord { order: None, ..fault }]),
            RunEvent::Packets(vec![packet]),
            RunEvent::Samples(vec![sample]),
            RunEvent::GuestIos(vec![io]),
        ];
        let frames = events.iter().map(|event| {
            let mut out = Vec::new();
            encode(event, &mut out);
            out.escape_ascii().to_string()
        });
        let expected: [&str; 7] = [
            r"m\x02\x00\x00\x00\x02\x01",
            r"p\x08\x00\x00\x00\x04\x03\x00\x00\x00\x00\x00\x00",
            r"wF\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x08\t\x00\x00\x00\x00\x00\x00\x10\x11\x00\x00\x00\x00\x00\x00\x18\x19\x00\x00\x00\x00\x00\x00 !\x00\x00\x00\x00\x00\x00()\x00\x00\x00\x00\x00\x0001\x00\x0045\x00\x0089\x00\x00<=\x00\x00@A\x04\x01\x03\x02",
            r"hD\x00\x00\x00\x00\x01\x02\x03\x00\x00\x00\x00\x00\x00\n\x0b\x00\x00\x00\x00\x00\x00\x12\x13\x00\x00\x00\x00\x00\x00\x1a\x1b\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x12\x13\x00\x00\x00\x00\x00\x00\x1a\x1b\x00\x00\x00\x00\x00\x00",
            r"n\x1a\x00\x00\x00\x00\x01\x02\x03\x01\x05\x06\x00\x00\x00\x00\x00\x00\r\x0e\x00\x00\x05\x00\x00\x00frame",
            r"q \x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x08\t\n\x0b\x00\x00\x02\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00",
            r"g]\x00\x00\x00\x00\x01\x02\x03\x00\x00\x00\x00\x00\x00\x020123456789abcdef\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x07\x00\x00\x00\x00\x00\x00\x00",
        ];
        assert_eq!(frames.collect::<Vec<_>>(), expected);
    }

    proptest! {
        #[test]
        fn entries_survive_any_cutting(all in prop::collection::vec(entries(), 0..9), piece in 1usize..40) {
            let mut stream = Vec::new();
            for event in &all { encode(event, &mut stream); }
            let mut decoder = Decoder::new();
            let mut decoded = Vec::new();
            for bytes in stream.chunks(piece) {
                decoder.push(bytes);
                while let Some(event) = decoder.next_event().unwrap() { decoded.push(event); }
            }
            prop_assert_eq!(decoded, all);
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::new();
            decoder.push(&noise);
            while let Ok(Some(_)) = decoder.next_event() {}
        }
    }
}
