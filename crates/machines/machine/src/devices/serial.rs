//! COM1, output only: where the kernel's console goes, mostly its last words.
//!
//! Registers: National Semiconductor PC16550D data sheet, section 8.

/// First port of COM1.
pub const PORT: u16 = 0x3f8;

/// Longest line that is kept before it is passed on.
const LINE: usize = 4096;

/// A serial port whose transmitter is always ready.
#[derive(Debug, Default)]
pub struct Serial {
    registers: [u8; 8],
    line: Vec<u8>,
}

impl Serial {
    /// Returns whether `port` is one of this device's.
    pub fn owns(port: u16) -> bool {
        (PORT..PORT + 8).contains(&port)
    }

    /// Writes a register; returns a finished line of output.
    pub fn write(&mut self, port: u16, value: u8) -> Option<Vec<u8>> {
        const DIVISOR_LATCH: u8 = 0x80;
        let register = usize::from(port - PORT);
        if register == 0 && self.registers[3] & DIVISOR_LATCH == 0 {
            self.line.push(value);
            if value == b'\n' || self.line.len() >= LINE {
                return Some(std::mem::take(&mut self.line));
            }
            return None;
        }
        self.registers[register] = value;
        None
    }

    /// Reads a register.
    pub fn read(&self, port: u16) -> u8 {
        match port - PORT {
            0 => 0,
            2 => 0x01, // no interrupt pending, no FIFO
            5 => 0x60, // transmitter empty
            6 => 0xb0, // carrier, data set ready, clear to send
            register => self.registers[usize::from(register)],
        }
    }

    /// Takes the output since the last whole line.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }
}
