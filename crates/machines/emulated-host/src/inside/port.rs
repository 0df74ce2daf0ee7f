//! The ports through which the inner side reaches QEMU.

use crate::packet::HANDSHAKE;
use crate::qemu::{EVENTS_PORT, EXIT_PORT, EXIT_VALUE, HANDSHAKE_PORT, PAUSE_PORT};
use std::arch::asm;
use std::io;

use stasis_bare::port::write_bytes;

/// Allows this process and its threads-to-be all ports (iopl(2)).
pub(super) fn allow() -> io::Result<()> {
    // SAFETY: no memory is passed; in the software host every port is QEMU's.
    if unsafe { libc::iopl(3) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sends bytes to the event stream.
pub(super) fn write_events(bytes: &[u8]) {
    write_bytes(EVENTS_PORT, bytes);
}

/// Waits, within the last of these writes, until the outer side has taken the
/// bulk packet.
pub(super) fn shake_hands() {
    write_bytes(HANDSHAKE_PORT, &[0; HANDSHAKE]);
}

/// The buffer for bulk packets as the outer side has left it, which writes to it behind the
/// compiler's back.
pub(super) fn written(buffer: &mut [u8]) -> &[u8] {
    // SAFETY: no instruction at all; the compiler's assumptions about the buffer end here. The
    // outer side does not write again before the next packet.
    unsafe { asm!("/* {0} */", in(reg) buffer.as_mut_ptr(), options(nostack, preserves_flags)) };
    buffer
}

/// Pauses the machine at this instruction; it continues when the outer side has restored it.
pub(super) fn pause() {
    write_byte(PAUSE_PORT, 1);
}

/// Ends QEMU.
pub(super) fn end() -> ! {
    if stasis_bare::is_here() {
        stasis_bare::end(EXIT_VALUE);
    }
    write_byte(EXIT_PORT, EXIT_VALUE);
    // QEMU ends at that instruction, or a moment later.
    loop {
        std::thread::park();
    }
}

/// Ends QEMU with another status, from the handler of `signal`: nothing is allocated.
pub(super) fn crashed(signal: libc::c_int) -> ! {
    let mut text = *b"stasis: the program in the software host crashed: signal 00\n";
    let digits = text.len() - 3;
    text[digits] += (signal / 10 % 10) as u8;
    text[digits + 1] += (signal % 10) as u8;
    // SAFETY: the text's own bytes, to the console, and until the last one has left it: the
    // end would cut them off. Both may be called in a handler (signal-safety(7)).
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::tcdrain(libc::STDERR_FILENO);
    }
    write_byte(EXIT_PORT, EXIT_VALUE + 1);
    loop {
        // SAFETY: waits for a signal, and changes nothing.
        unsafe { libc::pause() };
    }
}

pub(super) fn write_byte(port: u16, value: u8) {
    // SAFETY: the ports are QEMU's own devices, which touch no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// Writes `value` to the 32-bit register `port`.
///
/// # Safety
/// Where the register starts a transfer, the memory that it names must be
/// valid for it until the call returns.
pub(super) unsafe fn write_long(port: u16, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags));
    }
}
