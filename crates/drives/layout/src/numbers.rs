//! Little-endian numbers in bytes, and forms one behind the other.

use zerocopy::FromBytes;

/// The number of 16 bits at byte `at`; `None` if the bytes end before it does.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

/// The number of 32 bits at byte `at`; `None` if the bytes end before it does.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// The number of 64 bits at byte `at`; `None` if the bytes end before it does.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The form at the head of a stream, which goes on behind it; `None`, and no change, if the stream
/// ends before the form does.
#[inline]
pub fn take<T: FromBytes>(stream: &mut &[u8]) -> Option<T> {
    let (form, rest) = T::read_from_prefix(stream).ok()?;
    *stream = rest;
    Some(form)
}

/// The number that all of the bytes are; of more than eight, the low 64 bits.
#[inline]
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_where_they_are_whole(bytes: Vec<u8>, at in 0..300usize) {
            let whole = |width: usize| at.checked_add(width).is_some_and(|end| end <= bytes.len());
            let read = |width: usize| whole(width).then(|| number(&bytes[at..at + width]));
            prop_assert_eq!(u16_at(&bytes, at).map(u64::from), read(2));
            prop_assert_eq!(u32_at(&bytes, at).map(u64::from), read(4));
            prop_assert_eq!(u64_at(&bytes, at), read(8));
        }

        #[test]
        fn a_number_is_its_bytes(value: u64, width in 0..=8usize) {
            let low = if width == 8 { value } else { value & ((1 << (8 * width)) - 1) };
            prop_assert_eq!(number(&value.to_le_bytes()[..width]), low);
        }
    }

    #[test]
    fn a_stream_goes_on_behind_what_was_taken() {
        let mut stream = &[1, 0, 2, 3, 9][..];
        assert_eq!(take::<crate::U16>(&mut stream).map(u16::from), Some(1));
        assert_eq!((take(&mut stream), stream), (Some([2u8, 3]), &[9][..]));
        assert_eq!((take::<crate::U16>(&mut stream), stream), (None, &[9][..]));
    }

    #[test]
    fn no_place_is_too_far() {
        assert_eq!(u16_at(&[1, 2, 3], 1), Some(0x0302));
        assert_eq!(
            (u16_at(&[1], 0), u32_at(&[0; 4], 1), u64_at(&[0; 8], usize::MAX)),
            (None, None, None)
        );
        assert_eq!(number(&[0, 0, 0, 0, 0, 0, 0, 1, 9]), 1 << 56);
    }
}
