//! Programs, and their check before they run.

use crate::instruction::{alu, atomic, class, jump, mode, Instruction, LDDW, SIZE};

/// Maximum number of basic instructions of a program.
pub const MAX_INSTRUCTIONS: usize = 1 << 16;

/// A register that programs cannot write: the frame pointer (section 2.2).
const FRAME_POINTER: u8 = 10;

/// A program that is well formed.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) code: Box<[Instruction]>,
}

/// A program that is not well formed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Not a number of whole instructions, none, or too many.
    #[error("{0} bytes are no program: it has 1 to {MAX_INSTRUCTIONS} instructions of 8 bytes")]
    Size(usize),
    /// An instruction that cannot be.
    #[error("instruction {at}: {reason}")]
    Instruction {
        /// Its number, from 0 on.
        at: usize,
        /// The reason.
        reason: &'static str,
    },
}

/// A program whose instructions are being checked, some at a time.
#[derive(Debug)]
pub struct Loader {
    bytes: Vec<u8>,
    code: Vec<Instruction>,
    // The second halves of 64-bit immediate loads.
    second: Vec<bool>,
    checked: usize,
}

impl Loader {
    /// A program of these bytes: basic instructions of 8 bytes, little-endian.
    ///
    /// # Errors
    /// Not a number of whole instructions, none, or too many.
    pub fn new(bytes: Vec<u8>) -> Result<Self, LoadError> {
        let count = bytes.len() / SIZE;
        if !bytes.len().is_multiple_of(SIZE) || !(1..=MAX_INSTRUCTIONS).contains(&count) {
            return Err(LoadError::Size(bytes.len()));
        }
        Ok(Self { bytes, code: Vec::new(), second: Vec::new(), checked: 0 })
    }

    /// Goes on by at most `most` instructions, which are read first, and then checked; `None` if
    /// there are more.
    ///
    /// # Errors
    /// The first instruction that cannot be.
    pub fn go_on(&mut self, most: usize) -> Result<Option<Program>, LoadError> {
        let count = self.bytes.len() / SIZE;
        let mut rest = most;
        if self.code.len() < count {
            let there = self.code.len()..count.min(self.code.len().saturating_add(rest));
            rest -= there.len();
            let raw = &self.bytes[SIZE * there.start..SIZE * there.end];
            let parse = |raw: &[u8]| raw.try_into().ok().map(Instruction::parse);
            for one in raw.chunks_exact(SIZE).filter_map(parse) {
                // Behind the first half of a load there is its second one.
                let last = self.code.last().zip(self.second.last());
                let second = last.is_some_and(|(last, second)| last.opcode == LDDW && !second);
                self.second.push(second);
                self.code.push(one);
            }
        }
        while rest > 0 && self.checked < count {
            self.check(self.checked)?;
            self.checked += 1;
            rest -= 1;
        }
        let all = self.checked == count;
        Ok(all.then(|| Program { code: std::mem::take(&mut self.code).into() }))
    }

    /// Checks an instruction where it stands.
    fn check(&self, at: usize) -> Result<(), LoadError> {
        let (code, second, count) = (&self.code, &self.second, self.code.len());
        let wrong = |reason| Err(LoadError::Instruction { at, reason });
        let one = code[at];
        if second[at] {
            return Ok(());
        }
        if one.opcode == LDDW {
            let is_half = code.get(at + 1).is_some_and(|half| {
                half.opcode == 0 && half.dst == 0 && half.src == 0 && half.offset == 0
            });
            if !is_half {
                return wrong("its second half is not there");
            }
        }
        if let Err(reason) = check(one) {
            return wrong(reason);
        }
        let jumps =
            matches!(one.class(), class::JMP | class::JMP32) && one.operation() != jump::EXIT;
        let target = at as i64 + 1 + one.distance();
        let lands = |to: &usize| *to < count && !second[*to];
        if jumps && !usize::try_from(target).as_ref().is_ok_and(lands) {
            return wrong("it leads outside the program, or into the middle of an instruction");
        }
        let is_last = at + 1 == count || at + 2 == count && second[at + 1];
        let ends = matches!(one.class(), class::JMP | class::JMP32)
            && matches!(one.operation(), jump::EXIT | jump::JA);
        if is_last && !ends {
            return wrong("the program goes on behind its last instruction");
        }
        Ok(())
    }
}

impl Program {
    /// A program of these bytes: basic instructions of 8 bytes, little-endian.
    ///
    /// # Errors
    /// The first instruction that cannot be.
    pub fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        let mut loader = Loader::new(bytes.to_vec())?;
        loop {
            // All are read at first, and then checked.
            if let Some(program) = loader.go_on(MAX_INSTRUCTIONS)? {
                return Ok(program);
            }
        }
    }

    /// Returns the number of basic instructions it has.
    pub fn instructions(&self) -> usize {
        self.code.len()
    }
}

/// Returns whether there is such an instruction; else the reason.
fn check(one: Instruction) -> Result<(), &'static str> {
    const UNKNOWN: &str = "there is no such operation";
    if one.dst > FRAME_POINTER || one.src > FRAME_POINTER {
        return Err("there is no such register");
    }
    let writable = |register| match register {
        FRAME_POINTER => Err("r10 cannot be written"),
        _ => Ok(()),
    };
    match one.class() {
        class::LD if one.opcode == LDDW => match one.src {
            0 => writable(one.dst),
            _ => Err("there are no maps and no other objects to take an address of"),
        },
        class::LDX => match one.mode() {
            mode::MEM => writable(one.dst),
            mode::MEMSX if one.width() < 8 => writable(one.dst),
            _ => Err(UNKNOWN),
        },
        class::ST if one.mode() == mode::MEM => Ok(()),
        class::STX => match one.mode() {
            mode::MEM => Ok(()),
            mode::ATOMIC if one.width() >= 4 => match one.imm & !atomic::FETCH {
                atomic::ADD | atomic::OR | atomic::AND | atomic::XOR => match one.imm & 1 {
                    0 => Ok(()),
                    _ => writable(one.src),
                },
                _ if one.imm == atomic::XCHG => writable(one.src),
                _ if one.imm == atomic::CMPXCHG => Ok(()),
                _ => Err(UNKNOWN),
            },
            _ => Err(UNKNOWN),
        },
        class::ALU | class::ALU64 => {
            check_arithmetic(one).then_some(()).ok_or(UNKNOWN)?;
            writable(one.dst)
        }
        class::JMP | class::JMP32 => {
            let is_wide = one.class() == class::JMP;
            match one.operation() {
                jump::CALL if one.opcode == class::JMP | jump::CALL => match one.src {
                    jump::LOCAL => Ok(()),
                    _ => Err("there are no helper functions"),
                },
                jump::EXIT if one.opcode == class::JMP | jump::EXIT => Ok(()),
                jump::JA if !one.takes_register() => Ok(()),
                jump::CALL | jump::EXIT | jump::JA => Err(UNKNOWN),
                0x10..=jump::JSLE if is_wide || one.class() == class::JMP32 => Ok(()),
                _ => Err(UNKNOWN),
            }
        }
        _ => Err(UNKNOWN),
    }
}

/// Returns whether there is such arithmetic (sections 4.1 and 4.2).
fn check_arithmetic(one: Instruction) -> bool {
    let is_wide = one.class() == class::ALU64;
    let plain = one.offset == 0;
    match one.operation() {
        alu::DIV | alu::MOD => matches!(one.offset, 0 | 1),
        alu::MOV if one.takes_register() => match one.offset {
            0 | 8 | 16 => true,
            32 => is_wide,
            _ => false,
        },
        alu::NEG => plain && !one.takes_register(),
        // The wide class has the unconditional swap alone.
        alu::END => plain && matches!(one.imm, 16 | 32 | 64) && !(is_wide && one.takes_register()),
        operation => plain && operation <= alu::END,
    }
}
