//! The machine's timers, held still while it is saved.
//!
//! When the machine pauses, QEMU's main thread may or may not skip its clock to
//! the next timer before it has noted that the machine stands still (QEMU 7.2:
//! `icount_start_warp_timer` against `do_vm_stop`). Without a timer there is
//! nothing to skip to, and two builds of one machine are the same to the
//! nanosecond. There are the local APIC's, the real-time clock's, and the PIT's.

use super::port;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

/// Where the registers are (Intel SDM volume 3, 11.4.1; the reset value).
const BASE: libc::off_t = 0xfee0_0000;
const SIZE: usize = 4096;
/// Initial and current count of the timer, in words (table 11-1): a write of 0
/// to the first stops it.
const INITIAL_COUNT: usize = 0x380 / 4;
const CURRENT_COUNT: usize = 0x390 / 4;

/// The real-time clock's index and data ports, and its register A, whose
/// divider select 110 holds the clock in reset (Motorola MC146818 data sheet,
/// table 4).
const RTC_INDEX: u16 = 0x70;
const RTC_DATA: u16 = 0x71;
const REGISTER_A: u8 = 10;
const RESET: u8 = 0x66;

/// The PIT's control port and channel 0: load both bytes, mode 0, which ends
/// when the count does (Intel 8254 data sheet, "Mode 0"). The kernel has masked
/// its interrupt.
const PIT_CONTROL: u16 = 0x43;
const PIT_CHANNEL: u16 = 0x40;
const LOAD_MODE_0: u8 = 0x30;
/// Longer than a count of 1 takes: 838 ns.
const PIT_WAIT: u64 = 2000;

/// Calls `work` with the local APIC's timer stopped, and lets it go on where it
/// was. The real-time clock stops for good: the kernel has read it, and nothing
/// in the software host needs it. Without access to the APIC just calls `work`.
pub(super) fn without(work: impl FnOnce()) {
    port::write_byte(RTC_INDEX, REGISTER_A);
    port::write_byte(RTC_DATA, RESET);
    port::write_byte(PIT_CONTROL, LOAD_MODE_0);
    port::write_byte(PIT_CHANNEL, 1);
    port::write_byte(PIT_CHANNEL, 0);
    let start = ticks();
    while ticks().wrapping_sub(start) < PIT_WAIT {}
    let Some(registers) = map() else { return work() };
    // SAFETY: the page of registers is mapped; the kernel, which uses them
    // too, sets the timer anew at each of its interrupts, so a count that is
    // out of date by one of them only makes the next one early or late.
    unsafe {
        let left = registers.add(CURRENT_COUNT).read_volatile();
        registers.add(INITIAL_COUNT).write_volatile(0);
        work();
        // 0 would leave it stopped.
        registers.add(INITIAL_COUNT).write_volatile(left.max(1));
        libc::munmap(registers.cast(), SIZE);
    }
}

/// The time stamp counter, at 1 GHz.
fn ticks() -> u64 {
    // SAFETY: the instruction has no effect on memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

fn map() -> Option<*mut u32> {
    let memory = OpenOptions::new().read(true).write(true).open("/dev/mem").ok()?;
    // SAFETY: a new mapping of device registers, which is nobody's memory.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            memory.as_raw_fd(),
            BASE,
        )
    };
    (start != libc::MAP_FAILED).then(|| start.cast())
}
