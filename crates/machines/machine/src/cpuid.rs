//! The guest's CPUID: the host's, less what would bring in time or randomness from outside, plus
//! the features of the user-space local APIC.
//!
//! Leaves and bits: AMD64 Architecture Programmer's Manual vol. 3 appendix E,
//! Intel SDM vol. 2A, CPUID.

use kvm_bindings::{kvm_cpuid_entry2, CpuId};

use crate::pvclock::Reads;
use crate::pveoi;

/// Makes the CPUID leaves of processor `index` of `count`, which read the time by `reads`.
///
/// `random` leaves RDRAND and RDSEED visible: they draw from outside. `counted`: time is counted in
/// instructions: features that only pay where string instructions are quick are hidden then.
pub fn filter(
    supported: &CpuId,
    index: u32,
    count: u32,
    reads: Reads,
    random: bool,
    counted: bool,
) -> CpuId {
    let mut cpuid = supported.clone();
    // Without INVPCID, Linux flushes global pages by writing CR4 twice, which
    // KVM emulates at some 10,000 ticks each, unseen by this program. Without
    // global pages it reloads CR3, which does not leave the guest.
    const INVPCID: u32 = 1 << 10;
    let global_pages =
        supported.as_slice().iter().any(|entry| entry.function == 7 && entry.ebx & INVPCID != 0);
    let width = count.next_power_of_two().trailing_zeros();
    for entry in cpuid.as_mut_slice() {
        match (entry.function, entry.index) {
            (1, _) => {
                entry.ebx = (entry.ebx & 0xffff) | index << 24 | (1 << width) << 16;
                clear(&mut entry.ecx, &[3, 5]); // MONITOR: idle must be HLT, which exits; VMX
                if !random {
                    clear(&mut entry.ecx, &[30]); // RDRAND
                }
                set(&mut entry.ecx, &[21, 24, 31]); // x2APIC, TSC deadline, hypervisor
                set(&mut entry.edx, &[9]); // APIC
                if !global_pages {
                    clear(&mut entry.edx, &[13]); // PGE
                }
                if count > 1 {
                    set(&mut entry.edx, &[28]); // HTT: several logical processors
                }
            }
            (6, _) => {
                entry.eax = 1 << 2; // ARAT: the timer runs in every idle state
                entry.ebx = 0;
                entry.ecx = 0;
            }
            (7, 0) => {
                clear(&mut entry.ebx, &[1]); // TSC_ADJUST: the TSC is the experiment's
                if !random {
                    clear(&mut entry.ebx, &[18]); // RDSEED
                }
                clear(&mut entry.ecx, &[5]); // WAITPKG: would idle without an exit
                if counted {
                    // ERMS, FSRM: one byte of a string is one instruction.
                    clear(&mut entry.ebx, &[9]);
                    clear(&mut entry.edx, &[4]);
                }
            }
            (0xa, _) => {
                // No performance counters: they would count host time.
                entry.eax = 0;
                entry.edx = 0;
            }
            (0xb | 0x1f, level) => topology(entry, level, index, count, width),
            (0x4000_0001, _) => {
                // Only those of KVM's own features are offered that this program makes: the others
                // want an APIC in the kernel.
                let clock = if count > 1 { reads.features() } else { 0 };
                entry.eax = pveoi::FEATURE | clock;
                entry.edx = 0;
            }
            (0x8000_0001, _) => {
                clear(&mut entry.ecx, &[2, 23, 24, 28]); // SVM, performance counters
                if !global_pages {
                    clear(&mut entry.edx, &[13]); // PGE
                }
            }
            // An invariant TSC; of several processors, each has its own.
            (0x8000_0007, _) if count == 1 => set(&mut entry.edx, &[8]),
            (0x8000_0007, _) => clear(&mut entry.edx, &[8]),
            (0x8000_0008, _) => {
                clear(&mut entry.ebx, &[4]); // RDPRU
                entry.ecx = width << 12 | (count - 1);
            }
            (0x8000_001e, _) => {
                entry.eax = index;
                entry.ebx = index; // one thread a core
                entry.ecx = 0;
            }
            _ => {}
        }
    }
    cpuid
}

// Each processor is a separate core in one package.
fn topology(entry: &mut kvm_cpuid_entry2, level: u32, index: u32, count: u32, width: u32) {
    const THREAD: u32 = 1 << 8;
    const CORE: u32 = 2 << 8;
    (entry.eax, entry.ebx, entry.ecx) = match level {
        0 => (0, 1, THREAD),
        1 => (width, count, 1 | CORE),
        _ => (0, 0, level),
    };
    entry.edx = index;
}

fn clear(register: &mut u32, bits: &[u32]) {
    for bit in bits {
        *register &= !(1 << bit);
    }
}

fn set(register: &mut u32, bits: &[u32]) {
    for bit in bits {
        *register |= 1 << bit;
    }
}
