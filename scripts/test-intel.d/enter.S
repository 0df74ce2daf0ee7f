# In place of the decompressor of Linux, which takes 4.5 thousand million instructions: moves the kernel that follows
# (at `image`, `image_length` bytes, a multiple of 4) to where it belongs, and enters it in 64-bit mode. The state that
# a kernel of x86-64 expects is in Linux, Documentation/arch/x86/boot.rst, "64-bit boot protocol"; the load address and
# the registers of this code, in the same file, "32-bit boot protocol".
#
# `base`, `image_length`, `kernel` and `entry` are defined by the one who assembles it.

.code32
.globl start
start:
    cli
    mov %esi, %ebx              # boot_params
    cmpl $base, 0x214(%esi)     # hdr.code32_start: these tables are for that address alone
    jne stop
    # The two overlap, and the kernel's place is the higher one.
    std
    mov $(base + image - start + image_length - 4), %esi
    mov $(kernel + image_length - 4), %edi
    mov $(image_length / 4), %ecx
    rep movsl
    cld
    mov %cr4, %eax
    or $(1 << 5), %eax          # PAE
    mov %eax, %cr4
    mov $(base + level4 - start), %eax
    mov %eax, %cr3
    mov $0xc0000080, %ecx       # EFER
    rdmsr
    or $(1 << 8), %eax          # long mode
    wrmsr
    mov %cr0, %eax
    or $(1 << 31), %eax         # paging
    mov %eax, %cr0
    lgdt (base + pointer - start)
    ljmp $0x10, $(base + long - start)
stop:
    hlt
    jmp stop

.code64
long:
    mov $0x18, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov $(base + image - start), %esp
    mov %ebx, %esi
    mov $entry, %eax
    jmp *%rax

.balign 8
segments:
    .quad 0, 0
    .quad 0x00af9a000000ffff    # 0x10: code, 64 bits
    .quad 0x00cf92000000ffff    # 0x18: data
pointer:
    .word . - segments - 1
    .long base + segments - start

# The first 4 GiB where they are, in pages of 2 MiB.
.balign 4096
level4:
    .quad base + level3 - start + 3
.balign 4096
level3:
    .quad base + level2 - start + 3, base + level2 - start + 0x1003
    .quad base + level2 - start + 0x2003, base + level2 - start + 0x3003
.balign 4096
level2:
    .set page, 0
    .rept 2048
    .quad page * 0x200000 + 0x83
    .set page, page + 1
    .endr
    # A stack.
    .skip 4096
image:
