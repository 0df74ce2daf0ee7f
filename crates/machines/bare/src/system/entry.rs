//! The way into a system call and back, in assembly.

use crate::layout::PROGRAM;
use std::arch::global_asm;

/// Bytes of the handler's own stack.
const STACK: usize = 64 << 10;

/// The registers of a system call (System V ABI, AMD64 supplement, A.2.1).
#[repr(C)]
#[derive(Debug)]
pub(super) struct Frame {
    /// The arguments, in order.
    pub arguments: [u64; 6],
    /// The call's number; then its result.
    pub number: u64,
}

// SYSCALL leaves the stack as it is, and below it lies the caller's red zone:
// the handler has its own. Nothing interrupts it and it makes no system call,
// so one stack is enough. The program keeps all registers but RAX, RCX and R11
// across a call, vector registers too.
global_asm!(
    ".pushsection .text.stasis_system_call, \"ax\", @progbits",
    ".globl stasis_system_call",
    ".hidden stasis_system_call",
    ".balign 16",
    "stasis_system_call:",
    "mov [rip + {saved}], rsp",
    "lea rsp, [rip + {stack} + {size}]",
    "push rcx",
    "push r11",
    "push rax",
    "push r9",
    "push r8",
    "push r10",
    "push rdx",
    "push rsi",
    "push rdi",
    "push rbx",
    "mov rdi, rsp",
    "add rdi, 8",
    "mov rbx, rsp",
    "sub rsp, 512",
    "and rsp, -16",
    "fxsave64 [rsp]",
    "cld",
    "call {handle}",
    "fxrstor64 [rsp]",
    "mov rsp, rbx",
    "pop rbx",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop r10",
    "pop r8",
    "pop r9",
    "pop rax",
    "popfq",
    "pop rcx",
    "mov rsp, [rip + {saved}]",
    "jmp rcx",
    ".popsection",
    saved = sym SAVED,
    stack = sym HANDLER_STACK,
    size = const STACK,
    handle = sym super::handle,
);

#[repr(C, align(4096))]
struct HandlerStack([u8; STACK]);

// Written by the assembly above only.
static mut SAVED: u64 = 0;
static mut HANDLER_STACK: HandlerStack = HandlerStack([0; STACK]);

extern "C" {
    fn stasis_system_call();
    // Address at which the linker has put the file's beginning.
    static __ehdr_start: u8;
}

/// Returns the place of the entry in the executable, from the address 0 of its file.
pub(crate) fn entry_offset() -> u64 {
    stasis_system_call as *const () as u64 - (&raw const __ehdr_start) as u64
}

/// Returns whether this program runs where [`crate::image`] puts it.
pub(super) fn is_at_home() -> bool {
    (&raw const __ehdr_start) as u64 == PROGRAM
}
