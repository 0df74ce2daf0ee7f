//! The firmware: from the processor's reset to the program's first instruction.
//!
//! It switches to 64-bit mode on the page tables of the image (`image.rs`), sets
//! up system calls, and jumps. It touches no device, so nothing of it depends on
//! QEMU's version or on other firmware.
//!
//! CR0.WP and the bits of CR4 are what 64-bit kernels set: QEMU forgets its
//! translations once more on the way in and out for each that the guest and the
//! host do not share.

use crate::layout::{FIRMWARE, FIRMWARE_LENGTH, PAGE_TABLES, PARAMETERS};
use std::arch::global_asm;

// Its name in the executable is `image::FIRMWARE_SECTION`: the code that starts a machine reads the
// firmware there and need not be this executable. After it: where the handler of system calls lies
// from the firmware's beginning.

// At reset the code segment starts at 0xffff_0000 and the first instruction is
// at its offset 0xfff0 (AMD64 APM vol. 2, 14.1.5); control registers and MSRs:
// the same, 3.1 and 3.2.
global_asm!(
    ".pushsection stasis_firmware, \"a\", @progbits",
    ".balign 16",
    ".globl stasis_firmware_start",
    ".hidden stasis_firmware_start",
    "stasis_firmware_start:",
    ".code16",
    "cli",
    "lgdtl %cs:(5f - stasis_firmware_start)",
    "movl $0x11, %eax", // PE, ET
    "movl %eax, %cr0",
    "ljmpl $8, $({firmware} + 3f - stasis_firmware_start)",
    ".code32",
    "3:",
    "movw $16, %ax",
    "movw %ax, %ds",
    "movw %ax, %es",
    "movw %ax, %ss",
    "movw %ax, %fs",
    "movw %ax, %gs",
    "movl $0x3106b0, %eax", // SMAP, SMEP, FSGSBASE, OSXMMEXCPT, OSFXSR, PGE, PAE, PSE
    "movl %eax, %cr4",
    "movl ${page_tables}, %eax",
    "movl %eax, %cr3",
    "movl $0xc0000080, %ecx",
    "movl $0x1901, %eax", // EFER: SVME, NXE, LME, SCE
    "xorl %edx, %edx",
    "wrmsr",
    "movl $0x80010033, %eax", // PG, WP, NE, ET, MP, PE
    "movl %eax, %cr0",
    "ljmpl $24, $({firmware} + 4f - stasis_firmware_start)",
    ".code64",
    "4:",
    "movl ${parameters}, %ebx",
    "movl $0xc0000081, %ecx", // STAR: SYSCALL loads selectors 24 and 32
    "xorl %eax, %eax",
    "movl $24, %edx",
    "wrmsr",
    "movl $0xc0000082, %ecx", // LSTAR
    "movl 16(%rbx), %eax",
    "movl 20(%rbx), %edx",
    "wrmsr",
    "movl $0xc0000084, %ecx", // SFMASK: DF, IF, TF
    "movl $0x700, %eax",
    "xorl %edx, %edx",
    "wrmsr",
    "fninit",
    "movq 8(%rbx), %rsp",
    "movq (%rbx), %rax",
    "xorl %edx, %edx", // no function to call at exit (System V ABI)
    "xorl %ebp, %ebp",
    "pushq $2",
    "popfq",
    "jmp *%rax",
    ".balign 8",
    "6:",
    ".quad 0",
    ".quad 0x00cf9b000000ffff", // 8: 32-bit code
    ".quad 0x00cf93000000ffff", // 16: data
    ".quad 0x00af9b000000ffff", // 24: 64-bit code
    ".quad 0x00cf93000000ffff", // 32: data
    "5:",
    ".word 5b - 6b - 1",
    ".long {firmware} + 6b - stasis_firmware_start",
    ".org stasis_firmware_start + {length} - 16",
    ".byte 0xe9, 0x0d, 0x00", // a jump to offset 0: 13 bytes on, around the end
    ".org stasis_firmware_start + {length}",
    ".long stasis_system_call - stasis_firmware_start",
    ".code64",
    ".popsection",
    firmware = const FIRMWARE,
    length = const FIRMWARE_LENGTH,
    page_tables = const PAGE_TABLES,
    parameters = const PARAMETERS,
    options(att_syntax)
);

extern "C" {
    fn stasis_firmware_start();
}

// Without a reference the linker leaves the section out.
#[used]
static KEPT: unsafe extern "C" fn() = stasis_firmware_start;
