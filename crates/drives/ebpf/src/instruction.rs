//! Instructions as they are encoded (section 3).

/// Bytes of a basic instruction.
pub const SIZE: usize = 8;

/// Instruction classes, in bits 2:0 of the opcode (section 3.3, table 2).
pub mod class {
    pub const LD: u8 = 0;
    pub const LDX: u8 = 1;
    pub const ST: u8 = 2;
    pub const STX: u8 = 3;
    pub const ALU: u8 = 4;
    pub const JMP: u8 = 5;
    pub const JMP32: u8 = 6;
    pub const ALU64: u8 = 7;
}

/// Source of the second operand, in bit 3: the register, else the immediate value (table 3).
pub const FROM_REGISTER: u8 = 8;

/// Arithmetic, in bits 7:4 (section 4.1, table 4).
pub mod alu {
    pub const ADD: u8 = 0x00;
    pub const SUB: u8 = 0x10;
    pub const MUL: u8 = 0x20;
    pub const DIV: u8 = 0x30;
    pub const OR: u8 = 0x40;
    pub const AND: u8 = 0x50;
    pub const LSH: u8 = 0x60;
    pub const RSH: u8 = 0x70;
    pub const NEG: u8 = 0x80;
    pub const MOD: u8 = 0x90;
    pub const XOR: u8 = 0xa0;
    pub const MOV: u8 = 0xb0;
    pub const ARSH: u8 = 0xc0;
    pub const END: u8 = 0xd0;
}

/// Jumps, in bits 7:4 (section 4.3, table 6).
pub mod jump {
    pub const JA: u8 = 0x00;
    pub const JEQ: u8 = 0x10;
    pub const JGT: u8 = 0x20;
    pub const JGE: u8 = 0x30;
    pub const JSET: u8 = 0x40;
    pub const JNE: u8 = 0x50;
    pub const JSGT: u8 = 0x60;
    pub const JSGE: u8 = 0x70;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
    pub const JLT: u8 = 0xa0;
    pub const JLE: u8 = 0xb0;
    pub const JSLT: u8 = 0xc0;
    pub const JSLE: u8 = 0xd0;
    /// `src` of a call of a function of the program's own (section 4.3.2).
    pub const LOCAL: u8 = 1;
}

/// Modes of loads and stores, in bits 7:5 (section 5, table 8).
pub mod mode {
    pub const MEM: u8 = 0x60;
    pub const MEMSX: u8 = 0x80;
    pub const ATOMIC: u8 = 0xc0;
}

/// Atomic operations, in the immediate value (section 5.3, tables 10 and 11).
pub mod atomic {
    pub const ADD: i32 = 0x00;
    pub const OR: i32 = 0x40;
    pub const AND: i32 = 0x50;
    pub const XOR: i32 = 0xa0;
    pub const FETCH: i32 = 0x01;
    pub const XCHG: i32 = 0xe0 | FETCH;
    pub const CMPXCHG: i32 = 0xf0 | FETCH;
}

/// The opcode of the 64-bit immediate load, which is two basic instructions long (section 5.4).
pub const LDDW: u8 = 0x18;

/// A basic instruction.
#[derive(Debug, Clone, Copy)]
pub struct Instruction {
    pub opcode: u8,
    pub dst: u8,
    pub src: u8,
    pub offset: i16,
    pub imm: i32,
}

impl Instruction {
    pub fn parse(raw: &[u8; SIZE]) -> Self {
        Self {
            opcode: raw[0],
            dst: raw[1] & 0xf,
            src: raw[1] >> 4,
            offset: i16::from_le_bytes([raw[2], raw[3]]),
            imm: i32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]),
        }
    }

    pub fn class(self) -> u8 {
        self.opcode & 7
    }

    /// The operation of arithmetic and jumps.
    pub fn operation(self) -> u8 {
        self.opcode & 0xf0
    }

    pub fn mode(self) -> u8 {
        self.opcode & 0xe0
    }

    pub fn takes_register(self) -> bool {
        self.opcode & FROM_REGISTER != 0
    }

    /// Bytes that a load or a store accesses (section 5, table 9).
    pub fn width(self) -> usize {
        match self.opcode & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        }
    }

    /// Returns the distance of a jump or a local call, in basic instructions from the next one on.
    pub fn distance(self) -> i64 {
        let is_long = self.opcode == class::JMP32 | jump::JA || self.operation() == jump::CALL;
        if is_long {
            self.imm.into()
        } else {
            self.offset.into()
        }
    }
}
