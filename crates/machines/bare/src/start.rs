//! Set-up before the first guest.

use crate::host;
use std::sync::atomic::{AtomicBool, Ordering};

/// Register of the address at which the processor keeps the host's state while a guest runs (AMD64
/// APM vol. 2, 15.30.4).
const HSAVE: u32 = 0xc001_0117;

#[repr(C, align(4096))]
struct Page([u8; 4096]);

static mut STATE: Page = Page([0; 4096]);

static DONE: AtomicBool = AtomicBool::new(false);

/// Returns whether [`start`] was called: the timer works.
pub(crate) fn is_done() -> bool {
    DONE.load(Ordering::Relaxed)
}

/// Calls `pause`, which pauses the machine. On the bare machine, between two stays of a guest, it
/// may be saved and continue in another: no timer is set then, and the global interrupt flag (AMD64
/// APM vol. 2, 15.17), which QEMU does not save, is set.
pub fn pausing(pause: fn()) {
    if !is_done() {
        return pause();
    }
    crate::svm::TIMER.stop();
    host::open(pause);
}

/// Prepares the bare processor for guests.
///
/// # Safety
/// On the bare machine only, once.
pub unsafe fn start() {
    host::name_exceptions();
    // SAFETY: on the bare machine by the caller's promise; the page is used by
    // the processor only.
    unsafe { host::write_msr(HSAVE, &raw mut STATE as u64) };
    host::start_timer();
    DONE.store(true, Ordering::Relaxed);
}
