//! The probe's guest: a few 64-bit instructions in 2 MiB of memory.

use kvm_bindings::{
    kvm_device_attr, kvm_regs, kvm_segment, kvm_userspace_memory_region, KVM_MAX_CPUID_ENTRIES,
    KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET,
};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

const MEMORY: usize = 2 << 20;
const PML4: usize = 0x1000;
const PDPT: usize = 0x2000;
const DIRECTORY: usize = 0x3000;
const CODE: usize = 0x4000;
const SUM: usize = 0x5000;
const TSC: usize = 0x5008;

/// `rax = A + B; [SUM] = rax; [TSC] = rdtsc; hlt`
const PROGRAM: [u8; 49] = [
    0x48, 0xb8, 0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, // mov rax, A
    0x48, 0xb9, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, // mov rcx, B
    0x48, 0x01, 0xc8, // add rax, rcx
    0x48, 0x89, 0x04, 0x25, 0x00, 0x50, 0x00, 0x00, // mov [SUM], rax
    0x0f, 0x31, // rdtsc
    0x48, 0xc1, 0xe2, 0x20, // shl rdx, 32
    0x48, 0x09, 0xd0, // or rax, rdx
    0x48, 0x89, 0x04, 0x25, 0x08, 0x50, 0x00, 0x00, // mov [TSC], rax
    0xf4, // hlt
];
const A: u64 = 0x1234_5678_9abc_def0;
const B: u64 = 0x1111_1111_1111_1111;

/// The step by which the guest's clock is set forward: far more than passes
/// between two runs, 2^40 ticks being minutes.
const STEP: u64 = 1 << 40;

/// `KVM_SET_DEVICE_ATTR`, `_IOW(0xae, 0xe1, struct kvm_device_attr)`
/// (include/uapi/linux/kvm.h); kvm-ioctls offers it on other processors only.
const SET_DEVICE_ATTR: libc::c_ulong =
    1 << 30 | (size_of::<kvm_device_attr>() as libc::c_ulong) << 16 | 0xae << 8 | 0xe1;

/// Runs the guest twice and checks its sum and its clock.
pub(super) fn run() -> Result<(), String> {
    let failed = |step: &'static str| move |error| format!("{step} failed: {error}");
    let kvm = Kvm::new().map_err(failed("opening it"))?;
    let machine = kvm.create_vm().map_err(failed("KVM_CREATE_VM"))?;
    let memory = Memory::new()?;
    let region = kvm_userspace_memory_region {
        memory_size: MEMORY as u64,
        userspace_addr: memory.0.as_ptr() as u64,
        ..Default::default()
    };
    // SAFETY: the mapping is the guest's only; this process, a child that ends
    // right after, runs the guest no more once `memory` is dropped.
    unsafe { machine.set_user_memory_region(region) }
        .map_err(failed("KVM_SET_USER_MEMORY_REGION"))?;
    memory.write(PML4, &(PDPT as u64 | 3).to_le_bytes());
    memory.write(PDPT, &(DIRECTORY as u64 | 3).to_le_bytes());
    // One page of 2 MiB: present, writable, large.
    memory.write(DIRECTORY, &0x83u64.to_le_bytes());
    memory.write(CODE, &PROGRAM);

    let mut processor = machine.create_vcpu(0).map_err(failed("KVM_CREATE_VCPU"))?;
    let features = kvm
        .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
        .map_err(failed("KVM_GET_SUPPORTED_CPUID"))?;
    processor.set_cpuid2(&features).map_err(failed("KVM_SET_CPUID2"))?;
    long_mode(&processor).map_err(failed("setting up 64-bit mode"))?;
    let first = once(&mut processor, &memory, 0)?;
    let second = once(&mut processor, &memory, STEP)?;
    let passed = second.wrapping_sub(first);
    if !(STEP..2 * STEP).contains(&passed) {
        return Err("setting its guest's TSC offset has no effect".into());
    }
    Ok(())
}

/// Paging on, 64-bit code, flat segments (Intel SDM volume 3, 10.8.5 and
/// 3.4.5; AMD APM volume 2, 14.6).
fn long_mode(processor: &VcpuFd) -> Result<(), kvm_ioctls::Error> {
    let mut special = processor.get_sregs()?;
    let segment = |kind, long, selector| kvm_segment {
        limit: 0xffff_ffff,
        selector,
        type_: kind,
        present: 1,
        db: 1 - long,
        s: 1,
        l: long,
        g: 1,
        ..Default::default()
    };
    special.cs = segment(11, 1, 8);
    for data in [&mut special.ds, &mut special.es, &mut special.ss] {
        *data = segment(3, 0, 16);
    }
    special.cr3 = PML4 as u64;
    special.cr4 |= 1 << 5; // PAE
    special.cr0 |= 1 << 31 | 1; // PG, PE
    special.efer |= 1 << 10 | 1 << 8; // LMA, LME
    processor.set_sregs(&special)
}

/// Runs the program with the guest's TSC at `offset` from the host's, and
/// returns what it read.
fn once(processor: &mut VcpuFd, memory: &Memory, offset: u64) -> Result<u64, String> {
    let attribute = kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: &offset as *const u64 as u64,
        flags: 0,
    };
    // SAFETY: the descriptor is a vCPU's, the argument what this request takes.
    let set = unsafe { libc::ioctl(processor.as_raw_fd(), SET_DEVICE_ATTR, &attribute) };
    if set < 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!("it cannot set a guest's TSC offset: {error}"));
    }
    let registers = kvm_regs { rip: CODE as u64, rsp: 0x8000, rflags: 2, ..Default::default() };
    processor.set_regs(&registers).map_err(|error| format!("KVM_SET_REGS failed: {error}"))?;
    memory.write(SUM, &[0; 16]);
    match processor.run() {
        Ok(VcpuExit::Hlt) => {}
        Ok(exit) => return Err(format!("a 64-bit guest ends with {exit:?}")),
        Err(error) => return Err(format!("KVM_RUN failed: {error}")),
    }
    if memory.read(SUM) != A.wrapping_add(B) {
        return Err("a 64-bit guest computes a wrong sum".into());
    }
    Ok(memory.read(TSC))
}

/// The guest's memory.
struct Memory(NonNull<u8>);

impl Memory {
    fn new() -> Result<Self, String> {
        // SAFETY: a new anonymous mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                MEMORY,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(format!("no memory: {}", std::io::Error::last_os_error()));
        }
        NonNull::new(start.cast()).map(Self).ok_or_else(|| "no memory".into())
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= MEMORY);
        // SAFETY: within the mapping; the guest does not run meanwhile.
        unsafe { self.0.as_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn read(&self, at: usize) -> u64 {
        assert!(at + 8 <= MEMORY && at.is_multiple_of(8));
        // SAFETY: within the mapping and aligned; volatile as the guest wrote.
        unsafe { self.0.as_ptr().add(at).cast::<u64>().read_volatile() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { libc::munmap(self.0.as_ptr().cast(), MEMORY) };
    }
}
