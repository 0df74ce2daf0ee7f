//! Way of the event stream's bytes across the boundary.
//!
//! A byte on the debug console costs about 1 µs. So only short entries go out there (a *short*
//! packet: kind 0, length in 2 bytes, bytes). Long ones lie in a buffer of the inner side, whose
//! place it sends once, before the machine is saved (a *place* packet: kind 2, physical address in
//! 8 bytes, length in 4); then only their length goes out (a *bulk* packet: kind 1, length in 4
//! bytes), and the outer side takes them from QEMU's memory. A *pause* packet (kind 3) announces
//! that the machine is about to pause, to be kept. A *wait* packet (kind 4, nanoseconds in 8 bytes)
//! asks for the terminal's input, and waits for it at most so long: the outer side writes the
//! answer into the buffer, its length in 4 bytes first. A *read* packet (kind 5, offset in 8 bytes,
//! length in 4) asks for bytes of the source that the outer side has; the answer is in the buffer
//! as well: 0 in 4 bytes and the bytes, or the length of a text in 4 bytes, and why there are none.
//! A *debug* packet (kind 6, whether to wait in a byte, length in 4 bytes) has so many bytes for the
//! debugger at the start of the buffer and asks for those that have come from it, at least one where
//! it is to wait; the answer is in the buffer: its length in 4 bytes, all ones where the debugger has
//! gone, and the bytes. An *again* packet (kind 7, turn in 8 bytes, length in 4) has so many bytes of a
//! plan at the start of the buffer and asks for the job once more with that plan, from a snapshot
//! before that turn or from the beginning: the machine is killed, or
//! why it is not is in the buffer, its length in 4 bytes first. A *cross* packet (kind 8, nanoseconds
//! in 8 bytes, length in 4) has so many bytes of frames for the world outside at the start of the
//! buffer, and asks for those that have come, which it waits for at most so long; the answer is as
//! that to a read packet, with the bytes' own length in 4 bytes before them. A *snapshot*
//! packet (kind 9, three times 8 bytes: [`Instant`]) announces that the machine is about to pause, so
//! that its state is stored, and is to be continued then. A *program* packet (kind 10, offset in 8 bytes,
//! length in 4) has so many bytes of a program's path in a guest at the start of the buffer and asks for
//! what the outer side knows of it, from that offset on; the answer is as that to a read packet, with the
//! length of all in 8 bytes before the bytes. Numbers are little endian.
//!
//! The inner side may use the buffer again when the outer side has taken it.
//! Waiting for an answer would make a run depend on the outer side's speed, so
//! the inner side's processor is stopped *within* an instruction: it writes
//! [`HANDSHAKE`] bytes to a second debug console, whose socket holds fewer, and
//! the outer side reads as many after it has taken the buffer. To the inner
//! side these writes take no longer than others.

use stasis_run_events::Instant;

/// Longest short packet, in bytes: about what a bulk packet costs (0.2 ms).
pub(crate) const SHORT: usize = 256;
/// Size of the buffer for bulk packets: one huge page.
pub(crate) const BULK: usize = 2 << 20;
/// Bytes of the handshake. A socket with the least send buffer (4.5 KiB) holds
/// some 6 writes of a byte each, as each takes a buffer of its own (768 bytes
/// on Linux 6.18, never less than the 256 of a `struct sk_buff`).
pub(crate) const HANDSHAKE: usize = 64;

const SHORT_HEAD: usize = 3;
const BULK_HEAD: usize = 5;
const PLACE_HEAD: usize = 13;
const WAIT_HEAD: usize = 9;
const READ_HEAD: usize = 13;
const DEBUG_HEAD: usize = 6;
const AGAIN_HEAD: usize = 13;
const CROSS_HEAD: usize = 13;
const SNAPSHOT_HEAD: usize = 25;
const PROGRAM_HEAD: usize = 13;

/// The length of the answer to a debug packet where the debugger has gone.
pub(crate) const GONE: u32 = u32::MAX;

/// Limit on the bytes of the source in one answer.
pub(crate) const ANSWER: usize = 1 << 20;

/// The outer side's next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    /// These bytes belong to the event stream.
    Short(Vec<u8>),
    /// So do so many at the start of the buffer; the inner side waits.
    Bulk { length: usize },
    /// The buffer's place.
    Place { address: u64, length: usize },
    /// The machine pauses.
    Pause,
    /// The inner side waits for what is typed, at most so long (ns).
    Wait { limit: u64 },
    /// The inner side waits for so many bytes of the source from there on.
    Read { offset: u64, length: usize },
    /// So many bytes of the buffer are the debugger's; the inner side takes what has come from it,
    /// and waits for that.
    Debug { length: usize, wait: bool },
    /// So many bytes of the buffer are the plan of a repetition, which may begin at a snapshot before
    /// this turn.
    Again { turn: u64, length: usize },
    /// So many bytes of the buffer are frames for outside; the inner side takes those that have
    /// come, and waits for some at most so long (ns).
    Cross { length: usize, limit: u64 },
    /// The machine pauses for a snapshot.
    Snapshot(Instant),
    /// So many bytes of the buffer are a program's path in a guest; the inner side takes what is known of
    /// it, from there on.
    Program { offset: u64, length: usize },
}

/// A pause packet.
pub(crate) const PAUSE: [u8; 1] = [3];

/// A wait packet.
pub(crate) fn wait(limit: u64) -> [u8; WAIT_HEAD] {
    let mut packet = [4; WAIT_HEAD];
    packet[1..].copy_from_slice(&limit.to_le_bytes());
    packet
}

/// A read packet.
pub(crate) fn read(offset: u64, length: usize) -> [u8; READ_HEAD] {
    debug_assert!(length <= ANSWER);
    let mut packet = [5; READ_HEAD];
    packet[1..9].copy_from_slice(&offset.to_le_bytes());
    packet[9..].copy_from_slice(&(length as u32).to_le_bytes());
    packet
}

/// A debug packet.
pub(crate) fn debug(length: usize, wait: bool) -> [u8; DEBUG_HEAD] {
    debug_assert!(length <= BULK);
    let [a, b, c, d] = (length as u32).to_le_bytes();
    [6, wait.into(), a, b, c, d]
}

/// An again packet.
pub(crate) fn again(turn: u64, length: usize) -> [u8; AGAIN_HEAD] {
    debug_assert!(length <= BULK);
    let mut packet = [7; AGAIN_HEAD];
    packet[1..9].copy_from_slice(&turn.to_le_bytes());
    packet[9..].copy_from_slice(&(length as u32).to_le_bytes());
    packet
}

/// A snapshot packet.
pub(crate) fn snapshot(instant: &Instant) -> [u8; SNAPSHOT_HEAD] {
    let mut packet = [9; SNAPSHOT_HEAD];
    packet[1..9].copy_from_slice(&instant.at.to_le_bytes());
    packet[9..17].copy_from_slice(&instant.ahead.to_le_bytes());
    packet[17..].copy_from_slice(&instant.turn.to_le_bytes());
    packet
}

/// A cross packet.
pub(crate) fn cross(length: usize, limit: u64) -> [u8; CROSS_HEAD] {
    debug_assert!(length <= ANSWER);
    let mut packet = [8; CROSS_HEAD];
    packet[1..9].copy_from_slice(&limit.to_le_bytes());
    packet[9..].copy_from_slice(&(length as u32).to_le_bytes());
    packet
}

/// A program packet.
pub(crate) fn program(offset: u64, length: usize) -> [u8; PROGRAM_HEAD] {
    debug_assert!(length <= BULK);
    let mut packet = [10; PROGRAM_HEAD];
    packet[1..9].copy_from_slice(&offset.to_le_bytes());
    packet[9..].copy_from_slice(&(length as u32).to_le_bytes());
    packet
}

/// The head of a short packet.
pub(crate) fn short_head(length: usize) -> [u8; SHORT_HEAD] {
    debug_assert!(length <= SHORT);
    let [low, high] = (length as u16).to_le_bytes();
    [0, low, high]
}

/// A bulk packet.
pub(crate) fn bulk(length: usize) -> [u8; BULK_HEAD] {
    debug_assert!(length <= BULK);
    let [a, b, c, d] = (length as u32).to_le_bytes();
    [1, a, b, c, d]
}

/// A place packet.
pub(crate) fn place(address: u64, length: usize) -> [u8; PLACE_HEAD] {
    let mut packet = [2; PLACE_HEAD];
    packet[1..9].copy_from_slice(&address.to_le_bytes());
    packet[9..].copy_from_slice(&(length as u32).to_le_bytes());
    packet
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
        match self.buffer.first() {
            None => Ok(None),
            Some(0) => {
                let Some(head) = self.buffer.first_chunk::<SHORT_HEAD>() else { return Ok(None) };
                let length = usize::from(u16::from_le_bytes([head[1], head[2]]));
                if self.buffer.len() < SHORT_HEAD + length {
                    return Ok(None);
                }
                let rest = self.buffer.split_off(SHORT_HEAD + length);
                let mut bytes = std::mem::replace(&mut self.buffer, rest);
                bytes.drain(..SHORT_HEAD);
                Ok(Some(Packet::Short(bytes)))
            }
            Some(1) => {
                let Some(head) = self.buffer.first_chunk::<BULK_HEAD>() else { return Ok(None) };
                let length = number(&head[1..]) as usize;
                self.buffer.drain(..BULK_HEAD);
                Ok(Some(Packet::Bulk { length }))
            }
            Some(2) => {
                let Some(head) = self.buffer.first_chunk::<PLACE_HEAD>() else { return Ok(None) };
                let (address, length) = (number(&head[1..9]), number(&head[9..]) as usize);
                self.buffer.drain(..PLACE_HEAD);
                Ok(Some(Packet::Place { address, length }))
            }
            Some(3) => {
                self.buffer.drain(..1);
                Ok(Some(Packet::Pause))
            }
            Some(4) => {
                let Some(head) = self.buffer.first_chunk::<WAIT_HEAD>() else { return Ok(None) };
                let limit = number(&head[1..]);
                self.buffer.drain(..WAIT_HEAD);
                Ok(Some(Packet::Wait { limit }))
            }
            Some(5) => {
                let Some(head) = self.buffer.first_chunk::<READ_HEAD>() else { return Ok(None) };
                let (offset, length) = (number(&head[1..9]), number(&head[9..]) as usize);
                self.buffer.drain(..READ_HEAD);
                Ok(Some(Packet::Read { offset, length }))
            }
            Some(6) => {
                let Some(head) = self.buffer.first_chunk::<DEBUG_HEAD>() else { return Ok(None) };
                let (wait, length) = (head[1] != 0, number(&head[2..]) as usize);
                self.buffer.drain(..DEBUG_HEAD);
                Ok(Some(Packet::Debug { length, wait }))
            }
            Some(7) => {
                let Some(head) = self.buffer.first_chunk::<AGAIN_HEAD>() else { return Ok(None) };
                let (turn, length) = (number(&head[1..9]), number(&head[9..]) as usize);
                self.buffer.drain(..AGAIN_HEAD);
                Ok(Some(Packet::Again { turn, length }))
            }
            Some(8) => {
                let Some(head) = self.buffer.first_chunk::<CROSS_HEAD>() else { return Ok(None) };
                let (limit, length) = (number(&head[1..9]), number(&head[9..]) as usize);
                self.buffer.drain(..CROSS_HEAD);
                Ok(Some(Packet::Cross { length, limit }))
            }
            Some(9) => {
                let Some(head) = self.buffer.first_chunk::<SNAPSHOT_HEAD>() else {
                    return Ok(None);
                };
                let (at, ahead) = (number(&head[1..9]), number(&head[9..17]));
                let instant = Instant { at, ahead, turn: number(&head[17..]) };
                self.buffer.drain(..SNAPSHOT_HEAD);
                Ok(Some(Packet::Snapshot(instant)))
            }
            Some(10) => {
                let Some(head) = self.buffer.first_chunk::<PROGRAM_HEAD>() else { return Ok(None) };
                let (offset, length) = (number(&head[1..9]), number(&head[9..]) as usize);
                self.buffer.drain(..PROGRAM_HEAD);
                Ok(Some(Packet::Program { offset, length }))
            }
            Some(other) => Err(*other),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
