//! The end of an interrupt without an exit: KVM's paravirtual EOI.
//!
//! A processor's guest names a word of its memory. While an interrupt is in service and none waits
//! behind it, the word allows the guest to end it by clearing the word instead of writing to its
//! local APIC. The guest's choice is looked up at its next exit, before anything else happens to
//! the APIC.
//!
//! Source: Linux, Documentation/virt/kvm/x86/msr.rst (MSR_KVM_PV_EOI_EN) and
//! cpuid.rst (KVM_FEATURE_PV_EOI).

use stasis_layout::{IntoBytes, U32};

use crate::apic::Apic;
use crate::memory::GuestMemory;

/// MSR that holds where a processor's word is.
pub const WORD: u32 = 0x4b56_4d04;
/// Its bit of CPUID leaf 0x4000_0001, EAX.
pub const FEATURE: u32 = 1 << 6;

const ENABLED: u64 = 1;
const MAY_SKIP: u32 = 1;

/// A processor's word.
#[derive(Debug, Default, Clone)]
pub struct PvEoi {
    /// Its address (guest-physical), if the guest has set it.
    word: Option<u64>,
    /// True if the guest may end the interrupt in service by it.
    offered: bool,
}

impl PvEoi {
    /// The processor writes [`WORD`].
    pub fn set_word(&mut self, value: u64) {
        let word = (value & ENABLED != 0).then_some(value & !3);
        *self = Self { word, offered: false };
    }

    /// Before an entry: sets in the word whether the guest may skip the EOI.
    pub fn offer(&mut self, apic: &Apic, memory: &GuestMemory) {
        let Some(word) = self.word else { return };
        let offer = apic.serves_one_alone();
        if offer != self.offered {
            let value = if offer { MAY_SKIP } else { 0 };
            // The guest reads that it may not where the word is not in memory.
            self.offered = memory.write(word, &value.to_le_bytes()).is_ok() && offer;
        }
    }

    /// After an exit: ends the interrupt in service if the guest has.
    pub fn take(&mut self, apic: &mut Apic, memory: &GuestMemory) {
        let (Some(word), true) = (self.word, self.offered) else { return };
        let mut value = U32::ZERO;
        let read = memory.read(word, value.as_mut_bytes());
        if read.is_ok() && value & MAY_SKIP == 0 {
            self.offered = false;
            apic.end_of_interrupt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: u64 = 0x5000;

    #[test]
    fn an_interrupt_ends_by_the_word_only_where_none_waits() {
        let memory = GuestMemory::new(1 << 20, 0).unwrap();
        let mut apic = Apic::new(0);
        apic.write(0x0f, 0x1ff, 0);
        let mut eoi = PvEoi::default();
        eoi.set_word(PLACE | ENABLED);
        let word = || {
            let mut value = [0; 4];
            memory.read(PLACE, &mut value).unwrap();
            u32::from_le_bytes(value)
        };
        eoi.offer(&apic, &memory);
        assert_eq!(word(), 0, "nothing is in service");
        apic.raise(0x41);
        apic.accept(0x41);
        eoi.offer(&apic, &memory);
        assert_eq!(word(), MAY_SKIP);
        // An exit in the midst of the handler changes nothing.
        eoi.take(&mut apic, &memory);
        assert!(apic.serves_one_alone());
        // Another interrupt comes: the guest has to report the end of the first one.
        apic.raise(0x42);
        eoi.offer(&apic, &memory);
        assert_eq!((word(), apic.pending()), (0, None));
        apic.end_of_interrupt();
        assert_eq!(apic.pending(), Some(0x42));
        apic.accept(0x42);
        eoi.offer(&apic, &memory);
        // The guest ends it.
        memory.write(PLACE, &[0; 4]).unwrap();
        eoi.take(&mut apic, &memory);
        eoi.take(&mut apic, &memory);
        apic.raise(0x41);
        assert_eq!(apic.pending(), Some(0x41), "nothing is in service");
    }

    #[test]
    fn a_word_outside_memory_offers_nothing() {
        let memory = GuestMemory::new(1 << 20, 0).unwrap();
        let mut apic = Apic::new(0);
        let mut eoi = PvEoi::default();
        eoi.set_word(u64::MAX);
        apic.raise(0x41);
        apic.accept(0x41);
        eoi.offer(&apic, &memory);
        eoi.take(&mut apic, &memory);
        assert!(apic.serves_one_alone());
    }
}
