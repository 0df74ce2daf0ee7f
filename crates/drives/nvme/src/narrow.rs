//! Numbers in fewer bits, where it is known that they fit. What a host gives is checked before.

/// A number of things of which a controller or a command has fewer than 2^32: namespaces, requests,
/// ranges, zones, events.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a controller has fewer than 2^32 of anything")]
pub fn count32(things: usize) -> u32 {
    debug_assert!(u32::try_from(things).is_ok());
    things as u32
}

/// A number of things of which a controller has fewer than 2^16: queues, controllers, streams,
/// registrants, placement handles, zones of a log, blocks of telemetry; or the bytes of an event.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a controller has fewer than 2^16 of these")]
pub fn count16(things: usize) -> u16 {
    debug_assert!(u16::try_from(things).is_ok());
    things as u16
}

/// A number of things of which a controller has fewer than 2^8: power states, LBA formats, reclaim
/// unit handles, notices; or the bytes of an identifier.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a controller has fewer than 2^8 of these")]
pub fn count8(things: usize) -> u8 {
    debug_assert!(u8::try_from(things).is_ok());
    things as u8
}

/// A constant below 2^16: for expressions that are computed as the crate compiles.
#[expect(clippy::cast_possible_truncation, reason = "another number does not compile")]
pub const fn constant16(number: u64) -> u16 {
    assert!(number < 1 << 16);
    number as u16
}

/// A constant below 2^8, likewise.
#[expect(clippy::cast_possible_truncation, reason = "another number does not compile")]
pub const fn constant8(number: u64) -> u8 {
    assert!(number < 1 << 8);
    number as u8
}

/// A number of bits of an integer, or the place of one.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "no integer has more than 128 bits")]
pub fn bits(count: u32) -> u8 {
    count as u8
}

/// A number that the check of a configuration has bounded, for a field of 16 bits.
pub fn configured16(number: u64) -> u16 {
    debug_assert!(u16::try_from(number).is_ok());
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// A length of data, or a place in a list; where an address has fewer bits, one that nothing has.
#[inline]
pub fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The remainder of a division.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is below the divisor")]
pub fn remainder(number: u64, divisor: u32) -> u32 {
    (number % u64::from(divisor)) as u32
}

/// The lower and the upper half of a number.
#[inline]
pub fn dwords(number: u64) -> [u32; 2] {
    [(number & 0xffff_ffff) as u32, (number >> 32) as u32]
}
