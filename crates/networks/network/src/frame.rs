//! Length of an Ethernet frame on the wire.

/// Preamble, frame check sequence and gap of a frame on the wire in bytes (IEEE 802.3-2018, clauses
/// 3.1.1 and 4.4.2: 8, 4 and 12).
const OVERHEAD: u64 = 24;
/// Minimum of a frame without its check sequence in bytes (IEEE 802.3-2018, clause 4.4.2).
const MIN_FRAME: u64 = 60;

/// Bytes that a frame of `length` bytes takes on the wire.
pub fn wire_bytes(length: usize) -> u64 {
    (length as u64).max(MIN_FRAME) + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_more_on_the_wire_than_its_bytes() {
        assert_eq!(wire_bytes(42), 84);
        assert_eq!(wire_bytes(1_514), 1_538);
    }
}
