//! The guest's one clock: virtual time in ticks of its TSC, and what it costs
//! to leave and enter guest mode.
//!
//! While a vCPU runs, its TSC is `host TSC + offset`. On entry the offset is
//! set so that the guest goes on where virtual time stands; on exit virtual
//! time is what the guest's TSC was when it left. What the host does between
//! is not part of either.

use crate::time::{host_tsc, Scale};

/// How guest mode is left, as far as the costs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ExitPath {
    /// IN or OUT.
    Port = 0,
    /// A store to a device's memory.
    MmioWrite = 1,
    /// A load from a device's memory.
    MmioRead = 2,
    /// WRMSR that comes to user space.
    MsrWrite = 3,
    /// RDMSR that comes to user space.
    MsrRead = 4,
    /// HLT.
    Halt = 5,
    /// A signal.
    Kick = 6,
    /// Others: interrupt windows, shutdown.
    Other = 7,
}

/// How many ways there are.
pub const WAYS: usize = 8;

/// What leaving and entering guest mode takes, in ticks of the host's TSC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// From reading the host's TSC before an entry to the guest's first instruction.
    pub enter: i64,
    /// What an injected interrupt adds to an entry.
    pub inject: i64,
    /// From the guest's last instruction to reading the host's TSC after the
    /// exit, by [`ExitPath`].
    pub leave: [i64; WAYS],
    /// What setting the timer adds to the time before an entry.
    pub arm: i64,
    /// How much later than its timer's time a slice can end.
    pub slack: i64,
    /// How much one exit differs from another of its kind: from the first to the last decile of
    /// what was measured, of the kind where that is largest. It cannot be taken off.
    pub spread: i64,
}

impl Costs {
    /// Their names and values, for the results; none where they are in no guest's
    /// time.
    pub fn named(&self) -> Vec<(String, i64)> {
        const NAMES: [&str; WAYS] =
            ["port", "mmio-write", "mmio-read", "msr-write", "msr-read", "halt", "kick", "other"];
        if *self == Self::default() {
            return Vec::new();
        }
        let mut all = vec![("enter".to_owned(), self.enter), ("inject".to_owned(), self.inject)];
        let leave = NAMES.iter().zip(self.leave);
        all.extend(leave.map(|(name, cost)| (format!("leave-{name}"), cost)));
        all.push(("arm".to_owned(), self.arm));
        all.push(("slack".to_owned(), self.slack));
        all.push(("spread".to_owned(), self.spread));
        all
    }
}

/// Virtual time.
#[derive(Debug, Clone)]
pub struct Clock {
    now: u64,
    scale: Scale,
    /// What the present or last entry added to the host's TSC.
    offset: u64,
    /// Virtual time at the last entry: an exit is never before it.
    entered: u64,
    /// The costs that are taken off.
    pub costs: Costs,
}

impl Clock {
    /// A clock at zero.
    pub fn new(scale: Scale) -> Self {
        Self { now: 0, scale, offset: 0, entered: 0, costs: Costs::default() }
    }

    /// Virtual time in ticks.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Virtual time in ns.
    pub fn now_ns(&self) -> u64 {
        self.scale.to_ns(self.now)
    }

    /// The scale.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Moves virtual time to `ticks`, forward; or back, when the machine rewinds.
    pub fn set(&mut self, ticks: u64) {
        self.now = ticks;
    }

    /// The TSC offset for an entry that begins now.
    #[inline]
    pub fn enter(&mut self, injecting: bool) -> u64 {
        let inject = if injecting { self.costs.inject } else { 0 };
        self.entered = self.now;
        let cost = (self.costs.enter + inject) as u64;
        self.offset = self.now.wrapping_sub(host_tsc()).wrapping_sub(cost);
        self.offset
    }

    /// The host's TSC at which the guest will be at `ticks`, after [`Clock::enter`].
    pub fn host_at(&self, ticks: u64) -> u64 {
        ticks.wrapping_sub(self.offset)
    }

    /// The host's TSC of the last entry's beginning.
    pub fn entry_began(&self) -> u64 {
        self.entered.wrapping_sub(self.offset).wrapping_sub(self.costs.enter as u64)
    }

    /// Virtual time of an exit by `path` that was seen at `host` (host TSC).
    #[inline]
    pub fn leave(&mut self, path: ExitPath, host: u64) {
        let at =
            host.wrapping_add(self.offset).wrapping_sub(self.costs.leave[path as usize] as u64);
        self.now = at.max(self.entered);
    }

    /// No later than `due` (host TSC) plus what slices end late by: where a
    /// timer fired on the path out, its handling is not the guest's time.
    pub fn cap(&mut self, due: u64) {
        let latest = due.wrapping_add(self.offset).wrapping_add(self.costs.slack as u64);
        self.now = self.now.min(latest.max(self.entered));
    }
}
