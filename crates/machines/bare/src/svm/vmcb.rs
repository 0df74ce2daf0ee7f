//! The virtual machine control block (AMD64 APM vol. 2, appendix B).

/// A control block; every field by its offset.
#[derive(Clone)]
#[repr(C, align(4096))]
pub(super) struct Vmcb([u64; 512]);

/// A field of 8 bytes.
#[derive(Clone, Copy)]
pub(super) struct Quad(pub usize);
/// A field of 4 bytes.
#[derive(Clone, Copy)]
pub(super) struct Long(pub usize);

/// Accesses to control registers: reads in the lower half, writes in the upper one.
pub(super) const REGISTER_INTERCEPTS: Long = Long(0x00);
/// Accesses to debug registers, in the same halves.
pub(super) const DEBUG_INTERCEPTS: Long = Long(0x04);
pub(super) const EXCEPTION_INTERCEPTS: Long = Long(0x08);
pub(super) const CONTROL_INTERCEPTS: Long = Long(0x0c);
pub(super) const MORE_INTERCEPTS: Long = Long(0x10);
pub(super) const IO_MAP: Quad = Quad(0x40);
pub(super) const MSR_MAP: Quad = Quad(0x48);
/// Byte offset of the TSC offset, for assembly.
pub(super) const TSC_OFFSET: usize = 0x50;
pub(super) const ASID: Long = Long(0x58);
pub(super) const VIRTUAL_INTERRUPT: Quad = Quad(0x60);
pub(super) const INTERRUPT_SHADOW: Quad = Quad(0x68);
pub(super) const EXIT_CODE: Quad = Quad(0x70);
pub(super) const EXIT_INFO_1: Quad = Quad(0x78);
pub(super) const EXIT_INFO_2: Quad = Quad(0x80);
pub(super) const EXIT_EVENT: Quad = Quad(0x88);
pub(super) const NESTED_PAGING: Quad = Quad(0x90);
pub(super) const EVENT: Quad = Quad(0xa8);
pub(super) const NESTED_CR3: Quad = Quad(0xb0);

const SAVE: usize = 0x400;
pub(super) const CPL: Long = Long(SAVE + 0xc8); // byte 3 of it
pub(super) const EFER: Quad = Quad(SAVE + 0xd0);
pub(super) const CR4: Quad = Quad(SAVE + 0x148);
pub(super) const CR3: Quad = Quad(SAVE + 0x150);
pub(super) const CR0: Quad = Quad(SAVE + 0x158);
pub(super) const DR7: Quad = Quad(SAVE + 0x160);
pub(super) const DR6: Quad = Quad(SAVE + 0x168);
pub(super) const RFLAGS: Quad = Quad(SAVE + 0x170);
pub(super) const RIP: Quad = Quad(SAVE + 0x178);
pub(super) const RSP: Quad = Quad(SAVE + 0x1d8);
pub(super) const RAX: Quad = Quad(SAVE + 0x1f8);
pub(super) const KERNEL_GS_BASE: Quad = Quad(SAVE + 0x220);
pub(super) const CR2: Quad = Quad(SAVE + 0x240);
pub(super) const PAT: Quad = Quad(SAVE + 0x268);

/// A segment register, by its offset in the save area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Segment {
    Es = 0x00,
    Cs = 0x10,
    Ss = 0x20,
    Ds = 0x30,
    Fs = 0x40,
    Gs = 0x50,
    Gdtr = 0x60,
    Ldtr = 0x70,
    Idtr = 0x80,
    Tr = 0x90,
}

/// Contents of a segment register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentValue {
    pub selector: u16,
    /// Bits 40 to 47 and 52 to 55 of its descriptor.
    pub attributes: u16,
    pub limit: u32,
    pub base: u64,
}

impl Vmcb {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self([0; 512]))
    }

    /// Returns the control block's address, which is the physical one.
    pub(super) fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    // The processor reads and writes it behind the compiler's back, but only
    // during `enter`, which takes it by a pointer.
    pub(super) fn get(&self, field: Quad) -> u64 {
        self.0[field.0 / 8]
    }

    pub(super) fn set(&mut self, field: Quad, value: u64) {
        self.0[field.0 / 8] = value;
    }

    pub(super) fn get_long(&self, field: Long) -> u32 {
        (self.0[field.0 / 8] >> (field.0 % 8 * 8)) as u32
    }

    pub(super) fn set_long(&mut self, field: Long, value: u32) {
        let shift = field.0 % 8 * 8;
        let word = &mut self.0[field.0 / 8];
        *word = *word & !(0xffff_ffff << shift) | u64::from(value) << shift;
    }

    pub(super) fn segment(&self, segment: Segment) -> SegmentValue {
        let at = (SAVE + segment as usize) / 8;
        let low = self.0[at];
        SegmentValue {
            selector: low as u16,
            attributes: (low >> 16) as u16,
            limit: (low >> 32) as u32,
            base: self.0[at + 1],
        }
    }

    pub(super) fn set_segment(&mut self, segment: Segment, value: SegmentValue) {
        let at = (SAVE + segment as usize) / 8;
        self.0[at] = u64::from(value.selector)
            | u64::from(value.attributes) << 16
            | u64::from(value.limit) << 32;
        self.0[at + 1] = value.base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_their_neighbours() {
        let mut vmcb = Vmcb::new();
        vmcb.set_long(CONTROL_INTERCEPTS, 0x1234_5678);
        vmcb.set_long(MORE_INTERCEPTS, 0x9abc_def0);
        assert_eq!(vmcb.get(Quad(0x08)), 0x1234_5678 << 32);
        assert_eq!(vmcb.get(Quad(0x10)), 0x9abc_def0);
        let value = SegmentValue { selector: 8, attributes: 0xa9b, limit: 7, base: 0x55 };
        vmcb.set_segment(Segment::Cs, value);
        assert_eq!(vmcb.segment(Segment::Cs), value);
        assert_eq!(vmcb.get(Quad(0x410)), 7 << 32 | 0xa9b << 16 | 8);
        assert_eq!(vmcb.address() % 4096, 0);
    }
}
