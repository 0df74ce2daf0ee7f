//! The guest's one clock: virtual time in ticks of its TSC, which stands still while the host
//! works.

use super::costs::{Costs, ExitPath};
use super::tsc_scale::{host_tsc, Scale};

/// Virtual time.
#[derive(Debug, Clone)]
pub struct Clock {
    now: u64,
    scale: Scale,
    /// Added to the host's TSC by the present or last entry.
    offset: u64,
    /// Virtual time at the last entry: an exit is never before it.
    entered: u64,
    /// Before which tick of its TSC the guest had left, for certain, at the last exit.
    left_before: u64,
    /// The costs that are taken off.
    pub costs: Costs,
}

impl Clock {
    /// A clock at zero.
    pub fn new(scale: Scale) -> Self {
        Self { now: 0, scale, offset: 0, entered: 0, left_before: 0, costs: Costs::default() }
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
        self.left_before = host.wrapping_add(self.offset);
        let at = self.left_before.wrapping_sub(self.costs.leave[path as usize] as u64);
        self.now = at.max(self.entered);
    }

    /// By how many ticks before virtual time the guest can read its TSC after an entry: the entry's
    /// cost is an estimate, and it takes no less than nothing.
    pub fn unsure_entry(&self, injecting: bool) -> u64 {
        let inject = if injecting { self.costs.inject } else { 0 };
        u64::try_from(self.costs.enter + inject).unwrap_or(0)
    }

    /// By how many ticks after virtual time the guest can have read its TSC before the last exit.
    pub fn unsure_exit(&self) -> u64 {
        self.left_before.saturating_sub(self.now)
    }

    /// No later than `due` (host TSC) plus what slices end late by: where a
    /// timer fired on the path out, its handling is not the guest's time.
    pub fn cap(&mut self, due: u64) {
        let latest = due.wrapping_add(self.offset).wrapping_add(self.costs.slack as u64);
        self.now = self.now.min(latest.max(self.entered));
    }
}
