//! Entries as a stream of bytes: kind (1 byte), length (4 bytes, little
//! endian), payload.

use crate::{Entry, IoRecord, Stage};

/// Longest payload of a frame; longer entries go out as several frames.
const LIMIT: usize = 1 << 20;
const HEADER: usize = 5;

/// A stream that is not a journal, or a damaged one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The kind byte is none of ours.
    #[error("journal: unknown kind of frame {0:#04x}")]
    Kind(u8),
    /// A frame longer than any that is written.
    #[error("journal: frame of {0} bytes, more than the limit of {LIMIT}")]
    Length(u32),
    /// The payload does not fit its kind.
    #[error("journal: damaged {0} frame")]
    Payload(&'static str),
}

/// Appends `entry` to `out` as one or more frames.
pub fn encode(entry: &Entry, out: &mut Vec<u8>) {
    let mut frames = |kind: u8, payload: &[u8], limit: usize| {
        // An empty payload is still a frame: the entry was made.
        let mut rest = payload;
        loop {
            let (head, tail) = rest.split_at(rest.len().min(limit));
            out.push(kind);
            out.extend_from_slice(&(head.len() as u32).to_le_bytes());
            out.extend_from_slice(head);
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
    };
    match entry {
        Entry::From(machine) => frames(b'm', &machine.to_le_bytes(), LIMIT),
        Entry::Output(bytes) => frames(b'o', bytes, LIMIT),
        Entry::ErrorOutput(bytes) => frames(b'x', bytes, LIMIT),
        Entry::Console(bytes) => frames(b'c', bytes, LIMIT),
        Entry::Stage(stage) => frames(b's', &[*stage as u8], LIMIT),
        Entry::Progress(now) => frames(b'p', &now.to_le_bytes(), LIMIT),
        Entry::Ios(records) => {
            let mut payload = Vec::with_capacity(records.len() * IoRecord::ENCODED);
            for record in records {
                record.encode(&mut payload);
            }
            frames(b'i', &payload, LIMIT / IoRecord::ENCODED * IoRecord::ENCODED);
        }
        Entry::Results(bytes) => frames(b'r', bytes, LIMIT),
        Entry::Record(bytes) => frames(b'd', bytes, LIMIT),
        Entry::Outcome(outcome) => {
            let json = serde_json::to_vec(outcome).expect("an outcome is plain data");
            frames(b'e', &json, LIMIT);
        }
        Entry::Failed(message) => {
            let cut = floor_char_boundary(message, LIMIT);
            frames(b'f', &message.as_bytes()[..cut], LIMIT);
        }
    }
}

/// The longest cut of `text` that is no more than `limit` bytes and whole.
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

    /// The next whole entry, `None` until more is pushed.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some(header) = rest.first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, length @ ..] = *header;
        let length = u32::from_le_bytes(length);
        if length as usize > LIMIT {
            return Err(FrameError::Length(length));
        }
        let Some(payload) = rest.get(HEADER..HEADER + length as usize) else { return Ok(None) };
        let entry = decode(kind, payload)?;
        self.start += HEADER + length as usize;
        Ok(Some(entry))
    }
}

fn decode(kind: u8, payload: &[u8]) -> Result<Entry, FrameError> {
    Ok(match kind {
        b'm' => Entry::From(u16::from_le_bytes(
            payload.try_into().map_err(|_| FrameError::Payload("machine"))?,
        )),
        b'o' => Entry::Output(payload.to_vec()),
        b'x' => Entry::ErrorOutput(payload.to_vec()),
        b'c' => Entry::Console(payload.to_vec()),
        b's' => Entry::Stage(match payload {
            [0] => Stage::Preparing,
            [1] => Stage::Calibrating,
            [2] => Stage::Booting,
            [3] => Stage::Running,
            [4] => Stage::Collecting,
            _ => return Err(FrameError::Payload("stage")),
        }),
        b'p' => Entry::Progress(u64::from_le_bytes(
            payload.try_into().map_err(|_| FrameError::Payload("progress"))?,
        )),
        b'i' => {
            let chunks = payload.chunks_exact(IoRecord::ENCODED);
            if !chunks.remainder().is_empty() {
                return Err(FrameError::Payload("ios"));
            }
            let records: Option<Vec<_>> = chunks
                .map(|chunk| IoRecord::decode(chunk.try_into().expect("an exact chunk")))
                .collect();
            Entry::Ios(records.ok_or(FrameError::Payload("ios"))?)
        }
        b'r' => Entry::Results(payload.to_vec()),
        b'd' => Entry::Record(payload.to_vec()),
        b'e' => Entry::Outcome(
            serde_json::from_slice(payload).map_err(|_| FrameError::Payload("outcome"))?,
        ),
        b'f' => Entry::Failed(String::from_utf8_lossy(payload).into_owned()),
        other => return Err(FrameError::Kind(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stasis_block::Operation;

    fn entries() -> impl Strategy<Value = Entry> {
        let record = (any::<[u16; 5]>(), 0u8..8, any::<[bool; 4]>(), any::<[u64; 7]>()).prop_map(
            |(
                [drive, queue, stream, priority, code],
                operation,
                [failed, boot, fua, refused],
                numbers,
            )| {
                let [offset, bytes, source, order, submit, target, delivered] = numbers;
                IoRecord {
                    drive,
                    queue,
                    operation: Operation::from_number(operation).unwrap(),
                    failed,
                    refused,
                    code,
                    boot,
                    fua,
                    stream,
                    priority,
                    offset,
                    bytes,
                    source,
                    order,
                    submit,
                    target,
                    delivered,
                }
            },
        );
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..50).prop_map(Entry::Output),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(Entry::Results),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(Entry::Record),
            any::<u64>().prop_map(Entry::Progress),
            prop::collection::vec(record, 0..9).prop_map(Entry::Ios),
            ".*".prop_map(Entry::Failed),
            Just(Entry::Stage(Stage::Running)),
        ]
    }

    proptest! {
        #[test]
        fn entries_survive_any_cutting(all in prop::collection::vec(entries(), 0..9), piece in 1usize..40) {
            let mut stream = Vec::new();
            for entry in &all { encode(entry, &mut stream); }
            let mut decoder = Decoder::new();
            let mut seen = Vec::new();
            for bytes in stream.chunks(piece) {
                decoder.push(bytes);
                while let Some(entry) = decoder.next_entry().unwrap() { seen.push(entry); }
            }
            prop_assert_eq!(seen, all);
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::new();
            decoder.push(&noise);
            while let Ok(Some(_)) = decoder.next_entry() {}
        }
    }
}
