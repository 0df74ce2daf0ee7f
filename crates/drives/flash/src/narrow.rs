//! Numbers in fewer bits, where what they count is known to be few.

/// A number of units, slots, pages, blocks or entries, or of bytes of one, in either type that counts
/// them. A drive has fewer than 2^32: a [`Spec`](crate::Spec) with more is refused.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a drive has fewer than 2^32 of anything")]
pub(crate) fn count(things: impl TryInto<u64>) -> u32 {
    // No type of the crate has more bits: this costs nothing.
    let things = things.try_into().unwrap_or(u64::MAX);
    debug_assert!(u32::try_from(things).is_ok());
    things as u32
}

/// The remainder of a division.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is below the divisor")]
pub(crate) fn remainder(number: u64, divisor: u32) -> u32 {
    (number % u64::from(divisor)) as u32
}

/// The number of the subject of an operation, which is the low half of its token.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the rest is the kind of the operation")]
pub(crate) fn subject(token: u64) -> u32 {
    token as u32
}

/// A percentage of a health log, in which a greater one than 255 is 255.
pub(crate) fn percentage(value: u64) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

/// A place in a list; where an address has fewer bits, one that no list has.
#[inline]
pub(crate) fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The number of a stream of writes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a drive has fewer than 2^16 streams")]
pub(crate) fn stream(number: u32) -> u16 {
    debug_assert!(u16::try_from(number).is_ok());
    number as u16
}
