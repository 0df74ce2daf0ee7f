//! The machine's ports.

use std::arch::asm;

/// Writes bytes to `port`, one after the other.
pub fn write_bytes(port: u16, bytes: &[u8]) {
    // SAFETY: `rep outsb` reads exactly `bytes`; on the bare machine and in the software host ports
    // are QEMU's devices.
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

/// Reads a byte from `port`.
pub fn read_byte(port: u16) -> u8 {
    let byte: u8;
    // SAFETY: on the bare machine ports are QEMU's devices.
    unsafe {
        asm!("in al, dx", in("dx") port, out("al") byte, options(nomem, nostack, preserves_flags));
    }
    byte
}
