//! A function's frame at an instruction: where its caller's registers are.

use std::fmt;

use stasis_layout::{layout, I32};

/// The registers that a step starts from, and those that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// The instruction, or where the call returns to.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The register of frame pointers, which a program may use for anything.
    pub rbp: u64,
}

/// The registers of a function's caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its registers.
    pub registers: Registers,
    /// True if a signal has interrupted the caller at its instruction; else the call is before that
    /// instruction.
    pub is_interrupted: bool,
}

/// A register that an address is given by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Base {
    Rsp,
    Rbp,
    /// The canonical frame address: the caller's stack pointer.
    Frame,
}

/// An address: a register and bytes from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    pub base: Base,
    pub offset: i32,
}

/// Rule by which the caller's registers are found at an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// The caller's stack pointer; with `indirect` the address at which it is.
    pub(crate) frame: Address,
    pub(crate) indirect: bool,
    /// Place of the address that the function returns to; None in the outermost function.
    pub(crate) returns: Option<Address>,
    /// Place of the caller's RBP; None where the function has not changed it.
    pub(crate) rbp: Option<Address>,
    pub(crate) is_signal: bool,
}

layout! {
    /// An address in a stream.
    pub(crate) struct RawAddress: 5 {
        /// 0 for no address, 1 RSP, 2 RBP, 3 the frame.
        [0] base: u8,
        [1] offset: I32,
    }
}
layout! {
    /// A rule in a stream; flags are 0 or not.
    pub(crate) struct RawRule: 17 {
        [0] frame: RawAddress,
        [5] returns: RawAddress,
        [10] rbp: RawAddress,
        [15] indirect: u8,
        [16] is_signal: u8,
    }
}

impl From<Option<Address>> for RawAddress {
    fn from(address: Option<Address>) -> Self {
        let Some(Address { base, offset }) = address else { return Self::default() };
        let base = match base {
            Base::Rsp => 1,
            Base::Rbp => 2,
            Base::Frame => 3,
        };
        Self { base, offset: offset.into() }
    }
}

impl RawAddress {
    /// The address, or none; the outer None where there is no such base.
    fn address(self) -> Option<Option<Address>> {
        let base = match self.base {
            0 => return Some(None),
            1 => Base::Rsp,
            2 => Base::Rbp,
            3 => Base::Frame,
            _ => return None,
        };
        Some(Some(Address { base, offset: self.offset.into() }))
    }
}

impl From<&Rule> for RawRule {
    fn from(rule: &Rule) -> Self {
        Self {
            frame: Some(rule.frame).into(),
            returns: rule.returns.into(),
            rbp: rule.rbp.into(),
            indirect: rule.indirect.into(),
            is_signal: rule.is_signal.into(),
        }
    }
}

impl RawRule {
    /// The rule, if it is one.
    pub(crate) fn rule(&self) -> Option<Rule> {
        Some(Rule {
            frame: self.frame.address()??,
            indirect: self.indirect != 0,
            returns: self.returns.address()?,
            rbp: self.rbp.address()?,
            is_signal: self.is_signal != 0,
        })
    }
}

impl Rule {
    /// The caller of the function that has `registers`; `read` reads eight bytes of its memory. None
    /// where there is none, or the stack has none.
    pub fn caller(
        &self,
        registers: Registers,
        mut read: impl FnMut(u64) -> Option<u64>,
    ) -> Option<Caller> {
        let returns = self.returns?;
        let at = |address: Address, frame: u64| {
            let base = match address.base {
                Base::Rsp => registers.rsp,
                Base::Rbp => registers.rbp,
                Base::Frame => frame,
            };
            base.wrapping_add_signed(address.offset.into())
        };
        let frame = match (at(self.frame, 0), self.indirect) {
            (frame, false) => frame,
            (place, true) => read(place)?,
        };
        // A signal's handler may have a stack of its own.
        if frame <= registers.rsp && !self.is_signal {
            return None;
        }
        let rbp = match self.rbp {
            Some(place) => read(at(place, frame))?,
            None => registers.rbp,
        };
        let rip = read(at(returns, frame)).filter(|rip| *rip != 0)?;
        let registers = Registers { rip, rsp: frame, rbp };
        Some(Caller { registers, is_interrupted: self.is_signal })
    }
}

/// The largest frame of a function (bytes); a chain of frame pointers that leaps farther is none.
const MAX_FRAME: u64 = 1 << 20;

/// The caller of a function that keeps a frame pointer and tells nothing else of its frame (System V ABI
/// for x86-64, 3.2.2); None where RBP is none.
pub fn by_frame_pointer(
    Registers { rsp, rbp, .. }: Registers,
    mut read: impl FnMut(u64) -> Option<u64>,
) -> Option<Caller> {
    if rbp % 8 != 0 || !(rsp..rsp.saturating_add(MAX_FRAME)).contains(&rbp) {
        return None;
    }
    let rip = read(rbp.wrapping_add(8)).filter(|rip| *rip != 0)?;
    let registers = Registers { rip, rsp: rbp.wrapping_add(16), rbp: read(rbp)? };
    Some(Caller { registers, is_interrupted: false })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = match self.base {
            Base::Rsp => "rsp",
            Base::Rbp => "rbp",
            Base::Frame => "c",
        };
        write!(f, "{base}{:+}", self.offset)
    }
}

/// As `readelf --debug-dump=frames-interp` has it: frame address, RBP and return address.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |address: Option<Address>| address.map_or("u".to_owned(), |at| at.to_string());
        match self.indirect {
            true => write!(f, "[{}]", self.frame)?,
            false => write!(f, "{}", self.frame)?,
        }
        write!(f, " {} {}", text(self.rbp), text(self.returns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Rule = Rule {
        frame: Address { base: Base::Rsp, offset: 24 },
        indirect: false,
        returns: Some(Address { base: Base::Frame, offset: -8 }),
        rbp: Some(Address { base: Base::Frame, offset: -16 }),
        is_signal: false,
    };
    const AT: Registers = Registers { rip: 0x40_1000, rsp: 0x7ffe_0000, rbp: 0x7ffe_0040 };

    /// The stack has the address of each word beside its number of words.
    fn word(at: u64) -> Option<u64> {
        (0x7ffe_0000..0x7ffe_1000).contains(&at).then_some(at + 1)
    }

    #[test]
    fn a_caller_is_found_where_the_rule_says() {
        let caller_by = |rule: Rule| {
            let caller = rule.caller(AT, word)?;
            Some((caller.registers, caller.is_interrupted))
        };
        let registers = |rip, rsp, rbp| Registers { rip, rsp, rbp };
        let call = registers(0x7ffe_0011, 0x7ffe_0018, 0x7ffe_0009);
        assert_eq!(caller_by(CALL), Some((call, false)));
        let kept = Rule { rbp: None, ..CALL };
        assert_eq!(caller_by(kept), Some((Registers { rbp: AT.rbp, ..call }, false)));
        let rbp = |offset| Address { base: Base::Rbp, offset };
        let realigned = Rule { frame: rbp(-8), indirect: true, rbp: Some(rbp(0)), ..CALL };
        let frame = 0x7ffe_0039;
        assert_eq!(caller_by(realigned), Some((registers(frame - 7, frame, 0x7ffe_0041), false)));
        let rsp = |offset| Some(Address { base: Base::Rsp, offset });
        let signal = Rule { returns: rsp(168), rbp: rsp(120), is_signal: true, ..CALL };
        assert_eq!(
            caller_by(signal).map(|(caller, is)| (caller.rip, is)),
            Some((0x7ffe_00a9, true))
        );
    }

    #[test]
    fn a_frame_pointer_leads_to_the_caller() {
        let caller_of = |at: Registers| by_frame_pointer(at, word).map(|caller| caller.registers);
        let caller = Registers { rip: 0x7ffe_0049, rsp: 0x7ffe_0050, rbp: 0x7ffe_0041 };
        assert_eq!(caller_of(AT), Some(caller));
        for rbp in [AT.rsp - 8, AT.rbp + 1, AT.rsp + MAX_FRAME, u64::MAX - 7] {
            assert_eq!(caller_of(Registers { rbp, ..AT }), None, "{rbp:#x}");
        }
        let at = Registers { rsp: u64::MAX - 15, rbp: u64::MAX - 7, ..AT };
        let read = |at: u64| Some(at | 1);
        assert_eq!(by_frame_pointer(at, read).unwrap().registers.rsp, 8);
    }

    #[test]
    fn a_stack_that_has_no_caller_ends() {
        assert_eq!(Rule { returns: None, ..CALL }.caller(AT, word), None);
        assert_eq!(CALL.caller(AT, |_| None), None);
        assert_eq!(CALL.caller(AT, |_| Some(0)), None);
        // A caller is above: stacks do not go in circles.
        let below = Rule { frame: Address { base: Base::Rsp, offset: 0 }, ..CALL };
        assert_eq!(below.caller(AT, |_| Some(1)), None);
    }
}
