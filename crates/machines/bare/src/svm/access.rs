//! Effects of instructions that access a device's memory.

use super::enter::Context;
use super::nested::Nested;
use super::registers::{self, RCX_NUMBER, RDI_NUMBER, RSI_NUMBER};
use super::vmcb::{Segment, Vmcb, RFLAGS, RIP};
use super::walk;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// Longest instruction (AMD64 APM vol. 3, 1.1).
const MAX_INSTRUCTION: usize = 15;
const DIRECTION: u64 = 1 << 10;

/// An access to a device's memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Access {
    /// These bytes are written.
    Write([u8; 8], usize),
    /// So many bytes are read, and go there.
    Read(usize, Target),
}

/// Destination of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Into `size` bytes of a register, from its bit `shift` on; with the sign
    /// of what was read, or zeros, before it.
    Register { number: usize, size: usize, shift: u32, signed: bool },
    /// To the guest's memory at this linear address.
    Memory(u64),
}

/// The bytes at the guest's RIP, as far as they can be read.
pub(super) struct Fetched {
    bits: u32,
    rip: u64,
    bytes: [u8; 16],
    length: usize,
}

/// Reads the instruction at the guest's RIP.
pub(super) fn fetch(vmcb: &Vmcb, nested: &Nested) -> Fetched {
    const LONG: u16 = 1 << 9;
    const DEFAULT_32: u16 = 1 << 10;
    let code = vmcb.segment(Segment::Cs);
    let (bits, base) = match code.attributes & (LONG | DEFAULT_32) {
        DEFAULT_32 => (32, code.base),
        0 => (16, code.base),
        _ => (64, 0),
    };
    let rip = vmcb.get(RIP);
    let linear = base.wrapping_add(rip);
    let (bytes, length) = match walk::read_within_page(vmcb, nested, linear) {
        Some(bytes) => (bytes, MAX_INSTRUCTION),
        None => {
            let mut bytes = [0; 16];
            let length = walk::read(vmcb, nested, linear, &mut bytes[..MAX_INSTRUCTION]);
            (bytes, length)
        }
    };
    Fetched { bits, rip, bytes, length }
}

impl Fetched {
    /// The instruction, if it is one.
    pub(super) fn decode(&self) -> Option<Instruction> {
        let bytes = &self.bytes[..self.length];
        let instruction =
            Decoder::with_ip(self.bits, bytes, self.rip, DecoderOptions::NONE).decode();
        (instruction.code() != Code::INVALID).then_some(instruction)
    }

    /// The number of the register that it moves and how many bytes of it, and the
    /// address of the next instruction, where it is a move between a register and memory by
    /// `opcode` in 64-bit code without a prefix but REX (AMD64 APM vol. 3, 1.2 to 1.4): how
    /// drivers ring doorbells and read registers. A decoder of all instructions takes twice
    /// the instructions and touches many pages of code for it.
    fn plain(&self, opcode: u8) -> Option<(usize, usize, u64)> {
        let bytes = &self.bytes[..self.length];
        let (rex, rest) = match *bytes {
            [rex @ 0x40..=0x4f, ref rest @ ..] => (rex, rest),
            _ => (0, bytes),
        };
        let [found, modrm, ref rest @ ..] = *rest else { return None };
        if found != opcode {
            return None;
        }
        let (mode, register, base) = (modrm >> 6, modrm >> 3 & 7, modrm & 7);
        let index = usize::from(base == 4);
        let base = if index == 1 { *rest.first()? & 7 } else { base };
        let displacement = match mode {
            0 if base == 5 => 4,
            0 => 0,
            1 => 1,
            2 => 4,
            _ => return None,
        };
        let after = rest.get(index + displacement..)?;
        let length = (self.length - after.len()) as u64;
        let size = if rex & 8 == 0 { 4 } else { 8 };
        let number = usize::from(register | (rex & 4) << 1);
        (self.bits == 64).then(|| (number, size, self.rip.wrapping_add(length)))
    }

    /// Returns the instruction's access to the device, and steps over the instruction, if it is
    /// `mov [memory], register` where it `writes`, or `mov register, [memory]`.
    /// `mov [memory], register` where it `writes`, or `mov register, [memory]`.
    pub(super) fn plain_move(
        &self,
        writes: bool,
        context: &Context,
        vmcb: &mut Vmcb,
    ) -> Option<Access> {
        let (number, size, next) = self.plain(if writes { 0x89 } else { 0x8b })?;
        vmcb.set(RIP, next);
        Some(if writes {
            Access::Write(registers::get(context, vmcb, number).to_le_bytes(), size)
        } else {
            Access::Read(size, Target::Register { number, size, shift: 0, signed: false })
        })
    }
}

/// Returns the access of `instruction` to the device, and steps over the instruction, or over one
/// repetition of it. `None`: drivers do not use such an instruction.
pub(super) fn access(
    instruction: &Instruction,
    writes: bool,
    context: &mut Context,
    vmcb: &mut Vmcb,
    nested: &Nested,
) -> Option<Access> {
    let size = instruction.memory_size().size();
    if !matches!(size, 1 | 2 | 4 | 8) {
        return None;
    }
    let result = match instruction.mnemonic() {
        Mnemonic::Mov if instruction.op0_kind() == OpKind::Memory => {
            let value = match instruction.op1_kind() {
                OpKind::Register => register(context, vmcb, instruction.op1_register())?,
                _ => instruction.try_immediate(1).ok()?,
            };
            Access::Write(value.to_le_bytes(), size)
        }
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd
            if instruction.op1_kind() == OpKind::Memory =>
        {
            let (number, into, shift) = place(instruction.op0_register())?;
            let signed = matches!(instruction.mnemonic(), Mnemonic::Movsx | Mnemonic::Movsxd);
            Access::Read(size, Target::Register { number, size: into, shift, signed })
        }
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => {
            let value = registers::get(context, vmcb, 0);
            if step(instruction, size, &[RDI_NUMBER], context, vmcb) {
                return Some(Access::Write(value.to_le_bytes(), size));
            }
            Access::Write(value.to_le_bytes(), size)
        }
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => {
            let source = registers::get(context, vmcb, RSI_NUMBER)
                .wrapping_add(segment_base(instruction, vmcb));
            let destination = registers::get(context, vmcb, RDI_NUMBER);
            let access = if writes {
                let mut bytes = [0; 8];
                if walk::read(vmcb, nested, source, &mut bytes[..size]) != size {
                    return None;
                }
                Access::Write(bytes, size)
            } else {
                Access::Read(size, Target::Memory(destination))
            };
            if step(instruction, size, &[RSI_NUMBER, RDI_NUMBER], context, vmcb) {
                return Some(access);
            }
            access
        }
        _ => return None,
    };
    vmcb.set(RIP, instruction.next_ip());
    Some(result)
}

/// Advances the registers of a string instruction. Returns whether turns remain.
fn step(
    instruction: &Instruction,
    size: usize,
    pointers: &[usize],
    context: &mut Context,
    vmcb: &mut Vmcb,
) -> bool {
    let back = vmcb.get(RFLAGS) & DIRECTION != 0;
    let distance = if back { (size as u64).wrapping_neg() } else { size as u64 };
    for &number in pointers {
        let value = registers::get(context, vmcb, number).wrapping_add(distance);
        registers::set(context, vmcb, number, value);
    }
    if !(instruction.has_rep_prefix() || instruction.has_repne_prefix()) {
        return false;
    }
    let turns = registers::get(context, vmcb, RCX_NUMBER).wrapping_sub(1);
    registers::set(context, vmcb, RCX_NUMBER, turns);
    turns != 0
}

fn segment_base(instruction: &Instruction, vmcb: &Vmcb) -> u64 {
    match instruction.segment_prefix() {
        Register::FS => vmcb.segment(Segment::Fs).base,
        Register::GS => vmcb.segment(Segment::Gs).base,
        _ => 0,
    }
}

/// A general register's number, its size, and where in it the value is.
fn place(register: Register) -> Option<(usize, usize, u32)> {
    if !register.is_gpr() {
        return None;
    }
    let high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
    let shift = if high { 8 } else { 0 };
    Some((register.full_register().number(), register.size(), shift))
}

fn register(context: &Context, vmcb: &Vmcb, register: Register) -> Option<u64> {
    let (number, _, shift) = place(register)?;
    Some(registers::get(context, vmcb, number) >> shift)
}

/// Puts the first `length` bytes, 8 at most, into `target`. Returns whether that was possible.
pub(super) fn finish(
    target: Target,
    bytes: [u8; 8],
    length: usize,
    context: &mut Context,
    vmcb: &mut Vmcb,
    nested: &Nested,
) -> bool {
    match target {
        Target::Register { number, size, shift, signed } => {
            let unused = 64 - 8 * length.clamp(1, 8) as u32;
            let value = u64::from_le_bytes(bytes) << unused;
            let value = if signed { (value as i64 >> unused) as u64 } else { value >> unused };
            if shift == 0 {
                registers::set_sized(context, vmcb, number, size, value);
            } else {
                let old = registers::get(context, vmcb, number);
                let value = old & !0xff00 | (value & 0xff) << 8;
                registers::set(context, vmcb, number, value);
            }
            true
        }
        Target::Memory(linear) => walk::write(vmcb, nested, linear, &bytes[..length]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svm::vmcb::SegmentValue;
    use proptest::prelude::*;

    #[repr(C, align(4096))]
    struct Memory([u8; 8192]);

    struct Guest {
        memory: Box<Memory>,
        nested: Nested,
        context: Box<Context>,
        vmcb: Box<Vmcb>,
    }

    fn guest(code: &[u8]) -> Guest {
        let mut memory = Box::new(Memory([0; 8192]));
        memory.0[4096 - 3..][..code.len()].copy_from_slice(code);
        let mut nested = Nested::new();
        nested.map(0, memory.0.as_ptr() as u64, 8192).unwrap();
        let mut vmcb = Vmcb::new();
        let long = SegmentValue { selector: 8, attributes: 0xa9b, limit: u32::MAX, base: 0 };
        vmcb.set_segment(Segment::Cs, long);
        vmcb.set(RIP, 4096 - 3);
        Guest { memory, nested, context: Context::new(0), vmcb }
    }

    impl Guest {
        fn access(&mut self, writes: bool) -> Option<Access> {
            let instruction = fetch(&self.vmcb, &self.nested).decode()?;
            access(&instruction, writes, &mut self.context, &mut self.vmcb, &self.nested)
        }

        fn register(&self, number: usize) -> u64 {
            registers::get(&self.context, &self.vmcb, number)
        }

        fn set(&mut self, number: usize, value: u64) {
            registers::set(&mut self.context, &mut self.vmcb, number, value);
        }

        fn read(&mut self, bytes: &[u8]) {
            let Some(Access::Read(size, target)) = self.access(false) else { panic!() };
            assert_eq!(size, bytes.len());
            let Self { context, vmcb, nested, .. } = self;
            let mut all = [0xa5; 8];
            all[..size].copy_from_slice(bytes);
            assert!(finish(target, all, size, context, vmcb, nested));
        }
    }

    #[test]
    fn stores_say_what_is_written() {
        // mov [rax], ecx; mov word [rax], 0x1234; mov [rax], ch; mov qword [rax], -2
        for (code, expected, size) in [
            (&[0x89, 0x08][..], 0x5566_7788, 4),
            (&[0x66, 0xc7, 0x00, 0x34, 0x12], 0x1234, 2),
            (&[0x88, 0x28], 0x77, 1),
            (&[0x48, 0xc7, 0x00, 0xfe, 0xff, 0xff, 0xff], u64::MAX - 1, 8),
        ] {
            let mut guest = guest(code);
            guest.set(1, 0x1122_3344_5566_7788);
            let Some(Access::Write(bytes, length)) = guest.access(true) else {
                panic!("{code:x?}")
            };
            let mask = if size == 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
            assert_eq!((u64::from_le_bytes(bytes) & mask, length), (expected, size));
            assert_eq!(guest.vmcb.get(RIP), 4093 + code.len() as u64);
        }
    }

    #[test]
    fn loads_fill_their_register() {
        // mov r9d, [rax]; movsx rdx, byte [rax]; mov dh, [rax]; mov dx, [rax]
        for (code, bytes, number, expected) in [
            (&[0x44, 0x8b, 0x08][..], &[1, 2, 3, 0x84][..], 9, 0x8403_0201),
            (&[0x48, 0x0f, 0xbe, 0x10], &[0x80], 2, u64::MAX - 0x7f),
            (&[0x8a, 0x30], &[0x80], 2, 0xffff_ffff_ffff_80ff),
            (&[0x66, 0x8b, 0x10], &[1, 2], 2, 0xffff_ffff_ffff_0201),
        ] {
            let mut guest = guest(code);
            guest.set(number, u64::MAX);
            guest.read(bytes);
            assert_eq!(guest.register(number), expected, "{code:x?}");
        }
    }

    #[test]
    fn repeated_moves_go_turn_by_turn() {
        let mut guest = guest(&[0xf3, 0xa5]); // rep movsd
        guest.memory.0[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        guest.set(RCX_NUMBER, 2);
        guest.set(RSI_NUMBER, 0);
        guest.set(RDI_NUMBER, 0xc000_0000);
        let Some(Access::Write([1, 2, 3, 4, ..], 4)) = guest.access(true) else { panic!() };
        assert_eq!((guest.register(RCX_NUMBER), guest.vmcb.get(RIP)), (1, 4093));
        let Some(Access::Write([5, 6, 7, 8, ..], 4)) = guest.access(true) else { panic!() };
        assert_eq!((guest.register(RCX_NUMBER), guest.vmcb.get(RIP)), (0, 4095));
        assert_eq!(guest.register(RDI_NUMBER), 0xc000_0008);
        // The other way: from the device to memory.
        guest.vmcb.set(RIP, 4093);
        guest.set(RCX_NUMBER, 1);
        guest.set(RDI_NUMBER, 16);
        guest.read(&[9, 9, 9, 9]);
        assert_eq!(guest.memory.0[16..20], [9, 9, 9, 9]);
    }

    proptest! {
        #[test]
        fn a_plain_move_is_what_the_decoder_says(
            writes: bool,
            rex in prop::option::of(0x40u8..0x50),
            code in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let opcode = if writes { 0x89 } else { 0x8b };
            let code: Vec<u8> = rex.into_iter().chain([opcode]).chain(code).collect();
            let (mut plain, mut decoded) = (guest(&code), guest(&code));
            for guest in [&mut plain, &mut decoded] {
                (0..16).for_each(|number| guest.set(number, 0x0101_0101_0101 * number as u64));
            }
            let fetched = fetch(&plain.vmcb, &plain.nested);
            let Guest { context, vmcb, .. } = &mut plain;
            match (fetched.plain_move(writes, context, vmcb), decoded.access(writes)) {
                (None, None) => {}
                (Some(Access::Write(one, size)), Some(Access::Write(other, length))) => {
                    prop_assert_eq!((one, size), (other, length));
                    prop_assert_eq!(plain.vmcb.get(RIP), decoded.vmcb.get(RIP));
                }
                (Some(Access::Read(one, into)), Some(Access::Read(other, place))) => {
                    prop_assert_eq!((one, into), (other, place));
                    prop_assert_eq!(plain.vmcb.get(RIP), decoded.vmcb.get(RIP));
                }
                (one, other) => prop_assert!(false, "{:?}, {:?} of {:x?}", one, other, code),
            }
        }

        #[test]
        fn no_instruction_panics(code in prop::collection::vec(any::<u8>(), 0..15), writes: bool) {
            guest(&code).access(writes);
        }
    }
}
