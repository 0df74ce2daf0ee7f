//! Handlers of exceptions and interrupts on the bare processor: the timer's is acknowledged, a debug
//! register's is passed over, any other ends the machine with a message.

use super::timer;
use crate::console;
use stasis_layout::{layout, U16, U64};
use std::arch::{asm, global_asm};

/// Number of vectors with a handler: up to the timer's.
const VECTORS: usize = timer::VECTOR + 1;

const DEBUG_VECTOR: usize = 1;
/// RF (AMD64 APM vol. 2, 3.1.6).
const RESUME_FLAG: u32 = 1 << 16;

// One stub of 16 bytes for each vector: those without an error code push one
// (AMD64 APM vol. 2, 8.2).
global_asm!(
    ".pushsection .text.stasis_exceptions, \"ax\", @progbits",
    ".balign 16",
    "stasis_exceptions:",
    ".set stasis_vector, 0",
    ".rept {vectors}",
    ".balign 16",
    ".if stasis_vector == {timer}",
    "push rax",
    "mov eax, {end_of_interrupt}",
    "mov dword ptr [rax], 0",
    "pop rax",
    "iretq",
    ".elseif stasis_vector == {debug}",
    // A guest's watchpoint or breakpoint, set for its entry: the resume flag lets the instruction run.
    "or qword ptr [rsp + 16], {resume}",
    "iretq",
    ".else",
    ".if (stasis_vector != 8) & ((stasis_vector < 10) | (stasis_vector > 14)) & (stasis_vector != 17)",
    "push 0",
    ".endif",
    "push stasis_vector",
    "jmp 2f",
    ".endif",
    ".set stasis_vector, stasis_vector + 1",
    ".endr",
    "2:",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {report}",
    ".popsection",
    vectors = const VECTORS,
    timer = const timer::VECTOR,
    debug = const DEBUG_VECTOR,
    resume = const RESUME_FLAG,
    end_of_interrupt = const timer::END_OF_INTERRUPT,
    report = sym report,
);

extern "C" {
    #[link_name = "stasis_exceptions"]
    fn stubs();
}

layout! {
    /// The operand of LIDT (AMD64 APM vol. 2, 4.6.2).
    struct TableRegister: 10 {
        /// Place of the last byte.
        [0] limit: U16,
        [2] base: U64,
    }
}

#[repr(C, align(16))]
struct Gates([[u64; 2]; VECTORS]);

static mut GATES: Gates = Gates([[0; 2]; VECTORS]);

layout! {
    /// The stack after an exception (AMD64 APM vol. 2, 8.9.3), and what the stubs have pushed.
    struct Frame: 56 {
        [0] vector: U64,
        /// 0 for those without one.
        [8] error_code: U64,
        [16] rip: U64,
        [24] cs: U64,
        [32] rflags: U64,
        [40] rsp: U64,
        [48] ss: U64,
    }
}

extern "C" fn report(frame: &Frame) -> ! {
    let cr2: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) cr2, options(nomem, nostack, preserves_flags)) };
    let name = ["exception ", " code ", " at ", " of the file, flags ", " stack ", " address "];
    let rip = frame.rip.get().wrapping_sub(crate::layout::PROGRAM);
    let Frame { vector, error_code, rflags, rsp, .. } = frame;
    let values = [vector.get(), error_code.get(), rip, rflags.get(), rsp.get(), cr2];
    for (name, value) in name.iter().zip(values) {
        console::say(name);
        console::say_number(value);
    }
    console::say("\n");
    console::die("the program failed")
}

/// Installs handlers whose message names an exception and its place.
pub(crate) fn name_exceptions() {
    const INTERRUPT_GATE: u64 = 0x8e00 << 32;
    const CODE: u64 = 24 << 16;
    let first = stubs as *const () as u64;
    // SAFETY: one thread, and interrupts are off; the table lives for ever.
    unsafe {
        let gates = &raw mut GATES;
        for vector in 0..VECTORS {
            let at = first + 16 * vector as u64;
            let low = at & 0xffff | CODE | INTERRUPT_GATE | (at >> 16 & 0xffff) << 48;
            (*gates).0[vector] = [low, at >> 32];
        }
        let limit = (size_of::<Gates>() as u16 - 1).into();
        let register = TableRegister { limit, base: (gates as u64).into() };
        asm!("lidt [{}]", in(reg) &raw const register, options(readonly, nostack, preserves_flags));
    }
}
