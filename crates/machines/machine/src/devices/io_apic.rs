//! An I/O APIC with nothing wired to it: Linux wants one to be there before it
//! uses the x2APIC.
//!
//! Registers: Intel 82093AA data sheet, section 3.

const PINS: usize = 24;
const SELECT: u64 = 0;
const WINDOW: u64 = 0x10;
const MASKED: u64 = 1 << 16;

/// The I/O APIC's registers.
#[derive(Debug)]
pub struct IoApic {
    id: u32,
    select: u32,
    entries: [u64; PINS],
}

impl IoApic {
    /// The I/O APIC with identifier `id`, all pins masked.
    pub fn new(id: u32) -> Self {
        Self { id, select: 0, entries: [MASKED; PINS] }
    }

    /// Reads at `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let value = match offset {
            SELECT => self.select,
            WINDOW => match self.select {
                0 => self.id << 24,
                1 => 0x20 | (PINS as u32 - 1) << 16,
                2 => self.id << 24,
                index => match self.entries.get((index as usize).wrapping_sub(0x10) / 2) {
                    Some(entry) if index % 2 == 0 => *entry as u32,
                    Some(entry) => (*entry >> 32) as u32,
                    None => 0,
                },
            },
            _ => 0,
        };
        into.fill(0);
        let length = into.len().min(4);
        into[..length].copy_from_slice(&value.to_le_bytes()[..length]);
    }

    /// Writes at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let value = stasis_layout::number(&data[..data.len().min(4)]) as u32;
        match offset {
            SELECT => self.select = value & 0xff,
            WINDOW => match self.select {
                0 => self.id = value >> 24 & 0xf,
                index => {
                    if let Some(entry) =
                        self.entries.get_mut((index as usize).wrapping_sub(0x10) / 2)
                    {
                        if index % 2 == 0 {
                            *entry = *entry & !0xffff_ffff | u64::from(value);
                        } else {
                            *entry = *entry & 0xffff_ffff | u64::from(value) << 32;
                        }
                    }
                }
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selection_is_answered() {
        let mut io_apic = IoApic::new(1);
        for select in 0..=255u32 {
            io_apic.write(SELECT, &select.to_le_bytes());
            io_apic.write(WINDOW, &[0xff; 4]);
            io_apic.read(WINDOW, &mut [0; 8]);
        }
        io_apic.write(SELECT, &[0x10, 0, 0, 0]);
        let mut word = [0; 4];
        io_apic.read(WINDOW, &mut word);
        assert_eq!(word, [0xff; 4]);
    }
}
