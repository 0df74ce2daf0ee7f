//! Ends a slice at a chosen time of the host's TSC: a POSIX timer whose signal
//! brings KVM_RUN back.
//!
//! The signal's handler also sets `immediate_exit` of the vCPU that is about
//! to run, so that a signal between the last check and KVM_RUN is not lost.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::freeze::host_tsc;

/// By how many ticks the timer can fire before its time: its own clock has
/// nanoseconds, and a rate that is measured.
const EARLY: u64 = 1_000;

thread_local! {
    // Constants without destructors: the signal's handler may use them.
    static FIRED: AtomicBool = const { AtomicBool::new(false) };
    static IMMEDIATE_EXIT: AtomicPtr<u8> = const { AtomicPtr::new(std::ptr::null_mut()) };
}

extern "C" fn on_signal(_: libc::c_int) {
    FIRED.with(|fired| fired.store(true, Ordering::Relaxed));
    let flag = IMMEDIATE_EXIT.with(|flag| flag.load(Ordering::Relaxed));
    if !flag.is_null() {
        // SAFETY: points into the kvm_run mapping of the vCPU that runs on this
        // thread: it is cleared when that comes back (`Kick::rest`).
        unsafe { flag.write_volatile(1) };
    }
}

/// The timer of the thread that made it, for that thread; one at a time.
#[derive(Debug)]
pub struct Kick {
    timer: libc::timer_t,
    armed: Option<u64>,
    ns_per_tick: f64,
}

impl Kick {
    /// A timer on a host whose TSC runs at `host_khz`.
    pub fn new(host_khz: u64) -> io::Result<Self> {
        let signal = libc::SIGRTMIN();
        // SAFETY: all-zero is a valid sigaction; the handler only stores to
        // atomics and to a flag byte.
        let timer = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
            let mut timer: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            timer
        };
        FIRED.with(|fired| fired.store(false, Ordering::Relaxed));
        Ok(Self { timer, armed: None, ns_per_tick: 1e6 / host_khz as f64 })
    }

    /// Aims at the vCPU that runs next, whose `immediate_exit` the handler sets.
    pub fn aim(&self, immediate_exit: *mut u8) {
        IMMEDIATE_EXIT.with(|flag| flag.store(immediate_exit, Ordering::Relaxed));
    }

    /// No vCPU runs next: the vCPU that was aimed at may end before the timer fires.
    pub fn rest(&self) {
        self.aim(std::ptr::null_mut());
    }

    /// Returns the time at which it is to fire, if it is armed and has not fired (host TSC).
    pub fn armed(&self) -> Option<u64> {
        self.armed
    }

    /// Fires at `at` (host TSC); at once if that is past.
    pub fn arm(&mut self, at: u64) {
        let (now_ns, now) = (monotonic_ns(), host_tsc());
        let delay = at.saturating_sub(now) as f64 * self.ns_per_tick;
        let when = now_ns + (delay as u64).max(1);
        let value = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: (when / 1_000_000_000) as i64,
                tv_nsec: (when % 1_000_000_000) as i64,
            },
        };
        // SAFETY: a timer that `new` made; the value is well-formed.
        unsafe {
            libc::timer_settime(self.timer, libc::TIMER_ABSTIME, &value, std::ptr::null_mut())
        };
        self.armed = Some(at);
    }

    /// Returns whether it has fired since the last call, as seen at `now` (host TSC); if so, when
    /// it was due.
    pub fn take_fired(&mut self, now: u64) -> Option<u64> {
        if !FIRED.with(|fired| fired.swap(false, Ordering::Relaxed)) {
            return None;
        }
        match self.armed {
            // An earlier setting fired while this one was being made: this one
            // is still to come, and what the earlier one ended has begun now.
            Some(due) if due > now.saturating_add(EARLY) => Some(now),
            _ => Some(self.armed.take().unwrap_or(now)),
        }
    }
}

impl Drop for Kick {
    fn drop(&mut self) {
        // No signal of this timer's comes to another place than this thread.
        let _ = IMMEDIATE_EXIT.try_with(|flag| flag.store(std::ptr::null_mut(), Ordering::Relaxed));
        // SAFETY: a timer that `new` made, deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// CLOCK_MONOTONIC of the host (ns).
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a valid place for its value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
