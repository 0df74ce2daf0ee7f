//! Packets of gdb's remote protocol (gdb's manual, E.1).

/// A packet with this body: its begin, and behind it the sum of its bytes.
pub fn packet(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    [b"$", body, format!("#{sum:02x}").as_bytes()].concat()
}

/// Bytes written in hexadecimal; digits that are none count as zero.
pub fn unhex(hex: &[u8]) -> Vec<u8> {
    let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
    hex.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
