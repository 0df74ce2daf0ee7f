//! Output of the program on the serial port, and the ways in which it ends the machine.

use crate::port;

/// A QEMU debug exit (hw/misc/debugexit.c) at this port ends the machine.
pub const EXIT_PORT: u16 = 0x501;
/// The value that [`die`] writes to the exit port.
pub const ABORTED: u8 = 0x7f;
/// The first serial port: standard output and error.
const SERIAL: u16 = 0x3f8;

/// Writes bytes to the serial port.
pub(crate) fn write(bytes: &[u8]) {
    port::write_bytes(SERIAL, bytes);
}

/// Writes text to the serial port.
pub(crate) fn say(text: &str) {
    write(text.as_bytes());
}

/// Writes a number to the serial port, in hexadecimal.
pub(crate) fn say_number(number: u64) {
    for digit in (0..16).rev() {
        let digit = (number >> (4 * digit)) as usize & 15;
        write(&b"0123456789abcdef"[digit..=digit]);
    }
}

/// Ends the machine after an error from which the program cannot recover.
pub(crate) fn die(why: &str) -> ! {
    say("stasis: on the bare machine: ");
    say(why);
    say("\n");
    end(ABORTED)
}

/// Ends the machine.
pub fn end(status: u8) -> ! {
    loop {
        port::write_bytes(EXIT_PORT, &[status]);
    }
}
