//! The CMOS clock as Linux reads it once while it boots: it stands at a fixed
//! date, and the agent sets the guest's clock later.
//!
//! Registers: Motorola MC146818A data sheet, table 2.

/// The index and data ports.
pub const PORTS: std::ops::RangeInclusive<u16> = 0x70..=0x71;

/// The date at which it stands, as seconds since 1970-01-01.
pub const DATE: u32 = 1_767_225_600;

/// The clock's index register.
#[derive(Debug, Default)]
pub struct Cmos {
    index: u8,
}

impl Cmos {
    /// Writes a port.
    pub fn write(&mut self, port: u16, value: u8) {
        if port == 0x70 {
            self.index = value & 0x7f;
        }
    }

    /// Reads a port: 2026-01-01 00:00:00 in BCD, no update under way.
    pub fn read(&self, port: u16) -> u8 {
        match (port, self.index) {
            (0x71, 0x06) => 0x05, // Thursday
            (0x71, 0x07 | 0x08) => 0x01,
            (0x71, 0x09) => 0x26,
            (0x71, 0x0a) => 0x26, // 32 kHz time base
            (0x71, 0x0b) => 0x02, // 24 hours
            (0x71, 0x0d) => 0x80, // valid
            (0x71, 0x32) => 0x20, // century
            (0x71, _) => 0,
            _ => 0xff,
        }
    }
}
