//! Way of the event stream's bytes across the boundary.
//!
//! A byte on the debug console costs about 1 µs, so only short entries go out there. Long ones lie
//! in a buffer of the inner side, which the outer side reads from QEMU's memory. A packet is its
//! kind in a byte and these fields, with their bytes; numbers are little endian:
//!
//! | kind | packet | fields | meaning |
//! | --- | --- | --- | --- |
//! | 0 | short | length (2), data | bytes of the event stream |
//! | 1 | bulk | length (4) | bytes of the event stream, in the buffer |
//! | 2 | place | address (8), length (4) | the buffer's place; once, before the machine is saved |
//! | 3 | pause | | the machine pauses, to be kept |
//! | 4 | wait | limit in ns (8) | asks for the terminal's input, and waits at most this long |
//! | 5 | read | offset (8), length (4) | asks for bytes of the source outside |
//! | 6 | debug | wait (1), length (4) | bytes for the debugger; asks for bytes from it |
//! | 7 | again | turn (8), length (4) | a plan; asks for the job again, from before that turn |
//! | 8 | cross | limit in ns (8), length (4) | frames for outside; asks for frames, as wait does |
//! | 9 | snapshot | [`Instant`] (3 x 8) | the machine pauses, is stored, and continues then |
//! | 10 | program | offset (8), length (4) | a program's path; asks for what is known of it |
//!
//! Data of debug, again, cross and program packets is at the start of the buffer. Answers are there
//! as well:
//!
//! | to | answer |
//! | --- | --- |
//! | wait | length (4), input |
//! | read | 0 (4) and the bytes; or length (4) and a text: the reason why there are none |
//! | debug | length (4), bytes: at least one with `wait`; [`GONE`] if the debugger has gone |
//! | again | none, as the machine is killed; or length (4) and the reason why it is not |
//! | cross | as to read, with the bytes' length (4) before them |
//! | program | as to read, with the length of all (8) before the bytes |
//!
//! The inner side may use the buffer again when the outer side has taken it.
//! Waiting for an answer would make a run depend on the outer side's speed, so
//! the inner side's processor is stopped *within* an instruction: it writes
//! [`HANDSHAKE`] bytes to a second debug console, whose socket holds fewer, and
//! the outer side reads as many after it has taken the buffer. To the inner
//! side these writes take no longer than others.

use stasis_layout::{layout, take, transmute, U16, U32, U64};
use stasis_run_events::Instant;

/// Longest short packet, in bytes: about what a bulk packet costs (0.2 ms).
pub(crate) const SHORT: usize = 256;
/// Size of the buffer for bulk packets: one huge page.
pub(crate) const BULK: usize = 2 << 20;
/// Bytes of the handshake. A socket with the least send buffer (4.5 KiB) holds
/// some 6 writes of a byte each, as each takes a buffer of its own (768 bytes
/// on Linux 6.18, never less than the 256 of a `struct sk_buff`).
pub(crate) const HANDSHAKE: usize = 64;

/// Kinds of packets.
mod kind {
    pub const SHORT: u8 = 0;
    pub const BULK: u8 = 1;
    pub const PLACE: u8 = 2;
    pub const PAUSE: u8 = 3;
    pub const WAIT: u8 = 4;
    pub const READ: u8 = 5;
    pub const DEBUG: u8 = 6;
    pub const AGAIN: u8 = 7;
    pub const CROSS: u8 = 8;
    pub const SNAPSHOT: u8 = 9;
    pub const PROGRAM: u8 = 10;
}

layout! {
    /// A short packet; its bytes follow.
    struct Short: 3 {
        [0] kind: u8,
        [1] length: U16,
    }
}
layout! {
    /// A bulk packet.
    struct Bulk: 5 {
        [0] kind: u8,
        [1] length: U32,
    }
}
layout! {
    /// A wait packet.
    struct Wait: 9 {
        [0] kind: u8,
        [1] limit: U64,
    }
}
layout! {
    /// A place, read, again, cross or program packet.
    struct Piece: 13 {
        [0] kind: u8,
        /// An address, an offset, a turn or a time.
        [1] number: U64,
        [9] length: U32,
    }
}
layout! {
    /// A debug packet.
    struct Debug: 6 {
        [0] kind: u8,
        /// 1 or 0.
        [1] wait: u8,
        [2] length: U32,
    }
}
layout! {
    /// A snapshot packet: an [`Instant`].
    struct Snapshot: 25 {
        [0] kind: u8,
        [1] at: U64,
        [9] ahead: U64,
        [17] turn: U64,
    }
}

/// The length of the answer to a debug packet where the debugger has gone.
pub(crate) const GONE: u32 = u32::MAX;

/// Limit on the bytes of the source in one answer.
pub(crate) const ANSWER: usize = 1 << 20;

/// The outer side's next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    /// These bytes belong to the event stream.
    Short(Vec<u8>),
    /// Bytes of the event stream at the start of the buffer; the inner side waits.
    Bulk { length: usize },
    /// The buffer's place.
    Place { address: u64, length: usize },
    /// The machine pauses.
    Pause,
    /// The inner side waits for the terminal's input, at most `limit` (ns).
    Wait { limit: u64 },
    /// The inner side waits for `length` bytes of the source from `offset` on.
    Read { offset: u64, length: usize },
    /// Bytes at the start of the buffer for the debugger; the inner side takes those that have come
    /// from it. `wait`: and waits for some.
    Debug { length: usize, wait: bool },
    /// The plan of a repetition at the start of the buffer; the job may begin at a snapshot before
    /// `turn`.
    Again { turn: u64, length: usize },
    /// Frames for outside at the start of the buffer; the inner side takes frames that have come,
    /// and waits for some at most `limit` (ns).
    Cross { length: usize, limit: u64 },
    /// The machine pauses for a snapshot.
    Snapshot(Instant),
    /// A program's path in a guest at the start of the buffer; the inner side takes what is known
    /// of the program, from `offset` on.
    Program { offset: u64, length: usize },
}

/// A pause packet.
pub(crate) const PAUSE: [u8; 1] = [kind::PAUSE];

/// A wait packet.
pub(crate) fn wait(limit: u64) -> [u8; size_of::<Wait>()] {
    transmute!(Wait { kind: kind::WAIT, limit: limit.into() })
}

fn piece(kind: u8, number: u64, length: usize) -> [u8; size_of::<Piece>()] {
    debug_assert!(length <= BULK);
    transmute!(Piece { kind, number: number.into(), length: (length as u32).into() })
}

/// A read packet.
pub(crate) fn read(offset: u64, length: usize) -> [u8; size_of::<Piece>()] {
    piece(kind::READ, offset, length)
}

/// A debug packet.
pub(crate) fn debug(length: usize, wait: bool) -> [u8; size_of::<Debug>()] {
    debug_assert!(length <= BULK);
    transmute!(Debug { kind: kind::DEBUG, wait: wait.into(), length: (length as u32).into() })
}

/// An again packet.
pub(crate) fn again(turn: u64, length: usize) -> [u8; size_of::<Piece>()] {
    piece(kind::AGAIN, turn, length)
}

/// A snapshot packet.
pub(crate) fn snapshot(instant: &Instant) -> [u8; size_of::<Snapshot>()] {
    let (at, ahead, turn) = (instant.at.into(), instant.ahead.into(), instant.turn.into());
    transmute!(Snapshot { kind: kind::SNAPSHOT, at, ahead, turn })
}

/// A cross packet.
pub(crate) fn cross(length: usize, limit: u64) -> [u8; size_of::<Piece>()] {
    piece(kind::CROSS, limit, length)
}

/// A program packet.
pub(crate) fn program(offset: u64, length: usize) -> [u8; size_of::<Piece>()] {
    piece(kind::PROGRAM, offset, length)
}

/// The head of a short packet.
pub(crate) fn short_head(length: usize) -> [u8; size_of::<Short>()] {
    debug_assert!(length <= SHORT);
    transmute!(Short { kind: kind::SHORT, length: (length as u16).into() })
}

/// A bulk packet.
pub(crate) fn bulk(length: usize) -> [u8; size_of::<Bulk>()] {
    debug_assert!(length <= BULK);
    transmute!(Bulk { kind: kind::BULK, length: (length as u32).into() })
}

/// A place packet.
pub(crate) fn place(address: u64, length: usize) -> [u8; size_of::<Piece>()] {
    piece(kind::PLACE, address, length)
}

/// Reads packets back, however the stream was cut into pieces.
#[derive(Default)]
pub(crate) struct Packets {
    buffer: Vec<u8>,
}

impl Packets {
    /// Takes the stream's next piece.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole packet; an error is the kind of an unknown packet.
    pub(crate) fn next(&mut self) -> Result<Option<Packet>, u8> {
        let mut rest = &self.buffer[..];
        let Some(packet) = packet(&mut rest).transpose()? else { return Ok(None) };
        let length = self.buffer.len() - rest.len();
        self.buffer.drain(..length);
        Ok(Some(packet))
    }
}

/// Takes the next packet off a stream; None if it is not whole.
fn packet(stream: &mut &[u8]) -> Option<Result<Packet, u8>> {
    let piece = |stream: &mut &[u8]| {
        let piece: Piece = take(stream)?;
        Some((piece.number.get(), piece.length.get() as usize))
    };
    Some(Ok(match *stream.first()? {
        kind::SHORT => {
            let head: Short = take(stream)?;
            let (bytes, rest) = stream.split_at_checked(head.length.get().into())?;
            *stream = rest;
            Packet::Short(bytes.to_vec())
        }
        kind::BULK => Packet::Bulk { length: take::<Bulk>(stream)?.length.get() as usize },
        kind::PLACE => piece(stream).map(|(address, length)| Packet::Place { address, length })?,
        kind::PAUSE => take::<u8>(stream).map(|_| Packet::Pause)?,
        kind::WAIT => Packet::Wait { limit: take::<Wait>(stream)?.limit.get() },
        kind::READ => piece(stream).map(|(offset, length)| Packet::Read { offset, length })?,
        kind::DEBUG => {
            let Debug { wait, length, .. } = take(stream)?;
            Packet::Debug { length: length.get() as usize, wait: wait != 0 }
        }
        kind::AGAIN => piece(stream).map(|(turn, length)| Packet::Again { turn, length })?,
        kind::CROSS => piece(stream).map(|(limit, length)| Packet::Cross { length, limit })?,
        kind::SNAPSHOT => {
            let Snapshot { at, ahead, turn, .. } = take(stream)?;
            let (at, ahead, turn) = (at.get(), ahead.get(), turn.get());
            Packet::Snapshot(Instant { at, ahead, turn })
        }
        kind::PROGRAM => {
            piece(stream).map(|(offset, length)| Packet::Program { offset, length })?
        }
        unknown => return Some(Err(unknown)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The outer side may be of another build.
    #[test]
    fn the_bytes_are_as_ever() {
        let (number, length) = (0x0807_0605_0403_0201, 0xc_0b0a);
        let instant = Instant { at: 1, ahead: 2, turn: 3 };
        let packets = [
            short_head(0x102).to_vec(),
            bulk(length).to_vec(),
            place(number, length).to_vec(),
            PAUSE.to_vec(),
            wait(number).to_vec(),
            read(number, length).to_vec(),
            debug(length, true).to_vec(),
            again(number, length).to_vec(),
            cross(length, number).to_vec(),
            snapshot(&instant).to_vec(),
            program(number, length).to_vec(),
        ];
        let packets = packets.iter().map(|packet| packet.escape_ascii().to_string());
        let expected: [&str; 11] = [
            r"\x00\x02\x01",
            r"\x01\n\x0b\x0c\x00",
            r"\x02\x01\x02\x03\x04\x05\x06\x07\x08\n\x0b\x0c\x00",
            r"\x03",
            r"\x04\x01\x02\x03\x04\x05\x06\x07\x08",
            r"\x05\x01\x02\x03\x04\x05\x06\x07\x08\n\x0b\x0c\x00",
            r"\x06\x01\n\x0b\x0c\x00",
            r"\x07\x01\x02\x03\x04\x05\x06\x07\x08\n\x0b\x0c\x00",
            r"\x08\x01\x02\x03\x04\x05\x06\x07\x08\n\x0b\x0c\x00",
            r"\t\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00",
            r"\n\x01\x02\x03\x04\x05\x06\x07\x08\n\x0b\x0c\x00",
        ];
        assert_eq!(packets.collect::<Vec<_>>(), expected);
    }

    proptest! {
        #[test]
        fn packets_survive_any_cutting(
            all in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..50).prop_map(Packet::Short),
                    (0..=BULK).prop_map(|length| Packet::Bulk { length }),
                    Just(Packet::Pause),
                    any::<u64>().prop_map(|limit| Packet::Wait { limit }),
                    (any::<u64>(), 0..=ANSWER)
                        .prop_map(|(offset, length)| Packet::Read { offset, length }),
                    (0..=BULK, any::<bool>())
                        .prop_map(|(length, wait)| Packet::Debug { length, wait }),
                    (any::<u64>(), 0..=BULK)
                        .prop_map(|(turn, length)| Packet::Again { turn, length }),
                    any::<[u64; 3]>()
                        .prop_map(|[at, ahead, turn]| Packet::Snapshot(Instant { at, ahead, turn })),
                    (any::<u64>(), 0..=ANSWER)
                        .prop_map(|(limit, length)| Packet::Cross { length, limit }),
                    (any::<u64>(), 0..=BULK)
                        .prop_map(|(offset, length)| Packet::Program { offset, length }),
                    (any::<u64>(), 0..=BULK)
                        .prop_map(|(address, length)| Packet::Place { address, length }),
                ],
                0..9,
            ),
            piece in 1usize..20,
        ) {
            let mut stream = Vec::new();
            for packet in &all {
                match packet {
                    Packet::Short(bytes) => {
                        stream.extend_from_slice(&short_head(bytes.len()));
                        stream.extend_from_slice(bytes);
                    }
                    Packet::Bulk { length } => stream.extend_from_slice(&bulk(*length)),
                    Packet::Pause => stream.extend_from_slice(&PAUSE),
                    Packet::Wait { limit } => stream.extend_from_slice(&wait(*limit)),
                    Packet::Read { offset, length } => {
                        stream.extend_from_slice(&read(*offset, *length))
                    }
                    Packet::Debug { length, wait } => {
                        stream.extend_from_slice(&debug(*length, *wait))
                    }
                    Packet::Again { turn, length } => {
                        stream.extend_from_slice(&again(*turn, *length))
                    }
                    Packet::Snapshot(instant) => stream.extend_from_slice(&snapshot(instant)),
                    Packet::Cross { length, limit } => {
                        stream.extend_from_slice(&cross(*length, *limit))
                    }
                    Packet::Program { offset, length } => {
                        stream.extend_from_slice(&program(*offset, *length))
                    }
                    Packet::Place { address, length } => {
                        stream.extend_from_slice(&place(*address, *length))
                    }
                }
            }
            let mut packets = Packets::default();
            let mut decoded = Vec::new();
            for bytes in stream.chunks(piece) {
                packets.push(bytes);
                while let Some(packet) = packets.next().unwrap() { decoded.push(packet); }
            }
            prop_assert_eq!(decoded, all);
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut packets = Packets::default();
            packets.push(&noise);
            while let Ok(Some(_)) = packets.next() {}
        }
    }
}
