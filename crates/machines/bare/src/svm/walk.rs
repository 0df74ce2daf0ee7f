//! Places of a guest's linear addresses: its own page tables.

use super::nested::Nested;
use super::vmcb::{Vmcb, CR0, CR3, CR4, EFER};

const PG: u64 = 1 << 31;
const PAE: u64 = 1 << 5;
const FIVE_LEVELS: u64 = 1 << 12;
const LMA: u64 = 1 << 10;
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
pub(super) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The guest-physical address of `linear`, and how many bytes follow it in its
/// page; `None` where the guest's tables have no such address, or are of a kind
/// that 64-bit kernels do not use.
pub(super) fn translate(vmcb: &Vmcb, nested: &Nested, linear: u64) -> Option<(u64, u64)> {
    translate_in(vmcb, nested, vmcb.get(CR3), linear)
}

/// Like [`translate`], in the process with this top page table.
pub(super) fn translate_in(
    vmcb: &Vmcb,
    nested: &Nested,
    process: u64,
    linear: u64,
) -> Option<(u64, u64)> {
    if vmcb.get(CR0) & PG == 0 {
        return Some((linear & 0xffff_ffff, 4096 - linear % 4096));
    }
    let long = vmcb.get(EFER) & LMA != 0;
    if !long || vmcb.get(CR4) & (PAE | FIVE_LEVELS) != PAE {
        return None;
    }
    // AMD64 APM vol. 2, 5.3.
    let mut table = process & ADDRESS;
    let mut shift = 39;
    loop {
        let entry = nested.word(table + (linear >> shift & 511) * 8)?;
        if entry & PRESENT == 0 {
            return None;
        }
        if shift == 12 || (shift <= 30 && entry & LARGE != 0) {
            let span = 1 << shift;
            let offset = linear & (span - 1);
            return Some((entry & ADDRESS & !(span - 1) | offset, 4096 - offset % 4096));
        }
        table = entry & ADDRESS;
        shift -= 9;
    }
}

/// 16 bytes at the guest's linear address, where they are in one page of memory.
pub(super) fn read_within_page(vmcb: &Vmcb, nested: &Nested, linear: u64) -> Option<[u8; 16]> {
    let (guest, room) = translate(vmcb, nested, linear)?;
    if room < 16 {
        return None;
    }
    nested.array(guest)
}

/// Copies from the guest's linear address on, as far as it is memory. Returns the number of bytes.
pub(super) fn read(vmcb: &Vmcb, nested: &Nested, linear: u64, into: &mut [u8]) -> usize {
    let mut done = 0;
    while done < into.len() {
        let at = linear.wrapping_add(done as u64);
        let Some((guest, room)) = translate(vmcb, nested, at) else { break };
        let length = (into.len() - done).min(room as usize);
        if !nested.read(guest, &mut into[done..done + length]) {
            break;
        }
        done += length;
    }
    done
}

/// Copies to the guest's linear address; whether all of it is memory.
pub(super) fn write(vmcb: &Vmcb, nested: &Nested, linear: u64, from: &[u8]) -> bool {
    let mut done = 0;
    while done < from.len() {
        let at = linear.wrapping_add(done as u64);
        let Some((guest, room)) = translate(vmcb, nested, at) else { return false };
        let length = (from.len() - done).min(room as usize);
        if !nested.write(guest, &from[done..done + length]) {
            return false;
        }
        done += length;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, align(4096))]
    struct Memory([u64; 4 * 512]);

    #[test]
    fn tables_are_walked_as_far_as_they_are_memory() {
        let mut memory = Box::new(Memory([0; 4 * 512]));
        memory.0[0] = 0x1000 | 3;
        memory.0[512] = 0x2000 | 3;
        memory.0[513] = 0x4000_0000 | 0x83;
        memory.0[1024] = 0x20_0000 | 0x83;
        memory.0[1025] = 0x3000 | 3;
        memory.0[1026] = 0x1234_5000 | 3; // a table outside memory
        memory.0[1536] = 0x7000 | 3;
        let mut nested = Nested::new();
        nested.map(0, memory.0.as_ptr() as u64, 0x4000).unwrap();
        let mut vmcb = Vmcb::new();
        vmcb.set(CR4, PAE);
        vmcb.set(EFER, LMA);
        let walk = |vmcb: &Vmcb, linear| translate(vmcb, &nested, linear).map(|found| found.0);
        assert_eq!(walk(&vmcb, 0x1_0000_1234), Some(0x1234));
        vmcb.set(CR0, PG);
        assert_eq!(walk(&vmcb, 0x1234), Some(0x20_1234));
        assert_eq!(walk(&vmcb, 0x20_0123), Some(0x7123));
        assert_eq!(walk(&vmcb, 0x4000_0123), Some(0x4000_0123));
        assert_eq!(walk(&vmcb, 0x20_1123), None);
        assert_eq!(walk(&vmcb, 0x40_0000), None);
        assert_eq!(walk(&vmcb, 1 << 40), None);
        vmcb.set(CR3, u64::MAX);
        assert_eq!(walk(&vmcb, 0), None);
    }
}
