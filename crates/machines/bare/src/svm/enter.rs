//! Into the guest and out of it, in a fixed number of instructions on either
//! side, so that the guest's time does not see the host.

use super::vmcb::TSC_OFFSET;
use std::arch::global_asm;
use std::mem::offset_of;

/// Registers that the control block does not hold, and the inputs and results of [`enter`].
#[repr(C, align(64))]
pub(super) struct Context {
    /// RCX, RDX, RBX, RBP, RSI, RDI, R8 to R15.
    pub registers: [u64; 14],
    /// The guest's FS base; its descriptor's other parts stay in the processor.
    pub fs_base: u64,
    /// The guest's STAR, LSTAR and SFMASK, which the host's system calls use too.
    pub star: u64,
    pub lstar: u64,
    pub sfmask: u64,
    host_fs_base: u64,
    /// The host's own LSTAR.
    pub host_lstar: u64,
    /// The control block's address.
    pub vmcb: u64,
    /// In: the guest's time at its first instruction, less the cost of entering. Out: the value
    /// added to the TSC.
    pub time: u64,
    /// Out: the TSC right after the exit.
    pub exit_tsc: u64,
    /// In: the value for the local APIC's timer; 0: none.
    pub timer: u64,
    /// The x87 and SSE state, as FXSAVE writes it.
    pub vectors: Vectors,
}

/// Room for FXSAVE.
#[derive(Clone)]
#[repr(C, align(16))]
pub(super) struct Vectors(pub [u8; 512]);

const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const SFMASK: u32 = 0xc000_0084;
/// As the firmware sets them.
const HOST_STAR_HIGH: u32 = 24;
const HOST_SFMASK: u32 = 0x700;
/// The local APIC's initial count (AMD64 APM vol. 2, 16.4.1).
const INITIAL_COUNT: u64 = 0xfee0_0380;

impl Context {
    pub(super) fn new(vmcb: u64) -> Box<Self> {
        let mut vectors = [0; 512];
        // Their values after FNINIT and reset (AMD64 APM vol. 2, 14.1.3).
        vectors[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
        vectors[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        Box::new(Self {
            registers: [0; 14],
            fs_base: 0,
            star: 0,
            lstar: 0,
            sfmask: 0,
            host_fs_base: 0,
            host_lstar: super::super::layout::PROGRAM + crate::system::entry_offset(),
            vmcb,
            time: 0,
            exit_tsc: 0,
            timer: 0,
            vectors: Vectors(vectors),
        })
    }
}

extern "C" {
    /// Runs the guest up to its next exit.
    ///
    /// # Safety
    /// On the bare machine only; `context` names a valid control block, and the
    /// guest's memory is not borrowed.
    pub(super) fn stasis_enter(context: *mut Context);

    /// Moves the state that VMRUN leaves alone (FS, GS, TR, LDTR and the registers of system calls;
    /// AMD64 APM vol. 2, 15.5.2) out of the processor into the control block `from`, unless it is
    /// 0, and in from `to`. The parts of that state in [`Context`] are the host's afterwards.
    ///
    /// # Safety
    /// On the bare machine only; both are addresses of control blocks.
    pub(super) fn stasis_switch(from: u64, to: u64, host_lstar: u64);
}

// The guest's time begins with the first RDTSC and ends with the second one.
// From the timer's write to VMRUN, and from the first RDTSC to VMRUN, the number
// of instructions is the same at each entry, and so from the exit to the second
// RDTSC.
global_asm!(
    ".pushsection .text.stasis_enter, \"ax\", @progbits",
    ".globl stasis_enter",
    ".hidden stasis_enter",
    ".balign 4096",
    "stasis_enter:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "fnstcw [rsp + 4]",
    "push rdi",
    "rdfsbase rax",
    "mov [rdi + {host_fs_base}], rax",
    "mov rax, [rdi + {fs_base}]",
    "wrfsbase rax",
    "mov ecx, {STAR}",
    "mov eax, [rdi + {star}]",
    "mov edx, [rdi + {star} + 4]",
    "wrmsr",
    "mov ecx, {LSTAR}",
    "mov eax, [rdi + {lstar}]",
    "mov edx, [rdi + {lstar} + 4]",
    "wrmsr",
    "mov ecx, {SFMASK}",
    "mov eax, [rdi + {sfmask}]",
    "mov edx, [rdi + {sfmask} + 4]",
    "wrmsr",
    "fxrstor64 [rdi + {vectors}]",
    "mov rsi, [rdi + {vmcb}]",
    // Interrupts that come now end the guest's stay at once (AMD64 APM vol. 2,
    // 15.21.1); until VMRUN the global interrupt flag keeps them waiting.
    "sti",
    "mov rcx, [rdi + {timer}]",
    "mov r8, {INITIAL_COUNT}",
    "test rcx, rcx",
    "jz 2f",
    "mov [r8], ecx",
    "2:",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov rdx, [rdi + {time}]",
    "sub rdx, rax",
    "mov [rdi + {time}], rdx",
    "mov [rsi + {tsc_offset}], rdx",
    "mov rax, rsi",
    "mov rcx, [rdi + {registers}]",
    "mov rdx, [rdi + {registers} + 8]",
    "mov rbx, [rdi + {registers} + 16]",
    "mov rbp, [rdi + {registers} + 24]",
    "mov rsi, [rdi + {registers} + 32]",
    "mov r8, [rdi + {registers} + 48]",
    "mov r9, [rdi + {registers} + 56]",
    "mov r10, [rdi + {registers} + 64]",
    "mov r11, [rdi + {registers} + 72]",
    "mov r12, [rdi + {registers} + 80]",
    "mov r13, [rdi + {registers} + 88]",
    "mov r14, [rdi + {registers} + 96]",
    "mov r15, [rdi + {registers} + 104]",
    "mov rdi, [rdi + {registers} + 40]",
    "vmrun",
    "mov rax, [rsp]",
    "mov [rax + {registers}], rcx",
    "mov [rax + {registers} + 8], rdx",
    "mov rcx, rax",
    "rdtsc",
    "cli",
    "mov [rcx + {exit_tsc}], eax",
    "mov [rcx + {exit_tsc} + 4], edx",
    "mov [rcx + {registers} + 16], rbx",
    "mov [rcx + {registers} + 24], rbp",
    "mov [rcx + {registers} + 32], rsi",
    "mov [rcx + {registers} + 40], rdi",
    "mov [rcx + {registers} + 48], r8",
    "mov [rcx + {registers} + 56], r9",
    "mov [rcx + {registers} + 64], r10",
    "mov [rcx + {registers} + 72], r11",
    "mov [rcx + {registers} + 80], r12",
    "mov [rcx + {registers} + 88], r13",
    "mov [rcx + {registers} + 96], r14",
    "mov [rcx + {registers} + 104], r15",
    "pop rdi",
    "fxsave64 [rdi + {vectors}]",
    "fninit",
    "fldcw [rsp + 4]",
    "ldmxcsr [rsp]",
    "rdfsbase rax",
    "mov [rdi + {fs_base}], rax",
    "mov rax, [rdi + {host_fs_base}]",
    "wrfsbase rax",
    "mov ecx, {STAR}",
    "xor eax, eax",
    "mov edx, {HOST_STAR_HIGH}",
    "wrmsr",
    "mov ecx, {LSTAR}",
    "mov eax, [rdi + {host_lstar}]",
    "mov edx, [rdi + {host_lstar} + 4]",
    "wrmsr",
    "mov ecx, {SFMASK}",
    "mov eax, {HOST_SFMASK}",
    "xor edx, edx",
    "wrmsr",
    "cld",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".balign 16",
    ".globl stasis_switch",
    ".hidden stasis_switch",
    "stasis_switch:",
    "mov r8, rdx",
    "rdfsbase r9",
    "test rdi, rdi",
    "jz 2f",
    "mov rax, rdi",
    "vmsave",
    "2:",
    "mov rax, rsi",
    "vmload",
    "wrfsbase r9",
    "mov ecx, {STAR}",
    "xor eax, eax",
    "mov edx, {HOST_STAR_HIGH}",
    "wrmsr",
    "mov ecx, {LSTAR}",
    "mov eax, r8d",
    "mov rdx, r8",
    "shr rdx, 32",
    "wrmsr",
    "mov ecx, {SFMASK}",
    "mov eax, {HOST_SFMASK}",
    "xor edx, edx",
    "wrmsr",
    "ret",
    ".popsection",
    registers = const offset_of!(Context, registers),
    fs_base = const offset_of!(Context, fs_base),
    star = const offset_of!(Context, star),
    lstar = const offset_of!(Context, lstar),
    sfmask = const offset_of!(Context, sfmask),
    host_fs_base = const offset_of!(Context, host_fs_base),
    host_lstar = const offset_of!(Context, host_lstar),
    vmcb = const offset_of!(Context, vmcb),
    time = const offset_of!(Context, time),
    exit_tsc = const offset_of!(Context, exit_tsc),
    timer = const offset_of!(Context, timer),
    vectors = const offset_of!(Context, vectors),
    tsc_offset = const TSC_OFFSET,
    STAR = const STAR,
    LSTAR = const LSTAR,
    SFMASK = const SFMASK,
    HOST_STAR_HIGH = const HOST_STAR_HIGH,
    HOST_SFMASK = const HOST_SFMASK,
    INITIAL_COUNT = const INITIAL_COUNT,
);
