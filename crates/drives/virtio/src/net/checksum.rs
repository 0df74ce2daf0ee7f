//! Completion of a frame's sum (virtio 1.2 section 5.1.6.2): the driver has put the sum of the
//! pseudo-header where the sum of everything goes.

/// Sums `frame` from `start` on as the Internet's protocols do (RFC 1071), and puts the result at
/// `offset` behind `start`. Returns whether the frame has those places.
pub fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(place) = start.checked_add(offset).filter(|at| frame.len() >= at + 2) else {
        return false;
    };
    let mut sum: u64 = 0;
    let mut words = frame[start..].chunks_exact(2);
    for word in words.by_ref() {
        sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    if let [last] = *words.remainder() {
        sum += u64::from(last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // UDP has no sum where it is 0 (RFC 768); the other zero means the same number.
    let sum = match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    };
    frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_rfc_1071s() {
        // RFC 1071, section 3: 0001 f203 f4f5 f6f7 sum up to ddf2, whose complement is 220d.
        let mut frame = [9, 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0];
        assert!(complete(&mut frame, 1, 8));
        assert_eq!(frame[9..], [0x22, 0x0d]);
        let mut odd = [0x00, 0x01, 0, 0, 0xf2];
        assert!(complete(&mut odd, 0, 2));
        assert_eq!(odd[2..4], [0x0d, 0xfe]);
        assert!(!complete(&mut frame, 1, 9));
        assert!(!complete(&mut frame, usize::MAX, 1));
        let mut zero = [0xff, 0xff, 0, 0];
        assert!(complete(&mut zero, 0, 2));
        assert_eq!(zero[2..], [0xff, 0xff]);
    }
}
