//! The devices that every machine has at fixed places, beside its bus. Owns the serial console, the
//! clock's memory, and the I/O APIC.

use crate::devices::{cmos, Cmos, IoApic, Serial};
use crate::error::Error;

/// The legacy timer's ports. There is none; a counter that reads zero ends
/// Linux's early attempt to calibrate by it at once (`quick_pit_calibrate`).
const PIT: std::ops::RangeInclusive<u16> = 0x40..=0x43;

/// NMI status port (PC/AT system control port B). Bits 7:6 report parity or bus errors and are
/// never set here; the other bits read as 1, as from a port that no device answers.
const NMI_REASON: u16 = 0x61;
const NO_NMI_REASON: u8 = 0x3f;

/// The devices.
pub(super) struct Chipset {
    serial: Serial,
    cmos: Cmos,
    io_apic: IoApic,
}

impl Chipset {
    /// Creates the devices of a machine with `processors` processors.
    pub(super) fn new(processors: u32) -> Self {
        Self { serial: Serial::default(), cmos: Cmos::default(), io_apic: IoApic::new(processors) }
    }

    /// Resets the devices to their state after power-on, except for an unfinished line of the
    /// console.
    pub(super) fn reset(&mut self, processors: u32) {
        self.io_apic = IoApic::new(processors);
        self.cmos = Cmos::default();
    }

    /// The guest writes `data` to a port; each line of the console that is complete goes to `line`.
    ///
    /// # Errors
    /// As of `line`.
    pub(super) fn write_port(
        &mut self,
        port: u16,
        data: &[u8],
        mut line: impl FnMut(Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if Serial::owns(port) {
            for &byte in data {
                if let Some(text) = self.serial.write(port, byte) {
                    line(text)?;
                }
            }
        } else if let (true, Some(&value)) = (cmos::PORTS.contains(&port), data.first()) {
            self.cmos.write(port, value);
        }
        Ok(())
    }

    /// The guest reads from a port: all ones where nothing answers.
    pub(super) fn read_port(&self, port: u16, into: &mut [u8]) {
        into.fill(match port {
            port if Serial::owns(port) => self.serial.read(port),
            port if cmos::PORTS.contains(&port) => self.cmos.read(port),
            port if PIT.contains(&port) => 0,
            NMI_REASON => NO_NMI_REASON,
            _ => 0xff,
        });
    }

    /// The line of the console that has begun.
    pub(super) fn rest_of_console(&mut self) -> Vec<u8> {
        self.serial.rest()
    }

    /// The guest writes a register of the I/O APIC.
    pub(super) fn write_io_apic(&mut self, offset: u64, data: &[u8]) {
        self.io_apic.write(offset, data);
    }

    /// The guest reads a register of the I/O APIC.
    pub(super) fn read_io_apic(&self, offset: u64, into: &mut [u8]) {
        self.io_apic.read(offset, into);
    }
}
