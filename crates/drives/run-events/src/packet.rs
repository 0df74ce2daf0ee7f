//! Frames of a network as a run reports them, at the moments when they pass a machine's port.

use stasis_block::clock::Nanos;
use stasis_layout::{layout, take, IntoBytes, U16, U32, U64};

/// A frame at a machine's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketRecord {
    /// Number of the network.
    pub network: u16,
    /// Number of the port.
    pub port: u16,
    /// True if the machine sent it; else it arrived.
    pub outgoing: bool,
    /// Time at which it left, or was with the machine (ns).
    pub at: Nanos,
    /// Length of the frame in bytes.
    pub length: u32,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

layout! {
    /// A record in a stream, before the frame's first bytes.
    struct Head: 21 {
        [0] network: U16,
        [2] port: U16,
        /// 1 or 0.
        [4] outgoing: u8,
        [5] at: U64,
        /// Bytes of the frame.
        [13] length: U32,
        /// Bytes of it that follow.
        [17] kept: U32,
    }
}

impl PacketRecord {
    /// Bytes of the record in a stream.
    pub fn encoded(&self) -> usize {
        size_of::<Head>() + self.bytes.len()
    }

    /// Appends the record to a stream.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let head = Head {
            network: self.network.into(),
            port: self.port.into(),
            outgoing: self.outgoing.into(),
            at: self.at.into(),
            length: self.length.into(),
            kept: (self.bytes.len() as u32).into(),
        };
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.bytes);
    }

    /// The records of a whole stream; `None` if it is damaged.
    pub(crate) fn decode(mut stream: &[u8]) -> Option<Vec<Self>> {
        let mut records = Vec::new();
        while !stream.is_empty() {
            let head: Head = take(&mut stream)?;
            let (bytes, behind) = stream.split_at_checked(head.kept.get() as usize)?;
            stream = behind;
            let outgoing = head.outgoing == 1;
            if !outgoing && head.outgoing != 0 {
                return None;
            }
            records.push(Self {
                network: head.network.into(),
                port: head.port.into(),
                outgoing,
                at: head.at.into(),
                length: head.length.into(),
                bytes: bytes.to_vec(),
            });
        }
        Some(records)
    }
}
