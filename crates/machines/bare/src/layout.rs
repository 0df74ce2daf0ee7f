//! Layout of the bare machine's memory, which is mapped one to one.

use stasis_layout::U64;

/// Start of the stack, which grows down to it.
pub const STACK: u64 = 0x20_0000;
/// The beginning of the image: the words that the program starts with, at the top of its stack.
pub const WORDS: u64 = 0x7f_8000;
/// Room for these words.
pub const WORDS_LENGTH: u64 = 0x1000;
/// Parameters of the firmware and the system calls: [`Parameters`].
pub const PARAMETERS: u64 = 0x7f_9000;
/// Page tables: the top one, and the one below it.
pub const PAGE_TABLES: u64 = 0x7f_a000;
/// Place of the executable's address 0.
pub const PROGRAM: u64 = 0x80_0000;
/// Room for `brk` behind the program.
pub const BREAK_LENGTH: u64 = 64 << 20;
/// Memory below 4 GiB ends here at the latest (QEMU, hw/i386/microvm.c); the
/// rest lies above 4 GiB.
pub const LOW_END: u64 = 3 << 30;
/// Beginning of the memory above 4 GiB.
pub const HIGH: u64 = 4 << 30;
/// Address at which QEMU puts the firmware: right below 4 GiB.
pub const FIRMWARE: u64 = HIGH - FIRMWARE_LENGTH;
/// Length of the firmware: the unit (bytes) in which QEMU takes firmware.
pub const FIRMWARE_LENGTH: u64 = 0x1_0000;

stasis_layout::layout! {
    /// The structure at [`PARAMETERS`].
    pub struct Parameters: 40 {
        /// The program's first instruction.
        [0] entry: U64,
        /// Its stack then.
        [8] stack: U64,
        /// Target of SYSCALL.
        [16] system_call: U64,
        /// End of the program's memory, its uninitialized part included.
        [24] program_end: U64,
        /// Bytes of memory that the machine has.
        [32] memory: U64,
    }
}
