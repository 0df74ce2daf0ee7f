//! The run of a program.

use crate::instruction::{alu, atomic, class, jump, mode, Instruction, LDDW};
use crate::program::Program;

/// The address of the stack's first byte, in the program's own space. No [`Memory`] has it, nor the
/// [`FRAMES`] times [`FRAME_SIZE`] bytes from it on.
pub const STACK: u64 = 1 << 40;
/// Bytes of a function's frame on the stack.
pub const FRAME_SIZE: usize = 512;
/// Largest depth of calls of functions, the first one included.
pub const FRAMES: usize = 8;

/// The memory that a program reaches beside its stack.
pub trait Memory {
    /// The little-endian number of `width` bytes (1, 2, 4 or 8) at an address; `None` where the
    /// program must not read.
    fn load(&mut self, address: u64, width: usize) -> Option<u64>;

    /// Stores a number of `width` bytes; `None` where the program must not write, and nothing is
    /// written.
    fn store(&mut self, address: u64, width: usize, value: u64) -> Option<()>;
}

/// Why a program did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The program has used up its instructions.
    #[error("it has not ended after all the instructions that it was given")]
    Budget,
    /// An access to memory that it must not make.
    #[error("instruction {at} accesses {address:#x}, which the program must not")]
    Access {
        /// The instruction, from 0 on.
        at: usize,
        /// The address.
        address: u64,
    },
    /// Functions call one another deeper than [`FRAMES`].
    #[error("instruction {at} calls deeper than {FRAMES} functions")]
    Depth {
        /// The instruction, from 0 on.
        at: usize,
    },
}

/// End of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its result (r0), or why it has none.
    pub result: Result<u64, Fault>,
    /// Number of instructions it has carried out; a 64-bit immediate load is one.
    pub instructions: u64,
}

/// The place that a call comes back to.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    next: usize,
    // r6 to r9.
    saved: [u64; 4],
}

struct Machine<'a, M> {
    memory: &'a mut M,
    registers: &'a mut [u64; 11],
    stack: &'a mut [u8; FRAMES * FRAME_SIZE],
}

/// The run of a program between two of its slices.
#[derive(Debug)]
pub struct Execution {
    registers: [u64; 11],
    stack: Box<[u8; FRAMES * FRAME_SIZE]>,
    frames: [Frame; FRAMES],
    depth: usize,
    at: usize,
    instructions: u64,
}

impl Execution {
    /// The beginning of a run: `argument` in r1, and an empty stack.
    pub fn new(argument: u64) -> Self {
        let mut registers = [0; 11];
        registers[1] = argument;
        registers[10] = STACK + FRAME_SIZE as u64;
        let (stack, frames) = (Box::new([0; FRAMES * FRAME_SIZE]), [Frame::default(); FRAMES]);
        Self { registers, stack, frames, depth: 0, at: 0, instructions: 0 }
    }

    /// Returns the number of instructions carried out so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }
}

impl Program {
    /// Runs the program, of at most `budget` instructions: with `argument` in r1, and with an empty
    /// stack.
    pub fn run(&self, memory: &mut impl Memory, argument: u64, budget: u64) -> Ended {
        let mut execution = Execution::new(argument);
        loop {
            if let Some(ended) = self.go_on(&mut execution, memory, budget, budget) {
                return ended;
            }
        }
    }

    /// Goes on with a run by at most `most` instructions; `None` if it has not ended. `budget`: the
    /// instructions of all of the run.
    pub fn go_on(
        &self,
        execution: &mut Execution,
        memory: &mut impl Memory,
        most: u64,
        budget: u64,
    ) -> Option<Ended> {
        let Execution { registers, stack, frames, depth, at: reached, instructions: done } =
            execution;
        let mut machine = Machine { memory, registers, stack };
        let (mut at, mut instructions) = (*reached, *done);
        let until = instructions.saturating_add(most).min(budget);
        let result = loop {
            // A program that was loaded never leaves itself.
            let Some(&one) = self.code.get(at) else { break Err(Fault::Access { at, address: 0 }) };
            if instructions == until {
                if until < budget {
                    (*reached, *done) = (at, instructions);
                    return None;
                }
                break Err(Fault::Budget);
            }
            instructions += 1;
            let mut next = at + 1;
            let goes = match one.class() {
                class::ALU64 | class::ALU => {
                    machine.compute(one);
                    false
                }
                class::JMP | class::JMP32 => match one.operation() {
                    jump::EXIT if *depth == 0 => break Ok(machine.registers[0]),
                    jump::EXIT => {
                        *depth -= 1;
                        let Frame { next: back, saved } = frames[*depth];
                        machine.registers[6..10].copy_from_slice(&saved);
                        machine.registers[10] -= FRAME_SIZE as u64;
                        next = back;
                        false
                    }
                    jump::CALL if *depth + 1 == FRAMES => break Err(Fault::Depth { at }),
                    jump::CALL => {
                        let mut saved = [0; 4];
                        saved.copy_from_slice(&machine.registers[6..10]);
                        frames[*depth] = Frame { next, saved };
                        *depth += 1;
                        machine.registers[10] += FRAME_SIZE as u64;
                        true
                    }
                    _ => machine.decides(one),
                },
                class::LD if one.opcode == LDDW => {
                    let high = self.code.get(next).map_or(0, |half| half.imm as u32);
                    machine.registers[usize::from(one.dst)] =
                        u64::from(one.imm as u32) | u64::from(high) << 32;
                    next += 1;
                    false
                }
                _ => {
                    if let Err(address) = machine.access(one) {
                        break Err(Fault::Access { at, address });
                    }
                    false
                }
            };
            at = if goes { next.wrapping_add_signed(one.distance() as isize) } else { next };
        };
        *done = instructions;
        Some(Ended { result, instructions })
    }
}

impl<M: Memory> Machine<'_, M> {
    /// The second operand of arithmetic and jumps.
    fn operand(&self, one: Instruction) -> u64 {
        match one.takes_register() {
            true => self.registers[usize::from(one.src)],
            false => i64::from(one.imm) as u64,
        }
    }

    fn compute(&mut self, one: Instruction) {
        let before = self.registers[usize::from(one.dst)];
        let operand = self.operand(one);
        let after = match (one.operation(), one.class()) {
            (alu::END, class) => {
                swapped(before, one.imm, class == class::ALU64 || one.takes_register())
            }
            (operation, class::ALU64) => wide(operation, before, operand, one.offset),
            (operation, _) => narrow(operation, before as u32, operand as u32, one.offset).into(),
        };
        self.registers[usize::from(one.dst)] = after;
    }

    /// Returns whether a jump is taken (section 4.3).
    fn decides(&self, one: Instruction) -> bool {
        let (left, right) = (self.registers[usize::from(one.dst)], self.operand(one));
        // Both of 32 bits, or both of 64: signed comparisons see their sign.
        let (left, right, signed) = match one.class() {
            class::JMP32 => {
                let (left, right) = (left as u32, right as u32);
                (left.into(), right.into(), (i64::from(left as i32), i64::from(right as i32)))
            }
            _ => (left, right, (left as i64, right as i64)),
        };
        match one.operation() {
            jump::JA => true,
            jump::JEQ => left == right,
            jump::JGT => left > right,
            jump::JGE => left >= right,
            jump::JSET => left & right != 0,
            jump::JNE => left != right,
            jump::JSGT => signed.0 > signed.1,
            jump::JSGE => signed.0 >= signed.1,
            jump::JLT => left < right,
            jump::JLE => left <= right,
            jump::JSLT => signed.0 < signed.1,
            _ => signed.0 <= signed.1,
        }
    }

    /// Loads and stores (section 5).
    ///
    /// # Errors
    /// The address that must not be accessed so.
    fn access(&mut self, one: Instruction) -> Result<(), u64> {
        let (dst, src, width) = (usize::from(one.dst), usize::from(one.src), one.width());
        let base = self.registers[if one.class() == class::LDX { src } else { dst }];
        let address = base.wrapping_add_signed(one.offset.into());
        match (one.class(), one.mode()) {
            (class::LDX, mode) => {
                let value = self.load(address, width).ok_or(address)?;
                let shift = 64 - 8 * width as u32;
                self.registers[dst] = match mode {
                    mode::MEMSX => ((value << shift) as i64 >> shift) as u64,
                    _ => value,
                };
            }
            (class::ST, _) => {
                self.store(address, width, i64::from(one.imm) as u64).ok_or(address)?;
            }
            (_, mode::ATOMIC) => {
                let mask = if width == 8 { u64::MAX } else { u32::MAX.into() };
                let before = self.load(address, width).ok_or(address)?;
                let operand = self.registers[src] & mask;
                let after = match one.imm {
                    atomic::XCHG => operand,
                    atomic::CMPXCHG if before == self.registers[0] & mask => operand,
                    atomic::CMPXCHG => before,
                    operation => match operation & !atomic::FETCH {
                        atomic::ADD => before.wrapping_add(operand),
                        atomic::OR => before | operand,
                        atomic::AND => before & operand,
                        _ => before ^ operand,
                    },
                };
                self.store(address, width, after).ok_or(address)?;
                match one.imm {
                    atomic::CMPXCHG => self.registers[0] = before,
                    operation if operation & atomic::FETCH != 0 => self.registers[src] = before,
                    _ => {}
                }
            }
            _ => self.store(address, width, self.registers[src]).ok_or(address)?,
        }
        Ok(())
    }

    /// The bytes of the stack at an address, if they are its.
    fn on_stack(&mut self, address: u64, width: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(address.checked_sub(STACK)?).ok()?;
        self.stack.get_mut(start..start.checked_add(width)?)
    }

    fn load(&mut self, address: u64, width: usize) -> Option<u64> {
        let Some(bytes) = self.on_stack(address, width) else {
            return self.memory.load(address, width);
        };
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(bytes);
        Some(u64::from_le_bytes(raw))
    }

    fn store(&mut self, address: u64, width: usize, value: u64) -> Option<()> {
        let Some(bytes) = self.on_stack(address, width) else {
            return self.memory.store(address, width, value);
        };
        bytes.copy_from_slice(&value.to_le_bytes()[..width]);
        Some(())
    }
}

/// Arithmetic on numbers of one width (section 4.1). Division by zero gives 0, and its remainder is
/// the dividend.
macro_rules! arithmetic {
    ($(#[$about:meta])* $name:ident, $unsigned:ty, $signed:ty) => {
        $(#[$about])*
        fn $name(operation: u8, left: $unsigned, right: $unsigned, offset: i16) -> $unsigned {
            let signed = offset == 1;
            let shift = right & <$unsigned>::from(<$unsigned>::BITS as u8 - 1);
            match operation {
                alu::ADD => left.wrapping_add(right),
                alu::SUB => left.wrapping_sub(right),
                alu::MUL => left.wrapping_mul(right),
                alu::DIV if right == 0 => 0,
                alu::DIV if signed => {
                    (left as $signed).wrapping_div(right as $signed) as $unsigned
                }
                alu::DIV => left / right,
                alu::OR => left | right,
                alu::AND => left & right,
                alu::LSH => left << shift,
                alu::RSH => left >> shift,
                alu::NEG => left.wrapping_neg(),
                alu::MOD if right == 0 => left,
                alu::MOD if signed => {
                    (left as $signed).wrapping_rem(right as $signed) as $unsigned
                }
                alu::MOD => left % right,
                alu::XOR => left ^ right,
                alu::ARSH => ((left as $signed) >> shift) as $unsigned,
                // MOV, and with the extension of a sign.
                _ => match offset {
                    8 => <$signed>::from(right as i8) as $unsigned,
                    16 => <$signed>::from(right as i16) as $unsigned,
                    32 => <$signed>::from(right as i32) as $unsigned,
                    _ => right,
                },
            }
        }
    };
}

arithmetic!(
    /// On 64 bits.
    wide, u64, i64
);
arithmetic!(
    /// On 32 bits: the upper half of the register becomes 0.
    narrow, u32, i32
);

/// The lowest `bits` bits, with their bytes in the other order if they are to be `swapped`: programs
/// are little-endian (section 4.2).
fn swapped(value: u64, bits: i32, swapped: bool) -> u64 {
    match (bits, swapped) {
        (16, true) => (value as u16).swap_bytes().into(),
        (16, false) => (value as u16).into(),
        (32, true) => (value as u32).swap_bytes().into(),
        (32, false) => (value as u32).into(),
        (_, true) => value.swap_bytes(),
        (_, false) => value,
    }
}
