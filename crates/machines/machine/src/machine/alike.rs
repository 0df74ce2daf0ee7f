//! Memory that the machines of a run have alike: their root, and their kernel's code. An engine may have
//! it once. Owns the ranges that are not shared yet.

use std::ops::Range;

use super::vm::Machine;
use crate::boot;
use crate::memory::{Guard, Purpose};

/// The ranges that machines may have alike (guest-physical addresses).
#[derive(Debug, Default)]
pub(super) struct Shared {
    root: Option<Range<u64>>,
    code: Vec<Range<u64>>,
}

/// The places of this kernel's code, if several machines boot it.
pub(super) fn code(vmlinux: &[u8], machines: usize) -> Vec<Range<u64>> {
    if machines < 2 {
        return Vec::new();
    }
    // One that cannot be loaded is refused later.
    boot::code(vmlinux).unwrap_or_default()
}

impl Shared {
    /// Lets `machines`, which have not run yet, share their root.
    pub(super) fn begin(machines: &mut [Machine], code: Vec<Range<u64>>) -> Self {
        if machines.len() < 2 {
            return Self::default();
        }
        let root = |machine: &Machine| {
            let mut regions = machine.memory.regions().iter();
            let root = regions.find(|region| region.purpose == Purpose::Root)?;
            Some(root.base..root.base + root.length)
        };
        let first = root(&machines[0]);
        // A machine with very much memory has its root elsewhere.
        let root =
            first.filter(|first| machines.iter().all(|one| root(one).as_ref() == Some(first)));
        let shared = Self { root, code };
        let ranges: Vec<_> = shared.root.iter().chain(&shared.code).cloned().collect();
        for machine in machines.iter_mut() {
            let tell = machine.vcpus[0].guard();
            machine.memory.set_guard(Guard { ranges: ranges.clone(), tell });
        }
        if let Some(root) = shared.root.clone() {
            // SAFETY: all machines are there, with their guards. Each root is filled with the same bytes.
            unsafe { machines[0].vcpus[0].share(root, true) };
        }
        shared
    }

    /// Lets `machines`, which are set up, share the code of their kernel: it has been patched as they
    /// booted.
    pub(super) fn share_code(&mut self, machines: &mut [Machine]) {
        for code in self.code.drain(..) {
            // SAFETY: as above; what differs stays each one's own.
            unsafe { machines[0].vcpus[0].share(code, false) };
        }
    }
}
