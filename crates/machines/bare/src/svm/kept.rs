//! A processor's state between two entries, kept for another to go on from.

use std::sync::atomic::Ordering;

use super::enter::{stasis_switch, Vectors};
use super::nested::Nested;
use super::shares::Own;
use super::vcpu::{Mtrr, Vcpu, CURRENT};
use super::vmcb::{Quad, Vmcb, IO_MAP, MSR_MAP};

/// The state of a processor that has left its guest.
pub struct KeptVcpu {
    vmcb: Box<Vmcb>,
    registers: [u64; 14],
    fs_base: u64,
    /// STAR, LSTAR, SFMASK.
    system_call: [u64; 3],
    vectors: Vectors,
    apic_base: u64,
    tsc_aux: u64,
    pat: u64,
    mtrr: Mtrr,
    window: bool,
    own: Own,
}

impl Vcpu {
    /// Returns the state of the processor, with the answer to its last exit applied. None while an
    /// interrupt is about to go in.
    ///
    /// # Safety
    /// On the bare machine only.
    pub unsafe fn keep(&mut self, nested: &Nested) -> Option<KeptVcpu> {
        if self.nmi || self.injected.is_some() || !self.finish(nested) {
            return None;
        }
        let own = self.vmcb.address();
        if CURRENT.load(Ordering::Relaxed) == own {
            // SAFETY: the control block is this value's, and the one that the processor holds.
            unsafe { stasis_switch(own, own, self.context.host_lstar) };
        }
        let context = &self.context;
        Some(KeptVcpu {
            vmcb: self.vmcb.clone(),
            registers: context.registers,
            fs_base: context.fs_base,
            system_call: [context.star, context.lstar, context.sfmask],
            vectors: context.vectors.clone(),
            apic_base: self.apic_base,
            tsc_aux: self.tsc_aux,
            pat: self.pat,
            mtrr: self.mtrr.clone(),
            window: self.window,
            own: self.own.clone(),
        })
    }

    /// Goes on from `kept`, the state of a processor of the same number.
    pub fn go_on_from(&mut self, kept: &KeptVcpu) {
        let own = |vmcb: &Vmcb, field: Quad| (field, vmcb.get(field));
        let maps = [own(&self.vmcb, IO_MAP), own(&self.vmcb, MSR_MAP)];
        self.vmcb.clone_from(&kept.vmcb);
        for (field, value) in maps {
            self.vmcb.set(field, value);
        }
        let context = &mut self.context;
        context.registers = kept.registers;
        context.fs_base = kept.fs_base;
        [context.star, context.lstar, context.sfmask] = kept.system_call;
        context.vectors.clone_from(&kept.vectors);
        (self.apic_base, self.tsc_aux, self.pat) = (kept.apic_base, kept.tsc_aux, kept.pat);
        self.mtrr.clone_from(&kept.mtrr);
        self.window = kept.window;
        self.own.clone_from(&kept.own);
        self.share_anew();
        self.clear_pending();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svm::LongMode;

    #[test]
    fn another_processor_goes_on_from_it_with_maps_of_its_own() {
        let mut one = Vcpu::new(0, Vec::new());
        one.start_in_long_mode(&LongMode { cr3: 0x1000, gdt: 0x2000, idt: 0 });
        one.set_registers(&std::array::from_fn(|number| number as u64 + 2));
        // SAFETY: nothing is entered: no control block is the processor's.
        let kept = unsafe { one.keep(&Nested::new()) }.unwrap();
        let mut other = Vcpu::new(0, Vec::new());
        let maps = [other.vmcb.get(IO_MAP), other.vmcb.get(MSR_MAP)];
        other.go_on_from(&kept);
        assert_eq!(other.registers(), one.registers());
        assert_eq!([other.vmcb.get(IO_MAP), other.vmcb.get(MSR_MAP)], maps);
        assert_ne!(other.vmcb.address(), one.vmcb.address());
        one.inject(0x30);
        // SAFETY: as above.
        assert!(unsafe { one.keep(&Nested::new()) }.is_none());
    }
}
