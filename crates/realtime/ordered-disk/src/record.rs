//! A record of the log: the form of one write, discard or seal on the host's disk.

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

    /// As it is written.
    pub fn encode(&self) -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        let words =
            [self.incarnation, self.address, self.epoch, self.offset, self.length, self.durable];
        for (place, word) in bytes[8..56].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[56..60].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// The record that `bytes` are the header of, if they are one.
    pub fn decode(bytes: &[u8; HEADER as usize]) -> Option<Self> {
        if bytes[..4] != MAGIC || word32(bytes, 60) != crc32fast::hash(&bytes[..60]) {
            return None;
        }
        let kind = match bytes[4] {
            1 => Kind::Data,
            2 => Kind::Zeroes,
            3 => Kind::Seal,
            _ => return None,
        };
        let word = |index: usize| word64(bytes, 8 + 8 * index);
        let record = Self {
            kind,
            incarnation: word(0),
            address: word(1),
            epoch: word(2),
            offset: word(3),
            length: word(4),
            durable: word(5),
            checksum: word32(bytes, 56),
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

pub(crate) fn word64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

pub(crate) fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
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
