//! Which model-specific registers the guest reaches without an exit.

pub(super) const EFER: u32 = 0xc000_0080;
pub(super) const STAR: u32 = 0xc000_0081;
pub(super) const LSTAR: u32 = 0xc000_0082;
const CSTAR: u32 = 0xc000_0083;
pub(super) const SFMASK: u32 = 0xc000_0084;
const FS_BASE: u32 = 0xc000_0100;
const GS_BASE: u32 = 0xc000_0101;
const KERNEL_GS_BASE: u32 = 0xc000_0102;
pub(super) const TSC_AUX: u32 = 0xc000_0103;
const SYSENTER: [u32; 3] = [0x174, 0x175, 0x176];

/// The permission map (AMD64 APM vol. 2, 15.11): two bits a register.
#[repr(C, align(4096))]
pub(super) struct MsrMap([u8; 8192]);

/// Which ports leave the guest: all (15.10.1).
#[repr(C, align(4096))]
pub(super) struct IoMap([u8; 12288]);

impl MsrMap {
    pub(super) fn new() -> Box<Self> {
        const READ: u8 = 1;
        const WRITE: u8 = 2;
        let mut map = Box::new(Self([0xff; 8192]));
        for number in SYSENTER.into_iter().chain([CSTAR, FS_BASE, GS_BASE, KERNEL_GS_BASE]) {
            map.allow(number, READ | WRITE);
        }
        // Written through the host, which keeps the guest's value and has its own.
        for number in [STAR, LSTAR, SFMASK, TSC_AUX] {
            map.allow(number, READ);
        }
        map
    }

    fn allow(&mut self, number: u32, accesses: u8) {
        let (start, index) = match number {
            0..0x2000 => (0, number),
            _ => (0x800, number - 0xc000_0000),
        };
        self.0[start + index as usize / 4] &= !(accesses << (index % 4 * 2));
    }

    pub(super) fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }
}

impl IoMap {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self([0xff; 12288]))
    }

    pub(super) fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }
}
