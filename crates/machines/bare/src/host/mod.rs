//! The bare processor: its interrupts, and the timer that ends the guest's stay.

mod exceptions;
mod timer;

pub(crate) use exceptions::name_exceptions;
pub(crate) use timer::{open, sleep, start_timer, stop_timer};

use std::arch::asm;

/// Writes DR0 to DR3, where they are to change, and DR7.
///
/// # Safety
/// This program must be able to run with the debug exceptions that they ask for.
pub(crate) unsafe fn write_debug_registers(addresses: Option<&[u64; 4]>, control: u64) {
    if let Some(&[first, second, third, fourth]) = addresses {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mov dr0, {}", "mov dr1, {}", "mov dr2, {}", "mov dr3, {}",
                in(reg) first, in(reg) second, in(reg) third, in(reg) fourth,
                options(nostack, preserves_flags));
        }
    }
    // SAFETY: the caller's promise.
    unsafe { asm!("mov dr7, {}", in(reg) control, options(nostack, preserves_flags)) };
}

/// Writes a model-specific register.
///
/// # Safety
/// This program must be able to run with the value.
pub(crate) unsafe fn write_msr(number: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("wrmsr", in("ecx") number, in("eax") value as u32, in("edx") (value >> 32) as u32,
            options(nostack, preserves_flags));
    }
}
