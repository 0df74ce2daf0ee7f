//! The registers of a processor as gdb has them: their order on the wire, and gdb's description of
//! it (gdb's manual, appendix G, "Target Descriptions": the features of i386).

use std::num::NonZeroUsize;

use gdbstub::arch::{self, Arch};
use stasis_bare::svm::DebugRegisters;
use stasis_layout::u16_at;

/// x86-64 with SSE, the bases of FS and GS, and the control registers.
pub enum X86 {}

impl Arch for X86 {
    type Usize = u64;
    type Registers = Registers;
    type BreakpointKind = usize;
    type RegId = NoId;

    fn target_description_xml() -> Option<&'static str> {
        Some(include_str!("x86-64.xml"))
    }
}

/// Registers are read and written all at once.
#[derive(Debug)]
pub enum NoId {}

impl arch::RegId for NoId {
    fn from_raw_id(_: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        None
    }
}

/// All registers of a processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers(pub DebugRegisters);

impl Default for Registers {
    fn default() -> Self {
        Self(DebugRegisters {
            general: [0; 16],
            rip: 0,
            rflags: 0,
            segments: [0; 6],
            fs_base: 0,
            gs_base: 0,
            kernel_gs_base: 0,
            cr0: 0,
            cr2: 0,
            cr3: 0,
            cr4: 0,
            efer: 0,
            vectors: [0; 512],
        })
    }
}

/// Instructions number the general registers otherwise than gdb: RAX, RBX, RCX, RDX, RSI, RDI, RBP,
/// RSP, R8 to R15.
const GENERAL: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

// FXSAVE's format (AMD64 APM vol. 2, 11.4.4).
const TAGS: usize = 4;
const MXCSR: usize = 24;
const STACK: usize = 32;
const SSE: usize = 160;
/// Bytes of gdb's registers up to the end of MXCSR.
const WRITABLE: usize = 16 * 8 + 8 + 4 + 6 * 4 + 8 * 10 + 8 * 4 + 16 * 16 + 4;

impl arch::Registers for Registers {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        self.0.rip
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        let mut put = |bytes: &[u8]| bytes.iter().for_each(|&byte| write_byte(Some(byte)));
        let all = &self.0;
        let word = |at: usize| u16_at(&all.vectors, at).unwrap_or(0);
        let long = |at: usize| u32::from(word(at)) | u32::from(word(at + 2)) << 16;
        GENERAL.iter().for_each(|&number| put(&all.general[number].to_le_bytes()));
        put(&all.rip.to_le_bytes());
        put(&(all.rflags as u32).to_le_bytes());
        all.segments.iter().for_each(|&segment| put(&u32::from(segment).to_le_bytes()));
        (0..8).for_each(|number| put(&all.vectors[STACK + 16 * number..][..10]));
        // FCTRL, FSTAT, FTAG, FISEG, FIOFF, FOSEG, FOOFF, FOP.
        let tags = (0..8).fold(0, |tags, number| {
            let empty = all.vectors[TAGS] >> number & 1 == 0;
            tags | if empty { 3u32 << (2 * number) } else { 0 }
        });
        let control = [
            word(0).into(),
            word(2).into(),
            tags,
            long(12),
            long(8),
            long(20),
            long(16),
            word(6).into(),
        ];
        control.iter().for_each(|value| put(&value.to_le_bytes()));
        put(&all.vectors[SSE..SSE + 256]);
        put(&all.vectors[MXCSR..MXCSR + 4]);
        for value in [
            all.fs_base,
            all.gs_base,
            all.kernel_gs_base,
            all.cr0,
            all.cr2,
            all.cr3,
            all.cr4,
            all.efer,
        ] {
            put(&value.to_le_bytes());
        }
    }

    /// Takes the registers up to R15, RIP, RFLAGS, the x87 stack, SSE's registers and MXCSR; the
    /// others stay.
    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let mut rest = bytes.get(..WRITABLE).ok_or(())?;
        let mut take = |length: usize| {
            let (first, behind) = rest.split_at(length);
            rest = behind;
            first
        };
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
        for place in GENERAL {
            self.0.general[place] = number(take(8));
        }
        self.0.rip = number(take(8));
        self.0.rflags = self.0.rflags & !0xffff_ffff | number(take(4));
        take(6 * 4);
        for place in 0..8 {
            self.0.vectors[STACK + 16 * place..][..10].copy_from_slice(take(10));
        }
        take(8 * 4);
        self.0.vectors[SSE..SSE + 256].copy_from_slice(take(256));
        // Reserved bits of MXCSR are an exception of the processor that loads them.
        const MXCSR_BITS: u64 = 0xffff;
        let mxcsr = number(take(4)) & MXCSR_BITS;
        self.0.vectors[MXCSR..MXCSR + 4].copy_from_slice(&(mxcsr as u32).to_le_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gdbstub::arch::Registers as _;

    #[test]
    fn registers_survive_the_wire_in_gdbs_order() {
        let mut before = Registers::default();
        for (number, value) in before.0.general.iter_mut().enumerate() {
            *value = 0x1111_2222_0000_0000 + number as u64;
        }
        (before.0.rip, before.0.rflags, before.0.cr3) = (0x1234, 0x246, 77);
        before.0.vectors[STACK..][..10].copy_from_slice(&[7; 10]);
        before.0.vectors[SSE + 255] = 9;
        before.0.vectors[MXCSR] = 0x80;
        let mut wire = Vec::new();
        before.gdb_serialize(|byte| wire.push(byte.unwrap()));
        assert_eq!(wire.len(), WRITABLE + 8 * 8);
        // The second register is RBX, the seventh RBP.
        assert_eq!((wire[8], wire[6 * 8]), (3, 5));
        let mut after = Registers::default();
        after.gdb_deserialize(&wire).unwrap();
        after.0.cr3 = 77;
        assert_eq!(after, before);
        assert_eq!(after.gdb_deserialize(&wire[..WRITABLE - 1]), Err(()));
    }

    #[test]
    fn the_description_has_as_many_bytes_as_the_wire() {
        let text = X86::target_description_xml().unwrap();
        let bits = text.split("bitsize=\"").skip(1).filter_map(|rest| {
            rest.split('"').next().and_then(|number| number.parse::<usize>().ok())
        });
        assert_eq!(bits.sum::<usize>() / 8, WRITABLE + 8 * 8);
    }
}
