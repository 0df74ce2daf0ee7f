//! Entries of a Linux kernel's own tables for unwinding its stacks (ORC), and the same as call frame
//! information, which debuggers read.
//!
//! Source: Linux, Documentation/arch/x86/orc-unwinder.rst; the entries' format and the meaning of their
//! fields: arch/x86/include/asm/orc_types.h of 6.1 and 6.12; `struct pt_regs`:
//! arch/x86/include/asm/ptrace.h. DWARF 5, 6.4.

use stasis_layout::{layout, I16};

layout! {
    /// `struct orc_entry`: the frame of the instructions from an address to the next entry's.
    pub struct Entry: 6 {
        /// From the register of SP to the frame, or to where its address is.
        [0] sp_offset: I16,
        /// From the register of BP to where the caller's is saved.
        [2] bp_offset: I16,
        /// The register of SP in bits 3:0, that of BP in 7:4.
        [4] registers: u8,
        /// The type, in its lowest bits.
        [5] fields: u8,
    }
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A called function's.
    Call,
    /// All registers are on the stack (`struct pt_regs`).
    Registers,
    /// The registers that an interrupt saves are on the stack.
    Interrupt,
    /// There is no caller, or none is known.
    End,
}

/// A register, as entries number them (`ORC_REG_…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// None.
    Undefined,
    /// The stack pointer of the caller.
    PreviousSp,
    /// RBP.
    Bp,
    /// RSP.
    Sp,
    /// The address is in memory where BP and the offset point.
    BpIndirect,
    /// The address is in memory where SP points; the offset is added to it.
    SpIndirect,
    /// One of few functions in assembler, by its number in DWARF.
    Other(u8),
}

impl Register {
    fn new(number: u8) -> Self {
        match number {
            1 => Self::PreviousSp,
            2 => Self::Other(1),
            3 => Self::Other(5),
            4 => Self::Bp,
            5 => Self::Sp,
            6 => Self::Other(10),
            7 => Self::Other(13),
            8 => Self::BpIndirect,
            9 => Self::SpIndirect,
            _ => Self::Undefined,
        }
    }
}

impl Entry {
    /// The kind of the frame; Linux 6.4 has numbered them anew.
    pub fn kind(&self, from_6_4: bool) -> Kind {
        match (from_6_4, self.fields & if from_6_4 { 7 } else { 3 }) {
            (false, 0) | (true, 2) => Kind::Call,
            (false, 1) | (true, 3) => Kind::Registers,
            (false, 2) | (true, 4) => Kind::Interrupt,
            _ => Kind::End,
        }
    }

    /// The register from which the frame is found.
    pub fn sp(&self) -> Register {
        Register::new(self.registers & 0xf)
    }

    /// The register from which the caller's BP is found.
    pub fn bp(&self) -> Register {
        Register::new(self.registers >> 4)
    }
}

/// Offset of RIP in `struct pt_regs` (bytes).
pub const REGISTERS_IP: u64 = 128;
/// Offset of RBP there.
pub const REGISTERS_BP: u64 = 32;
/// From the instruction pointer of an interrupted context to its stack pointer.
pub const IP_TO_SP: u64 = 24;

// Numbers of registers (System V ABI for x86-64, figure 3.36).
const RBP: u8 = 6;
const RSP: u8 = 7;
const RETURN: u8 = 16;
/// The registers in `struct pt_regs`, in its order, up to RDI; RBP, which has its own rule, among them.
const SAVED: [u8; 15] = [15, 14, 13, 12, RBP, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5];

// Instructions and operations (DWARF 5, tables 7.29 and 7.9).
const ADVANCE: u8 = 0x40;
const OFFSET: u8 = 0x80;
const ADVANCE_4: u8 = 0x04;
const UNDEFINED: u8 = 0x07;
const SAME: u8 = 0x08;
const DEFINE_FRAME: u8 = 0x0c;
const FRAME_EXPRESSION: u8 = 0x0f;
const EXPRESSION: u8 = 0x10;
const OFFSET_SIGNED: u8 = 0x11;
const DEFINE_FRAME_SIGNED: u8 = 0x12;
const DEREFERENCE: u8 = 0x06;
const PLUS: u8 = 0x22;
const CONSTANT_SIGNED: u8 = 0x11;
const REGISTER_PLUS: u8 = 0x70;

/// Entries that share a record: a reader goes through a record's instructions from its begin on.
const MAX_ENTRIES: usize = 64;
/// Bytes of a word.
const WORD: i64 = 8;

/// The `.debug_frame` of a kernel's table: `addresses` has the first address of each entry, ascending, and
/// `end` the first one behind the last.
pub fn debug_frame(addresses: &[u64], entries: &[Entry], end: u64, from_6_4: bool) -> Vec<u8> {
    let mut section = Vec::new();
    let [calls, interrupted] = ["", "zS"].map(|augmentation| {
        let at = section.len() as u32;
        record(&mut section, u32::MAX, |body| common(body, augmentation));
        at
    });
    let frames: Vec<(u64, &Entry)> = addresses.iter().copied().zip(entries).collect();
    let is_called = |entry: &Entry| {
        let is_moved = matches!(entry.sp(), Register::BpIndirect | Register::SpIndirect);
        // A stack that goes on elsewhere is taken for the wrong one, if not for an interrupt's.
        entry.kind(from_6_4) == Kind::Call && !is_moved
    };
    let mut rest = &frames[..];
    while let Some((&(first, head), _)) = rest.split_first() {
        let class = is_called(head);
        let alike = rest.iter().take_while(|(_, entry)| is_called(entry) == class);
        let (group, others) = rest.split_at(alike.take(MAX_ENTRIES).count());
        rest = others;
        let end = others.first().map_or(end, |(next, _)| *next).max(first);
        record(&mut section, if class { calls } else { interrupted }, |body| {
            body.extend(first.to_le_bytes());
            body.extend((end - first).to_le_bytes());
            if !class {
                // No bytes of augmentation.
                body.push(0);
            }
            let mut at = first;
            for (address, entry) in group {
                advance(body, address - at);
                at = *address;
                rules(body, entry, entry.kind(from_6_4));
            }
        });
    }
    section
}

/// Appends a record with the head that all have, to a multiple of a word.
fn record(section: &mut Vec<u8>, common: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = section.len();
    section.extend([0; 4]);
    section.extend(common.to_le_bytes());
    fill(section);
    // DW_CFA_nop is zero.
    section.resize(section.len().next_multiple_of(WORD as usize), 0);
    let length = (section.len() - at - 4) as u32;
    section[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// The parts that records have in common: version 1, steps of a byte and of -8 bytes, the register of the return
/// address; the frame after a call.
fn common(body: &mut Vec<u8>, augmentation: &str) {
    body.push(1);
    body.extend(augmentation.as_bytes());
    body.extend([0, 1, 0x78, RETURN]);
    if !augmentation.is_empty() {
        body.push(0);
    }
    body.extend([DEFINE_FRAME, RSP, 8, OFFSET | RETURN, 1]);
}

fn advance(body: &mut Vec<u8>, bytes: u64) {
    match bytes {
        0 => {}
        1..=0x3f => body.push(ADVANCE | bytes as u8),
        _ => {
            body.push(ADVANCE_4);
            body.extend(u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
}

/// The rules of an entry's instructions: the frame, the return address, RBP, and with an interrupted
/// context all registers that it has.
fn rules(body: &mut Vec<u8>, entry: &Entry, kind: Kind) {
    let [sp, bp] = [entry.sp_offset, entry.bp_offset].map(|offset| i64::from(offset.get()));
    // The address that the register of SP leads to, as an expression.
    let base = match entry.sp() {
        Register::Sp => register(RSP, sp),
        Register::Bp => register(RBP, sp),
        Register::Other(number) => register(number, sp),
        Register::BpIndirect => [register(RBP, sp), vec![DEREFERENCE]].concat(),
        Register::SpIndirect => [register(RSP, 0), vec![DEREFERENCE], plus(sp)].concat(),
        Register::Undefined | Register::PreviousSp => Vec::new(),
    };
    if kind == Kind::End || base.is_empty() {
        body.extend([UNDEFINED, RETURN]);
        return;
    }
    let at = |offset: u64| [&base[..], &plus(offset as i64)].concat();
    match kind {
        Kind::Call => match entry.sp() {
            Register::Sp => frame(body, RSP, sp),
            Register::Bp => frame(body, RBP, sp),
            _ => expression(body, &[FRAME_EXPRESSION], &base),
        },
        Kind::Registers => {
            let sp = [at(REGISTERS_IP + IP_TO_SP), vec![DEREFERENCE]].concat();
            expression(body, &[FRAME_EXPRESSION], &sp);
            expression(body, &[EXPRESSION, RETURN], &at(REGISTERS_IP));
            for (slot, number) in (0..).zip(SAVED).filter(|(_, number)| *number != RBP) {
                expression(body, &[EXPRESSION, number], &at(slot * WORD as u64));
            }
        }
        _ => {
            expression(body, &[FRAME_EXPRESSION], &[at(IP_TO_SP), vec![DEREFERENCE]].concat());
            expression(body, &[EXPRESSION, RETURN], &base);
        }
    }
    if kind == Kind::Call {
        body.extend([OFFSET | RETURN, 1]);
    }
    match entry.bp() {
        // In an interrupted context the offset is from its registers.
        Register::PreviousSp if kind != Kind::Call => {
            expression(body, &[EXPRESSION, RBP], &[base, plus(bp)].concat());
        }
        Register::PreviousSp => {
            body.extend([OFFSET_SIGNED, RBP]);
            signed(body, -bp / WORD);
        }
        Register::Bp => expression(body, &[EXPRESSION, RBP], &register(RBP, bp)),
        _ if kind == Kind::Registers => expression(body, &[EXPRESSION, RBP], &at(REGISTERS_BP)),
        _ => body.extend([SAME, RBP]),
    }
}

/// The frame is so many bytes from a register.
fn frame(body: &mut Vec<u8>, register: u8, offset: i64) {
    match u8::try_from(offset) {
        Ok(offset @ 0..=0x7f) => body.extend([DEFINE_FRAME, register, offset]),
        _ => {
            // In units of -8 bytes; entries count in bytes, mostly in words.
            if offset % WORD == 0 {
                body.extend([DEFINE_FRAME_SIGNED, register]);
                signed(body, -offset / WORD);
            } else {
                expression(body, &[FRAME_EXPRESSION], &self::register(register, offset));
            }
        }
    }
}

fn expression(body: &mut Vec<u8>, head: &[u8], operations: &[u8]) {
    body.extend(head);
    // Expressions are shorter than 128 bytes.
    body.push(operations.len() as u8);
    body.extend(operations);
}

fn register(number: u8, offset: i64) -> Vec<u8> {
    let mut operations = vec![REGISTER_PLUS + number];
    signed(&mut operations, offset);
    operations
}

fn plus(offset: i64) -> Vec<u8> {
    let mut operations = Vec::new();
    if offset != 0 {
        operations.push(CONSTANT_SIGNED);
        signed(&mut operations, offset);
        operations.push(PLUS);
    }
    operations
}

/// A number as DWARF has signed ones (DWARF 5, 7.6).
fn signed(bytes: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = value as u8 & 0x7f;
        value >>= 7;
        let is_last = value == 0 && byte & 0x40 == 0 || value == -1 && byte & 0x40 != 0;
        bytes.push(if is_last { byte } else { byte | 0x80 });
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use gimli::{BaseAddresses, DebugFrame, LittleEndian, UnwindContext, UnwindSection};

    use super::*;

    fn entry(sp: i16, bp: i16, registers: u8, fields: u8) -> Entry {
        Entry { sp_offset: sp.into(), bp_offset: bp.into(), registers, fields }
    }

    /// gimli is the second opinion.
    #[test]
    fn frames_are_read_as_they_were_written() {
        let entries = [
            entry(8, 0, 0x05, 0),
            entry(16, -16, 0x15, 0),
            entry(16, -16, 0x14, 0),
            entry(4096, -16, 0x15, 0),
            entry(0, 0, 0x05, 1),
            entry(0, 0, 0x05, 2),
            entry(0, -16, 0x19, 0),
            entry(0, 0, 0, 3),
        ];
        let addresses: Vec<u64> =
            (0..8).map(|number| 0xffff_ffff_8100_0000 + 100 * number).collect();
        let end = addresses[7] + 100;
        let section = debug_frame(&addresses, &entries, end, false);
        let frames = DebugFrame::new(&section, LittleEndian);
        let mut context = UnwindContext::new();
        let bases = BaseAddresses::default();
        let mut rows = Vec::new();
        for (number, address) in addresses.iter().enumerate() {
            for at in [*address, address + 99] {
                let record =
                    frames.fde_for_address(&bases, at, DebugFrame::cie_from_offset).unwrap();
                assert_eq!(record.is_signal_trampoline(), number >= 4, "{number}");
                let row =
                    record.unwind_info_for_address(&frames, &bases, &mut context, at).unwrap();
                let rule = |register: u8| row.register(gimli::Register(register.into()));
                let row = format!("{:?} {:?} {:?}", row.cfa(), rule(RETURN), rule(RBP));
                match at == *address {
                    true => rows.push(row),
                    false => assert_eq!(rows[number], row),
                }
            }
        }
        assert!(frames.fde_for_address(&bases, end, DebugFrame::cie_from_offset).is_err());
        let places = "RegisterAndOffset { register: Register(7), offset: ";
        assert!(rows[0].starts_with(&format!("{places}8 }}")), "{rows:?}");
        assert!(rows[0].contains("Offset(-8)") && rows[0].contains("SameValue"), "{rows:?}");
        assert!(rows[1].starts_with(&format!("{places}16 }}")), "{rows:?}");
        assert!(
            rows[1].ends_with("Some(Offset(-16))") || rows[1].ends_with(" Offset(-16)"),
            "{rows:?}"
        );
        assert!(rows[2].contains("register: Register(6), offset: 16"), "{rows:?}");
        assert!(rows[3].starts_with(&format!("{places}4096 }}")), "{rows:?}");
        for row in &rows[4..7] {
            assert!(row.starts_with("Expression"), "{rows:?}");
        }
        assert!(rows[7].contains("Undefined"), "{rows:?}");
    }

    #[test]
    fn numbers_are_as_in_the_standards_table() {
        // DWARF 5, table 7.8.
        let written = |value| {
            let mut bytes = Vec::new();
            signed(&mut bytes, value);
            bytes
        };
        assert_eq!(written(2), [2]);
        assert_eq!(written(-2), [0x7e]);
        assert_eq!(written(127), [0xff, 0]);
        assert_eq!(written(-127), [0x81, 0x7f]);
        assert_eq!(written(128), [0x80, 1]);
        assert_eq!(written(-129), [0xff, 0x7e]);
    }
}
