//! Shared parts of the tests of hostile drivers: the bytes that choose the actions. The fuzz
//! targets include it as well.
#![allow(dead_code)] // each takes what it needs

/// The bytes that choose the actions; zeroes when they have run out.
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    pub fn u8(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    pub fn u16(&mut self) -> u16 {
        u16::from(self.u8()) | u16::from(self.u8()) << 8
    }

    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }
}

/// The place of a range in memory of `size` bytes from address 0 on; `None` where it is outside.
pub fn range(size: usize, address: u64, length: usize) -> Option<std::ops::Range<usize>> {
    let end = address.checked_add(length as u64).filter(|end| *end <= size as u64)?;
    Some(address as usize..end as usize)
}
