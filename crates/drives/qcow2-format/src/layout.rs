//! Places of the header's fields, and the version that introduced each: the one description from
//! which they are read and by which they are written (QEMU, docs/interop/qcow2.txt, "Header").

/// A field of the header: big-endian, at the same place in every version that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    at: usize,
    length: usize,
    /// First version that has it.
    since: u32,
}

const fn field(at: usize, length: usize, since: u32) -> Field {
    Field { at, length, since }
}

/// `QFI\xfb`.
pub const MAGIC: Field = field(0, 4, 0);
/// 2 or 3.
pub const VERSION: Field = field(4, 4, 0);
/// Offset of the backing file's name (bytes); 0 without one.
pub const BACKING_OFFSET: Field = field(8, 8, 2);
/// Length of that name (bytes).
pub const BACKING_LENGTH: Field = field(16, 4, 2);
/// Binary logarithm of the cluster size.
pub const CLUSTER_BITS: Field = field(20, 4, 2);
/// Size of the disk (bytes).
pub const SIZE: Field = field(24, 8, 2);
/// Method of encryption; 0 for none.
pub const ENCRYPTION: Field = field(32, 4, 2);
/// Entries of the active L1 table.
pub const L1_ENTRIES: Field = field(36, 4, 2);
/// Offset of the L1 table (bytes).
pub const L1_OFFSET: Field = field(40, 8, 2);
/// Offset of the refcount table (bytes).
pub const REFTABLE_OFFSET: Field = field(48, 8, 2);
/// Its length (clusters).
pub const REFTABLE_CLUSTERS: Field = field(56, 4, 2);
/// Number of internal snapshots.
pub const SNAPSHOTS: Field = field(60, 4, 2);
/// Offset of the table of snapshots (bytes).
pub const SNAPSHOTS_OFFSET: Field = field(64, 8, 2);
/// Features without which an image cannot be opened.
pub const INCOMPATIBLE: Field = field(72, 8, 3);
/// Features that may be ignored.
pub const COMPATIBLE: Field = field(80, 8, 3);
/// Features that a program clears if it does not support them.
pub const AUTOCLEAR: Field = field(88, 8, 3);
/// Binary logarithm of a refcount's width (bits).
pub const REFCOUNT_ORDER: Field = field(96, 4, 3);
/// Length of the header (bytes).
pub const HEADER_LENGTH: Field = field(100, 4, 3);

/// Bytes of the header of version 2, and the fewest of that of version 3.
pub const LENGTH: [u32; 2] = [72, 104];

impl Field {
    fn raw(self, header: &[u8]) -> Option<u64> {
        let bytes = header.get(self.at..self.at + self.length)?;
        Some(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// Returns whether a header of this version has the field.
    fn exists(self, header: &[u8]) -> bool {
        self.since == 0 || VERSION.raw(header).is_some_and(|is| is >= u64::from(self.since))
    }

    /// The field's value; 0 where the header's version has no such field.
    pub fn get(self, header: &[u8]) -> u64 {
        match self.exists(header) {
            true => self.raw(header).unwrap_or(0),
            false => 0,
        }
    }

    /// The value of a field of 4 bytes.
    pub fn get32(self, header: &[u8]) -> u32 {
        self.get(header) as u32
    }

    /// Writes the field; `false`, and nothing written, where the header's version has no
    /// such field: something else lies there.
    #[must_use]
    pub fn set(self, header: &mut [u8], value: u64) -> bool {
        if !self.exists(header) {
            return false;
        }
        let Some(bytes) = header.get_mut(self.at..self.at + self.length) else { return false };
        bytes.copy_from_slice(&value.to_be_bytes()[8 - self.length..]);
        true
    }

    /// Sets or clears `bits`; `false` as [`Field::set`].
    #[must_use]
    pub fn set_bits(self, header: &mut [u8], bits: u64, on: bool) -> bool {
        let now = self.get(header);
        self.set(header, if on { now | bits } else { now & !bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Field; 18] = [
        MAGIC,
        VERSION,
        BACKING_OFFSET,
        BACKING_LENGTH,
        CLUSTER_BITS,
        SIZE,
        ENCRYPTION,
        L1_ENTRIES,
        L1_OFFSET,
        REFTABLE_OFFSET,
        REFTABLE_CLUSTERS,
        SNAPSHOTS,
        SNAPSHOTS_OFFSET,
        INCOMPATIBLE,
        COMPATIBLE,
        AUTOCLEAR,
        REFCOUNT_ORDER,
        HEADER_LENGTH,
    ];

    fn header(version: u8) -> Vec<u8> {
        let mut bytes = vec![0xa5; 512];
        bytes[4..8].copy_from_slice(&[0, 0, 0, version]);
        bytes
    }

    #[test]
    fn fields_follow_each_other_without_gaps() {
        let mut at = 0;
        for field in ALL {
            assert_eq!(field.at, at, "{field:?}");
            at += field.length;
            assert!(field.at + field.length <= LENGTH[usize::from(field.since > 2)] as usize);
        }
        assert_eq!(at, LENGTH[1] as usize);
    }

    #[test]
    fn no_field_of_version_3_is_written_into_version_2() {
        for field in ALL.into_iter().filter(|field| *field != VERSION) {
            for version in [2, 3] {
                let (mut bytes, before) = (header(version), header(version));
                let written = field.set(&mut bytes, 1) | field.set_bits(&mut bytes, 1, false);
                assert_eq!(written, field.since <= u32::from(version), "{field:?}");
                let span = field.at..field.at + field.length;
                assert!(written || bytes == before, "{field:?} in version {version}");
                assert_eq!(bytes[..span.start], before[..span.start]);
                assert_eq!(bytes[span.end..], before[span.end..]);
                assert_eq!(field.get(&bytes), 0, "{field:?}");
            }
        }
    }
}
