//! Protection information of a block: guard, application tag and reference tag (NVM Command Set 1.0
//! section 5.2.1). All fields are big-endian.

use super::crc::{crc16, crc32c, crc64};
use crate::metadata::Guard;

/// The application tag of a block whose tags and guard are not to be checked.
pub const ESCAPE: u16 = 0xffff;

/// The fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tuple {
    pub guard: u64,
    pub application: u16,
    /// The storage tag, which a guard of 32 bits leaves room for.
    pub storage: u16,
    pub reference: u64,
}

impl Tuple {
    /// Reads [`Guard::tuple`] bytes.
    pub fn parse(guard: Guard, raw: &[u8]) -> Self {
        let number = |from: usize, to: usize| {
            raw[from..to].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let tag = |at: usize| u16::from_be_bytes([raw[at], raw[at + 1]]);
        match guard {
            Guard::Crc16 => Self {
                guard: number(0, 2),
                application: tag(2),
                storage: 0,
                reference: number(4, 8),
            },
            Guard::Crc32 => Self {
                guard: number(0, 4),
                application: tag(4),
                storage: tag(6),
                reference: number(8, 16),
            },
            Guard::Crc64 => Self {
                guard: number(0, 8),
                application: tag(8),
                storage: 0,
                reference: number(10, 16),
            },
        }
    }

    /// Writes [`Guard::tuple`] bytes.
    pub fn write(&self, guard: Guard, raw: &mut [u8]) {
        let mut at = 0;
        let mut number = |value: u64, bytes: usize| {
            raw[at..at + bytes].copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
            at += bytes;
        };
        let (application, storage) = (self.application.into(), self.storage.into());
        match guard {
            Guard::Crc16 => {
                number(self.guard, 2);
                number(application, 2);
                number(self.reference, 4);
            }
            Guard::Crc32 => {
                number(self.guard, 4);
                number(application, 2);
                number(storage, 2);
                number(self.reference, 8);
            }
            Guard::Crc64 => {
                number(self.guard, 8);
                number(application, 2);
                number(self.reference, 6);
            }
        }
    }
}

/// The guard of a block's data, and of the metadata before the protection information.
pub fn guard_of(guard: Guard, data: &[u8], before: &[u8]) -> u64 {
    let parts = [data, before];
    match guard {
        Guard::Crc16 => crc16(parts).into(),
        Guard::Crc32 => crc32c(parts).into(),
        Guard::Crc64 => crc64(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_specification_has_them() {
        let tuple = Tuple {
            guard: 0x0102_0304_0506_0708,
            application: 0x1112,
            storage: 0x2122,
            reference: 0x3132_3334_3536_3738,
        };
        let written = |guard: Guard| {
            let mut raw = vec![0; guard.tuple()];
            tuple.write(guard, &mut raw);
            let mut again = vec![0; guard.tuple()];
            Tuple::parse(guard, &raw).write(guard, &mut again);
            assert_eq!(raw, again);
            raw.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(written(Guard::Crc16), "0708111235363738");
        assert_eq!(written(Guard::Crc32), "05060708111221223132333435363738");
        assert_eq!(written(Guard::Crc64), "01020304050607081112333435363738");
    }
}
