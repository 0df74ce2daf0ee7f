//! The machine's ports.

use std::arch::asm;

/// Writes bytes to `port`, one after the other.
pub fn write_bytes(port: u16, bytes: &[u8]) {
    // SAFETY: `rep outsb` reads exactly `bytes`; on the bare machine ports are
    // QEMU's devices.
    unsafe {
        asm!(
            "rep outsb",
            in("dx") port,
            inout("rsi") bytes.as_ptr() => _,
            inout("rcx") bytes.len() => _,
            options(nostack, readonly, preserves_flags),
        );
    }
}
