//! Identifier of the host's present boot.

use std::fs;

/// Identifier of the host's present boot (Linux: random(4), `boot_id`), for data that is valid only
/// as long as the host runs; `None` where the host does not provide it.
pub fn boot() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}
