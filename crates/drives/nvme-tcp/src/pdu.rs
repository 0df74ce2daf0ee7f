//! Protocol data units (NVMe/TCP 1.0 section 3.6): their headers, digests and places of data.

use stasis_nvme_layout::tcp::{CommandCapsule, CommonHeader, DataHeader, InitializeRequest};
use stasis_nvme_layout::transmute;

/// Types of PDUs.
pub mod kind {
    pub const IC_REQUEST: u8 = 0x00;
    pub const IC_RESPONSE: u8 = 0x01;
    pub const HOST_TERMINATION: u8 = 0x02;
    pub const CONTROLLER_TERMINATION: u8 = 0x03;
    pub const COMMAND: u8 = 0x04;
    pub const RESPONSE: u8 = 0x05;
    pub const HOST_DATA: u8 = 0x06;
    pub const CONTROLLER_DATA: u8 = 0x07;
    /// R2T (Ready to Transfer): the controller asks for a part of a write's data.
    pub const READY_TO_TRANSFER: u8 = 0x09;
}

/// Flags of the common header.
pub mod flag {
    pub const HEADER_DIGEST: u8 = 1;
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// The last data of a transfer.
    pub const LAST: u8 = 1 << 2;
    /// No response follows: the command has succeeded.
    pub const SUCCESS: u8 = 1 << 3;
}

/// Length of the common header in bytes.
pub const COMMON: usize = size_of::<CommonHeader>();
/// Length of a digest in bytes.
pub const DIGEST: usize = 4;
/// Length of an initialization request and response in bytes.
pub const IC: usize = size_of::<InitializeRequest>();
/// Length of the header of a command capsule: the common header and the entry.
pub const COMMAND: usize = size_of::<CommandCapsule>();
/// Length of the header of data, of a request for it, and of a termination.
pub const DATA: usize = size_of::<DataHeader>();
/// Maximum length of a termination request: its header and that of the PDU at fault.
pub const MAX_TERMINATION: usize = 152;

/// Fatal Error Status, and its information.
pub type Reason = (u16, u32);

/// A common header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub kind: u8,
    pub flags: u8,
    /// Length of the header (HLEN).
    pub header: u8,
    /// Offset of the data (PDO).
    pub offset: u8,
    /// Length of all (PLEN).
    pub length: u32,
}

impl Header {
    pub fn parse(raw: &[u8; COMMON]) -> Self {
        let CommonHeader { kind, flags, hlen, pdo, plen } = transmute!(*raw);
        Self { kind, flags, header: hlen, offset: pdo, length: plen.get() }
    }

    pub fn to_bytes(self) -> [u8; COMMON] {
        let Self { kind, flags, header: hlen, offset: pdo, length } = self;
        transmute!(CommonHeader { kind, flags, hlen, pdo, plen: length.into() })
    }
}

/// The digests that both sides have agreed to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digests {
    pub header: bool,
    pub data: bool,
}

/// CRC32C, as on the wire (NVMe/TCP 1.0 section 3.3.1.1).
pub fn digest(bytes: &[u8]) -> [u8; DIGEST] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// Appends a PDU: of its `header` the common one is made here; the data begins at a multiple of
/// `alignment` bytes.
pub fn put(
    output: &mut Vec<u8>,
    (kind, flags): (u8, u8),
    header: &[u8],
    data: &[u8],
    digests: Digests,
    alignment: usize,
) {
    let length = header.len();
    let with_digest = length + if digests.header { DIGEST } else { 0 };
    let offset = match data.is_empty() {
        true => 0,
        false => with_digest.next_multiple_of(alignment.max(4)),
    };
    let data_digest = digests.data && !data.is_empty();
    let all = with_digest.max(offset) + data.len() + if data_digest { DIGEST } else { 0 };
    let mut flags = flags;
    flags |= if digests.header { flag::HEADER_DIGEST } else { 0 };
    flags |= if data_digest { flag::DATA_DIGEST } else { 0 };
    let common =
        Header { kind, flags, header: length as u8, offset: offset as u8, length: all as u32 };
    let start = output.len();
    output.extend_from_slice(&common.to_bytes());
    output.extend_from_slice(&header[COMMON..]);
    if digests.header {
        let sum = digest(&output[start..]);
        output.extend_from_slice(&sum);
    }
    if !data.is_empty() {
        output.resize(start + offset, 0);
        output.extend_from_slice(data);
    }
    if data_digest {
        output.extend_from_slice(&digest(data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        // RFC 3720 section B.4: 32 bytes of zeroes, and of ones.
        assert_eq!(digest(&[0; 32]), 0x8a91_36aau32.to_le_bytes());
        assert_eq!(digest(&[0xff; 32]), 0x62a8_ab43u32.to_le_bytes());
    }

    #[test]
    fn data_begins_where_the_header_says() {
        let mut output = Vec::new();
        let digests = Digests { header: true, data: true };
        put(&mut output, (kind::CONTROLLER_DATA, 0), &[1; 24], &[7; 10], digests, 64);
        let header = Header::parse(output[..8].try_into().unwrap());
        assert_eq!((header.header, header.offset), (24, 64));
        assert_eq!(header.length as usize, output.len());
        assert_eq!(output[64..74], [7; 10]);
        assert_eq!(output[24..28], digest(&output[..24]));
        assert_eq!(output[74..], digest(&[7; 10]));
    }
}
