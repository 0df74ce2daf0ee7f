//! The guest's CPUID on the bare machine.
//!
//! The list is a constant, so that results belong to the experiment and not to QEMU's version. It
//! has what QEMU 7.2's TCG and all later ones can do, without AVX and XSAVE, whose state need not
//! be kept at each exit then.
//!
//! Leaves and bits: AMD64 Architecture Programmer's Manual vol. 3 appendix E.

use kvm_bindings::{kvm_cpuid_entry2, CpuId};
use stasis_bare::svm::Leaf;
use stasis_layout::u32_at;

use crate::cpuid::filter;
use crate::pvclock::Reads;

/// `AuthenticAMD` in EBX, EDX, ECX.
const VENDOR: [u32; 3] = [0x6874_7541, 0x6974_6e65, 0x444d_4163];
/// Family 23, model 1, stepping 2: an EPYC of the first generation.
const SIGNATURE: u32 = 0x80_0f12;
/// KVM's signature and place of features (Linux, Documentation/virt/kvm/x86/cpuid.rst):
/// `KVMKVMKVM`.
const HYPERVISOR: [u32; 4] = [0x4000_0001, 0x4b4d_564b, 0x564b_4d56, 0x4d];
const INDEXED: u32 = 1;

const fn bits(list: &[u32]) -> u32 {
    let (mut bits, mut index) = (0, 0);
    while index < list.len() {
        bits |= 1 << list[index];
        index += 1;
    }
    bits
}

// FPU, DE, PSE, TSC, MSR, PAE, CX8, APIC, SEP, MTRR, PGE, CMOV, PAT, PSE36,
// CLFLUSH, MMX, FXSR, SSE, SSE2.
const BASIC_D: u32 = bits(&[0, 2, 3, 4, 5, 6, 8, 9, 11, 12, 13, 15, 16, 17, 19, 23, 24, 25, 26]);
// SSE3, PCLMULQDQ, SSSE3, CX16, SSE4.1, SSE4.2, MOVBE, POPCNT, AES.
const BASIC_C: u32 = bits(&[0, 1, 9, 13, 19, 20, 22, 23, 25]);
// FSGSBASE, SMEP, ADX, SMAP, CLFLUSHOPT.
const STRUCTURED_B: u32 = bits(&[0, 7, 19, 20, 23]);
// The same as BASIC_D where AMD repeats them, then SYSCALL, NX, 1 GiB pages,
// RDTSCP, long mode.
const EXTENDED_D: u32 = BASIC_D & bits(&[0, 2, 3, 4, 5, 6, 8, 9, 12, 13, 15, 16, 17, 23, 24])
    | bits(&[11, 20, 26, 27, 29]);
// LAHF in 64-bit mode, CR8 by LOCK, LZCNT, PREFETCHW.
const EXTENDED_C: u32 = bits(&[0, 4, 5, 8]);

fn entry(function: u32, index: Option<u32>, values: [u32; 4]) -> kvm_cpuid_entry2 {
    let [eax, ebx, ecx, edx] = values;
    kvm_cpuid_entry2 {
        function,
        index: index.unwrap_or(0),
        flags: if index.is_some() { INDEXED } else { 0 },
        eax,
        ebx,
        ecx,
        edx,
        ..Default::default()
    }
}

fn base() -> Vec<kvm_cpuid_entry2> {
    let [b, d, c] = VENDOR;
    let mut all = vec![
        entry(0, None, [0xd, b, c, d]),
        entry(1, None, [SIGNATURE, 8 << 8, BASIC_C, BASIC_D]), // lines of 64 bytes
        entry(6, None, [0; 4]),
        entry(7, Some(0), [0, STRUCTURED_B, 0, 0]),
        entry(0xb, Some(0), [0; 4]),
        entry(0xb, Some(1), [0; 4]),
        entry(0x4000_0000, None, HYPERVISOR),
        entry(0x4000_0001, None, [0; 4]),
        entry(0x8000_0000, None, [0x8000_0008, b, c, d]),
        entry(0x8000_0001, None, [SIGNATURE, 0, EXTENDED_C, EXTENDED_D]),
        entry(0x8000_0007, None, [0; 4]),
        // 48 bits of address, physical and linear.
        entry(0x8000_0008, None, [0x3030, 0, 0, 0]),
    ];
    let mut name = [0; 48];
    let text = b"Stasis";
    name[..text.len()].copy_from_slice(text);
    for (index, part) in name.chunks_exact(16).enumerate() {
        let words = [0, 4, 8, 12].map(|at| u32_at(part, at).unwrap_or(0));
        all.push(entry(0x8000_0002 + index as u32, None, words));
    }
    // Caches, as on the processor of this signature: 32 KiB for data, 64 KiB for
    // instructions, 512 KiB, and 8 MiB (leaves 8000_0005 and 8000_0006).
    all.push(entry(0x8000_0005, None, [0xff40_ff40, 0xff40_ff40, 0x2008_0140, 0x4004_0140]));
    all.push(entry(0x8000_0006, None, [0, 0x6400_6400, 0x0200_6140, 0x0040_9140]));
    all
}

/// CPUID's answers on processor `index` of `count`.
pub fn leaves(index: u32, count: u32, reads: Reads) -> Vec<Leaf> {
    let Ok(base) = CpuId::from_entries(&base()) else { return Vec::new() };
    let filtered = filter(&base, index, count, reads, false, true);
    let leaf = |entry: &kvm_cpuid_entry2| Leaf {
        function: entry.function,
        index: (entry.flags & INDEXED != 0).then_some(entry.index),
        values: [entry.eax, entry.ebx, entry.ecx, entry.edx],
    };
    filtered.as_slice().iter().map(leaf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_offered_that_would_bring_in_time_or_chance() {
        let leaves = leaves(1, 4, Reads::Mean);
        let values_of =
            |function| leaves.iter().find(|leaf| leaf.function == function).unwrap().values;
        assert_eq!(values_of(1)[1] >> 24, 1); // its APIC's number
        assert_ne!(values_of(1)[2] & bits(&[21, 24, 31]), 0);
        assert_eq!(values_of(1)[2] & bits(&[3, 26, 27, 28, 30]), 0); // MONITOR, XSAVE, AVX, RDRAND
        assert_eq!(values_of(7)[1] & bits(&[1, 5, 9, 18]), 0);
        assert_eq!(values_of(0x8000_0001)[2] & bits(&[2]), 0); // SVM
        assert_eq!(values_of(0xb)[3], 1);
        assert_eq!(values_of(0x8000_0008)[2] & 0xff, 3);
    }
}
