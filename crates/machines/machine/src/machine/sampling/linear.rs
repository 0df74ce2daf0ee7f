//! The memory of a guest as one of its processors sees it.

use crate::memory::GuestMemory;
use crate::vcpu::DebugVcpu;

const PAGE: u64 = 4096;
/// Pages whose places are known, each in the place of its number's lowest bits.
const KNOWN: usize = 16;

/// Linear memory of a processor that is not in guest mode.
pub(in super::super) struct Linear<'a> {
    vcpu: &'a mut dyn DebugVcpu,
    memory: &'a GuestMemory,
    /// Pages that were read, linear and guest-physical.
    pages: [Option<(u64, u64)>; KNOWN],
}

/// Memory that is read by linear addresses.
pub(in super::super) trait Words {
    /// Fills `into` from `start` on; whether all was there.
    fn read(&mut self, start: u64, into: &mut [u8]) -> bool;

    /// The eight bytes at `at`.
    fn quad(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// The four bytes at `at`.
    fn long(&mut self, at: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }
}

impl<'a> Linear<'a> {
    pub(in super::super) fn new(vcpu: &'a mut dyn DebugVcpu, memory: &'a GuestMemory) -> Self {
        Self { vcpu, memory, pages: [None; KNOWN] }
    }
}

impl Words for Linear<'_> {
    fn read(&mut self, start: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let at = start.wrapping_add(done as u64);
            let (first, offset) = (at & !(PAGE - 1), at & (PAGE - 1));
            let known = &mut self.pages[(first / PAGE) as usize % KNOWN];
            if known.is_none_or(|(linear, _)| linear != first) {
                *known = self.vcpu.translate(None, first).map(|(address, _)| (first, address));
            }
            let Some((_, address)) = *known else { return false };
            let length = (into.len() - done).min((PAGE - offset) as usize);
            if self.memory.read(address + offset, &mut into[done..done + length]).is_err() {
                return false;
            }
            done += length;
        }
        true
    }
}
