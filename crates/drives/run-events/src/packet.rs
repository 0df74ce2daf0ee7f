//! Frames of a network as a run reports them, at the moments when they pass a machine's port.

use stasis_block::clock::Nanos;

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

/// Bytes of a record before the frame's.
const HEADER: usize = 2 + 2 + 1 + 8 + 4 + 4;

impl PacketRecord {
    /// Bytes of the record in a stream.
    pub fn encoded(&self) -> usize {
        HEADER + self.bytes.len()
    }

    /// Appends the record to a stream.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.network.to_le_bytes());
        out.extend_from_slice(&self.port.to_le_bytes());
        out.push(u8::from(self.outgoing));
        out.extend_from_slice(&self.at.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.bytes);
    }

    /// The records of a whole stream; `None` if it is damaged.
    pub(crate) fn decode(mut stream: &[u8]) -> Option<Vec<Self>> {
        let mut records = Vec::new();
        while !stream.is_empty() {
            let rest = &mut stream;
            let network = u16::from_le_bytes(*take(rest)?);
            let port = u16::from_le_bytes(*take(rest)?);
            let outgoing = match *take(rest)? {
                [0] => false,
                [1] => true,
                _ => return None,
            };
            let at = Nanos::from_le_bytes(*take(rest)?);
            let length = u32::from_le_bytes(*take(rest)?);
            let kept = u32::from_le_bytes(*take(rest)?) as usize;
            let (bytes, behind) = rest.split_at_checked(kept)?;
            *rest = behind;
            records.push(Self { network, port, outgoing, at, length, bytes: bytes.to_vec() });
        }
        Some(records)
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(head)
}
