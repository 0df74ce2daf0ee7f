//! The local APIC's timer (AMD64 APM vol. 2, 16.4).

use std::arch::asm;

/// The vector of its interrupt.
pub(super) const VECTOR: usize = 0x40;

const BASE: u64 = 0xfee0_0000;
pub(super) const END_OF_INTERRUPT: u64 = BASE + 0xb0;
const SPURIOUS: u64 = BASE + 0xf0;
const TIMER_ENTRY: u64 = BASE + 0x320;
const INITIAL_COUNT: u64 = BASE + 0x380;
const DIVIDE: u64 = BASE + 0x3e0;

const ENABLED: u32 = 1 << 8;
const BY_ONE: u32 = 0b1011;

/// Turns the local APIC on, its timer set for one shot; a write to its initial
/// count starts it. All other interrupts are off.
pub(crate) fn start_timer() {
    let write = |register: u64, value: u32| {
        // SAFETY: registers of the local APIC, which touch no memory.
        unsafe { (register as *mut u32).write_volatile(value) };
    };
    write(SPURIOUS, ENABLED | 0xff);
    write(TIMER_ENTRY, VECTOR as u32);
    write(DIVIDE, BY_ONE);
    // SAFETY: interrupts wait until a guest runs, or `acknowledge` lets them in.
    unsafe { asm!("clgi", options(nomem, nostack)) };
}

/// Waits for the timer's interrupt, `ticks` from now. QEMU skips the time in which its processor
/// waits.
pub(crate) fn sleep(ticks: u32) {
    // SAFETY: as in `stop_timer`; no interrupt comes between STI and HLT (AMD64
    // APM vol. 3, STI).
    unsafe {
        (INITIAL_COUNT as *mut u32).write_volatile(ticks.max(1));
        asm!("stgi", "sti", "hlt", "cli", "clgi", options(nostack));
    }
}

/// Stops the timer, and takes its interrupt if it waits. It is stopped first:
/// else one set for a short time would go off again before the guest is entered,
/// again and again.
pub(crate) fn stop_timer() {
    // SAFETY: a register of the local APIC, as in `start_timer`. The handler
    // keeps all registers; it is the only interrupt there is.
    unsafe {
        (INITIAL_COUNT as *mut u32).write_volatile(0);
        asm!("sti", "stgi", "nop", "nop", "clgi", "cli", options(nostack));
    }
}

/// Calls `f` with the global interrupt flag set. No interrupt comes: the timer is
/// stopped, and interrupts are off.
pub(crate) fn open(f: impl FnOnce()) {
    // SAFETY: as above.
    unsafe { asm!("stgi", options(nostack)) };
    f();
    // SAFETY: as above.
    unsafe { asm!("clgi", options(nostack)) };
}
