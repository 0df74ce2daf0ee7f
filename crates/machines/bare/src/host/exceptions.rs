//! Handlers of exceptions and interrupts on the bare processor: the timer's is acknowledged, any
//! other ends the machine with a message.

use super::timer;
use crate::console;
use std::arch::{asm, global_asm};

/// Those up to the timer's.
const VECTORS: usize = timer::VECTOR + 1;

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
    end_of_interrupt = const timer::END_OF_INTERRUPT,
    report = sym report,
);

extern "C" {
    #[link_name = "stasis_exceptions"]
    fn stubs();
}

#[repr(C, align(16))]
struct Gates([[u64; 2]; VECTORS]);

static mut GATES: Gates = Gates([[0; 2]; VECTORS]);

extern "C" fn report(frame: &[u64; 7]) -> ! {
    let [vector, code, rip, _, rflags, rsp, _] = *frame;
    let cr2: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) cr2, options(nomem, nostack, preserves_flags)) };
    let name = ["exception ", " code ", " at ", " of the file, flags ", " stack ", " address "];
    let rip = rip.wrapping_sub(crate::layout::PROGRAM);
    for (name, value) in name.iter().zip([vector, code, rip, rflags, rsp, cr2]) {
        console::say(name);
        console::say_number(value);
    }
    console::say("\n");
    console::die("the program failed")
}

/// From now on a message names an exception and its place.
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
        let mut register = [0u8; 10];
        register[..2].copy_from_slice(&(16 * VECTORS as u16 - 1).to_le_bytes());
        register[2..].copy_from_slice(&(gates as u64).to_le_bytes());
        asm!("lidt [{}]", in(reg) register.as_ptr(), options(readonly, nostack, preserves_flags));
    }
}
