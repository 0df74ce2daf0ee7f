//! A record of the log: the form of one write, discard or seal on the host's disk.

use std::mem::offset_of;

use stasis_layout::{layout, transmute, transmute_ref, IntoBytes, U32, U64};

/// A header's length (bytes). Records begin at multiples of it, so that a
/// header lies within one sector and is never torn.
pub const HEADER: u64 = 64;

/// The host's pages (bytes). Durable data is never written again, not even as a part of a page: a
/// seal fills its page.
pub const PAGE: u64 = 4096;

/// Limit on the data of one record (bytes): longer writes are several records.
pub const MAX_DATA: u64 = 1 << 20;

const MAGIC: [u8; 4] = *b"SOr1";

/// Content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The bytes behind the header are those of a range of the disk.
    Data = 1,
    /// A range of the disk reads as zeroes.
    Zeroes = 2,
    /// Nothing; it ends a page, and the epochs before its own.
    Seal = 3,
}

layout! {
    /// A header on the host's disk.
    struct Header: 64 {
        /// [`MAGIC`].
        [0] magic: [u8; 4],
        /// [`Kind`].
        [4] kind: u8,
        [5] reserved5: [u8; 3],
        /// As of [`Record`], like the fields that follow.
        [8] incarnation: U64,
        [16] address: U64,
        [24] epoch: U64,
        [32] offset: U64,
        [40] length: U64,
        [48] durable: U64,
        [56] checksum: U32,
        /// CRC-32 of the header before this field.
        [60] own: U32,
    }
}

impl Header {
    fn sum(&self) -> u32 {
        crc32fast::hash(&self.as_bytes()[..offset_of!(Header, own)])
    }
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Content of the record.
    pub kind: Kind,
    /// Number of the disk's opening that wrote it: records of earlier ones, which a recovery cut
    /// off, are none.
    pub incarnation: u64,
    /// Address of its beginning in the log, counted from the log's first byte ever: its sequence
    /// number.
    pub address: u64,
    /// Number of orders that came before it. A record of a later epoch implies that every record of
    /// the earlier ones is before it in the log.
    pub epoch: u64,
    /// First byte of the range on the disk.
    pub offset: u64,
    /// The range's length (bytes); of a seal, its own.
    pub length: u64,
    /// The log was durable up to here when the record was written.
    pub durable: u64,
    /// Checksum of the data behind the header.
    pub checksum: u32,
}

impl Record {
    /// The seal at `address`, which ends its page.
    pub fn seal(incarnation: u64, address: u64, epoch: u64, durable: u64) -> Self {
        let length = (address + HEADER).next_multiple_of(PAGE) - address;
        Self {
            kind: Kind::Seal,
            incarnation,
            address,
            epoch,
            offset: 0,
            length,
            durable,
            checksum: 0,
        }
    }

    /// Bytes in the log, header included.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::Data => data_size(self.length),
            Kind::Zeroes => HEADER,
            Kind::Seal => self.length,
        }
    }

    /// The first address behind it.
    pub fn end(&self) -> u64 {
        self.address + self.size()
    }

    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; HEADER as usize] {
        let mut header = Header {
            magic: MAGIC,
            kind: self.kind as u8,
            incarnation: self.incarnation.into(),
            address: self.address.into(),
            epoch: self.epoch.into(),
            offset: self.offset.into(),
            length: self.length.into(),
            durable: self.durable.into(),
            checksum: self.checksum.into(),
            ..Default::default()
        };
        header.own.set(header.sum());
        transmute!(header)
    }

    /// The record that `bytes` are the header of, if they are one.
    pub fn decode(bytes: &[u8; HEADER as usize]) -> Option<Self> {
        let header: &Header = transmute_ref!(bytes);
        if header.magic != MAGIC || header.own != header.sum() {
            return None;
        }
        let kind = match header.kind {
            1 => Kind::Data,
            2 => Kind::Zeroes,
            3 => Kind::Seal,
            _ => return None,
        };
        let record = Self {
            kind,
            incarnation: header.incarnation.get(),
            address: header.address.get(),
            epoch: header.epoch.get(),
            offset: header.offset.get(),
            length: header.length.get(),
            durable: header.durable.get(),
            checksum: header.checksum.get(),
        };
        let fits = match kind {
            Kind::Data => record.length <= MAX_DATA,
            Kind::Zeroes => true,
            Kind::Seal => record.length <= 2 * PAGE && record.length.is_multiple_of(HEADER),
        };
        let sound = fits && record.offset.checked_add(record.length).is_some();
        sound.then_some(record)
    }
}

/// Bytes in the log of a record with this many bytes of data.
pub fn data_size(length: u64) -> u64 {
    (HEADER + length).next_multiple_of(HEADER)
}

/// The checksum of a record's data.
pub fn checksum(data: &[u8]) -> u32 {
    crc32fast::hash(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Record> {
        let kinds = prop_oneof![Just(Kind::Data), Just(Kind::Zeroes), Just(Kind::Seal)];
        let words = any::<(u64, u64, u64, u64, u32)>();
        (kinds, words, 0..=MAX_DATA / HEADER, 0..1u64 << 60).prop_map(
            |(kind, (incarnation, address, epoch, durable, checksum), length, offset)| {
                let length = if kind == Kind::Seal { length % 128 * HEADER } else { length * 7 };
                Record { kind, incarnation, address, epoch, offset, length, durable, checksum }
            },
        )
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(record in records()) {
            prop_assert_eq!(Record::decode(&record.encode()), Some(record));
        }

        #[test]
        fn a_changed_bit_is_noticed(record in records(), bit in 0usize..512) {
            let mut bytes = record.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Record::decode(&bytes), None);
        }
    }
}
