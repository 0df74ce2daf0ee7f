//! Costs of entering and leaving guest mode, and the timer that ends the guest's slice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ways of leaving guest mode, as far as the costs can differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ExitPath {
    /// IN or OUT.
    Port = 0,
    /// A device's memory.
    Memory = 1,
    /// RDMSR or WRMSR.
    Msr = 2,
    /// CPUID.
    Cpuid = 3,
    /// HLT.
    Halt = 4,
    /// The guest can take an interrupt.
    Window = 5,
    /// The timer.
    Timer = 6,
    /// All others.
    Other = 7,
    /// MOV from or to a debug register.
    DebugRegister = 8,
    /// The trap after an access to a watched address, or before an instruction that is watched.
    Watch = 9,
}

/// Number of ways.
pub const WAYS: usize = 10;

impl ExitPath {
    // AMD64 APM vol. 2, appendix C.
    pub(super) fn of(code: u64) -> Self {
        match code {
            0x7b => Self::Port,
            0x400 => Self::Memory,
            0x7c => Self::Msr,
            0x72 => Self::Cpuid,
            0x78 => Self::Halt,
            0x64 => Self::Window,
            0x60 => Self::Timer,
            0x20..=0x3f => Self::DebugRegister,
            0x41 => Self::Watch,
            _ => Self::Other,
        }
    }
}

/// Time that is not the guest's, in ticks: exact, and the same each time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// From the TSC's reading before an entry to the guest's first instruction.
    pub enter: i64,
    /// Added to `enter` by an injected event.
    pub inject: i64,
    /// From the end of the guest's last instruction to the TSC's reading, by
    /// [`ExitPath`].
    pub leave: [i64; WAYS],
    /// From the timer's setting to the guest's first instruction.
    pub timer: i64,
}

/// The processor's TSC.
fn ticks() -> u64 {
    // SAFETY: the instruction has no effect on memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The processor's timer, which all guests' processors share.
#[derive(Debug)]
pub(crate) struct Timer {
    /// Time at which it goes off, or did, on the host's TSC; 0: its interrupt is taken.
    due: AtomicU64,
    /// The host's TSC at the last exit.
    now: AtomicU64,
}

/// The one that there is.
pub(crate) static TIMER: Timer = Timer::new();

impl Timer {
    const fn new() -> Self {
        Self { due: AtomicU64::new(0), now: AtomicU64::new(0) }
    }

    /// The value to write to the timer so that the guest stays from `now` to `until` at most; 0:
    /// none, as the timer goes off in time already.
    pub(super) fn set(&self, now: u64, until: u64, costs: &Costs) -> u64 {
        const MAX_COUNT: u64 = u32::MAX as u64;
        let stay = until.saturating_sub(now);
        let due = self.due.load(Relaxed);
        let remaining = due.saturating_sub(self.now.load(Relaxed));
        // An earlier time does no harm, as the guest continues after it. But that is one exit more: a
        // time that was meant for a much shorter stay, of another processor's maybe, is set anew.
        let in_time = due != 0 && remaining <= stay && remaining >= stay.min(MAX_COUNT) / 2;
        if in_time || until == u64::MAX {
            0
        } else {
            stay.saturating_add_signed(costs.timer).clamp(1, MAX_COUNT)
        }
    }

    /// The guest was entered with the TSC reading `entered` and `written` to the
    /// timer, and has left at `exited`.
    pub(super) fn left(&self, written: u64, entered: u64, exited: u64, costs: &Costs) {
        self.now.store(exited, Relaxed);
        if written != 0 {
            let written_at = entered.wrapping_add_signed(costs.enter - costs.timer);
            self.due.store(written_at + written, Relaxed);
        }
    }

    /// Returns whether it went off while the host was at work: its interrupt waits, and would end
    /// the guest's stay before it begins.
    pub(super) fn has_passed(&self) -> bool {
        let due = self.due.load(Relaxed);
        due != 0 && due <= ticks()
    }

    /// Waits until the TSC reads `end`.
    pub(crate) fn sleep_until(&self, end: u64) {
        // The setting for a guest is lost.
        self.stop();
        while let Some(ticks_to_go) =
            end.checked_sub(ticks()).filter(|&ticks_to_go| ticks_to_go > 0)
        {
            crate::host::sleep(ticks_to_go.min(u64::from(u32::MAX)) as u32);
        }
    }

    /// Stops the timer, and takes its interrupt if there is one.
    pub(crate) fn stop(&self) {
        crate::host::stop_timer();
        self.stopped();
    }

    /// The processor's timer is stopped: a stay of a guest has to set it again.
    fn stopped(&self) {
        self.due.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_is_set_only_where_it_must_be() {
        let costs = Costs { enter: 10, timer: 30, ..Costs::default() };
        let timer = Timer::new();
        assert_eq!(timer.set(0, u64::MAX, &costs), 0);
        assert_eq!(timer.set(1000, 1100, &costs), 130);
        timer.left(130, 5020, 5050, &costs);
        assert_eq!(timer.due.load(Relaxed), 5130);
        // At the earliest 80 ticks from now on: in time for a stay of 80, and of 160.
        assert_eq!(timer.set(1020, 1100, &costs), 0);
        assert_eq!(timer.set(1020, 1180, &costs), 0);
        assert_eq!(timer.set(1020, 1182, &costs), 192);
        timer.left(0, 5120, 5125, &costs);
        assert_eq!(timer.set(1095, 1100, &costs), 0);
        timer.stopped();
        assert_eq!(timer.set(1021, 1100, &costs), 109);
        assert_eq!(timer.set(0, u64::MAX - 1, &costs), u32::MAX as u64);
    }
}
