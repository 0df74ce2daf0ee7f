//! Message of a guest (docs/reference/channel.md, "Over a port of its own").
//!
//! There is one kind of message: the present state, and the time for which it holds if no other
//! message comes. So a lost one does no harm, and a dead guest's help ends.

use stasis_block::clock::{Nanos, MILLISECOND};
use stasis_channel::application_hint::MAGIC;
use stasis_layout::{layout, transmute, FromBytes, U16, U32};

/// The format's version.
pub const VERSION: u16 = 1;
/// Bytes of a message of this version.
pub const LENGTH: usize = size_of::<RawMessage>();
/// Limit on the length of a message: later versions may have more fields at the end.
pub const MAX_LENGTH: usize = 256;

layout! {
    /// Before the state, in every version.
    struct Head: 8 {
        /// [`MAGIC`].
        [0] magic: U32,
        [4] version: U16,
        /// Bytes of the message, this included.
        [6] length: U16,
    }
}
layout! {
    struct RawMessage: 24 {
        [0] head: Head,
        [8] sequence: U32,
        [12] raised: U32,
        /// Milliseconds.
        [16] valid: U32,
        [20] reserved20: [u8; 4],
    }
}

/// State of a guest's BFQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Number of the guest's message; 0 is the first.
    pub sequence: u32,
    /// Number of queues with something to do that have a raised weight.
    pub raised: u32,
    /// Time for which this holds (ns, whole ms).
    pub valid: Nanos,
}

impl Message {
    /// The message's bytes.
    pub fn encode(&self) -> [u8; LENGTH] {
        let valid = u32::try_from(self.valid / MILLISECOND).unwrap_or(u32::MAX);
        let (magic, version) = (MAGIC.into(), VERSION.into());
        let (sequence, raised, valid) = (self.sequence.into(), self.raised.into(), valid.into());
        let head = Head { magic, version, length: (LENGTH as u16).into() };
        transmute!(RawMessage { head, sequence, raised, valid, reserved20: [0; 4] })
    }
}

/// Meaning of a piece of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A message.
    Message(Message),
    /// A message of another version.
    Version(u16),
    /// A byte that begins no message.
    Garbage,
}

/// Finds messages in a stream that may begin anywhere in one: a guest may end,
/// and another begin, within a message.
#[derive(Debug, Clone)]
pub struct Parser {
    bytes: [u8; MAX_LENGTH],
    length: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self { bytes: [0; MAX_LENGTH], length: 0 }
    }
}

impl Parser {
    /// Takes in bytes, and passes their meaning to `take`.
    pub fn feed(&mut self, mut input: &[u8], mut take: impl FnMut(Parsed)) {
        while !input.is_empty() {
            let room = &mut self.bytes[self.length..];
            let count = room.len().min(input.len());
            room[..count].copy_from_slice(&input[..count]);
            self.length += count;
            input = &input[count..];
            let mut at = 0;
            while let Some((parsed, length)) = next(&self.bytes[at..self.length]) {
                take(parsed);
                at += length;
            }
            self.bytes.copy_within(at..self.length, 0);
            self.length -= at;
        }
    }
}

/// The first part of the bytes and its length; `None` if more are needed.
fn next(bytes: &[u8]) -> Option<(Parsed, usize)> {
    let magic = MAGIC.to_le_bytes();
    let known = bytes.len().min(magic.len());
    if bytes[..known] != magic[..known] {
        return Some((Parsed::Garbage, 1));
    }
    let (head, _) = Head::ref_from_prefix(bytes).ok()?;
    let (version, length) = (head.version.get(), usize::from(head.length.get()));
    if !(LENGTH..=MAX_LENGTH).contains(&length) {
        return Some((Parsed::Garbage, 1));
    }
    if bytes.len() < length {
        return None;
    }
    if version != VERSION {
        return Some((Parsed::Version(version), length));
    }
    let (message, _) = RawMessage::ref_from_prefix(bytes).ok()?;
    let (sequence, raised) = (message.sequence.get(), message.raised.get());
    let valid = Nanos::from(message.valid.get()) * MILLISECOND;
    Some((Parsed::Message(Message { sequence, raised, valid }), length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(sequence, raised, valid)| Message {
            sequence,
            raised,
            valid: Nanos::from(valid) * MILLISECOND,
        })
    }

    fn parse(stream: &[u8], cuts: &[usize]) -> Vec<Parsed> {
        let (mut parser, mut all, mut at) = (Parser::default(), Vec::new(), 0);
        for cut in cuts.iter().chain([&stream.len()]) {
            let end = (at + cut).min(stream.len());
            parser.feed(&stream[at..end], |parsed| all.push(parsed));
            at = end;
        }
        all
    }

    #[test]
    fn the_layout_is_as_documented() {
        let message = Message { sequence: 7, raised: 2, valid: 3_000 * MILLISECOND };
        let expected = b"HELP\x01\0\x18\0\x07\0\0\0\x02\0\0\0\xb8\x0b\0\0\0\0\0\0";
        assert_eq!(&message.encode(), expected);
        // A longer one of this version, and one of another.
        let mut longer = [expected, &[1; 8][..]].concat();
        longer[6] = 32;
        assert_eq!(parse(&longer, &[]), [Parsed::Message(message)]);
        longer[4] = 2;
        assert_eq!(parse(&longer, &[]), [Parsed::Version(2)]);
        longer[7] = 200;
        assert_eq!(parse(&longer, &[])[..1], [Parsed::Garbage]);
    }

    proptest! {
        #[test]
        fn messages_are_parsed_however_they_are_cut(
            messages in prop::collection::vec(message(), 1..20),
            cuts in prop::collection::vec(0usize..60, 0..40),
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(Message::encode).collect();
            let expected: Vec<_> = messages.into_iter().map(Parsed::Message).collect();
            prop_assert_eq!(parse(&stream, &cuts), expected);
        }

        /// After garbage without the magic's first byte, and a message cut short, the rest is
        /// parsed again: all but the part that the cut one swallows.
        #[test]
        fn garbage_is_passed_over(
            garbage in prop::collection::vec(any::<u8>().prop_filter("no H", |b| *b != b'H'), 0..600),
            cut in 0usize..LENGTH,
            messages in prop::collection::vec(message(), 2..9),
            cuts in prop::collection::vec(0usize..60, 0..40),
        ) {
            let first = messages[0].encode();
            let rest = messages.iter().flat_map(Message::encode);
            let stream: Vec<u8> =
                garbage.into_iter().chain(first[..cut].iter().copied()).chain(rest).collect();
            let parsed = parse(&stream, &cuts);
            let whole: Vec<_> = messages[1..].iter().map(|m| Parsed::Message(*m)).collect();
            let tail: Vec<_> = parsed.iter().filter(|h| matches!(h, Parsed::Message(_))).collect();
            prop_assert!(tail.len() >= whole.len());
            prop_assert!(tail.iter().rev().zip(whole.iter().rev()).all(|(a, b)| *a == b));
        }

        #[test]
        fn anything_is_taken(stream in prop::collection::vec(any::<u8>(), 0..2000), cuts in prop::collection::vec(0usize..300, 0..20)) {
            let count = parse(&stream, &cuts).len();
            prop_assert!(count <= stream.len());
        }
    }
}
