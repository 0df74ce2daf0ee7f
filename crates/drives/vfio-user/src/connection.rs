//! A client's connection: messages out of a stream, and replies.

use stasis_layout::{layout, u16_at, FromBytes, IntoBytes, U16, U32};

use crate::fault::{Fault, Refusal};
use crate::limits::{HEADER, MAX_DESCRIPTORS, MAX_MESSAGE};
use crate::replies::Payload;
use crate::request::{command, Request};

/// Flags of a header: the type of a message, replies wanted or not, an error in a reply.
const TYPE: u32 = 0xf;
const COMMAND: u32 = 0;
const REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

/// A message's header, for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    id: u16,
    command: u16,
    wants_reply: bool,
}

/// A client's message, to be answered by [`Header::reply`].
#[derive(Debug, PartialEq, Eq)]
pub struct Message<F> {
    /// For the reply.
    pub header: Header,
    /// The client's request, or why there is none.
    pub request: Result<Request<F>, Refusal>,
}

/// The state of a client's stream. `F` is a descriptor.
#[derive(Debug)]
pub struct Connection<F> {
    /// The message that comes.
    raw: Vec<u8>,
    /// Its length as far as it is known: the header's, then its own.
    length: usize,
    descriptors: Vec<F>,
    /// True if the version was agreed on.
    agreed: bool,
}

impl<F> Default for Connection<F> {
    fn default() -> Self {
        Self {
            raw: Vec::with_capacity(MAX_MESSAGE),
            length: HEADER,
            descriptors: Vec::new(),
            agreed: false,
        }
    }
}

layout! {
    /// Header of a message (vfio-user, "Message Sizes" and "Header").
    struct RawHeader: 16 {
        /// Message ID.
        [0] id: U16,
        [2] command: U16,
        /// Bytes of the message, header included.
        [4] size: U32,
        [8] flags: U32,
        /// Error number of a reply.
        [12] error: U32,
    }
}

impl<F> Connection<F> {
    /// Returns the number of bytes that the message under way lacks: the carrier takes no more from
    /// the stream at a time, so that descriptors come with the message that they belong to.
    pub fn wants(&self) -> usize {
        self.length - self.raw.len()
    }

    /// Takes bytes, [`Connection::wants`] of them at most, and the descriptors that came with them;
    /// returns the message that they complete.
    ///
    /// # Errors
    /// There is no next message in the stream.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        descriptors: impl IntoIterator<Item = F>,
    ) -> Result<Option<Message<F>>, Fault> {
        self.descriptors.extend(descriptors);
        if self.descriptors.len() > MAX_DESCRIPTORS {
            return Err(Fault::Descriptors);
        }
        let bytes = &bytes[..bytes.len().min(self.wants())];
        self.raw.extend_from_slice(bytes);
        if self.wants() > 0 {
            return Ok(None);
        }
        if self.raw.len() == HEADER {
            self.check_header()?;
            if self.wants() > 0 {
                return Ok(None);
            }
        }
        self.message().map(Some)
    }

    /// The header of the message under way, which has come.
    fn header(&self) -> RawHeader {
        RawHeader::read_from_prefix(&self.raw).map(|(header, _)| header).unwrap_or_default()
    }

    fn check_header(&mut self) -> Result<(), Fault> {
        let header = self.header();
        if !self.agreed && header.command != command::VERSION {
            return Err(Fault::First);
        }
        let (length, flags) = (header.size.get(), header.flags.get());
        if !(HEADER..=MAX_MESSAGE).contains(&(length as usize)) {
            return Err(Fault::Length(length));
        }
        if flags & TYPE != COMMAND {
            return Err(Fault::Kind(flags));
        }
        self.length = length as usize;
        Ok(())
    }

    fn message(&mut self) -> Result<Message<F>, Fault> {
        let RawHeader { id, command, flags, .. } = self.header();
        let (id, command, flags) = (id.get(), command.get(), flags.get());
        let payload = &self.raw[HEADER..];
        if command == command::VERSION {
            let [major, minor] = [0, 2].map(|at| u16_at(payload, at).unwrap_or(0));
            // A minor version that is newer includes this one.
            if major != 0 || payload.len() < 4 {
                return Err(Fault::Version(major, minor));
            }
            if self.agreed {
                return Err(Fault::First);
            }
            self.agreed = true;
        }
        let request = Request::parse(command, payload, std::mem::take(&mut self.descriptors));
        self.raw.clear();
        self.length = HEADER;
        let header = Header { id, command, wants_reply: flags & NO_REPLY == 0 };
        Ok(Message { header, request })
    }
}

impl Header {
    /// The reply to its message; `None` if the client wants none.
    pub fn reply(&self, answer: &Result<Payload, Refusal>) -> Option<Vec<u8>> {
        if !self.wants_reply {
            return None;
        }
        let (payload, flags, error): (&[u8], _, _) = match answer {
            Ok(payload) => (payload, REPLY, 0),
            Err(refusal) => (&[], REPLY | ERROR, refusal.errno()),
        };
        let header = RawHeader {
            id: self.id.into(),
            command: self.command.into(),
            size: ((HEADER + payload.len()) as u32).into(),
            flags: flags.into(),
            error: error.into(),
        };
        Some([header.as_bytes(), payload].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
        let mut raw = vec![7, 0];
        raw.extend(command.to_le_bytes());
        raw.extend((16 + payload.len() as u32).to_le_bytes());
        raw.extend(flags.to_le_bytes());
        raw.extend([0; 4]);
        raw.extend(payload);
        raw
    }

    /// Returns the messages of a stream that is given in pieces, and its fault.
    fn all(stream: &[u8], piece: usize) -> (Vec<Message<u8>>, Option<Fault>) {
        let mut connection = Connection::default();
        let (mut rest, mut messages) = (stream, Vec::new());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(connection.wants().min(piece).min(rest.len()));
            rest = later;
            match connection.receive(now, []) {
                Ok(received) => messages.extend(received),
                Err(fault) => return (messages, Some(fault)),
            }
        }
        (messages, None)
    }

    #[test]
    fn bad_messages_are_refused_by_name() {
        let version = message(1, 0, &[0; 4]);
        let fault = |stream: &[u8]| all(&[&version[..], stream].concat(), 99).1;
        assert_eq!(all(&message(4, 0, &[0; 16]), 99).1, Some(Fault::First));
        assert_eq!(all(&message(1, 0, &[1, 0, 3, 0]), 99).1, Some(Fault::Version(1, 3)));
        assert_eq!(fault(&message(4, 1, &[])), Some(Fault::Kind(1)));
        let mut short = message(4, 0, &[]);
        short[4] = 15;
        assert_eq!(fault(&short), Some(Fault::Length(15)));
        short[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(fault(&short), Some(Fault::Length(u32::MAX)));
        let mut connection = Connection::default();
        connection.receive(&version[..16], []).unwrap();
        assert_eq!(connection.receive(&[], 0..17), Err(Fault::Descriptors));
        let (messages, _) = all(&[&version[..], &message(99, 0, &[])].concat(), 99);
        let reply = messages[1].header.reply(&Err(Refusal::Command(99))).unwrap();
        assert_eq!(reply[8..], [0x21, 0, 0, 0, 95, 0, 0, 0]);
    }

    proptest! {
        /// However a stream is cut, its messages are the same.
        #[test]
        fn the_stream_stays_in_step(
            commands in prop::collection::vec((0u16..20, prop::collection::vec(any::<u8>(), 0..60)), 0..20),
            piece in 1usize..50,
        ) {
            let mut stream = message(1, 0, &[0; 4]);
            for (command, payload) in &commands {
                stream.extend(message(*command, NO_REPLY, payload));
            }
            prop_assert_eq!(all(&stream, piece), all(&stream, usize::MAX));
            let (messages, fault) = all(&stream, piece);
            prop_assert!(fault.is_some() || messages.len() == commands.len() + 1);
        }
    }
}
