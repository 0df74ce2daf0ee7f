//! Which boot of the host this is.

use std::fs;

/// Which boot of the host this is (Linux: random(4), `boot_id`), for what holds
/// only as long as the host runs; `None` where it does not say.
pub fn boot() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}
