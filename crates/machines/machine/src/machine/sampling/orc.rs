//! The calls that led to an instruction of the kernel, by the kernel's own tables (ORC).
//!
//! Source: Linux, Documentation/arch/x86/orc-unwinder.rst; the entries' format and the meaning of
//! their fields: arch/x86/include/asm/orc_types.h of 6.1 and 6.12.

use stasis_layout::{IntoBytes, I32};
use stasis_run_events::Orc;
use stasis_unwind::orc::{
    debug_frame, Entry, Kind, Register, IP_TO_SP, REGISTERS_BP, REGISTERS_IP,
};

/// Limit on the frames of a stack.
pub(super) const MAX_FRAMES: usize = 64;
/// Limit on the entries of a kernel's table; Debian's 6.1 has 370,000.
const MAX_ENTRIES: u64 = 4 << 20;
/// From there on addresses are the kernel's.
pub(super) const KERNEL: u64 = 1 << 63;
/// From there on addresses are those of modules (Linux, Documentation/arch/x86/x86_64/mm.rst).
pub(super) const MODULES: u64 = 0xffff_ffff_c000_0000;

/// The registers that a stack is unwound from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Context {
    pub rip: u64,
    pub rsp: u64,
    pub rbp: u64,
}

/// A kernel's tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// First addresses of the entries, ascending.
    addresses: Vec<u64>,
    entries: Vec<Entry>,
    from_6_4: bool,
}

impl Tables {
    /// Reads the tables by `read`, which fills a buffer from an address on; None where they are not
    /// there, or are none.
    pub(super) fn read(orc: &Orc, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Option<Self> {
        let count = orc.addresses_end.checked_sub(orc.addresses)? / 4;
        if count == 0 || count > MAX_ENTRIES {
            return None;
        }
        let mut offsets = vec![I32::ZERO; count as usize];
        let mut entries = vec![Entry::default(); count as usize];
        let is_there = read(orc.addresses, offsets.as_mut_bytes())
            && read(orc.entries, entries.as_mut_bytes());
        // Each is relative to its own place.
        let address = |(number, offset): (usize, I32)| {
            (orc.addresses + 4 * number as u64).wrapping_add_signed(offset.get().into())
        };
        let addresses: Vec<u64> = offsets.into_iter().enumerate().map(address).collect();
        let is_one = is_there && addresses.is_sorted();
        is_one.then_some(Self { addresses, entries, from_6_4: orc.from_6_4 })
    }

    /// The tables as a `.debug_frame`, for code that ends at `end`.
    pub(super) fn frames(&self, end: u64) -> Vec<u8> {
        debug_frame(&self.addresses, &self.entries, end, self.from_6_4)
    }

    /// The entry of an instruction.
    pub(super) fn find(&self, address: u64) -> Option<&Entry> {
        let after = self.addresses.partition_point(|first| *first <= address);
        self.entries.get(after.checked_sub(1)?)
    }

    /// The frame that has called the one of `context`; `exact`: the instruction is where the
    /// processor stands, and not where it returns to. With it whether that one is exact.
    fn caller<'m>(
        &self,
        context: Context,
        exact: bool,
        tables_of: &impl Fn(u64) -> Option<&'m Self>,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Option<(Context, bool)> {
        let at = if exact { context.rip } else { context.rip - 1 };
        let entry = match at >= MODULES {
            true => tables_of(at)?.find(at)?,
            false => self.find(at)?,
        };
        let [sp_offset, bp_offset] =
            [entry.sp_offset, entry.bp_offset].map(|offset| offset.get().into());
        let sp = match entry.sp() {
            Register::Sp => context.rsp.wrapping_add_signed(sp_offset),
            Register::Bp => context.rbp.wrapping_add_signed(sp_offset),
            Register::SpIndirect => read(context.rsp)?.wrapping_add_signed(sp_offset),
            Register::BpIndirect => read(context.rbp.wrapping_add_signed(sp_offset))?,
            _ => return None,
        };
        let (rip, rsp, saved, exact) = match entry.kind(self.from_6_4) {
            Kind::Call => (read(sp.wrapping_sub(8))?, sp, context.rbp, false),
            Kind::Registers => {
                let at = sp.wrapping_add(REGISTERS_IP);
                let saved = read(sp.wrapping_add(REGISTERS_BP))?;
                (read(at)?, read(at.wrapping_add(IP_TO_SP))?, saved, true)
            }
            Kind::Interrupt => (read(sp)?, read(sp.wrapping_add(IP_TO_SP))?, context.rbp, true),
            Kind::End => return None,
        };
        let rbp = match entry.bp() {
            Register::Undefined => saved,
            Register::PreviousSp => read(sp.wrapping_add_signed(bp_offset))?,
            Register::Bp => read(context.rbp.wrapping_add_signed(bp_offset))?,
            _ => return None,
        };
        Some((Context { rip, rsp, rbp }, exact))
    }

    /// The instruction of `context` and the calls that led to it, the innermost first, and the context
    /// of the program's instruction, which is none of the frames. `tables_of`: the tables of the module
    /// that has an address; `read` reads eight bytes.
    pub(super) fn unwind_through<'m>(
        &self,
        tables_of: impl Fn(u64) -> Option<&'m Self>,
        mut context: Context,
        mut read: impl FnMut(u64) -> Option<u64>,
    ) -> (Vec<u64>, Option<Context>) {
        let mut frames = Vec::new();
        let mut exact = true;
        while frames.len() < MAX_FRAMES && context.rip != 0 {
            if context.rip & KERNEL == 0 {
                return (frames, Some(context));
            }
            // An instruction that has been called is before where its call returns to.
            frames.push(if exact { context.rip } else { context.rip - 1 });
            match self.caller(context, exact, &tables_of, &mut read) {
                Some(caller) => (context, exact) = caller,
                None => break,
            }
        }
        (frames, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The frames, without modules and with the program's instruction.
    fn unwind(tables: &Tables, context: Context, read: impl FnMut(u64) -> Option<u64>) -> Vec<u64> {
        let (mut frames, program) = tables.unwind_through(|_| None, context, read);
        frames.extend(program.map(|context| context.rip));
        frames
    }

    const BASE: u64 = 0xffff_ffff_8200_0000;
    const CODE: u64 = 0xffff_ffff_8100_0000;

    /// Tables of functions of 256 bytes each, with these entries: offset of SP, of BP, registers,
    /// type.
    fn tables(from_6_4: bool, all: &[(i16, i16, u8, u8)]) -> Tables {
        let (mut offsets, mut entries) = (Vec::new(), Vec::new());
        for (number, &(sp, bp, registers, kind)) in all.iter().enumerate() {
            let offset = (CODE + 256 * number as u64).wrapping_sub(BASE + 4 * number as u64);
            offsets.extend_from_slice(&(offset as i32).to_le_bytes());
            entries.extend_from_slice(&sp.to_le_bytes());
            entries.extend_from_slice(&bp.to_le_bytes());
            entries.extend_from_slice(&[registers, kind]);
        }
        let end = BASE + offsets.len() as u64;
        let orc = Orc { addresses: BASE, addresses_end: end, entries: end, from_6_4 };
        let all: Vec<u8> = offsets.into_iter().chain(entries).collect();
        let read = |at: u64, into: &mut [u8]| {
            let from = (at - BASE) as usize;
            into.copy_from_slice(&all[from..from + into.len()]);
            true
        };
        Tables::read(&orc, read).unwrap()
    }

    #[test]
    fn calls_and_interrupts_are_unwound_to_the_program() {
        // The innermost has pushed two words, its caller saved RBP and uses it as its frame's, and
        // that was called by the interrupt's entry, which has all registers on the stack.
        for (from_6_4, [call, registers]) in [(false, [0, 1]), (true, [2, 3])] {
            let tables = tables(
                from_6_4,
                &[(24, 0, 0x05, call), (16, -16, 0x14, call), (0, 0, 0x05, registers)],
            );
            let stack = 0xffff_c900_0000_1000u64;
            let mut memory = HashMap::new();
            memory.insert(stack + 16, CODE + 256 + 0x10);
            let frame = stack + 64;
            memory.insert(frame, 0x7777);
            memory.insert(frame + 8, CODE + 512);
            let regs = frame + 16;
            memory.insert(regs + REGISTERS_BP, 0x1234);
            memory.insert(regs + REGISTERS_IP, 0x40_1000);
            memory.insert(regs + REGISTERS_IP + IP_TO_SP, 0x7ffe_0000);
            let context = Context { rip: CODE + 0x20, rsp: stack, rbp: frame };
            let frames = unwind(&tables, context, |at| memory.get(&at).copied());
            // A call may return to the next function's first instruction.
            assert_eq!(frames, [CODE + 0x20, CODE + 256 + 0xf, CODE + 511], "{from_6_4}");
            let context = Context { rip: CODE + 512, rsp: regs, rbp: 0 };
            let frames = unwind(&tables, context, |at| memory.get(&at).copied());
            assert_eq!(frames, [CODE + 512, 0x40_1000]);
        }
    }

    #[test]
    fn a_stack_that_leads_nowhere_ends() {
        let tables = tables(true, &[(8, 0, 0x05, 2)]);
        let context = Context { rip: CODE, rsp: 0x1000, rbp: 0 };
        assert_eq!(unwind(&tables, context, |_| None), [CODE]);
        // It calls itself for ever.
        let frames = unwind(&tables, context, |_| Some(CODE + 1));
        assert_eq!(frames.len(), MAX_FRAMES);
        let outside = Context { rip: 0x40_0000, ..context };
        assert_eq!(unwind(&tables, outside, |_| Some(CODE)), [0x40_0000]);
        assert!(unwind(&Tables::default(), context, |_| Some(CODE)).len() == 1);
    }
}
